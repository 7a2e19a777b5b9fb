//! The entries of inference services, for code that runs in the same process: rows go in, plain data comes out.

use std::collections::BTreeMap;

use super::entity::Entity;
use super::properties::Value;
use super::schema::{DESIRED_STATE, MODEL_VERSION_ID, REGISTERED_MODEL_ID, RUNTIME};

/// One inference service as the registry has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The entry's id.
    pub id: i32,
    /// Its name, unique in its environment.
    pub name: String,
    /// The id of its environment.
    pub environment_id: i32,
    /// The name of its environment.
    pub environment: String,
    /// The id of the model that it serves.
    pub registered_model_id: i32,
    /// The id of the version that it serves.
    pub model_version_id: Option<i32>,
    /// What serves it.
    pub runtime: Option<String>,
    /// DEPLOYED or UNDEPLOYED.
    pub desired_state: String,
    /// Its custom properties that hold text.
    pub properties: BTreeMap<String, String>,
    /// When it was made, in milliseconds since the epoch.
    pub created: i64,
    /// When it was last written, in milliseconds since the epoch.
    pub updated: i64,
}

impl Entry {
    pub(super) fn new(service: &Entity, environment: &str) -> Self {
        let text = |field| service.text(field).map(str::to_owned);
        Self {
            id: service.id,
            name: service.name.to_string(),
            environment_id: service.parent.unwrap_or_default(),
            environment: environment.to_owned(),
            registered_model_id: service.id_in(REGISTERED_MODEL_ID).unwrap_or_default(),
            model_version_id: service.id_in(MODEL_VERSION_ID),
            runtime: text(RUNTIME),
            desired_state: text(DESIRED_STATE).unwrap_or_default(),
            properties: service
                .properties
                .iter()
                .filter_map(|(name, value)| match value {
                    Value::Text(text) => Some((name.to_owned(), text.to_string())),
                    _ => None,
                })
                .collect(),
            created: service.created,
            updated: service.updated,
        }
    }
}
