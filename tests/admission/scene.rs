//! The embedded registry with a few models and entries, and a webhook in front of it.
//!
//! Model 7 has the versions 70 and 71, and 79, which is archived; model 8 has version 80; model 9 is archived.

use std::net::Ipv4Addr;

use isvc_registrar::registry::embedded::{EmbeddedRegistry, Entry, Registry};
use serde_json::{Value, json};

use crate::reviews::{NAMESPACE, Review};
use crate::webhook::{Answered, CLUSTER, Setup, TestWebhook};

/// The registry's API, below its URL.
const API: &str = "/api/model_registry/v1";

/// An id that no entry has.
const NO_ENTRY: i32 = 4242;

pub(crate) struct Scene {
    pub(crate) server: EmbeddedRegistry,
    pub(crate) webhook: TestWebhook,
    /// The entries that there were to begin with, by the names that tests call them.
    entries: Vec<(&'static str, i32)>,
}

/// A registry with the models.
pub(crate) async fn registry_with_models() -> EmbeddedRegistry {
    let registry = Registry::new();
    for (id, name) in [(7, "fraud"), (8, "churn"), (9, "retired")] {
        registry.add_model(id, name).expect("a model");
    }
    for (id, model) in [(70, 7), (71, 7), (79, 7), (80, 8)] {
        registry.add_version(id, model, &format!("v{id}")).expect("a version");
    }
    let archive = r#"{"method": "PATCH", "path": "/registered_models/9", "body": {"state": "ARCHIVED"}}
        {"method": "PATCH", "path": "/model_versions/79", "body": {"state": "ARCHIVED"}}"#;
    registry.seed(archive).expect("what is there can be archived");
    EmbeddedRegistry::start(registry, (Ipv4Addr::LOCALHOST, 0).into()).await.expect("a free port")
}

/// What an entry that tests call by a name is like: name, environment, model, properties.
fn entry(called: &str) -> (&'static str, &'static str, i32, Value) {
    let ours = |cluster: &str, namespace: &str, name: &str| {
        let properties =
            [("managedBy", "isvc-registrar"), ("cluster", cluster), ("namespace", namespace), ("name", name)];
        let text = |value| json!({"metadataType": "MetadataStringValue", "string_value": value});
        Value::Object(properties.iter().map(|(key, value)| ((*key).to_owned(), text(*value))).collect())
    };
    let by_tool = json!({"managedBy": {"metadataType": "MetadataStringValue", "string_value": "tool"}});
    match called {
        // Of the object `scorer` in `team-a` of this cluster.
        "own" => ("scorer", NAMESPACE, 7, ours(CLUSTER, NAMESPACE, "scorer")),
        "own-of-8" => ("scorer/8", NAMESPACE, 8, ours(CLUSTER, NAMESPACE, "scorer")),
        "go" => ("scorer/0a1b-2c3d", NAMESPACE, 7, json!({})),
        "go-of-8" => ("scorer/0a1b-2c3d", NAMESPACE, 8, json!({})),
        "by-hand" => ("fraud in production", NAMESPACE, 7, json!({})),
        // Of somebody else.
        "other" => ("other", NAMESPACE, 7, ours(CLUSTER, NAMESPACE, "other")),
        "other-go" => ("other/5e6f", NAMESPACE, 7, json!({})),
        "elsewhere" => ("scorer", "team-b", 7, ours(CLUSTER, "team-b", "scorer")),
        "elsewhere-go" => ("scorer/0a1b-2c3d", "team-b", 7, json!({})),
        "elsewhere-by-hand" => ("fraud in production", "team-b", 7, json!({})),
        "west" => ("scorer", NAMESPACE, 7, ours("west", NAMESPACE, "scorer")),
        "west-of-7" => ("scorer/7", NAMESPACE, 7, ours("west", NAMESPACE, "scorer")),
        "tool" => ("fraud by tool", NAMESPACE, 7, by_tool),
        unknown => unreachable!("no entry is called {unknown}"),
    }
}

impl Scene {
    /// A registry with these entries, and a webhook with default policies.
    pub(crate) async fn with(entries: &str) -> Self {
        Self::of(entries, Setup::default()).await
    }

