//! Which requests reach which of the chart's two webhooks.
//!
//! The chart's own configuration is given to the API server, with nothing changed but where its webhooks are: a
//! recorder stands there.

use anyhow::{Context, Result, ensure};
use isvc_registrar_test_cluster::{ControlPlane, Recorder, wait, workspace};
use serde_json::{Value, json};

const MODEL: &str = "modelregistry.kubeflow.org/registered-model-id";
const VERSION: &str = "modelregistry.kubeflow.org/model-version-id";
const ID: &str = "modelregistry.kubeflow.org/inference-service-id";
const URL: &str = "modelregistry.kubeflow.org/url";

/// The chart's webhooks in a namespace of the test's own.
struct Scene {
    cluster: &'static ControlPlane,
    namespace: String,
    recorder: Recorder,
}

impl Scene {
    async fn set(purpose: &str, values: &[&str]) -> Result<Self> {
        let cluster = ControlPlane::shared().await?;
        let namespace = cluster.namespace(purpose).await?;
        let recorder = Recorder::start().await?;
        let scene = Self { cluster, namespace, recorder };
        scene.configure(values).await?;
        Ok(scene)
    }

    /// Renders the chart's configuration and has its webhooks answered by the recorder, for this namespace alone.
    async fn configure(&self, values: &[&str]) -> Result<()> {
        let chart = workspace::chart();
        let chart = chart.to_str().context("a path that is no text")?;
        let mut arguments =
            vec!["template", &self.namespace, chart, "--show-only", "templates/webhook-configuration.yaml"];
        for value in values {
            arguments.extend(["--set-json", value]);
        }
        let rendered = self.cluster.helm(&arguments).await?.stdout()?;
        let mut configuration: Value = serde_norway::from_str(&rendered)?;
        for webhook in configuration["webhooks"].as_array_mut().context("no webhooks")? {
            let name = webhook["name"]
                .as_str()
                .and_then(|name| name.split('.').next())
                .context("no name")?
                .to_owned();
            let bundle = k8s_openapi::ByteString(self.recorder.authority().as_bytes().to_vec());
            webhook["clientConfig"] = json!({"url": self.recorder.url(&name), "caBundle": bundle});
            let only_here =
                json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": [self.namespace]});
            webhook["namespaceSelector"]["matchExpressions"]
                .as_array_mut()
                .context("no namespaceSelector")?
                .push(only_here);
        }
        self.cluster.apply(&configuration.to_string()).await?;
        // The API server reads a new configuration a moment later.
        let probe = manifest("probe", json!({MODEL: "1"}));
        wait::until("the API server asks the new webhooks", async || {
            self.create(&probe, &["--dry-run=server"]).await?;
            ensure!(!self.recorder.take().is_empty(), "no review came");
            Ok(())
        })
        .await
    }

    async fn create(&self, manifest: &Value, flags: &[&str]) -> Result<String> {
        let arguments = [&["create", "--namespace", &self.namespace, "--filename", "-"], flags].concat();
        self.cluster.kubectl_with(&arguments, &manifest.to_string()).await?.stdout()
    }

    /// Changes object `name` by a JSON merge patch.
    async fn patch(&self, name: &str, patch: Value, flags: &[&str]) -> Result<String> {
        let patch = patch.to_string();
        let base = ["patch", "isvc", name, "--namespace", &self.namespace, "--type=merge", "--patch", &patch];
        self.cluster.kubectl(&[&base, flags].concat()).await?.stdout()
    }

    /// What the API server has asked since the last look, as `webhook OPERATION`.
    fn asked(&self) -> String {
        let asked = self.recorder.take().into_iter().map(|review| {
            let operation = review.request["operation"].as_str().unwrap_or_default();
            format!("{} {operation}", review.webhook)
        });
        asked.collect::<Vec<_>>().join(", ")
    }
}

fn manifest(name: &str, labels: Value) -> Value {
    let mut object = json!({
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {"predictor": {"model": {"modelFormat": {"name": "sklearn"}}}},
    });
    object["metadata"]["labels"] = labels;
    object
}

