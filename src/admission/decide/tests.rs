//! The decision table, row by row, in the order and wording of `docs/design.md`.
//!
//! An object is written as words: `model=7 id=9 version=3 name=r url=U team=x` are its labels (and annotation),
//! `kserve` its finalizer, `uri=a` its model, `replicas=2` its scaling, `deleting` its deletionTimestamp,
//! `unnamed` that it has generateName. What is expected is written as words too: see [`told`].

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const NONE: &str = "";

/// A request about an object that was `old` and will be `new`.
fn request(operation: &str, old: Option<&str>, new: &str) -> Request {
    read(&body(operation, old, new))
}

fn read(body: &str) -> Request {
    Request::read(body.as_bytes(), &LabelKeys::default()).expect("a review")
}

fn body(operation: &str, old: Option<&str>, new: &str) -> String {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "kind": {"group": "serving.kserve.io", "version": "v1beta1", "kind": "InferenceService"},
            "resource": {"group": "serving.kserve.io", "version": "v1beta1", "resource": "inferenceservices"},
            "operation": operation,
            "namespace": "team-a",
            "object": object(new),
            "oldObject": old.map(object),
        },
    });
    review.to_string()
}

fn object(words: &str) -> Value {
    let mut object = json!({
        "metadata": {"name": "scorer", "labels": {}, "annotations": {}, "finalizers": []},
        "spec": {"predictor": {"model": {"storageUri": "s3://a"}}},
    });
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let label = match key {
            "model" => "modelregistry.kubeflow.org/registered-model-id",
            "version" => "modelregistry.kubeflow.org/model-version-id",
            "id" => "modelregistry.kubeflow.org/inference-service-id",
            "name" => "modelregistry.kubeflow.org/name",
            "url" => {
                object["metadata"]["annotations"]["modelregistry.kubeflow.org/url"] = json!(value);
                continue;
            }
            "note" => {
                object["metadata"]["annotations"]["note"] = json!(value);
                continue;
            }
            "kserve" => {
                object["metadata"]["finalizers"] = json!([KSERVE_FINALIZER]);
                continue;
            }
            "deleting" => {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                continue;
            }
            "unnamed" => {
                object["metadata"]["name"] = json!(null);
                continue;
            }
            "uri" => {
                object["spec"]["predictor"]["model"]["storageUri"] = json!(value);
                continue;
            }
            "replicas" => {
                object["spec"]["predictor"]["minReplicas"] = json!(value);
                continue;
            }
            label => label,
        };
        object["metadata"]["labels"][label] = json!(value);
    }
    object
}

/// A decision in words: `allow`, `warn`, `deny 422`; or what is asked: `register`, `check`, and then what for
/// (`model=7 version=3`), which entry is tried first (`try=9`), what goes back (`back=9`), whether it gives way
/// `silently`, which faults may refuse it (`refuses:any`, `refuses:version`, `refuses:none`).
fn told(decision: &Decision) -> String {
    match decision {
        Decision::Answer(answer) => match (&answer.verdict, answer.warnings.as_slice(), &answer.would) {
            (Verdict::Deny { code, .. }, [], None) => format!("{} deny {code}", answer.row.number()),
            (Verdict::Allow, [_], None) => format!("{} warn", answer.row.number()),
            (Verdict::Allow, [], Some(_)) => format!("{} note", answer.row.number()),
            (Verdict::Allow, [], None) => format!("{} allow", answer.row.number()),
            _ => panic!("no answer says this: {answer:?}"),
        },
        Decision::Ask(question) => {
            let mut words = vec![question.row.number().to_string()];
            words.push(if question.action == Action::Check { "check" } else { "register" }.into());
            let wanted = &question.wanted;
            words.extend(wanted.model.map(|id| format!("model={id}")));
            words.extend(wanted.version.map(|id| format!("version={id}")));
            words.extend(wanted.labelled.map(|id| format!("try={id}")));
            words.extend(question.dropped.as_ref().map(|id| format!("back={id}")));
            words.extend(question.replaces_silently.then(|| "silently".to_owned()));
            words.push(
                match question.refusals {
                    Refusals::Any => "refuses:any",
                    Refusals::OfVersion => "refuses:version",
                    Refusals::None => "refuses:none",
                }
                .into(),
            );
            words.join(" ")
        }
    }
}

