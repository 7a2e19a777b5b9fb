//! One drill: a namespace of an installation, its objects, and what the registry has to say of them.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry, wait};
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::truth;

pub(crate) const MODEL: &str = "modelregistry.kubeflow.org/registered-model-id";
pub(crate) const ID: &str = "modelregistry.kubeflow.org/inference-service-id";

/// What the program waits for by itself is short here.
pub(crate) const QUICK: [&str; 2] = ["syncer.grace=1s", "syncer.resync=2s"];

/// Requests to the API server at once: enough to be quick, few enough for a busy machine.
const AT_ONCE: usize = 16;

pub(crate) struct Drill<'a> {
    pub(crate) cluster: &'a ControlPlane,
    pub(crate) registry: Registry,
    pub(crate) namespace: String,
    pub(crate) model: String,
    objects: Api<DynamicObject>,
    client: Client,
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Drill<'static> {
    /// A drill in the installation that drills share, alone until it is dropped.
    pub(crate) async fn take_turn(purpose: &str) -> Result<Self> {
        static REGISTRY: OnceCell<Registry> = OnceCell::const_new();
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        let cluster = ControlPlane::shared().await?;
        let registry = REGISTRY
            .get_or_try_init(async || {
                let registry = Registry::of_cluster(cluster).await?;
                Installation::install(cluster, &registry, &QUICK).await?;
                anyhow::Ok(registry)
            })
            .await?;
        // A drill that failed may have left something broken.
        registry.set_faults(&json!({})).await?;
        let drill = Drill::of(cluster, registry, purpose).await?;
        Ok(Self { _turn: Some(turn), ..drill })
    }
}

impl<'a> Drill<'a> {
    /// A drill in a cluster of its own, where the program is installed.
    pub(crate) async fn of(cluster: &'a ControlPlane, registry: &Registry, purpose: &str) -> Result<Self> {
        let namespace = cluster.namespace(purpose).await?;
        let model = registry.post("registered_models", &json!({"name": namespace})).await?;
        let model = model["id"].as_str().context("a model without an id")?.to_owned();
        Self::with(cluster, registry, namespace, model)
    }

    /// A drill with a model that is there already.
    pub(crate) fn with(
        cluster: &'a ControlPlane,
        registry: &Registry,
        namespace: String,
        model: String,
    ) -> Result<Self> {
        let client = cluster.client()?;
        let objects = Api::namespaced_with(client.clone(), &namespace, &resource());
        let registry = registry.clone();
        Ok(Self { cluster, registry, namespace, model, objects, client, _turn: None })
    }

    /// Creates an object that names the model; returns the id in its label, where it has one.
    pub(crate) async fn create(&self, name: &str) -> Result<Option<String>> {
        let object: DynamicObject = serde_json::from_value(self.manifest(name))?;
        let created = self.objects.create(&PostParams::default(), &object).await?;
        Ok(created.metadata.labels.unwrap_or_default().remove(ID))
    }

    /// The same, for an object that has to have its label.
    pub(crate) async fn deploy(&self, name: &str) -> Result<String> {
        self.create(name).await?.with_context(|| format!("{name} has no id label\n{}", self.logs()))
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        self.objects.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub(crate) async fn create_all(&self, names: &[String]) -> Result<()> {
        let created = stream::iter(names).map(async |name| self.create(name).await.map(drop));
        created.buffer_unordered(AT_ONCE).try_collect().await
    }

    pub(crate) async fn delete_all(&self, names: &[String]) -> Result<()> {
        let deleted = stream::iter(names).map(async |name| self.delete(name).await);
        deleted.buffer_unordered(AT_ONCE).try_collect().await
    }

    pub(crate) async fn entry(&self, id: &str) -> Result<Value> {
        self.registry.get(&format!("inference_services/{id}")).await
    }

    /// Waits until the registry's list and the cluster's say the same, entry by entry.
    pub(crate) async fn registry_tells_the_truth(&self) -> Result<()> {
        let expected = "every object has one DEPLOYED entry that its label names, and every other entry of this \
                        cluster is UNDEPLOYED";
        let outcome = wait::until(expected, async || {
            let untrue = truth::compare(&self.client, &resource(), &self.registry).await?;
            let shown = untrue.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n");
            ensure!(untrue.is_empty(), "{} things are otherwise, such as\n{shown}", untrue.len());
            Ok(())
        });
        outcome.await.with_context(|| self.logs())
    }

    /// Waits until an entry is stamped with its object's uid, and returns it.
    pub(crate) async fn is_settled(&self, id: &str) -> Result<Value> {
        wait::until(&format!("entry {id} is stamped"), async || {
            let entry = self.entry(id).await?;
            ensure!(entry["customProperties"]["uid"].is_object(), "it is {entry}");
            Ok(entry)
        })
        .await
    }

    /// Waits until the syncer that runs now says that it has compared everything.
    pub(crate) async fn has_compared(&self, pod: &str) -> Result<()> {
        wait::until("the registries are compared with the cluster", async || {
            let log = self.cluster.container_log("isvc-registrar", pod, "syncer")?;
            ensure!(log.contains("compared the registries with the cluster"), "its log does not say so");
            Ok(())
        })
        .await
    }

    /// Waits until the syncer has written to the registry, or tried to, since it last forgot what it was asked.
    pub(crate) async fn writing_has_begun(&self) -> Result<()> {
        wait::until("the syncer writes to the registry", async || {
            let writes = self.writes().await?;
            ensure!(!writes.is_empty(), "nothing was written");
            Ok(())
        })
        .await
    }

    /// The latest requests that would change an entry.
    pub(crate) async fn writes(&self) -> Result<Vec<Value>> {
        let requests = self.registry.requests().await?.into_iter();
        Ok(requests
            .filter(|request| ["PATCH", "POST"].iter().any(|verb| request["method"] == *verb))
            .collect())
    }

    pub(crate) fn logs(&self) -> String {
        let log = |container| {
            let log = self.cluster.container_log("isvc-registrar", "isvc-registrar", container);
            let log = log.unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            lines[lines.len().saturating_sub(60)..].join("\n")
        };
        format!("the end of the logs: webhook:\n{}\nsyncer:\n{}", log("webhook"), log("syncer"))
    }

    fn manifest(&self, name: &str) -> Value {
        json!({
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {MODEL: self.model}},
            "spec": {"predictor": {"model": {"modelFormat": {"name": "onnx"}, "storageUri": "s3://models/it"}}},
        })
    }
}

/// `scorer-0`, `scorer-1` and so on.
pub(crate) fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("scorer-{at}")).collect()
}

fn resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("serving.kserve.io", "v1beta1", "InferenceService"))
}
