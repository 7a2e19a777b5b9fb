//! The registry's token is rotated.

use anyhow::Result;
use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry};
use serde_json::json;

use crate::drill::{Drill, QUICK};
use crate::gate::Gate;

async fn write_token(cluster: &ControlPlane, installation: &Installation<'_>, token: &str) -> Result<()> {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "registry-token", "namespace": installation.namespace()},
        "stringData": {"token": token},
    });
    cluster.apply(&secret.to_string()).await.map(drop)
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_rotated_token_is_used_without_a_restart() {
    let cluster = ControlPlane::start().await.unwrap();
    let registry = Registry::of_cluster(&cluster).await.unwrap();
    let mut installation = Installation::install(&cluster, &registry, &QUICK).await.unwrap();
    let gate = Gate::open(registry.url(), "first").await.unwrap();
    write_token(&cluster, &installation, "first").await.unwrap();
    let url = format!("registry.url={}", gate.url());
    let secret = ["registry.token.from=secret", "registry.token.secret=registry-token", &url];
    installation.upgrade(&secret).await.unwrap();
    let drill = Drill::of(&cluster, &registry, "token").await.unwrap();
    let id = drill.deploy("before").await.unwrap();
    drill.registry_tells_the_truth().await.unwrap();

    gate.rotate("second");
    drill.delete("before").await.unwrap();
    assert_eq!(drill.create("meanwhile").await.unwrap(), None, "the old token is refused");
    write_token(&cluster, &installation, "second").await.unwrap();

    drill.registry_tells_the_truth().await.unwrap();
    assert_eq!(drill.entry(&id).await.unwrap()["desiredState"], "UNDEPLOYED");
}
