//! The decision table end to end, row by row, in the order of `docs/design.md`, with the default policies.
//!
//! Each case is: which entries the registry has, what the object was, what it will be, and the answer in words.

use rstest::rstest;
use serde_json::{Value, json};

use crate::reviews::{ID_LABEL, Review};
use crate::scene::Scene;
use crate::webhook::REGISTRY;

#[rstest]
// 3: CREATE, neither model nor id label
#[case::row_3("", "", "allow")]
#[case::row_3_other_labels("", "team=x version=70 name=r", "allow")]
// 4: CREATE, no name yet (generateName)
#[case::row_4("", "unnamed model=7 version=70", "allow")]
#[case::row_4_no_such_model("", "unnamed model=5", "deny 422")]
#[case::row_4_version_of_another_model("", "unnamed model=7 version=80", "deny 422")]
#[case::row_4_archived("", "unnamed model=9", "allow warned")]
#[case::row_4_with_id("own", "unnamed model=7 id=own", "deny 422")]
// 5: CREATE, model label, no id label
#[case::row_5("", "model=7", "allow set=new")]
#[case::row_5_with_version("", "model=7 version=70", "allow set=new")]
#[case::row_5_created_again("own", "model=7", "allow set=own")]
#[case::row_5_other_model_than_before("own", "model=8", "allow set=new")]
#[case::row_5_no_such_model("", "model=5", "deny 422")]
#[case::row_5_no_such_version("", "model=7 version=5", "deny 422")]
#[case::row_5_version_of_another_model("", "model=7 version=80", "deny 422")]
#[case::row_5_model_is_no_id("", "model=fraud", "deny 422")]
#[case::row_5_model_is_empty("", "model=", "deny 422")]
#[case::row_5_model_with_a_leading_zero("", "model=07", "deny 422")]
#[case::row_5_model_beyond_all_ids("", "model=2147483648", "deny 422")]
#[case::row_5_version_is_no_id("", "model=7 version=v1", "deny 422")]
#[case::row_5_archived_model("", "model=9", "allow set=new warned")]
#[case::row_5_archived_version("", "model=7 version=79", "allow set=new warned")]
// 6: CREATE, id label
#[case::row_6_belongs("own", "id=own", "allow")]
#[case::row_6_belongs_and_serves("own", "id=own model=7 version=70", "allow")]
#[case::row_6_serves_another_model("own", "id=own model=8", "allow set=new warned")]
#[case::row_6_version_of_another_model("own", "id=own version=80", "deny 422")]
#[case::row_6_no_id_at_all("own", "id=nine", "deny 422")]
#[case::row_6_empty("own", "id=", "deny 422")]
#[case::row_6_missing("own", "id=no-entry", "deny 422")]
#[case::row_6_a_stranger_s("other", "id=other", "deny 422")]
#[case::row_6_no_id_with_model("own", "id=nine model=7", "allow set=own warned")]
#[case::row_6_missing_with_model("", "id=no-entry model=7", "allow set=new warned")]
#[case::row_6_a_stranger_s_with_model("other", "id=other model=7", "allow set=new warned")]
#[case::row_6_no_such_model("own", "id=own model=5", "deny 422")]
#[tokio::test]
async fn a_create(#[case] entries: &str, #[case] new: &str, #[case] want: &str) {
    let scene = Scene::with(entries).await;
    let (answered, told) = scene.review(&Review::create(&scene.fill(new))).await;
    assert_eq!(told, want, "{new}: {}", answered.said());
}

