//! From the first object to the last release.

use anyhow::Result;
use isvc_registrar_test_cluster::{ControlPlane, Image, Installation, workspace};

use super::stream::Stream;
use super::{QUICK, STRICT, Scene};

/// Nobody waits for a webhook before they deploy their models.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_object_that_comes_before_the_webhook_passes_and_is_registered() {
    let cluster = ControlPlane::start().await.unwrap();
    let scene = Scene::set(&cluster).await.unwrap();

    let installation = Installation::begin(&cluster, &scene.registry, &QUICK).await.unwrap();
    scene.deploy("early").await.unwrap();

    installation.rolled_out("isvc-registrar").await.unwrap();
    scene.entry_becomes("early", "DEPLOYED").await.unwrap();
    assert!(scene.deploy("late").await.unwrap().is_some(), "with a webhook that is ready there is a label");
}

/// What runs in the release's Pods.
async fn images(scene: &Scene<'_>) -> Result<String> {
    let path = ".items[*].spec.containers[*].image";
    let path = format!("--output=jsonpath={{{path}}}");
    let get = ["get", "pods", "--namespace=isvc-registrar", &path];
    Ok(scene.cluster.kubectl(&get).await?.stdout()?.trim().to_owned())
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn upgrades_and_rollbacks_refuse_nothing_and_label_everything() {
    let cluster = ControlPlane::start().await.unwrap();
    let next = Image::of(workspace::program_under_test().unwrap());
    cluster.images().insert("isvc-registrar:next", next);
    let scene = Scene::set(&cluster).await.unwrap();
    let mut installation = scene.install(&[STRICT]).await.unwrap();
    let certificate = scene.certificate().await.unwrap();
    let transitions = ".spec.leaseTransitions";
    let stream = Stream::begin(&scene).await.unwrap();

    installation.upgrade(&["image.tag=next"]).await.unwrap();
    assert_eq!(images(&scene).await.unwrap(), ["isvc-registrar:next"; 4].join(" "));
    stream.goes_on().await.unwrap();
    let led = scene.field("lease", "isvc-registrar-syncer", transitions).await.unwrap();

    installation.upgrade(&["registration.onMissing=warn"]).await.unwrap();
    stream.goes_on().await.unwrap();

    installation.roll_back().await.unwrap();
    stream.goes_on().await.unwrap();
    let led_after = scene.field("lease", "isvc-registrar-syncer", transitions).await.unwrap();

    stream.end().await.unwrap();
    assert_eq!(scene.certificate().await.unwrap(), certificate, "the release was given another certificate");
    let [led, led_after] = [led, led_after].map(|count| count.parse::<u32>().unwrap());
    assert!(led_after >= led, "the Lease has begun anew: {led} transitions, then {led_after}");
    scene.entry_becomes("stream-0", "DEPLOYED").await.unwrap();
}
