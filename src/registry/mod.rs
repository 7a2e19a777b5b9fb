//! Kubeflow Model Registry: its entities, a client, and which of the configured registries an object means.
//!
//! In goes an address and a question; out comes an entity, `None` when the registry is known to have none, or
//! one of four errors. What stays true: nothing is taken for *missing* that the registry did not say itself,
//! in its own JSON, at a time when it was known to be able to read its database.

pub mod client;
pub mod directory;
pub mod embedded;
mod error;
pub mod ids;
mod properties;
mod types;

pub use client::{ApiChoice, ApiVersion, ClientSettings, Connection, RegistryClient};
pub use error::{RegistryError, Unavailability};
pub use ids::{EntryId, EnvironmentId, ModelVersionId, RegisteredModelId};
pub use properties::CustomProperties;
pub use types::{
    DesiredState, EntryPatch, InferenceService, LastKnownState, LifecycleState, ModelVersion, NewEntry,
    NewServeModel, Page, PageRequest, RegisteredModel, ServeModel, ServingEnvironment, SortOrder,
};
