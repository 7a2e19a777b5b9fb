//! A store of InferenceServices in memory that behaves as an API server's does, as far as the syncer can see.
//!
//! Goes in: objects applied and deleted by a demo or a test. Comes out: the lists, watches and single reads of
//! [`Objects`]. What stays true: every change has a resource version of its own, and a watch gives every change
//! after the one it was asked for, in order, or says that they are no longer known.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Change, Notice, ObjectPage, Objects, ObjectsError, Scope};
use crate::kserve::InferenceService;
use crate::registration::ObjectName;

/// Objects on one page of a list.
const PAGE: usize = 500;

/// The store; a clone is another handle to the same one.
#[derive(Clone, Default)]
pub struct MemoryObjects {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// The latest version, for those who wait for the next.
    latest: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    version: u64,
    uids: u64,
    objects: BTreeMap<ObjectName, Value>,
    /// Every change, in order; `true` for a deletion.
    log: Vec<(u64, bool, Value)>,
    /// Changes up to here are forgotten.
    forgotten: u64,
    notices: Vec<(ObjectName, Notice)>,
}

impl MemoryObjects {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores an object, new or changed, and gives it as it is stored: with uid and resource version. A status
    /// that the object lacks stays as it was. `None` for an object without name or Namespace.
    #[expect(clippy::must_use_candidate, reason = "storing it is the point; what is stored is extra")]
    pub fn apply(&self, mut object: Value) -> Option<Value> {
        let name = place(&object)?;
        let mut state = self.state();
        let before = state.objects.get(&name).cloned();
        let uid = if let Some(before) = &before {
            before["metadata"]["uid"].clone()
        } else {
            state.uids += 1;
            json!(format!("00000000-0000-4000-8000-{:012}", state.uids))
        };
        object["metadata"]["uid"] = uid;
        if let (None, Some(before)) = (object.get("status"), before)
            && let Some(status) = before.get("status")
        {
            object["status"] = status.clone();
        }
        let stored = state.note(false, object);
        state.objects.insert(name, stored.clone());
        self.announce(state);
        Some(stored)
    }

    /// Deletes an object; one with finalizers gets a `deletionTimestamp` and stays until they are off. Says
    /// whether there was one.
    #[expect(clippy::must_use_candidate, reason = "deleting it is the point")]
    pub fn delete(&self, name: &ObjectName) -> bool {
        let mut state = self.state();
        let Some(mut object) = state.objects.get(name).cloned() else { return false };
        if has_finalizers(&object) {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            let stored = state.note(false, object);
            state.objects.insert(name.clone(), stored);
        } else {
            state.objects.remove(name);
            state.note(true, object);
        }
        self.announce(state);
        true
    }

    /// The object as it is stored.
    #[must_use]
    pub fn object(&self, name: &ObjectName) -> Option<Value> {
        self.state().objects.get(name).cloned()
    }

    /// The names of all objects, in order.
    #[must_use]
    pub fn names(&self) -> Vec<ObjectName> {
        self.state().objects.keys().cloned().collect()
    }

    /// What users were told, in order.
    #[must_use]
    pub fn notices(&self) -> Vec<(ObjectName, Notice)> {
        self.state().notices.clone()
    }

    /// Forgets all changes so far, as an API server does after some minutes: older watches have to list again.
    pub fn compact(&self) {
        let mut state = self.state();
        state.forgotten = state.version;
        state.log.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is made whole by calls that do not panic half-way.
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self, state: MutexGuard<'_, State>) {
        let version = state.version;
        drop(state);
        self.inner.latest.send_replace(version);
    }

    /// The first change after a version, in a scope; `None` when there is none yet.
    fn next(&self, scope: &Scope, after: u64) -> Result<Option<(u64, Change)>, ObjectsError> {
        let state = self.state();
        if after < state.forgotten {
            return Err(ObjectsError::Expired);
        }
        let from = state.log.partition_point(|(version, ..)| *version <= after);
        let next = state.log[from..].iter().find(|(_, _, object)| in_scope(scope, object));
        Ok(next.map(|(version, deleted, object)| {
            let object = view(object);
            (*version, if *deleted { Change::Deleted(object) } else { Change::Applied(object) })
        }))
    }
}

impl State {
    /// Gives an object the next version and remembers the change.
    fn note(&mut self, deleted: bool, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.log.push((self.version, deleted, object.clone()));
        object
    }
}

