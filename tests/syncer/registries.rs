//! Registries that come later, come twice, or come back other than they were.

use std::time::Duration;

use serde_json::json;

use crate::scene::{CLUSTER, MODEL, Scene, admit, labels, name, object, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_configured_twice_loses_nothing() {
    let mut scene = Scene::new().await;
    scene.same_registry_again("alias");
    let running = scene.start();
    let stays = scene.create("stays").await;
    let goes = scene.create("goes").await;
    let settled = |id: i32| scene.entry(id).properties.contains_key("uid");
    until("both are settled", || settled(stays) && settled(goes)).await;
    until("the writes have ended", || running.syncer.is_idle()).await;
    scene.registry().clear_requests();
    let lists = scene.source.lists();
    until("two resyncs are over", || scene.source.lists() >= lists + 3).await;
    assert_eq!(scene.patches(), [], "there is nothing to write");
    scene.objects.delete(&name("goes"));
    until("the entry is retired", || scene.state(goes) == "UNDEPLOYED").await;
    assert_eq!(scene.state(stays), "DEPLOYED");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_configured_later_is_compared_at_once() {
    let mut scene = Scene::new().await;
    // Nothing but its coming can be the reason.
    scene.settings.resync = Duration::from_hours(1);
    scene.settings.full_resync = Duration::from_hours(1);
    let directory = scene.directory();
    let running = scene.start_with(directory.clone());
    let settled = scene.create("scorer").await;
    until("the first one is in use", || scene.entry(settled).properties.contains_key("uid")).await;

    let second = scene.another_registry("second").await;
    let lost = admit(scene.last_client(), CLUSTER.into(), "lost".into(), MODEL).await;
    directory.set(scene.configured());

    until("what it holds of this cluster is retired", || {
        second.registry().entry(lost).is_some_and(|entry| entry.desired_state == "UNDEPLOYED")
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_a_restored_registry_gives_out_again_are_their_new_owners() {
    let mut scene = Scene::new().await;
    let objects = ["a", "b", "c", "d"];
    let mut ids = Vec::new();
    for object in objects {
        ids.push(scene.create(object).await);
    }
    let running = scene.start();
    until("all are settled", || ids.iter().all(|id| scene.entry(*id).properties.contains_key("uid"))).await;

    scene.faults(json!({"status": 503}));
    scene.lose_the_registry().await;
    scene.faults(json!({"status": 503, "method": "PATCH"}));
    let mut strangers = Vec::new();
    for at in 0..=objects.len() {
        strangers.push(scene.admit_in("west", &format!("west-{at}"), MODEL).await);
    }
    let before: Vec<_> = strangers.iter().map(|id| scene.entry(*id)).collect();
    scene.faults(json!({}));

    let ours = |object: &str| {
        let entries = scene.registry().entries().into_iter();
        let mut own = entries.filter(|entry| {
            entry.properties.get("cluster").is_some_and(|cluster| cluster == CLUSTER) && entry.name == object
        });
        own.any(|entry| entry.desired_state == "DEPLOYED" && entry.properties.contains_key("uid"))
    };
    until("every object has an entry again", || objects.iter().all(|object| ours(object))).await;
    assert!(ids.iter().any(|id| strangers.contains(id)), "ids were given out again");
    let after: Vec<_> = strangers.iter().map(|id| scene.entry(*id)).collect();
    assert_eq!(after, before, "entries of others are as they were");

    for object in objects {
        scene.objects.delete(&name(object));
    }
    until("ours have ended", || {
        let entries = scene.registry().entries().into_iter();
        let mut own = entries.filter(|entry| entry.properties["cluster"] == CLUSTER);
        own.all(|entry| entry.desired_state == "UNDEPLOYED")
    })
    .await;
    let after: Vec<_> = strangers.iter().map(|id| scene.entry(*id)).collect();
    assert_eq!(after, before, "entries of others are as they were");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_whose_labelled_entry_is_lost_is_registered_anew() {
    let mut scene = Scene::new().await;
    let running = scene.start();
    let id = scene.create("scorer").await;
    until("it is settled", || scene.entry(id).properties.contains_key("uid")).await;
    scene.lose_the_registry().await;
    until("it has an entry again", || scene.states().get("scorer").is_some_and(|state| state == "DEPLOYED"))
        .await;
    scene.objects.apply(object("scorer", &labels(Some(MODEL), None), &json!({})));
    scene.objects.delete(&name("scorer"));
    until("that has ended", || scene.states()["scorer"] == "UNDEPLOYED").await;
    running.stop().await;
}
