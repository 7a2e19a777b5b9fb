//! What has to be known of a certificate: how long it is valid, whether it is an authority, whose key it carries.
//!
//! Goes in: PEM or DER. Comes out: [`Certificate`]. What stays true: two are equal when their bytes are.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

/// A certificate is replaced when this part of its life is left: a third leaves weeks to notice that it fails.
const RENEWED_AT_ONE_OF: i32 = 3;

/// Characters in a line of PEM, by RFC 7468.
const PEM_LINE: usize = 64;

/// Why a certificate cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// No PEM, or broken off.
    #[error("not a certificate in PEM")]
    Pem,
    /// No X.509 certificate inside.
    #[error("not an X.509 certificate: {0}")]
    X509(String),
}

/// From when until when a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// From then on.
    pub not_before: OffsetDateTime,
    /// Until then.
    pub not_after: OffsetDateTime,
}

impl Validity {
    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self, now: OffsetDateTime) -> bool {
        now > self.not_after
    }

    /// Whether it has begun and is not over.
    #[must_use]
    pub fn includes(&self, now: OffsetDateTime) -> bool {
        now >= self.not_before && !self.is_over(now)
    }

    /// From when on the certificate should be replaced: once two thirds of its life are over.
    #[must_use]
    pub fn renewal(&self) -> OffsetDateTime {
        self.not_after - (self.not_after - self.not_before) / RENEWED_AT_ONE_OF
    }
}

/// A certificate that was read.
#[derive(Clone)]
pub struct Certificate {
    der: CertificateDer<'static>,
    validity: Validity,
    is_authority: bool,
    public_key: Vec<u8>,
}

impl Certificate {
    /// Reads one from DER.
    pub fn from_der(der: CertificateDer<'static>) -> Result<Self, CertificateError> {
        let malformed = |error: &dyn ToString| CertificateError::X509(error.to_string());
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| malformed(&error))?;
        let time = |seconds| OffsetDateTime::from_unix_timestamp(seconds).map_err(|error| malformed(&error));
        let validity = Validity {
            not_before: time(parsed.validity().not_before.timestamp())?,
            not_after: time(parsed.validity().not_after.timestamp())?,
        };
        let is_authority = parsed.is_ca();
        let public_key = parsed.public_key().subject_public_key.data.to_vec();
        Ok(Self { der, validity, is_authority, public_key })
    }

    /// Reads all certificates in a text, in their order; what stands between them is passed over.
    pub fn all_from_pem(pem: &[u8]) -> Result<Vec<Self>, CertificateError> {
        CertificateDer::pem_slice_iter(pem)
            .map(|der| der.map_err(|_| CertificateError::Pem).and_then(Self::from_der))
            .collect()
    }

    /// It in PEM.
    #[must_use]
    pub fn to_pem(&self) -> String {
        let encoded = STANDARD.encode(&self.der);
        let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(PEM_LINE));
            pem.push_str(line);
            pem.push('\n');
            rest = after;
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }

    /// Its bytes.
    #[must_use]
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// From when until when it is valid.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Whether it may sign others.
    #[must_use]
    pub fn is_authority(&self) -> bool {
        self.is_authority
    }

    /// Whether it was issued for this public key.
    #[must_use]
    pub fn is_of(&self, public_key: &[u8]) -> bool {
        self.public_key == public_key
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl Eq for Certificate {}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate")
            .field("validity", &self.validity)
            .field("is_authority", &self.is_authority)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::issue::Authority;

    #[test]
    fn a_certificate_is_read_and_written_as_it_was() {
        let authority = Authority::for_development().unwrap();
        let leaf = authority.issue(&["a.example".into()]).unwrap();
        let both = format!("{}# a leaf\n{}", authority.certificate, leaf.certificate);
        let read = Certificate::all_from_pem(both.as_bytes()).unwrap();
        assert_eq!(read.iter().map(Certificate::is_authority).collect::<Vec<_>>(), [true, false]);
        let again = Certificate::all_from_pem(read[1].to_pem().as_bytes()).unwrap();
        assert_eq!(again, read[1..]);
        assert_eq!(Certificate::all_from_pem(b"").unwrap(), []);
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let authority = Authority::for_development().unwrap().certificate;
        let half = &authority[..authority.len() / 2];
        assert_eq!(Certificate::all_from_pem(half.as_bytes()), Err(CertificateError::Pem));
        let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let read = Certificate::all_from_pem(empty.as_bytes());
        assert!(matches!(read, Err(CertificateError::X509(_))), "{read:?}");
    }

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_life() {
        let not_before = OffsetDateTime::UNIX_EPOCH;
        let validity = Validity { not_before, not_after: not_before + time::Duration::days(90) };
        assert_eq!(validity.renewal(), not_before + time::Duration::days(60));
        assert!(validity.includes(not_before));
        assert!(!validity.includes(not_before - time::Duration::seconds(1)));
        assert!(!validity.is_over(validity.not_after));
        assert!(validity.is_over(validity.not_after + time::Duration::seconds(1)));
    }
}
