//! Registers KServe InferenceServices in Kubeflow Model Registry at admission time.
//!
//! `main.rs` only parses; everything is here.

pub mod cli;
pub mod kserve;
pub mod registration;
pub mod registry;
pub mod syncer;
