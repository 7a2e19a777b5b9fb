//! Races that would retire a live model, were it not for the guard in front of every PATCH.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use isvc_registrar::syncer::Fence;
use serde_json::json;
use tokio::time::Instant;

use crate::scene::{MODEL, NAMESPACE, Scene, admit, labels, name, object, patch, until, url_of};

/// A scene with one settled object, and the id of its entry.
async fn settled(scene: &Scene) -> (crate::scene::Running, i32) {
    let id = scene.create("scorer").await;
    let running = scene.start();
    until("the entry is stamped", || scene.entry(id).properties.contains_key("uid")).await;
    // The registry notes a request only after it has done what was asked.
    until("the write has ended", || running.syncer.is_idle()).await;
    scene.registry().clear_requests();
    (running, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_created_again_while_its_deletion_is_worked_on_keeps_its_entry() {
    let scene = Scene::new().await;
    let (running, id) = settled(&scene).await;
    let (source, objects) = (Arc::clone(&scene.source), scene.objects.clone());
    scene.source.before_get(move || {
        // The watch is late: only an uncached GET can know of it.
        source.hold_watch(true);
        objects.apply(object("scorer", &labels(Some(MODEL), Some(id)), &json!({})));
        std::future::ready(()).boxed()
    });
    scene.objects.delete(&name("scorer"));
    until("the guard has refused", || scene.metrics.guarded() > 0).await;
    assert_eq!(scene.patches(), [], "nothing was written");
    scene.source.hold_watch(false);
    until("the new object is settled", || {
        let uid =
            scene.objects.object(&name("scorer")).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        scene.entry(id).properties["uid"] == uid
    })
    .await;
    assert_eq!(scene.state(id), "DEPLOYED");
    running.stop().await;
}

/// Makes the entry at this URL another cluster's, as that cluster's registrar would.
async fn make_west_s(url: String) {
    let text = |value: &str| json!({"metadataType": "MetadataStringValue", "string_value": value});
    let body = json!({"desiredState": "DEPLOYED", "customProperties": {
        "managedBy": text("isvc-registrar"), "cluster": text("west"), "namespace": text(NAMESPACE),
        "name": text("scorer")}});
    patch(url, body).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_retired_by_a_look_at_the_object_a_look_at_the_entry_and_one_write() {
    let scene = Scene::new().await;
    let (running, id) = settled(&scene).await;
    let gets = scene.source.gets();
    scene.objects.delete(&name("scorer"));
    until("the entry is retired", || scene.state(id) == "UNDEPLOYED").await;
    until("the job has ended", || running.syncer.is_idle()).await;
    let requests = scene.registry().requests();
    let of_the_entry = requests.iter().filter(|request| request.target.ends_with(&format!("/{id}")));
    let methods: Vec<_> = of_the_entry.map(|request| request.method.as_str()).collect();
    assert_eq!(methods, ["GET", "PATCH"]);
    assert_eq!(scene.source.gets() - gets, 1, "the object was asked for once, from no cache");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_became_another_cluster_s_meanwhile_is_left_alone() {
    let scene = Scene::new().await;
    let (running, id) = settled(&scene).await;
    let url = url_of(&scene.server, id);
    scene.source.before_get(move || make_west_s(url).boxed());
    let gets = scene.source.gets();
    scene.objects.delete(&name("scorer"));
    until("the object was asked for", || scene.source.gets() > gets).await;
    until("the job has ended", || running.syncer.is_idle()).await;
    assert_eq!(scene.patches().len(), 1, "only the other cluster wrote");
    assert_eq!(scene.state(id), "DEPLOYED");
    assert_eq!(scene.entry(id).properties["cluster"], "west");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_one_object_that_became_another_cluster_s_meanwhile_are_left_alone() {
    let mut scene = Scene::new().await;
    // The entry in the second registry is no business of ours until the object has gone.
    scene.settings.grace = Duration::from_mins(5);
    let second = scene.another_registry("second").await;
    let there = admit(scene.last_client(), crate::scene::CLUSTER.into(), "scorer".into(), MODEL).await;
    let (running, here) = settled(&scene).await;
    let urls = [url_of(&scene.server, here), url_of(&second, there)];
    // Both were read before the first is asked for once more.
    scene.source.before_get(move || join_all(urls.map(make_west_s)).map(drop).boxed());
    scene.objects.delete(&name("scorer"));
    until("the guard has refused", || scene.metrics.guarded() > 0).await;
    until("the job has ended", || running.syncer.is_idle()).await;
    for (registry, id) in [(scene.registry(), here), (second.registry(), there)] {
        let patches = registry.requests().into_iter().filter(|request| request.method == "PATCH");
        assert_eq!(patches.count(), 1, "only the other cluster wrote");
        assert_eq!(registry.entry(id).unwrap().desired_state, "DEPLOYED");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_was_touched_meanwhile_has_its_grace_again() {
    let mut scene = Scene::new().await;
    scene.settings.grace = Duration::from_mins(5);
    scene.set_clock_off(-600_000);
    let id = scene.admit("scorer", MODEL).await;
    scene.set_clock_off(0);
    let url = url_of(&scene.server, id);
    scene.source.before_get(move || patch(url, json!({"desiredState": "DEPLOYED"})).boxed());
    let running = scene.start();
    until("the object was asked for", || scene.source.gets() > 0).await;
    until("the job has ended", || running.syncer.is_idle()).await;
    assert_eq!(scene.patches().len(), 1, "nobody wrote but whoever touched it");
    assert_eq!(scene.state(id), "DEPLOYED");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partial_list_of_objects_makes_nothing_count_as_missing() {
    let scene = Scene::new().await;
    // More than one page; the object with an entry is on the last.
    for at in 0..501 {
        scene.objects.apply(object(&format!("plain-{at}"), &json!({}), &json!({})));
    }
    let id = scene.create("scorer").await;
    scene.source.fail_last_page(true);
    // Deleted and created again at the very moment at which it is asked for: the GET alone would not help.
    let (objects, again) = (scene.objects.clone(), scene.objects.clone());
    scene.source.before_get(move || {
        objects.delete(&name("scorer"));
        std::future::ready(()).boxed()
    });
    scene.source.after_get(move || {
        again.apply(object("scorer", &labels(Some(MODEL), Some(id)), &json!({})));
        std::future::ready(()).boxed()
    });
    let running = scene.start();
    until("the list has failed again and again", || scene.source.lists() >= 6).await;
    assert_eq!(scene.state(id), "DEPLOYED");
    assert_eq!(scene.source.gets(), 0, "nothing was even about to be retired");
    scene.source.fail_last_page(false);
    until("the object is settled", || scene.entry(id).properties.contains_key("uid")).await;
    assert_eq!(scene.state(id), "DEPLOYED");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_made_between_the_two_lists_is_not_missing() {
    let scene = Scene::new().await;
    let (running, _) = settled(&scene).await;
    scene.source.hold_watch(true);
    let (client, objects, source) = (scene.client(), scene.objects.clone(), Arc::clone(&scene.source));
    let gets = scene.source.gets();
    scene.source.after_list(move || {
        async move {
            let id = admit(client, crate::scene::CLUSTER.into(), "between".into(), MODEL).await;
            objects.apply(object("between", &labels(Some(MODEL), Some(id)), &json!({})));
            // And gone for a moment when it is asked for: the GET alone would not help.
            let (store, again) = (objects.clone(), objects);
            source.before_get(move || {
                store.delete(&name("between"));
                std::future::ready(()).boxed()
            });
            source.after_get(move || {
                again.apply(object("between", &labels(Some(MODEL), Some(id)), &json!({})));
                std::future::ready(()).boxed()
            });
        }
        .boxed()
    });
    until("the object was made", || scene.states().contains_key("between")).await;
    let lists = scene.source.lists();
    until("two more resyncs are over", || scene.source.lists() >= lists + 3).await;
    assert_eq!(scene.states()["between"], "DEPLOYED");
    assert_eq!(scene.source.gets(), gets, "nothing was even about to be retired");
    scene.source.hold_watch(false);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_api_server_cannot_be_asked_nothing_is_retired() {
    let scene = Scene::new().await;
    let (running, id) = settled(&scene).await;
    scene.source.fail_gets(true);
    scene.objects.delete(&name("scorer"));
    until("it was tried again", || scene.source.gets() >= 2).await;
    assert_eq!(scene.patches(), []);
    scene.source.fail_gets(false);
    until("the entry is retired", || scene.state(id) == "UNDEPLOYED").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lost_between_plan_and_write_stops_the_write() {
    let mut scene = Scene::new().await;
    scene.fence = Fence::closed();
    scene.fence.move_to(Instant::now() + Duration::from_hours(1));
    let (running, id) = settled(&scene).await;
    let fence = scene.fence.clone();
    scene.source.before_get(move || {
        fence.close();
        std::future::ready(()).boxed()
    });
    let gets = scene.source.gets();
    scene.objects.delete(&name("scorer"));
    until("the write was about to be made", || scene.source.gets() > gets).await;
    until("the job has ended", || running.syncer.is_idle()).await;
    assert_eq!(scene.patches(), [], "another replica may act by now");
    scene.fence.move_to(Instant::now() + Duration::from_hours(1));
    until("the entry is retired", || scene.state(id) == "UNDEPLOYED").await;
    running.stop().await;
}
