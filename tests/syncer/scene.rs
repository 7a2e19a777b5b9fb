//! A registry, a cluster's objects and a syncer, for one test.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use isvc_registrar::kserve::DEFAULT_PREFIX;
use isvc_registrar::registration::{ClusterId, Effects, ObjectName, Registrar, Wanted};
use isvc_registrar::registry::directory::{
    Configured, Directory, Registry as ConfiguredRegistry, Scope, Source, Way,
};
use isvc_registrar::registry::embedded::{EmbeddedRegistry, Entry, Exchange, Faults, Registry};
use isvc_registrar::registry::{ApiChoice, ClientSettings, RegistryClient};
use isvc_registrar::syncer::objects::memory::MemoryObjects;
use isvc_registrar::syncer::{Fence, Metrics, Settings, Syncer};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::races::Races;

pub(crate) const CLUSTER: &str = "east";
pub(crate) const NAMESPACE: &str = "team-a";
/// A registered model, its version, and another model.
pub(crate) const MODEL: i32 = 7;
pub(crate) const VERSION: i32 = 12;
pub(crate) const OTHER_MODEL: i32 = 9;

/// The registry's clock begins so far back, since it can only be moved forwards.
const AN_HOUR_MS: i64 = 3_600_000;

/// No condition takes so long unless it never comes.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct Scene {
    pub(crate) server: EmbeddedRegistry,
    pub(crate) objects: MemoryObjects,
    pub(crate) source: Arc<Races>,
    pub(crate) metrics: Metrics,
    pub(crate) fence: Fence,
    pub(crate) settings: Settings,
    clients: Vec<RegistryClient>,
    urls: Vec<url::Url>,
    /// How far the registry's clock is off, in milliseconds.
    clock: Arc<AtomicI64>,
}

/// A syncer that runs.
pub(crate) struct Running {
    pub(crate) syncer: Syncer,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("the syncer stops without a panic");
    }
}

impl Scene {
    pub(crate) async fn new() -> Self {
        // Fails only where another test was faster.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let clock = Arc::new(AtomicI64::new(-AN_HOUR_MS));
        let off = Arc::clone(&clock);
        let registry = Registry::with_clock(move || {
            let off = off.load(Ordering::SeqCst);
            let by = Duration::from_millis(off.unsigned_abs());
            if off < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
        });
        let server = serve(registry).await;
        let client = client("registry", &server.url());
        let objects = MemoryObjects::new();
        Self {
            clients: vec![client],
            urls: vec![url::Url::parse(&server.url()).unwrap()],
            source: Races::new(objects.clone()),
            objects,
            metrics: Metrics::default(),
            fence: Fence::open(),
            settings: Settings {
                grace: Duration::ZERO,
                resync: Duration::from_millis(200),
                full_resync: Duration::from_millis(200),
                ..Settings::new(ClusterId::new(CLUSTER).unwrap())
            },
            server,
            clock,
        }
    }

    /// Configures another registry beside the first, which stays the default.
    pub(crate) async fn another_registry(&mut self, name: &str) -> EmbeddedRegistry {
        let server = serve(Registry::new()).await;
        self.clients.push(client(name, &server.url()));
        self.urls.push(url::Url::parse(&server.url()).unwrap());
        server
    }

    /// Puts an empty registry in the place of the first, where it was.
    pub(crate) async fn lose_the_registry(&mut self) {
        let address = self.server.address();
        let elsewhere = serve(Registry::new()).await;
        std::mem::replace(&mut self.server, elsewhere).stop().await;
        self.server = serve_at(Registry::new(), address).await;
    }

    /// Configures the first registry a second time, under another name.
    pub(crate) fn same_registry_again(&mut self, name: &str) {
        self.clients.push(client(name, &self.server.url()));
        self.urls.push(self.urls[0].clone());
    }

    /// The configured registries.
    pub(crate) fn configured(&self) -> Configured {
        let registries =
            self.clients.iter().zip(&self.urls).enumerate().map(|(at, (client, url))| ConfiguredRegistry {
                name: client.name().to_owned(),
                namespace: None,
                source: if at == 0 { Source::Flags } else { Source::File },
                allowed: Scope::All,
                default_for: Scope::none(),
                way: Some(Way { url: url.clone(), client: client.clone() }),
            });
        Configured { registries: registries.collect(), registry_namespace: "kubeflow".into(), complete: true }
    }

    pub(crate) fn directory(&self) -> Directory {
        Directory::of(self.configured())
    }

    /// The client of the registry that was configured last.
    pub(crate) fn last_client(&self) -> RegistryClient {
        self.clients.last().expect("there is one from the start").clone()
    }

    pub(crate) fn start(&self) -> Running {
        self.start_with(self.directory())
    }

    /// The same with registries that the test replaces later.
    pub(crate) fn start_with(&self, directory: Directory) -> Running {
        let syncer = Syncer::new(
            self.settings.clone(),
            self.source.clone(),
            directory,
            self.fence.clone(),
            self.metrics.clone(),
        );
        let stop = CancellationToken::new();
        let (running, stopping) = (syncer.clone(), stop.clone());
        let task = tokio::spawn(async move { running.run(stopping).await });
        Running { syncer, stop, task }
    }

    pub(crate) fn registry(&self) -> &Registry {
        self.server.registry()
    }

    /// Has the registry's clock be wrong from now on.
    pub(crate) fn set_clock_off(&self, by: i64) {
        self.clock.store(by, Ordering::SeqCst);
    }

