//! Certificates that somebody else makes, held against a configuration that somebody else keeps.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use isvc_registrar::certs::issue::Authority;
use isvc_registrar::certs::{CertificateFiles, CertificateResolver, Clock, Provided, Serving};
use isvc_registrar::metrics::CertificateMetrics;
use isvc_registrar::server::Health;
use serde_json::json;

use crate::api_server::{ApiServer, CONFIGURATION, configuration_path};
use crate::replica::{SERVER_NAME, until};

#[tokio::test]
async fn it_is_ready_while_the_configuration_trusts_the_files_and_writes_neither() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let api = ApiServer::installed();
    let directory = tempfile::tempdir().expect("a directory");
    let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
    let authority = Authority::for_development().expect("an authority");
    let leaf = authority.issue(&[SERVER_NAME.into()]).expect("a leaf");
    std::fs::write(&certificate, &leaf.certificate).expect("a file");
    std::fs::write(&key, &leaf.key).expect("a file");

    let health = Health::default();
    let resolver = Arc::new(CertificateResolver::default());
    let part = health.part("certificate");
    let serving = Serving::new(Arc::clone(&resolver), CertificateMetrics::default(), part, Clock::system());
    let provided = Provided::new(CertificateFiles { certificate, key }, serving)
        .trusted_by(&api.client(), CONFIGURATION.into());
    let task = tokio::spawn(provided.run());

    let says = |text: &str| health.not_ready().iter().any(|reason| reason.contains(text));
    until("the missing bundle is named", || says("holds no certificate authority")).await;
    let set = |pem: &str| {
        api.edit(&configuration_path(), |configuration| {
            for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
                webhook["clientConfig"]["caBundle"] = json!(STANDARD.encode(pem));
            }
        });
    };
    set(&authority.certificate);
    until("it is ready", || health.not_ready().is_empty()).await;
    set(&Authority::for_development().expect("an authority").certificate);
    until("the foreign bundle is named", || says("does not trust the served certificate")).await;
    assert_eq!(api.writes(), []);
    task.abort();
}