#[rstest]
// 2: deletionTimestamp set
#[case::row_2("own", "model=7 id=own deleting", "model=8 deleting", "allow")]
#[case::row_2_finalizer_removed("own", "model=7 id=own deleting kserve", "model=7 id=own deleting", "allow")]
// 7: UPDATE, none of our labels changed, id there
#[case::row_7("own", "model=7 id=own", "model=7 id=own team=x uri=b replicas=2 kserve", "allow")]
#[case::row_7_as_wrong_as_ever("own", "model=x id=y", "model=x id=y replicas=2", "allow")]
// 8: UPDATE, last of model and id label dropped
#[case::row_8("own", "model=7 id=own", "", "allow")]
#[case::row_8_id_alone("own", "id=own", "version=70", "allow")]
// 9: UPDATE, id added or set to another value, or model or registry changed
#[case::row_9_id_added("own", "model=7", "model=7 id=own", "allow")]
#[case::row_9_stranger_s_id_added("own other", "model=7", "model=7 id=other", "allow set=own warned")]
#[case::row_9_id_set_to_missing("own", "model=7 id=own", "model=7 id=no-entry", "allow set=own warned")]
#[case::row_9_id_set_to_a_stranger_s("own other", "id=own", "id=other", "deny 422")]
#[case::row_9_id_set_to_nonsense("own", "model=7 id=own", "model=7 id=nine", "allow set=own warned")]
#[case::row_9_id_set_to_nonsense_without_model("own", "id=own", "id=nine", "deny 422")]
#[case::row_9_model_added("", "", "model=7", "allow set=new")]
#[case::row_9_model_added_to_an_id("own", "id=own", "id=own model=7", "allow")]
#[case::row_9_model_changed("own", "model=7 id=own", "model=8 id=own", "allow set=new")]
#[case::row_9_model_changed_back(
    "own own-of-8",
    "model=8 id=own-of-8",
    "model=7 id=own-of-8",
    "allow set=own"
)]
#[case::row_9_model_changed_id_dropped("own", "model=7 id=own", "model=8", "allow set=new")]
#[case::row_9_model_changed_to_missing("own", "model=7 id=own", "model=5 id=own", "deny 422")]
#[case::row_9_model_changed_to_nonsense("own", "model=7 id=own", "model=x id=own", "deny 422")]
#[case::row_9_model_dropped("own", "model=7 id=own", "id=own", "allow")]
#[case::row_9_registry_unknown("own", "model=7 id=own", "model=7 id=own name=nowhere", "deny 422")]
#[case::row_9_registry_of_no_url("own", "model=7 id=own", "model=7 id=own url=http://nowhere", "deny 422")]
#[case::row_9_registry_named("own", "model=7 id=own", "model=7 id=own name=model-registry-service", "allow")]
// 10: UPDATE, id dropped and model kept; or, with an id, the version changed
#[case::row_10("own", "model=7 id=own", "model=7", "allow set=own")]
#[case::row_10_nonsense_dropped("own", "model=7 id=nine", "model=7", "allow set=own warned")]
#[case::row_10_stale_dropped("", "model=7 id=no-entry", "model=7", "allow set=new warned")]
#[case::row_10_stranger_s_dropped("own other", "model=7 id=other", "model=7", "allow set=own warned")]
#[case::row_10_and_the_model_is_gone("", "model=5 id=no-entry", "model=5", "allow set=no-entry warned")]
#[case::row_10_version_changed("own", "model=7 id=own version=70", "model=7 id=own version=71", "allow")]
#[case::row_10_version_dropped("own", "model=7 id=own version=70", "model=7 id=own", "allow")]
#[case::row_10_version_of_an_id_alone("own", "id=own", "id=own version=70", "allow")]
#[case::row_10_version_of_another_model("own", "model=7 id=own", "model=7 id=own version=80", "deny 422")]
#[case::row_10_version_missing("own", "model=7 id=own", "model=7 id=own version=5", "deny 422")]
#[case::row_10_version_of_another_model_all_along(
    "own",
    "model=7 id=own version=80",
    "model=7 version=80",
    "allow set=own warned"
)]
#[case::row_10_version_changed_stale_id(
    "own",
    "model=7 id=no-entry",
    "model=7 id=no-entry version=70",
    "allow set=own warned"
)]
// 11: UPDATE, model label, never had an id
#[case::row_11_kserve_takes_over("", "model=7", "model=7 kserve", "allow set=new")]
#[case::row_11_label_changed("", "model=7 kserve", "model=7 kserve team=x", "allow set=new")]
#[case::row_11_version_changed("", "model=7 kserve", "model=7 kserve version=70", "allow set=new")]
#[case::row_11_model_of_predictor_changed("", "model=7 kserve", "model=7 kserve uri=b", "allow set=new")]
#[case::row_11_scaled("", "model=7 kserve", "model=7 kserve replicas=2", "allow")]
#[case::row_11_annotated("", "model=7 kserve", "model=7 kserve note=x", "allow")]
#[case::row_11_no_such_model("", "model=5", "model=5 kserve", "allow warned")]
#[case::row_11_version_changed_to_missing("", "model=7 kserve", "model=7 kserve version=5", "deny 422")]
// 12: anything else
#[case::row_12("", "", "team=x kserve", "allow")]
#[case::row_12_registry_without_model("", "", "name=nowhere", "allow")]
#[tokio::test]
async fn an_update(#[case] entries: &str, #[case] old: &str, #[case] new: &str, #[case] want: &str) {
    let scene = Scene::with(entries).await;
    let (answered, told) = scene.review(&Review::update(&scene.fill(old), &scene.fill(new))).await;
    assert_eq!(told, want, "{old} -> {new}: {}", answered.said());
}

