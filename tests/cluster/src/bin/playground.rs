//! The test cluster for a person: brought up, left alone until Ctrl-C, taken down.
//!
//! `playground` has the chart installed and a registry with one model; `playground --bare` is the control plane alone.

use anyhow::{Result, bail, ensure};
use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry, workspace};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

/// The model's id that the sample manifest names: the first that a new registry gives.
const SAMPLE_MODEL: &str = "1";

#[tokio::main]
async fn main() -> Result<()> {
    let bare = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--bare") => true,
        Some(other) => {
            bail!("there is no argument {other:?}: give none, or --bare for a cluster without the chart")
        }
    };
    // Before anything is started: whoever stops this early gets it taken down as well.
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        outcome = play(bare) => outcome,
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
    }
}

/// Brings everything up and says so; goes on until it is dropped.
async fn play(bare: bool) -> Result<()> {
    say("Bringing up the control plane (the first time its programs are built, which takes minutes).");
    let cluster = ControlPlane::start().await?;
    if bare {
        say(&format!("\nexport KUBECONFIG={}", cluster.kubeconfig().display()));
        return std::future::pending().await;
    }
    say("Starting a registry, and installing the chart.");
    let registry = Registry::start(&cluster).await?;
    let model = registry.post("registered_models", &json!({"name": "iris"})).await?;
    ensure!(
        model["id"] == SAMPLE_MODEL,
        "the registry is not a new one: its next model has the id {}",
        model["id"]
    );
    let version = json!({"name": "1", "registeredModelId": model["id"]});
    registry.post("model_versions", &version).await?;
    Installation::install(&cluster, &registry, &[]).await?;
    say(&instructions(&cluster, &registry));
    std::future::pending().await
}

fn instructions(cluster: &ControlPlane, registry: &Registry) -> String {
    let kubectl = cluster.kubectl_program().display();
    let sample = workspace::root().join("tests/cluster/samples/iris.yaml");
    format!(
        "
Ready. In another terminal:

export KUBECONFIG={kubeconfig}

  {kubectl} apply --filename {sample} --output yaml
      # the object comes back with its label inference-service-id

  curl {url}/api/model_registry/v1alpha3/inference_services
      # the entry of that id, DEPLOYED

  {kubectl} delete --filename {sample}
      # returns at once; ask the registry again, and the entry is UNDEPLOYED

Ctrl-C here takes everything down. Logs: {folder}/logs",
        kubeconfig = cluster.kubeconfig().display(),
        sample = sample.display(),
        url = registry.url(),
        folder = cluster.folder().display(),
    )
}

#[expect(clippy::print_stdout, reason = "this is what the person reads")]
fn say(line: &str) {
    println!("{line}");
}
