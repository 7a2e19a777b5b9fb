//! A running registry for a test: requests go in by method and path, statuses and JSON come out.

use std::net::Ipv4Addr;

use isvc_registrar::registry::embedded::{EmbeddedRegistry, Registry};
use serde_json::{Value, json};

use crate::http::{Reply, client, send};

/// A registry that runs, and a client that talks to it.
pub(crate) struct Scene {
    pub(crate) server: EmbeddedRegistry,
    pub(crate) client: reqwest::Client,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::of(Registry::new()).await
    }

    pub(crate) async fn of(registry: Registry) -> Self {
        let server =
            EmbeddedRegistry::start(registry, (Ipv4Addr::LOCALHOST, 0).into()).await.expect("a free port");
        Self { server, client: client() }
    }

    /// A model, its version, an environment and an inference service in it; returns their ids.
    pub(crate) async fn with_entry() -> (Self, Ids) {
        let scene = Self::new().await;
        let model = scene.create("/registered_models", json!({"name": "fraud"})).await;
        let version =
            scene.create("/model_versions", json!({"name": "v1", "registeredModelId": model})).await;
        let environment = scene.create("/serving_environments", json!({"name": "team-a"})).await;
        let service = scene
            .create(
                "/inference_services",
                json!({"name": "scorer", "registeredModelId": model, "servingEnvironmentId": environment}),
            )
            .await;
        let ids = Ids { model, version, environment, service };
        (scene, ids)
    }

    pub(crate) fn registry(&self) -> &Registry {
        self.server.registry()
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        let url = format!("{}{path}", self.server.url());
        let body = body.map(|body| ("application/json", body.to_string()));
        send(&self.client, method, &url, body).await.expect("an answer")
    }

    /// The status and body of an answer in JSON.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let path = format!("/api/model_registry/v1{path}");
        let reply = self.send(method, &path, body).await;
        (reply.status, reply.json().expect("an answer in JSON"))
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.call("GET", path, None).await
    }

    /// Asks for something that the registry refuses in its own words.
    pub(crate) async fn refuses(&self, method: &str, path: &str, body: Option<Value>, status: u16) {
        let (got, answer) = self.call(method, path, body).await;
        assert_eq!(got, status, "{method} {path}: {answer}");
        assert!(answer["code"].is_string() && answer["message"].is_string(), "{answer}");
    }

    /// Makes something and returns its id.
    pub(crate) async fn create(&self, path: &str, body: Value) -> String {
        let (status, answer) = self.call("POST", path, Some(body)).await;
        assert_eq!(status, 201, "{answer}");
        answer["id"].as_str().expect("an id").to_owned()
    }

    /// The names in a list.
    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        let (status, list) = self.get(path).await;
        assert_eq!(status, 200, "{list}");
        names_in(&list)
    }
}

/// What [`Scene::with_entry`] made.
pub(crate) struct Ids {
    pub(crate) model: String,
    pub(crate) version: String,
    pub(crate) environment: String,
    pub(crate) service: String,
}

/// The names in the body of a list.
pub(crate) fn names_in(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
}
