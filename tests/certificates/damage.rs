//! What somebody damages is mended, and what is served is trusted all the while.

use isvc_registrar::certs::issue::Authority;
use isvc_registrar::metrics::{CertificateError, CertificateWrite};
use rstest::rstest;
use serde_json::{Value, json};

use crate::api_server::{ApiServer, configuration_path, secret_path};
use crate::clock::Hand;
use crate::replica::{NEVER, Replica, lifetimes, until};

fn set_ca_bundle(api: &ApiServer, value: &Value) {
    api.edit(&configuration_path(), |configuration| {
        configuration["webhooks"][1]["clientConfig"]["caBundle"] = value.clone();
    });
}

#[rstest]
#[case::wiped(Value::Null)]
#[case::emptied(json!(""))]
#[case::noise(json!("bm9pc2U="))]
#[case::half(json!("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSQ=="))]
#[case::foreign(json!(base64(&Authority::for_development().expect("an authority").certificate)))]
#[tokio::test]
async fn a_ca_bundle_that_is_not_ours_is_put_back(#[case] value: Value) {
    let (api, hand) = (ApiServer::installed(), Hand::new());
    // Nothing but the watches wakes this replica.
    let replica = Replica::start_looking_every(&api, &hand, NEVER);
    until("it is ready", || replica.is_ready()).await;
    let good = api.ca_bundles();
    let served = replica.served();

    set_ca_bundle(&api, &value);
    until("it is put back", || replica.metrics.writes(CertificateWrite::CaBundle) == 2).await;
    assert_eq!(api.ca_bundles(), good);
    until("it is ready again", || replica.is_ready()).await;
    assert_eq!(replica.served(), served);
    assert_eq!(replica.metrics.writes(CertificateWrite::Authority), 1, "the authority is the same");
}

#[rstest]
#[case::emptied(|secret: &mut Value| { secret.as_object_mut().map(|secret| secret.remove("data")); })]
#[case::noise(|secret: &mut Value| secret["data"]["ca.crt"] = json!("bm9pc2U="))]
#[case::half(|secret: &mut Value| secret["data"]["ca.key"] = json!(""))]
#[tokio::test]
async fn a_damaged_authority_is_replaced_and_the_last_good_pair_stays(#[case] damage: fn(&mut Value)) {
    let (api, hand) = (ApiServer::installed(), Hand::new());
    let (mut one, mut two) = (Replica::start(&api, &hand), Replica::start(&api, &hand));
    until("both are ready", || one.is_ready() && two.is_ready()).await;
    until("both serve the same", || one.served() == two.served()).await;
    let (served, bundle) = (one.served(), api.ca_bundles().remove(0));

    api.edit(&secret_path(), damage);
    until("the new bundle is published", || api.ca_bundles().iter().all(|now| now.authorities().len() == 2))
        .await;
    one.has_looked().await;
    two.has_looked().await;
    assert!(one.is_ready() && two.is_ready(), "{:?}", one.health.not_ready());
    assert_eq!((one.served(), two.served()), (served.clone(), served.clone()), "the last good pair stays");
    for now in api.ca_bundles() {
        assert_eq!(now.authorities()[1..], *bundle.authorities(), "the former authority stays trusted");
    }

    hand.advance(lifetimes().settling);
    until("the new leaf is served", || one.served() != served && one.served() == two.served()).await;
    assert!(one.is_ready() && two.is_ready());
}

#[rstest]
#[case::no_certificate("tls.crt", json!(""))]
#[case::noise("tls.crt", json!("bm9pc2U="))]
#[case::half_written("tls.key", json!("LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSQ=="))]
#[tokio::test]
async fn a_damaged_leaf_is_replaced_under_the_same_authority(
    #[case] key: &'static str,
    #[case] value: Value,
) {
    let (api, hand) = (ApiServer::installed(), Hand::new());
    let replica = Replica::start(&api, &hand);
    until("it is ready", || replica.is_ready()).await;
    // The bundle has been published for long when this happens.
    hand.advance(lifetimes().settling);
    let (served, good) = (replica.served(), api.ca_bundles());

    api.edit(&secret_path(), |secret| secret["data"][key] = value);
    until("a new leaf is served", || replica.served() != served).await;
    assert_eq!(replica.metrics.errors(CertificateError::Secret), 1);
    assert_eq!(replica.metrics.writes(CertificateWrite::Leaf), 2);
    assert_eq!(api.ca_bundles(), good, "the authority is the same");
    until("it is ready", || replica.is_ready()).await;
}

#[tokio::test]
async fn a_deleted_secret_leaves_the_last_good_pair_in_place() {
    let (api, hand) = (ApiServer::installed(), Hand::new());
    let mut replica = Replica::start(&api, &hand);
    until("it is ready", || replica.is_ready()).await;
    let served = replica.served();
    api.delete(&secret_path());
    until("it is noticed", || replica.metrics.errors(CertificateError::Secret) > 0).await;
    replica.has_looked().await;
    assert!(replica.is_ready());
    assert_eq!(replica.served(), served);
}

#[tokio::test]
async fn against_something_that_undoes_every_write_it_gives_up_for_a_while() {
    let (api, hand) = (ApiServer::installed(), Hand::new());
    let replica = Replica::start(&api, &hand);
    until("it is ready", || replica.is_ready()).await;
    let mut changes = api.changes();
    let rival = tokio::spawn({
        let api = api.clone();
        async move {
            loop {
                if api.ca_bundles().iter().any(|bundle| !bundle.authorities().is_empty()) {
                    api.edit(&configuration_path(), |configuration| {
                        for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
                            webhook["clientConfig"]["caBundle"] = Value::Null;
                        }
                    });
                }
                // Cancel-safe, and the only arm: what changed meanwhile is seen at once.
                if changes.changed().await.is_err() {
                    return;
                }
            }
        }
    });
    until("it gives up", || replica.metrics.errors(CertificateError::Contention) > 0).await;
    let written = api.writes().len();
    until("it keeps to it", || replica.metrics.errors(CertificateError::Contention) > 3).await;
    assert_eq!(api.writes().len(), written, "the clock stands still, so nothing more is written");
    rival.abort();
    assert!(rival.await.is_err_and(|ended| ended.is_cancelled()));
    hand.advance(time::Duration::MINUTE);
    until("it is ready again", || replica.is_ready()).await;
}

fn base64(text: &str) -> String {
    use ::base64::Engine;
    ::base64::engine::general_purpose::STANDARD.encode(text)
}
