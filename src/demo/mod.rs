//! The whole thing in one process, with no cluster and nothing to install.
//!
//! Goes in: manifests, or the project's own samples. Comes out: what a user would see at each step. The registry
//! is the embedded one; the API server is a store in memory ([`api_server`]) that calls the webhook over TLS; the
//! webhook and the syncer are the real ones. What stays true: nothing is shown that did not happen.

mod api_server;
mod manifests;
mod narrator;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::admission::{self, Policies, Webhook};
use crate::certs::issue::Authority;
use crate::certs::{CertificateResolver, read_pair};
use crate::kserve::LabelKeys;
use crate::metrics::Metrics;
use crate::namespaces::Namespaces;
use crate::registration::{ClusterId, ObjectName, Registrar};
use crate::registry::directory::{Defaults, Directory, Settings};
use crate::registry::embedded::{EmbeddedRegistry, Registry};
use crate::registry::{ApiChoice, ModelVersionId, RegisteredModelId};
use crate::server::{Limits, tls};
use crate::syncer::objects::memory::MemoryObjects;
use crate::syncer::{self, Fence, Syncer};
use api_server::{ApiServer, name_of};
use manifests::Manifest;
use narrator::Narrator;

/// Name of the registry in messages: the one that Model Registry's own manifests give its Service.
const REGISTRY: &str = "model-registry-service";

/// Limit of one call, and of the calls of one review.
const CALL_LIMIT: Duration = Duration::from_secs(3);

/// How long the syncer may take to retire an entry before the demonstration gives up. It takes milliseconds.
const RETIREMENT_LIMIT: Duration = Duration::from_secs(20);

/// How often the registry is looked at meanwhile.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// What to show.
pub struct Demo {
    /// Manifests to apply; the samples when there are none.
    pub manifests: Vec<PathBuf>,
    /// Whether to stay up afterwards, until the token is cancelled.
    pub serve: Option<CancellationToken>,
}

/// Shows it.
pub async fn run(demo: Demo, out: impl Write) -> anyhow::Result<()> {
    let keys = LabelKeys::default();
    let mut narrator = Narrator::new(out, keys.clone());
    let samples = demo.manifests.is_empty();
    let manifests = if samples { manifests::samples()? } else { manifests::read(&demo.manifests)? };

    let registry = Registry::new();
    narrator
        .say("A Model Registry in memory, the webhook over TLS, the syncer, and an API server in memory.")?;
    if samples {
        registry
            .add_model(1, "fraud")
            .and_then(|()| registry.add_version(2, 1, "v1"))
            .context("cannot seed")?;
        narrator.line("The registry holds registered model 1 (fraud) with version 2 (v1).")?;
    } else {
        let mut made = BTreeSet::new();
        for (model, version) in named(&manifests, &keys) {
            narrator.line(&add(&registry, &mut made, &model, version.as_deref()))?;
        }
    }
    let stage = Stage::set(registry, keys).await?;
    for manifest in &manifests {
        narrator.command(&format!("kubectl apply -f {}", manifest.name))?;
        for kind in &manifest.others {
            narrator.line(&format!("{kind}: not shown, only InferenceServices concern this program"))?;
        }
        for object in &manifest.objects {
            let Some(name) = object["metadata"]["name"].as_str() else {
                narrator.line("An object without a name is not shown: use metadata.name")?;
                continue;
            };
            narrator.applied(name, &stage.api_server.apply(object).await?)?;
        }
    }
    narrator.entries(&stage.registry.registry().entries())?;
    if let Some((name, entry)) = stage.first_registered() {
        narrator.command(&format!("kubectl delete inferenceservice {} -n {}", name.name, name.namespace))?;
        stage.api_server.delete(&name);
        narrator.line(&format!("inferenceservice.serving.kserve.io \"{}\" deleted", name.name))?;
        stage.wait_until_retired(entry).await?;
        narrator.entries(&stage.registry.registry().entries())?;
    }
    if let Some(stop) = demo.serve {
        stage.invite(&mut narrator)?;
        stop.cancelled().await;
    }
    stage.strike().await;
    Ok(())
}

/// The ids that manifests name: each model, with each version.
fn named(manifests: &[Manifest], keys: &LabelKeys) -> BTreeSet<(String, Option<String>)> {
    let objects = manifests.iter().flat_map(|manifest| &manifest.objects);
    let label =
        |object: &Value, key: &str| object["metadata"]["labels"].get(key)?.as_str().map(str::to_owned);
    let ids = objects.filter_map(|object| {
        Some((label(object, &keys.registered_model_id)?, label(object, &keys.model_version_id)))
    });
    ids.collect()
}

/// Makes a model that a manifest names, and its version; says what was made, or what could not be.
fn add(registry: &Registry, made: &mut BTreeSet<String>, model: &str, version: Option<&str>) -> String {
    let (Ok(model_id), Ok(id)) = (model.parse::<RegisteredModelId>(), model.parse()) else {
        return format!("`{model}` is no id, so no registered model was made for it.");
    };
    let there = made.contains(model) || registry.add_model(id, &format!("model-{model}")).is_ok();
    if !there {
        return format!(
            "No registered model {model} was made: the id is taken, as all kinds share their ids."
        );
    }
    made.insert(model.to_owned());
    let Some(version) = version else {
        return format!("The registry holds registered model {model_id}.");
    };
    let version_id = version.parse::<ModelVersionId>().ok().and_then(|_| version.parse().ok());
    match version_id.map(|version_id| registry.add_version(version_id, id, &format!("version-{version}"))) {
        Some(Ok(())) => format!("The registry holds registered model {model} with version {version}."),
        Some(Err(error)) => {
            format!("The registry holds registered model {model}; version {version} is not there: {error}")
        }
        None => format!("The registry holds registered model {model}; `{version}` is no id of a version."),
    }
}