fn decided(request: &Request, policies: Policies) -> String {
    told(&decide(request, &policies, &LabelKeys::default()))
}

#[rstest]
// 1: another kind or version, a subresource, DELETE, CONNECT
#[case::delete("DELETE", "model=7", "1 allow")]
#[case::connect("CONNECT", "model=7", "1 allow")]
#[case::unheard_of("PRUNE", "model=7", "1 allow")]
// 2: deletionTimestamp set
#[case::created_for_deletion("CREATE", "model=7 deleting", "2 allow")]
// 3: CREATE, neither model nor id label
#[case::nothing("CREATE", NONE, "3 allow")]
#[case::only_other_labels("CREATE", "team=x name=r version=3", "3 allow")]
// 4: CREATE, no name yet (generateName)
#[case::unnamed("CREATE", "unnamed model=7 version=3", "4 check model=7 version=3 refuses:any")]
#[case::unnamed_with_id("CREATE", "unnamed model=7 id=9", "4 deny 422")]
#[case::unnamed_without("CREATE", "unnamed", "3 allow")]
// 5: CREATE, model label, no id label
#[case::model("CREATE", "model=7", "5 register model=7 refuses:any")]
#[case::model_and_version("CREATE", "model=7 version=3", "5 register model=7 version=3 refuses:any")]
#[case::model_is_no_id("CREATE", "model=seven", "5 deny 422")]
#[case::model_is_empty("CREATE", "model=", "5 deny 422")]
#[case::version_is_no_id("CREATE", "model=7 version=03", "5 deny 422")]
// 6: CREATE, id label
#[case::id("CREATE", "id=9", "6 register try=9 refuses:any")]
#[case::id_and_model("CREATE", "id=9 model=7", "6 register model=7 try=9 refuses:any")]
#[case::id_is_no_id("CREATE", "id=nine", "6 deny 422")]
#[case::id_is_no_id_but_there_is_a_model("CREATE", "id=nine model=7", "6 register model=7 refuses:any")]
fn a_create(#[case] operation: &str, #[case] new: &str, #[case] want: &str) {
    assert_eq!(decided(&request(operation, None, new), Policies::default()), want);
}

