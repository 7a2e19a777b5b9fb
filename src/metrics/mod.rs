//! What is counted and timed, by the conventions of Prometheus.
//!
//! Goes in: what happened, as plain enums. Comes out: the text for `/metrics`. What stays true: names begin with
//! `isvc_registrar_` and are listed in `docs/metrics.md`; labels have few values, none of them a user's text; no
//! allocation where a review is counted.

mod certificates;
mod registry;
mod reviews;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

pub use certificates::{CertificateError, CertificateMetrics, CertificateWrite};
pub use registry::{CallOutcome, RegistryMetrics};
pub use reviews::ReviewMetrics;

/// Begins every name.
const PREFIX: &str = "isvc_registrar";

/// All metrics of a process; cheap to clone, all clones count together.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// The certificate that is served.
    pub certificates: CertificateMetrics,
    /// Calls to registries.
    pub registry: RegistryMetrics,
    /// Admission reviews.
    pub reviews: ReviewMetrics,
    /// The syncer.
    pub syncer: crate::syncer::Metrics,
}

impl Metrics {
    /// The text that Prometheus reads.
    #[must_use]
    pub fn text(&self) -> String {
        let mut all = Registry::with_prefix(PREFIX);
        self.certificates.register(&mut all);
        self.registry.register(&mut all);
        self.reviews.register(&mut all);
        self.syncer.register(&mut all);
        let mut text = String::new();
        // Writing into a string cannot fail; if it did, half a page is better than none.
        let _ = encode(&mut text, &all);
        text
    }
}
