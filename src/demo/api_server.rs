//! An API server in memory: it calls the webhook as a real one does, and stores what comes of it.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::kserve::{GROUP, KIND, RESOURCE, VERSION};
use crate::registration::ObjectName;
use crate::syncer::objects::memory::MemoryObjects;

/// What a user gets who applies an object.
pub(super) enum Applied {
    /// It is stored.
    Stored {
        /// As it is now.
        object: Value,
        /// `created` or `configured`.
        how: &'static str,
        /// What the user is warned of.
        warnings: Vec<String>,
    },
    /// The webhook refused it.
    Refused {
        /// Why.
        message: String,
    },
}

/// Why an object could not be applied at all.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApplyError {
    /// The webhook could not be called.
    #[error("the webhook could not be called: {0}")]
    Call(#[from] reqwest::Error),
    /// The webhook's answer is not what an API server understands.
    #[error("the webhook's answer cannot be used: {0}")]
    Answer(String),
    /// The object lacks a name.
    #[error("an InferenceService of the manifest has no name")]
    NoName,
}

/// The answer of a webhook, as an API server reads it.
#[derive(Deserialize)]
struct Review {
    response: Response,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: String,
    allowed: bool,
    #[serde(default)]
    status: Status,
    patch: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    message: String,
}

/// The API server.
pub(super) struct ApiServer {
    objects: MemoryObjects,
    webhook: Url,
    client: reqwest::Client,
    reviews: AtomicU64,
}

impl ApiServer {
    /// One whose only webhook is at this URL and has a certificate of this CA, in PEM.
    pub(super) fn new(objects: MemoryObjects, webhook: Url, ca: &str) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([reqwest::Certificate::from_pem(ca.as_bytes())?])
            .build()?;
        Ok(Self { objects, webhook, client, reviews: AtomicU64::new(0) })
    }

    /// Applies an object: review, patch, store.
    pub(super) async fn apply(&self, object: &Value) -> Result<Applied, ApplyError> {
        let name = name_of(object).ok_or(ApplyError::NoName)?;
        let old = self.objects.object(&name);
        let (operation, how) = if old.is_some() { ("UPDATE", "configured") } else { ("CREATE", "created") };
        let uid = format!("review-{}", self.reviews.fetch_add(1, Ordering::Relaxed));
        let review = review(&uid, operation, &name, object, old.as_ref());
        let response = self.call(&review).await?;
        if response.uid != uid {
            return Err(ApplyError::Answer("it has another uid than the review".into()));
        }
        if !response.allowed {
            return Ok(Applied::Refused { message: response.status.message });
        }
        let mut object = object.clone();
        if let Some(patch) = response.patch {
            apply_patch(&mut object, &patch).map_err(ApplyError::Answer)?;
        }
        let object = self.objects.apply(object).ok_or(ApplyError::NoName)?;
        Ok(Applied::Stored { object, how, warnings: response.warnings })
    }

    /// Deletes an object; says whether there was one.
    pub(super) fn delete(&self, name: &ObjectName) -> bool {
        self.objects.delete(name)
    }

    async fn call(&self, review: &Value) -> Result<Response, ApplyError> {
        let request = self.client.post(self.webhook.clone());
        let request = request.header(http::header::CONTENT_TYPE, "application/json").body(review.to_string());
        let answer = request.send().await?.error_for_status()?.bytes().await?;
        let review: Review =
            serde_json::from_slice(&answer).map_err(|error| ApplyError::Answer(error.to_string()))?;
        Ok(review.response)
    }
}

/// The place of an object.
pub(super) fn name_of(object: &Value) -> Option<ObjectName> {
    let text = |key: &str| object["metadata"][key].as_str();
    Some(ObjectName::new(text("namespace")?, text("name")?))
}

/// The review that an API server sends.
pub(super) fn review(
    uid: &str,
    operation: &str,
    name: &ObjectName,
    object: &Value,
    old: Option<&Value>,
) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": GROUP, "version": VERSION, "kind": KIND},
            "resource": {"group": GROUP, "version": VERSION, "resource": RESOURCE},
            "operation": operation,
            "namespace": name.namespace,
            "name": name.name,
            "object": object,
            "oldObject": old,
            "dryRun": false,
        },
    })
}

fn apply_patch(object: &mut Value, patch: &str) -> Result<(), String> {
    let text = STANDARD.decode(patch).map_err(|error| error.to_string())?;
    let patch: json_patch::Patch = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    json_patch::patch(object, &patch).map_err(|error| error.to_string())
}
