//! Reviews, written in words.
//!
//! An object is a line of words: `model=7 version=70 id=9 name=r url=U team=x` are its labels (and annotations
//! `url` and `note`), `kserve` its finalizer, `uri=a` its model, `replicas=2` its scaling, `deleting` its
//! deletionTimestamp, `called=N` its name if that is not `scorer`, `unnamed` that it has generateName.

use serde_json::{Value, json};

/// The label that this program writes.
pub(crate) const ID_LABEL: &str = "modelregistry.kubeflow.org/inference-service-id";

/// The Namespace of all objects that say nothing else.
pub(crate) const NAMESPACE: &str = "team-a";

/// A review in the making.
#[derive(Debug, Clone)]
pub(crate) struct Review {
    body: Value,
}

impl Review {
    /// Of an object that is created.
    pub(crate) fn create(words: &str) -> Self {
        Self::of("CREATE", None, Some(words))
    }

    /// Of an object that was `old` and will be `new`.
    pub(crate) fn update(old: &str, new: &str) -> Self {
        let mut review = Self::of("UPDATE", Some(old), Some(new));
        for object in ["object", "oldObject"] {
            review.body["request"][object]["metadata"]["uid"] = json!("0a1b-2c3d");
        }
        review
    }

    /// Of anything that is done.
    pub(crate) fn of(operation: &str, old: Option<&str>, new: Option<&str>) -> Self {
        let name = new.or(old).map(|words| object(words)["metadata"]["name"].clone()).unwrap_or_default();
        Self {
            body: json!({
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "request": {
                    "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
                    "kind": {"group": "serving.kserve.io", "version": "v1beta1", "kind": "InferenceService"},
                    "resource":
                        {"group": "serving.kserve.io", "version": "v1beta1", "resource": "inferenceservices"},
                    "name": name,
                    "namespace": NAMESPACE,
                    "operation": operation,
                    "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
                    "object": new.map(object),
                    "oldObject": old.map(object),
                    "dryRun": false,
                    "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
                },
            }),
        }
    }

    /// The same, with nothing to be done.
    pub(crate) fn dry(self) -> Self {
        self.with("/request/dryRun", json!(true))
    }

    /// The same in another Namespace.
    pub(crate) fn in_namespace(self, namespace: &str) -> Self {
        self.with("/request/namespace", json!(namespace))
    }

    /// The same, with another value in one place.
    pub(crate) fn with(mut self, pointer: &str, value: Value) -> Self {
        let (parent, key) = pointer.rsplit_once('/').expect("a JSON pointer");
        self.body.pointer_mut(parent).expect("a place in a review")[key] = value;
        self
    }

    /// The same, with one part left out.
    pub(crate) fn without(mut self, pointer: &str) -> Self {
        let (parent, key) = pointer.rsplit_once('/').expect("a JSON pointer");
        let parent = self.body.pointer_mut(parent).and_then(Value::as_object_mut);
        parent.expect("a map in a review").remove(key);
        self
    }

    pub(crate) fn body(&self) -> &Value {
        &self.body
    }
}

/// An object as a user writes it, and as the API server fills it in.
pub(crate) fn object(words: &str) -> Value {
    let mut object = json!({
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": "scorer", "namespace": NAMESPACE, "labels": {}, "annotations": {}, "finalizers": [],
        },
        "spec": {"predictor": {"model": {"modelFormat": {"name": "sklearn"}, "storageUri": "s3://a"}}},
    });
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let metadata = &mut object["metadata"];
        match key {
            "called" => metadata["name"] = json!(value),
            "unnamed" => {
                metadata["name"] = Value::Null;
                metadata["generateName"] = json!("scorer-");
            }
            "deleting" => metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            "kserve" => metadata["finalizers"] = json!(["inferenceservice.finalizers"]),
            "url" => metadata["annotations"]["modelregistry.kubeflow.org/url"] = json!(value),
            "note" => metadata["annotations"]["note"] = json!(value),
            "uri" => object["spec"]["predictor"]["model"]["storageUri"] = json!(value),
            "replicas" => object["spec"]["predictor"]["minReplicas"] = json!(value),
            "model" => metadata["labels"]["modelregistry.kubeflow.org/registered-model-id"] = json!(value),
            "version" => metadata["labels"]["modelregistry.kubeflow.org/model-version-id"] = json!(value),
            "id" => metadata["labels"][ID_LABEL] = json!(value),
            "name" => metadata["labels"]["modelregistry.kubeflow.org/name"] = json!(value),
            label => metadata["labels"][label] = json!(value),
        }
    }
    object
}
