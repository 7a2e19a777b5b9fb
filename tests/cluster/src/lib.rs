//! A real Kubernetes control plane on loopback, for the tests of isvc-registrar.
//!
//! etcd, kube-apiserver and kube-controller-manager are the real ones, built from their Go modules; so are kubectl and
//! helm. What a cluster has beside them is small and the suite's own: a kubelet that runs Pods as processes of this
//! machine, and a forwarder that makes cluster IPs work. No container engine, no network, no image; root is needed,
//! for mounts and for ports below 1024.
//!
//! ```no_run
//! # use anyhow::Result;
//! use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry};
//!
//! #[tokio::test]
//! #[ignore = "needs the test control plane: run tests/run"]
//! async fn a_label_is_there_from_the_first_write() -> Result<()> {
//!     let cluster = ControlPlane::start().await?;
//!     let registry = Registry::start(&cluster).await?;
//!     let installation = Installation::install(&cluster, &registry, &["registration.mode=enforce"]).await?;
//!     let namespace = cluster.namespace("first-write").await?;
//!     let run = cluster.kubectl(&["get", "isvc", "--namespace", &namespace]).await?;
//!     assert!(run.success, "{run:?}\n{}", installation.log("webhook")?);
//!     Ok(())
//! }
//! ```
//!
//! The way through the modules: `control_plane` is what tests use; it starts `processes` with `credentials` on
//! `addresses`, each on a `leash`, in a `work_dir`; on a `background` runtime it runs the `kubelet` (which asks `images`
//! for programs) and the `forwarder`. `recorder` is a webhook for tests of what the API server asks; `registry` and `installation`
//! bring up what the chart needs, and the chart.

mod addresses;
mod audit_log;
mod authority;
mod background;
mod commands;
mod control_plane;
mod credentials;
mod forwarder;
mod images;
mod installation;
mod kubelet;
mod leash;
mod processes;
mod recorder;
mod registry;
pub mod wait;
mod work_dir;
pub mod workspace;

pub use audit_log::{AuditEvent, AuditObject, AuditStatus, AuditUser};
pub use authority::{Authority, ServerCertificate};
pub use commands::Run;
pub use control_plane::ControlPlane;
pub use images::{Image, Images};
pub use installation::Installation;
pub use recorder::{Recorder, Review};
pub use registry::Registry;
