//! The real API server under the lines that need one, and InferenceServices in it.
//!
//! In: nothing. Out: a control plane without the chart, namespaces of objects, and the webhook of a scene in front of
//! those that ask for it. What stays true: all that is measured are the API server, the webhook, the syncer and the
//! registry; no kubelet runs any of them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use isvc_registrar_test_cluster::{ControlPlane, wait};
use k8s_openapi::ByteString;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use registrar_benches::reviews::{MODEL_ID, VERSION_ID};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::scene::{Listening, Scene};

const ID: &str = "modelregistry.kubeflow.org/inference-service-id";
const MODEL: &str = "modelregistry.kubeflow.org/registered-model-id";
const VERSION: &str = "modelregistry.kubeflow.org/model-version-id";

/// Requests to the API server at once, where only their end matters.
const AT_ONCE: usize = 16;

/// A running control plane, and the runtime that it is asked on.
pub(crate) struct Cluster {
    control_plane: ControlPlane,
    runtime: Runtime,
}

/// The InferenceServices of one namespace.
pub(crate) struct Objects<'a> {
    cluster: &'a Cluster,
    namespace: String,
    api: Api<DynamicObject>,
}

impl Cluster {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let runtime = Runtime::new()?;
        let control_plane = runtime
            .block_on(ControlPlane::start_empty())
            .context("no control plane: it needs Go and root")?;
        Ok(Self { control_plane, runtime })
    }

    /// For a program that is to ask this API server.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.control_plane.kubeconfig()
    }

    pub(crate) fn client(&self) -> anyhow::Result<kube::Client> {
        let _runtime = self.runtime.enter();
        self.control_plane.client()
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// A new namespace, with no webhook before it.
    pub(crate) fn objects(&self, namespace: &str) -> anyhow::Result<Objects<'_>> {
        let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.block_on(self.control_plane.apply(&manifest.to_string()))?;
        let kind = GroupVersionKind::gvk("serving.kserve.io", "v1beta1", "InferenceService");
        let api = Api::namespaced_with(self.client()?, namespace, &ApiResource::from_gvk(&kind));
        Ok(Objects { cluster: self, namespace: namespace.to_owned(), api })
    }
}

impl Objects<'_> {
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Has every object of this namespace reviewed from now on.
    pub(crate) fn put_before(&self, scene: &Scene, webhook: &Listening) -> anyhow::Result<()> {
        let url = format!("https://localhost:{}/mutate", webhook.address.port());
        let namespace = &self.namespace;
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": format!("registration-{namespace}")},
            "webhooks": [{
                "name": format!("{namespace}.registrar.example.com"),
                "clientConfig": {"url": url, "caBundle": ByteString(std::fs::read(scene.ca())?)},
                "rules": [{
                    "apiGroups": ["serving.kserve.io"], "apiVersions": ["v1beta1"],
                    "operations": ["CREATE", "UPDATE"], "resources": ["inferenceservices"],
                }],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": "Fail", "sideEffects": "NoneOnDryRun", "timeoutSeconds": 10,
                "admissionReviewVersions": ["v1"],
            }],
        });
        self.cluster.block_on(async {
            self.cluster.control_plane.apply(&configuration.to_string()).await?;
            // An API server takes a moment to learn of it.
            wait::until("an object gets its label", async || {
                let object = serde_json::from_value(self.manifest("probe"))?;
                let created = self.api.create(&PostParams::default(), &object).await?;
                self.api.delete("probe", &DeleteParams::default()).await?;
                let labels = created.metadata.labels.unwrap_or_default();
                ensure!(labels.contains_key(ID), "its labels are {labels:?}");
                Ok(())
            })
            .await
        })
    }

    /// Creates an object and says how long that took.
    pub(crate) fn create(&self, number: u64) -> anyhow::Result<Duration> {
        let object = serde_json::from_value(self.manifest(&name_of(number)))?;
        let started = Instant::now();
        self.cluster.block_on(self.api.create(&PostParams::default(), &object))?;
        Ok(started.elapsed())
    }

    /// Creates many at a time; returns their entries' ids.
    pub(crate) fn create_all(&self, numbers: std::ops::Range<u64>) -> anyhow::Result<Vec<String>> {
        let created = stream::iter(numbers).map(async |number| {
            let object = serde_json::from_value(self.manifest(&name_of(number)))?;
            let created = self.api.create(&PostParams::default(), &object).await?;
            created.metadata.labels.unwrap_or_default().remove(ID).context("an object without its label")
        });
        self.cluster.block_on(created.buffered(AT_ONCE).try_collect())
    }

    pub(crate) fn delete_all(&self, numbers: std::ops::Range<u64>) -> anyhow::Result<()> {
        let deleted = stream::iter(numbers)
            .map(async |number| self.api.delete(&name_of(number), &DeleteParams::default()).await.map(drop));
        Ok(self.cluster.block_on(deleted.buffer_unordered(AT_ONCE).try_collect())?)
    }

    fn manifest(&self, name: &str) -> Value {
        json!({
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {
                "name": name, "namespace": self.namespace,
                "labels": {MODEL: MODEL_ID.to_string(), VERSION: VERSION_ID.to_string()},
            },
            "spec": {"predictor": {"model": {
                "modelFormat": {"name": "sklearn"}, "storageUri": "s3://models/fraud",
            }}},
        })
    }
}

/// The name of an object.
pub(crate) fn name_of(number: u64) -> String {
    format!("scorer-{number:08}")
}
