//! What an object asks for, and what comes of it. Plain data.

use super::identity::ObjectName;
use super::ownership::Tie;
use crate::registry::{EntryId, InferenceService, ModelVersionId, RegisteredModelId, Unavailability};

/// What an object asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// Its place.
    pub object: ObjectName,
    /// Its uid, where it is stored already.
    pub uid: Option<String>,
    /// The model that its label names.
    pub model: Option<RegisteredModelId>,
    /// The version that its label names.
    pub version: Option<ModelVersionId>,
    /// The entry that its label names.
    pub labelled: Option<EntryId>,
    /// The serving runtime, for a new entry.
    pub runtime: String,
    /// Whether a model or version that was put away gets no entry.
    pub refuse_archived: bool,
}

/// What may be done to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effects {
    /// An entry that is not there is created, and its environment too.
    Create,
    /// Nothing is: a dry run, or a registrar that only observes.
    ReadOnly,
}

/// An object that has its entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Registered {
    /// The entry, as the registry gave it.
    pub entry: InferenceService,
    /// Where it came from.
    pub origin: Origin,
    /// What ties it to the object.
    pub tie: Tie,
    /// What of it was put away by its owner.
    pub archived: Option<Archived>,
}

/// Where an entry came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The object's id label names it.
    Labelled,
    /// It was found by name.
    Found,
    /// It is new.
    Created,
}

/// What was put away by its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Archived {
    /// The registered model.
    Model(RegisteredModelId),
    /// The version.
    Version(ModelVersionId),
}

/// Why an object has no entry.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotRegistered {
    /// What it asks for cannot be had; asking again will not help.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// What it asks for was put away, and such is refused.
    #[error("what is asked for is archived")]
    Archived(Archived),
    /// The registry could not be asked, or contradicts itself; ask again later.
    #[error(transparent)]
    Unavailable(#[from] Unavailability),
    /// Nothing stands in the way, but nothing may be created now.
    #[error("no entry exists yet, and none may be created by this request")]
    WouldCreate {
        /// What of it was put away by its owner.
        archived: Option<Archived>,
    },
}

/// What is wrong with what an object asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// No such model.
    #[error("registered model {0} does not exist")]
    NoSuchModel(RegisteredModelId),
    /// No such version.
    #[error("model version {0} does not exist")]
    NoSuchVersion(ModelVersionId),
    /// A version of another model.
    #[error("model version {version} belongs to registered model {belongs_to}, not to {wanted}")]
    VersionOfAnotherModel {
        /// The version.
        version: ModelVersionId,
        /// Its model.
        belongs_to: RegisteredModelId,
        /// The model that is served.
        wanted: RegisteredModelId,
    },
    /// The id label names no entry, and there is no model label to register by.
    #[error("inference service {0} does not exist")]
    NoSuchEntry(EntryId),
    /// The id label names an entry of somebody else, and there is no model label to register by.
    #[error("inference service {0} belongs to another object")]
    EntryOfAnother(EntryId),
    /// Neither a model nor an entry is named.
    #[error("neither a registered model nor an inference service is named")]
    NothingNamed,
    /// All names that this object's entry may have are taken.
    #[error("the names {0}, and those with the model behind it, are taken by entries of others")]
    NoNameLeft(String),
    /// The registry cannot store a name that long.
    #[error(
        "the name {0} is too long for the registry, which stores 255 characters with the environment's id"
    )]
    NameTooLong(String),
    /// The registry itself refuses the request.
    #[error("the registry refuses the request: {0}")]
    RefusedByRegistry(String),
}
