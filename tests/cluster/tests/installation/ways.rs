//! Other ways to install it: with a certificate of one's own, and the syncer by itself.

use anyhow::{Result, ensure};
use isvc_registrar_test_cluster::{ControlPlane, Installation};

use super::Scene;

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn with_a_provided_certificate_and_a_syncer_of_its_own_all_works_and_helm_test_passes() {
    let cluster = ControlPlane::start().await.unwrap();
    let scene = Scene::set(&cluster).await.unwrap();
    let provided = Installation::provide_certificate(&cluster).await.unwrap();
    let values: Vec<&str> =
        provided.iter().map(String::as_str).chain(["syncer.standalone=true", "syncer.replicas=1"]).collect();
    let installation = scene.install(&values).await.unwrap();
    installation.rolled_out("isvc-registrar-syncer").await.unwrap();

    assert!(scene.deploy("iris").await.unwrap().is_some());
    scene.delete("iris").await.unwrap();
    scene.entry_becomes("iris", "UNDEPLOYED").await.unwrap();

    passes_its_test(&installation).await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn helm_test_waits_for_an_installation_that_is_still_starting() {
    let cluster = ControlPlane::start().await.unwrap();
    let scene = Scene::set(&cluster).await.unwrap();
    // The syncer has no probes, so that `--wait` tells nothing of it either.
    let installation = Installation::begin(&cluster, &scene.registry, &[]).await.unwrap();
    passes_its_test(&installation).await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn helm_test_tells_an_installation_that_works_from_one_that_does_not() {
    let cluster = ControlPlane::start().await.unwrap();
    let scene = Scene::set(&cluster).await.unwrap();
    let mut installation = scene.install(&[]).await.unwrap();
    passes_its_test(&installation).await.unwrap();

    installation.upgrade(&["replicas=0"]).await.unwrap();
    let run = installation.test().await.unwrap();
    assert!(!run.success, "with no Pod running it says: {run:?}");
}

async fn passes_its_test(installation: &Installation<'_>) -> Result<()> {
    let run = installation.test().await?;
    let said = installation.log("test")?;
    ensure!(run.success && run.stdout.contains("Succeeded"), "`helm test` failed: {said}\n{run:?}");
    Ok(())
}
