//! Paths: what follows the API's version goes in, what it names comes out.
//!
//! What stays true: a path with a trailing slash names nothing.

use super::schema::{Kind, MODEL_ARTIFACT};

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource<'a> {
    /// All of a kind.
    All(Target),
    /// The one that the query names.
    Find(Target),
    /// The one with that id.
    One(Target, &'a str),
    /// Those of a kind under the parent with that id.
    Under(Kind, &'a str),
    /// The model of an inference service.
    ModelOf(&'a str),
    /// The version of an inference service.
    VersionOf(&'a str),
}

/// A kind, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) kind: Kind,
    /// Some paths are only for one type of artifact.
    pub(super) artifact_type: Option<&'static str>,
}

impl From<Kind> for Target {
    fn from(kind: Kind) -> Self {
        Self { kind, artifact_type: None }
    }
}

impl<'a> Resource<'a> {
    /// Reads a path, without its leading slash.
    pub(super) fn parse(path: &'a str) -> Option<Self> {
        let mut segments = path.split('/');
        let (first, id, under) = (segments.next()?, segments.next(), segments.next());
        if segments.next().is_some() || id == Some("") {
            return None;
        }
        match (id, under) {
            (None, _) => plural(first).map(Self::All).or_else(|| singular(first).map(Self::Find)),
            (Some(id), None) => plural(first).map(|target| Self::One(target, id)),
            (Some(id), Some(under)) => Some(match (first, under) {
                ("serving_environments", "inference_services") => Self::Under(Kind::Service, id),
                ("registered_models", "versions") => Self::Under(Kind::Version, id),
                ("model_versions", "artifacts") => Self::Under(Kind::Artifact, id),
                ("inference_services", "serves") => Self::Under(Kind::Serve, id),
                ("inference_services", "model") => Self::ModelOf(id),
                ("inference_services", "version") => Self::VersionOf(id),
                _ => return None,
            }),
        }
    }
}

/// The kind that a collection's name stands for. Serve models have no collection of their own.
fn plural(name: &str) -> Option<Target> {
    Some(match name {
        "serving_environments" => Kind::Environment.into(),
        "registered_models" => Kind::Model.into(),
        "model_versions" => Kind::Version.into(),
        "inference_services" => Kind::Service.into(),
        "artifacts" => Kind::Artifact.into(),
        "model_artifacts" => Target { kind: Kind::Artifact, artifact_type: Some(MODEL_ARTIFACT) },
        _ => return None,
    })
}

/// The path that finds one of a kind is the collection's name in the singular.
fn singular(name: &str) -> Option<Target> {
    plural(&format!("{name}s"))
}
