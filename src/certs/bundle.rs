//! The authorities that an API server trusts for a webhook: its `caBundle`.
//!
//! Goes in: PEM. Comes out: whether a chain is trusted for a name, by the rules of the API server. What stays
//! true: two bundles are the same when they trust the same authorities, in whatever order or layout.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName};
use time::OffsetDateTime;

use super::certificate::{Certificate, CertificateError};
use super::clock::unix_time;

/// Why a chain is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// The bundle cannot be read.
    #[error("its caBundle cannot be read: {0}")]
    Malformed(#[from] CertificateError),
    /// There is no authority in it that is valid now.
    #[error("its caBundle holds no certificate authority that is valid now")]
    Empty,
    /// There is nothing to hold against it.
    #[error("no certificate is served")]
    NothingServed,
    /// The name is none.
    #[error("{0:?} is no DNS name")]
    Name(String),
    /// The verifier says no.
    #[error("its caBundle does not trust the served certificate for {name}: {reason}")]
    Rejected {
        /// For which name.
        name: String,
        /// By the verifier.
        reason: String,
    },
}

/// Certificate authorities, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle(Vec<Certificate>);

impl Bundle {
    /// Reads one.
    pub fn from_pem(pem: &[u8]) -> Result<Self, CertificateError> {
        Certificate::all_from_pem(pem).map(Self)
    }

    /// One of these, each once.
    pub fn of(authorities: impl IntoIterator<Item = Certificate>) -> Self {
        let mut bundle = Self::default();
        for authority in authorities {
            if !bundle.0.contains(&authority) {
                bundle.0.push(authority);
            }
        }
        bundle
    }

    /// It in PEM, for a Secret or a `caBundle`.
    #[must_use]
    pub fn to_pem(&self) -> String {
        self.0.iter().map(Certificate::to_pem).collect()
    }

    /// Its authorities.
    #[must_use]
    pub fn authorities(&self) -> &[Certificate] {
        &self.0
    }

    /// Without those that are over.
    #[must_use]
    pub fn without_expired(&self, now: OffsetDateTime) -> Self {
        Self(self.0.iter().filter(|authority| !authority.validity().is_over(now)).cloned().collect())
    }

