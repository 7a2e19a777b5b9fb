//! Custom properties: a JSON map goes in, checked values come out, and they are written as the registry does.
//!
//! What stays true: `struct_value` is taken as base64 of JSON and **given back as plain JSON text**. So a map
//! that was read cannot be sent back as it is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json};

use super::refusal::Refusal;

/// One custom property's value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(Box<str>),
    Int(i64),
    Double(f64),
    Bool(bool),
    /// JSON text, decoded.
    Struct(Box<str>),
    Proto {
        message_type: Box<str>,
        /// Base64, as it came: nothing here looks inside.
        value: Box<str>,
    },
}

/// An entity's custom properties, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Properties(Box<[(Box<str>, Value)]>);

impl Properties {
    /// Reads the value of `customProperties`.
    pub(super) fn read(json: Json) -> Result<Self, Refusal> {
        let Json::Object(map) = json else {
            return Err(Refusal::BadRequest("customProperties is not an object".to_owned()));
        };
        let mut entries = map
            .into_iter()
            .map(|(name, json)| Ok((Box::from(name.as_str()), Value::read(&name, json)?)))
            .collect::<Result<Vec<_>, Refusal>>()?;
        entries.sort_by(|(a, _), (b, _): &(Box<str>, Value)| a.cmp(b));
        Ok(Self(entries.into_boxed_slice()))
    }

    /// The property of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let at = self.0.binary_search_by(|(entry, _)| entry.as_ref().cmp(name)).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// All properties.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// Whether a patch that leaves the properties out must fail: the registry writes back what it has, and
    /// cannot decode its own plain text of a struct.
    pub(super) fn has_struct(&self) -> bool {
        self.0.iter().any(|(_, value)| matches!(value, Value::Struct(_)))
    }
}

impl Value {
    fn read(name: &str, json: Json) -> Result<Self, Refusal> {
        let refuse = |why: &str| Refusal::BadRequest(format!("customProperties: {name}: {why}"));
        let Json::Object(mut map) = json else {
            return Err(refuse("not an object"));
        };
        let kind = take_text(&mut map, "metadataType").ok_or_else(|| refuse("no metadataType"))?;
        let value = match &*kind {
            "MetadataStringValue" => take_text(&mut map, "string_value").map(Self::Text),
            "MetadataIntValue" => {
                take_text(&mut map, "int_value").and_then(|text| text.parse().ok()).map(Self::Int)
            }
            "MetadataDoubleValue" => map.get("double_value").and_then(Json::as_f64).map(Self::Double),
            "MetadataBoolValue" => map.get("bool_value").and_then(Json::as_bool).map(Self::Bool),
            "MetadataStructValue" => {
                take_text(&mut map, "struct_value").as_deref().and_then(decode_struct).map(Self::Struct)
            }
            "MetadataProtoValue" => take_text(&mut map, "type")
                .zip(take_text(&mut map, "proto_value"))
                .map(|(message_type, value)| Self::Proto { message_type, value }),
            _ => return Err(refuse("unknown metadataType")),
        };
        value.ok_or_else(|| refuse("no such value in it, or one that cannot be read"))
    }
}

fn take_text(map: &mut Map<String, Json>, key: &str) -> Option<Box<str>> {
    match map.remove(key) {
        Some(Json::String(text)) => Some(text.into_boxed_str()),
        _ => None,
    }
}

/// Base64 of a JSON object, decoded to its text.
fn decode_struct(base64: &str) -> Option<Box<str>> {
    let text = String::from_utf8(STANDARD.decode(base64).ok()?).ok()?;
    serde_json::from_str::<Map<String, Json>>(&text).ok()?;
    Some(text.into_boxed_str())
}

impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let kind = match self {
            Self::Text(text) => {
                map.serialize_entry("string_value", text)?;
                "MetadataStringValue"
            }
            Self::Int(number) => {
                map.serialize_entry("int_value", &number.to_string())?;
                "MetadataIntValue"
            }
            Self::Double(number) => {
                map.serialize_entry("double_value", number)?;
                "MetadataDoubleValue"
            }
            Self::Bool(truth) => {
                map.serialize_entry("bool_value", truth)?;
                "MetadataBoolValue"
            }
            Self::Struct(text) => {
                map.serialize_entry("struct_value", text)?;
                "MetadataStructValue"
            }
            Self::Proto { message_type, value } => {
                map.serialize_entry("type", message_type)?;
                map.serialize_entry("proto_value", value)?;
                "MetadataProtoValue"
            }
        };
        map.serialize_entry("metadataType", kind)?;
        map.end()
    }
}