    /// Finds or creates an entry as the webhook does during admission, when the object is not stored yet.
    pub(crate) async fn admit(&self, name: &str, model: i32) -> i32 {
        self.admit_in(CLUSTER, name, model).await
    }

    /// The same in another cluster that shares the registry.
    pub(crate) async fn admit_in(&self, cluster: &str, name: &str, model: i32) -> i32 {
        admit(self.clients[0].clone(), cluster.to_owned(), name.to_owned(), model).await
    }

    /// Admits an object and stores it with its label, as a create through the webhook does.
    pub(crate) async fn create(&self, name: &str) -> i32 {
        let id = self.admit(name, MODEL).await;
        self.objects.apply(object(name, &labels(Some(MODEL), Some(id)), &json!({}))).expect("it has a name");
        id
    }

    pub(crate) fn client(&self) -> RegistryClient {
        self.clients[0].clone()
    }

    pub(crate) fn entry(&self, id: i32) -> Entry {
        self.registry().entry(id).expect("the entry is there")
    }

    pub(crate) fn state(&self, id: i32) -> String {
        self.entry(id).desired_state
    }

    /// The entries of the registry by name, with their state.
    pub(crate) fn states(&self) -> BTreeMap<String, String> {
        self.registry().entries().into_iter().map(|entry| (entry.name, entry.desired_state)).collect()
    }

    /// The requests so far that changed an entry.
    pub(crate) fn patches(&self) -> Vec<Exchange> {
        self.registry().requests().into_iter().filter(|request| request.method == "PATCH").collect()
    }

    /// Changes an entry as somebody else would.
    pub(crate) async fn patch(&self, id: i32, body: Value) {
        patch(url_of(&self.server, id), body).await;
    }

    pub(crate) fn faults(&self, faults: Value) {
        self.registry().set_faults(serde_json::from_value::<Faults>(faults).expect("known switches"));
    }
}

/// Where an entry is.
pub(crate) fn url_of(server: &EmbeddedRegistry, id: i32) -> String {
    format!("{}/api/model_registry/v1/inference_services/{id}", server.url())
}

/// Changes the entry there as somebody else would.
pub(crate) async fn patch(url: String, body: Value) {
    let patch = reqwest::Client::new().patch(url).header("content-type", "application/json");
    let answer = patch.body(body.to_string()).send().await.expect("the registry answers");
    assert!(answer.status().is_success(), "the registry refuses {body}: {}", answer.status());
}

async fn serve(registry: Registry) -> EmbeddedRegistry {
    serve_at(registry, (Ipv4Addr::LOCALHOST, 0).into()).await
}

async fn serve_at(registry: Registry, address: SocketAddr) -> EmbeddedRegistry {
    registry.add_model(MODEL, "fraud").unwrap();
    registry.add_version(VERSION, MODEL, "v1").unwrap();
    registry.add_version(VERSION + 1, MODEL, "v2").unwrap();
    registry.add_model(OTHER_MODEL, "spam").unwrap();
    EmbeddedRegistry::start(registry, address).await.expect("a free port")
}

fn client(name: &str, url: &str) -> RegistryClient {
    RegistryClient::new(ClientSettings {
        name: name.into(),
        url: url::Url::parse(url).expect("a URL"),
        address: None,
        api: ApiChoice::Auto,
        token_file: None,
        ca_file: None,
        timeout: Duration::from_secs(3),
        metrics: isvc_registrar::metrics::RegistryMetrics::default(),
    })
}

/// Finds or creates an entry.
pub(crate) async fn admit(client: RegistryClient, cluster: String, name: String, model: i32) -> i32 {
    let registrar = Registrar::new(ClusterId::new(&cluster).unwrap(), Duration::from_secs(3));
    let wanted = Wanted {
        object: ObjectName::new(NAMESPACE, name),
        uid: None,
        model: model.to_string().parse().ok(),
        version: None,
        labelled: None,
        runtime: "triton".into(),
        refuse_archived: false,
    };
    let registered =
        registrar.register(&client, &wanted, Effects::Create).await.expect("it can be registered");
    registered.entry.id.get().try_into().expect("ids are int32")
}

pub(crate) fn name(name: &str) -> ObjectName {
    ObjectName::new(NAMESPACE, name)
}

pub(crate) fn label(key: &str) -> String {
    format!("{DEFAULT_PREFIX}/{key}")
}

/// Model and entry labels.
pub(crate) fn labels(model: Option<i32>, entry: Option<i32>) -> Value {
    let mut labels = serde_json::Map::new();
    if let Some(model) = model {
        labels.insert(label("registered-model-id"), json!(model.to_string()));
    }
    if let Some(entry) = entry {
        labels.insert(label("inference-service-id"), json!(entry.to_string()));
    }
    Value::Object(labels)
}

pub(crate) fn object(name: &str, labels: &Value, status: &Value) -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": labels},
        "spec": {"predictor": {"model": {"runtime": "triton", "modelFormat": {"name": "onnx"}}}},
        "status": status,
    })
}

pub(crate) fn ready(url: &str) -> Value {
    json!({"url": url, "conditions": [{"type": "Ready", "status": "True"}]})
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(LIMIT, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "in vain waited until {what}");
}

impl Scene {
    /// The syncer's metrics, as Prometheus reads them.
    pub(crate) fn metrics_text(&self) -> String {
        let metrics = isvc_registrar::metrics::Metrics { syncer: self.metrics.clone(), ..Default::default() };
        metrics.text()
    }
}
