//! The answer as it goes over the wire.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use json_patch::{AddOperation, Patch, PatchOperation};
use jsonptr::PointerBuf;
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{Answer, Verdict};
use super::review::{API_VERSION, KIND, Request};
use crate::kserve::LabelKeys;

/// The body of the answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    /// Both or neither.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    patch: Option<EncodedPatch>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "AuditAnnotations::is_empty")]
    audit_annotations: AuditAnnotations<'a>,
}

#[derive(Serialize)]
struct Status<'a> {
    code: u16,
    message: &'a str,
}

/// A JSON Patch: base64 of its text, as the API server wants it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EncodedPatch {
    patch_type: &'static str,
    patch: String,
}

/// The API server puts the webhook's name in front of each key.
#[derive(Serialize)]
struct AuditAnnotations<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    registry: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    would: Option<&'a str>,
}

impl AuditAnnotations<'_> {
    fn is_empty(&self) -> bool {
        self.entry.is_none() && self.registry.is_none() && self.would.is_none()
    }
}

/// Writes the answer to a request.
///
/// # Panics
/// Never: text always fits into JSON.
#[must_use]
pub fn respond(request: &Request, answer: &Answer, keys: &LabelKeys) -> Vec<u8> {
    let status = match &answer.verdict {
        Verdict::Allow => None,
        Verdict::Deny { code, message } => Some(Status { code: *code, message }),
    };
    let patch = answer.label.as_ref().filter(|_| answer.allowed()).map(|id| {
        let has_labels = request.object.as_ref().is_some_and(|object| object.metadata.labels.is_map());
        let patch = label_patch(&keys.inference_service_id, id, has_labels);
        let text = serde_json::to_vec(&patch).expect("a patch of text always fits into JSON");
        EncodedPatch { patch_type: "JSONPatch", patch: STANDARD.encode(text) }
    });
    let body = Body {
        api_version: API_VERSION,
        kind: KIND,
        response: Response {
            uid: &request.uid,
            allowed: answer.allowed(),
            status,
            patch,
            warnings: &answer.warnings,
            audit_annotations: AuditAnnotations {
                entry: answer.entry.map(|id| id.to_string()),
                registry: answer.registry.as_deref(),
                would: answer.would.as_deref(),
            },
        },
    };
    serde_json::to_vec(&body).expect("an answer of text always fits into JSON")
}

/// Adds or replaces one label. A patch that does not apply would reject the object, even under failurePolicy
/// Ignore, so the map is created where there is none.
fn label_patch(key: &str, value: &str, has_labels: bool) -> Patch {
    let (path, value) = if has_labels {
        (PointerBuf::from_tokens(["metadata", "labels", key]), Value::from(value))
    } else {
        (PointerBuf::from_tokens(["metadata", "labels"]), json!({ key: value }))
    };
    Patch(vec![PatchOperation::Add(AddOperation { path, value })])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::decide::Row;

    fn request(object: &Value) -> Request {
        Request {
            uid: "u-1".into(),
            object: Some(serde_json::from_value(object.clone()).unwrap()),
            ..Request::default()
        }
    }

    fn answered(object: &Value, answer: &Answer) -> Value {
        serde_json::from_slice(&respond(&request(object), answer, &LabelKeys::default())).unwrap()
    }

    /// The object after the patch of an answer, as the API server would have it.
    fn patched(object: &Value) -> Value {
        let answer = Answer { label: Some("7".into()), ..Answer::untouched(Row::CreateWithModel) };
        let body = answered(object, &answer);
        assert_eq!(body["response"]["patchType"], "JSONPatch");
        let text = STANDARD
            .decode(body["response"]["patch"].as_str().expect("base64, not a list of numbers"))
            .unwrap();
        let patch: Patch = serde_json::from_slice(&text).unwrap();
        let mut object = object.clone();
        json_patch::patch(&mut object, &patch).expect("a patch always applies");
        object
    }

    #[test]
    fn the_label_is_added_whatever_labels_there_are() {
        let key = LabelKeys::default().inference_service_id;
        for labels in
            [json!({"labels": {"a": "b"}}), json!({"labels": {}}), json!({"labels": null}), json!({})]
        {
            let mut want = json!({"metadata": labels, "spec": {}});
            if !want["metadata"]["labels"].is_object() {
                want["metadata"]["labels"] = json!({});
            }
            want["metadata"]["labels"][&key] = json!("7");
            assert_eq!(patched(&json!({"metadata": labels, "spec": {}})), want);
        }
    }

    #[test]
    fn a_label_that_is_there_is_replaced() {
        let key = LabelKeys::default().inference_service_id;
        let object = json!({"metadata": {"labels": {&key: "stale", "a": "b"}}});
        assert_eq!(patched(&object), json!({"metadata": {"labels": {&key: "7", "a": "b"}}}));
    }

    #[test]
    fn a_refusal_has_a_code_and_a_message_and_no_patch() {
        let verdict = Verdict::Deny { code: 422, message: "no".into() };
        let answer = Answer { verdict, label: Some("7".into()), ..Answer::untouched(Row::CreateWithModel) };
        let body = answered(&json!({}), &answer);
        assert_eq!(body["apiVersion"], "admission.k8s.io/v1");
        let want = json!({"uid": "u-1", "allowed": false, "status": {"code": 422, "message": "no"}});
        assert_eq!(body["response"], want);
    }

    #[test]
    fn warnings_and_audit_annotations_are_there_when_there_is_something_to_say() {
        let answer = Answer {
            warnings: vec!["careful".into()],
            entry: "7".parse().ok(),
            registry: Some("r".into()),
            ..Answer::untouched(Row::CreateWithModel)
        };
        let want = json!({
            "uid": "u-1", "allowed": true, "warnings": ["careful"],
            "auditAnnotations": {"entry": "7", "registry": "r"},
        });
        assert_eq!(answered(&json!({}), &answer)["response"], want);
        let untouched = answered(&json!({}), &Answer::untouched(Row::Else));
        assert_eq!(untouched["response"], json!({"uid": "u-1", "allowed": true}));
    }
}
