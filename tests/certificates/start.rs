//! The first certificate.

use axum::http::{Method, StatusCode};
use isvc_registrar::metrics::{CertificateError, CertificateWrite};
use serde_json::json;
use time::Duration;

use crate::api_server::{ApiServer, SECRET, configuration_path, secret_path};
use crate::clock::Hand;
use crate::replica::{NEVER, Replica, until};

#[tokio::test]
async fn two_replicas_on_an_empty_cluster_agree_on_one_authority() {
    let (api, hand) = (ApiServer::installed(), Hand::new());
    // Both see the Secret empty before either writes.
    api.let_meet(2);
    let (one, two) = (Replica::start(&api, &hand), Replica::start(&api, &hand));
    until("both are ready", || one.is_ready() && two.is_ready()).await;
    until("both serve the same", || one.served() == two.served()).await;

    let wrote = |what| one.metrics.writes(what) + two.metrics.writes(what);
    assert_eq!(wrote(CertificateWrite::Authority), 1);
    let refused = |write: &crate::api_server::Write| {
        write.method == Method::PUT && write.path == secret_path() && write.status == StatusCode::CONFLICT
    };
    assert!(api.writes().iter().any(refused), "the second authority was refused: {:?}", api.writes());
    for bundle in api.ca_bundles() {
        assert_eq!(bundle.authorities().len(), 1);
    }
}

#[tokio::test]
async fn an_installation_in_whatever_order_gets_its_certificate() {
    let (api, hand) = (ApiServer::empty(), Hand::new());
    // Nothing but the watches wakes this replica.
    let replica = Replica::start_looking_every(&api, &hand, NEVER);
    until("the missing Secret is noticed", || replica.metrics.errors(CertificateError::Secret) > 0).await;
    assert_eq!(api.writes(), [], "nothing is created");

    let complete = ApiServer::installed();
    let copy = |path: &str| api.put(path, complete.get(path).expect("installed"));
    copy(&secret_path());
    until("a certificate is served", || replica.served().is_some()).await;
    until("what is missing is named", || {
        replica.health.not_ready()
            == ["certificate: MutatingWebhookConfiguration registration.registrar does not exist"]
    })
    .await;
    copy(&configuration_path());
    until("it is ready", || replica.is_ready()).await;
}

#[tokio::test]
async fn a_replica_that_may_not_write_says_so_and_waits() {
    let (api, hand) = (ApiServer::installed(), Hand::new());
    api.refuse_writes(true);
    let replica = Replica::start(&api, &hand);
    until("the refusal is counted", || replica.metrics.errors(CertificateError::Api) > 1).await;
    assert_eq!(replica.health.not_ready(), ["certificate: no certificate is served yet"]);
    api.refuse_writes(false);
    until("it is ready", || replica.is_ready()).await;
}

#[tokio::test]
async fn an_installation_that_was_away_for_years_begins_anew() {
    let (api, hand) = (ApiServer::installed(), Hand::new());
    let replica = Replica::start(&api, &hand);
    until("it is ready", || replica.is_ready()).await;
    drop(replica);
    hand.advance(Duration::weeks(100));
    let replica = Replica::start(&api, &hand);
    until("it is ready again", || replica.is_ready()).await;
    for bundle in api.ca_bundles() {
        assert_eq!(bundle.authorities().len(), 1, "the old authority is over");
    }
}

#[tokio::test]
async fn nothing_but_the_certificates_is_written() {
    let (api, hand) = (ApiServer::installed(), Hand::new());
    api.edit(&secret_path(), |secret| {
        secret["metadata"]["labels"] = json!({"app": "registrar"});
        secret["data"] = json!({"mine": "bWluZQ=="});
    });
    let before = api.get(&configuration_path()).expect("installed");
    let replica = Replica::start(&api, &hand);
    until("it is ready", || replica.is_ready()).await;

    let secret = api.get(&secret_path()).expect("the Secret stays");
    assert_eq!(secret["metadata"]["name"], SECRET);
    assert_eq!(secret["metadata"]["labels"], json!({"app": "registrar"}));
    let keys: Vec<_> = secret["data"].as_object().expect("entries").keys().cloned().collect();
    assert_eq!(keys, ["ca.crt", "ca.key", "mine", "tls.crt", "tls.key"]);

    let mut after = api.get(&configuration_path()).expect("the configuration stays");
    after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    for webhook in after["webhooks"].as_array_mut().expect("webhooks") {
        webhook["clientConfig"].as_object_mut().expect("a client config").remove("caBundle");
    }
    assert_eq!(after, before);
}
