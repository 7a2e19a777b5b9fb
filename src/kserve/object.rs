//! The object itself: metadata, and which model its predictor names.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess};

use super::fingerprint::Fingerprint;
use super::labels::{may_be_our_annotation, may_be_our_label};
use super::lenient::{Borrowed, Map, Members, Text, TextList};
use super::status::Status;

/// Fields of a predictor that name a framework; KServe's own defaulter turns each into `model`.
const FRAMEWORKS: [&str; 10] = [
    "sklearn",
    "xgboost",
    "tensorflow",
    "pytorch",
    "triton",
    "onnx",
    "huggingface",
    "pmml",
    "lightgbm",
    "paddle",
];

/// Runtime of a predictor that brings its own containers, or of one that says nothing.
const CUSTOM_RUNTIME: &str = "custom";

/// Bytes that three of our labels take, the usual number of them, under Kubeflow's prefix.
const KEPT_TEXT_BYTES: usize = 160;

/// What is read of an InferenceService.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InferenceService {
    /// From `metadata`.
    pub metadata: Metadata,
    /// From `spec.predictor`.
    pub predictor: Predictor,
    /// From `status`.
    pub status: Status,
}

/// What is read of the metadata.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// Absent while the API server has not made one from `generateName`.
    pub name: Option<String>,
    /// Its Namespace.
    pub namespace: Option<String>,
    /// Absent in a CREATE review: the API server sets it later.
    pub uid: Option<String>,
    /// Version of the object, for a watch.
    pub resource_version: Option<String>,
    /// Whether `deletionTimestamp` is set.
    pub being_deleted: bool,
    /// Labels.
    pub labels: Texts,
    /// Annotations.
    pub annotations: Texts,
    /// Finalizers.
    pub finalizers: Vec<String>,
}

/// A map of labels or annotations, of which only what may be ours is kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Texts {
    /// Keys and values that are kept, one behind the other: one piece of memory for all.
    kept: String,
    /// Where in it they end.
    ends: Vec<[usize; 2]>,
    all: Fingerprint,
    is_map: bool,
}

impl Texts {
    /// The value under a key. A value that is no text reads as an empty one: present, and no id.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut begin = 0;
        self.ends.iter().find_map(|[key_end, value_end]| {
            let kept = &self.kept[begin..*key_end];
            begin = *value_end;
            (kept == key).then(|| &self.kept[*key_end..*value_end])
        })
    }

    /// Whether both maps of labels hold the same, also in what was not kept. Annotations that are not ours are
    /// not even looked at.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        self.all == other.all
    }

    /// Whether there is a map, so that a JSON Patch can add a member to it.
    #[must_use]
    pub fn is_map(&self) -> bool {
        self.is_map
    }

    fn of_a_map() -> Self {
        Self { is_map: true, ..Self::default() }
    }

    fn keep<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<&str, A::Error> {
        let value = members.next_value::<Borrowed<'de>>()?.0.unwrap_or_default();
        if self.ends.is_empty() {
            self.kept.reserve(KEPT_TEXT_BYTES);
        }
        self.kept.push_str(key);
        let key_end = self.kept.len();
        self.kept.push_str(&value);
        self.ends.push([key_end, self.kept.len()]);
        Ok(&self.kept[key_end..])
    }

    fn keep_if<'de, A>(&mut self, is_ours: bool, key: &str, members: &mut A) -> Result<(), A::Error>
    where
        A: MapAccess<'de>,
    {
        if is_ours { self.keep(key, members).map(drop) } else { members.next_value::<IgnoredAny>().map(drop) }
    }
}

/// Which model the predictor names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Predictor {
    runtime: Option<String>,
    format: Option<String>,
    framework: Option<&'static str>,
    model: Fingerprint,
}

impl Predictor {
    /// `model.runtime`, else `model.modelFormat.name`, else the framework field's name, else `custom`.
    #[must_use]
    pub fn runtime(&self) -> &str {
        let named = [self.runtime.as_deref(), self.format.as_deref(), self.framework];
        named.into_iter().flatten().find(|name| !name.is_empty()).unwrap_or(CUSTOM_RUNTIME)
    }

    /// Whether both name the same model, in the same way: if not, KServe starts the pods anew.
    #[must_use]
    pub fn same_model_as(&self, other: &Self) -> bool {
        self.model == other.model
    }
}

impl<'de> Deserialize<'de> for InferenceService {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(|map| map.0)
    }
}

