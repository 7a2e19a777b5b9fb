//! Certificates that somebody else makes: cert-manager, OpenShift's service CA, a person.
//!
//! Goes in: two files, and the name of the webhook configuration if readiness is to be held against it. Comes out:
//! what is in the files is served. What stays true: a pair that cannot be used leaves the last good one in place;
//! nothing is ever written, neither the files nor the configuration.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::api::ConfigurationApi;
use super::files::{CertificateFiles, Held};
use super::serving::{Live, Serving};
use crate::metrics::CertificateError;

/// How often the files are looked at. Kubelet swaps a link above them, which no watch of the files would see; a
/// renewed certificate has days to be picked up.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// How often the configuration is read when its watch says nothing: a watch that has gone silent costs this much.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Serves what is in the files, for as long as it runs.
pub struct Provided {
    files: CertificateFiles,
    serving: Serving,
    configuration: Option<ConfigurationApi>,
    live: Live,
    held: Option<Held>,
    complaint: String,
}

impl Provided {
    /// Serves these files.
    #[must_use]
    pub fn new(files: CertificateFiles, serving: Serving) -> Self {
        Self {
            files,
            serving,
            configuration: None,
            live: Live::NotNamed,
            held: None,
            complaint: String::new(),
        }
    }

    /// Ready only when this configuration trusts what is served.
    #[must_use]
    pub fn trusted_by(self, client: &kube::Client, configuration: String) -> Self {
        let live = Live::NotRead(configuration.clone());
        Self { configuration: Some(ConfigurationApi::new(client, configuration)), live, ..self }
    }

    /// Serves, for ever.
    pub async fn run(mut self) -> Infallible {
        let changed = Notify::new();
        let configuration = self.configuration.clone();
        let mut watch = std::pin::pin!(async {
            match configuration {
                Some(configuration) => configuration.wake(&changed).await,
                None => std::future::pending().await,
            }
        });
        let mut read_at = Instant::now();
        loop {
            self.look_at_files().await;
            if Instant::now() >= read_at {
                self.read_configuration().await;
                read_at = Instant::now() + READ_AGAIN_AFTER;
            }
            self.serving.judge(&self.live);
            tokio::select! {
                // Polled by reference: dropping this arm drops nothing.
                never = &mut watch => match never {},
                // A notification that comes while nobody waits is kept for the next wait.
                () = changed.notified() => read_at = Instant::now(),
                // The next look starts a new pause whatever ended this one.
                () = tokio::time::sleep(LOOK_AGAIN_AFTER) => {}
            }
        }
    }

    async fn look_at_files(&mut self) {
        match self.files.load_if_changed(&mut self.held).await {
            Ok(None) => self.complaint.clear(),
            Ok(Some(pair)) => {
                self.complaint.clear();
                self.serving.serve(pair);
            }
            Err(error) => {
                self.serving.metrics().failed(CertificateError::Files);
                let error = error.to_string();
                if error != self.complaint {
                    tracing::warn!(error, "the certificate files cannot be used, the last good pair stays");
                    self.complaint = error;
                }
            }
        }
    }

    async fn read_configuration(&mut self) {
        let Some(configuration) = &self.configuration else { return };
        match configuration.read().await {
            Ok(Some(read)) => self.live = Live::Known(read),
            Ok(None) => self.live = Live::Missing(configuration.name().to_owned()),
            Err(error) => {
                self.serving.metrics().failed(CertificateError::Api);
                tracing::warn!(%error, "cannot tell whether the API server trusts the certificate");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::certs::issue::Authority;
    use crate::certs::{CertificateResolver, Clock};
    use crate::metrics::CertificateMetrics;
    use crate::server::Health;

    #[tokio::test]
    async fn the_last_good_pair_stays_and_both_log_and_metric_say_so() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let (health, metrics) = (Health::default(), CertificateMetrics::default());
        let resolver = Arc::new(CertificateResolver::default());
        let serving =
            Serving::new(Arc::clone(&resolver), metrics.clone(), health.part("certificate"), Clock::system());
        let files = CertificateFiles { certificate: path("tls.crt"), key: path("tls.key") };
        let mut provided = Provided::new(files, serving);

        provided.look_at_files().await;
        provided.serving.judge(&provided.live);
        assert_eq!(metrics.errors(CertificateError::Files), 1);
        assert_eq!(health.not_ready(), ["certificate: no certificate is served yet"]);

        let leaf = Authority::for_development().unwrap().issue(&["a".into()]).unwrap();
        std::fs::write(path("tls.crt"), &leaf.certificate).unwrap();
        std::fs::write(path("tls.key"), &leaf.key).unwrap();
        provided.look_at_files().await;
        provided.serving.judge(&provided.live);
        assert!(health.not_ready().is_empty(), "{:?}", health.not_ready());

        std::fs::write(path("tls.key"), "").unwrap();
        provided.look_at_files().await;
        provided.serving.judge(&provided.live);
        assert_eq!(metrics.errors(CertificateError::Files), 2);
        assert!(resolver.served().is_some());
        assert!(health.not_ready().is_empty(), "{:?}", health.not_ready());
    }
}
