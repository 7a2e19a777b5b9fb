//! Find or create the entry of an object: used by the webhook, and by the syncer for what the webhook missed.
//!
//! Goes in: an object's place, the model and version it names, the id it carries. Comes out: its entry, or why it
//! has none. What stays true: one object has one entry for one model, however many replicas, retries and races
//! there are; nothing is created for a model that is not known to exist; no entry is ever changed here.

mod find_or_create;
pub mod identity;
pub mod naming;
mod outcome;
pub mod ownership;
mod registrar;
mod shared_call;

pub use identity::{ClusterId, ObjectName};
pub use outcome::{Archived, Effects, Invalid, NotRegistered, Origin, Registered, Wanted};
pub use registrar::Registrar;
