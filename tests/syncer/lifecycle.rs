//! From the first sight of an object to its end.

use std::time::Duration;

use isvc_registrar::registry::directory::{Configured, Directory};
use isvc_registrar::syncer::Fence;
use serde_json::json;
use tokio::time::Instant;

use crate::scene::{
    CLUSTER, MODEL, NAMESPACE, OTHER_MODEL, Scene, VERSION, label, labels, name, object, ready, until,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_goes_leaves_its_entry_undeployed() {
    let scene = Scene::new().await;
    let running = scene.start();
    let id = scene.create("scorer").await;
    until("the entry is stamped", || scene.entry(id).properties.contains_key("uid")).await;
    assert_eq!(scene.state(id), "DEPLOYED");
    scene.objects.delete(&name("scorer"));
    until("the entry is retired", || scene.state(id) == "UNDEPLOYED").await;
    scene.objects.apply(object("scorer", &labels(Some(MODEL), Some(id)), &json!({})));
    until("the entry is deployed again", || scene.state(id) == "DEPLOYED").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_while_the_syncer_was_down_is_retired_at_its_start() {
    let scene = Scene::new().await;
    let stays = scene.create("stays").await;
    let goes = scene.create("goes").await;
    scene.objects.delete(&name("goes"));
    let running = scene.start();
    until("the entry is retired", || scene.state(goes) == "UNDEPLOYED").await;
    assert_eq!(scene.state(stays), "DEPLOYED");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_in_a_gap_of_the_watch_is_retired() {
    let mut scene = Scene::new().await;
    // Nothing but the watch's own list can find it.
    scene.settings.resync = Duration::from_hours(1);
    scene.settings.full_resync = Duration::from_hours(1);
    let stays = scene.create("stays").await;
    let goes = scene.create("goes").await;
    let running = scene.start();
    until("both are settled", || {
        [stays, goes].iter().all(|id| scene.entry(*id).properties.contains_key("uid"))
    })
    .await;
    scene.source.hold_watch(true);
    scene.objects.delete(&name("goes"));
    scene.objects.apply(object("late", &labels(Some(MODEL), None), &json!({})));
    scene.objects.compact();
    scene.source.break_watches();
    scene.source.hold_watch(false);
    until("the entry is retired", || scene.state(goes) == "UNDEPLOYED").await;
    until("what came meanwhile is registered", || scene.states().contains_key("late")).await;
    assert_eq!(scene.state(stays), "DEPLOYED");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_webhook_missed_is_registered_without_touching_the_object() {
    let scene = Scene::new().await;
    let running = scene.start();
    let stored =
        scene.objects.apply(object("scorer", &labels(Some(MODEL), None), &ready("http://a"))).unwrap();
    until("it is registered", || scene.states().contains_key("scorer")).await;
    until("it says where", || {
        scene.registry().entries()[0].properties.get("url").is_some_and(|url| url == "http://a")
    })
    .await;
    let entry = &scene.registry().entries()[0];
    assert_eq!((entry.environment.as_str(), entry.desired_state.as_str()), (NAMESPACE, "DEPLOYED"));
    assert_eq!(entry.properties["ready"], "True");
    assert_eq!(entry.properties["cluster"], CLUSTER);
    assert_eq!(scene.objects.object(&name("scorer")).unwrap(), stored, "the object is as it was");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_status_updates_becomes_one_patch() {
    let scene = Scene::new().await;
    let running = scene.start();
    let id = scene.create("scorer").await;
    until("the entry is stamped", || scene.entry(id).properties.contains_key("uid")).await;
    scene.registry().clear_requests();
    for round in 0..30 {
        let status = ready(&format!("http://{round}"));
        scene.objects.apply(object("scorer", &labels(Some(MODEL), Some(id)), &status));
        tokio::task::yield_now().await;
    }
    until("the last one is written", || {
        scene.entry(id).properties.get("url").is_some_and(|url| url == "http://29")
    })
    .await;
    assert!(scene.patches().len() <= 2, "{:?}", scene.patches());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_cluster_costs_no_call_for_each_object() {
    let scene = Scene::new().await;
    let mut ids = Vec::new();
    for at in 0..40 {
        ids.push(scene.create(&format!("scorer-{at}")).await);
    }
    let first = scene.start();
    until("all are settled", || ids.iter().all(|id| scene.entry(*id).properties.contains_key("uid"))).await;
    first.stop().await;
    scene.registry().clear_requests();
    let lists = scene.source.lists();
    let second = scene.start();
    // Lists of environments and entries, then of objects; the second time round all is known to be the same.
    until("two resyncs are over", || scene.source.lists() >= lists + 3).await;
    second.stop().await;
    let requests = scene.registry().requests();
    assert!(requests.len() < ids.len(), "{} calls for {} objects: {requests:#?}", requests.len(), ids.len());
    assert_eq!(scene.patches(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_model_label_moves_the_former_entry_is_retired() {
    let scene = Scene::new().await;
    let running = scene.start();
    let former = scene.create("scorer").await;
    until("the entry is stamped", || scene.entry(former).properties.contains_key("uid")).await;
    let new = scene.admit("scorer", OTHER_MODEL).await;
    assert_ne!(former, new);
    scene.objects.apply(object("scorer", &labels(Some(OTHER_MODEL), Some(new)), &json!({})));
    until("the former entry is retired", || scene.state(former) == "UNDEPLOYED").await;
    assert_eq!(scene.state(new), "DEPLOYED");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_both_labels_go_the_entry_is_retired() {
    let scene = Scene::new().await;
    let running = scene.start();
    let id = scene.create("scorer").await;
    until("the entry is stamped", || scene.entry(id).properties.contains_key("uid")).await;
    scene.objects.apply(object("scorer", &json!({}), &json!({})));
    until("the entry is retired", || scene.state(id) == "UNDEPLOYED").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_registry_label_moves_the_entry_follows() {
    let mut scene = Scene::new().await;
    let second = scene.another_registry("second").await;
    let running = scene.start();
    let id = scene.create("scorer").await;
    until("the entry is stamped", || scene.entry(id).properties.contains_key("uid")).await;
    let mut moved = labels(Some(MODEL), None);
    moved[label("name")] = json!("second");
    scene.objects.apply(object("scorer", &moved, &json!({})));
    until("it is registered in the second", || !second.registry().entries().is_empty()).await;
    until("it is retired in the first", || scene.state(id) == "UNDEPLOYED").await;
    assert_eq!(second.registry().entries()[0].desired_state, "DEPLOYED");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_was_refused_after_admission_is_cleaned_up_after_the_grace() {
    let mut scene = Scene::new().await;
    scene.settings.grace = Duration::from_mins(5);
    scene.set_clock_off(-600_000);
    let old = scene.admit("old", MODEL).await;
    scene.set_clock_off(-60_000);
    let young = scene.admit("young", MODEL).await;
    let running = scene.start();
    until("the old one is retired", || scene.state(old) == "UNDEPLOYED").await;
    assert_eq!(scene.state(young), "DEPLOYED", "a create may still be under way");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_recorded_once() {
    let scene = Scene::new().await;
    let running = scene.start();
    let id = scene.admit("scorer", MODEL).await;
    let mut versioned = labels(Some(MODEL), Some(id));
    versioned[label("model-version-id")] = json!(VERSION.to_string());
    let stored = scene.objects.apply(object("scorer", &versioned, &ready("http://a"))).unwrap();
    let uid = stored["metadata"]["uid"].as_str().unwrap();
    let recorded = format!("{uid}/{VERSION}/RUNNING");
    until("it is recorded", || {
        scene.entry(id).properties.get("recorded").is_some_and(|there| *there == recorded)
    })
    .await;
    let posts =
        || scene.registry().requests().iter().filter(|request| request.target.contains("/serves")).count();
    assert_eq!(posts(), 1);
    scene.objects.apply(object("scorer", &versioned, &ready("http://b")));
    until("the change is written", || {
        scene.entry(id).properties.get("url").is_some_and(|url| url == "http://b")
    })
    .await;
    assert_eq!(posts(), 1);
    assert_eq!(scene.entry(id).model_version_id, Some(VERSION));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_of_another_model_is_never_written() {
    let scene = Scene::new().await;
    let running = scene.start();
    let id = scene.admit("scorer", OTHER_MODEL).await;
    let mut versioned = labels(Some(OTHER_MODEL), Some(id));
    versioned[label("model-version-id")] = json!(VERSION.to_string());
    scene.objects.apply(object("scorer", &versioned, &ready("http://a")));
    until("the rest is written", || scene.entry(id).properties.contains_key("url")).await;
    assert_eq!(scene.entry(id).model_version_id, None);
    let told = scene.objects.notices();
    assert!(
        told.iter().any(|(_, notice)| notice.message.contains("belongs to registered model 7")),
        "{told:?}"
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_registry_is_away_nothing_is_lost_and_no_deletion_waits() {
    let mut scene = Scene::new().await;
    scene.settings.release_finalizer = Some("example.org/finalizer".into());
    let id = scene.create("scorer").await;
    let mut with_finalizer = object("scorer", &labels(Some(MODEL), Some(id)), &json!({}));
    with_finalizer["metadata"]["finalizers"] = json!(["example.org/finalizer"]);
    scene.objects.apply(with_finalizer);
    let running = scene.start();
    until("the entry is stamped", || scene.entry(id).properties.contains_key("uid")).await;
    scene.faults(json!({"status": 503}));
    scene.objects.delete(&name("scorer"));
    until("the object is gone", || scene.objects.object(&name("scorer")).is_none()).await;
    scene.objects.apply(object("missed", &labels(Some(MODEL), None), &json!({})));
    until("the users are told", || !scene.objects.notices().is_empty()).await;
    scene.faults(json!({}));
    until("the entry is retired", || scene.state(id) == "UNDEPLOYED").await;
    until("what was missed is registered", || scene.states().contains_key("missed")).await;
    running.stop().await;
}

/// An object of which nobody says anything to the registry, held by the finalizer that is to be released.
fn held_by_finalizer(scene: &mut Scene) {
    scene.settings.release_finalizer = Some("example.org/finalizer".into());
    let mut held = object("held", &json!({}), &json!({}));
    held["metadata"]["finalizers"] = json!(["example.org/finalizer"]);
    scene.objects.apply(held);
    scene.faults(json!({"status": 503}));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_was_being_deleted_before_the_start_is_let_go_whatever_the_registry_does() {
    let mut scene = Scene::new().await;
    held_by_finalizer(&mut scene);
    scene.objects.delete(&name("held"));
    assert!(scene.objects.object(&name("held")).is_some(), "the finalizer holds it");
    let running = scene.start();
    until("no finalizer holds the object", || scene.objects.object(&name("held")).is_none()).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_was_being_deleted_while_another_replica_acted_is_let_go_at_the_takeover() {
    let mut scene = Scene::new().await;
    scene.fence = Fence::closed();
    held_by_finalizer(&mut scene);
    scene.objects.delete(&name("held"));
    // Nothing can be compared either: the registries are not known yet.
    let unknown = Configured { complete: false, registries: Vec::new(), ..scene.configured() };
    let running = scene.start_with(Directory::of(unknown));
    until("the objects are known", || running.syncer.is_ready()).await;
    until("nobody works on it", || running.syncer.is_idle()).await;
    assert!(scene.objects.object(&name("held")).is_some(), "this replica may not act yet");
    scene.fence.move_to(Instant::now() + Duration::from_hours(1));
    until("no finalizer holds the object", || scene.objects.object(&name("held")).is_none()).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lying_404_of_a_database_that_is_down_changes_nothing() {
    let scene = Scene::new().await;
    let running = scene.start();
    let id = scene.create("scorer").await;
    until("the entry is stamped", || scene.entry(id).properties.contains_key("uid")).await;
    let before = scene.entry(id);
    scene.faults(json!({"database": "down"}));
    scene.objects.apply(object("scorer", &labels(Some(MODEL), Some(id)), &ready("http://a")));
    until("it was tried", || {
        scene.registry().requests().iter().any(|request| request.status == 404 && request.method == "GET")
    })
    .await;
    assert_eq!(scene.entry(id), before);
    scene.faults(json!({}));
    until("the change is written", || scene.entry(id).properties.contains_key("url")).await;
    assert_eq!(scene.registry().entries().len(), 1, "no second entry was made");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_told_twice() {
    let scene = Scene::new().await;
    let running = scene.start();
    scene.objects.apply(object("scorer", &labels(Some(555), None), &json!({})));
    until("the users are told", || !scene.objects.notices().is_empty()).await;
    let resyncs = scene.source.lists();
    until("it was tried again", || scene.source.lists() >= resyncs + 4).await;
    let told = scene.objects.notices();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].1.message.contains("registered model 555 does not exist"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_counts_as_deployed_only_once_the_status_is_its_own() {
    let scene = Scene::new().await;
    let running = scene.start();
    let id = scene.admit("scorer", MODEL).await;
    let of_version = |version: i32| {
        let mut labels = labels(Some(MODEL), Some(id));
        labels[label("model-version-id")] = json!(version.to_string());
        labels
    };
    let recorded = |version: i32| {
        let state = format!("/{version}/RUNNING");
        scene.entry(id).properties.get("recorded").is_some_and(|recorded| recorded.ends_with(&state))
    };
    scene.objects.apply(object("scorer", &of_version(VERSION), &ready("http://a")));
    until("the first version is recorded", || recorded(VERSION)).await;

    scene.objects.apply(object("scorer", &of_version(VERSION + 1), &ready("http://a")));
    until("the entry has the new version", || scene.entry(id).model_version_id == Some(VERSION + 1)).await;
    let lists = scene.source.lists();
    until("two resyncs are over", || scene.source.lists() >= lists + 3).await;
    assert!(recorded(VERSION), "the status is still that of the version before");

    scene.objects.apply(object("scorer", &of_version(VERSION + 1), &ready("http://b")));
    until("the new version is recorded", || recorded(VERSION + 1)).await;
    running.stop().await;
}
