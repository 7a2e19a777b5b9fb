//! Reviews as an API server sends them: objects with managed fields, annotations of `kubectl apply`, a status.
//!
//! A name is written as [`NAME`], so that whoever sends many reviews can put another one in its place.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Stands for the object's name in every body.
pub const NAME: &str = "fraud-scorer-00000000";

/// The Namespace of every object.
pub const NAMESPACE: &str = "team-risk";

/// The registered model that every object names: the first entity of an embedded registry.
pub const MODEL_ID: i32 = 1;

/// The version of it: the second.
pub const VERSION_ID: i32 = 2;

/// The entry's id on an object that has one.
const ENTRY_ID: &str = "4711";

/// Bytes that one environment variable adds to an object, with the managed fields that tell who set it.
const BYTES_PER_VARIABLE: usize = 152;

/// How large a review is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Size {
    /// What a short manifest comes to.
    Small,
    /// 4 kB: an object that was applied, and a controller has written to.
    Usual,
    /// 3 MiB: as large as one object can be.
    Large,
    /// 7 MiB: two such objects, and what surrounds them.
    Largest,
}

impl Size {
    /// Environment variables of each object: what makes an object large in real life is a long generated list.
    fn variables(self) -> usize {
        match self {
            Self::Small => 0,
            Self::Usual => 2,
            Self::Large => (3 << 20) / 2 / BYTES_PER_VARIABLE,
            // A little under 7 MiB: the limit of the webhook is 8 MiB, and that of etcd lower.
            Self::Largest => (7 << 20) / 2 / BYTES_PER_VARIABLE,
        }
    }
}

/// A review by the name that figures about it have.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    name: &'static str,
    operation: fn(Size) -> Vec<u8>,
    size: Size,
}

/// The reviews whose way through the program is measured step by step.
pub const CASES: [Case; 6] = [
    Case { name: "small create", operation: create, size: Size::Small },
    Case { name: "small update", operation: update, size: Size::Small },
    Case { name: "4 kB create", operation: create, size: Size::Usual },
    Case { name: "4 kB update", operation: update, size: Size::Usual },
    Case { name: "3 MiB create", operation: create, size: Size::Large },
    Case { name: "3 MiB update", operation: update, size: Size::Large },
];

impl Case {
    /// The review.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        (self.operation)(self.size)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// An UPDATE that scales an object which has its entry: nothing to do, and the chart mostly keeps it away.
#[must_use]
pub fn update(size: Size) -> Vec<u8> {
    let old = object(size, Some(ENTRY_ID), 1);
    review("UPDATE", &object(size, Some(ENTRY_ID), 2), &old)
}

/// A CREATE that is to be registered.
#[must_use]
pub fn create(size: Size) -> Vec<u8> {
    review("CREATE", &object(size, None, 1), &Value::Null)
}

fn review(operation: &str, object: &Value, old: &Value) -> Vec<u8> {
    let kind = json!({"group": "serving.kserve.io", "version": "v1beta1", "kind": "InferenceService"});
    let resource =
        json!({"group": "serving.kserve.io", "version": "v1beta1", "resource": "inferenceservices"});
    let options = format!("{}Options", if operation == "CREATE" { "Create" } else { "Update" });
    let user = json!({
        "username": "system:serviceaccount:argocd:argocd-application-controller",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:argocd", "system:authenticated"],
    });
    let options =
        json!({"kind": options, "apiVersion": "meta.k8s.io/v1", "fieldManager": "argocd-controller"});
    // In the API server's order: those of its own types as they are declared, those of the object by name.
    let members = [
        ("uid", &json!("5f3c6c0e-7a55-4f0a-9d52-6d1c8a3c6a11")),
        ("kind", &kind),
        ("resource", &resource),
        ("requestKind", &kind),
        ("requestResource", &resource),
        ("name", &json!(NAME)),
        ("namespace", &json!(NAMESPACE)),
        ("operation", &json!(operation)),
        ("userInfo", &user),
        ("object", object),
        ("oldObject", old),
        ("dryRun", &json!(false)),
        ("options", &options),
    ];
    let members = members.map(|(key, value)| format!("\"{key}\":{value}")).join(",");
    let request = format!("\"request\":{{{members}}}");
    format!("{{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",{request}}}").into_bytes()
}

fn object(size: Size, entry: Option<&str>, replicas: u32) -> Value {
    let mut labels = json!({
        "app.kubernetes.io/part-of": "fraud",
        "modelregistry.kubeflow.org/registered-model-id": MODEL_ID.to_string(),
        "modelregistry.kubeflow.org/model-version-id": VERSION_ID.to_string(),
    });
    if let Some(entry) = entry {
        labels["modelregistry.kubeflow.org/inference-service-id"] = entry.into();
    }
    let (environment, managed) = variables(size.variables());
    let mut model = json!({
        "modelFormat": {"name": "sklearn"},
        "storageUri": "s3://models/fraud/12",
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
    });
    if !environment.is_empty() {
        model["env"] = environment.into();
    }
    let mut object = json!({
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": NAME, "namespace": NAMESPACE, "labels": labels,
            "managedFields": [{
                "manager": "argocd-controller", "operation": "Apply", "apiVersion": "serving.kserve.io/v1beta1",
                "time": "2026-11-30T09:12:44Z", "fieldsType": "FieldsV1",
                "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:modelregistry.kubeflow.org/registered-model-id": {}}},
                    "f:spec": {"f:predictor": {"f:minReplicas": {}, "f:model": {"f:env": managed, "f:storageUri": {}}}},
                },
            }],
        },
        "spec": {"predictor": {"minReplicas": replicas, "model": model}},
    });
    if entry.is_some() {
        let metadata = &mut object["metadata"];
        metadata["uid"] = "0b1f6a5e-62b4-4a36-8a8b-0f7b9d3c5e21".into();
        metadata["resourceVersion"] = (880_000 + replicas).to_string().into();
        metadata["creationTimestamp"] = "2026-11-30T09:12:44Z".into();
        metadata["finalizers"] = json!(["inferenceservice.finalizers"]);
        let url = format!("http://{NAME}.{NAMESPACE}.example.com");
        object["status"] = json!({
            "url": url,
            "conditions": [{"type": "PredictorReady", "status": "True"}, {"type": "Ready", "status": "True"}],
            "modelStatus": {"transitionStatus": "UpToDate", "states": {"activeModelState": "Loaded"}},
        });
    }
    object
}

/// So many environment variables, and the managed fields of them.
fn variables(count: usize) -> (Vec<Value>, Map<String, Value>) {
    let name = |at: usize| format!("FEATURE_STORE_COLUMN_{at:06}");
    let variables = (0..count).map(|at| json!({"name": name(at), "value": format!("customers.column_{at}")}));
    let key = |at: usize| format!("k:{{\"name\":\"{}\"}}", name(at));
    let managed = (0..count).map(|at| (key(at), json!({".": {}, "f:name": {}, "f:value": {}})));
    (variables.collect(), managed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reviews_are_as_large_as_their_names_say() {
        let tenths_of_mebibytes = |size| update(size).len() * 10 / (1 << 20);
        assert!((3_900..4_300).contains(&update(Size::Usual).len()), "{}", update(Size::Usual).len());
        assert!((29..31).contains(&tenths_of_mebibytes(Size::Large)), "{}", update(Size::Large).len());
        assert!((68..72).contains(&tenths_of_mebibytes(Size::Largest)), "{}", update(Size::Largest).len());
    }
}
