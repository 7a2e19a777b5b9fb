//! A namespace of a cluster where the program is installed, and what tests do and look at there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry, Run, wait};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

pub(crate) const MODEL: &str = "modelregistry.kubeflow.org/registered-model-id";
pub(crate) const VERSION: &str = "modelregistry.kubeflow.org/model-version-id";
pub(crate) const ID: &str = "modelregistry.kubeflow.org/inference-service-id";

/// The label of a Namespace that says how far the program goes there.
pub(crate) const REGISTRAR: &str = "modelregistry.kubeflow.org/registrar";

/// What KServe puts on an object before it makes anything of it.
pub(crate) const KSERVE_FINALIZER: &str = "inferenceservice.finalizers";

/// An id that is well-formed, and that no registry has come to yet.
pub(crate) const UNKNOWN_MODEL: &str = "2147483647";

/// Time counts in tests too: what the program waits for by itself is short.
pub(crate) const QUICK: [&str; 2] = ["syncer.grace=3s", "syncer.resync=2s"];

/// A user and a group of the shared installation that the webhook leaves alone.
pub(crate) const EXEMPT: [&str; 2] =
    ["webhook.exempt.users[0]=restorer", "webhook.exempt.groups[0]=restorers"];

/// A namespace, with the program and its registry.
pub(crate) struct Scene<'a> {
    pub(crate) cluster: &'a ControlPlane,
    pub(crate) registry: &'a Registry,
    pub(crate) namespace: String,
}

/// What kubectl brought about.
#[derive(Debug)]
pub(crate) struct Applied {
    /// The object, as the API server answered.
    pub(crate) object: Value,
    /// What kubectl wrote to standard error.
    pub(crate) said: String,
}

impl Scene<'static> {
    /// A namespace in the installation that all tests share. Nothing may be broken there.
    pub(crate) async fn set(purpose: &str) -> Result<Self> {
        static REGISTRY: OnceCell<Registry> = OnceCell::const_new();
        let registry = REGISTRY.get_or_try_init(install).await?;
        Scene::of(ControlPlane::shared().await?, registry, purpose).await
    }
}

async fn install() -> Result<Registry> {
    let cluster = ControlPlane::shared().await?;
    let registry = Registry::start(cluster).await?;
    Installation::install(cluster, &registry, &[QUICK, EXEMPT].concat()).await?;
    Ok(registry)
}

impl<'a> Scene<'a> {
    /// A namespace in a cluster of the test's own.
    pub(crate) async fn of(cluster: &'a ControlPlane, registry: &'a Registry, purpose: &str) -> Result<Self> {
        let namespace = cluster.namespace(purpose).await?;
        Ok(Self { cluster, registry, namespace })
    }

    /// Registers a model that nobody else uses, and returns its id.
    pub(crate) async fn model(&self) -> Result<String> {
        let name = self.unique("model")?;
        id_of(&self.registry.post("registered_models", &json!({"name": name})).await?)
    }

    /// A name that no other test has used, also in an earlier run that the registry remembers.
    pub(crate) fn unique(&self, purpose: &str) -> Result<String> {
        static NAMES: AtomicU32 = AtomicU32::new(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        Ok(format!("{purpose}-{}-{now}-{}", self.namespace, NAMES.fetch_add(1, Ordering::Relaxed)))
    }

    /// Registers a version of a model.
    pub(crate) async fn version(&self, model: &str, name: &str) -> Result<String> {
        let version = json!({"name": name, "registeredModelId": model});
        id_of(&self.registry.post("model_versions", &version).await?)
    }

    /// Runs kubectl in the namespace.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> Result<Run> {
        self.cluster.kubectl(&[arguments, &["--namespace", &self.namespace]].concat()).await
    }

    /// Runs kubectl in the namespace with a manifest.
    pub(crate) async fn kubectl_with(&self, arguments: &[&str], manifest: &Value) -> Result<Run> {
        let arguments = [arguments, &["--namespace", &self.namespace, "--filename=-"]].concat();
        self.cluster.kubectl_with(&arguments, &manifest.to_string()).await
    }

    /// `kubectl apply`, which has to work.
    pub(crate) async fn apply(&self, manifest: &Value) -> Result<Applied> {
        Applied::from(self.kubectl_with(&["apply", "--output=json"], manifest).await?)
    }

    /// `kubectl create`, which has to work.
    pub(crate) async fn create(&self, manifest: &Value) -> Result<Applied> {
        Applied::from(self.kubectl_with(&["create", "--output=json"], manifest).await?)
    }

    /// `kubectl patch` with a JSON merge patch, which has to work.
    pub(crate) async fn patch(&self, name: &str, patch: &Value) -> Result<Applied> {
        Applied::from(self.try_patch(name, patch).await?)
    }