/// Everything that runs.
struct Stage {
    registry: EmbeddedRegistry,
    api_server: ApiServer,
    objects: MemoryObjects,
    keys: LabelKeys,
    webhook: Url,
    ca: String,
    stop: CancellationToken,
}

impl Stage {
    /// Starts it, on free ports.
    async fn set(registry: Registry, keys: LabelKeys) -> anyhow::Result<Self> {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let registry =
            EmbeddedRegistry::start(registry, loopback).await.context("cannot start the registry")?;
        let metrics = Metrics::default();
        let settings = Settings {
            defaults: Defaults {
                token_file: None,
                ca_file: None,
                api: ApiChoice::Auto,
                timeout: CALL_LIMIT,
                metrics: metrics.registry.clone(),
            },
            flags: Some((REGISTRY.to_owned(), Url::parse(&registry.url())?)),
            file: None,
            namespaces: Vec::new(),
        };
        let directory = Directory::follow(settings, Namespaces::default(), None).await?;
        let cluster = ClusterId::new("demo")?;
        let registrar = Registrar::new(cluster.clone(), CALL_LIMIT);
        let stop = CancellationToken::new();

        let authority = Authority::for_development()?;
        let leaf = authority.issue(&["localhost".to_owned()])?;
        let resolver = Arc::new(CertificateResolver::default());
        resolver.serve(read_pair(leaf.certificate.as_bytes(), leaf.key.as_bytes())?);
        let listener = TcpListener::bind(loopback).context("cannot listen on loopback")?;
        let port = listener.local_addr()?.port();
        let webhook = Webhook {
            registrar,
            directory: directory.clone(),
            namespaces: Namespaces::default(),
            keys: keys.clone(),
            policies: Policies::default(),
            registry_limit: CALL_LIMIT,
            metrics: metrics.reviews.clone(),
        };
        let stopping = tls::Stop { signal: stop.clone(), drain_delay: Duration::ZERO };
        tokio::spawn(tls::serve(listener, admission::router(webhook), resolver, stopping, Limits::default()));

        let objects = MemoryObjects::new();
        let settings = syncer::Settings::new(cluster);
        let syncer = Syncer::new(
            settings,
            Arc::new(objects.clone()),
            directory,
            Fence::open(),
            metrics.syncer.clone(),
        );
        tokio::spawn({
            let stop = stop.clone();
            async move { syncer.run(stop).await }
        });
        let webhook = Url::parse(&format!("https://localhost:{port}{}?timeout=5s", admission::PATH))?;
        let api_server = ApiServer::new(objects.clone(), webhook.clone(), &authority.certificate)?;
        Ok(Self { registry, api_server, objects, keys, webhook, ca: authority.certificate, stop })
    }

    /// The first object that is stored with an entry.
    fn first_registered(&self) -> Option<(ObjectName, i32)> {
        self.objects.names().into_iter().find_map(|name| {
            let object = self.objects.object(&name)?;
            let id =
                object["metadata"]["labels"].get(&self.keys.inference_service_id)?.as_str()?.parse().ok()?;
            Some((name, id))
        })
    }

    /// Waits for the syncer.
    async fn wait_until_retired(&self, entry: i32) -> anyhow::Result<()> {
        let retired = async {
            while self
                .registry
                .registry()
                .entry(entry)
                .is_some_and(|entry| entry.desired_state != "UNDEPLOYED")
            {
                tokio::time::sleep(LOOK_AGAIN_AFTER).await;
            }
        };
        tokio::time::timeout(RETIREMENT_LIMIT, retired).await.context("the syncer did not retire the entry")
    }

    /// Says what to try while it is up.
    fn invite(&self, narrator: &mut Narrator<impl Write>) -> anyhow::Result<()> {
        let folder = std::env::temp_dir().join(format!("isvc-registrar-demo-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let (ca, review) = (folder.join("ca.crt"), folder.join("review.json"));
        std::fs::write(&ca, &self.ca)?;
        let object =
            manifests::samples()?.into_iter().flat_map(|sample| sample.objects).next().unwrap_or_default();
        let name = name_of(&object).context("the first sample has a name")?;
        std::fs::write(&review, api_server::review("try-it", "CREATE", &name, &object, None).to_string())?;
        narrator.say("It stays up until Ctrl-C. Try:")?;
        narrator
            .line(&format!("  curl -s {}/api/model_registry/v1/inference_services", self.registry.url()))?;
        narrator.line(&format!(
            "  curl -s --cacert {} -H 'content-type: application/json' -d @{} '{}'",
            ca.display(),
            review.display(),
            self.webhook
        ))?;
        Ok(())
    }

    /// Stops it.
    async fn strike(self) {
        self.stop.cancel();
        self.registry.stop().await;
    }
}
