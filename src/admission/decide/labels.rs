//! Our labels on one object, as text.

use crate::kserve::{InferenceService, LabelKeys};
use crate::registry::directory::Selector;

/// Our labels and the annotation `/url`. An empty value counts as there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OurLabels<'a> {
    /// The registered model.
    pub model: Option<&'a str>,
    /// The version.
    pub version: Option<&'a str>,
    /// The entry.
    pub id: Option<&'a str>,
    registry: Selector<'a>,
}

impl<'a> OurLabels<'a> {
    /// Those of an object.
    #[must_use]
    pub fn of(object: &'a InferenceService, keys: &LabelKeys) -> Self {
        let labels = &object.metadata.labels;
        Self {
            model: labels.get(&keys.registered_model_id),
            version: labels.get(&keys.model_version_id),
            id: labels.get(&keys.inference_service_id),
            registry: Selector {
                url: object.metadata.annotations.get(&keys.url),
                name: labels.get(&keys.name),
                namespace: labels.get(&keys.namespace),
            },
        }
    }

    /// Whether the object wants to be registered.
    #[must_use]
    pub fn opted_in(&self) -> bool {
        self.model.is_some() || self.id.is_some()
    }

    /// What it says of its registry.
    #[must_use]
    pub fn selector(&self) -> Selector<'a> {
        self.registry
    }
}
