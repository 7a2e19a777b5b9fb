//! The replica that acts is killed, or stopped and woken.

use anyhow::{Result, ensure};
use isvc_registrar_test_cluster::wait;
use serde_json::json;

use crate::drill::{Drill, names};
use crate::process::{Syncer, another_leads, leader, pod_of};

/// A registry that takes so long for each answer is still at work when the leader is stopped.
const SLOW_MS: u64 = 200;

/// Creates objects and deletes them all while the registry is slow; returns when the leader has begun to write.
async fn bulk_deletion(drill: &Drill<'_>) -> Result<()> {
    let names = names(60);
    drill.create_all(&names).await?;
    drill.registry_tells_the_truth().await?;
    drill.registry.forget_requests().await?;
    drill.registry.set_faults(&json!({"delayMs": SLOW_MS})).await?;
    drill.delete_all(&names).await?;
    drill.writing_has_begun().await
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_leader_killed_amid_a_bulk_deletion_loses_nothing() {
    let drill = Drill::take_turn("killed").await.unwrap();
    let before = leader(drill.cluster).await.unwrap();
    bulk_deletion(&drill).await.unwrap();

    Syncer::of(pod_of(&before).unwrap()).unwrap().signal("KILL").unwrap();

    another_leads(drill.cluster, &before).await.unwrap();
    drill.registry_tells_the_truth().await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_leader_stopped_past_its_lease_writes_nothing_when_it_wakes() {
    let drill = Drill::take_turn("stopped").await.unwrap();
    let before = leader(drill.cluster).await.unwrap();
    let pod = pod_of(&before).unwrap();
    let stopped = Syncer::of(pod).unwrap();
    bulk_deletion(&drill).await.unwrap();

    stopped.signal("STOP").unwrap();
    let after = another_leads(drill.cluster, &before).await.unwrap();
    assert_ne!(pod_of(&after).unwrap(), pod, "the stopped process cannot have taken it again");
    drill.registry.set_faults(&json!({})).await.unwrap();
    drill.registry_tells_the_truth().await.unwrap();
    drill.registry.forget_requests().await.unwrap();
    stopped.signal("CONT").unwrap();

    wait::until("the woken process finds that it has lost the lease", async || {
        let log = drill.cluster.container_log("isvc-registrar", pod, "syncer")?;
        ensure!(log.contains("lost the lease"), "its log does not say so");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(
        drill.writes().await.unwrap(),
        Vec::<serde_json::Value>::new(),
        "all was written by the other"
    );

    // And it goes on writing nothing while there is something to write.
    let id = drill.deploy("after").await.unwrap();
    drill.registry_tells_the_truth().await.unwrap();
    drill.delete("after").await.unwrap();
    drill.registry_tells_the_truth().await.unwrap();
    let elsewhere: Vec<_> = drill.writes().await.unwrap();
    let elsewhere = elsewhere.iter().filter(|write| {
        write["method"] == "PATCH"
            && write["target"].as_str().is_some_and(|target| !target.ends_with(&format!("/{id}")))
    });
    assert_eq!(elsewhere.count(), 0, "only the new object's entry has changed");
}
