//! Manifests of all shapes pass through unharmed, by all the ways in which kubectl sends them.
//!
//! Each is sent to a namespace where objects are registered and to one where the program is switched off. What comes
//! back may differ by the id label, and by nothing else.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use isvc_registrar_test_cluster::{wait, workspace};
use serde_json::{Value, json};

use crate::scene::{ID, KSERVE_FINALIZER, MODEL, Scene, VERSION, id_of, items, label, service};

/// The two namespaces.
struct Pair {
    registered: Scene<'static>,
    switched_off: Scene<'static>,
    model: String,
    version: String,
}

impl Pair {
    async fn set(purpose: &str) -> Result<Self> {
        let registered = Scene::set(purpose).await?;
        let switched_off = Scene::set(&format!("{purpose}-off")).await?;
        let model = registered.model().await?;
        let version = registered.version(&model, "1").await?;
        switched_off.set_registrar("off").await?;
        wait::until("the switch is seen", async || {
            let probe = service("probe", json!({MODEL: model}));
            let probe = switched_off.kubectl_with(&["create", "--dry-run=server"], &probe).await?;
            ensure!(probe.success && probe.stderr.is_empty(), "{probe:?}");
            Ok(())
        })
        .await?;
        Ok(Self { registered, switched_off, model, version })
    }

    /// A manifest with the ids that this registry gave, in the place of those that a new one gives.
    fn fill(&self, manifest: &str) -> String {
        let put = |text: &str, key, id| text.replace(&format!("{key}: \"1\""), &format!("{key}: \"{id}\""));
        put(&put(manifest, MODEL, &self.model), VERSION, &self.version)
    }

    /// Sends the same to both, and returns what the registered one became, after it was compared with the other.
    async fn send(&self, arguments: &[&str], manifest: &str) -> Result<Vec<Value>> {
        let registered = send(&self.registered, arguments, manifest).await?;
        let switched_off = send(&self.switched_off, arguments, manifest).await?;
        ensure!(
            registered.iter().map(comparable).eq(switched_off.iter().map(comparable)),
            "more differs than the id label. Registered:\n{registered:#?}\nswitched off:\n{switched_off:#?}"
        );
        let labelled = switched_off.iter().find(|object| label(object, ID).is_some());
        ensure!(labelled.is_none(), "the switch does not work: {labelled:#?}");
        Ok(registered)
    }
}

async fn send(scene: &Scene<'_>, arguments: &[&str], manifest: &str) -> Result<Vec<Value>> {
    let namespace = ["--namespace", &scene.namespace, "--output=json", "--filename=-"];
    let run = scene.cluster.kubectl_with(&[arguments, &namespace].concat(), manifest).await?;
    ensure!(run.stderr.is_empty(), "kubectl warns: {run:?}");
    let answer: Value = serde_json::from_str(&run.stdout()?)?;
    let objects = if answer["kind"] == "List" { items(&answer).cloned().collect() } else { vec![answer] };
    Ok(objects)
}

/// An object without the id label, and without what the API server and kubectl make anew for each.
fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(metadata) = object["metadata"].as_object_mut() else { return object };
    for made in ["uid", "resourceVersion", "creationTimestamp", "namespace"] {
        metadata.remove(made);
    }
    for manager in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        manager["time"].take();
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        // It names the namespace.
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.remove(ID);
    }
    object
}

/// The manifests of the fixtures, by name.
fn manifests() -> Result<BTreeMap<String, String>> {
    let folder = workspace::root().join("tests/fixtures/manifests");
    let files = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    files
        .map(|file| {
            let path = file?.path();
            let name = path.file_stem().context("a file without a name")?.to_string_lossy().into_owned();
            Ok((name, fs::read_to_string(path)?))
        })
        .collect()
}

