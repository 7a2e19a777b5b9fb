//! The registry's entities, as far as this program reads and writes them.
//!
//! Reading is lenient: a field this program can do without may be absent, null or new. Times are milliseconds
//! since the epoch, which the registry writes as strings.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::ids::{EntryId, EnvironmentId, ModelVersionId, RegisteredModelId};
use super::properties::CustomProperties;

/// Where models are served: here, one Namespace.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServingEnvironment {
    /// The registry's id.
    pub id: EnvironmentId,
    /// The Namespace's name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
}

/// A registered model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredModel {
    /// The registry's id.
    pub id: RegisteredModelId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// LIVE or ARCHIVED.
    #[serde(default, deserialize_with = "null_as_default")]
    pub state: LifecycleState,
}

/// A version of a registered model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelVersion {
    /// The registry's id.
    pub id: ModelVersionId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// The model it is a version of.
    pub registered_model_id: RegisteredModelId,
    /// LIVE or ARCHIVED.
    #[serde(default, deserialize_with = "null_as_default")]
    pub state: LifecycleState,
}

/// State of a model or version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum LifecycleState {
    /// Put away by its owner.
    Archived,
    /// In use.
    #[default]
    #[serde(other)]
    Live,
}

/// The entry of one InferenceService object: which model runs where.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InferenceService {
    /// The registry's id; the object carries it as a label.
    pub id: EntryId,
    /// Unique within its environment. The registry makes one up when none is given.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// The model it serves. Cannot be changed later.
    pub registered_model_id: RegisteredModelId,
    /// Where. Cannot be changed later.
    pub serving_environment_id: EnvironmentId,
    /// The version it serves.
    #[serde(default, deserialize_with = "lenient_id")]
    pub model_version_id: Option<ModelVersionId>,
    /// The serving runtime.
    #[serde(default)]
    pub runtime: Option<String>,
    /// Whether it should be running.
    #[serde(default, deserialize_with = "null_as_default")]
    pub desired_state: DesiredState,
    /// Properties, ours and others'.
    #[serde(default, deserialize_with = "null_as_default")]
    pub custom_properties: CustomProperties,
    /// Milliseconds since the epoch, by the registry's clock.
    #[serde(default, rename = "lastUpdateTimeSinceEpoch", deserialize_with = "milliseconds")]
    pub last_update_ms: i64,
}

/// Whether an entry should be running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum DesiredState {
    /// It should; the registry's default.
    #[default]
    Deployed,
    /// It is retired.
    Undeployed,
}

/// What is sent to create an entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewEntry {
    /// Unique within the environment.
    pub name: String,
    /// The model it serves. The registry does not check that it exists.
    pub registered_model_id: RegisteredModelId,
    /// Where.
    pub serving_environment_id: EnvironmentId,
    /// The version. The registry does not check that it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_version_id: Option<ModelVersionId>,
    /// The serving runtime.
    pub runtime: String,
    /// DEPLOYED for a new one.
    pub desired_state: DesiredState,
    /// Our properties.
    pub custom_properties: CustomProperties,
}

/// What is sent to change an entry; the registry accepts these fields and no other.
///
/// `desired_state` is no option: a PATCH without it sets the entry to DEPLOYED, whatever it was.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryPatch {
    /// Always sent.
    pub desired_state: DesiredState,
    /// The version; absent keeps it. It cannot be cleared.
    pub model_version_id: Option<ModelVersionId>,
    /// The serving runtime; absent keeps it.
    pub runtime: Option<String>,
    /// The whole map; absent keeps it, which the registry allows only for an entry without struct values.
    pub custom_properties: Option<CustomProperties>,
}

impl EntryPatch {
    /// The body of the PATCH.
    #[must_use]
    pub fn to_body(&self) -> Value {
        let mut body = Map::new();
        body.insert("desiredState".into(), json!(self.desired_state));
        if let Some(version) = self.model_version_id {
            body.insert("modelVersionId".into(), json!(version));
        }
        if let Some(runtime) = &self.runtime {
            body.insert("runtime".into(), json!(runtime));
        }
        if let Some(properties) = &self.custom_properties {
            body.insert("customProperties".into(), Value::Object(properties.to_patch()));
        }
        Value::Object(body)
    }
}

/// A record of one deployment in an entry's history.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServeModel {
    /// Unique within its entry.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// The version that was served.
    pub model_version_id: ModelVersionId,
    /// How it went.
    #[serde(default)]
    pub last_known_state: Option<LastKnownState>,
}

/// What is sent to add a record to an entry's history; it can never be changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewServeModel {
    /// Unique within its entry; a second one of that name gets 409.
    pub name: String,
    /// The version that is served.
    pub model_version_id: ModelVersionId,
    /// How it goes.
    pub last_known_state: LastKnownState,
}

/// State in an entry's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum LastKnownState {
    /// Ready.
    Running,
    /// Could not be loaded.
    Failed,
    /// Another state, which this program never writes.
    #[serde(other)]
    Unknown,
}

/// Which page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// Items on a page; 0 means all.
    pub size: u32,
    /// What it is sorted by, and how.
    pub order: SortOrder,
    /// `next` of the page before; `None` for the first one.
    pub token: Option<String>,
}

/// Order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortOrder {
    /// By id, oldest first: nothing that is added or changed meanwhile is missed or seen twice.
    IdAscending,
    /// By last update, newest first.
    LastUpdateDescending,
}

/// One page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Token of the next page; `None` on the last one.
    pub next: Option<String>,
    /// The registry's clock when it answered (its `Date` header), in milliseconds since the epoch.
    pub registry_time_ms: Option<i64>,
}

/// Takes null for the default.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// An id of an optional field: absent, null, empty or malformed is none, since the registry never checks it.
fn lenient_id<'de, D>(deserializer: D) -> Result<Option<ModelVersionId>, D::Error>
where
    D: Deserializer<'de>,
{
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

/// Milliseconds since the epoch, written as a string.
fn milliseconds<'de, D>(deserializer: D) -> Result<i64, D::Error>
where
    D: Deserializer<'de>,
{
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_always_carries_the_desired_state() {
        let patch = EntryPatch {
            desired_state: DesiredState::Undeployed,
            model_version_id: None,
            runtime: None,
            custom_properties: None,
        };
        assert_eq!(patch.to_body(), json!({"desiredState": "UNDEPLOYED"}));
    }

    #[test]
    fn an_entry_is_read_leniently() {
        let entry: InferenceService = serde_json::from_value(json!({
            "id": "7", "registeredModelId": "1", "servingEnvironmentId": "2", "name": null, "modelVersionId": "",
            "desiredState": null, "customProperties": null, "lastUpdateTimeSinceEpoch": "1700000000000", "new": 1,
        }))
        .unwrap();
        assert_eq!(entry.desired_state, DesiredState::Deployed);
        assert_eq!(entry.model_version_id, None);
        assert_eq!(entry.last_update_ms, 1_700_000_000_000);
    }
}
