//! One replica acts; the others follow and write nothing.

use std::time::Duration;

use isvc_registrar::syncer::Fence;
use serde_json::json;
use tokio::time::Instant;

use crate::scene::{MODEL, Scene, labels, name, object, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_writes_nothing_and_makes_up_for_it_when_it_takes_over() {
    let mut scene = Scene::new().await;
    scene.fence = Fence::closed();
    scene.settings.grace = Duration::from_hours(1);
    let running = scene.start();
    let deleted = scene.create("deleted").await;
    until("the follower has listed", || running.syncer.is_ready()).await;
    scene.objects.apply(object("missed", &labels(Some(MODEL), None), &json!({})));
    scene.objects.delete(&name("deleted"));
    // The last change goes through the same watch as those before it.
    until("it has seen all that", || running.syncer.is_idle() && scene.source.lists() > 0).await;
    assert_eq!(scene.patches(), []);
    assert_eq!(scene.states().len(), 1);
    scene.fence.move_to(Instant::now() + Duration::from_hours(1));
    // Well within the grace, since this process saw it go.
    until("the entry is retired", || scene.state(deleted) == "UNDEPLOYED").await;
    until("what was missed is registered", || scene.states().contains_key("missed")).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_waits_for_the_write_that_is_under_way() {
    let scene = Scene::new().await;
    let id = scene.create("scorer").await;
    let running = scene.start();
    until("the entry is stamped", || scene.entry(id).properties.contains_key("uid")).await;
    scene.registry().clear_requests();
    scene.faults(json!({"delayMs": 300, "method": "PATCH"}));
    scene.objects.delete(&name("scorer"));
    until("the PATCH has arrived", || scene.state(id) == "UNDEPLOYED").await;
    running.stop().await;
    assert!(scene.metrics_text().contains("outcome=\"written\""), "{}", scene.metrics_text());
}
