//! Issues a certificate authority and leaves under it.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

/// Clocks differ: a certificate is valid from a little before it was issued.
const BACKDATED: Duration = Duration::minutes(5);

/// How long a development certificate lasts.
const DEVELOPMENT_VALIDITY: Duration = Duration::days(365);

/// Why nothing could be issued.
#[derive(Debug, thiserror::Error)]
#[error("cannot issue a certificate: {0}")]
pub struct IssueError(#[from] rcgen::Error);

/// A certificate authority with its key.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate in PEM.
    pub certificate: String,
    /// Its key in PEM.
    pub key: String,
    validity: Duration,
}

/// A leaf with its key.
pub struct Issued {
    /// In PEM.
    pub certificate: String,
    /// In PEM.
    pub key: String,
}

impl Authority {
    /// An authority for a developer's machine or a demonstration.
    pub fn for_development() -> Result<Self, IssueError> {
        Self::new("isvc-registrar development CA", DEVELOPMENT_VALIDITY)
    }

    /// An authority that is valid from now on, and so are its leaves.
    pub fn new(common_name: &str, validity: Duration) -> Result<Self, IssueError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        valid_for(&mut params, validity);
        let certificate = params.self_signed(&key)?.pem();
        let key_pem = key.serialize_pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate, key: key_pem, validity })
    }

    /// A leaf for a server of these names: DNS names, or addresses.
    pub fn issue(&self, names: &[String]) -> Result<Issued, IssueError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        valid_for(&mut params, self.validity);
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued { certificate, key: key.serialize_pem() })
    }
}

fn valid_for(params: &mut CertificateParams, validity: Duration) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - BACKDATED;
    params.not_after = now + validity;
}
