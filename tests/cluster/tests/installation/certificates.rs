//! The certificate changes while models are deployed, and nobody notices.

use anyhow::ensure;
use isvc_registrar_test_cluster::{ControlPlane, wait};

use super::stream::Stream;
use super::{STRICT, Scene};

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_certificate_is_renewed_and_a_damaged_one_is_replaced_without_a_refusal() {
    let cluster = ControlPlane::start().await.unwrap();
    let scene = Scene::set(&cluster).await.unwrap();
    scene.install(&[STRICT, "certificate.lifetime=1m"]).await.unwrap();
    let secret = async || scene.field("secret", "isvc-registrar-tls", ".data['tls\\.crt']").await;
    let stream = Stream::begin(&scene).await.unwrap();

    let first = secret().await.unwrap();
    wait::until("the certificate is renewed", async || {
        ensure!(secret().await? != first, "it is the first one");
        Ok(())
    })
    .await
    .unwrap();
    stream.goes_on().await.unwrap();

    let nonsense = r#"{"stringData": {"tls.crt": "nonsense", "ca.key": "nonsense"}}"#;
    let damage = ["patch", "secret", "isvc-registrar-tls", "--namespace=isvc-registrar", "--patch", nonsense];
    cluster.kubectl(&damage).await.unwrap().stdout().unwrap();
    let nonsense = "bm9uc2Vuc2U=";
    wait::until("what was damaged is replaced", async || {
        ensure!(secret().await? != nonsense, "it is not");
        Ok(())
    })
    .await
    .unwrap();

    stream.end().await.unwrap();
}
