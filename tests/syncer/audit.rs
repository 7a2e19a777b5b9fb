//! The audit prints what the syncer would write, and mends it only when it is told to.

use std::time::Duration;

use isvc_registrar::audit::{self, AuditError, Fix, Output, Paper, Progress, Verdict};
use isvc_registrar::registration::ClusterId;
use isvc_registrar::syncer::inspect::Inspector;
use serde_json::{Value, json};

use crate::scene::{CLUSTER, MODEL, NAMESPACE, Scene, labels, name, object, ready, until};

/// What an audit printed, and how it ended.
struct Audited {
    verdict: Result<Verdict, AuditError>,
    report: String,
    remarks: String,
}

impl Audited {
    /// Name, row and kind of write of each difference.
    fn differences(&self) -> Vec<(String, Value, Value)> {
        let report: Value = serde_json::from_str(&self.report).expect("the report is one JSON object");
        let differences = report["differences"].as_array().expect("a list").iter();
        differences
            .map(|found| {
                (found["name"].as_str().unwrap().to_owned(), found["row"].clone(), found["write"].clone())
            })
            .collect()
    }
}

async fn audit_as(scene: &Scene, take_over: Option<&str>, output: Output, fix: Fix<'_>) -> Audited {
    let former = take_over.map(|id| ClusterId::new(id).unwrap());
    let inspector = Inspector::new(&scene.settings, scene.source.clone(), scene.directory(), former);
    let (mut report, mut remarks) = (Vec::new(), Vec::new());
    let paper = Paper { report: &mut report, remarks: &mut remarks };
    let verdict = audit::run(&inspector, output, fix, paper, &Progress::new(false)).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Audited { verdict, report: text(report), remarks: text(remarks) }
}

async fn audit(scene: &Scene, fix: Fix<'_>) -> Audited {
    audit_as(scene, None, Output::Json, fix).await
}

/// Runs a syncer until an entry is settled, and stops it.
async fn settle(scene: &Scene, ids: &[i32]) {
    let running = scene.start();
    until("all is settled", || ids.iter().all(|id| scene.entry(*id).properties.contains_key("uid"))).await;
    running.stop().await;
    scene.registry().clear_requests();
}

/// A cluster in which all is well but four objects, and the id of an entry for each.
async fn drifted() -> (Scene, [i32; 3]) {
    let scene = Scene::new().await;
    let ids = [scene.create("deleted").await, scene.create("moved").await, scene.create("well").await];
    settle(&scene, &ids).await;
    scene.objects.delete(&name("deleted"));
    scene.objects.apply(object("missed", &labels(Some(MODEL), None), &json!({})));
    scene.objects.apply(object("moved", &labels(Some(MODEL), Some(ids[1])), &ready("http://a")));
    (scene, ids)
}

