//! `customProperties`: the registry's map of typed values, kept whole so that foreign keys survive a write.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

/// The values of an entity's `customProperties`, each as the registry gave it.
///
/// Sorted by key: of the handful that there are, a list takes less memory than a map, and a syncer holds many.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CustomProperties(Vec<(Box<str>, Property)>);

/// One value. Nearly all are texts; as a [`Value`] each would take ten times its length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Property {
    Text(Text),
    /// Anything else, kept whole.
    Other(Box<Value>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(rename = "metadataType")]
    kind: TextKind,
    string_value: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum TextKind {
    MetadataStringValue,
}

impl CustomProperties {
    /// The text of a string property; `None` when it is absent or of another type.
    #[must_use]
    pub fn string(&self, key: &str) -> Option<&str> {
        match &self.0[self.find(key).ok()?].1 {
            Property::Text(text) => Some(&text.string_value),
            Property::Other(value) => value.get("string_value")?.as_str(),
        }
    }

    /// Sets a string property.
    pub fn set_string(&mut self, key: impl Into<Box<str>>, value: impl AsRef<str>) {
        let text = Text { kind: TextKind::MetadataStringValue, string_value: value.as_ref().into() };
        self.insert(key.into(), Property::Text(text));
    }

    fn insert(&mut self, key: Box<str>, property: Property) {
        match self.find(&key) {
            Ok(at) => self.0[at].1 = property,
            Err(at) => self.0.insert(at, (key, property)),
        }
    }

    /// Where a key is, or where it would have to be.
    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_ref().cmp(key))
    }

    /// Takes a property away; says whether it was there.
    pub fn remove(&mut self, key: &str) -> bool {
        self.find(key).map(|at| self.0.remove(at)).is_ok()
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
        let encoded = |property: &Property| match property {
            Property::Text(text) => json!(text),
            Property::Other(value) => encode_struct(value),
        };
        self.0.iter().map(|(key, property)| (key.to_string(), encoded(property))).collect()
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

impl Serialize for CustomProperties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, property)| (key, property)))
    }
}

impl<'de> Deserialize<'de> for CustomProperties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reading)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = CustomProperties;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map of properties")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<CustomProperties, A::Error> {
        let mut properties = CustomProperties::default();
        while let Some((key, property)) = members.next_entry()? {
            properties.insert(key, property);
        }
        properties.0.shrink_to_fit();
        Ok(properties)
    }
}

impl<K: Into<Box<str>>, V: AsRef<str>> FromIterator<(K, V)> for CustomProperties {
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
    use rstest::rstest;

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

    #[rstest]
    #[case::usual(json!({"metadataType": "MetadataStringValue", "string_value": "x"}), Some("x"))]
    #[case::no_type(json!({"string_value": "x"}), Some("x"))]
    #[case::of_a_later_release(
        json!({"metadataType": "MetadataStringValue", "string_value": "x", "since": 7}),
        Some("x")
    )]
    #[case::of_another_type(json!({"metadataType": "MetadataTextValue", "string_value": "x"}), Some("x"))]
    #[case::no_text(json!({"metadataType": "MetadataStringValue", "string_value": 7}), None)]
    #[case::no_map(json!("x"), None)]
    #[case::nothing(Value::Null, None)]
    fn every_value_is_kept_as_it_is(#[case] value: Value, #[case] text: Option<&str>) {
        let read = json!({"team": value});
        let properties: CustomProperties = serde_json::from_value(read.clone()).unwrap();
        assert_eq!(properties.string("team"), text);
        assert_eq!(json!(properties), read);
        assert_eq!(json!(properties.to_patch()), read);
    }
}
