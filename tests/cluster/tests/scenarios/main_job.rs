//! The main job: an object has its entry from its first write on, and the entry says when the object is gone.

use anyhow::{Context, Result, ensure};
use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry, wait};
use serde_json::json;

use crate::scene::{ID, MODEL, QUICK, Scene, UNKNOWN_MODEL, label, refusal, service};

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_applied_object_has_its_entry_and_a_deleted_one_has_it_no_more() {
    let scene = Scene::set("main-job").await.unwrap();
    let model = scene.model().await.unwrap();

    let applied = scene.apply(&service("fraud", json!({MODEL: model}))).await.unwrap();

    let id = applied.id().unwrap();
    assert_eq!(applied.said, "", "kubectl has nothing to warn of");
    let entry = scene.entry(id).await.unwrap();
    assert_eq!(entry["desiredState"], "DEPLOYED");
    assert_eq!(entry["registeredModelId"], *model);
    let environment = entry["servingEnvironmentId"].as_str().unwrap();
    let environment = scene.registry.get(&format!("serving_environments/{environment}")).await.unwrap();
    assert_eq!(environment["name"], *scene.namespace);

    scene.delete("fraud").await.unwrap();
    scene.entry_becomes(id, "UNDEPLOYED").await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn one_create_is_one_write() {
    let scene = Scene::set("one-write").await.unwrap();
    let model = scene.model().await.unwrap();

    let applied = scene.apply(&service("fraud", json!({MODEL: model}))).await.unwrap();
    scene.settled(applied.id().unwrap()).await.unwrap();

    let log = scene.cluster.audit_log().unwrap();
    let writes: Vec<String> = log
        .iter()
        .filter(|event| event.object_ref.resource == "inferenceservices")
        .filter(|event| event.object_ref.namespace == scene.namespace)
        .filter(|event| !["get", "list", "watch"].contains(&event.verb.as_str()))
        .map(|event| format!("{} by {}", event.verb, event.user.username))
        .collect();
    assert_eq!(writes.len(), 1, "the object is written once, by its creator: {writes:?}");
    assert!(writes[0].starts_with("create by "), "{writes:?}");
    let stored = scene.stored("fraud").await.unwrap();
    assert_eq!(stored["metadata"]["resourceVersion"], applied.object["metadata"]["resourceVersion"]);
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_unknown_model_is_refused_in_one_sentence() {
    let scene = Scene::set("unknown").await.unwrap();

    let manifest = service("fraud", json!({MODEL: UNKNOWN_MODEL}));
    let refused = refusal(scene.kubectl_with(&["apply"], &manifest).await.unwrap()).unwrap();

    let sentence = format!(
        "admission webhook \"register.modelregistry.kubeflow.org\" denied the request: registered model \
         {UNKNOWN_MODEL} does not exist in {}: set label {MODEL} to the id of a registered model",
        scene.registry.name()
    );
    assert!(refused.contains(&sentence), "expected {sentence}\nkubectl says {refused}");
    let stored = scene.kubectl(&["get", "isvc"]).await.unwrap();
    assert!(stored.stdout.is_empty(), "{stored:?}");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_deletion_that_no_syncer_saw_is_made_up_for() {
    let cluster = ControlPlane::start().await.unwrap();
    let registry = Registry::start(&cluster).await.unwrap();
    let mut installation = Installation::install(&cluster, &registry, &QUICK).await.unwrap();
    let scene = Scene::of(&cluster, &registry, "missed").await.unwrap();
    let model = scene.model().await.unwrap();
    let deleted = scene.apply(&service("deleted", json!({MODEL: model}))).await.unwrap();
    let kept = scene.apply(&service("kept", json!({MODEL: model}))).await.unwrap();
    scene.settled(deleted.id().unwrap()).await.unwrap();
    scene.settled(kept.id().unwrap()).await.unwrap();

    installation.upgrade(&["replicas=0"]).await.unwrap();
    scene.delete("deleted").await.unwrap();
    let entry = scene.entry(deleted.id().unwrap()).await.unwrap();
    assert_eq!(entry["desiredState"], "DEPLOYED", "nobody is there to say otherwise");
    installation.upgrade(&["replicas=1"]).await.unwrap();

    scene.entry_becomes(deleted.id().unwrap(), "UNDEPLOYED").await.unwrap();
    let entry = scene.entry(kept.id().unwrap()).await.unwrap();
    assert_eq!(entry["desiredState"], "DEPLOYED", "its object is still there");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn without_a_registry_an_object_goes_through_and_is_registered_later() {
    let cluster = ControlPlane::start().await.unwrap();
    let registry = Registry::of_cluster(&cluster).await.unwrap();
    Installation::install(&cluster, &registry, &QUICK).await.unwrap();
    let scene = Scene::of(&cluster, &registry, "away").await.unwrap();
    let model = scene.model().await.unwrap();

    registry.stop(&cluster).await.unwrap();
    let applied = scene.apply(&service("fraud", json!({MODEL: model}))).await.unwrap();

    let warning = format!("Warning: not registered now, it will be later: {} ", registry.name());
    assert!(applied.said.starts_with(&warning), "expected {warning}…\nkubectl says {}", applied.said);
    assert_eq!(label(&applied.object, ID), None);

    registry.restart(&cluster).await.unwrap();
    // It has come back empty.
    let again = scene.model().await.unwrap();
    assert_eq!(again, model, "a new registry counts from the start");
    let entry = wait::until("the syncer registers the object", async || {
        scene.entries(&model).await?.pop().context("the model has no entry")
    })
    .await
    .unwrap();
    assert_eq!((&entry["name"], &entry["desiredState"]), (&json!("fraud"), &json!("DEPLOYED")));
    let stored = scene.stored("fraud").await.unwrap();
    assert_eq!(label(&stored, ID), None, "a label now would start the pods a second time");
    events_say(&scene, &["RegistryUnavailable", "Registered"]).await.unwrap();
}

/// Waits until the Events about the namespace's objects have these reasons among them.
async fn events_say(scene: &Scene<'_>, reasons: &[&str]) -> Result<()> {
    wait::until(&format!("Events say {reasons:?}"), async || {
        let output = "--output=jsonpath={.items[*].reason}";
        let events = scene.kubectl(&["get", "events", output]).await?.stdout()?;
        let missing: Vec<_> = reasons.iter().filter(|reason| !events.contains(*reason)).collect();
        ensure!(missing.is_empty(), "there are {events:?}");
        Ok(())
    })
    .await
}
