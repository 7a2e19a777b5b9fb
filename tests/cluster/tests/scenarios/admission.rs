//! What of the decision table only an API server can show: what it does before and after the webhook.

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use isvc_registrar_test_cluster::wait;
use serde_json::{Value, json};

use crate::scene::{ID, MODEL, Scene, UNKNOWN_MODEL, VERSION, label, refusal, service};

/// A merge patch of labels.
fn labels(labels: Value) -> Value {
    let mut patch = json!({"metadata": {}});
    patch["metadata"]["labels"] = labels;
    patch
}

/// An object that has a model and no id, as one has that was made without a name.
async fn without_id(scene: &Scene<'_>, model: &str) -> Result<String> {
    let mut manifest = service("", json!({MODEL: model}));
    manifest["metadata"] = json!({"generateName": "fraud-", "labels": {MODEL: model}});
    let created = scene.create(&manifest).await?;
    Ok(created.object["metadata"]["name"].as_str().context("it has got no name")?.to_owned())
}

/// Waits until a create that came to nothing has left no entry behind that says DEPLOYED.
async fn nothing_is_deployed(scene: &Scene<'_>, model: &str) -> Result<()> {
    let entries = scene.entries(model).await?;
    ensure!(entries.len() == 1, "the webhook had registered it before it was refused: {entries:?}");
    wait::until("no entry says that a model runs which does not", async || {
        let entries = scene.entries(model).await?;
        ensure!(entries.iter().all(|entry| entry["desiredState"] == "UNDEPLOYED"), "there are {entries:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn the_audit_log_tells_the_entry_and_the_registry() {
    let scene = Scene::set("audited").await.unwrap();
    let model = scene.model().await.unwrap();

    let applied = scene.apply(&service("fraud", json!({MODEL: model}))).await.unwrap();

    let noted = scene.noted("fraud").unwrap();
    assert_eq!(noted["entry"], applied.id().unwrap());
    assert_eq!(noted["registry"], scene.registry.name());
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn conflicting_writers_all_get_through_and_share_one_entry() {
    let scene = Scene::set("writers").await.unwrap();
    let model = scene.model().await.unwrap();
    let name = without_id(&scene, &model).await.unwrap();

    // Each changes labels, so each is registered; the API server tries again what came too late.
    let patches: Vec<Value> = (0..8).map(|writer| labels(json!({format!("writer-{writer}"): "x"}))).collect();
    try_join_all(patches.iter().map(|patch| scene.patch(&name, patch))).await.unwrap();

    let stored = scene.stored(&name).await.unwrap();
    for writer in 0..8 {
        assert_eq!(label(&stored, &format!("writer-{writer}")), Some("x"), "{stored}");
    }
    let entries = scene.entries(&model).await.unwrap();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["id"].as_str(), label(&stored, ID), "{stored}");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn writers_that_do_not_agree_on_the_model_leave_one_entry_deployed() {
    let scene = Scene::set("disagree").await.unwrap();
    let models = [scene.model().await.unwrap(), scene.model().await.unwrap()];
    scene.apply(&service("fraud", json!({MODEL: models[0]}))).await.unwrap();

    let patches: Vec<Value> = (0..6).map(|writer| labels(json!({MODEL: models[writer % 2]}))).collect();
    try_join_all(patches.iter().map(|patch| scene.patch("fraud", patch))).await.unwrap();

    let stored = scene.stored("fraud").await.unwrap();
    wait::until("the one entry that is DEPLOYED is the object's, of the object's model", async || {
        let entries = [scene.entries(&models[0]).await?, scene.entries(&models[1]).await?].concat();
        let mut deployed = entries.iter().filter(|entry| entry["desiredState"] == "DEPLOYED");
        let its = deployed.next().context("no entry is DEPLOYED")?;
        ensure!(deployed.next().is_none(), "several are: {entries:?}");
        ensure!(its["id"].as_str() == label(&stored, ID), "it is {its}, and the object {stored}");
        ensure!(its["registeredModelId"].as_str() == label(&stored, MODEL), "it is {its}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_create_that_the_quota_refuses_leaves_nothing_deployed() {
    let scene = Scene::set("quota").await.unwrap();
    let model = scene.model().await.unwrap();
    let none = json!({"count/inferenceservices.serving.kserve.io": "0"});
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": none},
    });
    scene.kubectl_with(&["create"], &quota).await.unwrap().stdout().unwrap();
    // In the place of the controller that counts.
    let status = json!({"status": {"hard": none, "used": none}}).to_string();
    let count = ["patch", "quota", "none", "--subresource=status", "--type=merge", "--patch", &status];
    scene.kubectl(&count).await.unwrap().stdout().unwrap();
    wait::until("the quota is in force", async || {
        let probe = service("probe", json!({}));
        let refused = refusal(scene.kubectl_with(&["create", "--dry-run=server"], &probe).await?)?;
        ensure!(refused.contains("exceeded quota"), "kubectl says {refused}");
        Ok(())
    })
    .await
    .unwrap();

    let manifest = service("fraud", json!({MODEL: model}));
    let refused = refusal(scene.kubectl_with(&["create"], &manifest).await.unwrap()).unwrap();

    assert!(refused.contains("exceeded quota"), "{refused}");
    nothing_is_deployed(&scene, &model).await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_create_that_validation_refuses_leaves_nothing_deployed() {
    let scene = Scene::set("invalid").await.unwrap();
    let model = scene.model().await.unwrap();
    let mut manifest = service("fraud", json!({MODEL: model}));
    manifest["spec"] = json!({});

    let create = ["create", "--validate=false"];
    let refused = refusal(scene.kubectl_with(&create, &manifest).await.unwrap()).unwrap();

    assert!(refused.contains("spec.predictor: Required value"), "{refused}");
    nothing_is_deployed(&scene, &model).await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_create_under_a_name_that_is_taken_harms_nobody() {
    let scene = Scene::set("taken").await.unwrap();
    let (model, other) = (scene.model().await.unwrap(), scene.model().await.unwrap());
    let created = scene.create(&service("fraud", json!({MODEL: model}))).await.unwrap();

    for model in [&model, &other] {
        let again = service("fraud", json!({MODEL: model}));
        let refused = refusal(scene.kubectl_with(&["create"], &again).await.unwrap()).unwrap();
        assert!(refused.contains("AlreadyExists"), "{refused}");
    }

    nothing_is_deployed(&scene, &other).await.unwrap();
    let entry = scene.settled(created.id().unwrap()).await.unwrap();
    assert_eq!(entry["desiredState"], "DEPLOYED", "its object was there all along");
    assert_eq!(scene.entries(&model).await.unwrap(), [entry]);
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_object_that_is_being_deleted_is_left_alone() {
    let scene = Scene::set("deleting").await.unwrap();
    let (model, other) = (scene.model().await.unwrap(), scene.model().await.unwrap());
    let mut manifest = service("fraud", json!({MODEL: model}));
    manifest["metadata"]["finalizers"] = json!(["example.org/hold"]);
    let created = scene.apply(&manifest).await.unwrap();
    scene.kubectl(&["delete", "isvc", "fraud", "--wait=false"]).await.unwrap().stdout().unwrap();

    // Whatever a controller or a person writes now, it passes as it is.
    let unknown = scene.patch("fraud", &labels(json!({MODEL: UNKNOWN_MODEL}))).await.unwrap();
    assert_eq!((unknown.said.as_str(), label(&unknown.object, MODEL)), ("", Some(UNKNOWN_MODEL)));
    let dropped = scene.patch("fraud", &labels(json!({MODEL: other, ID: null}))).await.unwrap();
    assert_eq!((dropped.said.as_str(), label(&dropped.object, ID)), ("", None));
    scene.entry_becomes(created.id().unwrap(), "UNDEPLOYED").await.unwrap();
    scene.patch("fraud", &json!({"metadata": {"finalizers": null}})).await.unwrap();

    let gone = scene.kubectl(&["get", "isvc", "fraud"]).await.unwrap();
    assert!(gone.stderr.contains("NotFound"), "{gone:?}");
    assert_eq!(scene.entries(&other).await.unwrap(), Vec::<Value>::new(), "it is not registered anew");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn another_model_is_another_entry_and_the_former_one_is_retired() {
    let scene = Scene::set("another").await.unwrap();
    let (first, second) = (scene.model().await.unwrap(), scene.model().await.unwrap());
    let created = scene.apply(&service("fraud", json!({MODEL: first}))).await.unwrap();

    let changed = scene.apply(&service("fraud", json!({MODEL: second}))).await.unwrap();

    assert_eq!(changed.said, "", "this is what labels are for");
    assert_ne!(changed.id().unwrap(), created.id().unwrap());
    let entry = scene.entry(changed.id().unwrap()).await.unwrap();
    assert_eq!((&entry["registeredModelId"], &entry["desiredState"]), (&json!(second), &json!("DEPLOYED")));
    scene.entry_becomes(created.id().unwrap(), "UNDEPLOYED").await.unwrap();

    let back = scene.apply(&service("fraud", json!({MODEL: first}))).await.unwrap();

    assert_eq!(back.id().unwrap(), created.id().unwrap(), "a rollback comes to the same entry");
    scene.entry_becomes(created.id().unwrap(), "DEPLOYED").await.unwrap();
    scene.entry_becomes(changed.id().unwrap(), "UNDEPLOYED").await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_id_that_is_dropped_comes_back() {
    let scene = Scene::set("dropped").await.unwrap();
    let (model, other) = (scene.model().await.unwrap(), scene.model().await.unwrap());
    let foreign = scene.version(&other, "1").await.unwrap();
    let created = scene.apply(&service("fraud", json!({MODEL: model}))).await.unwrap();
    let id = created.id().unwrap();

    let dropped = scene.patch("fraud", &labels(json!({ID: null}))).await.unwrap();
    assert_eq!((dropped.said.as_str(), dropped.id().unwrap()), ("", id));

    let patch = labels(json!({ID: null, VERSION: foreign}));
    let refused = refusal(scene.try_patch("fraud", &patch).await.unwrap()).unwrap();
    let said = format!("model version {foreign} belongs to registered model {other}, not to {model}");
    assert!(refused.contains(&said), "expected {said}\nkubectl says {refused}");
    assert_eq!(label(&scene.stored("fraud").await.unwrap(), ID), Some(id));
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_object_that_names_nothing_any_more_gives_its_entry_up() {
    let scene = Scene::set("opted-out").await.unwrap();
    let model = scene.model().await.unwrap();
    let created = scene.apply(&service("fraud", json!({MODEL: model}))).await.unwrap();

    let bare = scene.patch("fraud", &labels(json!({MODEL: null, ID: null}))).await.unwrap();

    assert_eq!((bare.said.as_str(), label(&bare.object, ID)), ("", None));
    scene.entry_becomes(created.id().unwrap(), "UNDEPLOYED").await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_manifest_that_was_copied_to_another_namespace_gets_an_id_of_its_own() {
    let (from, to) = (Scene::set("from").await.unwrap(), Scene::set("to").await.unwrap());
    let model = from.model().await.unwrap();
    let original = from.apply(&service("fraud", json!({MODEL: model}))).await.unwrap();
    let entry = from.settled(original.id().unwrap()).await.unwrap();
    let mut copy = from.stored("fraud").await.unwrap();
    copy["metadata"] = json!({"name": "fraud", "labels": copy["metadata"]["labels"]});

    let copied = to.apply(&copy).await.unwrap();

    let warning = format!("Warning: label {ID} was `{}`, which names no entry of", original.id().unwrap());
    assert!(copied.said.contains(&warning), "expected {warning}…\nkubectl says {}", copied.said);
    to.settled(copied.id().unwrap()).await.unwrap();
    to.delete("fraud").await.unwrap();
    to.entry_becomes(copied.id().unwrap(), "UNDEPLOYED").await.unwrap();
    assert_eq!(from.entry(original.id().unwrap()).await.unwrap(), entry, "the original's entry is as it was");
}
