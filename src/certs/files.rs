//! A pair in two files that somebody else renews: cert-manager, OpenShift's service CA, a person.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::sign::CertifiedKey;

use super::{PairError, read_pair};

/// Why the files cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateFilesError {
    /// A file cannot be read.
    #[error("{path} cannot be read: {source}", path = path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// They were read, and are no pair.
    #[error("{path}: {source}", path = path.display())]
    NoPair {
        /// The certificate's file.
        path: PathBuf,
        /// Why.
        source: PairError,
    },
}

/// Where the pair is.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    /// The chain in PEM, leaf first.
    pub certificate: PathBuf,
    /// The key in PEM.
    pub key: PathBuf,
}

/// What the files held, to tell when they change.
#[derive(PartialEq, Eq)]
pub(super) struct Held {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateFiles {
    /// The pair in the files, if they hold something else than they did.
    pub(super) async fn load_if_changed(
        &self,
        held: &mut Option<Held>,
    ) -> Result<Option<Arc<CertifiedKey>>, CertificateFilesError> {
        let now = Held { certificate: read(&self.certificate).await?, key: read(&self.key).await? };
        if held.as_ref() == Some(&now) {
            return Ok(None);
        }
        let pair = read_pair(&now.certificate, &now.key)
            .map_err(|source| CertificateFilesError::NoPair { path: self.certificate.clone(), source })?;
        *held = Some(now);
        Ok(Some(pair))
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, CertificateFilesError> {
    let unreadable = |source| CertificateFilesError::Unreadable { path: path.to_owned(), source };
    tokio::fs::read(path).await.map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::issue::{Authority, Issued};

    fn write(directory: &Path, issued: &Issued) -> CertificateFiles {
        let files =
            CertificateFiles { certificate: directory.join("tls.crt"), key: directory.join("tls.key") };
        std::fs::write(&files.certificate, &issued.certificate).unwrap();
        std::fs::write(&files.key, &issued.key).unwrap();
        files
    }

    #[tokio::test]
    async fn a_renewed_pair_is_loaded_once_and_half_a_pair_never() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::for_development().unwrap();
        let (old, new) = (authority.issue(&["a".into()]).unwrap(), authority.issue(&["a".into()]).unwrap());
        let files = write(directory.path(), &old);
        let mut held = None;
        assert!(files.load_if_changed(&mut held).await.unwrap().is_some());
        assert!(files.load_if_changed(&mut held).await.unwrap().is_none(), "nothing has changed");

        std::fs::write(&files.certificate, &new.certificate).unwrap();
        for _ in 0..2 {
            assert!(files.load_if_changed(&mut held).await.is_err(), "the new leaf with the old key");
        }
        std::fs::write(&files.key, &new.key).unwrap();
        assert!(files.load_if_changed(&mut held).await.unwrap().is_some());

        std::fs::remove_file(&files.key).unwrap();
        let missing = files.load_if_changed(&mut held).await.unwrap_err().to_string();
        assert!(missing.contains("tls.key cannot be read"), "{missing}");
    }
}
