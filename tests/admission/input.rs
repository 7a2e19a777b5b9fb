//! Whatever is sent: a review is answered, anything else gets a status and a sentence, and nothing panics.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use crate::reviews::Review;
use crate::scene::Scene;
use crate::webhook::Answered;

/// An object and its old self at the API server's limit, less what surrounds them.
const LARGE_BYTES: usize = 3_500_000;

/// Deeper than readers of JSON that recurse go by default.
const DEEP: usize = 1_000;

#[rstest]
#[case::get("GET", "/mutate", "application/json", 405)]
#[case::put("PUT", "/mutate", "application/json", 405)]
#[case::another_path("POST", "/validate", "application/json", 404)]
#[case::text("POST", "/mutate", "text/plain", 415)]
#[case::yaml("POST", "/mutate", "application/yaml", 415)]
#[case::no_content_type("POST", "/mutate", "", 415)]
#[case::with_a_charset("POST", "/mutate", "application/json; charset=utf-8", 200)]
#[tokio::test]
async fn only_json_is_taken_at_one_path(
    #[case] method: &str,
    #[case] path: &str,
    #[case] content_type: &str,
    #[case] status: u16,
) {
    let webhook = Scene::with("").await.webhook;
    let url = format!("https://{}{path}", webhook.address);
    let mut request = webhook.client.request(method.parse().expect("a method"), url);
    if !content_type.is_empty() {
        request = request.header("content-type", content_type);
    }
    let request = request.body(Review::create("model=7").body().to_string());
    let got = request.send().await.expect("an answer").status();
    assert_eq!(got, status);
}

#[rstest]
#[case::nothing("")]
#[case::no_json("apiVersion: admission.k8s.io/v1")]
#[case::half(r#"{"apiVersion": "admission.k8s.io/v1", "kind": "Admi"#)]
#[case::not_utf_8("{\"kind\": \"\u{fffd}")]
#[case::no_map("[]")]
#[case::null("null")]
#[case::empty("{}")]
#[case::v1beta1(
    r#"{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "u"}}"#
)]
#[case::another_kind(r#"{"apiVersion": "admission.k8s.io/v1", "kind": "Pod", "request": {"uid": "u"}}"#)]
#[case::no_request(r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#)]
#[case::null_request(r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": null}"#)]
#[case::no_uid(r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}"#)]
#[case::empty_uid(
    r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": ""}}"#
)]
#[case::uid_is_no_text(
    r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": 7}}"#
)]
#[tokio::test]
async fn what_is_no_review_gets_a_sentence(#[case] body: &str) {
    let webhook = Scene::with("").await.webhook;
    let (status, said) = webhook.post(body.as_bytes().to_vec()).await;
    let said = String::from_utf8(said).expect("a sentence");
    assert_eq!(status, 400, "{said}");
    assert!(said.trim_end().contains(' '), "a sentence says what is wrong: {said:?}");
}

#[tokio::test]
async fn a_review_of_two_large_objects_is_answered_and_a_larger_body_is_not_read() {
    let scene = Scene::with("").await;
    let padding = json!("x".repeat(LARGE_BYTES));
    let review = Review::update("model=7", "model=7 kserve")
        .with("/request/object/metadata/annotations/padding", padding.clone())
        .with("/request/oldObject/metadata/annotations/padding", padding);
    assert_eq!(scene.review(&review).await.1, "allow set=new");
    let larger = review.with("/request/options", json!("x".repeat(LARGE_BYTES)));
    let (status, _) = scene.webhook.post(larger.body().to_string().into_bytes()).await;
    assert_eq!(status, 413);
}

