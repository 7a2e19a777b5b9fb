//! What happens while a part is down is made good, and holds up nobody meanwhile.

mod scene;

use anyhow::Result;
use isvc_registrar_test_cluster::ControlPlane;
use scene::{Scene, inference_service};

/// Stops or starts the Pods of the program, and waits until that is done.
async fn scale(scene: &Scene<'_>, replicas: u8) -> Result<()> {
    let namespace = scene.installation.namespace();
    let replicas_flag = format!("--replicas={replicas}");
    let scale = ["scale", "deployment/isvc-registrar", "--namespace", namespace, &replicas_flag];
    scene.cluster.kubectl(&scale).await?.stdout()?;
    if replicas == 0 {
        let selector = "--selector=app.kubernetes.io/name=isvc-registrar";
        let gone = ["wait", "--for=delete", "pod", selector, "--namespace", namespace, "--timeout=60s"];
        return scene.cluster.kubectl(&gone).await?.stdout().map(drop);
    }
    let rollout =
        ["rollout", "status", "deployment/isvc-registrar", "--namespace", namespace, "--timeout=60s"];
    scene.cluster.kubectl(&rollout).await?.stdout().map(drop)
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_object_deleted_while_the_program_was_down_is_retired_once_it_is_back() {
    let cluster = ControlPlane::start().await.unwrap();
    let scene = Scene::set(&cluster).await.unwrap();
    let namespace = cluster.namespace("down").await.unwrap();
    let model = scene.model("iris").await.unwrap();
    let id = scene.deploy(&namespace, "iris", &model).await.unwrap();
    let kept = scene.deploy(&namespace, "kept", &model).await.unwrap();

    scale(&scene, 0).await.unwrap();
    scene.delete(&namespace, "iris").await.unwrap();
    assert_eq!(scene.entry(&id).await.unwrap()["desiredState"], "DEPLOYED", "nobody was there to retire it");
    scale(&scene, 2).await.unwrap();

    scene.entry_becomes(&id, "UNDEPLOYED").await.unwrap();
    assert_eq!(scene.entry(&kept).await.unwrap()["desiredState"], "DEPLOYED");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn without_a_registry_the_object_goes_through_with_a_warning() {
    let cluster = ControlPlane::start().await.unwrap();
    let scene = Scene::set(&cluster).await.unwrap();
    let namespace = cluster.namespace("alone").await.unwrap();
    let model = scene.model("iris").await.unwrap();
    if scene.registry.is_elsewhere() {
        return;
    }

    scene.registry.stop(&cluster).await.unwrap();
    let run = scene.apply(&namespace, &inference_service("iris", &model)).await.unwrap();

    assert!(run.success, "{run:?}");
    assert!(run.stderr.starts_with("Warning: "), "{run:?}");
    scene.delete(&namespace, "iris").await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn without_the_program_every_request_passes() {
    let cluster = ControlPlane::start().await.unwrap();
    let scene = Scene::set(&cluster).await.unwrap();
    let namespace = cluster.namespace("absent").await.unwrap();
    let model = scene.model("iris").await.unwrap();
    scene.deploy(&namespace, "before", &model).await.unwrap();

    scale(&scene, 0).await.unwrap();

    scene.apply(&namespace, &inference_service("during", &model)).await.unwrap().stdout().unwrap();
    scene.delete(&namespace, "before").await.unwrap();
    scene.delete(&namespace, "during").await.unwrap();
}
