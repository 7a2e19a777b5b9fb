//! `customProperties`: the registry's map of typed values, kept whole so that foreign keys survive a write.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The values of an entity's `customProperties`, each as the registry gave it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CustomProperties(BTreeMap<String, Value>);

impl CustomProperties {
    /// The text of a string property; `None` when it is absent or of another type.
    #[must_use]
    pub fn string(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.get("string_value")?.as_str()
    }

    /// Sets a string property.
    pub fn set_string(&mut self, key: impl Into<String>, value: impl AsRef<str>) {
        let value = json!({"metadataType": "MetadataStringValue", "string_value": value.as_ref()});
        self.0.insert(key.into(), value);
    }

    /// Takes a property away; says whether it was there.
    pub fn remove(&mut self, key: &str) -> bool {
        self.0.remove(key).is_some()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The map as a PATCH has to carry it.
    ///
    /// The registry takes `struct_value` as base64 of JSON but gives it back as plain JSON text, so a map that
    /// was read must not be sent as it is.
    #[must_use]
    pub fn to_patch(&self) -> Map<String, Value> {
        self.0.iter().map(|(key, value)| (key.clone(), encode_struct(value))).collect()
    }
}

/// Encodes `struct_value` where it is plain JSON text; leaves every other value alone.
fn encode_struct(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(Value::String(text)) = value.get_mut("struct_value")
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
    {
        *text = STANDARD.encode(text.as_bytes());
    }
    value
}

impl<K: Into<String>, V: AsRef<str>> FromIterator<(K, V)> for CustomProperties {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(strings: I) -> Self {
        let mut properties = Self::default();
        for (key, value) in strings {
            properties.set_string(key, value);
        }
        properties
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_was_read_can_be_written_back() {
        let read = json!({
            "team": {"metadataType": "MetadataStringValue", "string_value": "{\"not\": \"a struct\"}"},
            "o": {"metadataType": "MetadataStructValue", "struct_value": "{\"a\":1}"},
            "n": {"metadataType": "MetadataIntValue", "int_value": "7"},
        });
        let properties: CustomProperties = serde_json::from_value(read.clone()).unwrap();
        let patch = properties.to_patch();
        assert_eq!(patch["o"]["struct_value"], "eyJhIjoxfQ==", "a struct goes back in base64");
        assert_eq!(patch["team"], read["team"], "a string is not touched, whatever it holds");
        assert_eq!(patch["n"], read["n"]);
    }

    #[test]
    fn a_property_of_another_type_is_no_string() {
        let properties: CustomProperties = serde_json::from_value(
            json!({"cluster": {"metadataType": "MetadataIntValue", "int_value": "7"}}),
        )
        .unwrap();
        assert_eq!(properties.string("cluster"), None);
        assert_eq!(properties.string("name"), None);
    }
}
