//! What the syncer keeps of one InferenceService: what the entry is made from, and nothing else.
//!
//! Goes in: the view of an object as a list, a watch or a GET gave it. Comes out: its place and an [`Object`] of
//! some hundred bytes. What stays true: two objects are equal exactly when the registry need not be told anything
//! new, so that a change of anything else costs nothing.

use std::str::FromStr;

use crate::kserve::{InferenceService, LabelKeys, Readiness, Status};
use crate::registration::ObjectName;
use crate::registry::directory::Selector;
use crate::registry::{EntryId, ModelVersionId, RegisteredModelId};

/// A label that should hold an id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IdLabel<T> {
    /// It is not there.
    #[default]
    Absent,
    /// It holds an id.
    Id(T),
    /// It is there, and holds none.
    Malformed,
}

impl<T: Copy + FromStr> IdLabel<T> {
    fn read(text: Option<&str>) -> Self {
        match text.map(str::parse) {
            None => Self::Absent,
            Some(Ok(id)) => Self::Id(id),
            Some(Err(_)) => Self::Malformed,
        }
    }

    /// The id, where there is one.
    #[must_use]
    pub fn id(self) -> Option<T> {
        match self {
            Self::Id(id) => Some(id),
            Self::Absent | Self::Malformed => None,
        }
    }
}

/// What is kept of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Its uid: another one means that it was deleted and created again.
    pub uid: Box<str>,
    /// Whether `deletionTimestamp` is set.
    pub being_deleted: bool,
    /// Label `/registered-model-id`.
    pub model: IdLabel<RegisteredModelId>,
    /// Label `/model-version-id`.
    pub version: IdLabel<ModelVersionId>,
    /// Label `/inference-service-id`.
    pub entry: IdLabel<EntryId>,
    /// What it says of its registry.
    pub registry: RegistryNamed,
    /// The serving runtime.
    pub runtime: Box<str>,
    /// Addresses, readiness, and whether the model could not be loaded.
    pub status: Status,
    /// Where in its list of finalizers the one stands that is to be released, if it is there.
    pub finalizer_to_release: Option<usize>,
}

/// What an object says of its registry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryNamed {
    url: Option<Box<str>>,
    name: Option<Box<str>>,
    namespace: Option<Box<str>>,
}

impl RegistryNamed {
    /// As the directory of registries reads it.
    #[must_use]
    pub fn selector(&self) -> Selector<'_> {
        Selector {
            url: self.url.as_deref(),
            name: self.name.as_deref(),
            namespace: self.namespace.as_deref(),
        }
    }
}

impl Object {
    /// Reads what is kept. `None` for something without name, Namespace or uid, which no stored object lacks.
    #[must_use]
    pub fn read(
        view: &InferenceService,
        keys: &LabelKeys,
        release_finalizer: Option<&str>,
    ) -> Option<(ObjectName, Self)> {
        let metadata = &view.metadata;
        let place = ObjectName::new(metadata.namespace.clone()?, metadata.name.clone()?);
        let labels = &metadata.labels;
        let text = |value: Option<&str>| value.map(Box::from);
        let object = Self {
            uid: metadata.uid.as_deref()?.into(),
            being_deleted: metadata.being_deleted,
            model: IdLabel::read(labels.get(&keys.registered_model_id)),
            version: IdLabel::read(labels.get(&keys.model_version_id)),
            entry: IdLabel::read(labels.get(&keys.inference_service_id)),
            registry: RegistryNamed {
                url: text(metadata.annotations.get(&keys.url)),
                name: text(labels.get(&keys.name)),
                namespace: text(labels.get(&keys.namespace)),
            },
            runtime: view.predictor.runtime().into(),
            status: view.status.clone(),
            finalizer_to_release: release_finalizer
                .and_then(|key| metadata.finalizers.iter().position(|finalizer| finalizer == key)),
        };
        Some((place, object))
    }

    /// Whether it has a model or an id label, be it a malformed one: without either it is no business of ours.
    #[must_use]
    pub fn opted_in(&self) -> bool {
        self.model != IdLabel::Absent || self.entry != IdLabel::Absent
    }

