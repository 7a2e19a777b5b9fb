//! The life of an installation, as people live it: installed, changed, upgraded, taken back, removed, installed again.
//!
//! `stream` is what goes on meanwhile: somebody deploys models all the time.

mod certificates;
mod life;
mod removal;
mod stream;
mod ways;

use anyhow::{Context, Result, ensure};
use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry, wait};
use serde_json::{Value, json};

const MODEL: &str = "modelregistry.kubeflow.org/registered-model-id";
const ID: &str = "modelregistry.kubeflow.org/inference-service-id";

/// What a test waits for by itself is short.
const QUICK: [&str; 2] = ["syncer.grace=1s", "syncer.resync=2s"];

/// With it, a create that no webhook answers is refused; otherwise it would pass without a label.
const STRICT: &str = "webhook.failurePolicy=Fail";

/// A cluster with a registry and a model in it, and a namespace to deploy into.
struct Scene<'a> {
    cluster: &'a ControlPlane,
    registry: Registry,
    namespace: String,
    model: String,
}

impl<'a> Scene<'a> {
    async fn set(cluster: &'a ControlPlane) -> Result<Self> {
        let registry = Registry::of_cluster(cluster).await?;
        let namespace = cluster.namespace("team").await?;
        let model = registry.post("registered_models", &json!({"name": "iris"})).await?;
        let model = model["id"].as_str().context("a model without an id")?.to_owned();
        Ok(Self { cluster, registry, namespace, model })
    }

    async fn install(&self, values: &[&str]) -> Result<Installation<'a>> {
        Installation::install(self.cluster, &self.registry, &[&QUICK, values].concat()).await
    }

    /// `kubectl apply` of an InferenceService, which has to pass; returns the value of its id label.
    async fn deploy(&self, name: &str) -> Result<Option<String>> {
        let object = self.service(name).to_string();
        let apply = ["apply", "--namespace", &self.namespace, "--output=json", "--filename=-"];
        let object = self.cluster.kubectl_with(&apply, &object).await?.stdout()?;
        let object: Value = serde_json::from_str(&object)?;
        Ok(object["metadata"]["labels"][ID].as_str().map(str::to_owned))
    }

    async fn delete(&self, name: &str) -> Result<()> {
        let delete = ["delete", "isvc", name, "--namespace", &self.namespace];
        self.cluster.kubectl(&delete).await?.stdout().map(drop)
    }

    fn service(&self, name: &str) -> Value {
        json!({
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": name, "labels": {MODEL: self.model}},
            "spec": {"predictor": {"model": {"modelFormat": {"name": "sklearn"}}}},
        })
    }

    /// Waits until the entry of an object is in this state.
    async fn entry_becomes(&self, name: &str, state: &str) -> Result<()> {
        wait::until(&format!("the entry of {name} is {state}"), async || {
            let entries = self.registry.get("inference_services?pageSize=0").await?;
            let mut entries = entries["items"].as_array().into_iter().flatten();
            let entry = entries.find(|entry| entry["name"] == name).context("there is no such entry")?;
            ensure!(entry["desiredState"] == state, "it is {entry}");
            Ok(())
        })
        .await
    }

    /// What is in the cluster of the release: kind/namespace/name, in the order that kubectl has.
    async fn left_of_the_release(&self) -> Result<String> {
        let kinds = "deployments,replicasets,pods,services,secrets,configmaps,leases,serviceaccounts,roles,\
                     rolebindings,clusterroles,clusterrolebindings,poddisruptionbudgets,\
                     mutatingwebhookconfigurations";
        let labelled = "--selector=app.kubernetes.io/instance=isvc-registrar";
        let get = ["get", kinds, labelled, "--all-namespaces", "--ignore-not-found", "--output=name"];
        self.cluster.kubectl(&get).await?.stdout()
    }

    /// Waits until nothing of the release is left: its Pods take a moment to stop.
    async fn nothing_is_left(&self) -> Result<()> {
        wait::until("nothing of the release is left in the cluster", async || {
            let left = self.left_of_the_release().await?;
            ensure!(left.is_empty(), "there is {left}");
            Ok(())
        })
        .await
    }

    /// A field of an object of the release's namespace.
    async fn field(&self, kind: &str, name: &str, path: &str) -> Result<String> {
        let path = format!("--output=jsonpath={{{path}}}");
        self.cluster.kubectl(&["get", kind, name, "--namespace=isvc-registrar", &path]).await?.stdout()
    }

    /// The certificate and its authority, as the Secret and the configuration hold them.
    async fn certificate(&self) -> Result<[String; 2]> {
        Ok([
            self.field("secret", "isvc-registrar-tls", ".data").await?,
            self.field(
                "mutatingwebhookconfiguration",
                "registration.isvc-registrar",
                ".webhooks[*].clientConfig.caBundle",
            )
            .await?,
        ])
    }
}