impl Members for InferenceService {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        match key {
            "metadata" => self.metadata = members.next_value::<Map<_>>()?.0,
            "spec" => self.predictor = members.next_value::<Map<Spec>>()?.0.0,
            "status" => self.status = members.next_value::<Map<_>>()?.0,
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

/// An object of which nothing is read but its name, our labels and our annotation, and whether it is being deleted: a
/// fraction of the work. All else looks absent.
#[derive(Default)]
pub(crate) struct OursAlone(InferenceService);

impl From<OursAlone> for InferenceService {
    fn from(read: OursAlone) -> Self {
        read.0
    }
}

impl<'de> Deserialize<'de> for OursAlone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(|map| map.0)
    }
}

impl Members for OursAlone {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        match key {
            "metadata" => self.0.metadata = members.next_value::<Map<OursInMetadata>>()?.0.0,
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

/// The metadata of such an object.
#[derive(Default)]
struct OursInMetadata(Metadata);

impl Members for OursInMetadata {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        match key {
            "labels" => self.0.labels = members.next_value::<Map<OurLabels>>()?.0.0,
            "name" | "deletionTimestamp" | "annotations" => self.0.take(key, members)?,
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl Members for Metadata {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        let text = |text: Text| text.0.filter(|text| !text.is_empty());
        match key {
            "name" => self.name = text(members.next_value()?),
            "namespace" => self.namespace = text(members.next_value()?),
            "uid" => self.uid = text(members.next_value()?),
            "resourceVersion" => self.resource_version = text(members.next_value()?),
            "deletionTimestamp" => self.being_deleted = text(members.next_value()?).is_some(),
            "labels" => self.labels = members.next_value::<Map<Labels>>()?.0.0,
            "annotations" => self.annotations = members.next_value::<Map<Annotations>>()?.0.0,
            "finalizers" => self.finalizers = members.next_value::<TextList>()?.0,
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

/// Texts of which the labels that may be ours are kept.
#[derive(Default)]
struct Labels(Texts);

impl Members for Labels {
    fn map() -> Self {
        Self(Texts::of_a_map())
    }

    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        let value = if may_be_our_label(key) {
            Fingerprint::of(self.0.keep(key, members)?)
        } else {
            members.next_value()?
        };
        self.0.all.add_member(key, value);
        Ok(())
    }
}

/// Texts of which the labels that may be ours are kept, and nothing of the others.
#[derive(Default)]
struct OurLabels(Texts);

impl Members for OurLabels {
    fn map() -> Self {
        Self(Texts::of_a_map())
    }

    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        self.0.keep_if(may_be_our_label(key), key, members)
    }
}

/// Texts of which the annotations that may be ours are kept.
#[derive(Default)]
struct Annotations(Texts);

impl Members for Annotations {
    fn map() -> Self {
        Self(Texts::of_a_map())
    }

    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        self.0.keep_if(may_be_our_annotation(key), key, members)
    }
}

#[derive(Default)]
struct Spec(Predictor);

impl Members for Spec {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        match key {
            "predictor" => self.0 = members.next_value::<Map<_>>()?.0,
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl Members for Predictor {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        if key == "model" {
            let model = members.next_value::<Map<Model>>()?.0;
            self.model.add_member(key, model.all);
            self.runtime = model.runtime;
            self.format = model.format;
        } else if let Some(framework) = FRAMEWORKS.iter().find(|framework| **framework == key) {
            let value = members.next_value::<Fingerprint>()?;
            self.model.add_member(key, value);
            self.framework = Some(framework);
        } else if matches!(key, "containers" | "storageUris") {
            let value = members.next_value::<Fingerprint>()?;
            self.model.add_member(key, value);
        } else {
            members.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// `predictor.model`.
#[derive(Default)]
struct Model {
    runtime: Option<String>,
    format: Option<String>,
    all: Fingerprint,
}

impl Members for Model {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        let value = match key {
            "runtime" => {
                self.runtime = members.next_value::<Text>()?.0;
                Fingerprint::of(self.runtime.as_deref().unwrap_or_default())
            }
            "modelFormat" => {
                let format = members.next_value::<Map<Format>>()?.0;
                self.format = format.name;
                format.all
            }
            _ => members.next_value()?,
        };
        self.all.add_member(key, value);
        Ok(())
    }
}

/// `predictor.model.modelFormat`.
#[derive(Default)]
struct Format {
    name: Option<String>,
    all: Fingerprint,
}

impl Members for Format {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        let value = if key == "name" {
            self.name = members.next_value::<Text>()?.0;
            Fingerprint::of(self.name.as_deref().unwrap_or_default())
        } else {
            members.next_value()?
        };
        self.all.add_member(key, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::kserve::LabelKeys;

    fn read(object: &Value) -> InferenceService {
        serde_json::from_str(&object.to_string()).expect("any JSON can be read")
    }

    fn with_predictor(predictor: &Value) -> InferenceService {
        read(&json!({"spec": {"predictor": predictor}}))
    }

    #[rstest]
    #[case::runtime_first(json!({"model": {"runtime": "triton-23", "modelFormat": {"name": "onnx"}}}), "triton-23")]
    #[case::then_the_format(json!({"model": {"modelFormat": {"name": "onnx", "version": "1"}}}), "onnx")]
    #[case::then_the_framework(json!({"minReplicas": 1, "sklearn": {"storageUri": "s3://m"}}), "sklearn")]
    #[case::else_custom(json!({"containers": [{"name": "kserve-container"}]}), "custom")]
    #[case::nothing_said(json!({}), "custom")]
    #[case::ill_typed_model(json!({"model": []}), "custom")]
    #[case::ill_typed_names(json!({"model": {"runtime": 5, "modelFormat": "onnx"}}), "custom")]
    #[case::empty_runtime(json!({"model": {"runtime": "", "modelFormat": {"name": "onnx"}}}), "onnx")]
    #[case::empty_names(json!({"model": {"runtime": "", "modelFormat": {"name": ""}}}), "custom")]
    fn the_runtime_is_what_the_predictor_names(#[case] predictor: Value, #[case] runtime: &str) {
        assert_eq!(with_predictor(&predictor).predictor.runtime(), runtime);
    }

    #[rstest]
    #[case::scaling(json!({"minReplicas": 3, "model": {"storageUri": "s3://a"}}), true)]
    #[case::key_order(json!({"model": {"storageUri": "s3://a"}, "minReplicas": 1}), true)]
    #[case::another_uri(json!({"minReplicas": 1, "model": {"storageUri": "s3://b"}}), false)]
    #[case::another_runtime(json!({"minReplicas": 1, "model": {"storageUri": "s3://a", "runtime": "x"}}), false)]
    #[case::a_container(json!({"minReplicas": 1, "containers": [{"image": "x"}]}), false)]
    fn a_change_of_the_model_is_told_from_other_changes(#[case] predictor: Value, #[case] same: bool) {
        let before = with_predictor(&json!({"minReplicas": 1, "model": {"storageUri": "s3://a"}}));
        assert_eq!(with_predictor(&predictor).predictor.same_model_as(&before.predictor), same);
    }

    #[test]
    fn our_labels_are_read_under_any_prefix_and_the_others_only_compared() {
        let keys = LabelKeys::new("example.org").unwrap();
        let labels = |team: &str| {
            let object =
                json!({"metadata": {"labels": {"example.org/registered-model-id": "7", "team": team}}});
            read(&object).metadata.labels
        };
        assert_eq!(labels("a").get(&keys.registered_model_id), Some("7"));
        assert_eq!(labels("a").get("team"), None);
        assert!(labels("a").same_as(&labels("a")));
        assert!(!labels("a").same_as(&labels("b")));
        assert!(labels("a").is_map());
    }

    #[rstest]
    #[case::null(json!(null))]
    #[case::number(json!(7))]
    #[case::text(json!("labels"))]
    #[case::list(json!([{"a": "b"}]))]
    fn labels_that_are_no_map_are_none(#[case] labels: Value) {
        let metadata = read(&json!({"metadata": {"labels": labels, "name": "a"}})).metadata;
        assert!(!metadata.labels.is_map());
        assert_eq!(metadata.name.as_deref(), Some("a"), "the rest is read all the same");
    }

    #[test]
    fn a_label_that_is_no_text_is_there_and_no_id() {
        let keys = LabelKeys::default();
        let object = json!({"metadata": {"labels": {keys.registered_model_id.as_str(): 7}}});
        assert_eq!(read(&object).metadata.labels.get(&keys.registered_model_id), Some(""));
    }

    #[test]
    fn the_same_is_read_from_text_and_from_a_value() {
        let object = json!({
            "metadata": {"name": "a", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"]},
            "spec": {"predictor": {"model": {"runtime": "r"}}},
        });
        let from_value: InferenceService = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(from_value, read(&object));
        assert!(from_value.metadata.being_deleted);
        assert_eq!(from_value.metadata.finalizers, ["f"]);
    }
}
