//! Nothing is left behind that could refuse or delay anybody's request; and it can come back.

use isvc_registrar_test_cluster::{ControlPlane, Installation};

use super::stream::Stream;
use super::{QUICK, STRICT, Scene};

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn after_an_uninstall_everything_passes_and_an_install_takes_up_where_it_ended() {
    let cluster = ControlPlane::start().await.unwrap();
    let scene = Scene::set(&cluster).await.unwrap();
    let installation = scene.install(&[STRICT]).await.unwrap();
    assert!(scene.deploy("kept").await.unwrap().is_some());
    assert!(scene.deploy("removed").await.unwrap().is_some());
    scene.entry_becomes("removed", "DEPLOYED").await.unwrap();

    installation.uninstall().await.unwrap();

    scene.nothing_is_left().await.unwrap();
    assert_eq!(scene.deploy("meanwhile").await.unwrap(), None);
    scene.delete("removed").await.unwrap();

    scene.install(&[STRICT]).await.unwrap();

    scene.entry_becomes("removed", "UNDEPLOYED").await.unwrap();
    scene.entry_becomes("meanwhile", "DEPLOYED").await.unwrap();
    scene.entry_becomes("kept", "DEPLOYED").await.unwrap();
    assert!(scene.deploy("after").await.unwrap().is_some());
}

/// Without Helm: no hook is needed for anything.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn rendered_manifests_are_applied_again_and_again_and_deleted() {
    let cluster = ControlPlane::start().await.unwrap();
    let scene = Scene::set(&cluster).await.unwrap();
    let installation =
        Installation::prepare(&cluster, &scene.registry, &[&QUICK[..], &[STRICT]].concat()).await.unwrap();
    let manifests = installation.render().await.unwrap();

    cluster.apply(&manifests).await.unwrap();
    installation.rolled_out("isvc-registrar").await.unwrap();
    let certificate = scene.certificate().await.unwrap();
    let stream = Stream::begin(&scene).await.unwrap();
    for again in
        [&["apply", "--filename=-"][..], &["apply", "--server-side", "--force-conflicts", "--filename=-"]]
    {
        cluster.kubectl_with(again, &manifests).await.unwrap().stdout().unwrap();
        stream.goes_on().await.unwrap();
    }
    stream.end().await.unwrap();
    assert_eq!(scene.certificate().await.unwrap(), certificate, "applying took the certificate away");

    let delete = ["delete", "--filename=-"];
    cluster.kubectl_with(&delete, &manifests).await.unwrap().stdout().unwrap();

    scene.nothing_is_left().await.unwrap();
    assert_eq!(scene.deploy("after").await.unwrap(), None);
}
