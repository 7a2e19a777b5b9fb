//! The registry is away, lies, or is slow.

use anyhow::{Result, ensure};
use isvc_registrar_test_cluster::wait;
use serde_json::json;

use crate::drill::{Drill, names};

/// Waits until the registry has refused so many reads.
async fn has_refused(drill: &Drill<'_>, reads: usize) -> Result<()> {
    wait::until(&format!("the syncer was refused {reads} times"), async || {
        let requests = drill.registry.requests().await?;
        let refused = requests.iter().filter(|request| request["status"].as_u64() >= Some(404)).count();
        ensure!(refused >= reads, "it was {refused} times");
        Ok(())
    })
    .await
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn what_came_and_went_while_it_was_away_is_made_up_for() {
    let drill = Drill::take_turn("away").await.unwrap();
    let before = drill.deploy("before").await.unwrap();
    drill.registry_tells_the_truth().await.unwrap();

    drill.registry.set_faults(&json!({"status": 503})).await.unwrap();
    assert_eq!(drill.create("whole-life").await.unwrap(), None, "there is nobody to give an id");
    assert_eq!(drill.create("stays").await.unwrap(), None, "there is nobody to give an id");
    drill.delete("before").await.unwrap();
    drill.delete("whole-life").await.unwrap();
    assert_eq!(drill.create("before").await.unwrap(), None, "there is nobody to give an id");
    drill.delete("before").await.unwrap();
    drill.registry.set_faults(&json!({})).await.unwrap();

    drill.registry_tells_the_truth().await.unwrap();
    assert_eq!(drill.entry(&before).await.unwrap()["desiredState"], "UNDEPLOYED");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn while_its_database_is_down_nothing_is_taken_for_missing() {
    let drill = Drill::take_turn("database").await.unwrap();
    let names = names(10);
    drill.create_all(&names).await.unwrap();
    let kept = drill.deploy("kept").await.unwrap();
    drill.registry_tells_the_truth().await.unwrap();
    let before = drill.is_settled(&kept).await.unwrap();

    drill.registry.forget_requests().await.unwrap();
    drill.registry.set_faults(&json!({"database": "down"})).await.unwrap();
    drill.delete_all(&names[..5]).await.unwrap();
    has_refused(&drill, 20).await.unwrap();
    drill.registry.set_faults(&json!({})).await.unwrap();

    drill.registry_tells_the_truth().await.unwrap();
    assert_eq!(drill.entry(&kept).await.unwrap(), before, "nobody had a reason to write it");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_hundred_lives_under_one_name_leave_one_entry() {
    let drill = Drill::take_turn("lives").await.unwrap();
    let id = drill.deploy("scorer").await.unwrap();
    for _ in 0..100 {
        drill.delete("scorer").await.unwrap();
        assert_eq!(drill.create("scorer").await.unwrap(), Some(id.clone()), "the name has its entry");
    }
    drill.registry_tells_the_truth().await.unwrap();
    drill.delete("scorer").await.unwrap();
    drill.registry_tells_the_truth().await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn three_hundred_deletions_at_once_are_all_told_to_a_slow_registry() {
    let drill = Drill::take_turn("slow").await.unwrap();
    let names = names(300);
    drill.create_all(&names).await.unwrap();
    drill.registry_tells_the_truth().await.unwrap();

    drill.registry.set_faults(&json!({"delayMs": 100})).await.unwrap();
    drill.delete_all(&names).await.unwrap();

    drill.registry_tells_the_truth().await.unwrap();
    drill.registry.set_faults(&json!({})).await.unwrap();
}
