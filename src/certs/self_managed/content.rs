//! What the Secret holds: an authority, the bundle to trust, and a leaf.
//!
//! Goes in: the Secret's data. Comes out: what of it can be used, and why the rest cannot; and the entries that a
//! step writes. What stays true: whatever stands in the Secret, reading it never fails as a whole, and nothing of
//! it ends up in a message.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use rustls::sign::CertifiedKey;
use time::OffsetDateTime;

use crate::certs::bundle::{Bundle, Distrust};
use crate::certs::certificate::{Certificate, CertificateError};
use crate::certs::issue::{Authority, Issued};
use crate::certs::pair::{PairError, read_pair};

/// The bundle: the newest authority and those that were before it.
pub const CA_CERTIFICATES: &str = "ca.crt";
/// The newest authority's key.
pub const CA_KEY: &str = "ca.key";
/// The leaf that is served.
pub const CERTIFICATE: &str = "tls.crt";
/// Its key.
pub const KEY: &str = "tls.key";

/// So many former authorities stay trusted at most. One is the common case; without a limit, a Secret that
/// somebody empties again and again would make a `caBundle` that grows until the API server refuses it.
const MAX_FORMER: usize = 3;

/// Why something in the Secret cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// The chart renders the Secret empty.
    #[error("there is none yet")]
    Absent,
    /// One half is there.
    #[error("{0} is missing")]
    Half(&'static str),
    /// The authorities cannot be read.
    #[error("ca.crt: {0}")]
    Authorities(CertificateError),
    /// The key of the authority cannot be read, or is of none of them.
    #[error("ca.key cannot be read, or belongs to no authority in ca.crt")]
    AuthorityKey,
    /// The authority is over.
    #[error("the certificate authority expired at {0}")]
    Expired(OffsetDateTime),
    /// The leaf cannot be read.
    #[error("tls.crt and tls.key: {0}")]
    Pair(String),
    /// The leaf is not what the API server will ask for.
    #[error("the certificate in tls.crt: {0}")]
    Distrusted(Distrust),
}

/// What can be used of a Secret.
pub struct Content {
    /// The newest authority.
    pub authority: Result<Authority, Defect>,
    /// All authorities that can be read.
    pub bundle: Bundle,
    /// The leaf.
    pub leaf: Result<Leaf, Defect>,
}

/// A leaf that can be served.
pub struct Leaf {
    /// With its key.
    pub pair: Arc<CertifiedKey>,
    /// It alone.
    pub certificate: Certificate,
    /// Whether the newest authority issued it.
    pub of_newest: bool,
}

/// Entries of the Secret to write.
pub type Entries = Vec<(&'static str, String)>;

impl Content {
    /// Reads a Secret whose leaf has to be good for these names now.
    #[must_use]
    pub fn read(data: &BTreeMap<String, ByteString>, names: &[String], now: OffsetDateTime) -> Self {
        let read = Certificate::all_from_pem(entry(data, CA_CERTIFICATES));
        let authorities = read.as_deref().unwrap_or_default().iter().filter(|read| read.is_authority());
        let bundle = Bundle::of(authorities.cloned());
        let authority = match read {
            Ok(_) => authority(entry(data, CA_CERTIFICATES), entry(data, CA_KEY), &bundle, now),
            Err(error) => Err(Defect::Authorities(error)),
        };
        let newest = authority.as_ref().ok().map(|(certificate, _)| certificate.clone());
        let leaf = leaf(entry(data, CERTIFICATE), entry(data, KEY)).and_then(|(pair, certificate)| {
            let trusted_by =
                |bundle: &Bundle| names.iter().try_for_each(|name| bundle.trusts(&pair.cert, name, now));
            trusted_by(&bundle).map_err(Defect::Distrusted)?;
            let of_newest = newest.is_some_and(|newest| trusted_by(&Bundle::of([newest])).is_ok());
            Ok(Leaf { pair, certificate, of_newest })
        });
        Self { authority: authority.map(|(_, authority)| authority), bundle, leaf }
    }

    /// The bundle with a new authority in front, without those that are over. `known` are authorities that were
    /// trusted before, which the Secret may have lost.
    #[must_use]
    pub fn bundle_after(&self, new: &[Certificate], known: &Bundle, now: OffsetDateTime) -> Bundle {
        let former =
            Bundle::of([self.bundle.authorities(), known.authorities()].concat()).without_expired(now);
        Bundle::of(new.iter().chain(former.authorities().iter().take(MAX_FORMER)).cloned())
    }
}

/// What is written when there is a new authority. The leaf of the one before it stays until the new bundle is
/// published.
#[must_use]
pub fn entries_of_authority(authority: &Authority, bundle: &Bundle) -> Entries {
    vec![(CA_CERTIFICATES, bundle.to_pem()), (CA_KEY, authority.key.clone())]
}

/// What is written when an authority is dropped from the bundle.
#[must_use]
pub fn entries_of_bundle(bundle: &Bundle) -> Entries {
    vec![(CA_CERTIFICATES, bundle.to_pem())]
}

/// What is written when there is a new leaf.
#[must_use]
pub fn entries_of_leaf(leaf: Issued) -> Entries {
    vec![(CERTIFICATE, leaf.certificate), (KEY, leaf.key)]
}

fn entry<'a>(data: &'a BTreeMap<String, ByteString>, key: &str) -> &'a [u8] {
    data.get(key).map_or(&[], |ByteString(bytes)| bytes)
}

