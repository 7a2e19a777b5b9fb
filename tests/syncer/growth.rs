//! The cost follows what changed, not what ever was: the registry never forgets an entry.

use std::fmt::Write;
use std::time::Duration;

use serde_json::json;

use crate::scene::{CLUSTER, MODEL, NAMESPACE, Scene, name, until};

/// More than a page of a list.
const RETIRED: usize = 1_200;

/// Retired entries of this cluster, as years of use leave them.
async fn seed(scene: &Scene) {
    let text = |value: &str| json!({"metadataType": "MetadataStringValue", "string_value": value});
    let environment = scene
        .client()
        .create_environment(NAMESPACE, isvc_registrar::registry::Connection::Kept)
        .await
        .unwrap();
    let mut lines = String::new();
    for at in 0..RETIRED {
        let body = json!({"name": format!("old-{at}"), "registeredModelId": MODEL.to_string(),
            "servingEnvironmentId": environment.to_string(), "desiredState": "UNDEPLOYED",
            "customProperties": {"managedBy": text("isvc-registrar"), "cluster": text(CLUSTER),
                "namespace": text(NAMESPACE), "name": text(&format!("old-{at}"))}});
        let line = json!({"method": "POST", "path": "/inference_services", "body": body});
        writeln!(lines, "{line}").unwrap();
    }
    scene.registry().seed(&lines).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resync_in_between_reads_only_what_has_changed() {
    let mut scene = Scene::new().await;
    scene.settings.full_resync = Duration::from_hours(1);
    seed(&scene).await;
    scene.set_clock_off(0);
    let live = scene.create("scorer").await;
    let running = scene.start();
    until("the entry is stamped", || scene.entry(live).properties.contains_key("uid")).await;
    let lists = || {
        let requests = scene.registry().requests().into_iter();
        requests.filter(|request| request.target.contains("inference_services?")).collect::<Vec<_>>()
    };
    until("everything was read", || lists().iter().any(|list| list.target.contains("LAST_UPDATE_TIME")))
        .await;
    scene.registry().clear_requests();
    until("three resyncs are over", || lists().len() >= 3).await;
    assert!(lists().iter().all(|list| !list.target.contains("nextPageToken")), "{:#?}", lists());
    // And what another writer does is found all the same.
    let url = format!("{}/api/model_registry/v1/inference_services/{live}", scene.server.url());
    let patch = reqwest::Client::new().patch(url).header("content-type", "application/json");
    patch.body(json!({"desiredState": "UNDEPLOYED"}).to_string()).send().await.unwrap();
    until("it is deployed again", || scene.state(live) == "DEPLOYED").await;
    scene.objects.delete(&name("scorer"));
    until("it is retired", || scene.state(live) == "UNDEPLOYED").await;
    running.stop().await;
}
