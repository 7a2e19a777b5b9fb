//! One comparison of a filter, checked against a kind: an entity goes in, whether it holds comes out.
//!
//! What stays true: as in SQL, a value that is not there makes every comparison false, `!=` too.

use std::cmp::Ordering;

use super::super::entity::{Attribute, Entity};
use super::super::like::Pattern;
use super::super::properties::Value;
use super::super::schema::{Form, Kind};
use super::Only;
use super::grammar::{Comparison, Literal, Operator};

/// A comparison whose property and type are known.
#[derive(Debug)]
pub(super) struct Condition {
    column: Column,
    test: Test,
}

/// Where the value is.
#[derive(Debug, PartialEq, Eq)]
enum Column {
    Id,
    Created,
    Updated,
    /// With the parent's id before it, where there is one.
    StoredName,
    ExternalId,
    Attribute(&'static str),
    Custom {
        name: String,
        only: Option<ValueType>,
    },
}

/// The types of custom properties that a filter knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueType {
    Text,
    Int,
    Double,
    Bool,
}

/// What the value must be.
#[derive(Debug)]
enum Test {
    Compare(Operator, Literal),
    Like(Pattern),
    LikeAnyCase(Pattern),
    In(Vec<Literal>),
}

/// A value of an entity.
enum Found<'a> {
    Text(&'a str),
    Owned(String),
    Int(i64),
    Float(f64),
    Bool(bool),
}

impl Condition {
    /// Checks a comparison against the kind that it is for.
    pub(super) fn new(comparison: Comparison, kind: Kind) -> Result<Self, String> {
        let Comparison { property, value_type, operator, values } = comparison;
        let (column, numeric) = match property.as_str() {
            "id" => (Column::Id, Some(true)),
            "createTimeSinceEpoch" => (Column::Created, Some(true)),
            "lastUpdateTimeSinceEpoch" => (Column::Updated, Some(true)),
            "name" => (Column::StoredName, Some(false)),
            "externalId" => (Column::ExternalId, Some(false)),
            other => match kind.schema().field(other) {
                Some(field) => (Column::Attribute(field.name), Some(field.form == Form::Id)),
                None => (Column::custom(other, value_type.as_deref())?, None),
            },
        };
        let mut values = values
            .into_iter()
            .map(|value| settle(value, numeric, &property))
            .collect::<Result<Vec<_>, _>>()?;
        let first = match operator {
            Operator::In => None,
            _ => values.pop(),
        };
        let under_parent = column == Column::StoredName && kind.schema().parent.is_some();
        let test = match (operator, first) {
            (Operator::Equal, Some(Literal::Text(text))) if under_parent => {
                Test::Like(Pattern::new(&format!("%:{text}")))
            }
            (Operator::Like, Some(Literal::Text(text))) => {
                let bare = under_parent && !text.contains(':') && !text.starts_with('%');
                Test::Like(Pattern::new(&if bare { format!("%:{text}") } else { text }))
            }
            (Operator::LikeAnyCase, Some(Literal::Text(text))) => {
                Test::LikeAnyCase(Pattern::new(&text.to_uppercase()))
            }
            (Operator::Like | Operator::LikeAnyCase, _) => {
                return Err(format!("{property} LIKE needs a text"));
            }
            (operator, Some(value)) => Test::Compare(operator, value),
            (_, None) => Test::In(values),
        };
        Ok(Self { column, test })
    }

    /// Whether the entity fits.
    pub(super) fn holds(&self, entity: &Entity) -> bool {
        self.column.find(entity).is_some_and(|found| self.test.accepts(&found))
    }

    /// The only entity that can fit, where one look-up finds it.
    pub(super) fn only(&self) -> Option<Only<'_>> {
        match (&self.column, &self.test) {
            (Column::Id, Test::Compare(Operator::Equal, Literal::Int(id))) => Some(Only::Id(*id)),
            (Column::StoredName, Test::Compare(Operator::Equal, Literal::Text(name))) => {
                Some(Only::Name(name))
            }
            _ => None,
        }
    }
}

