//! The audit as a person runs it: the program, a kubeconfig and the registry's address.

use std::process::{Output, Stdio};

use anyhow::{Context, Result};
use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry, workspace};
use serde_json::Value;
use tokio::process::Command;

use crate::drill::{Drill, QUICK};
use crate::truth;

/// Runs the audit outside the cluster.
async fn audit(drill: &Drill<'_>, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(workspace::program_under_test()?);
    command
        .arg("audit")
        .args(["--grace=0s", "--registry-namespace=", "--registry-url", drill.registry.url()])
        .args(arguments)
        .env("KUBECONFIG", drill.cluster.kubeconfig())
        .stdin(Stdio::null());
    command.output().await.context("cannot run the audit")
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn drift_is_shown_refused_without_a_word_and_mended_on_one() {
    let cluster = ControlPlane::start().await.unwrap();
    let registry = Registry::of_cluster(&cluster).await.unwrap();
    let mut installation = Installation::install(&cluster, &registry, &QUICK).await.unwrap();
    let drill = Drill::of(&cluster, &registry, "audited").await.unwrap();
    let gone = drill.deploy("gone").await.unwrap();
    let kept = drill.deploy("kept").await.unwrap();
    drill.is_settled(&gone).await.unwrap();
    drill.is_settled(&kept).await.unwrap();
    installation.upgrade(&["replicas=0"]).await.unwrap();

    let agreement = audit(&drill, &["--namespace", &drill.namespace]).await.unwrap();
    assert_eq!(agreement.status.code(), Some(0), "all agrees: {agreement:?}");

    drill.delete("gone").await.unwrap();
    let drift = audit(&drill, &["--output=json", "--namespace", &drill.namespace]).await.unwrap();
    assert_eq!(drift.status.code(), Some(1), "an entry has lost its object: {drift:?}");
    let report: Value = serde_json::from_slice(&drift.stdout).unwrap();
    assert_eq!(report["cluster"], truth::cluster_id(&cluster.client().unwrap()).await.unwrap());
    let [difference] = report["differences"].as_array().unwrap().as_slice() else {
        panic!("there is one difference: {report}")
    };
    assert_eq!(difference["entry"], gone.as_str(), "{report}");
    assert_eq!(difference["write"], "retire", "{report}");

    let refused = audit(&drill, &["--fix"]).await.unwrap();
    assert_eq!(refused.status.code(), Some(2), "nobody is there to be asked: {refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--yes"), "{refused:?}");
    assert_eq!(drill.entry(&gone).await.unwrap()["desiredState"], "DEPLOYED");

    let mended = audit(&drill, &["--fix", "--yes"]).await.unwrap();
    assert_eq!(mended.status.code(), Some(0), "all is mended: {mended:?}");
    drill.registry_tells_the_truth().await.unwrap();
    assert_eq!(drill.entry(&gone).await.unwrap()["desiredState"], "UNDEPLOYED");

    let nobody = audit(&drill, &["--registry-url=http://127.0.0.1:1"]).await.unwrap();
    assert_eq!(nobody.status.code(), Some(2), "a registry that does not answer is no agreement: {nobody:?}");
}
