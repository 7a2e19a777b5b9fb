//! The part of an API server that certificates need, in memory: get, list, watch, update under resourceVersion,
//! JSON Patch. Every write is noted.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::stream;
use isvc_registrar::certs::Bundle;
use serde_json::{Value, json};
use tokio::sync::{Barrier, watch};

pub(crate) const NAMESPACE: &str = "kubeflow";
pub(crate) const SECRET: &str = "registrar-tls";
pub(crate) const CONFIGURATION: &str = "registration.registrar";
pub(crate) const SERVICE: &str = "registrar";

const SECRETS: &str = "/api/v1/namespaces/kubeflow/secrets";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

/// An API server; all clones are the same one.
#[derive(Clone)]
pub(crate) struct ApiServer {
    cluster: Arc<Mutex<Cluster>>,
    /// The newest resourceVersion, for watches that wait.
    version: Arc<watch::Sender<usize>>,
}

#[derive(Default)]
struct Cluster {
    objects: BTreeMap<String, Value>,
    /// Each change ever made; a resourceVersion is the number of those up to it.
    history: Vec<(String, &'static str, Value)>,
    writes: Vec<Write>,
    /// The first readers of the Secret go on together.
    meeting: Option<(Arc<Barrier>, usize)>,
    refuse_writes: bool,
}

/// A write that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) status: StatusCode,
}

impl ApiServer {
    /// An API server as an installation leaves it: an empty Secret, a configuration without caBundle.
    pub(crate) fn installed() -> Self {
        let server = Self::empty();
        server
            .put(&secret_path(), json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}));
        let webhook = |name: &str| {
            json!({
                "name": name,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "NoneOnDryRun",
                "failurePolicy": "Ignore",
                "clientConfig": {"service": {"namespace": NAMESPACE, "name": SERVICE, "path": "/mutate"}},
            })
        };
        server.put(
            &configuration_path(),
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": CONFIGURATION, "labels": {"app": "registrar"}},
                "webhooks": [webhook("register.example.org"), webhook("late.example.org")],
            }),
        );
        server
    }

    /// An API server with nothing in it.
    pub(crate) fn empty() -> Self {
        Self { cluster: Arc::default(), version: Arc::new(watch::Sender::new(0)) }
    }

    /// A client of it.
    pub(crate) fn client(&self) -> kube::Client {
        let router: Router = Router::new().fallback(answer).with_state(self.clone());
        kube::Client::new(router, "default")
    }

    /// So many readers of the Secret wait for each other, once: all see the same.
    pub(crate) fn let_meet(&self, readers: usize) {
        self.cluster().meeting = Some((Arc::new(Barrier::new(readers)), readers));
    }

    /// From now on no write is allowed, or all are.
    pub(crate) fn refuse_writes(&self, refuse: bool) {
        self.cluster().refuse_writes = refuse;
    }

    /// What was written by clients.
    pub(crate) fn writes(&self) -> Vec<Write> {
        self.cluster().writes.clone()
    }

    /// Waits for the next change.
    pub(crate) fn changes(&self) -> watch::Receiver<usize> {
        self.version.subscribe()
    }

    /// An object, if there is one.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.cluster().objects.get(path).cloned()
    }

    /// Creates or replaces an object, as some person or tool would.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.store(&mut self.cluster(), path, object);
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, path: &str) {
        let mut cluster = self.cluster();
        if let Some(mut object) = cluster.objects.remove(path) {
            object["metadata"]["resourceVersion"] = json!((cluster.history.len() + 1).to_string());
            cluster.history.push((path.to_owned(), "DELETED", object));
            self.version.send_replace(cluster.history.len());
        }
    }

    /// Changes an object, as some person or tool would.
    pub(crate) fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut cluster = self.cluster();
        let mut object = cluster.objects.get(path).cloned().expect("edited objects exist");
        change(&mut object);
        self.store(&mut cluster, path, object);
    }

    /// The caBundle of each webhook.
    pub(crate) fn ca_bundles(&self) -> Vec<Bundle> {
        let configuration = self.get(&configuration_path()).expect("the configuration exists");
        let webhooks = configuration["webhooks"].as_array().expect("a list of webhooks");
        webhooks
            .iter()
            .map(|webhook| {
                let pem = STANDARD.decode(webhook["clientConfig"]["caBundle"].as_str().unwrap_or_default());
                Bundle::from_pem(&pem.expect("caBundle is base64")).expect("caBundle is PEM")
            })
            .collect()
    }

    fn store(&self, cluster: &mut Cluster, path: &str, mut object: Value) {
        let version = cluster.history.len() + 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let event = if cluster.objects.contains_key(path) { "MODIFIED" } else { "ADDED" };
        cluster.objects.insert(path.to_owned(), object.clone());
        cluster.history.push((path.to_owned(), event, object));
        self.version.send_replace(version);
    }

    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn meet(&self, path: &str) {
        let barrier = {
            let mut cluster = self.cluster();
            match &mut cluster.meeting {
                Some((barrier, left)) if path == secret_path() && *left > 0 => {
                    *left -= 1;
                    Some(Arc::clone(barrier))
                }
                _ => None,
            }
        };
        if let Some(barrier) = barrier {
            barrier.wait().await;
        }
    }

    fn write(&self, method: &Method, path: &str, body: &[u8]) -> Response {
        let mut cluster = self.cluster();
        let written = match cluster.objects.get(path).cloned() {
            _ if cluster.refuse_writes => Err(StatusCode::FORBIDDEN),
            None => Err(StatusCode::NOT_FOUND),
            Some(object) => changed(method, object, body),
        };
        let status = written.as_ref().err().copied().unwrap_or(StatusCode::OK);
        cluster.writes.push(Write { method: method.clone(), path: path.to_owned(), status });
        match written {
            Ok(object) => {
                self.store(&mut cluster, path, object);
                Json(cluster.objects[path].clone()).into_response()
            }
            Err(status) => failure(status),
        }
    }

    /// Every change since a version, and those to come.
    fn events(&self, prefix: String, since: usize) -> Response {
        let state = (self.clone(), self.changes(), since);
        let events = stream::unfold(state, move |(server, mut version, seen)| {
            let prefix = prefix.clone();
            async move {
                version.wait_for(|version| *version > seen).await.ok()?;
                let line = {
                    let cluster = server.cluster();
                    let (path, event, object) = &cluster.history[seen];
                    let line = json!({"type": event, "object": object}).to_string();
                    if path.starts_with(&prefix) { line + "\n" } else { String::new() }
                };
                Some((Ok::<_, Infallible>(Bytes::from(line)), (server, version, seen + 1)))
            }
        });
        Body::from_stream(events).into_response()
    }
}