    /// Whether both ask the registry to say the same. The rest of a status changes often and matters only to the
    /// history of a version that has just changed.
    #[must_use]
    pub fn asks_the_same_as(&self, other: &Self) -> bool {
        // Named one by one, so that a field that is added later cannot be forgotten here.
        let Self {
            uid,
            being_deleted,
            model,
            version,
            entry,
            registry,
            runtime,
            status,
            finalizer_to_release,
        } = self;
        let said = |status: &Status| (status.ready, status.failed);
        *uid == other.uid
            && *being_deleted == other.being_deleted
            && *model == other.model
            && *version == other.version
            && *entry == other.entry
            && *registry == other.registry
            && *runtime == other.runtime
            && *finalizer_to_release == other.finalizer_to_release
            && status.url() == other.status.url()
            && said(status) == said(&other.status)
    }

    /// Ready or failed, in the words of a deployment's history; `None` while it is neither.
    #[must_use]
    pub fn outcome(&self) -> Option<DeploymentOutcome> {
        if self.status.failed {
            // Said of the model that was asked for last; an older one may still be serving meanwhile.
            Some(DeploymentOutcome::Failed)
        } else if self.status.ready == Readiness::True {
            Some(DeploymentOutcome::Running)
        } else {
            None
        }
    }
}

/// How a deployment went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentOutcome {
    /// It serves.
    Running,
    /// It could not be loaded.
    Failed,
}

impl DeploymentOutcome {
    /// As the registry writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Failed => "FAILED",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(object: &Value) -> Option<(ObjectName, Object)> {
        let view: InferenceService = serde_json::from_value(object.clone()).unwrap();
        Object::read(&view, &LabelKeys::default(), Some("example.org/finalizer"))
    }

    fn stored(labels: &Value, status: &Value) -> Object {
        let metadata = json!({"namespace": "team-a", "name": "scorer", "uid": "u", "labels": labels,
            "finalizers": ["a", "example.org/finalizer"]});
        read(&json!({"metadata": metadata, "status": status})).unwrap().1
    }

    #[test]
    fn labels_are_ids_or_malformed_or_absent() {
        let keys = LabelKeys::default();
        let object = stored(
            &json!({keys.registered_model_id.as_str(): "7", keys.model_version_id.as_str(): "07"}),
            &json!({}),
        );
        assert_eq!(object.model.id(), "7".parse().ok());
        assert_eq!(object.version, IdLabel::Malformed);
        assert_eq!(object.entry, IdLabel::Absent);
        assert!(object.opted_in());
        assert!(!stored(&json!({}), &json!({})).opted_in());
        assert_eq!(object.finalizer_to_release, Some(1));
    }

    #[test]
    fn what_is_not_stored_is_not_kept() {
        assert!(read(&json!({"metadata": {"namespace": "team-a", "name": "scorer"}})).is_none());
        assert!(read(&json!({"metadata": {"uid": "u", "generateName": "scorer-"}})).is_none());
    }

    #[test]
    fn only_what_the_registry_is_told_makes_a_difference() {
        let at = |status: Value| stored(&json!({}), &status);
        let quiet = at(json!({"url": "http://a", "observedGeneration": 1}));
        assert!(quiet.asks_the_same_as(&at(json!({"url": "http://a", "observedGeneration": 2}))));
        assert!(!quiet.asks_the_same_as(&at(json!({"url": "http://b", "observedGeneration": 1}))));
        assert!(!quiet.asks_the_same_as(&Object { uid: "another".into(), ..quiet.clone() }));
    }

    #[test]
    fn a_failed_load_counts_even_while_the_model_before_it_serves() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let failed = json!({"transitionStatus": "BlockedByFailedLoad"});
        assert_eq!(
            stored(&json!({}), &json!({"conditions": ready})).outcome(),
            Some(DeploymentOutcome::Running)
        );
        assert_eq!(
            stored(&json!({}), &json!({"conditions": ready, "modelStatus": failed})).outcome(),
            Some(DeploymentOutcome::Failed)
        );
        assert_eq!(stored(&json!({}), &json!({})).outcome(), None);
    }
}
