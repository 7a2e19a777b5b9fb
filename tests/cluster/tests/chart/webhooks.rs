//! The webhook configuration, as the API server stores it.

use isvc_registrar_test_cluster::ControlPlane;
use serde_json::Value;

use super::rendering::object;

/// The API server fills in defaults: a field that it adds would be a difference that Argo CD undoes for ever.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn the_api_server_adds_nothing() {
    let cluster = ControlPlane::shared().await.unwrap();
    let rendered = object("MutatingWebhookConfiguration", &[]).await.unwrap();

    let arguments = ["create", "--dry-run=server", "--output=json", "--filename=-"];
    let stored = cluster.kubectl_with(&arguments, &rendered.to_string()).await.unwrap().stdout().unwrap();

    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["webhooks"], rendered["webhooks"]);
}