#[tokio::test(flavor = "multi_thread")]
async fn where_all_is_well_it_says_so_and_asks_by_lists_alone() {
    let scene = Scene::new().await;
    let mut ids = Vec::new();
    for at in 0..40 {
        ids.push(scene.create(&format!("scorer-{at}")).await);
    }
    settle(&scene, &ids).await;

    let audited = audit(&scene, Fix::No).await;

    assert!(matches!(audited.verdict, Ok(Verdict::Agreement)), "{:?} {}", audited.verdict, audited.report);
    assert_eq!(audited.differences(), []);
    let requests = scene.registry().requests();
    assert!(requests.len() < 5, "a list of environments and one of entries: {requests:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_differs_is_printed_and_left_as_it_is() {
    let (scene, _) = drifted().await;

    let audited = audit(&scene, Fix::No).await;

    assert!(matches!(audited.verdict, Ok(Verdict::Drift)), "{:?}", audited.verdict);
    assert_eq!(
        audited.differences(),
        [
            ("deleted".into(), json!(7), json!("retire")),
            ("missed".into(), json!(3), json!("register")),
            ("moved".into(), json!(4), json!("patch")),
        ]
    );
    assert!(scene.registry().requests().iter().all(|request| request.method == "GET"), "nothing is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_mends_what_it_showed_after_naming_cluster_and_registry() {
    let (scene, [deleted, moved, well]) = drifted().await;
    let mut questions = Vec::new();
    let mut no = |question: &str| {
        questions.push(question.to_owned());
        Ok(false)
    };

    let refused = audit(&scene, Fix::Ask(&mut no)).await;

    assert!(matches!(refused.verdict, Ok(Verdict::Drift)), "{:?}", refused.verdict);
    assert_eq!(scene.state(deleted), "DEPLOYED", "the answer was no");
    let question = &questions[0];
    for named in ["3 writes", CLUSTER, "registry registry", &scene.server.url()] {
        assert!(question.contains(named), "{named:?} is not in {question:?}");
    }

    let mended = audit(&scene, Fix::Ask(&mut |_| Ok(true))).await;

    assert!(matches!(mended.verdict, Ok(Verdict::Mended)), "{:?} {}", mended.verdict, mended.remarks);
    assert_eq!(scene.state(deleted), "UNDEPLOYED");
    assert_eq!(scene.entry(moved).properties["url"], "http://a");
    assert_eq!(scene.state(well), "DEPLOYED");
    assert_eq!(scene.states()["missed"], "DEPLOYED");
    assert!(matches!(audit(&scene, Fix::No).await.verdict, Ok(Verdict::Agreement)));
}

#[tokio::test(flavor = "multi_thread")]
async fn retired_entries_of_live_objects_are_found_whether_labelled_or_not() {
    let scene = Scene::new().await;
    let labelled = scene.create("labelled").await;
    let unlabelled = scene.admit("unlabelled", MODEL).await;
    scene.objects.apply(object("unlabelled", &labels(Some(MODEL), None), &json!({})));
    settle(&scene, &[labelled, unlabelled]).await;
    for id in [labelled, unlabelled] {
        scene.patch(id, json!({"desiredState": "UNDEPLOYED"})).await;
    }

    let audited = audit(&scene, Fix::Yes).await;

    let patch = |name: &str| (name.to_owned(), json!(4), json!("patch"));
    assert_eq!(audited.differences(), [patch("labelled"), patch("unlabelled")]);
    assert!(matches!(audited.verdict, Ok(Verdict::Mended)), "{:?} {}", audited.verdict, audited.remarks);
    assert!(scene.states().values().all(|state| state == "DEPLOYED"), "{:?}", scene.states());
}

#[tokio::test(flavor = "multi_thread")]
async fn however_much_a_person_has_seen_is_retired_without_waiting_for_agreement() {
    let scene = Scene::new().await;
    for at in 0..60 {
        scene.admit(&format!("lost-{at}"), MODEL).await;
    }
    let audited = audit(&scene, Fix::Yes).await;
    assert!(matches!(audited.verdict, Ok(Verdict::Mended)), "{:?} {}", audited.verdict, audited.remarks);
    assert!(scene.states().values().all(|state| state == "UNDEPLOYED"), "{:?}", scene.states());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_create_may_still_need_is_no_difference() {
    let mut scene = Scene::new().await;
    scene.settings.grace = Duration::from_mins(5);
    scene.set_clock_off(0);
    scene.admit("under-way", MODEL).await;
    let audited = audit(&scene, Fix::Yes).await;
    assert!(matches!(audited.verdict, Ok(Verdict::Agreement)), "{:?}", audited.report);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_a_person_can_mend_stays_a_difference() {
    let scene = Scene::new().await;
    let west = scene.admit_in("west", "other", MODEL).await;
    scene.objects.apply(object("stranger", &labels(None, Some(west)), &json!({})));
    scene.objects.apply(object("nowhere", &labels(None, Some(4_711)), &json!({})));

    let audited = audit_as(&scene, None, Output::Table, Fix::Yes).await;

    assert!(matches!(audited.verdict, Ok(Verdict::Drift)), "{:?}", audited.verdict);
    for said in ["an entry of somebody else", "an entry that does not exist"] {
        assert!(audited.report.contains(said), "{said:?} is not in\n{}", audited.report);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entries_of_a_cluster_that_is_no_more_are_taken_over_for_the_objects_that_are_here() {
    let scene = Scene::new().await;
    let here = scene.admit_in("before", "scorer", MODEL).await;
    let gone = scene.admit_in("before", "gone", MODEL).await;
    let other = scene.admit_in("west", "scorer", MODEL).await;
    let stored = scene.objects.apply(object("scorer", &labels(Some(MODEL), Some(here)), &json!({}))).unwrap();

    let shown = audit_as(&scene, Some("before"), Output::Json, Fix::No).await;
    let scorer = |row: u8, write: &str| ("scorer".to_owned(), json!(row), json!(write));
    assert_eq!(shown.differences(), [scorer(8, "take-over"), scorer(4, "patch")]);

    let mended = audit_as(&scene, Some("before"), Output::Json, Fix::Yes).await;

    assert!(matches!(mended.verdict, Ok(Verdict::Mended)), "{:?} {}", mended.verdict, mended.remarks);
    assert_eq!(scene.entry(here).properties["cluster"], CLUSTER);
    assert_eq!(scene.entry(here).properties["uid"], stored["metadata"]["uid"].as_str().unwrap());
    for (id, cluster) in [(gone, "before"), (other, "west")] {
        assert_eq!(scene.entry(id).properties["cluster"], cluster, "it is for no object of this cluster");
        assert_eq!(scene.state(id), "DEPLOYED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_has_an_entry_already_keeps_it_beside_the_one_taken_over() {
    let scene = Scene::new().await;
    let former = scene.admit_in("before", "scorer", MODEL).await;
    let own = scene.create("scorer").await;
    assert_ne!(own, former, "the former cluster's entry was a stranger's when the object was made");

    let mended = audit_as(&scene, Some("before"), Output::Json, Fix::Yes).await;

    assert!(matches!(mended.verdict, Ok(Verdict::Mended)), "{:?} {}", mended.verdict, mended.remarks);
    assert_eq!(scene.entry(former).properties["cluster"], CLUSTER);
    assert_eq!((scene.state(own).as_str(), scene.state(former).as_str()), ("DEPLOYED", "UNDEPLOYED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_cannot_be_read_is_no_agreement() {
    let (scene, [deleted, ..]) = drifted().await;
    scene.faults(json!({"database": "down"}));
    let audited = audit(&scene, Fix::Yes).await;
    let error = audited.verdict.expect_err("nothing can be said").to_string();
    assert!(error.contains(&scene.server.url()), "{error}");
    scene.faults(json!({}));
    scene.source.fail_last_page(true);
    audit(&scene, Fix::Yes).await.verdict.expect_err("nothing can be said of half the objects");
    assert_eq!(scene.state(deleted), "DEPLOYED");
    assert_eq!(NAMESPACE, scene.entry(deleted).environment);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_fail_are_told() {
    let (scene, _) = drifted().await;
    scene.faults(json!({"status": 503, "method": "PATCH"}));
    let audited = audit(&scene, Fix::Yes).await;
    assert!(matches!(audited.verdict, Err(AuditError::NotWritten(1..))), "{:?}", audited.verdict);
}
