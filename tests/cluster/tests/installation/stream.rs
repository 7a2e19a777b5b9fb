//! Somebody who deploys models one after the other, all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use isvc_registrar_test_cluster::{ControlPlane, wait};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{ID, Scene};

/// So many are enough to say that it went on for a while.
const A_FEW: usize = 5;

/// InferenceServices that are created one after the other until the stream ends.
pub(crate) struct Stream {
    created: Arc<AtomicUsize>,
    stop: CancellationToken,
    creating: JoinHandle<Vec<String>>,
}

impl Stream {
    /// Begins, and returns when the first objects are there.
    pub(crate) async fn begin(scene: &Scene<'_>) -> Result<Self> {
        let objects = api(scene.cluster, &scene.namespace)?;
        let object = scene.service("stream");
        let created = Arc::new(AtomicUsize::new(0));
        let stop = CancellationToken::new();
        let (count, stopped) = (created.clone(), stop.clone());
        let creating = tokio::spawn(async move {
            let mut troubles = Vec::new();
            for number in 0.. {
                if stopped.is_cancelled() {
                    break;
                }
                let mut object = object.clone();
                object["metadata"]["name"] = format!("stream-{number}").into();
                if let Err(trouble) = create(&objects, object).await {
                    troubles.push(format!("stream-{number}: {trouble:#}"));
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
            troubles
        });
        let stream = Self { created, stop, creating };
        stream.goes_on().await?;
        Ok(stream)
    }

    /// How many were created, or refused.
    pub(crate) fn count(&self) -> usize {
        self.created.load(Ordering::Relaxed)
    }

    /// Waits for a few more.
    pub(crate) async fn goes_on(&self) -> Result<()> {
        let enough = self.count() + A_FEW;
        wait::until("a few more objects are created", async || {
            ensure!(self.count() >= enough, "there were {}", self.count());
            Ok(())
        })
        .await
    }

    /// Ends; an error when one was refused, or has no label.
    pub(crate) async fn end(self) -> Result<()> {
        self.goes_on().await?;
        self.stop.cancel();
        let count = self.count();
        let troubles = self.creating.await?;
        ensure!(
            troubles.is_empty(),
            "of {count} creates {} went wrong:\n{}",
            troubles.len(),
            troubles.join("\n")
        );
        Ok(())
    }
}

async fn create(objects: &Api<DynamicObject>, object: serde_json::Value) -> Result<()> {
    let stored = objects.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let labels = stored.metadata.labels.unwrap_or_default();
    ensure!(labels.contains_key(ID), "it has no id label");
    Ok(())
}

fn api(cluster: &ControlPlane, namespace: &str) -> Result<Api<DynamicObject>> {
    let kind = GroupVersionKind::gvk("serving.kserve.io", "v1beta1", "InferenceService");
    Ok(Api::namespaced_with(cluster.client()?, namespace, &ApiResource::from_gvk(&kind)))
}
