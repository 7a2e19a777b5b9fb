//! What users of the program see, on a real API server with the chart installed.
//!
//! Each file is one capability; `scene` is what they share. Most tests use one installation at the same time, each in
//! namespaces of its own; those that break something have a cluster of their own.
//!
//! `ISVC_REGISTRAR_TEST_REGISTRY=URL` runs them against another registry, whatever it holds; tests that stop their
//! registry use one of the cluster all the same.

mod admission;
#[path = "../../../python_client/environment.rs"]
mod environment;
mod gate;
mod main_job;
mod manifests;
mod policies;
mod python_client;
mod registries;
mod scene;