/// Parts of a review that have another type than they should.
#[rstest]
#[tokio::test]
async fn a_review_with_an_ill_typed_part_is_answered(
    #[values(
        "/request/kind",
        "/request/resource",
        "/request/subResource",
        "/request/name",
        "/request/namespace",
        "/request/operation",
        "/request/dryRun",
        "/request/userInfo",
        "/request/object",
        "/request/oldObject",
        "/request/object/metadata",
        "/request/object/metadata/name",
        "/request/object/metadata/labels",
        "/request/object/metadata/labels/team",
        "/request/object/metadata/annotations",
        "/request/object/metadata/finalizers",
        "/request/object/metadata/deletionTimestamp",
        "/request/object/spec",
        "/request/object/spec/predictor",
        "/request/object/spec/predictor/model",
        "/request/object/spec/predictor/model/modelFormat",
        "/request/object/spec/predictor/containers",
        "/request/object/status"
    )]
    place: &str,
) {
    let scene = Scene::with("own").await;
    for value in
        [Value::Null, json!(7), json!(-1.5), json!(true), json!("text"), json!([1]), json!({"a": {}})]
    {
        for review in [Review::create("model=7"), Review::update("model=7 id=1", "model=7")] {
            let review = review.with(place, value.clone());
            // Holds the answer to what is true of all of them.
            scene.webhook.review(&review).await;
        }
    }
    assert_eq!(scene.sent("PATCH"), 0);
}

#[rstest]
#[case::null(json!(null))]
#[case::empty(json!({}))]
#[case::a_list(json!([]))]
#[case::a_text(json!("model"))]
#[tokio::test]
async fn without_labels_there_is_nothing_to_do(#[case] labels: Value) {
    let scene = Scene::with("").await;
    let review = Review::create("").with("/request/object/metadata/labels", labels);
    assert_eq!(scene.review(&review).await.1, "allow");
    assert_eq!(scene.review(&review.without("/request/object/metadata/labels")).await.1, "allow");
    assert_eq!(scene.review(&Review::create("").without("/request/object/metadata")).await.1, "allow");
}

#[rstest]
#[case::a_number(json!(7))]
#[case::null(json!(null))]
#[case::a_list(json!(["7"]))]
#[tokio::test]
async fn a_label_that_is_no_text_is_no_id(#[case] label: Value) {
    let scene = Scene::with("").await;
    let labels = json!({"modelregistry.kubeflow.org/registered-model-id": label});
    let review = Review::create("").with("/request/object/metadata/labels", labels);
    assert_eq!(scene.review(&review).await.1, "deny 422");
}

#[tokio::test]
async fn keys_that_a_patch_has_to_escape_and_unicode_go_through() {
    let scene = Scene::with("").await;
    let odd = ["a/b", "a~b", "a~1b", "a~0b", "ä", "模型", "🦀", "", " ", "\"", "\\", "\u{0}", "\n"];
    let odd: serde_json::Map<_, _> = odd.iter().map(|key| ((*key).to_owned(), json!(key))).collect();
    let mut labels = odd.clone();
    labels.insert("modelregistry.kubeflow.org/registered-model-id".to_owned(), json!("7"));
    let review = Review::create("")
        .with("/request/object/metadata/labels", Value::Object(labels))
        .with("/request/object/metadata/annotations", Value::Object(odd.clone()))
        .with("/request/object/spec/predictor/model", Value::Object(odd));
    assert_eq!(scene.review(&review).await.1, "allow set=new");
}

/// What is quoted from a label stands in a warning that the API server can pass on.
#[tokio::test]
async fn a_label_with_control_characters_is_quoted_on_one_line() {
    let scene = Scene::with("own").await;
    for id in ["1\r\nX", "\u{7f}\u{85}", "\u{0}"] {
        let key = "/request/object/metadata/labels/modelregistry.kubeflow.org~1inference-service-id";
        let mut review = Review::create("model=7 id=1").body().clone();
        *review.pointer_mut(key).expect("the id label") = json!(id);
        let (status, body) = scene.webhook.post(review.to_string().into_bytes()).await;
        assert_eq!(status, 200);
        assert_eq!(scene.told(&Answered::read(&review, &body)), "allow set=own warned", "{id:?}");
    }
}

