//! How many objects stand how, as the metrics tell it.

use serde_json::json;

use crate::scene::{MODEL, NAMESPACE, Scene, labels, name, object, until};

/// An id that is well-formed, and that the registry has not come to yet.
const UNKNOWN_MODEL: i32 = 99;

fn says(scene: &Scene, state: &str, count: usize) -> bool {
    let line =
        format!("isvc_registrar_syncer_objects{{namespace=\"{NAMESPACE}\",state=\"{state}\"}} {count}");
    scene.metrics_text().lines().any(|said| said == line)
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_counted_by_how_they_stand() {
    let scene = Scene::new().await;
    scene.create("good").await;
    scene.objects.apply(object("invalid", &labels(Some(UNKNOWN_MODEL), None), &json!({})));
    let west = scene.admit_in("west", "other", MODEL).await;
    scene.objects.apply(object("foreign", &labels(None, Some(west)), &json!({})));
    scene.objects.apply(object("unconcerned", &json!({}), &json!({})));
    let running = scene.start();
    for state in ["registered", "invalid", "foreign"] {
        until(&format!("one object is {state}"), || says(&scene, state, 1)).await;
    }
    assert!(says(&scene, "pending", 0) && says(&scene, "stale", 0), "{}", scene.metrics_text());

    scene.faults(json!({"status": 503}));
    scene.objects.apply(object("late", &labels(Some(MODEL), None), &json!({})));
    until("the new object waits for the registry", || says(&scene, "pending", 1)).await;
    assert!(says(&scene, "registered", 1), "what was known is forgotten: {}", scene.metrics_text());

    scene.faults(json!({}));
    until("it waits no longer", || says(&scene, "registered", 2) && says(&scene, "pending", 0)).await;
    scene.objects.delete(&name("late"));
    until("it is counted no longer", || says(&scene, "registered", 1)).await;

    scene.fence.close();
    until("a replica that does not lead tells nothing", || {
        !scene.metrics_text().contains("isvc_registrar_syncer_objects{")
    })
    .await;
    running.stop().await;
}