#[test]
fn every_manifest_names_a_model() {
    let manifests = manifests().unwrap();
    assert!(manifests.len() >= 22, "there are only {}", manifests.len());
    for (name, manifest) in manifests {
        assert!(manifest.contains(&format!("{MODEL}: \"1\"")), "{name} names no model");
    }
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn every_shape_is_applied_unharmed() {
    let pair = Pair::set("shapes").await.unwrap();
    let scene = &pair.registered;
    let mut applied = Vec::new();

    for (name, manifest) in manifests().unwrap() {
        let objects = pair.send(&["apply"], &pair.fill(&manifest)).await.context(name.clone()).unwrap();
        let services = objects.into_iter().filter(|object| object["kind"] == "InferenceService");
        for object in services {
            assert!(label(&object, ID).is_some(), "{name} is not registered: {object:#}");
            applied.push(object);
        }
    }

    for object in &applied {
        let (name, id) = (object["metadata"]["name"].as_str().unwrap(), label(object, ID).unwrap());
        let entry = scene.settled(id).await.unwrap();
        assert_eq!(entry["customProperties"]["name"]["string_value"], name, "{entry}");
        assert_eq!(entry["modelVersionId"].as_str(), label(object, VERSION), "{entry}");
        let stored = scene.stored(name).await.unwrap();
        assert_eq!(&stored, object, "nobody has written to {name} since");
    }
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn applying_again_changes_nothing() {
    let pair = Pair::set("again").await.unwrap();
    let manifest = service("fraud", json!({MODEL: pair.model})).to_string();
    let server_side: &[&str] = &["apply", "--server-side", "--field-manager=team"];

    for (name, ways) in [("client", &["apply"][..]), ("server", server_side)] {
        let manifest = manifest.replace("fraud", name);
        let first = pair.send(ways, &manifest).await.unwrap();
        let id = label(&first[0], ID).unwrap();
        let owners = first[0]["metadata"]["managedFields"].to_string();
        assert!(!owners.contains(ID), "the id label has an owner, whose next apply may drop it: {owners}");
        let second = pair.send(ways, &manifest).await.unwrap();
        assert_eq!(label(&second[0], ID), Some(id));
        assert_eq!(first, second, "{name}-side apply of the same manifest");
    }
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_server_side_apply_of_a_change_keeps_the_id() {
    let pair = Pair::set("changed").await.unwrap();
    let arguments = ["apply", "--server-side", "--field-manager=team"];
    let manifest = service("fraud", json!({MODEL: pair.model})).to_string();
    let first = pair.send(&arguments, &manifest).await.unwrap();

    let changed = manifest.replace("s3://models/fraud", "s3://models/fraud/2");
    let second = pair.send(&arguments, &changed).await.unwrap();

    assert_eq!(label(&second[0], ID), label(&first[0], ID));
    assert_eq!(second[0]["spec"]["predictor"]["model"]["storageUri"], "s3://models/fraud/2");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_replaced_object_keeps_its_id() {
    let pair = Pair::set("replace").await.unwrap();
    let manifest = service("fraud", json!({MODEL: pair.model})).to_string();
    let created = pair.send(&["create"], &manifest).await.unwrap();

    // As a tool does that keeps manifests in Git: the id was never there.
    let changed = manifest.replace("sklearn", "xgboost");
    let replaced = pair.send(&["replace"], &changed).await.unwrap();

    assert_eq!(label(&replaced[0], ID), label(&created[0], ID), "a new label would start the pods anew");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_dry_run_makes_no_entry_and_shows_the_one_there_is() {
    let scene = Scene::set("dry-run").await.unwrap();
    let model = scene.model().await.unwrap();
    let manifest = service("fraud", json!({MODEL: model}));
    let dry_run = ["apply", "--dry-run=server", "--output=json"];

    let run = scene.kubectl_with(&dry_run, &manifest).await.unwrap();
    assert!(run.stderr.starts_with("Warning: no entry exists yet in "), "kubectl says {}", run.stderr);
    let object: Value = serde_json::from_str(&run.stdout().unwrap()).unwrap();
    assert_eq!(label(&object, ID), None);
    assert_eq!(scene.entries(&model).await.unwrap(), Vec::<Value>::new());

    let applied = scene.apply(&manifest).await.unwrap();
    scene.delete("fraud").await.unwrap();
    let again = scene.kubectl_with(&dry_run, &manifest).await.unwrap();
    assert_eq!(again.stderr, "", "the entry exists, so the dry run knows all");
    let object: Value = serde_json::from_str(&again.stdout().unwrap()).unwrap();
    assert_eq!(label(&object, ID), Some(applied.id().unwrap()));
    scene.entry_becomes(applied.id().unwrap(), "UNDEPLOYED").await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_generated_name_gets_its_label_when_kserve_takes_the_object_on() {
    let scene = Scene::set("generated").await.unwrap();
    let model = scene.model().await.unwrap();
    let mut manifest = service("", json!({MODEL: model}));
    manifest["metadata"] = json!({"generateName": "fraud-", "labels": {MODEL: model}});

    let created = scene.create(&manifest).await.unwrap();
    assert_eq!(created.said, "", "all is in order");
    assert_eq!(label(&created.object, ID), None, "at this time it has no name");
    let name = created.object["metadata"]["name"].as_str().unwrap();
    let changed =
        json!({"metadata": {"annotations": {"note": "x"}}, "spec": {"predictor": {"minReplicas": 2}}});
    let changed = scene.patch(name, &changed).await.unwrap();
    assert_eq!(label(&changed.object, ID), None, "a label now might start pods a second time");
    let finalizer = json!({"metadata": {"finalizers": [KSERVE_FINALIZER]}});
    let mut taken_on = scene.patch(name, &finalizer).await.unwrap();

    let entry = scene.settled(taken_on.id().unwrap()).await.unwrap();
    assert_eq!(entry["customProperties"]["name"]["string_value"], name);
    assert_eq!(scene.entries(&model).await.unwrap().len(), 1, "whoever registered it, it is one entry");
    let mut expected = changed.object;
    expected["metadata"]["finalizers"] = json!([KSERVE_FINALIZER]);
    for object in [&mut expected, &mut taken_on.object] {
        object["metadata"]["managedFields"].take();
    }
    assert_eq!(comparable(&taken_on.object), comparable(&expected));
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_id_and_a_finalizer_that_were_there_before_are_kept() {
    let scene = Scene::set("restored").await.unwrap();
    let model = scene.model().await.unwrap();
    let other = scene.apply(&service("other", json!({MODEL: model}))).await.unwrap();
    let other = scene.entry(other.id().unwrap()).await.unwrap();
    let entry = json!({
        "name": format!("made by hand for model {model}"),
        "registeredModelId": model, "servingEnvironmentId": other["servingEnvironmentId"],
    });
    let entry = scene.registry.post("inference_services", &entry).await.unwrap();
    let id = id_of(&entry).unwrap();
    let mut manifest = service("fraud", json!({MODEL: model, ID: id}));
    manifest["metadata"]["finalizers"] = json!(["example.org/hold"]);

    let created = scene.create(&manifest).await.unwrap();

    assert_eq!((created.id().unwrap(), created.said.as_str()), (&*id, ""));
    for given in ["labels", "finalizers"] {
        assert_eq!(created.object["metadata"][given], manifest["metadata"][given]);
    }
    assert_eq!(created.object["spec"], manifest["spec"]);
    assert_eq!(scene.entries(&model).await.unwrap().len(), 2, "it has its entry already");
    let entry = scene.settled(&id).await.unwrap();
    assert_eq!(entry["customProperties"]["uid"]["string_value"], created.object["metadata"]["uid"]);

    // It is found by no name, so only the label of before can bring it back.
    manifest["metadata"] = json!({"name": "fraud", "labels": {MODEL: model}});
    let replace = ["replace", "--output=json"];
    let replaced = scene.kubectl_with(&replace, &manifest).await.unwrap().stdout().unwrap();
    let replaced: Value = serde_json::from_str(&replaced).unwrap();
    assert_eq!(label(&replaced, ID), Some(&*id));
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_object_that_is_made_anew_at_once_is_deployed() {
    let scene = Scene::set("anew").await.unwrap();
    let model = scene.model().await.unwrap();
    let manifest = service("fraud", json!({MODEL: model}));
    let mut object = scene.create(&manifest).await.unwrap();

    for _ in 0..3 {
        scene.delete("fraud").await.unwrap();
        object = scene.create(&manifest).await.unwrap();
    }

    let (id, uid) = (object.id().unwrap(), &object.object["metadata"]["uid"]);
    wait::until("the entry is the last object's, and DEPLOYED", async || {
        let entry = scene.entry(id).await?;
        let its = (&entry["customProperties"]["uid"]["string_value"], &entry["desiredState"]);
        ensure!(its == (uid, &json!("DEPLOYED")), "it is {entry}");
        Ok(())
    })
    .await
    .unwrap();
    let deployed = scene.entries(&model).await.unwrap();
    let deployed = deployed.iter().filter(|entry| entry["desiredState"] == "DEPLOYED").count();
    assert_eq!(deployed, 1, "one object has one entry");
}
