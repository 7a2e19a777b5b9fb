//! Where InferenceServices come from: the API server, or a store in memory.
//!
//! Goes in: which Namespaces. Comes out: pages of a list, the changes since, and single objects as they are now.
//! What stays true: an object counts as absent only when its source says so of that very object
//! ([`Objects::get`]); whatever else goes wrong is an [`ObjectsError`], from which nothing follows.

pub mod cluster;
pub mod memory;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::kserve::InferenceService;
use crate::registration::ObjectName;

/// Which objects are watched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Those of all Namespaces.
    All,
    /// Those of one.
    Namespace(Arc<str>),
}

impl Scope {
    /// Whether an object of this Namespace is among them.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(watched) => **watched == *namespace,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => formatter.write_str("all namespaces"),
            Self::Namespace(namespace) => formatter.write_str(namespace),
        }
    }
}

/// One page of a list.
#[derive(Debug, Clone, Default)]
pub struct ObjectPage {
    /// The objects.
    pub items: Vec<InferenceService>,
    /// Token of the next page; `None` on the last one.
    pub next: Option<String>,
    /// Where a watch has to begin in order to miss nothing.
    pub resource_version: String,
}

/// What a watch says.
#[derive(Debug, Clone)]
pub enum Change {
    /// The object was added or changed.
    Applied(InferenceService),
    /// The object was deleted; this is what it was.
    Deleted(InferenceService),
    /// Nothing has happened up to this resource version.
    Bookmark(String),
}

/// Why a source has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectsError {
    /// What is asked for lies too far back: list again.
    #[error("the API server no longer knows the changes since then")]
    Expired,
    /// The source does not allow it.
    #[error("not allowed: {0}; give the ServiceAccount the rights of the chart's ClusterRole")]
    Forbidden(String),
    /// The object is not as it was taken to be; look again.
    #[error("the object has changed meanwhile")]
    Changed,
    /// It could not be asked, or gave no answer that can be read; ask again later.
    #[error("the API server gave no usable answer: {0}")]
    Unavailable(String),
}

/// Something worth telling a user at the object itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Notice {
    /// What it is about.
    pub reason: NoticeReason,
    /// One sentence.
    pub message: String,
}

/// What a [`Notice`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoticeReason {
    /// The object has its entry.
    Registered,
    /// What the object asks for cannot be had.
    RegistrationFailed,
    /// The registry cannot be asked.
    RegistryUnavailable,
    /// An entry of the object was retired.
    Retired,
    /// The id label names an entry of somebody else.
    ForeignEntry,
}

impl NoticeReason {
    /// The `reason` of the Event.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Registered => "Registered",
            Self::RegistrationFailed => "RegistrationFailed",
            Self::RegistryUnavailable => "RegistryUnavailable",
            Self::Retired => "Retired",
            Self::ForeignEntry => "ForeignEntry",
        }
    }

    /// Whether something is wrong.
    #[must_use]
    pub fn is_warning(self) -> bool {
        !matches!(self, Self::Registered | Self::Retired)
    }
}

/// A source of objects. Every call ends within a time of its own.
pub trait Objects: Send + Sync + 'static {
    /// One page of a list, as things are now; `token` is `next` of the page before.
    fn page<'a>(
        &'a self,
        scope: &'a Scope,
        token: Option<String>,
    ) -> BoxFuture<'a, Result<ObjectPage, ObjectsError>>;

    /// The changes after a resource version. The stream ends when the source ends it.
    fn watch<'a>(
        &'a self,
        scope: &'a Scope,
        after: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Result<Change, ObjectsError>>, ObjectsError>>;

    /// The object as it is now, from no cache. `None` only when the source says `NotFound` of this very object.
    fn get<'a>(
        &'a self,
        name: &'a ObjectName,
    ) -> BoxFuture<'a, Result<Option<InferenceService>, ObjectsError>>;

    /// Takes a finalizer off the object of this uid; it stands at this place of its list.
    fn release_finalizer<'a>(
        &'a self,
        name: &'a ObjectName,
        uid: &'a str,
        finalizer: &'a str,
        at: usize,
    ) -> BoxFuture<'a, Result<(), ObjectsError>>;

    /// Tells the users of the object of this uid; lost when it cannot be told.
    fn tell<'a>(&'a self, name: &'a ObjectName, uid: &'a str, notice: &'a Notice) -> BoxFuture<'a, ()>;
}