/// Nothing at all is not yet an error; one half without the other is.
fn both(one: (&'static str, &[u8]), other: (&'static str, &[u8])) -> Result<(), Defect> {
    match (one.1.is_empty(), other.1.is_empty()) {
        (false, false) => Ok(()),
        (true, true) => Err(Defect::Absent),
        (true, false) => Err(Defect::Half(one.0)),
        (false, true) => Err(Defect::Half(other.0)),
    }
}

fn authority(
    certificates: &[u8],
    key: &[u8],
    bundle: &Bundle,
    now: OffsetDateTime,
) -> Result<(Certificate, Authority), Defect> {
    both((CA_CERTIFICATES, certificates), (CA_KEY, key))?;
    let key = std::str::from_utf8(key).map_err(|_| Defect::AuthorityKey)?;
    let loaded = bundle.authorities().iter().find_map(|certificate| {
        Authority::load(certificate, key).ok().map(|authority| (certificate.clone(), authority))
    });
    let (certificate, authority) = loaded.ok_or(Defect::AuthorityKey)?;
    if certificate.validity().is_over(now) {
        return Err(Defect::Expired(certificate.validity().not_after));
    }
    Ok((certificate, authority))
}

fn leaf(certificate: &[u8], key: &[u8]) -> Result<(Arc<CertifiedKey>, Certificate), Defect> {
    both((CERTIFICATE, certificate), (KEY, key))?;
    let pair = read_pair(certificate, key).map_err(|error: PairError| Defect::Pair(error.to_string()))?;
    let first = pair.cert.first().cloned().ok_or_else(|| Defect::Pair(PairError::Certificate.to_string()))?;
    let certificate = Certificate::from_der(first).map_err(|error| Defect::Pair(error.to_string()))?;
    Ok((pair, certificate))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use time::Duration;

    use super::*;
    use crate::certs::certificate::Validity;

    const LIFETIME: Duration = Duration::hours(4);

    fn start() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()
    }

    fn names() -> Vec<String> {
        vec!["a.ns.svc".into(), "a.ns".into()]
    }

    fn new_authority() -> Authority {
        Authority::new("CA", Validity::starting(start(), LIFETIME)).unwrap()
    }

    fn bundle_of(authority: &Authority) -> Bundle {
        Bundle::from_pem(authority.certificate.as_bytes()).unwrap()
    }

    fn data(entries: impl IntoIterator<Item = Entries>) -> BTreeMap<String, ByteString> {
        let entries = entries.into_iter().flatten();
        entries.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).collect()
    }

    fn good() -> BTreeMap<String, ByteString> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let authority = new_authority();
        let leaf = authority.issue(&names()).unwrap();
        data([entries_of_authority(&authority, &bundle_of(&authority)), entries_of_leaf(leaf)])
    }

    fn read(data: &BTreeMap<String, ByteString>) -> Content {
        Content::read(data, &names(), start())
    }

    #[test]
    fn what_was_written_is_read() {
        let content = read(&good());
        assert!(content.authority.is_ok());
        assert!(content.leaf.unwrap().of_newest);
    }

    #[test]
    fn an_empty_secret_has_nothing_yet() {
        let blank = data([vec![(CA_CERTIFICATES, String::new()), (CERTIFICATE, String::new())]]);
        for empty in [BTreeMap::new(), blank] {
            let content = read(&empty);
            assert_eq!(content.authority.unwrap_err(), Defect::Absent);
            assert_eq!(content.leaf.err(), Some(Defect::Absent));
        }
    }

    #[rstest]
    #[case::no_certificate(CA_CERTIFICATES, None, "ca.crt is missing")]
    #[case::no_key(CA_KEY, None, "ca.key is missing")]
    #[case::noise(
        CA_CERTIFICATES,
        Some("noise"),
        "ca.key cannot be read, or belongs to no authority in ca.crt"
    )]
    #[case::broken_off(
        CA_CERTIFICATES,
        Some("-----BEGIN CERTIFICATE-----\nMII"),
        "ca.crt: not a certificate in PEM"
    )]
    #[case::noise_for_a_key(
        CA_KEY,
        Some("noise"),
        "ca.key cannot be read, or belongs to no authority in ca.crt"
    )]
    fn an_authority_that_is_damaged_is_not_used(
        #[case] key: &str,
        #[case] text: Option<&str>,
        #[case] message: &str,
    ) {
        let mut data = good();
        match text {
            Some(text) => data.insert(key.into(), ByteString(text.into())),
            None => data.remove(key),
        };
        assert_eq!(read(&data).authority.unwrap_err().to_string(), message);
    }

    #[rstest]
    #[case::no_certificate(CERTIFICATE, None, "tls.crt is missing")]
    #[case::no_key(KEY, None, "tls.key is missing")]
    #[case::noise(CERTIFICATE, Some("noise"), "tls.crt and tls.key: the certificate cannot be read")]
    #[case::noise_for_a_key(KEY, Some("noise"), "tls.crt and tls.key: the private key cannot be read")]
    fn a_leaf_that_is_damaged_is_not_used(
        #[case] key: &str,
        #[case] text: Option<&str>,
        #[case] message: &str,
    ) {
        let mut data = good();
        match text {
            Some(text) => data.insert(key.into(), ByteString(text.into())),
            None => data.remove(key),
        };
        let content = read(&data);
        assert!(content.authority.is_ok(), "the authority is not touched by it");
        let said = content.leaf.err().unwrap().to_string();
        assert!(said.starts_with(message), "{said}");
    }

    #[test]
    fn a_leaf_for_other_names_or_of_a_stranger_is_not_used() {
        let authority = new_authority();
        let with =
            |leaf| data([entries_of_authority(&authority, &bundle_of(&authority)), entries_of_leaf(leaf)]);
        let other = with(authority.issue(&["a.ns.svc".into()]).unwrap());
        assert!(matches!(read(&other).leaf, Err(Defect::Distrusted(_))), "one of two names");
        let stranger = with(new_authority().issue(&names()).unwrap());
        assert!(matches!(read(&stranger).leaf, Err(Defect::Distrusted(_))));
    }

    #[test]
    fn a_new_authority_leaves_the_leaf_of_the_one_before_it_usable() {
        let mut secret = good();
        let before = read(&secret);
        let new = new_authority();
        let bundle = before.bundle_after(bundle_of(&new).authorities(), &Bundle::default(), start());
        secret.extend(data([entries_of_authority(&new, &bundle)]));
        let after = read(&secret);
        assert_eq!(after.authority.unwrap().certificate, new.certificate);
        assert!(!after.leaf.unwrap().of_newest);
    }

    #[test]
    fn authorities_that_the_secret_lost_stay_trusted_but_not_without_end() {
        let [new, known] = [bundle_of(&new_authority()), bundle_of(&new_authority())];
        let empty = read(&BTreeMap::new());
        let bundle = empty.bundle_after(new.authorities(), &known, start());
        assert_eq!(bundle.authorities(), [new.authorities(), known.authorities()].concat());

        let many = Bundle::of((0..9).flat_map(|_| bundle_of(&new_authority()).authorities().to_vec()));
        let bundle = empty.bundle_after(new.authorities(), &many, start());
        assert_eq!(bundle.authorities().len(), 1 + MAX_FORMER);
        let over = start() + LIFETIME + Duration::SECOND;
        assert!(empty.bundle_after(new.authorities(), &many, over).is_same(&new));
    }

    #[test]
    fn an_authority_that_is_over_is_not_used() {
        let over = start() + LIFETIME + Duration::SECOND;
        let content = Content::read(&good(), &names(), over);
        assert_eq!(content.authority.unwrap_err(), Defect::Expired(start() + LIFETIME));
    }
}
