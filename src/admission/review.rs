//! A review as it comes over the wire, read as far as a decision needs it.

use std::borrow::Cow;

use serde::de::{IgnoredAny, MapAccess};
use serde_json::value::RawValue;

use super::decide::our_labels_decide;
use crate::kserve::lenient::{Borrowed, Map, Members, Text};
use crate::kserve::{self, InferenceService, LabelKeys, OursAlone};

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
    /// Not even UTF-8, which JSON is.
    #[error("the body is no JSON: {0}")]
    NotText(#[from] std::str::Utf8Error),
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

/// What is asked. A part that is ill-typed counts as absent: whoever gave a uid gets an answer to it.
#[derive(Debug, Default)]
pub struct Request {
    /// Of the review, not of the object.
    pub uid: String,
    pub(super) kind: Known,
    pub(super) resource: Known,
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

/// Group, version and kind, or resource: whether each is the one this program knows.
#[derive(Debug, Default)]
pub(super) struct Known {
    group: bool,
    version: bool,
    name: bool,
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

/// A review while it is read.
#[derive(Default)]
struct Reading<const WHOLE: bool> {
    api_version: String,
    kind: String,
    request: Option<RequestReading<WHOLE>>,
}

/// Its request. Unless the `WHOLE` of its objects is asked for, of those that an update is about no more is read than
/// [`OursAlone`]: a fraction of the work.
#[derive(Default)]
struct RequestReading<const WHOLE: bool> {
    request: Request,
    /// Whether the rest of an object was left unread.
    ours_alone: bool,
}

impl<const WHOLE: bool> RequestReading<WHOLE> {
    fn object<'de, A: MapAccess<'de>>(
        &mut self,
        members: &mut A,
    ) -> Result<Option<InferenceService>, A::Error> {
        // The API server writes the operation before the objects; where it comes later they are read in two steps.
        if WHOLE || self.request.operation == Operation::Create {
            return members.next_value();
        }
        self.ours_alone = true;
        Ok(members.next_value::<Option<OursAlone>>()?.map(Into::into))
    }
}

/// The next value of a map when it is a text, else an empty one.
fn text<'de, A: MapAccess<'de>>(members: &mut A) -> Result<Cow<'de, str>, A::Error> {
    Ok(members.next_value::<Borrowed<'de>>()?.0.unwrap_or_default())
}

impl<const WHOLE: bool> Members for Reading<WHOLE> {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        match key {
            "apiVersion" => self.api_version = text(members)?.into_owned(),
            "kind" => self.kind = text(members)?.into_owned(),
            "request" => self.request = Some(members.next_value::<Map<_>>()?.0),
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl<const WHOLE: bool> Members for RequestReading<WHOLE> {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        let request = &mut self.request;
        match key {
            "uid" => request.uid = text(members)?.into_owned(),
            "kind" => request.kind = members.next_value::<Map<_>>()?.0,
            "resource" => request.resource = members.next_value::<Map<_>>()?.0,
            "subResource" => request.sub_resource = members.next_value::<Text>()?.0,
            "name" => request.name = members.next_value::<Text>()?.0,
            "namespace" => request.namespace = members.next_value::<Text>()?.0,
            "operation" => request.operation = Operation::of(&text(members)?),
            "object" => self.request.object = self.object(members)?,
            "oldObject" => self.request.old_object = self.object(members)?,
            // What is not clearly a no has no effects.
            "dryRun" => {
                request.dry_run = !matches!(members.next_value::<&RawValue>()?.get(), "false" | "null");
            }
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl Members for Known {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        match key {
            "group" => self.group = text(members)? == kserve::GROUP,
            "version" => self.version = text(members)? == kserve::VERSION,
            "kind" => self.name = text(members)? == kserve::KIND,
            "resource" => self.name = text(members)? == kserve::RESOURCE,
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl Known {
    fn is_known(&self) -> bool {
        self.group && self.version && self.name
    }
}

/// Reads a body and what it asks.
fn read<const WHOLE: bool>(body: &str) -> Result<RequestReading<WHOLE>, ReviewError> {
    let review = serde_json::from_str::<Map<Reading<WHOLE>>>(body)?.0;
    if review.api_version != API_VERSION || review.kind != KIND {
        let quoted = |text: String| text.chars().take(LONGEST_QUOTE).collect();
        return Err(ReviewError::OtherKind {
            api_version: quoted(review.api_version),
            kind: quoted(review.kind),
        });
    }
    review.request.filter(|reading| !reading.request.uid.is_empty()).ok_or(ReviewError::NoRequest)
}

impl Request {
    /// Reads the body of a review, as far as the decision needs it: of an update our labels first, and the rest of the
    /// objects only when the labels leave something open, which they rarely do.
    pub fn read(body: &[u8], keys: &LabelKeys) -> Result<Self, ReviewError> {
        let body = std::str::from_utf8(body)?;
        let reading = read::<false>(body)?;
        if reading.ours_alone && !our_labels_decide(&reading.request, keys) {
            return Ok(read::<true>(body)?.request);
        }
        Ok(reading.request)
    }

    /// Whether it is about an InferenceService itself, in the version this program knows.
    #[must_use]
    pub fn is_for_inference_service(&self) -> bool {
        self.kind.is_known()
            && self.resource.is_known()
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
