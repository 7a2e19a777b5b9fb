//! Registers KServe InferenceServices in Kubeflow Model Registry at admission time.
//!
//! `main.rs` only parses; everything is here. Two things travel through the modules.
//!
//! **A review**, in the webhook: [`server`] accepts the connection with the certificate of [`certs`]; [`admission`]
//! reads the review, finds in its decision table what to ask, and answers; [`registration`] finds or creates the
//! entry, in the registry that [`registry::directory`] says is the object's, by [`registry::client`].
//!
//! **A change of an object**, in the syncer: [`syncer`] hears of it, compares object and entries by its own table,
//! and writes the difference by the same client; what the webhook missed it registers by [`registration`] too.
//!
//! [`audit`] looks at the same as the syncer does, once, for a person.
//!
//! What both read of an object is [`kserve::InferenceService`]; what both know of Namespaces is [`namespaces`].
//! [`demo`] runs all of it in one process, over [`registry::embedded`].

pub mod admission;
pub mod audit;
pub mod certs;
pub mod cli;
pub mod demo;
mod dns_name;
pub mod kserve;
pub mod metrics;
pub mod namespaced_name;
pub mod namespaces;
pub mod registration;
pub mod registry;
pub mod server;
pub mod syncer;
