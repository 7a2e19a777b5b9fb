//! `filterQuery`: a condition in the style of SQL's WHERE goes in, whether an entity fits comes out.
//!
//! What stays true: what cannot be parsed, or compares a field with something of another type, is 400; a property
//! that nothing has fits nothing. A name under a parent is compared by LIKE, even with `=`, because the stored name
//! begins with the parent's id: `name = 'v_1'` finds `v-1` too.

mod condition;
mod grammar;
mod token;

use super::entity::Entity;
use super::refusal::Refusal;
use super::schema::Kind;
use condition::Condition;

/// A filter, checked against the kind that it is for.
#[derive(Debug)]
pub(super) struct Filter(Expression<Condition>);

/// The one entity that a filter asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Only<'a> {
    Id(i64),
    /// Of a kind whose names are unique by themselves.
    Name(&'a str),
}

/// Conditions, put together.
#[derive(Debug, Clone, PartialEq)]
enum Expression<T> {
    All(Vec<Expression<T>>),
    Any(Vec<Expression<T>>),
    One(T),
}

impl Filter {
    /// Reads a filter; a blank one is none.
    pub(super) fn read(text: &str, kind: Kind) -> Result<Option<Self>, Refusal> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let invalid = |why: String| Refusal::BadRequest(format!("invalid filter query: {why}"));
        let comparisons = grammar::parse(text).map_err(invalid)?;
        let conditions =
            comparisons.try_map(&|comparison| Condition::new(comparison, kind)).map_err(invalid)?;
        Ok(Some(Self(conditions)))
    }

    /// Whether the entity fits.
    pub(super) fn matches(&self, entity: &Entity) -> bool {
        self.0.holds(&|condition| condition.holds(entity))
    }

    /// The only entity that can fit, where the filter says so: no need to look at the others.
    pub(super) fn only(&self) -> Option<Only<'_>> {
        match &self.0 {
            Expression::One(condition) => condition.only(),
            Expression::All(parts) => parts.iter().find_map(|part| match part {
                Expression::One(condition) => condition.only(),
                Expression::All(_) | Expression::Any(_) => None,
            }),
            Expression::Any(_) => None,
        }
    }
}

impl<T> Expression<T> {
    fn holds(&self, test: &impl Fn(&T) -> bool) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(test)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(test)),
            Self::One(one) => test(one),
        }
    }

    fn try_map<U, E>(self, map: &impl Fn(T) -> Result<U, E>) -> Result<Expression<U>, E> {
        Ok(match self {
            Self::All(parts) => {
                Expression::All(parts.into_iter().map(|part| part.try_map(map)).collect::<Result<_, E>>()?)
            }
            Self::Any(parts) => {
                Expression::Any(parts.into_iter().map(|part| part.try_map(map)).collect::<Result<_, E>>()?)
            }
            Self::One(one) => Expression::One(map(one)?),
        })
    }
}
