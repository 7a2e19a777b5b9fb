//! What keeps a restored backup, a copied id and a quarrel with another writer from doing harm.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::scene::{MODEL, Scene, name, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_lost_its_objects_retires_nothing_at_first() {
    let mut scene = Scene::new().await;
    scene.settings.resync = Duration::from_hours(1);
    for at in 0..60 {
        scene.admit(&format!("lost-{at}"), MODEL).await;
    }
    let running = scene.start();
    until("they are held back", || scene.metrics.waiting_for_agreement() == 60).await;
    until("every name was looked at", || running.syncer.is_idle()).await;
    assert!(scene.states().values().all(|state| state == "DEPLOYED"), "{:?}", scene.states());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_three_resyncs_agree_on_is_retired() {
    let scene = Scene::new().await;
    for at in 0..60 {
        scene.admit(&format!("lost-{at}"), MODEL).await;
    }
    let running = scene.start();
    until("all are retired", || scene.states().values().all(|state| state == "UNDEPLOYED")).await;
    assert!(scene.source.lists() >= 3, "after {} lists", scene.source.lists());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_retire_nothing_it_retires_nothing() {
    let mut scene = Scene::new().await;
    scene.settings.retire = false;
    let id = scene.create("scorer").await;
    let lost = scene.admit("lost", MODEL).await;
    let running = scene.start();
    until("the entry is stamped", || scene.entry(id).properties.contains_key("uid")).await;
    scene.objects.delete(&name("scorer"));
    let lists = scene.source.lists();
    until("two resyncs are over", || scene.source.lists() >= lists + 3).await;
    assert_eq!((scene.state(id).as_str(), scene.state(lost).as_str()), ("DEPLOYED", "DEPLOYED"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quarrel_with_another_writer_ends_and_is_counted() {
    let scene = Scene::new().await;
    let id = scene.create("scorer").await;
    let running = scene.start();
    until("the entry is stamped", || scene.entry(id).properties.contains_key("uid")).await;
    until("the write has ended", || running.syncer.is_idle()).await;
    scene.registry().clear_requests();
    // A PATCH without desiredState revives what was retired.
    let set_back = Arc::new(AtomicUsize::new(0));
    let neighbour = tokio::spawn({
        let url = format!("{}/api/model_registry/v1/inference_services/{id}", scene.server.url());
        let (registry, set_back) = (scene.registry().clone(), Arc::clone(&set_back));
        async move {
            let client = reqwest::Client::new();
            loop {
                if registry.entry(id).is_some_and(|entry| entry.desired_state == "UNDEPLOYED") {
                    let patch = client.patch(&url).header("content-type", "application/json");
                    patch.body(json!({"runtime": "triton"}).to_string()).send().await.unwrap();
                    set_back.fetch_add(1, Ordering::SeqCst);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    scene.objects.delete(&name("scorer"));
    until("it gives in", || scene.metrics.contested_writes("registry") > 0).await;
    let ours = scene.patches().len() - set_back.load(Ordering::SeqCst);
    assert!(ours <= 4, "{ours} PATCHes of ours");
    neighbour.abort();
    running.stop().await;
}
