//! One entity: what is stored of it, and the JSON that the registry answers with.
//!
//! What stays true: ids and times are written as strings, `customProperties` is always there, and any other
//! absent value is left out.

use std::fmt::Display;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::properties::Properties;
use super::schema::{Field, Kind};

/// The value of a field that only some kinds have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Attribute {
    Text(Box<str>),
    /// One of the words of the field's table.
    Word(&'static str),
    Id(i32),
    Texts(Box<[String]>),
}

/// A field and its value.
pub(super) type Attributes = Vec<(&'static Field, Attribute)>;

/// What is stored of one entity.
#[derive(Debug, Clone)]
pub(super) struct Entity {
    pub(super) id: i32,
    pub(super) kind: Kind,
    /// None for a kind that has no parent, and for an artifact that was made without one.
    pub(super) parent: Option<i32>,
    /// Without the parent's id.
    pub(super) name: Arc<str>,
    pub(super) external_id: Option<Box<str>>,
    pub(super) description: Option<Box<str>>,
    pub(super) properties: Properties,
    pub(super) attributes: Attributes,
    /// Milliseconds since the epoch.
    pub(super) created: i64,
    /// Milliseconds since the epoch.
    pub(super) updated: i64,
}

impl Entity {
    /// The value of a field.
    pub(super) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|(field, _)| field.name == name).map(|(_, value)| value)
    }

    /// The value of a field that holds text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.attribute(name)? {
            Attribute::Text(text) => Some(text),
            Attribute::Word(word) => Some(word),
            Attribute::Id(_) | Attribute::Texts(_) => None,
        }
    }

    /// The value of a field that holds an id.
    pub(super) fn id_in(&self, name: &str) -> Option<i32> {
        match self.attribute(name)? {
            Attribute::Id(id) => Some(*id),
            _ => None,
        }
    }

    /// Sets a field.
    pub(super) fn set(&mut self, field: &'static Field, value: Attribute) {
        match self.attributes.iter_mut().find(|(present, _)| present.name == field.name) {
            Some((_, present)) => *present = value,
            None => self.attributes.push((field, value)),
        }
    }

    /// The name as the database has it: where there can be a parent, with its id before it.
    pub(super) fn stored_name(&self) -> String {
        stored_name(self.parent, &self.name)
    }
}

/// A name as the database has it.
pub(super) fn stored_name(parent: Option<i32>, name: &str) -> String {
    parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}:{name}"))
}

impl Serialize for Entity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &AsText(self.id))?;
        map.serialize_entry("name", &*self.name)?;
        if let Some(description) = &self.description {
            map.serialize_entry("description", description)?;
        }
        if let Some(external_id) = &self.external_id {
            map.serialize_entry("externalId", external_id)?;
        }
        map.serialize_entry("customProperties", &self.properties)?;
        for (field, value) in &self.attributes {
            map.serialize_entry(field.name, value)?;
        }
        map.serialize_entry("createTimeSinceEpoch", &AsText(self.created))?;
        map.serialize_entry("lastUpdateTimeSinceEpoch", &AsText(self.updated))?;
        map.end()
    }
}

impl Serialize for Attribute {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Word(word) => serializer.serialize_str(word),
            Self::Id(id) => serializer.collect_str(id),
            Self::Texts(texts) => serializer.collect_seq(texts),
        }
    }
}

/// A number that is written as a JSON string.
struct AsText<T>(T);

impl<T: Display> Serialize for AsText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
