//! What the chart renders, and what it refuses.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too, which the lint cannot see")]

mod certificates;
mod monitoring;
mod names;
mod pods;
mod rendering;
mod values;
mod webhooks;

use isvc_registrar_test_cluster::ControlPlane;
use rendering::{EVERYTHING, PROVIDED, helm, objects, render};
use serde_json::json;

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn it_lints_clean() {
    for values in [&[][..], &["--values", PROVIDED], &["--values", EVERYTHING]] {
        let run = helm(&["lint", "--strict"], values).await.unwrap();
        assert!(run.success && !run.stdout.contains("WARN"), "{run:?}");
    }
}

/// A GitOps tool renders again and again, and takes every difference for somebody's change.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn it_renders_the_same_twice() {
    for values in [&[][..], &["--values", EVERYTHING]] {
        assert_eq!(render(values).await.unwrap(), render(values).await.unwrap());
    }
}

/// Helm itself passes over a field that does not exist; here the API server reads all of them.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn the_api_server_knows_every_field() {
    let cluster = ControlPlane::shared().await.unwrap();
    for namespace in ["serving", "kubeflow", "models", "team-a", "team-b"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        cluster.apply(&namespace.to_string()).await.unwrap();
    }
    for values in [&[][..], &["--values", EVERYTHING]] {
        let rendered = render(values).await.unwrap();
        let arguments = ["create", "--dry-run=server", "--validate=strict", "--filename=-"];
        cluster.kubectl_with(&arguments, &rendered).await.unwrap().stdout().unwrap();
    }
}

/// The program fills them: what the chart rendered would take its place at the next upgrade.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn the_secret_and_the_lease_are_rendered_empty() {
    let objects = objects(&[]).await.unwrap();
    let found = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    assert!(found("Secret")["data"].is_null() && found("Secret")["stringData"].is_null());
    assert!(found("Lease")["spec"].is_null());
}
