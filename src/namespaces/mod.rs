//! The labels of Namespaces, from a watch.
//!
//! Goes in: what the API server says of Namespaces. Comes out: the labels of one, as they are now. What stays true:
//! before the first list is complete nothing is known, which is not the same as no labels.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use tokio::sync::Notify;

type Labels = Arc<BTreeMap<String, String>>;

/// Labels by Namespace; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Namespaces {
    state: Arc<RwLock<State>>,
    completed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    complete: bool,
    labels: HashMap<String, Labels>,
    /// The list that is coming in.
    coming: HashMap<String, Labels>,
}

impl Namespaces {
    /// The labels of a Namespace; `None` while they are not known.
    #[must_use]
    pub fn labels(&self, name: &str) -> Option<Labels> {
        // One that a complete list does not hold is newer than the list: its labels are about to be known.
        self.read().labels.get(name).cloned()
    }

    /// Waits until the first list is complete.
    pub async fn known(&self) {
        loop {
            let completed = self.completed.notified();
            if self.read().complete {
                return;
            }
            completed.await;
        }
    }

    /// Takes in what a watch brings, until it ends.
    pub async fn follow<S, E>(&self, events: S)
    where
        S: Stream<Item = Result<Event<PartialObjectMeta<Namespace>>, E>>,
        E: std::fmt::Display,
    {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(event),
                Err(error) => tracing::warn!(%error, "the watch of Namespaces failed and starts anew"),
            }
        }
    }

    fn take(&self, event: Event<PartialObjectMeta<Namespace>>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Apply(namespace) => {
                if let Some((name, labels)) = labels_of(namespace) {
                    state.labels.insert(name, labels);
                }
            }
            Event::Delete(namespace) => {
                if let Some((name, _)) = labels_of(namespace) {
                    state.labels.remove(&name);
                }
            }
            Event::Init => state.coming.clear(),
            Event::InitApply(namespace) => state.coming.extend(labels_of(namespace)),
            Event::InitDone => {
                state.labels = std::mem::take(&mut state.coming);
                state.complete = true;
                self.completed.notify_waiters();
            }
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        // Every change is made by calls on maps, so a panic elsewhere leaves nothing half done.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn labels_of(namespace: PartialObjectMeta<Namespace>) -> Option<(String, Labels)> {
    let metadata = namespace.metadata;
    Some((metadata.name?, Arc::new(metadata.labels.unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str, label: &str) -> PartialObjectMeta<Namespace> {
        serde_json::from_value(serde_json::json!({"metadata": {"name": name, "labels": {"a": label}}}))
            .unwrap()
    }

    #[test]
    fn labels_are_known_once_the_first_list_is_complete() {
        let namespaces = Namespaces::default();
        let label = |name: &str| namespaces.labels(name).map(|labels| labels.get("a").cloned());
        namespaces.take(Event::Init);
        namespaces.take(Event::InitApply(namespace("one", "1")));
        assert_eq!(label("one"), None, "the list may yet bring more");
        namespaces.take(Event::InitDone);
        assert_eq!(label("one"), Some(Some("1".into())));
        assert_eq!(label("two"), None, "it may be so new that the watch has not shown it yet");
        namespaces.take(Event::Apply(namespace("two", "2")));
        namespaces.take(Event::Init);
        assert_eq!(
            label("two"),
            Some(Some("2".into())),
            "what was known holds until the next list is complete"
        );
        namespaces.take(Event::InitDone);
        assert_eq!(label("one"), None, "what the new list lacks is gone");
        namespaces.take(Event::Apply(namespace("one", "3")));
        namespaces.take(Event::Delete(namespace("one", "3")));
        assert_eq!(label("one"), None);
    }
}