/// A value in the type of its column, for those that have one.
fn settle(value: Literal, numeric: Option<bool>, property: &str) -> Result<Literal, String> {
    match (numeric, value) {
        (Some(true), Literal::Text(text)) => {
            text.parse().map(Literal::Int).map_err(|_| format!("{property} is a number"))
        }
        (Some(true), Literal::Bool(_)) => Err(format!("{property} is a number")),
        (Some(false), Literal::Int(_) | Literal::Float(_) | Literal::Bool(_)) => {
            Err(format!("{property} is a text"))
        }
        (_, value) => Ok(value),
    }
}

impl Column {
    fn custom(property: &str, value_type: Option<&str>) -> Result<Self, String> {
        Ok(Self::Custom { name: property.to_owned(), only: value_type.map(ValueType::read).transpose()? })
    }

    fn find<'a>(&self, entity: &'a Entity) -> Option<Found<'a>> {
        Some(match self {
            Self::Id => Found::Int(i64::from(entity.id)),
            Self::Created => Found::Int(entity.created),
            Self::Updated => Found::Int(entity.updated),
            Self::StoredName => Found::Owned(entity.stored_name()),
            Self::ExternalId => Found::Text(entity.external_id.as_deref()?),
            Self::Attribute(name) => match entity.attribute(name)? {
                Attribute::Text(text) => Found::Text(text),
                Attribute::Word(word) => Found::Text(word),
                Attribute::Id(id) => Found::Int(i64::from(*id)),
                Attribute::Texts(_) => return None,
            },
            Self::Custom { name, only } => {
                let (found, value_type) = match entity.properties.get(name)? {
                    Value::Text(text) => (Found::Text(text), ValueType::Text),
                    Value::Int(int) => (Found::Int(*int), ValueType::Int),
                    Value::Double(double) => (Found::Float(*double), ValueType::Double),
                    Value::Bool(truth) => (Found::Bool(*truth), ValueType::Bool),
                    Value::Struct(_) | Value::Proto { .. } => return None,
                };
                if only.is_some_and(|only| only != value_type) {
                    return None;
                }
                found
            }
        })
    }
}

impl ValueType {
    fn read(text: &str) -> Result<Self, String> {
        Ok(match text {
            "string_value" => Self::Text,
            "int_value" => Self::Int,
            "double_value" => Self::Double,
            "bool_value" => Self::Bool,
            _ => return Err(format!("{text} is no value type")),
        })
    }
}

impl Test {
    fn accepts(&self, found: &Found<'_>) -> bool {
        match self {
            Self::Compare(operator, value) => found.compare(value).is_some_and(|ordering| match operator {
                Operator::Equal | Operator::In => ordering.is_eq(),
                Operator::NotEqual => ordering.is_ne(),
                Operator::Less => ordering.is_lt(),
                Operator::LessOrEqual => ordering.is_le(),
                Operator::Greater => ordering.is_gt(),
                Operator::GreaterOrEqual => ordering.is_ge(),
                Operator::Like | Operator::LikeAnyCase => false,
            }),
            Self::Like(pattern) => found.text().is_some_and(|text| pattern.matches(text)),
            Self::LikeAnyCase(pattern) => {
                found.text().is_some_and(|text| pattern.matches(&text.to_uppercase()))
            }
            Self::In(values) => values.iter().any(|value| found.compare(value).is_some_and(Ordering::is_eq)),
        }
    }
}

impl Found<'_> {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Owned(text) => Some(text),
            Self::Int(_) | Self::Float(_) | Self::Bool(_) => None,
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a whole number is compared with a fraction as the database does: as doubles"
    )]
    fn compare(&self, value: &Literal) -> Option<Ordering> {
        match (self, value) {
            (Self::Int(a), Literal::Int(b)) => Some(a.cmp(b)),
            (Self::Int(a), Literal::Float(b)) => (*a as f64).partial_cmp(b),
            (Self::Float(a), Literal::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Self::Float(a), Literal::Float(b)) => a.partial_cmp(b),
            (Self::Bool(a), Literal::Bool(b)) => Some(a.cmp(b)),
            (_, Literal::Text(b)) => Some(self.text()?.cmp(b.as_str())),
            _ => None,
        }
    }
}