#[rstest]
// 2: deletionTimestamp set
#[case::being_deleted("model=7 deleting", "model=8 deleting", "2 allow")]
#[case::finalizer_removed("model=7 deleting kserve", "model=7 deleting", "2 allow")]
// 7: UPDATE, none of our labels changed, id there
#[case::unchanged("model=7 id=9", "model=7 id=9 replicas=2", "7 allow")]
#[case::other_label("model=7 id=9", "model=7 id=9 team=x uri=b kserve", "7 allow")]
#[case::bad_as_ever("model=x id=y", "model=x id=y replicas=2", "7 allow")]
// 8: UPDATE, last of model and id label dropped
#[case::both_dropped("model=7 id=9", NONE, "8 allow")]
#[case::model_dropped("model=7", "version=3", "8 allow")]
#[case::id_dropped("id=9", NONE, "8 allow")]
// 9: UPDATE, id added or set to another value, or model or registry changed
#[case::id_added("model=7", "model=7 id=9", "9 register model=7 try=9 refuses:any")]
#[case::id_set("model=7 id=9", "model=7 id=10", "9 register model=7 try=10 refuses:any")]
#[case::id_set_to_nonsense("model=7 id=9", "model=7 id=x", "9 register model=7 refuses:any")]
#[case::id_alone_set_to_nonsense("id=9", "id=x", "9 deny 422")]
#[case::model_changed("model=7 id=9", "model=8 id=9", "9 register model=8 try=9 silently refuses:any")]
#[case::model_added(NONE, "model=7", "9 register model=7 silently refuses:any")]
#[case::model_dropped_id_kept("model=7 id=9", "id=9", "9 register try=9 silently refuses:any")]
#[case::model_changed_id_dropped("model=7 id=9", "model=8", "9 register model=8 try=9 silently refuses:any")]
#[case::registry_label_changed("model=7 id=9", "model=7 id=9 name=r", "9 register model=7 try=9 refuses:any")]
#[case::registry_url_changed(
    "model=7 id=9",
    "model=7 id=9 url=http://r",
    "9 register model=7 try=9 refuses:any"
)]
#[case::model_set_to_nonsense("model=7 id=9", "model=x id=9", "9 deny 422")]
// 10: UPDATE, id dropped and model kept; or, with an id, the version changed
#[case::replaced_from_git("model=7 id=9", "model=7", "10 register model=7 try=9 back=9 refuses:none")]
#[case::nonsense_dropped("model=7 id=x", "model=7", "10 register model=7 back=x refuses:none")]
#[case::version_changed(
    "model=7 id=9",
    "model=7 id=9 version=3",
    "10 register model=7 version=3 try=9 refuses:version"
)]
#[case::version_changed_id_dropped(
    "model=7 id=9 version=2",
    "model=7 version=3",
    "10 register model=7 version=3 try=9 back=9 refuses:version"
)]
#[case::version_set_to_nonsense("model=7 id=9", "model=7 id=9 version=x", "10 deny 422")]
#[case::id_dropped_beside_old_nonsense("model=x id=9", "model=x", "10 warn")]
// 11: UPDATE, model label, never had an id
#[case::kserve_takes_over("model=7", "model=7 kserve", "11 register model=7 refuses:none")]
#[case::a_label_changed("model=7", "model=7 team=x", "11 register model=7 refuses:none")]
#[case::the_model_changed("model=7", "model=7 uri=b", "11 register model=7 refuses:none")]
#[case::our_version_changed("model=7", "model=7 version=3", "11 register model=7 version=3 refuses:any")]
#[case::scaled("model=7 kserve", "model=7 kserve replicas=2", "11 allow")]
#[case::annotated("model=7 kserve", "model=7 kserve note=x", "11 allow")]
#[case::kserve_takes_over_a_bad_one("model=x", "model=x kserve", "11 warn")]
// 12: anything else
#[case::never_opted_in(NONE, "team=x kserve", "12 allow")]
#[case::registry_without_model(NONE, "name=r", "12 allow")]
fn an_update(#[case] old: &str, #[case] new: &str, #[case] want: &str) {
    assert_eq!(decided(&request("UPDATE", Some(old), new), Policies::default()), want);
}

#[rstest]
#[case::other_group("/request/kind/group", json!("serving.example.org"))]
#[case::other_version("/request/kind/version", json!("v1alpha1"))]
#[case::other_kind("/request/kind/kind", json!("InferenceGraph"))]
#[case::other_resource("/request/resource/resource", json!("inferencegraphs"))]
#[case::status("/request/subResource", json!("status"))]
#[case::no_namespace("/request/namespace", json!(""))]
#[case::no_name_of_a_namespace("/request/namespace", json!("team/a"))]
#[case::no_name("/request/object/metadata/name", json!("scorer/7"))]
#[case::a_name_with_nothing_between_dots("/request/object/metadata/name", json!("a..b"))]
#[case::a_name_in_two_lines("/request/object/metadata/name", json!("a\nb"))]
#[case::a_name_that_is_too_long("/request/object/metadata/name", json!("n".repeat(254)))]
#[case::no_object("/request/object", json!(null))]
fn row_1_what_is_not_an_inference_service_is_untouched(#[case] at: &str, #[case] value: Value) {
    let mut review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "kind": {"group": "serving.kserve.io", "version": "v1beta1", "kind": "InferenceService"},
            "resource": {"group": "serving.kserve.io", "version": "v1beta1", "resource": "inferenceservices"},
            "subResource": "",
            "operation": "CREATE",
            "namespace": "team-a",
            "object": object("model=7"),
        },
    });
    *review.pointer_mut(at).expect("a part of the review") = value;
    let request = Request::read(review.to_string().as_bytes(), &LabelKeys::default()).unwrap();
    assert_eq!(decided(&request, Policies::default()), "1 allow");
}