pub(crate) fn secret_path() -> String {
    format!("{SECRETS}/{SECRET}")
}

pub(crate) fn configuration_path() -> String {
    format!("{CONFIGURATIONS}/{CONFIGURATION}")
}

fn changed(method: &Method, object: Value, body: &[u8]) -> Result<Value, StatusCode> {
    if *method == Method::PUT {
        let new: Value = serde_json::from_slice(body).map_err(|_| StatusCode::BAD_REQUEST)?;
        let as_read = new["metadata"]["resourceVersion"] == object["metadata"]["resourceVersion"];
        return if as_read { Ok(new) } else { Err(StatusCode::CONFLICT) };
    }
    let patch: json_patch::Patch = serde_json::from_slice(body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let mut new = object;
    json_patch::patch(&mut new, &patch).map_err(|_| StatusCode::UNPROCESSABLE_ENTITY)?;
    Ok(new)
}

async fn answer(
    State(server): State<ApiServer>,
    method: Method,
    uri: Uri,
    Query(query): Query<BTreeMap<String, String>>,
    body: Bytes,
) -> Response {
    let path = uri.path();
    let collection = [SECRETS, CONFIGURATIONS].contains(&path);
    let name = query.get("fieldSelector").and_then(|selector| selector.strip_prefix("metadata.name="));
    match (&method, name) {
        (&Method::GET, Some(name))
            if collection && query.get("watch").is_some_and(|watch| watch == "true") =>
        {
            let since = query.get("resourceVersion").and_then(|version| version.parse().ok());
            server.events(format!("{path}/{name}"), since.unwrap_or_default())
        }
        (&Method::GET, Some(name)) if collection => {
            let cluster = server.cluster();
            let items: Vec<_> = cluster.objects.get(&format!("{path}/{name}")).into_iter().cloned().collect();
            let version = cluster.history.len().to_string();
            Json(json!({"metadata": {"resourceVersion": version}, "items": items})).into_response()
        }
        (&Method::GET, _) => {
            server.meet(path).await;
            server
                .get(path)
                .map_or_else(|| failure(StatusCode::NOT_FOUND), |object| Json(object).into_response())
        }
        (&Method::PUT | &Method::PATCH, _) => server.write(&method, path, &body),
        _ => failure(StatusCode::METHOD_NOT_ALLOWED),
    }
}

fn failure(status: StatusCode) -> Response {
    let reason = match status {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::CONFLICT => "Conflict",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::UNPROCESSABLE_ENTITY => "Invalid",
        _ => "",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": status.as_u16(), "reason": reason, "message": format!("refused: {reason}"),
    });
    (status, Json(body)).into_response()
}
