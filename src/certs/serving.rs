//! What this replica serves, and whether the API server would trust it.
//!
//! Goes in: a pair to serve, and what is known of the live configuration. Comes out: the pair for rustls, the
//! metrics, and the part `certificate` of `/readyz`. What stays true: ready means that a call of the API server
//! would pass its verification now. Neither a registry nor another container has a say in it.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use time::OffsetDateTime;

use super::certificate::{Certificate, Validity};
use super::clock::Clock;
use super::configuration::{Configuration, NotTrusted};
use super::resolver::CertificateResolver;
use crate::metrics::CertificateMetrics;
use crate::server::Part;

/// What is known of the configuration that names this webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Live {
    /// No flag names one: whoever set it up vouches for it.
    NotNamed,
    /// It has not been read yet.
    NotRead(String),
    /// There is none.
    Missing(String),
    /// As it was at the last look.
    Known(Configuration),
}

/// Why a call of the API server would fail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// Nothing to show yet.
    #[error("no certificate is served yet")]
    NothingServed,
    /// The certificate is over.
    #[error("the served certificate expired at {0}")]
    Expired(OffsetDateTime),
    /// It is not known whom the API server trusts.
    #[error("MutatingWebhookConfiguration {0} has not been read yet")]
    NotRead(String),
    /// Nobody calls.
    #[error("MutatingWebhookConfiguration {0} does not exist")]
    NoConfiguration(String),
    /// The API server trusts somebody else.
    #[error(transparent)]
    NotTrusted(#[from] NotTrusted),
}

/// Serves a certificate and tells how that goes.
#[derive(Debug, Clone)]
pub struct Serving {
    resolver: Arc<CertificateResolver>,
    metrics: CertificateMetrics,
    part: Part,
    clock: Clock,
}

impl Serving {
    /// Serves through the resolver; tells the metrics and the part of health.
    #[must_use]
    pub fn new(
        resolver: Arc<CertificateResolver>,
        metrics: CertificateMetrics,
        part: Part,
        clock: Clock,
    ) -> Self {
        Self { resolver, metrics, part, clock }
    }

    /// The time that certificates are held against.
    pub(super) fn now(&self) -> OffsetDateTime {
        self.clock.now()
    }

    pub(super) fn metrics(&self) -> &CertificateMetrics {
        &self.metrics
    }

    /// Serves this pair from now on.
    pub(super) fn serve(&self, pair: Arc<CertifiedKey>) {
        let not_after = validity(&pair.cert).map(|validity| validity.not_after);
        self.resolver.serve(pair);
        self.metrics.served(not_after);
        tracing::info!(not_after = not_after.map(tracing::field::display), "serving a new certificate");
    }

    /// The chain that is served; empty before the first.
    pub(super) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.resolver.served().map(|pair| pair.cert.clone()).unwrap_or_default()
    }

    /// Says in `/readyz` what is wrong, if anything.
    pub(super) fn judge(&self, live: &Live) {
        match readiness(&self.chain(), live, self.now()) {
            Ok(()) => self.part.ready(),
            Err(reason) => self.part.not_ready(reason.to_string()),
        }
    }
}

/// From when until when the leaf is valid. A leaf that the parser here does not understand may still be one that
/// the verifier does.
fn validity(chain: &[CertificateDer<'static>]) -> Option<Validity> {
    let leaf = Certificate::from_der(chain.first()?.clone()).ok()?;
    Some(leaf.validity())
}

/// Whether a call would pass.
fn readiness(chain: &[CertificateDer<'static>], live: &Live, now: OffsetDateTime) -> Result<(), NotReady> {
    if chain.is_empty() {
        return Err(NotReady::NothingServed);
    }
    if let Some(validity) = validity(chain).filter(|validity| validity.is_over(now)) {
        return Err(NotReady::Expired(validity.not_after));
    }
    match live {
        Live::NotNamed => Ok(()),
        Live::NotRead(name) => Err(NotReady::NotRead(name.clone())),
        Live::Missing(name) => Err(NotReady::NoConfiguration(name.clone())),
        Live::Known(configuration) => Ok(configuration.trusts(chain, now)?),
    }
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use super::*;
    use crate::certs::issue::Authority;

    #[test]
    fn ready_means_that_a_call_would_pass() {
        let now = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let authority = Authority::new("CA", Validity::starting(now, Duration::HOUR)).unwrap();
        let leaf = authority.issue(&["a.ns.svc".into()]).unwrap();
        let chain: Vec<_> = Certificate::all_from_pem(leaf.certificate.as_bytes())
            .unwrap()
            .iter()
            .map(|leaf| leaf.der().clone())
            .collect();
        let said = |chain: &[CertificateDer<'static>], live: &Live, now| {
            readiness(chain, live, now).map_err(|reason| reason.to_string())
        };
        let refused = |reason: &str| Err(reason.to_owned());

        assert_eq!(said(&[], &Live::NotNamed, now), refused("no certificate is served yet"));
        assert_eq!(said(&chain, &Live::NotNamed, now), Ok(()));
        assert_eq!(
            said(&chain, &Live::NotNamed, now + Duration::DAY),
            refused("the served certificate expired at 2027-01-15 9:00:00.0 +00:00:00")
        );
        assert_eq!(
            said(&chain, &Live::NotRead("registrar".into()), now),
            refused("MutatingWebhookConfiguration registrar has not been read yet")
        );
        assert_eq!(
            said(&chain, &Live::Missing("registrar".into()), now),
            refused("MutatingWebhookConfiguration registrar does not exist")
        );
        let empty = Configuration::of(
            &k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration::default(),
        );
        assert_eq!(
            said(&chain, &Live::Known(empty), now),
            refused("the webhook configuration has no webhooks")
        );
    }
}
