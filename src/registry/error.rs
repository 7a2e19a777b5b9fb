//! What can go wrong with a call to the registry: four cases, told apart by what a caller may conclude.

use std::time::Duration;

/// Why a call to the registry has no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The registry says, in its own JSON, that there is no such entity.
    ///
    /// Of a look-up by id this proves nothing: while its database is down the registry answers 404 to every
    /// GET and PATCH by id. The look-ups of [`RegistryClient`](super::RegistryClient) that give an `Option`
    /// have dealt with that already.
    #[error("the registry has no such entity: {message}")]
    Missing {
        /// The registry's own words.
        message: String,
    },
    /// 409: an entity with this name or external id is there already; look it up and use it.
    #[error("the registry has an entity of that name already: {message}")]
    Conflict {
        /// The registry's own words.
        message: String,
    },
    /// 400 or 422 with the registry's own JSON: the request itself is wrong, and asking again will not help.
    #[error("the registry refuses the request ({status}): {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The registry's own words.
        message: String,
    },
    /// The registry could not be asked, or something else than it answered: nothing is known, ask again later.
    #[error("{0}")]
    Unavailable(#[from] Unavailability),
}

/// Why the registry could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailability {
    /// No connection, or one that broke.
    #[error("cannot be reached ({reason}): check that it runs and that this pod may connect to it")]
    Unreachable {
        /// What the network said.
        reason: String,
    },
    /// No whole answer in time.
    #[error("gave no answer within {} ms: check its load and its database", after.as_millis())]
    TimedOut {
        /// How long it was waited for.
        after: Duration,
    },
    /// Calls to it have timed out again and again, so it is not asked for a while.
    #[error("has stopped answering and is not asked again until a probe succeeds")]
    Suspended,
    /// A status that says nothing about the entity asked for.
    #[error("answered {status}{}: {}", said(excerpt), advice(*status))]
    Status {
        /// The HTTP status.
        status: u16,
        /// The beginning of the body, on one line.
        excerpt: String,
    },
    /// An answer that is not the registry's JSON: a proxy's page, another service, half an answer.
    #[error(
        "answered something that is not its JSON ({reason}): check the URL, its path and any proxy between"
    )]
    NotJson {
        /// What was wrong with it.
        reason: String,
    },
    /// A body larger than any answer of the registry.
    #[error("sent more than {limit} bytes: check the URL and any proxy between")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// Neither API version is served under this URL.
    #[error("serves no Model Registry API under this URL ({status}): check its path")]
    NoApi {
        /// The HTTP status of the last attempt.
        status: u16,
    },
    /// The token file or the CA file cannot be used.
    #[error("cannot be asked: {reason}")]
    Credentials {
        /// Which file, and what is wrong with it.
        reason: String,
    },
}

/// The quoted beginning of a body, or nothing.
fn said(excerpt: &str) -> String {
    if excerpt.is_empty() { String::new() } else { format!(" `{excerpt}`") }
}

/// What to look at, by status.
fn advice(status: u16) -> &'static str {
    match status {
        300..=399 => "redirects are not followed, give the final URL",
        401 | 403 => "check the token and the policies between this pod and the registry",
        429 => "it limits requests, allow this client more",
        _ => "check the registry and what stands in front of it",
    }
}

impl RegistryError {
    /// Whether the same call may succeed later without any change to what it asks.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}