/// 1: another kind or version, a subresource, DELETE, CONNECT.
#[rstest]
#[case::delete(Review::of("DELETE", Some("model=7"), None))]
#[case::connect(Review::of("CONNECT", None, Some("model=7")))]
#[case::an_operation_unheard_of(Review::of("PRUNE", None, Some("model=7")))]
#[case::another_group(Review::create("model=7").with("/request/kind/group", json!("example.org")))]
#[case::another_version(Review::create("model=7").with("/request/kind/version", json!("v1alpha1")))]
#[case::another_kind(Review::create("model=7").with("/request/kind/kind", json!("TrainedModel")))]
#[case::another_resource(Review::create("model=7").with("/request/resource/resource", json!("trainedmodels")))]
#[case::a_subresource(Review::create("model=7").with("/request/subResource", json!("status")))]
#[case::no_object(Review::of("CREATE", None, None))]
#[tokio::test]
async fn row_1_what_is_not_ours_goes_through_untouched(#[case] review: Review) {
    let scene = Scene::with("").await;
    let (_, told) = scene.review(&review).await;
    assert_eq!(told, "allow");
    assert_eq!(scene.server.registry().requests(), [], "no registry is asked");
}

/// Rows that say nothing of a registry, by what the object was and will be.
#[rstest]
#[case::row_2(Review::update("model=7 kserve deleting", "model=8 deleting"))]
#[case::row_3(Review::create("team=x"))]
#[case::row_4_with_id(Review::create("unnamed model=7 id=9"))]
#[case::row_7(Review::update("model=7 id=9", "model=7 id=9 kserve"))]
#[case::row_8(Review::update("model=7 id=9", ""))]
#[case::row_11_scaled(Review::update("model=7", "model=7 replicas=2"))]
#[case::row_12(Review::update("", "team=x"))]
#[case::a_label_that_is_no_id(Review::create("model=seven"))]
#[tokio::test]
async fn what_can_be_told_without_a_registry_asks_none(#[case] review: Review) {
    let scene = Scene::with("").await;
    scene.review(&review).await;
    assert_eq!(scene.server.registry().requests(), []);
}

#[rstest]
#[case::exists("own", Review::create("model=7"), "allow set=own")]
#[case::exists_and_is_labelled("own", Review::create("model=7 id=own"), "allow")]
#[case::does_not_exist("", Review::create("model=7"), "allow warned")]
#[case::not_even_its_environment("elsewhere", Review::create("model=7 called=first"), "allow warned")]
#[case::no_such_model("", Review::create("model=5"), "deny 422")]
#[case::archived("", Review::create("model=9"), "allow warned warned")]
#[case::stale_id("", Review::create("model=7 id=no-entry"), "allow warned")]
#[case::stale_id_of_one_that_exists("own", Review::create("model=7 id=no-entry"), "allow set=own warned")]
#[case::dropped("own", Review::update("model=7 id=own", "model=7"), "allow set=own")]
#[case::unnamed("", Review::create("unnamed model=7"), "allow")]
#[case::late("", Review::update("model=7", "model=7 kserve"), "allow warned")]
#[tokio::test]
async fn a_dry_run_reads_alone(#[case] entries: &str, #[case] review: Review, #[case] want: &str) {
    let scene = Scene::with(entries).await;
    let review = filled(&scene, review);
    let (answered, told) = scene.review(&review.clone().dry()).await;
    assert_eq!(told, want, "{}", answered.said());
    assert_eq!(scene.sent("POST"), 0, "a dry run creates nothing");
    if want.contains("set=") {
        let (_, real) = scene.review(&review).await;
        assert_eq!(told, real, "what exists gets the same patch as in earnest");
    }
}