/// A merge patch of labels.
fn labels(labels: Value) -> Value {
    let mut patch = json!({"metadata": {}});
    patch["metadata"]["labels"] = labels;
    patch
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_object_without_a_model_reaches_a_webhook_once_it_names_one() {
    let scene = Scene::set("without", &[]).await.unwrap();
    let bare = json!({
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "bare"},
        "spec": {"predictor": {}},
    });

    scene.create(&bare, &[]).await.unwrap();
    assert_eq!(scene.asked(), "", "created without any label");
    scene.patch("bare", json!({"spec": {"predictor": {"minReplicas": 2}}}), &[]).await.unwrap();
    assert_eq!(scene.asked(), "", "changed without any label or annotation");
    scene.patch("bare", labels(json!({"app": "x"})), &[]).await.unwrap();
    assert_eq!(scene.asked(), "", "a label of somebody else");
    scene.patch("bare", labels(json!({VERSION: "3"})), &[]).await.unwrap();
    assert_eq!(scene.asked(), "", "a version alone names no model");
    scene.patch("bare", labels(json!({MODEL: "1"})), &[]).await.unwrap();
    assert_eq!(scene.asked(), "register UPDATE", "the model's label added");
    scene.patch("bare", json!({"metadata": {"finalizers": ["example.com/x"]}}), &[]).await.unwrap();
    assert_eq!(scene.asked(), "late UPDATE", "a finalizer, with a model and without an id");
    scene.patch("bare", labels(json!({"app": null, MODEL: null, VERSION: null})), &[]).await.unwrap();
    assert_eq!(scene.asked(), "register UPDATE", "all labels dropped");

    scene.create(&manifest("named", json!({MODEL: "1"})), &["--dry-run=server"]).await.unwrap();
    assert_eq!(scene.asked(), "register CREATE", "a dry run");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_object_with_a_model_reaches_a_webhook_with_what_decides_about_its_entry() {
    let scene = Scene::set("with", &[]).await.unwrap();

    scene.create(&manifest("named", json!({MODEL: "1"})), &[]).await.unwrap();
    assert_eq!(scene.asked(), "register CREATE", "created with a model");
    scene
        .patch("named", json!({"spec": {"predictor": {"model": {"runtime": "triton"}}}}), &[])
        .await
        .unwrap();
    assert_eq!(scene.asked(), "late UPDATE", "changed before it has its id");
    scene.patch("named", labels(json!({ID: "7"})), &[]).await.unwrap();
    assert_eq!(scene.asked(), "register UPDATE", "the id added");
    scene.patch("named", json!({"spec": {"predictor": {"minReplicas": 2}}}), &[]).await.unwrap();
    assert_eq!(scene.asked(), "", "scaled, with its id");
    scene.patch("named", json!({"metadata": {"annotations": {"note": "x"}}}), &[]).await.unwrap();
    assert_eq!(scene.asked(), "", "an annotation of somebody else");
    let status = json!({"status": {"url": "http://named.example.com"}});
    scene.patch("named", status, &["--subresource=status"]).await.unwrap();
    assert_eq!(scene.asked(), "", "a status");
    for (what, change) in [
        ("another model", labels(json!({MODEL: "2"}))),
        ("a version", labels(json!({VERSION: "3"}))),
        ("an empty version", labels(json!({VERSION: ""}))),
        ("the empty version dropped", labels(json!({VERSION: null}))),
        ("a registry by name", labels(json!({"modelregistry.kubeflow.org/name": "r"}))),
        ("its namespace", labels(json!({"modelregistry.kubeflow.org/namespace": "n"}))),
        ("a registry by URL", json!({"metadata": {"annotations": {URL: "http://r.example.com"}}})),
        ("another id", labels(json!({ID: "8"}))),
        ("the id dropped", labels(json!({ID: null}))),
        ("the model dropped", labels(json!({MODEL: null}))),
    ] {
        scene.patch("named", change, &[]).await.unwrap();
        assert_eq!(scene.asked(), "register UPDATE", "{what}");
    }

    let mut generated = manifest("", json!({MODEL: "1"}));
    generated["metadata"] = json!({"generateName": "gen-", "labels": {MODEL: "1"}});
    scene.create(&generated, &[]).await.unwrap();
    assert_eq!(scene.asked(), "register CREATE", "created without a name");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_object_that_is_being_deleted_reaches_no_webhook() {
    let scene = Scene::set("deleted", &[]).await.unwrap();
    let mut object = manifest("held", json!({MODEL: "1"}));
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    scene.create(&object, &[]).await.unwrap();
    scene.asked();

    let delete = ["delete", "isvc", "held", "--namespace", &scene.namespace, "--wait=false"];
    scene.cluster.kubectl(&delete).await.unwrap().stdout().unwrap();
    scene.patch("held", labels(json!({MODEL: "2"})), &[]).await.unwrap();
    scene.patch("held", json!({"metadata": {"finalizers": null}}), &[]).await.unwrap();

    assert_eq!(scene.asked(), "");
    let gone =
        scene.cluster.kubectl(&["get", "isvc", "held", "--namespace", &scene.namespace]).await.unwrap();
    assert!(gone.stderr.contains("NotFound"), "{gone:?}");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn exempt_users_and_groups_reach_no_webhook() {
    let users = r#"webhook.exempt.users=["kserve"]"#;
    let groups = r#"webhook.exempt.groups=["restorers"]"#;
    let scene = Scene::set("exempt", &[users, groups]).await.unwrap();
    let members =
        ["create", "rolebinding", "all", "--clusterrole=cluster-admin", "--namespace", &scene.namespace];
    let members = [&members[..], &["--user=kserve", "--user=velero", "--user=anna"]].concat();
    scene.cluster.kubectl(&members).await.unwrap().stdout().unwrap();

    for (name, flags, expected) in [
        ("by-user", &["--as=kserve"][..], ""),
        ("by-group", &["--as=velero", "--as-group=restorers", "--as-group=system:authenticated"], ""),
        ("by-other", &["--as=anna", "--as-group=system:authenticated"], "register CREATE"),
    ] {
        scene.create(&manifest(name, json!({MODEL: "1"})), flags).await.unwrap();
        assert_eq!(scene.asked(), expected, "{name}");
    }
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_namespace_that_is_switched_off_reaches_no_webhook() {
    let scene = Scene::set("off", &[]).await.unwrap();
    let label = ["label", "namespace", &scene.namespace, "modelregistry.kubeflow.org/registrar=off"];
    scene.cluster.kubectl(&label).await.unwrap().stdout().unwrap();

    wait::until("the API server sees the namespace's label", async || {
        scene.create(&manifest("any", json!({MODEL: "1"})), &["--dry-run=server"]).await?;
        let asked = scene.asked();
        ensure!(asked.is_empty(), "{asked}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn objects_without_a_model_are_seen_when_the_policy_wants_it() {
    let scene = Scene::set("missing", &[r#"registration.onMissing="deny""#]).await.unwrap();

    scene.create(&manifest("bare", json!({})), &[]).await.unwrap();
    assert_eq!(scene.asked(), "register CREATE");
    scene.patch("bare", json!({"metadata": {"finalizers": ["example.com/x"]}}), &[]).await.unwrap();
    assert_eq!(scene.asked(), "", "a controller's finalizer");
    scene.patch("bare", labels(json!({VERSION: "1"})), &[]).await.unwrap();
    assert_eq!(scene.asked(), "register UPDATE", "one of our labels");
}
