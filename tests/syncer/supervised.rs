//! The process goes on, whatever becomes of a part of it.

use crate::scene::{Scene, name, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_panics_is_begun_anew_and_its_name_is_not_lost() {
    let mut scene = Scene::new().await;
    scene.settings.workers = 1;
    let id = scene.create("scorer").await;
    let running = scene.start();
    until("the entry is stamped", || scene.entry(id).properties.contains_key("uid")).await;

    scene.source.before_get(|| panic!("this test needs a worker that panics"));
    scene.objects.delete(&name("scorer"));

    until("the restart is counted", || scene.metrics.restarts("worker") == 1).await;
    until("the entry is retired", || scene.state(id) == "UNDEPLOYED").await;
    running.stop().await;
}
