//! The certificate that the webhook serves: where it comes from, and how it is exchanged while it serves.
//!
//! Goes in: a pair in PEM, from files ([`Provided`]) or of the program's own ([`SelfManaged`]). Comes out: what rustls
//! serves with, and whether the API server trusts it. What stays true: a pair that cannot be used never replaces
//! one that can; nothing here logs a key.

mod api;
mod bundle;
mod certificate;
mod clock;
mod configuration;
mod files;
pub mod issue;
mod pair;
mod provided;
mod resolver;
pub mod self_managed;
mod serving;

pub use api::ApiError;
pub use bundle::{Bundle, Distrust};
pub use certificate::{Certificate, CertificateError, Validity};
pub use clock::Clock;
pub use configuration::{Configuration, NotTrusted};
pub use files::{CertificateFiles, CertificateFilesError};
pub use pair::{PairError, read_pair};
pub use provided::Provided;
pub use resolver::CertificateResolver;
pub use self_managed::SelfManaged;
pub use serving::{NotReady, Serving};
