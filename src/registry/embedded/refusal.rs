//! Why a request is refused: a reason goes in, a status and the registry's body `{code, message}` come out.
//!
//! What stays true: each refusal has exactly one status, and the words in `code` are those of the real registry.

use http::StatusCode;
use serde::Serialize;

/// Why the embedded registry does not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The request cannot be read, or asks for something that is not offered.
    #[error("{0}")]
    BadRequest(String),
    /// A required field is missing or empty.
    #[error("{0}")]
    Incomplete(String),
    /// Nothing, or more than one thing, is there by that id or name.
    #[error("{0}")]
    NotFound(String),
    /// The name or the external id is taken.
    #[error("{0}")]
    Conflict(String),
    /// The database would not take it, or cannot be reached.
    #[error("{0}")]
    Internal(String),
    /// No such path under the API.
    #[error("404 page not found")]
    NoSuchPath,
    /// The path is there, but not with this method.
    #[error("method not allowed")]
    MethodNotAllowed,
}

impl Refusal {
    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::Incomplete(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NotFound(_) | Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        }
    }

    /// The word in the body's `code`; the registry calls a 422 a bad request too.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::BadRequest(_) | Self::Incomplete(_) => "Bad Request",
            Self::NotFound(_) | Self::NoSuchPath => "Not Found",
            Self::Conflict(_) => "Conflict",
            Self::Internal(_) => "Internal Server Error",
            Self::MethodNotAllowed => "Method Not Allowed",
        }
    }

    /// What a request gets while the database is down.
    pub(super) fn database_down() -> Self {
        Self::Internal("the database cannot be reached".to_owned())
    }
}

/// The body that goes with every refusal the registry itself makes.
#[derive(Debug, Serialize)]
pub(super) struct RefusalBody<'a> {
    pub(super) code: &'a str,
    pub(super) message: &'a str,
}
