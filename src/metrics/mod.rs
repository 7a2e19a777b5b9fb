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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use time::OffsetDateTime;

    use super::*;
    use crate::admission::{Operation, Outcome};

    /// A family without a sample is not exposed.
    fn with_one_of_each() -> Metrics {
        let metrics = Metrics { syncer: crate::syncer::Metrics::with_one_of_each(), ..Metrics::default() };
        metrics.certificates.served(Some(OffsetDateTime::UNIX_EPOCH));
        metrics.certificates.wrote(CertificateWrite::Leaf);
        metrics.registry.called(&http::Method::GET, CallOutcome::Ok, Duration::ZERO);
        metrics.reviews.answered(Operation::Create, Outcome::Registered, true, Duration::ZERO);
        metrics
    }

    /// Metrics and their types, as `/metrics` tells them.
    fn exposed() -> BTreeMap<String, String> {
        let text = with_one_of_each().text();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        types
            .map(|(name, kind)| {
                let end = if kind == "counter" { "_total" } else { "" };
                (format!("{name}{end}"), kind.to_owned())
            })
            .collect()
    }

    #[test]
    fn the_page_lists_every_metric_and_none_that_is_not_there() {
        let page = include_str!("../../docs/metrics.md");
        let rows = page.lines().filter_map(|line| {
            let (name, cells) = line.strip_prefix("| `")?.split_once("` | ")?;
            Some((name.to_owned(), cells.split(" | ").next()?.to_owned()))
        });
        let listed: BTreeMap<String, String> = rows.filter(|(name, _)| name.starts_with(PREFIX)).collect();
        assert_eq!(listed, exposed(), "docs/metrics.md on the left, /metrics on the right");
    }
}
