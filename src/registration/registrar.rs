//! The registrar: find or create, shared by all who ask for the same at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::find_or_create::{self, Environments, Labelled, find_or_create};
use super::identity::{ClusterId, ObjectName};
use super::outcome::{Archived, Effects, Invalid, NotRegistered, Registered, Wanted};
use super::shared_call::{BrokenOff, SharedCalls};
use crate::registry::{
    Connection, EnvironmentId, ModelVersionId, RegisteredModelId, RegistryClient, RegistryError,
    Unavailability,
};

/// Environments remembered before all are forgotten: more than clusters have Namespaces, and 1 MB at most.
const ENVIRONMENTS_REMEMBERED: usize = 20_000;

/// Finds or creates entries; cheap to clone, all clones share what is under way.
#[derive(Clone)]
pub struct Registrar {
    inner: Arc<Inner>,
}

struct Inner {
    cluster: ClusterId,
    limit: Duration,
    entries: SharedCalls<EntryKey, Result<Registered, NotRegistered>>,
    environments: SharedCalls<EnvironmentKey, Result<EnvironmentId, NotRegistered>>,
    known: Mutex<HashMap<EnvironmentKey, EnvironmentId>>,
}

/// Requests that are the same in all of this share one call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct EntryKey {
    registry: u64,
    object: ObjectName,
    uid: Option<String>,
    model: Option<RegisteredModelId>,
    version: Option<ModelVersionId>,
    refuse_archived: bool,
}

/// An environment of one registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct EnvironmentKey {
    registry: u64,
    namespace: String,
}

impl Registrar {
    /// A registrar for the objects of one cluster. `limit` bounds each find or create as a whole.
    #[must_use]
    pub fn new(cluster: ClusterId, limit: Duration) -> Self {
        let inner = Inner {
            cluster,
            limit,
            entries: SharedCalls::default(),
            environments: SharedCalls::default(),
            known: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The cluster whose objects it registers.
    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        &self.inner.cluster
    }

    /// Checks the model and the version alone; says what of it is archived.
    pub async fn check(
        &self,
        registry: &RegistryClient,
        wanted: &Wanted,
    ) -> Result<Option<Archived>, NotRegistered> {
        self.limited(find_or_create::check(registry, wanted)).await
    }

    /// The entry of an object: the one its id label names, if that belongs to it and serves its model, else the
    /// one found by name, else a new one.
    pub async fn register(
        &self,
        registry: &RegistryClient,
        wanted: &Wanted,
        effects: Effects,
    ) -> Result<Registered, NotRegistered> {
        if let Some(id) = wanted.labelled {
            let checked = find_or_create::check_labelled(registry, &self.inner.cluster, wanted, id);
            match self.limited(checked).await? {
                Labelled::Good(registered) => return Ok(*registered),
                Labelled::Bad(reason) if wanted.model.is_none() => return Err(reason.into()),
                Labelled::Bad(_) => {}
            }
        }
        if wanted.model.is_none() {
            return Err(Invalid::NothingNamed.into());
        }
        if effects == Effects::ReadOnly {
            return self.find(registry, wanted, effects).await;
        }
        let key = EntryKey {
            registry: registry.id(),
            object: wanted.object.clone(),
            uid: wanted.uid.clone(),
            model: wanted.model,
            version: wanted.version,
            refuse_archived: wanted.refuse_archived,
        };
        let (registrar, registry, wanted) = (self.clone(), registry.clone(), wanted.clone());
        let work = || async move { registrar.find(&registry, &wanted, effects).await };
        self.inner.entries.join(key, work).await.unwrap_or_else(|error| Err(broken_off(&error)))
    }

    async fn find(
        &self,
        registry: &RegistryClient,
        wanted: &Wanted,
        effects: Effects,
    ) -> Result<Registered, NotRegistered> {
        let environments = Remembered { registrar: self, registry };
        self.limited(find_or_create(registry, &self.inner.cluster, wanted, effects, &environments)).await
    }

    async fn limited<T>(
        &self,
        work: impl Future<Output = Result<T, NotRegistered>>,
    ) -> Result<T, NotRegistered> {
        let after = self.inner.limit;
        let timed_out = |_| Err(Unavailability::TimedOut { after }.into());
        tokio::time::timeout(after, work).await.unwrap_or_else(timed_out)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<EnvironmentKey, EnvironmentId>> {
        // A map is never left half changed by the calls made on it here.
        self.inner.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn broken_off(error: &BrokenOff) -> NotRegistered {
    Unavailability::Unreachable { reason: error.to_string() }.into()
}

/// The environments of one registry.
struct Remembered<'a> {
    registrar: &'a Registrar,
    registry: &'a RegistryClient,
}

impl Remembered<'_> {
    fn key(&self, namespace: &str) -> EnvironmentKey {
        EnvironmentKey { registry: self.registry.id(), namespace: namespace.to_owned() }
    }
}

impl Environments for Remembered<'_> {
    fn known(&self, namespace: &str) -> Option<EnvironmentId> {
        self.registrar.known().get(&self.key(namespace)).copied()
    }

    fn remember(&self, namespace: &str, id: EnvironmentId) {
        let mut known = self.registrar.known();
        if known.len() >= ENVIRONMENTS_REMEMBERED {
            known.clear();
        }
        known.insert(self.key(namespace), id);
    }

    fn forget(&self, namespace: &str, stale: EnvironmentId) {
        let mut known = self.registrar.known();
        let key = self.key(namespace);
        if known.get(&key) == Some(&stale) {
            known.remove(&key);
        }
    }

    async fn create(&self, namespace: &str) -> Result<EnvironmentId, NotRegistered> {
        let (registrar, registry, name) =
            (self.registrar.clone(), self.registry.clone(), namespace.to_owned());
        let work = || async move {
            let environments = Remembered { registrar: &registrar, registry: &registry };
            // Somebody who looked at the same time may have created it since: what was known before is forgotten.
            if let Some(id) = environments.known(&name) {
                return Ok(id);
            }
            let id = environments.post(&name).await?;
            environments.remember(&name, id);
            Ok(id)
        };
        let created = self.registrar.inner.environments.join(self.key(namespace), work).await;
        created.unwrap_or_else(|error| Err(broken_off(&error)))
    }
}

impl Remembered<'_> {
    async fn post(&self, name: &str) -> Result<EnvironmentId, NotRegistered> {
        let mut over = Connection::Kept;
        loop {
            let error = match self.registry.create_environment(name, over).await {
                Ok(id) => return Ok(id),
                Err(error) => error,
            };
            // Another replica was faster, or the answer is lost, and maybe the request too: what there is tells.
            let lost = error.is_unavailable();
            if !lost && !matches!(error, RegistryError::Conflict { .. }) {
                return Err(error.into());
            }
            if let Some(environment) = self.registry.environment(name).await? {
                return Ok(environment.id);
            }
            if !lost || over == Connection::New {
                return Err(error.into());
            }
            over = Connection::New;
        }
    }
}
