//! Bodies of POST and PATCH: bytes go in, a draft of an entity comes out.
//!
//! What stays true: whatever cannot be read is 400, and that is found before a missing field (422), which is
//! found before anything is looked up. Ids stay text here, because the registry reads them only after it has
//! looked for the parent.

use serde_json::{Map, Value as Json};

use super::entity::{Attribute, Attributes};
use super::properties::Properties;
use super::refusal::Refusal;
use super::schema::{ARTIFACT_TYPE, Field, Form, Naming, Schema};

/// What one body says.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Only in an upsert: the entity to change instead of making one.
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) properties: Option<Properties>,
    given: Vec<(&'static Field, Given)>,
}

/// A field's value as the body has it.
#[derive(Debug)]
enum Given {
    Id(String),
    Settled(Attribute),
}

/// What the body is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Create,
    Patch,
    /// A create, or a patch when the body has an id.
    Upsert,
}

impl Draft {
    /// Reads a body.
    pub(super) fn read(schema: &'static Schema, purpose: Purpose, body: &[u8]) -> Result<Self, Refusal> {
        let mut map: Map<String, Json> = serde_json::from_slice(body)
            .map_err(|error| Refusal::BadRequest(format!("the body is not a JSON object: {error}")))?;
        let mut draft = Self {
            description: take_text(&mut map, "description")?,
            external_id: take_text(&mut map, "externalId")?,
            properties: take(&mut map, "customProperties").map(Properties::read).transpose()?,
            ..Self::default()
        };
        if purpose == Purpose::Upsert {
            draft.id = take_text(&mut map, "id")?;
            // What was read may be sent back; the times in it are not looked at.
            map.remove("createTimeSinceEpoch");
            map.remove("lastUpdateTimeSinceEpoch");
        }
        if purpose != Purpose::Patch {
            draft.name = take_text(&mut map, "name")?;
        }
        for field in schema.fields {
            if purpose != Purpose::Patch || field.patchable {
                draft.take_field(&mut map, field)?;
            }
        }
        if let Some(stranger) = map.keys().next() {
            return Err(Refusal::BadRequest(format!("json: unknown field {stranger:?}")));
        }
        if purpose != Purpose::Patch && draft.id.is_none() {
            draft.check_required(schema)?;
        }
        Ok(draft)
    }

    fn take_field(&mut self, map: &mut Map<String, Json>, field: &'static Field) -> Result<(), Refusal> {
        let given = match field.form {
            Form::Text => {
                take_text(map, field.name)?.map(|text| Given::Settled(Attribute::Text(text.into_boxed_str())))
            }
            Form::Id => take_text(map, field.name)?.map(Given::Id),
            Form::Texts => take(map, field.name)
                .map(serde_json::from_value::<Vec<String>>)
                .transpose()
                .map_err(|_| Refusal::BadRequest(format!("{} is not a list of strings", field.name)))?
                .map(|texts| Given::Settled(Attribute::Texts(texts.into_boxed_slice()))),
            Form::OneOf { words, default } => match take_text(map, field.name)? {
                Some(text) => {
                    let word = words.iter().find(|word| **word == text).ok_or_else(|| {
                        Refusal::BadRequest(format!("{text:?} is not a valid {}", field.name))
                    })?;
                    Some(Given::Settled(Attribute::Word(word)))
                }
                None => default.map(|word| Given::Settled(Attribute::Word(word))),
            },
        };
        self.given.extend(given.map(|given| (field, given)));
        Ok(())
    }

    fn check_required(&self, schema: &Schema) -> Result<(), Refusal> {
        let missing = |name| Refusal::Incomplete(format!("required field '{name}' is zero value."));
        if schema.naming == Naming::Required && self.name.as_deref().unwrap_or_default().is_empty() {
            return Err(missing("name"));
        }
        for field in schema.fields.iter().filter(|field| field.required) {
            if self.id_text(field.name).unwrap_or_default().is_empty() {
                return Err(missing(field.name));
            }
        }
        Ok(())
    }

    /// The text that an id field was given.
    pub(super) fn id_text(&self, name: &str) -> Option<&str> {
        self.given.iter().find_map(|(field, given)| match given {
            Given::Id(text) if field.name == name => Some(text.as_str()),
            _ => None,
        })
    }

    /// Gives an id field another value: the path has the last word on the parent.
    pub(super) fn set_id(&mut self, name: &str, id: &str) {
        for (field, given) in &mut self.given {
            if field.name == name {
                *given = Given::Id(id.to_owned());
            }
        }
    }

    /// The word for the artifact's type.
    pub(super) fn artifact_type(&self) -> Option<&'static str> {
        self.given.iter().find_map(|(field, given)| match given {
            Given::Settled(Attribute::Word(word)) if field.name == ARTIFACT_TYPE => Some(*word),
            _ => None,
        })
    }

    /// Sets the artifact's type where the path says it and the body does not.
    pub(super) fn default_artifact_type(&mut self, schema: &'static Schema, word: &'static str) {
        if let (None, Some(field)) = (self.artifact_type(), schema.field(ARTIFACT_TYPE)) {
            self.given.push((field, Given::Settled(Attribute::Word(word))));
        }
    }

    /// The fields, with their ids read.
    pub(super) fn take_attributes(&mut self) -> Result<Attributes, Refusal> {
        std::mem::take(&mut self.given)
            .into_iter()
            .map(|(field, given)| {
                let value = match given {
                    Given::Id(text) => Attribute::Id(parse_id(&text)?),
                    Given::Settled(value) => value,
                };
                Ok((field, value))
            })
            .collect()
    }
}

/// Reads an id: decimal, with leading zeros if you like, within int32.
pub(super) fn parse_id(text: &str) -> Result<i32, Refusal> {
    text.parse().map_err(|_| Refusal::BadRequest(format!("{text:?} is not a valid id")))
}

/// Takes a value out of the map; null counts as absent.
fn take(map: &mut Map<String, Json>, key: &str) -> Option<Json> {
    map.remove(key).filter(|json| !json.is_null())
}

fn take_text(map: &mut Map<String, Json>, key: &str) -> Result<Option<String>, Refusal> {
    match take(map, key) {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(_) => Err(Refusal::BadRequest(format!("{key} is not a string"))),
    }
}
