//! A pair in two files that somebody else renews: cert-manager, OpenShift's service CA, a person.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{CertificateResolver, PairError, read_pair};

/// How often the files are looked at. Kubelet swaps a link above them, which no watch of the files would see; a
/// renewed certificate has days to be picked up.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(2);

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

impl CertificateFiles {
    /// Serves what is in the files now.
    pub async fn load(&self, resolver: &CertificateResolver) -> Result<Loaded, CertificateFilesError> {
        let read = async |path: &PathBuf| {
            let unreadable = |source| CertificateFilesError::Unreadable { path: path.clone(), source };
            tokio::fs::read(path).await.map_err(unreadable)
        };
        let loaded = Loaded { certificate: read(&self.certificate).await?, key: read(&self.key).await? };
        let no_pair = |source| CertificateFilesError::NoPair { path: self.certificate.clone(), source };
        resolver.serve(read_pair(&loaded.certificate, &loaded.key).map_err(no_pair)?);
        Ok(loaded)
    }

    /// Serves what comes into the files, for ever. What cannot be used is passed over, and said once.
    pub async fn follow(self, resolver: Arc<CertificateResolver>, mut loaded: Option<Loaded>) {
        let mut last_error = String::new();
        loop {
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
            let known = loaded.take();
            match self.load_if_changed(&resolver, known.as_ref()).await {
                Ok(None) => loaded = known,
                Ok(new) => {
                    tracing::info!(file = %self.certificate.display(), "serving a new certificate");
                    last_error.clear();
                    loaded = new;
                }
                Err(error) => {
                    let error = error.to_string();
                    if error != last_error {
                        tracing::warn!(
                            error,
                            "the certificate files cannot be used, the last good pair stays"
                        );
                        last_error = error;
                    }
                    loaded = known;
                }
            }
        }
    }

    async fn load_if_changed(
        &self,
        resolver: &CertificateResolver,
        known: Option<&Loaded>,
    ) -> Result<Option<Loaded>, CertificateFilesError> {
        let now = (tokio::fs::read(&self.certificate).await, tokio::fs::read(&self.key).await);
        if let (Ok(certificate), Ok(key), Some(known)) = (now.0, now.1, known)
            && certificate == known.certificate
            && key == known.key
        {
            return Ok(None);
        }
        self.load(resolver).await.map(Some)
    }
}

/// What the files held, to tell when they change.
pub struct Loaded {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::issue::{Authority, Issued};

    fn write(directory: &std::path::Path, issued: &Issued) -> CertificateFiles {
        let files =
            CertificateFiles { certificate: directory.join("tls.crt"), key: directory.join("tls.key") };
        std::fs::write(&files.certificate, &issued.certificate).unwrap();
        std::fs::write(&files.key, &issued.key).unwrap();
        files
    }

    #[tokio::test]
    async fn a_renewed_pair_is_served_and_half_a_pair_is_not() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::for_development().unwrap();
        let (old, new) = (authority.issue(&["a".into()]).unwrap(), authority.issue(&["a".into()]).unwrap());
        let resolver = CertificateResolver::default();
        let files = write(directory.path(), &old);
        let loaded = files.load(&resolver).await.unwrap();
        let first = resolver.served().unwrap();
        assert!(
            files.load_if_changed(&resolver, Some(&loaded)).await.unwrap().is_none(),
            "nothing has changed"
        );

        std::fs::write(&files.certificate, &new.certificate).unwrap();
        assert!(
            files.load_if_changed(&resolver, Some(&loaded)).await.is_err(),
            "the new leaf with the old key"
        );
        assert_eq!(resolver.served().unwrap().cert, first.cert, "the last good pair stays");

        std::fs::write(&files.key, &new.key).unwrap();
        assert!(files.load_if_changed(&resolver, Some(&loaded)).await.unwrap().is_some());
        assert_ne!(resolver.served().unwrap().cert, first.cert, "the new pair is served");
    }
}