    /// Whether both trust the same authorities.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let within = |one: &Self, other: &Self| one.0.iter().all(|authority| other.0.contains(authority));
        within(self, other) && within(other, self)
    }

    /// Whether an API server with this bundle would accept a server of this name that shows this chain.
    pub fn trusts(
        &self,
        chain: &[CertificateDer<'_>],
        name: &str,
        now: OffsetDateTime,
    ) -> Result<(), Distrust> {
        let (leaf, intermediates) = chain.split_first().ok_or(Distrust::NothingServed)?;
        let server_name = ServerName::try_from(name).map_err(|_| Distrust::Name(name.to_owned()))?;
        let rejected =
            |error: &dyn ToString| Distrust::Rejected { name: name.to_owned(), reason: error.to_string() };
        let mut roots = RootCertStore::empty();
        // The API server holds its roots against the clock; this verifier does not.
        for root in self.0.iter().filter(|root| root.is_authority() && root.validity().includes(now)) {
            roots.add(root.der().clone()).map_err(|error| rejected(&error))?;
        }
        if roots.is_empty() {
            return Err(Distrust::Empty);
        }
        let verifier = match CryptoProvider::get_default() {
            Some(provider) => WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()),
            None => WebPkiServerVerifier::builder(Arc::new(roots)),
        };
        let verifier = verifier.build().map_err(|error| rejected(&error))?;
        verifier
            .verify_server_cert(leaf, intermediates, &server_name, &[], unix_time(now))
            .map(drop)
            .map_err(|error| rejected(&error))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use time::Duration;

    use super::*;
    use crate::certs::certificate::Validity;
    use crate::certs::issue::Authority;

    const LEAF_LIFETIME: Duration = Duration::hours(1);
    const AUTHORITY_LIFETIME: Duration = Duration::hours(4);

    fn start() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()
    }

    fn authority() -> (Authority, Bundle) {
        let authority = Authority::new("CA", Validity::starting(start(), AUTHORITY_LIFETIME)).unwrap();
        let bundle = Bundle::from_pem(authority.certificate.as_bytes()).unwrap();
        (authority, bundle)
    }

    fn leaf(authority: &Authority, lifetime: Duration) -> Vec<CertificateDer<'static>> {
        let leaf = authority.issue_for(&["a.ns.svc".into()], Validity::starting(start(), lifetime)).unwrap();
        let read = Certificate::all_from_pem(leaf.certificate.as_bytes()).unwrap();
        read.iter().map(|certificate| certificate.der().clone()).collect()
    }

    #[rstest]
    #[case::trusted("a.ns.svc", Duration::ZERO, None)]
    #[case::another_name("b.ns.svc", Duration::ZERO, Some("not valid for name"))]
    #[case::the_leaf_is_over("a.ns.svc", LEAF_LIFETIME + Duration::MINUTE, Some("expired"))]
    #[case::no_name("a b", Duration::ZERO, Some("no DNS name"))]
    fn a_leaf_is_trusted_for_its_name_while_it_lasts(
        #[case] name: &str,
        #[case] later: Duration,
        #[case] reason: Option<&str>,
    ) {
        let (authority, bundle) = authority();
        let trusted = bundle.trusts(&leaf(&authority, LEAF_LIFETIME), name, start() + later);
        match reason {
            None => assert_eq!(trusted, Ok(())),
            Some(reason) => {
                let said = trusted.unwrap_err().to_string();
                assert!(said.contains(reason), "{said}");
            }
        }
    }

    #[test]
    fn only_its_own_authority_vouches_for_a_leaf() {
        let (one, ones) = authority();
        let (_, twos) = authority();
        let chain = leaf(&one, LEAF_LIFETIME);
        assert!(twos.trusts(&chain, "a.ns.svc", start()).is_err());
        let both = Bundle::of([twos.authorities(), ones.authorities(), ones.authorities()].concat());
        assert_eq!(both.authorities().len(), 2);
        assert_eq!(both.trusts(&chain, "a.ns.svc", start()), Ok(()));
        assert_eq!(Bundle::default().trusts(&chain, "a.ns.svc", start()), Err(Distrust::Empty));
        assert_eq!(ones.trusts(&[], "a.ns.svc", start()), Err(Distrust::NothingServed));
        // A leaf is no authority, not even for itself.
        let itself = Bundle::of(chain.iter().cloned().map(|der| Certificate::from_der(der).unwrap()));
        assert_eq!(itself.trusts(&chain, "a.ns.svc", start()), Err(Distrust::Empty));
    }

    #[test]
    fn an_authority_that_is_over_vouches_for_nothing() {
        let (authority, bundle) = authority();
        let chain = leaf(&authority, AUTHORITY_LIFETIME);
        let over = start() + AUTHORITY_LIFETIME + Duration::SECOND;
        assert_eq!(bundle.trusts(&chain, "a.ns.svc", over), Err(Distrust::Empty));
        assert_eq!(bundle.without_expired(over), Bundle::default());
        assert_eq!(bundle.without_expired(start()), bundle);
    }

    #[test]
    fn order_and_layout_make_no_other_bundle() {
        let ((_, one), (_, two)) = (authority(), authority());
        let forwards = Bundle::from_pem(format!("{}{}", one.to_pem(), two.to_pem()).as_bytes()).unwrap();
        let backwards =
            Bundle::from_pem(format!("# CAs\n{}\n{}", two.to_pem(), one.to_pem()).as_bytes()).unwrap();
        assert!(forwards.is_same(&backwards));
        assert!(!forwards.is_same(&one));
        assert!(!one.is_same(&forwards));
    }
}