    pub(crate) async fn of(entries: &str, setup: Setup) -> Self {
        let server = registry_with_models().await;
        let webhook = TestWebhook::start(&server.url(), setup);
        let mut scene = Self { server, webhook, entries: Vec::new() };
        for called in entries.split_whitespace() {
            scene.add_entry(called).await;
        }
        scene.server.registry().clear_requests();
        scene
    }

    async fn add_entry(&mut self, called: &str) {
        let (name, environment, model, properties) = entry(called);
        let found = self.call("GET", &format!("/serving_environment?name={environment}"), None).await;
        let environment = match found["id"].as_str() {
            Some(id) => id.to_owned(),
            None => self.create("/serving_environments", json!({ "name": environment })).await,
        };
        let body = json!({
            "name": name, "servingEnvironmentId": environment, "registeredModelId": model.to_string(),
            "customProperties": properties,
        });
        let id = self.create("/inference_services", body).await;
        self.entries.push((called.to_owned().leak(), id.parse().expect("an id is a number")));
    }

    async fn create(&self, path: &str, body: Value) -> String {
        let created = self.call("POST", path, Some(body)).await;
        let id = created["id"].as_str();
        assert!(id.is_some(), "{path} is created: {created}");
        id.unwrap_or_default().to_owned()
    }

    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let url = format!("{}{API}{path}", self.server.url());
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
        let mut request = client.request(method.parse().expect("a method"), url);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = request.send().await.expect("the embedded registry answers");
        serde_json::from_slice(&answer.bytes().await.expect("a whole answer")).expect("JSON")
    }

    /// Words with the ids of the entries that they call by name: `id=own` becomes `id=3`.
    pub(crate) fn fill(&self, words: &str) -> String {
        let fill = |word: &str| match word.strip_prefix("id=") {
            Some("no-entry") => format!("id={NO_ENTRY}"),
            Some(called) => match self.entries.iter().find(|(name, _)| *name == called) {
                Some((_, id)) => format!("id={id}"),
                None => word.to_owned(),
            },
            None => word.to_owned(),
        };
        words.split_whitespace().map(fill).collect::<Vec<_>>().join(" ")
    }

    /// The answer in words, with entries by their names: `allow set=own`, or `set=new`.
    pub(crate) fn told(&self, answered: &Answered) -> String {
        let name = |word: &str| {
            let Some(id) = word.strip_prefix("set=").and_then(|id| id.parse::<i32>().ok()) else {
                return word.to_owned();
            };
            let known = self.entries.iter().find(|(_, known)| *known == id).map(|(name, _)| *name);
            let new =
                || if self.new_entries().iter().any(|entry| entry.id == id) { "new" } else { "no-entry" };
            format!("set={}", known.unwrap_or_else(new))
        };
        answered.told().split_whitespace().map(name).collect::<Vec<_>>().join(" ")
    }

    /// What a review comes to, after it was made sure that the registry was only read or added to.
    pub(crate) async fn review(&self, review: &Review) -> (Answered, String) {
        let before = self.new_entries().len();
        let answered = self.webhook.review(review).await;
        let told = self.told(&answered);
        assert_eq!(self.sent("PATCH"), 0, "admission never changes an entry");
        let created = self.new_entries().len() - before;
        assert_eq!(
            created,
            usize::from(told.contains("set=new") && before == 0),
            "entries created by {told}"
        );
        (answered, told)
    }

    /// Entries that were not there to begin with.
    pub(crate) fn new_entries(&self) -> Vec<Entry> {
        let is_new = |entry: &Entry| self.entries.iter().all(|(_, id)| *id != entry.id);
        self.server.registry().entries().into_iter().filter(is_new).collect()
    }

    /// How many requests the registry got with this method.
    pub(crate) fn sent(&self, method: &str) -> usize {
        self.server.registry().requests().iter().filter(|exchange| exchange.method == method).count()
    }

    /// How many requests created something below this path.
    pub(crate) fn posted(&self, collection: &str) -> usize {
        let requests = self.server.registry().requests();
        requests.iter().filter(|sent| sent.method == "POST" && sent.target.ends_with(collection)).count()
    }
}
