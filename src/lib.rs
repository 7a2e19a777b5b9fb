//! Registers KServe InferenceServices in Kubeflow Model Registry at admission time.
//!
//! `main.rs` only parses; everything is here.

pub mod admission;
pub mod certs;
pub mod cli;
pub mod kserve;
pub mod metrics;
pub mod namespaced_name;
pub mod namespaces;
pub mod registration;
pub mod registry;
pub mod server;