    /// `kubectl patch` with a JSON merge patch.
    pub(crate) async fn try_patch(&self, name: &str, patch: &Value) -> Result<Run> {
        let patch = patch.to_string();
        self.kubectl(&["patch", "isvc", name, "--type=merge", "--output=json", "--patch", &patch]).await
    }

    /// `kubectl delete`, which has to work; returns once the object is gone.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        self.kubectl(&["delete", "isvc", name]).await?.stdout().map(drop)
    }

    /// An object as it is stored.
    pub(crate) async fn stored(&self, name: &str) -> Result<Value> {
        let object = self.kubectl(&["get", "isvc", name, "--output=json"]).await?.stdout()?;
        Ok(serde_json::from_str(&object)?)
    }

    /// The audit annotations that our webhooks left on the last request for `name`.
    pub(crate) fn noted(&self, name: &str) -> Result<BTreeMap<String, String>> {
        let log = self.cluster.audit_log()?;
        let last = log
            .iter()
            .rev()
            .find(|event| event.object_ref.namespace == self.namespace && event.object_ref.name == name);
        let notes = &last.with_context(|| format!("nobody asked for {name}"))?.annotations;
        let ours = notes.iter().filter_map(|(key, note)| {
            let (webhook, key) = key.split_once('/')?;
            webhook.ends_with(".modelregistry.kubeflow.org").then(|| (key.to_owned(), note.clone()))
        });
        Ok(ours.collect())
    }

    /// Labels the Namespace: `enforce`, `warn`, `observe` or `off`.
    pub(crate) async fn set_registrar(&self, value: &str) -> Result<()> {
        let label = format!("{REGISTRAR}={value}");
        self.cluster.kubectl(&["label", "namespace", &self.namespace, &label]).await?.stdout().map(drop)
    }

    /// One entry of the registry.
    pub(crate) async fn entry(&self, id: &str) -> Result<Value> {
        self.registry.get(&format!("inference_services/{id}")).await
    }

    /// The entries of a model in the environment that is named as the namespace.
    pub(crate) async fn entries(&self, model: &str) -> Result<Vec<Value>> {
        let environments = self.registry.get("serving_environments?pageSize=0").await?;
        let Some(environment) = items(&environments).find(|found| found["name"] == *self.namespace) else {
            return Ok(Vec::new());
        };
        let path = format!("serving_environments/{}/inference_services?pageSize=0", id_of(environment)?);
        let entries = self.registry.get(&path).await?;
        Ok(items(&entries).filter(|entry| entry["registeredModelId"] == model).cloned().collect())
    }

    /// Waits until an entry has this state.
    pub(crate) async fn entry_becomes(&self, id: &str, state: &str) -> Result<()> {
        wait::until(&format!("entry {id} becomes {state}"), async || {
            let entry = self.entry(id).await?;
            ensure!(entry["desiredState"] == state, "it is {entry}");
            Ok(())
        })
        .await
    }

    /// Waits until the syncer has nothing left to write about an object, and returns its entry.
    pub(crate) async fn settled(&self, id: &str) -> Result<Value> {
        wait::until(&format!("the syncer stamps entry {id} with its object's uid"), async || {
            let entry = self.entry(id).await?;
            ensure!(!entry["customProperties"]["uid"].is_null(), "it is {entry}");
            Ok(entry)
        })
        .await
    }
}

impl Applied {
    fn from(run: Run) -> Result<Self> {
        let said = run.stderr.clone();
        let object = run.stdout()?;
        Ok(Self { object: serde_json::from_str(&object)?, said })
    }

    /// The value of the id label.
    pub(crate) fn id(&self) -> Result<&str> {
        label(&self.object, ID).with_context(|| format!("there is no id label: {}", self.object))
    }
}

/// What kubectl says of a request that has to be refused.
pub(crate) fn refusal(run: Run) -> Result<String> {
    ensure!(!run.success, "this is not refused: {run:?}");
    Ok(run.stderr)
}

/// An InferenceService with these labels.
pub(crate) fn service(name: &str, labels: Value) -> Value {
    let mut object = json!({
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {"predictor": {"model": {
            "modelFormat": {"name": "sklearn"},
            "storageUri": "s3://models/fraud",
        }}},
    });
    object["metadata"]["labels"] = labels;
    object
}

/// The value of a label of an object.
pub(crate) fn label<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object["metadata"]["labels"][key].as_str()
}

/// The elements of a list, of the registry's or of the API server's.
pub(crate) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

/// The id of what the registry answered.
pub(crate) fn id_of(entity: &Value) -> Result<String> {
    let id = entity["id"].as_str().with_context(|| format!("the registry gives no id: {entity}"))?;
    Ok(id.to_owned())
}
