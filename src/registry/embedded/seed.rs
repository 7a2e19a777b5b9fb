//! Seeds: a file of requests goes in, and the registry begins with what they made.
//!
//! What stays true: a line that cannot be read, or is refused, ends the seeding and is named.

use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Registry;
use super::operations::{self, Request};
use super::refusal::Refusal;

/// Why a seed could not be sown.
#[derive(Debug, thiserror::Error)]
#[error("seed line {line}")]
pub struct SeedError {
    /// The line's number, from 1.
    pub line: usize,
    /// What is wrong with it.
    #[source]
    pub reason: SeedFault,
}

/// What is wrong with a seed's line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeedFault {
    /// It is no request.
    #[error("not a JSON object of method, path and body")]
    Unreadable(#[source] serde_json::Error),
    /// There is no such method.
    #[error("{0:?} is no method")]
    NoSuchMethod(String),
    /// The registry refuses it.
    #[error("{method} {path}")]
    Refused {
        /// The line's method.
        method: String,
        /// The line's path.
        path: String,
        /// The registry's answer.
        #[source]
        refusal: Refusal,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    method: String,
    /// Below the API's version: `/registered_models`.
    path: String,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

/// Runs the requests in `lines`, one JSON object a line; blank lines are skipped.
pub(super) fn sow(registry: &Registry, lines: &str) -> Result<usize, SeedError> {
    let mut sown = 0;
    for (index, line) in lines.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        run(registry, line).map_err(|reason| SeedError { line: index + 1, reason })?;
        sown += 1;
    }
    Ok(sown)
}

fn run(registry: &Registry, line: &str) -> Result<(), SeedFault> {
    let Line { method, path, body } = serde_json::from_str(line).map_err(SeedFault::Unreadable)?;
    let verb: Method = method.parse().map_err(|_| SeedFault::NoSuchMethod(method.clone()))?;
    let (resource, query) = path.split_once('?').unwrap_or((&path, ""));
    let request = Request {
        method: &verb,
        path: resource.trim_start_matches('/'),
        query,
        body: body.map(RawValue::get).unwrap_or_default().as_bytes(),
    };
    operations::answer(registry.backend(), request).map(drop).map_err(|refusal| SeedFault::Refused {
        method,
        path,
        refusal,
    })
}
