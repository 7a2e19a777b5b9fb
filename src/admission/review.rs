//! A review as it comes over the wire, read as far as a decision needs it.

use serde::de::{IgnoredAny, MapAccess};
use serde_json::value::RawValue;

use crate::kserve::lenient::{Map, Members, Text};
use crate::kserve::{self, InferenceService};

/// The only version of reviews that is served.
pub(super) const API_VERSION: &str = "admission.k8s.io/v1";
/// The kind of a review.
pub(super) const KIND: &str = "AdmissionReview";

/// Characters of a foreign version or kind that an error quotes.
const LONGEST_QUOTE: usize = 60;

/// Why a body is no review that can be answered.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Not JSON.
    #[error("the body is no JSON: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A review of another version, or another kind.
    #[error("only {API_VERSION} {KIND} is served here, not `{api_version}` `{kind}`")]
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

/// A review: what it says it is, and what is asked.
#[derive(Debug, Default)]
pub struct Review {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

/// What is asked. A part that is ill-typed counts as absent: whoever gave a uid gets an answer to it.
#[derive(Debug, Default)]
pub struct Request {
    /// Of the review, not of the object.
    pub uid: String,
    /// Kind of the object.
    pub kind: GroupVersionKind,
    /// Resource that is acted on.
    pub resource: GroupVersionResource,
    /// `status` and the like; empty for the object itself.
    pub sub_resource: Option<String>,
    /// Name of the object; empty while it has none.
    pub name: Option<String>,
    /// Its Namespace.
    pub namespace: Option<String>,
    /// What is done.
    pub operation: Operation,
    /// The object as it will be.
    pub object: Option<InferenceService>,
    /// The object as it is.
    pub old_object: Option<InferenceService>,
    /// Whether nothing may be changed.
    pub dry_run: bool,
}

/// Group, version and kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GroupVersionKind {
    group: String,
    version: String,
    kind: String,
}

/// Group, version and resource.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GroupVersionResource {
    group: String,
    version: String,
    resource: String,
}

/// What is done to the object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Operation {
    /// It is created.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// Something else: CONNECT, or what later versions bring.
    #[default]
    Other,
}

impl Operation {
    fn of(name: &str) -> Self {
        match name {
            "CREATE" => Self::Create,
            "UPDATE" => Self::Update,
            "DELETE" => Self::Delete,
            _ => Self::Other,
        }
    }
}

/// The next value of a map when it is a text, else an empty one.
fn text<'de, A: MapAccess<'de>>(members: &mut A) -> Result<String, A::Error> {
    Ok(members.next_value::<Text>()?.0.unwrap_or_default())
}

impl Members for Review {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        match key {
            "apiVersion" => self.api_version = text(members)?,
            "kind" => self.kind = text(members)?,
            "request" => self.request = Some(members.next_value::<Map<_>>()?.0),
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl Members for Request {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        match key {
            "uid" => self.uid = text(members)?,
            "kind" => self.kind = members.next_value::<Map<_>>()?.0,
            "resource" => self.resource = members.next_value::<Map<_>>()?.0,
            "subResource" => self.sub_resource = members.next_value::<Text>()?.0,
            "name" => self.name = members.next_value::<Text>()?.0,
            "namespace" => self.namespace = members.next_value::<Text>()?.0,
            "operation" => self.operation = Operation::of(&text(members)?),
            "object" => self.object = members.next_value()?,
            "oldObject" => self.old_object = members.next_value()?,
            // What is not clearly a no has no effects.
            "dryRun" => {
                self.dry_run = !matches!(members.next_value::<Box<RawValue>>()?.get(), "false" | "null");
            }
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl Members for GroupVersionKind {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        match key {
            "group" => self.group = text(members)?,
            "version" => self.version = text(members)?,
            "kind" => self.kind = text(members)?,
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl Members for GroupVersionResource {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        match key {
            "group" => self.group = text(members)?,
            "version" => self.version = text(members)?,
            "resource" => self.resource = text(members)?,
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl Review {
    /// Reads a body.
    pub fn read(body: &[u8]) -> Result<Request, ReviewError> {
        let review = serde_json::from_slice::<Map<Self>>(body)?.0;
        if review.api_version != API_VERSION || review.kind != KIND {
            let quoted = |text: String| text.chars().take(LONGEST_QUOTE).collect();
            return Err(ReviewError::OtherKind {
                api_version: quoted(review.api_version),
                kind: quoted(review.kind),
            });
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
