//! A certificate chain and its key, from PEM.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// Why a pair cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The certificate is no PEM, or there is none in it.
    #[error("the certificate cannot be read: give a chain in PEM, the leaf first")]
    Certificate,
    /// The key is no PEM, or there is none in it.
    #[error("the private key cannot be read: give one key in PEM, without a password")]
    Key,
    /// They do not belong together, or the key's kind is unknown.
    #[error("certificate and private key cannot be used together: {0}")]
    Mismatch(#[from] rustls::Error),
    /// No TLS provider is installed.
    #[error("no TLS provider is installed")]
    NoProvider,
}

/// Reads a chain and its key, and checks that they belong together.
pub fn read_pair(certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, PairError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|_| PairError::Certificate)?;
    if chain.is_empty() {
        return Err(PairError::Certificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| PairError::Key)?;
    let provider = CryptoProvider::get_default().ok_or(PairError::NoProvider)?;
    Ok(Arc::new(CertifiedKey::from_der(chain, key, provider)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::issue::Authority;

    #[test]
    fn a_pair_is_served_only_when_it_belongs_together() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let authority = Authority::for_development().unwrap();
        let one = authority.issue(&["a.example".into()]).unwrap();
        let two = authority.issue(&["a.example".into()]).unwrap();
        assert!(read_pair(one.certificate.as_bytes(), one.key.as_bytes()).is_ok());
        let mixed = read_pair(one.certificate.as_bytes(), two.key.as_bytes());
        assert!(matches!(mixed, Err(PairError::Mismatch(_))), "{mixed:?}");
        let half = &one.certificate.as_bytes()[..one.certificate.len() / 2];
        assert!(matches!(read_pair(half, one.key.as_bytes()), Err(PairError::Certificate)));
        assert!(matches!(read_pair(one.certificate.as_bytes(), b""), Err(PairError::Key)));
    }
}
