//! The chart installed beside a registry, and what the scenarios ask of both.
//!
//! Nothing here assumes what else a registry holds: names are new for each run, ids are whatever it gives.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry, Run, wait};
use serde_json::{Value, json};

pub(crate) const MODEL: &str = "modelregistry.kubeflow.org/registered-model-id";
pub(crate) const ID: &str = "modelregistry.kubeflow.org/inference-service-id";

/// An absent object's entry is retired once it was untouched for this long; a test waits for it.
const GRACE: &str = "syncer.grace=1s";

/// A cluster with the chart installed.
pub(crate) struct Scene<'a> {
    pub(crate) cluster: &'a ControlPlane,
    pub(crate) registry: Registry,
    pub(crate) installation: Installation<'a>,
}

impl<'a> Scene<'a> {
    pub(crate) async fn set(cluster: &'a ControlPlane) -> Result<Self> {
        let registry = Registry::start(cluster).await?;
        let installation = Installation::install(cluster, &registry, &[GRACE]).await?;
        Ok(Self { cluster, registry, installation })
    }

    /// A new registered model; returns its id.
    pub(crate) async fn model(&self, purpose: &str) -> Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        let model =
            self.registry.post("registered_models", &json!({"name": format!("{purpose}-{now}")})).await?;
        Ok(model["id"].as_str().context("a model without an id")?.to_owned())
    }

    /// `kubectl apply` of a manifest; returns the command's outcome with the object as JSON.
    pub(crate) async fn apply(&self, namespace: &str, manifest: &Value) -> Result<Run> {
        let arguments = ["apply", "--namespace", namespace, "--output=json", "--filename=-"];
        self.cluster.kubectl_with(&arguments, &manifest.to_string()).await
    }

    /// Applies an InferenceService of a model; returns the id in the answer's label.
    pub(crate) async fn deploy(&self, namespace: &str, name: &str, model: &str) -> Result<String> {
        let answer = self.apply(namespace, &inference_service(name, model)).await?.stdout()?;
        let object: Value = serde_json::from_str(&answer)?;
        let id = object["metadata"]["labels"][ID].as_str();
        let id = id.with_context(|| format!("the answer has no id label: {answer}\n{}", self.logs()))?;
        Ok(id.to_owned())
    }

    pub(crate) async fn delete(&self, namespace: &str, name: &str) -> Result<()> {
        let arguments = ["delete", "isvc", name, "--namespace", namespace];
        self.cluster.kubectl(&arguments).await?.stdout().map(drop)
    }

    /// An entry of the registry.
    pub(crate) async fn entry(&self, id: &str) -> Result<Value> {
        self.registry.get(&format!("inference_services/{id}")).await
    }

    /// Waits until an entry is in that state.
    pub(crate) async fn entry_becomes(&self, id: &str, state: &str) -> Result<()> {
        let expected = format!("entry {id} becomes {state}");
        let outcome = wait::until(&expected, async || {
            let entry = self.entry(id).await?;
            ensure!(entry["desiredState"] == state, "it is {}", entry["desiredState"]);
            Ok(())
        });
        outcome.await.with_context(|| self.logs())
    }

    /// What the program has written, for the message of a failure.
    fn logs(&self) -> String {
        let log = |container| self.installation.log(container).unwrap_or_default();
        format!("webhook:\n{}\nsyncer:\n{}", log("webhook"), log("syncer"))
    }
}

/// An InferenceService that names a model.
pub(crate) fn inference_service(name: &str, model: &str) -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name, "labels": {MODEL: model}},
        "spec": {"predictor": {"model": {"modelFormat": {"name": "sklearn"}, "storageUri": "s3://models/it"}}},
    })
}