#[rstest]
#[case::in_the_model("/request/object/spec/predictor/model")]
#[case::in_a_framework("/request/object/spec/predictor/sklearn")]
#[case::in_the_containers("/request/object/spec/predictor/containers")]
#[case::in_the_predictor("/request/object/spec/predictor/workerSpec")]
#[case::in_the_spec("/request/object/spec/transformer")]
#[case::in_a_label("/request/object/metadata/labels/team")]
#[case::in_an_annotation("/request/object/metadata/annotations/note")]
#[case::in_the_finalizers("/request/object/metadata/finalizers")]
#[case::in_the_status("/request/object/status")]
#[case::in_the_options("/request/options")]
#[case::in_the_user("/request/userInfo")]
#[tokio::test]
async fn an_object_of_any_depth_is_registered(#[case] place: &str) {
    let scene = Scene::with("").await;
    let deep = (0..DEEP).fold(json!(1), |inner, _| Value::Array(vec![inner]));
    let review = Review::create("model=7").with(place, deep);
    assert_eq!(scene.review(&review).await.1, "allow set=new");
}

/// Any JSON.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any_key(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Keys that mean something here, and others.
fn any_key() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "apiVersion",
        "kind",
        "request",
        "uid",
        "object",
        "metadata",
        "labels",
        "spec",
        "predictor",
        "model",
        "modelregistry.kubeflow.org/registered-model-id",
        "modelregistry.kubeflow.org/inference-service-id",
    ]);
    prop_oneof![known.prop_map(str::to_owned), "[a-z/~]{0,6}"]
}

/// What the values of our labels may be.
fn any_label() -> impl Strategy<Value = Value> {
    let known =
        prop::sample::select(vec!["1", "2", "5", "7", "8", "9", "70", "80", "07", "", "x", "2147483648"]);
    prop_oneof![4 => known.prop_map(Value::from), 1 => any_json()]
}

/// Places of a review where something else may stand.
const PLACES: [&str; 16] = [
    "/apiVersion",
    "/kind",
    "/request",
    "/request/uid",
    "/request/kind",
    "/request/operation",
    "/request/namespace",
    "/request/name",
    "/request/dryRun",
    "/request/object",
    "/request/oldObject",
    "/request/object/metadata",
    "/request/object/metadata/labels",
    "/request/object/metadata/finalizers",
    "/request/object/spec",
    "/request/object/spec/predictor",
];

/// A review that may be right, but for a few places.
fn any_review() -> impl Strategy<Value = Value> {
    let labels = || prop::collection::vec(prop::option::of(any_label()), 3);
    let odd = prop::collection::vec((prop::sample::select(PLACES.to_vec()), any_json()), 0..3);
    (any::<bool>(), labels(), labels(), odd).prop_map(|(create, old, new, odd)| {
        let review = if create { Review::create("") } else { Review::update("", "") };
        let mut body = review.body().clone();
        for (object, values) in [("object", new), ("oldObject", old)] {
            let keys = ["registered-model-id", "model-version-id", "inference-service-id"];
            for (key, value) in keys.iter().zip(values) {
                let labels = &mut body["request"][object]["metadata"]["labels"];
                if let (Some(value), Some(labels)) = (value, labels.as_object_mut()) {
                    labels.insert(format!("modelregistry.kubeflow.org/{key}"), value);
                }
            }
        }
        for (place, value) in odd {
            if let Some(there) = body.pointer_mut(place) {
                *there = value;
            }
        }
        body
    })
}

/// Whether there is a review to answer.
fn is_review(body: &Value) -> bool {
    body["apiVersion"] == "admission.k8s.io/v1"
        && body["kind"] == "AdmissionReview"
        && body["request"]["uid"].as_str().is_some_and(|uid| !uid.is_empty())
}

/// Sends bodies to one webhook and holds each answer to what is true of all of them.
fn hold_answers(bodies: impl Strategy<Value = Value>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let scene = runtime.block_on(Scene::with("own other"));
    proptest!(|(body in bodies)| {
        let (status, answer) = runtime.block_on(scene.webhook.post(body.to_string().into_bytes()));
        if is_review(&body) {
            prop_assert_eq!(status, 200);
            Answered::read(&body, &answer);
        } else {
            prop_assert_eq!(status, 400);
            prop_assert!(answer.contains(&b' '), "a sentence");
        }
        prop_assert_eq!(scene.sent("PATCH"), 0);
    });
}

#[test]
fn any_json_has_a_well_formed_answer() {
    hold_answers(any_json());
}

#[test]
fn any_review_has_a_well_formed_answer() {
    hold_answers(any_review());
}
