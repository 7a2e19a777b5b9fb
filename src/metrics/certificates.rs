//! The certificate that the webhook serves.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use time::OffsetDateTime;

/// Tells when the served certificate ends, and what goes wrong on the way to the next.
#[derive(Debug, Clone, Default)]
pub struct CertificateMetrics {
    /// A family without labels: it is not there before the first certificate is, rather than zero, which would
    /// read as a certificate that ended in 1970.
    not_after: Family<[(&'static str, &'static str); 0], Gauge>,
    reloads: Counter,
    writes: Family<Write, Counter>,
    errors: Family<Error, Counter>,
}

/// What was written into the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CertificateWrite {
    /// A new authority.
    Authority,
    /// A new leaf.
    Leaf,
    /// A bundle without an authority that is over.
    Bundle,
    /// The bundle, into the webhook configuration.
    CaBundle,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CertificateError {
    /// The files hold no pair that can be served.
    Files,
    /// The Secret is missing, or something in it cannot be used.
    Secret,
    /// The API server does not answer, or refuses.
    Api,
    /// Somebody else keeps writing what this program writes.
    Contention,
}

impl CertificateError {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Files, Self::Secret, Self::Api, Self::Contention];
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Write {
    what: CertificateWrite,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Error {
    reason: CertificateError,
}

impl EncodeLabelValue for CertificateWrite {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Authority => "authority",
            Self::Leaf => "leaf",
            Self::Bundle => "bundle",
            Self::CaBundle => "ca_bundle",
        };
        EncodeLabelValue::encode(&name, encoder)
    }
}

impl EncodeLabelValue for CertificateError {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Files => "files",
            Self::Secret => "secret",
            Self::Api => "api",
            Self::Contention => "contention",
        };
        EncodeLabelValue::encode(&name, encoder)
    }
}

impl CertificateMetrics {
    /// Notes that a certificate is served from now on, and when it ends, as far as that is known.
    pub fn served(&self, not_after: Option<OffsetDateTime>) {
        match not_after {
            Some(not_after) => drop(self.not_after.get_or_create(&[]).set(not_after.unix_timestamp())),
            None => self.not_after.clear(),
        }
        self.reloads.inc();
    }

    /// Notes a write.
    pub fn wrote(&self, what: CertificateWrite) {
        self.writes.get_or_create(&Write { what }).inc();
    }

    /// How often that was written.
    #[must_use]
    pub fn writes(&self, what: CertificateWrite) -> u64 {
        self.writes.get_or_create(&Write { what }).get()
    }

    /// Notes that something went wrong.
    pub fn failed(&self, reason: CertificateError) {
        self.errors.get_or_create(&Error { reason }).inc();
    }

    /// How often that went wrong.
    #[must_use]
    pub fn errors(&self, reason: CertificateError) -> u64 {
        self.errors.get_or_create(&Error { reason }).get()
    }

    pub(super) fn register(&self, all: &mut Registry) {
        // There from the start: what begins with its first error has not increased in the eyes of Prometheus.
        for reason in CertificateError::ALL {
            drop(self.errors.get_or_create(&Error { reason }));
        }
        let help = "When the served certificate ends, in Unix time";
        all.register_with_unit("certificate_not_after", help, Unit::Seconds, self.not_after.clone());
        let help = "Certificates taken into service, the first of a process among them";
        all.register("certificate_reloads", help, self.reloads.clone());
        let help = "Writes of self-managed certificates, by what was written";
        all.register("certificate_writes", help, self.writes.clone());
        let help = "What went wrong with the certificate, by reason";
        all.register("certificate_errors", help, self.errors.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_certificate_is_told_once_there_is_one() {
        let metrics = crate::metrics::Metrics::default();
        let sample = "isvc_registrar_certificate_not_after_seconds ";
        assert!(!metrics.text().contains(sample), "{}", metrics.text());
        metrics.certificates.served(Some(OffsetDateTime::UNIX_EPOCH + time::Duration::DAY));
        metrics.certificates.failed(CertificateError::Secret);
        metrics.certificates.wrote(CertificateWrite::CaBundle);
        let text = metrics.text();
        for line in [
            "isvc_registrar_certificate_not_after_seconds 86400",
            "isvc_registrar_certificate_reloads_total 1",
            "isvc_registrar_certificate_errors_total{reason=\"secret\"} 1",
            "isvc_registrar_certificate_writes_total{what=\"ca_bundle\"} 1",
        ] {
            assert!(text.lines().any(|said| said == line), "{line} is not in\n{text}");
        }
    }
}
