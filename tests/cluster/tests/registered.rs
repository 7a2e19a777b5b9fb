//! An InferenceService that names a model is registered with its first write, and its entry follows it.

mod scene;

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use isvc_registrar_test_cluster::{ControlPlane, workspace};
use scene::{ID, MODEL, Scene, inference_service};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The one installation that these tests share; each keeps to a namespace of its own.
async fn scene() -> Result<&'static Scene<'static>> {
    static SCENE: OnceCell<Scene<'static>> = OnceCell::const_new();
    SCENE.get_or_try_init(async || Scene::set(ControlPlane::shared().await?).await).await
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn the_first_answer_has_the_label_and_the_entry_lives_as_long_as_the_object() {
    let scene = scene().await.unwrap();
    let namespace = scene.cluster.namespace("lives").await.unwrap();
    let model = scene.model("iris").await.unwrap();

    let id = scene.deploy(&namespace, "iris", &model).await.unwrap();

    let entry = scene.entry(&id).await.unwrap();
    assert_eq!(entry["desiredState"], "DEPLOYED", "{entry}");
    assert_eq!(entry["registeredModelId"], model.as_str(), "{entry}");
    assert_eq!(entry["name"], "iris", "{entry}");
    let environment = entry["servingEnvironmentId"].as_str().unwrap();
    let environment = scene.registry.get(&format!("serving_environments/{environment}")).await.unwrap();
    assert_eq!(environment["name"], namespace.as_str());

    scene.delete(&namespace, "iris").await.unwrap();
    scene.entry_becomes(&id, "UNDEPLOYED").await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_unknown_model_is_refused_with_what_to_do() {
    let scene = scene().await.unwrap();
    let namespace = scene.cluster.namespace("unknown").await.unwrap();

    let run = scene.apply(&namespace, &inference_service("iris", "2147483647")).await.unwrap();

    let sentence = format!("set label {MODEL} to the id of a registered model");
    assert!(!run.success, "{run:?}");
    assert!(run.stderr.contains("registered model 2147483647 does not exist in "), "{run:?}");
    assert!(run.stderr.contains(&sentence), "{run:?}");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn one_create_is_one_write_of_the_object() {
    let scene = scene().await.unwrap();
    let namespace = scene.cluster.namespace("one-write").await.unwrap();
    let model = scene.model("iris").await.unwrap();

    let id = scene.deploy(&namespace, "iris", &model).await.unwrap();
    // Once the deletion has reached the registry, all that follows the create has been done.
    scene.delete(&namespace, "iris").await.unwrap();
    scene.entry_becomes(&id, "UNDEPLOYED").await.unwrap();

    let log = scene.cluster.audit_log().unwrap();
    let of_object = log.iter().filter(|event| {
        event.object_ref.resource == "inferenceservices" && event.object_ref.namespace == namespace
    });
    let writes: Vec<&str> = of_object
        .map(|event| event.verb.as_str())
        .filter(|verb| !["get", "list", "watch"].contains(verb))
        .collect();
    assert_eq!(writes, ["create", "delete"]);
}

/// The InferenceServices of a namespace by name, without what the API server writes for each object anew.
async fn stored(scene: &Scene<'_>, namespace: &str) -> Result<BTreeMap<String, Value>> {
    let arguments = ["get", "isvc", "--namespace", namespace, "--output=json"];
    let mut list: Value = serde_json::from_str(&scene.cluster.kubectl(&arguments).await?.stdout()?)?;
    let mut objects = BTreeMap::new();
    for object in list["items"].as_array_mut().context("no items")? {
        let metadata = object["metadata"].as_object_mut().context("no metadata")?;
        for field in ["namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            metadata.remove(field);
        }
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        // kubectl writes the namespace into it.
        annotations.map(|annotations| annotations.remove("kubectl.kubernetes.io/last-applied-configuration"));
        let name = metadata["name"].as_str().context("no name")?.to_owned();
        objects.insert(name, object.take());
    }
    Ok(objects)
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn nothing_but_the_label_differs_whatever_the_manifest() {
    let scene = scene().await.unwrap();
    let model = scene.model("any").await.unwrap();
    let with = scene.cluster.namespace("with").await.unwrap();
    let without = scene.cluster.namespace("without").await.unwrap();
    let off = ["label", "namespace", &without, "modelregistry.kubeflow.org/registrar=off"];
    scene.cluster.kubectl(&off).await.unwrap().stdout().unwrap();

    let folder = workspace::root().join("tests/fixtures/manifests");
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        let text = fs::read_to_string(&file).unwrap();
        let manifest = text.replace(&format!("{MODEL}: \"1\""), &format!("{MODEL}: \"{model}\""));
        for namespace in [&with, &without] {
            let arguments = ["apply", "--namespace", namespace, "--filename=-"];
            let run = scene.cluster.kubectl_with(&arguments, &manifest).await.unwrap();
            assert!(run.success && run.stderr.is_empty(), "{}: {run:?}", file.display());
        }
    }

    let mut labelled = stored(scene, &with).await.unwrap();
    let untouched = stored(scene, &without).await.unwrap();
    for (name, object) in &mut labelled {
        let labels = object["metadata"]["labels"].as_object_mut().unwrap();
        assert!(labels.remove(ID).is_some(), "{name} has no id");
    }
    assert!(labelled.len() > 20, "there are only {} objects", labelled.len());
    assert_eq!(labelled, untouched);
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn replaced_and_server_side_applied_objects_keep_their_entry() {
    let scene = scene().await.unwrap();
    let namespace = scene.cluster.namespace("again").await.unwrap();
    let model = scene.model("again").await.unwrap();
    let object = inference_service("iris", &model);
    let id = scene.deploy(&namespace, "iris", &model).await.unwrap();

    let server_side = ["apply", "--server-side", "--force-conflicts", "--filename=-"];
    for command in
        [&["apply", "--filename=-"][..], &server_side, &["apply", "--dry-run=server", "--filename=-"]]
    {
        let arguments = [command, &["--namespace", &namespace, "--output=json"]].concat();
        let run = scene.cluster.kubectl_with(&arguments, &object.to_string()).await.unwrap();
        let answer: Value = serde_json::from_str(&run.stdout().unwrap()).unwrap();
        assert_eq!(answer["metadata"]["labels"][ID], id.as_str(), "{command:?}");
    }
}

/// The comparison above puts the model's id into the fixtures by this label.
#[test]
fn every_fixture_is_an_inference_service_that_names_a_model() -> Result<()> {
    for file in fs::read_dir(workspace::root().join("tests/fixtures/manifests"))? {
        let file = file?.path();
        let mut named = 0;
        for document in serde_norway::Deserializer::from_str(&fs::read_to_string(&file)?) {
            let object = Value::deserialize(document)?;
            let items = if object["kind"] == "List" { object["items"].clone() } else { json!([object]) };
            let items = items.as_array().context("no items")?.clone();
            named += items.iter().filter(|item| item["metadata"]["labels"][MODEL] == "1").count();
        }
        ensure!(named > 0, "{} names no model", file.display());
    }
    Ok(())
}