#[rstest]
#[case::create("CREATE", None, "model=7")]
#[case::unchanged("UPDATE", Some("model=7 id=9"), "model=7 id=9 uri=b")]
#[case::late("UPDATE", Some("model=7"), "model=7 uri=b")]
fn an_operation_that_comes_before_the_objects_and_one_behind_them_are_read_alike(
    #[case] operation: &str,
    #[case] old: Option<&str>,
    #[case] new: &str,
) {
    // Sorted by name, as here; the API server writes it first.
    let behind = body(operation, old, new);
    let first = format!("\"request\":{{\"operation\":\"{operation}\",");
    let before = behind.replacen("\"request\":{", &first, 1);
    assert_ne!(before, behind);
    assert_eq!(format!("{:?}", read(&before)), format!("{:?}", read(&behind)));
}

#[rstest]
#[case::allow(OnMissing::Allow, "3 allow", "8 allow")]
#[case::warn(OnMissing::Warn, "3 warn", "8 warn")]
#[case::deny(OnMissing::Deny, "3 deny 403", "8 deny 403")]
fn the_policy_for_what_names_nothing(
    #[case] on_missing: OnMissing,
    #[case] create: &str,
    #[case] update: &str,
) {
    let policies = Policies { on_missing, ..Policies::default() };
    assert_eq!(decided(&request("CREATE", None, NONE), policies), create);
    assert_eq!(decided(&request("UPDATE", Some("model=7"), NONE), policies), update);
}

#[rstest]
#[case::warn(Severity::Warn, "5 warn")]
#[case::deny(Severity::Deny, "5 deny 422")]
fn the_policy_for_what_is_wrong(#[case] on_invalid: Severity, #[case] want: &str) {
    let policies = Policies { on_invalid, ..Policies::default() };
    assert_eq!(decided(&request("CREATE", None, "model=x"), policies), want);
}

#[rstest]
#[case::enforce(Mode::Enforce, "5 deny 422", Effects::Create)]
#[case::warn(Mode::Warn, "5 warn", Effects::Create)]
#[case::observe(Mode::Observe, "5 note", Effects::ReadOnly)]
fn the_mode(#[case] mode: Mode, #[case] invalid: &str, #[case] effects: Effects) {
    let policies = Policies { mode, ..Policies::default() };
    assert_eq!(decided(&request("CREATE", None, "model=x"), policies), invalid);
    let Decision::Ask(question) =
        decide(&request("CREATE", None, "model=7"), &policies, &LabelKeys::default())
    else {
        panic!("a model label is asked about in every mode")
    };
    assert_eq!(question.effects, effects);
}

#[test]
fn a_dry_run_only_reads() {
    let request = Request { dry_run: true, ..request("CREATE", None, "model=7") };
    let Decision::Ask(question) = decide(&request, &Policies::default(), &LabelKeys::default()) else {
        panic!("a dry run is asked about too")
    };
    assert_eq!(question.effects, Effects::ReadOnly);
}

#[rstest]
#[case::denied_at_create(Severity::Deny, Mode::Enforce, "CREATE", true)]
#[case::warned(Severity::Warn, Mode::Enforce, "CREATE", false)]
#[case::mode_warn(Severity::Deny, Mode::Warn, "CREATE", false)]
#[case::mode_observe(Severity::Deny, Mode::Observe, "CREATE", true)]
#[case::an_update_that_changes_nothing_of_ours(Severity::Deny, Mode::Enforce, "UPDATE", false)]
fn nothing_is_created_for_what_will_be_refused_as_archived(
    #[case] on_archived: Severity,
    #[case] mode: Mode,
    #[case] operation: &str,
    #[case] refused: bool,
) {
    let policies = Policies { mode, on_archived, ..Policies::default() };
    let request = request(operation, (operation == "UPDATE").then_some("model=7"), "model=7 kserve");
    let Decision::Ask(question) = decide(&request, &policies, &LabelKeys::default()) else {
        panic!("a model label is asked about")
    };
    assert_eq!(question.wanted.refuse_archived, refused);
}