impl Objects for MemoryObjects {
    fn page<'a>(
        &'a self,
        scope: &'a Scope,
        token: Option<String>,
    ) -> BoxFuture<'a, Result<ObjectPage, ObjectsError>> {
        let state = self.state();
        let from: usize = token.and_then(|token| token.parse().ok()).unwrap_or_default();
        let mut objects = state.objects.values().filter(|object| in_scope(scope, object)).skip(from);
        let page = ObjectPage {
            items: objects.by_ref().take(PAGE).map(view).collect(),
            next: objects.next().map(|_| (from + PAGE).to_string()),
            resource_version: state.version.to_string(),
        };
        futures::future::ready(Ok(page)).boxed()
    }

    fn watch<'a>(
        &'a self,
        scope: &'a Scope,
        after: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Result<Change, ObjectsError>>, ObjectsError>> {
        let after: u64 = after.parse().unwrap_or_default();
        let (store, scope, latest) = (self.clone(), scope.clone(), self.inner.latest.subscribe());
        let changes = futures::stream::unfold((store, scope, latest, after), |state| async move {
            let (store, scope, mut latest, after) = state;
            loop {
                latest.borrow_and_update();
                match store.next(&scope, after) {
                    Ok(Some((version, change))) => {
                        return Some((Ok(change), (store, scope, latest, version)));
                    }
                    Ok(None) => latest.changed().await.ok()?,
                    Err(error) => return Some((Err(error), (store, scope, latest, after))),
                }
            }
        });
        futures::future::ready(Ok(changes.boxed())).boxed()
    }

    fn get<'a>(
        &'a self,
        name: &'a ObjectName,
    ) -> BoxFuture<'a, Result<Option<InferenceService>, ObjectsError>> {
        let object = self.object(name);
        futures::future::ready(Ok(object.as_ref().map(view))).boxed()
    }

    fn release_finalizer<'a>(
        &'a self,
        name: &'a ObjectName,
        uid: &'a str,
        finalizer: &'a str,
        _at: usize,
    ) -> BoxFuture<'a, Result<(), ObjectsError>> {
        let mut state = self.state();
        let found = state.objects.get(name).filter(|object| object["metadata"]["uid"] == uid).cloned();
        if let Some(mut object) = found {
            if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|there| there != finalizer);
            }
            if object["metadata"].get("deletionTimestamp").is_some() && !has_finalizers(&object) {
                state.objects.remove(name);
                state.note(true, object);
            } else {
                let stored = state.note(false, object);
                state.objects.insert(name.clone(), stored);
            }
        }
        self.announce(state);
        futures::future::ready(Ok(())).boxed()
    }

    fn tell<'a>(&'a self, name: &'a ObjectName, _uid: &'a str, notice: &'a Notice) -> BoxFuture<'a, ()> {
        self.state().notices.push((name.clone(), notice.clone()));
        futures::future::ready(()).boxed()
    }
}

fn place(object: &Value) -> Option<ObjectName> {
    let metadata = object.get("metadata")?;
    let text = |key| metadata.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    Some(ObjectName::new(text("namespace")?, text("name")?))
}

fn in_scope(scope: &Scope, object: &Value) -> bool {
    object["metadata"]["namespace"].as_str().is_some_and(|namespace| scope.contains(namespace))
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

fn view(object: &Value) -> InferenceService {
    // Reading is lenient: there is no JSON that is no view.
    serde::Deserialize::deserialize(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Value {
        json!({"metadata": {"namespace": "team-a", "name": name}})
    }

    #[tokio::test]
    async fn a_watch_gives_what_came_after_the_list() {
        let store = MemoryObjects::new();
        store.apply(named("a")).unwrap();
        let page = store.page(&Scope::All, None).await.unwrap();
        assert_eq!((page.items.len(), page.next), (1, None));
        let mut changes = store.watch(&Scope::All, &page.resource_version).await.unwrap();
        store.apply(named("b")).unwrap();
        assert!(store.delete(&ObjectName::new("team-a", "a")));
        assert!(matches!(changes.next().await, Some(Ok(Change::Applied(_)))));
        assert!(matches!(changes.next().await, Some(Ok(Change::Deleted(_)))));
    }

    #[tokio::test]
    async fn a_watch_from_before_what_is_known_has_expired() {
        let store = MemoryObjects::new();
        store.apply(named("a")).unwrap();
        store.compact();
        let mut changes = store.watch(&Scope::All, "0").await.unwrap();
        assert!(matches!(changes.next().await, Some(Err(ObjectsError::Expired))));
    }

    #[tokio::test]
    async fn an_object_with_a_finalizer_stays_until_it_is_off() {
        let store = MemoryObjects::new();
        let name = ObjectName::new("team-a", "a");
        let mut object = named("a");
        object["metadata"]["finalizers"] = json!(["f"]);
        let uid = store.apply(object).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        store.delete(&name);
        assert!(store.get(&name).await.unwrap().unwrap().metadata.being_deleted);
        store.release_finalizer(&name, &uid, "f", 0).await.unwrap();
        assert_eq!(store.object(&name), None);
    }
}
