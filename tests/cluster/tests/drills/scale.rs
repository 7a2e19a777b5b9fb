//! A large cluster: how long it takes, how much memory it needs, how often it asks. Not a part of `tests/run`:
//!
//! ```sh
//! ISVC_REGISTRAR_TEST_SCALE=5000 cargo test --release --package isvc-registrar-test-cluster --test drills scale -- \
//!     --ignored --nocapture
//! ```

use std::env;
use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result};
use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry};
use serde_json::Value;

use crate::drill::{Drill, names};
use crate::process::{Syncer, leader, pod_of};

/// How many objects, when it is to run at all.
const OBJECTS: &str = "ISVC_REGISTRAR_TEST_SCALE";

/// The default resync: nothing is found by looking more often than the program does by itself.
const SETTINGS: [&str; 2] = ["syncer.grace=1s", "replicas=1"];

/// How many deadlines of a drill a step may take.
const PATIENCE: usize = 10;

/// One line of the result.
fn report(what: &str, value: impl fmt::Display) {
    println!("{what:<60} {value:>10}");
}

fn seconds(begun: Instant) -> String {
    format!("{:.1} s", begun.elapsed().as_secs_f64())
}

/// What the registry was asked, as far as it remembers: reads of lists, other reads, writes.
async fn asked(registry: &Registry) -> Result<(usize, usize, usize)> {
    let requests = registry.requests().await?;
    let is_read = |request: &&Value| request["method"] == "GET";
    let is_list =
        |request: &&Value| request["target"].as_str().is_some_and(|target| target.contains("pageSize="));
    let reads: Vec<&Value> = requests.iter().filter(is_read).collect();
    let lists = reads.iter().filter(|request| is_list(request)).count();
    Ok((lists, reads.len() - lists, requests.len() - reads.len()))
}

/// Waits until the registry tells the truth: longer than any drill, for as long as this may take.
async fn settled(drill: &Drill<'_>) -> Result<()> {
    for _ in 1..PATIENCE {
        if drill.registry_tells_the_truth().await.is_ok() {
            return Ok(());
        }
    }
    drill.registry_tells_the_truth().await
}

/// Starts the program's Pod; returns when that was, and the Pod and its syncer once it leads.
async fn start(
    cluster: &ControlPlane,
    installation: &mut Installation<'_>,
) -> Result<(Instant, String, Syncer)> {
    let begun = Instant::now();
    installation.upgrade(&["replicas=1"]).await?;
    let holder =
        isvc_registrar_test_cluster::wait::until("a syncer leads", async || leader(cluster).await).await?;
    let pod = pod_of(&holder)?.to_owned();
    let syncer = Syncer::of(&pod)?;
    Ok((begun, pod, syncer))
}

#[tokio::test]
#[ignore = "needs the test control plane, and minutes"]
async fn a_cluster_of_thousands_of_objects() {
    let Some(count) = env::var(OBJECTS).ok() else { return };
    let count: usize = count.parse().with_context(|| format!("${OBJECTS}")).unwrap();
    let cluster = ControlPlane::start().await.unwrap();
    let registry = Registry::of_cluster(&cluster).await.unwrap();
    let mut installation = Installation::install(&cluster, &registry, &SETTINGS).await.unwrap();
    let drill = Drill::of(&cluster, &registry, "large").await.unwrap();
    let names = names(count);

    // Objects that the webhook never saw: all the work is the syncer's.
    installation.upgrade(&["replicas=0"]).await.unwrap();
    let begun = Instant::now();
    drill.create_all(&names).await.unwrap();
    report(&format!("{count} objects created, the program away"), seconds(begun));
    let (begun, _, syncer) = start(&cluster, &mut installation).await.unwrap();
    settled(&drill).await.unwrap();
    report("cold start to all registered", seconds(begun));
    report("peak memory of the syncer", format!("{} MiB", syncer.peak_memory().unwrap()));

    installation.upgrade(&["replicas=0"]).await.unwrap();
    registry.forget_requests().await.unwrap();
    let (begun, pod, syncer) = start(&cluster, &mut installation).await.unwrap();
    drill.has_compared(&pod).await.unwrap();
    report("start to all compared, nothing to write", seconds(begun));
    let (lists, reads, writes) = asked(&registry).await.unwrap();
    report("registry calls for that: lists, other reads, writes", format!("{lists}, {reads}, {writes}"));
    report("peak memory of the syncer", format!("{} MiB", syncer.peak_memory().unwrap()));
    assert!(lists + reads < 20 + count / 250, "the start costs calls by the page, not by the object");
    assert_eq!(writes, 0, "there was nothing to write");

    installation.upgrade(&["replicas=0"]).await.unwrap();
    let missed = &names[..count / 5];
    drill.delete_all(missed).await.unwrap();
    let (begun, _, syncer) = start(&cluster, &mut installation).await.unwrap();
    settled(&drill).await.unwrap();
    report(&format!("start to {} missed deletions written", missed.len()), seconds(begun));
    report("peak memory of the syncer", format!("{} MiB", syncer.peak_memory().unwrap()));

    let begun = Instant::now();
    let seen = &names[count / 5..count / 5 + count / 5];
    drill.delete_all(seen).await.unwrap();
    settled(&drill).await.unwrap();
    report(&format!("{} deletions, seen as they come", seen.len()), seconds(begun));
}