/// A review in which ids stand for entries by name.
fn filled(scene: &Scene, mut review: Review) -> Review {
    for object in ["object", "oldObject"] {
        let labels = format!("/request/{object}/metadata/labels");
        let Some(id) = review.body().pointer(&labels).and_then(|labels| labels[ID_LABEL].as_str()) else {
            continue;
        };
        let id = scene.fill(&format!("id={id}")).replace("id=", "");
        let mut map = review.body().pointer(&labels).cloned().expect("labels");
        map[ID_LABEL] = Value::from(id);
        review = review.with(&labels, map);
    }
    review
}

#[rstest]
#[case::model(
    "model=42",
    "registered model 42 does not exist in model-registry-service: set label \
     modelregistry.kubeflow.org/registered-model-id to the id of a registered model"
)]
#[case::version(
    "model=7 version=80",
    "model version 80 belongs to registered model 8, not to 7: set label \
     modelregistry.kubeflow.org/model-version-id to the id of a version of the model"
)]
#[case::no_id(
    "model=fraud",
    "label modelregistry.kubeflow.org/registered-model-id is no id: set it to a whole number from 1 to \
     2147483647, or remove it"
)]
#[case::entry(
    "id=42",
    "inference service 42 does not exist in model-registry-service: remove label \
     modelregistry.kubeflow.org/inference-service-id and set label \
     modelregistry.kubeflow.org/registered-model-id to the id of a registered model"
)]
#[case::registry(
    "model=7 name=nowhere",
    "no configured registry is called nowhere: set labels modelregistry.kubeflow.org/name and \
     modelregistry.kubeflow.org/namespace to those of one"
)]
#[tokio::test]
async fn a_refusal_says_what_is_wrong_and_what_to_do(#[case] words: &str, #[case] message: &str) {
    let scene = Scene::with("").await;
    let (answered, _) = scene.review(&Review::create(words)).await;
    let status = &answered.response["status"];
    assert_eq!((&status["code"], &status["message"]), (&json!(422), &json!(message)));
}

#[tokio::test]
async fn the_audit_log_gets_the_entry_and_its_registry() {
    let scene = Scene::with("own").await;
    let (answered, _) = scene.review(&Review::create("model=7")).await;
    assert_eq!(answered.audit("entry"), answered.label.as_deref());
    assert_eq!(answered.audit("registry"), Some(REGISTRY));
    let (refused, _) = scene.review(&Review::create("model=5")).await;
    assert_eq!((refused.audit("entry"), refused.audit("registry")), (None, Some(REGISTRY)));
    let (untouched, _) = scene.review(&Review::create("team=x")).await;
    assert_eq!(untouched.response.get("auditAnnotations"), None, "it concerns no registry");
}

#[tokio::test]
async fn a_new_entry_says_whose_it_is_and_what_it_serves() {
    let scene = Scene::with("").await;
    scene.review(&Review::create("model=7 version=70")).await;
    let entries = scene.new_entries();
    let [entry] = entries.as_slice() else { panic!("one entry: {entries:?}") };
    assert_eq!((entry.name.as_str(), entry.environment.as_str()), ("scorer", "team-a"));
    assert_eq!((entry.registered_model_id, entry.model_version_id), (7, Some(70)));
    assert_eq!((entry.runtime.as_deref(), entry.desired_state.as_str()), (Some("sklearn"), "DEPLOYED"));
    let properties: Vec<_> = entry.properties.iter().map(|(key, value)| (&**key, &**value)).collect();
    let want =
        [("cluster", "east"), ("managedBy", "isvc-registrar"), ("name", "scorer"), ("namespace", "team-a")];
    assert_eq!(properties, want);
}
