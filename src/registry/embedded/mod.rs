//! The embedded Model Registry: the REST API of the real one, in memory, for tests, demos and trials.
//!
//! What goes in: the requests of v1 and v1alpha3 alike, under `/api/model_registry/{version}`, and requests to
//! `/readyz`. What comes out: the statuses, bodies and side effects of the real server, its traps included. Two
//! paths of its own are for tests: `/faults` ([`Faults`]: `GET` shows the switches, `PUT` sets all of them) and
//! `/requests` ([`Exchange`]: `GET` lists the latest, `DELETE` forgets them).
//!
//! What must stay true: nothing is ever deleted; no lock is held while bytes are read, written or serialized; and
//! a look-up by id, by name or of the next page of a list stays fast with hundreds of thousands of entries.
//!
//! A request travels `routes` → `operations` (`resource` reads its path, `draft` its body by the tables in
//! `schema`, `listing` and `filter` its query) → `store`, and an `entity` travels back as JSON.

mod draft;
mod entity;
mod entry;
mod faults;
mod filter;
mod journal;
mod like;
mod listing;
mod operations;
mod order;
mod properties;
mod refusal;
mod resource;
mod routes;
mod schema;
mod seed;
mod server;
mod store;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

pub use entry::Entry;
pub use faults::{Api, Database, Faults};
pub use journal::Exchange;
pub use refusal::Refusal;
pub use seed::{SeedError, SeedFault};
pub use server::EmbeddedRegistry;

use entity::Attribute;
use faults::Switches;
use journal::Journal;
use operations::Backend;
use schema::{Kind, REGISTERED_MODEL_ID};
use store::{NewEntity, Store};

/// A registry in memory. A clone is another handle to the same one.
#[derive(Debug, Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

struct Inner {
    store: RwLock<Store>,
    switches: Switches,
    journal: Journal,
    clock: Clock,
}

/// Where the times of the entries come from.
type Clock = Box<dyn Fn() -> SystemTime + Send + Sync>;

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(SystemTime::now)
    }

    /// An empty registry whose entries get their times from `clock`. A clock that goes backwards stands still.
    #[must_use]
    pub fn with_clock(clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self {
            inner: Arc::new(Inner {
                store: RwLock::default(),
                switches: Switches::default(),
                journal: Journal::default(),
                clock: Box::new(clock),
            }),
        }
    }

    /// The routes, to be served or called without a socket.
    pub fn router(&self) -> axum::Router {
        routes::router(self.clone())
    }

    /// Runs requests, one JSON object of `method`, `path` and `body` a line, and returns how many there were.
    /// The switches do not concern them. What came before a line that fails stays.
    pub fn seed(&self, lines: &str) -> Result<usize, SeedError> {
        seed::sow(self, lines)
    }

    /// Makes a registered model that has the given id.
    pub fn add_model(&self, id: i32, name: &str) -> Result<(), Refusal> {
        self.add(Kind::Model, id, None, name)
    }

    /// Makes a version of a model that has the given id.
    pub fn add_version(&self, id: i32, registered_model_id: i32, name: &str) -> Result<(), Refusal> {
        self.add(Kind::Version, id, Some(registered_model_id), name)
    }

    /// The entries of all inference services, by id.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let store = self.inner.store.read().unwrap_or_else(PoisonError::into_inner);
        store
            .all(Kind::Service)
            .map(|service| Entry::new(service, environment_name(&store, service)))
            .collect()
    }

    /// The entry of one inference service.
    #[must_use]
    pub fn entry(&self, id: i32) -> Option<Entry> {
        let store = self.inner.store.read().unwrap_or_else(PoisonError::into_inner);
        let service = store.get(Kind::Service, id)?;
        Some(Entry::new(service, environment_name(&store, service)))
    }

    /// What is wrong at the moment.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.inner.switches.get()
    }

    /// Sets all switches.
    pub fn set_faults(&self, faults: Faults) {
        self.inner.switches.set(faults);
    }

    /// The latest requests, the oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Exchange> {
        self.inner.journal.all()
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.inner.journal.clear();
    }

    fn add(&self, kind: Kind, id: i32, parent: Option<i32>, name: &str) -> Result<(), Refusal> {
        let schema = kind.schema();
        let mut attributes = schema.defaults();
        if let (Some(parent), Some(field)) = (parent, schema.field(REGISTERED_MODEL_ID)) {
            attributes.push((field, Attribute::Id(parent)));
        }
        let new = NewEntity {
            kind,
            id: Some(id),
            parent,
            name: Some(name.to_owned()),
            external_id: None,
            description: None,
            properties: properties::Properties::default(),
            attributes,
        };
        let now = self.now();
        let mut store = self.inner.store.write().unwrap_or_else(PoisonError::into_inner);
        store.create(new, now).map(drop)
    }

    fn backend(&self) -> Backend<'_> {
        Backend { store: &self.inner.store, database: self.inner.switches.database(), now: self.now() }
    }

    fn now(&self) -> i64 {
        let since = (self.inner.clock)().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Registry").finish_non_exhaustive()
    }
}

fn environment_name<'a>(store: &'a Store, service: &entity::Entity) -> &'a str {
    service.parent.and_then(|id| store.get(Kind::Environment, id)).map_or("", |environment| &environment.name)
}
