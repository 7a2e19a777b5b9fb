//! Lists: query parameters go in, what they ask for comes out; and a page's rows become its JSON.
//!
//! What stays true: an `orderBy` that does not exist means the id, a page size of 0 means everything, and only a
//! page size or a token that cannot be read is refused.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

use super::entity::Entity;
use super::filter::Filter;
use super::order::{Cursor, OrderBy};
use super::refusal::Refusal;
use super::schema::Kind;

/// A URL's query.
#[derive(Debug)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads a query string.
    pub(super) fn new(query: &str) -> Self {
        Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The first parameter of that name; an empty one counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }
}

/// What a list is asked for.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) by: OrderBy,
    pub(super) descending: bool,
    /// As it was asked for: 0 for everything.
    pub(super) page_size: i32,
    pub(super) after: Option<Cursor>,
    pub(super) filter: Option<Filter>,
}

impl Listing {
    /// Reads the parameters of a list of that kind. `nested` lists, those under a parent, take a name or an
    /// external id as well, where they take a filter at all.
    pub(super) fn read(params: &Params, kind: Kind, nested: bool) -> Result<Self, Refusal> {
        let page_size = params.get("pageSize").map_or(Ok(0), |text| {
            text.parse().map_err(|_| Refusal::BadRequest(format!("{text:?} is not a valid pageSize")))
        })?;
        let after = params
            .get("nextPageToken")
            .map(|token| {
                read_token(token)
                    .ok_or_else(|| Refusal::BadRequest(format!("invalid nextPageToken {token:?}")))
            })
            .transpose()?;
        let filter = if kind.schema().filterable { read_filter(params, kind, nested)? } else { None };
        Ok(Self {
            by: match params.get("orderBy") {
                Some("CREATE_TIME") => OrderBy::Created,
                Some("LAST_UPDATE_TIME") => OrderBy::Updated,
                _ => OrderBy::Id,
            },
            descending: params.get("sortOrder") == Some("DESC"),
            page_size,
            after,
            filter,
        })
    }

    /// The most rows that a page may have.
    pub(super) fn limit(&self) -> usize {
        match usize::try_from(self.page_size) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(limit) => limit,
        }
    }

    /// The body of a page.
    pub(super) fn page(&self, items: Vec<Arc<Entity>>, more: bool) -> ListBody {
        let next = items.last().filter(|_| more).map(|last| {
            let value = match self.by {
                OrderBy::Id => i64::from(last.id),
                OrderBy::Created => last.created,
                OrderBy::Updated => last.updated,
            };
            STANDARD.encode(format!("{}:{value}", last.id))
        });
        ListBody {
            size: items.len(),
            page_size: self.page_size,
            next_page_token: next.unwrap_or_default(),
            items,
        }
    }
}

/// A list under a parent turns its name, else its external id, into one more term of the filter. A quote in it is
/// doubled, which the filter's grammar does not know: such a name is refused with 400.
fn read_filter(params: &Params, kind: Kind, nested: bool) -> Result<Option<Filter>, Refusal> {
    let term = |property: &str, value: &str| format!("{property} = '{}'", value.replace('\'', "''"));
    let own = params.get("filterQuery");
    let extra = if nested {
        params
            .get("name")
            .map(|name| term("name", name))
            .or_else(|| params.get("externalId").map(|id| term("externalId", id)))
    } else {
        None
    };
    let text = match (own, extra) {
        (None, None) => return Ok(None),
        (Some(own), None) => own.to_owned(),
        (None, Some(extra)) => extra,
        (Some(own), Some(extra)) => format!("({own}) AND {extra}"),
    };
    Filter::read(&text, kind)
}

fn read_token(token: &str) -> Option<Cursor> {
    let text = String::from_utf8(STANDARD.decode(token).ok()?).ok()?;
    let (id, value) = text.split_once(':')?;
    Some(Cursor { id: id.parse().ok()?, value: value.parse().ok()? })
}

/// One page of a list, as it is answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListBody {
    #[serde(serialize_with = "serialize_rows")]
    items: Vec<Arc<Entity>>,
    size: usize,
    page_size: i32,
    next_page_token: String,
}

fn serialize_rows<S: Serializer>(rows: &[Arc<Entity>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(rows.iter().map(Arc::as_ref))
}
