//! Issues a certificate authority and leaves under it.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

use super::certificate::{Certificate, Validity};

/// Clocks differ: a certificate is valid from a little before it was issued.
const BACKDATED: Duration = Duration::minutes(5);

/// At most this part of a lifetime is put before it, so that a short one does not begin when it is nearly over.
const BACKDATED_AT_MOST_ONE_OF: i32 = 10;

/// How long a development certificate lasts.
const DEVELOPMENT_VALIDITY: Duration = Duration::days(365);

/// Why nothing could be issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The library refuses, for a name that is none, say.
    #[error("cannot issue a certificate: {0}")]
    Refused(#[from] rcgen::Error),
    /// The authority's certificate was issued for another key.
    #[error("the certificate of the authority does not belong to its key")]
    OtherKey,
}

/// A certificate authority with its key.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate in PEM.
    pub certificate: String,
    /// Its key in PEM.
    pub key: String,
    validity: Validity,
}

/// A leaf with its key.
pub struct Issued {
    /// In PEM.
    pub certificate: String,
    /// In PEM.
    pub key: String,
}

impl Validity {
    /// As long as this from now on, and a little before.
    #[must_use]
    pub fn starting(now: OffsetDateTime, lifetime: Duration) -> Self {
        let before = BACKDATED.min(lifetime / BACKDATED_AT_MOST_ONE_OF);
        Self { not_before: now - before, not_after: now + lifetime }
    }
}

impl Authority {
    /// An authority for a developer's machine or a demonstration.
    pub fn for_development() -> Result<Self, IssueError> {
        let validity = Validity::starting(OffsetDateTime::now_utc(), DEVELOPMENT_VALIDITY);
        Self::new("isvc-registrar development CA", validity)
    }

    /// An authority with a new key.
    pub fn new(common_name: &str, validity: Validity) -> Result<Self, IssueError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set(&mut params, validity);
        let certificate = params.self_signed(&key)?.pem();
        let key_pem = key.serialize_pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate, key: key_pem, validity })
    }

    /// An authority that was issued before.
    pub fn load(certificate: &Certificate, key: &str) -> Result<Self, IssueError> {
        let key_pair = KeyPair::from_pem(key)?;
        if !certificate.is_of(key_pair.public_key_raw()) {
            return Err(IssueError::OtherKey);
        }
        Ok(Self {
            issuer: Issuer::from_ca_cert_der(certificate.der(), key_pair)?,
            certificate: certificate.to_pem(),
            key: key.to_owned(),
            validity: certificate.validity(),
        })
    }

    /// From when until when it is valid.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// A leaf for a server of these names (DNS names, or addresses), as long as the authority itself.
    pub fn issue(&self, names: &[String]) -> Result<Issued, IssueError> {
        self.issue_for(names, self.validity)
    }

    /// A leaf for a server of these names. It never outlives the authority.
    pub fn issue_for(&self, names: &[String], validity: Validity) -> Result<Issued, IssueError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let not_after = validity.not_after.min(self.validity.not_after);
        set(&mut params, Validity { not_after, ..validity });
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued { certificate, key: key.serialize_pem() })
    }
}

fn set(params: &mut CertificateParams, validity: Validity) {
    params.not_before = validity.not_before;
    params.not_after = validity.not_after;
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("validity", &self.validity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pem: &str) -> Certificate {
        Certificate::all_from_pem(pem.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn an_authority_goes_on_where_it_left_off_and_no_leaf_outlives_it() {
        let now = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let made = Authority::new("a CA", Validity::starting(now, Duration::hours(1))).unwrap();
        let loaded = Authority::load(&read(&made.certificate), &made.key).unwrap();
        assert_eq!(loaded.certificate, made.certificate);
        let leaf =
            loaded.issue_for(&["a.example".into()], Validity::starting(now, Duration::hours(2))).unwrap();
        assert_eq!(read(&leaf.certificate).validity().not_after, now + Duration::hours(1));
    }

    #[test]
    fn an_authority_with_the_key_of_another_is_refused() {
        let (one, two) = (Authority::for_development().unwrap(), Authority::for_development().unwrap());
        let mixed = Authority::load(&read(&one.certificate), &two.key);
        assert!(matches!(mixed, Err(IssueError::OtherKey)), "{mixed:?}");
    }

    #[test]
    fn a_short_life_is_hardly_backdated() {
        let now = OffsetDateTime::UNIX_EPOCH;
        assert_eq!(Validity::starting(now, Duration::minutes(1)).not_before, now - Duration::seconds(6));
        assert_eq!(Validity::starting(now, Duration::days(90)).not_before, now - BACKDATED);
    }
}
