//! A review as it comes over the wire, read as far as a decision needs it.

use serde::Deserialize;

use crate::kserve::{self, InferenceService};

/// The only version of reviews that is served.
pub(super) const API_VERSION: &str = "admission.k8s.io/v1";
/// The kind of a review.
pub(super) const KIND: &str = "AdmissionReview";

/// Why a body is no review that can be answered.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Not JSON, or not in the form of a review.
    #[error("the body is no AdmissionReview: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A review of another version, or another kind.
    #[error("only {API_VERSION} {KIND} is served here, not {api_version} {kind}")]
    OtherKind {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// A review without a request, or a request without a uid: there is nothing to answer to.
    #[error("the review has no request with a uid")]
    NoRequest,
}

/// A review.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Request>,
}

/// What is asked.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Of the review, not of the object.
    #[serde(default)]
    pub uid: String,
    /// Kind of the object.
    #[serde(default)]
    pub kind: GroupVersionKind,
    /// Resource that is acted on.
    #[serde(default)]
    pub resource: GroupVersionResource,
    /// `status` and the like; empty for the object itself.
    #[serde(default)]
    pub sub_resource: Option<String>,
    /// Name of the object; empty while it has none.
    #[serde(default)]
    pub name: Option<String>,
    /// Its Namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// What is done.
    #[serde(default)]
    pub operation: Operation,
    /// The object as it will be.
    #[serde(default)]
    pub object: Option<InferenceService>,
    /// The object as it is.
    #[serde(default)]
    pub old_object: Option<InferenceService>,
    /// Whether nothing may be changed.
    #[serde(default)]
    pub dry_run: Option<bool>,
}

/// Group, version and kind.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub struct GroupVersionKind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
}

/// Group, version and resource.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub struct GroupVersionResource {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    resource: String,
}

/// What is done to the object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is created.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// Something else: CONNECT, or what later versions bring.
    #[default]
    #[serde(other)]
    Other,
}

impl Review {
    /// Reads a body.
    pub fn read(body: &[u8]) -> Result<Request, ReviewError> {
        let review: Self = serde_json::from_slice(body)?;
        if review.api_version != API_VERSION || review.kind != KIND {
            return Err(ReviewError::OtherKind { api_version: review.api_version, kind: review.kind });
        }
        review.request.filter(|request| !request.uid.is_empty()).ok_or(ReviewError::NoRequest)
    }
}

impl Request {
    /// Whether it is about an InferenceService itself, in the version this program knows.
    #[must_use]
    pub fn is_for_inference_service(&self) -> bool {
        self.kind.group == kserve::GROUP
            && self.kind.version == kserve::VERSION
            && self.kind.kind == kserve::KIND
            && self.resource.group == kserve::GROUP
            && self.resource.version == kserve::VERSION
            && self.resource.resource == kserve::RESOURCE
            && self.sub_resource.as_deref().unwrap_or_default().is_empty()
    }

    /// Name of the object, where it has one.
    #[must_use]
    pub fn object_name(&self) -> Option<&str> {
        let of_object = self.object.as_ref().and_then(|object| object.metadata.name.as_deref());
        of_object.or(self.name.as_deref()).filter(|name| !name.is_empty())
    }

    /// Its Namespace. Only the request knows it for sure: the object's own may still be empty.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }
}
