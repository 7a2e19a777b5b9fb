//! The certificate that the webhook serves: where it comes from, and how it is exchanged while it serves.
//!
//! Goes in: a pair in PEM, from files or newly issued. Comes out: what rustls serves with. What stays true: a pair
//! that cannot be used never replaces one that can; nothing here logs a key.

mod bundle;
mod certificate;
mod clock;
mod configuration;
mod files;
pub mod issue;
mod pair;
mod resolver;

pub use bundle::{Bundle, Distrust};
pub use certificate::{Certificate, CertificateError, Validity};
pub use clock::Clock;
pub use configuration::{Configuration, NotTrusted};
pub use files::CertificateFiles;
pub use pair::{PairError, read_pair};
pub use resolver::CertificateResolver;
