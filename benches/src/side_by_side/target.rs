//! Whom the load is put on, and what one operation is: a review that is answered, or the calls to the registry that
//! the registrar would make for it.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use registrar_benches::reviews::{self, MODEL_ID, NAME, NAMESPACE, Size, VERSION_ID};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::connection::{Connection, find, request, tls};

/// Path of the webhook, with the time that an API server gives it.
const MUTATE: &str = "/mutate?timeout=5s";

/// Path of the registry's API.
pub(crate) const API: &str = "/api/model_registry/v1";

/// What an answer that allows has in it.
const ALLOWED: &str = "\"allowed\":true";

/// In [`Reviews::Mixed`] one of so many is a CREATE.
const UPDATES_TO_A_CREATE: u64 = 10;

/// Whom the load is put on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Target {
    /// A webhook, or the bare handler.
    Webhook {
        /// Where it listens.
        address: SocketAddr,
        /// What its certificate is signed with.
        ca: PathBuf,
        /// What it is sent.
        reviews: Reviews,
    },
    /// A registry, with the calls for one new entry: the look-ups all at once, then the POST.
    Registry {
        /// Where it listens.
        address: SocketAddr,
    },
    /// The bare handler with a review, and then a registry with the calls for it: what no webhook can do without.
    BareThenRegistry {
        /// Where the bare handler listens.
        bare: SocketAddr,
        /// What its certificate is signed with.
        ca: PathBuf,
        /// Where the registry listens.
        registry: SocketAddr,
    },
}

/// What a webhook is sent.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Reviews {
    /// UPDATEs with nothing to do.
    Updates(Size),
    /// CREATEs, each of another object.
    Creates,
    /// Mostly such UPDATEs, and some such CREATEs.
    Mixed,
}

/// An open session of one worker.
pub(crate) enum Session {
    /// With a webhook.
    Webhook { connection: Connection, update: Review, create: Review, reviews: Reviews },
    /// With a registry.
    Registry(Box<Calls>),
    /// With the bare handler, and a registry.
    BareThenRegistry { connection: Connection, create: Review, calls: Box<Calls> },
}

impl Session {
    pub(crate) async fn open(target: &Target) -> anyhow::Result<Self> {
        match target {
            Target::Webhook { address, ca, reviews } => {
                let size = if let Reviews::Updates(size) = reviews { *size } else { Size::Usual };
                Ok(Self::Webhook {
                    connection: Connection::open(*address, Some(&tls(ca)?)).await?,
                    update: Review::new(&reviews::update(size), ALLOWED),
                    create: Review::new(&reviews::create(Size::Usual), "\"patch\":"),
                    reviews: *reviews,
                })
            }
            Target::Registry { address } => Ok(Self::Registry(Box::new(Calls::open(*address).await?))),
            Target::BareThenRegistry { bare, ca, registry } => Ok(Self::BareThenRegistry {
                connection: Connection::open(*bare, Some(&tls(ca)?)).await?,
                create: Review::new(&reviews::create(Size::Usual), ALLOWED),
                calls: Box::new(Calls::open(*registry).await?),
            }),
        }
    }

    /// Does one operation, for the object of this number.
    pub(crate) async fn operate(&mut self, object: u64) -> anyhow::Result<()> {
        match self {
            Self::Webhook { connection, update, create, reviews } => {
                let review = match reviews {
                    Reviews::Creates => create,
                    Reviews::Mixed if object.is_multiple_of(UPDATES_TO_A_CREATE) => create,
                    Reviews::Updates(_) | Reviews::Mixed => update,
                };
                review.send(connection, object).await
            }
            Self::Registry(calls) => calls.make(object).await,
            Self::BareThenRegistry { connection, create, calls } => {
                create.send(connection, object).await?;
                calls.make(object).await
            }
        }
    }
}

/// The name of an object; as long as [`NAME`].
fn name_of(object: u64) -> String {
    format!("fraud-scorer-{object:08}")
}

/// A request that is sent again and again under other names.
pub(crate) struct Review {
    request: Vec<u8>,
    names_at: Vec<usize>,
    expected: &'static str,
}

impl Review {
    fn new(body: &[u8], expected: &'static str) -> Self {
        let request = request("POST", MUTATE, body);
        let mut names_at = Vec::new();
        let mut from = 0;
        while let Some(at) = find(&request[from..], NAME.as_bytes()) {
            names_at.push(from + at);
            from += at + NAME.len();
        }
        Self { request, names_at, expected }
    }

    async fn send(&mut self, connection: &mut Connection, object: u64) -> anyhow::Result<()> {
        let name = name_of(object);
        for at in &self.names_at {
            self.request[*at..*at + NAME.len()].copy_from_slice(name.as_bytes());
        }
        let answer = connection.exchange(&self.request).await?;
        let expected = answer.status == 200 && find(answer.body, self.expected.as_bytes()).is_some();
        ensure!(expected, "{}: {}", answer.status, String::from_utf8_lossy(answer.body));
        Ok(())
    }
}

/// Connections to a registry: one for each call that is made at the same time.
pub(crate) struct Calls {
    model: Connection,
    version: Connection,
    environment: Connection,
    entry: Connection,
    environment_id: String,
}

impl Calls {
    async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let mut environment = Connection::open(address, None).await?;
        let found = environment.exchange(&find_environment()).await?;
        let found: serde_json::Value = serde_json::from_slice(found.body)?;
        let environment_id = found["id"].as_str().context("the environment is made beforehand")?.to_owned();
        Ok(Self {
            model: Connection::open(address, None).await?,
            version: Connection::open(address, None).await?,
            entry: Connection::open(address, None).await?,
            environment,
            environment_id,
        })
    }

    async fn make(&mut self, object: u64) -> anyhow::Result<()> {
        let name = name_of(object);
        let by_id = |kind: &str, id: i32| {
            request("GET", &format!("{API}/{kind}?filterQuery=id%3D{id}&pageSize=2"), b"")
        };
        let (model, version) = (by_id("registered_models", MODEL_ID), by_id("model_versions", VERSION_ID));
        let environment = find_environment();
        let environment_id = &self.environment_id;
        let find_entry = format!("{API}/inference_service?name={name}&parentResourceId={environment_id}");
        let entry = request("GET", &find_entry, b"");
        let (model, version, environment, entry) = tokio::try_join!(
            self.model.exchange(&model),
            self.version.exchange(&version),
            self.environment.exchange(&environment),
            self.entry.exchange(&entry),
        )?;
        let statuses = [model.status, version.status, environment.status, entry.status];
        ensure!(statuses == [200, 200, 200, 404], "unexpected answers to the look-ups: {statuses:?}");
        let text = |value: &str| json!({"metadataType": "MetadataStringValue", "string_value": value});
        let body = json!({
            "name": name, "registeredModelId": MODEL_ID.to_string(), "modelVersionId": VERSION_ID.to_string(),
            "servingEnvironmentId": environment_id, "runtime": "sklearn", "desiredState": "DEPLOYED",
            "customProperties": {
                "managedBy": text("isvc-registrar"), "cluster": text("benchmark"),
                "namespace": text(NAMESPACE), "name": text(&name),
            },
        });
        let create = request("POST", &format!("{API}/inference_services"), body.to_string().as_bytes());
        let created = self.model.exchange(&create).await?;
        ensure!(created.status == 201, "{}", String::from_utf8_lossy(created.body));
        Ok(())
    }
}

fn find_environment() -> Vec<u8> {
    request("GET", &format!("{API}/serving_environment?name={NAMESPACE}"), b"")
}
