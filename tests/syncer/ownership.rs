//! Whose entry is written, and whose never.

use serde_json::json;

use crate::scene::{CLUSTER, MODEL, NAMESPACE, Scene, labels, name, object, until};

/// An entry made through the registry's own API.
async fn post(scene: &Scene, entry_name: &str, properties: serde_json::Value) -> i32 {
    let http = reqwest::Client::new();
    let base = format!("{}/api/model_registry/v1", scene.server.url());
    let environment = match scene.client().environment(NAMESPACE).await.unwrap() {
        Some(environment) => environment.id,
        None => scene
            .client()
            .create_environment(NAMESPACE, isvc_registrar::registry::Connection::Kept)
            .await
            .unwrap(),
    };
    let body = json!({"name": entry_name, "registeredModelId": MODEL.to_string(),
        "servingEnvironmentId": environment, "customProperties": properties});
    let answer = http
        .post(format!("{base}/inference_services"))
        .header("content-type", "application/json")
        .body(body.to_string())
        .send()
        .await
        .unwrap();
    let entry: serde_json::Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
    entry["id"].as_str().unwrap().parse().unwrap()
}

fn text(value: &str) -> serde_json::Value {
    json!({"metadataType": "MetadataStringValue", "string_value": value})
}

/// A sign that everything before it has been looked at.
async fn everything_was_compared(scene: &Scene) {
    let lists = scene.source.lists();
    until("two resyncs are over", || scene.source.lists() >= lists + 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_the_go_controller_is_adopted_and_retired() {
    let scene = Scene::new().await;
    let stored = scene.objects.apply(object("scorer", &labels(Some(MODEL), None), &json!({}))).unwrap();
    let uid = stored["metadata"]["uid"].as_str().unwrap();
    let structured = json!({"metadataType": "MetadataStructValue", "struct_value": "eyJhIjoxfQ=="});
    let id =
        post(&scene, &format!("scorer/{uid}"), json!({"note": text("kept"), "limits": structured})).await;
    let running = scene.start();
    until("it is stamped", || {
        scene.entry(id).properties.get("cluster").is_some_and(|cluster| cluster == CLUSTER)
    })
    .await;
    assert_eq!(scene.entry(id).properties["note"], "kept");
    assert_eq!(scene.registry().entries().len(), 1, "no second entry is made");
    scene.objects.delete(&name("scorer"));
    until("it is retired", || scene.state(id) == "UNDEPLOYED").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_made_by_hand_is_adopted_only_by_the_object_that_names_it() {
    let scene = Scene::new().await;
    let named = post(&scene, "fraud in production", json!({})).await;
    let other = post(&scene, "fraud in testing", json!({})).await;
    scene.objects.apply(object("scorer", &labels(Some(MODEL), Some(named)), &json!({})));
    let running = scene.start();
    until("it is stamped", || scene.entry(named).properties.contains_key("uid")).await;
    everything_was_compared(&scene).await;
    assert!(scene.entry(other).properties.is_empty());
    assert_eq!(scene.state(other), "DEPLOYED");
    assert_eq!(scene.registry().entries().len(), 2);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_others_are_left_alone() {
    let mut scene = Scene::new().await;
    scene.settings.namespaces = vec![NAMESPACE.into()];
    let other_cluster = scene.admit_in("west", "scorer", MODEL).await;
    let by_hand = post(&scene, "by-hand", json!({})).await;
    let by_a_tool = post(&scene, "by-a-tool", json!({"managedBy": text("tool")})).await;
    let elsewhere = post(
        &scene,
        "elsewhere",
        json!({"managedBy": text("isvc-registrar"), "cluster": text(CLUSTER),
            "namespace": text("team-b"), "name": text("elsewhere")}),
    )
    .await;
    let ours = scene.admit("gone", MODEL).await;
    let running = scene.start();
    until("ours is retired", || scene.state(ours) == "UNDEPLOYED").await;
    everything_was_compared(&scene).await;
    for id in [other_cluster, by_hand, by_a_tool, elsewhere] {
        assert_eq!(scene.state(id), "DEPLOYED", "{:?}", scene.entry(id));
    }
    // Every PATCH was for the one that is ours.
    assert!(
        scene.patches().iter().all(|patch| patch.target.ends_with(&format!("/{ours}"))),
        "{:?}",
        scene.patches()
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_with_the_same_objects_keep_an_entry_each() {
    let scene = Scene::new().await;
    let west = scene.admit_in("west", "scorer", MODEL).await;
    let running = scene.start();
    let east = scene.create("scorer").await;
    assert_ne!(east, west);
    until("ours is settled", || scene.entry(east).properties.contains_key("uid")).await;
    scene.objects.delete(&name("scorer"));
    until("ours is retired", || scene.state(east) == "UNDEPLOYED").await;
    everything_was_compared(&scene).await;
    assert_eq!(scene.state(west), "DEPLOYED");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_that_names_a_stranger_s_entry_is_reported_and_changes_nothing() {
    let scene = Scene::new().await;
    let west = scene.admit_in("west", "other", MODEL).await;
    let before = scene.entry(west);
    let running = scene.start();
    scene.objects.apply(object("scorer", &labels(None, Some(west)), &json!({})));
    until("the users are told", || !scene.objects.notices().is_empty()).await;
    assert_eq!(scene.objects.notices()[0].1.reason.as_str(), "ForeignEntry");
    scene.objects.delete(&name("scorer"));
    everything_was_compared(&scene).await;
    assert_eq!(scene.entry(west), before);
    running.stop().await;
}
