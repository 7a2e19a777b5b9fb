//! A small kubelet: runs the Pods that the real controllers make, as processes of this machine.
//!
//! In: Pods, from a watch. Out: processes that run as the Pod says (`sandbox`, `environment`, `volumes`), looked after
//! as the Pod says (`container`, `probes`), and the Pod's status (`status`). What stays true: every Pod has an address
//! of its own on loopback; its processes end before the Pod does; what this kubelet cannot do makes the Pod wait with
//! a message that says so, it is never passed over.
//!
//! It is also the scheduler: every Pod is bound to its one Node.

mod container;
mod downward;
mod environment;
mod pod;
mod probes;
mod sandbox;
mod status;
mod volume_writer;
mod volumes;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::api::{PartialObjectMeta, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::sync::watch;

use crate::forwarder::Announcements;
use crate::images::Images;
use crate::processes::Setup;

/// The name of the only Node.
const NODE: &str = "loopback";

/// What all Pods share.
pub(crate) struct Kubelet {
    client: Client,
    setup: Arc<Setup>,
    images: Arc<Images>,
    announcements: Announcements,
    /// Counts changes of Secrets and ConfigMaps: a Pod that mounts some looks again.
    sources: watch::Sender<u64>,
}

impl Kubelet {
    pub(crate) fn new(
        client: Client,
        setup: Arc<Setup>,
        images: Arc<Images>,
        announcements: Announcements,
    ) -> Arc<Self> {
        Arc::new(Self { client, setup, images, announcements, sources: watch::Sender::new(0) })
    }

    /// Registers the Node.
    pub(crate) async fn register(&self) -> Result<()> {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}},
            "status": {
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                "addresses": [{"type": "InternalIP", "address": self.node_address()}],
            },
        }))?;
        Api::all(self.client.clone()).create(&PostParams::default(), &node).await?;
        Ok(())
    }

    /// Runs Pods until it is dropped; then their processes are killed.
    pub(crate) async fn run(self: Arc<Self>) {
        tokio::join!(
            self.clone().run_pods(),
            self.count_changes_of::<Secret>(),
            self.count_changes_of::<ConfigMap>(),
        );
    }

    async fn run_pods(self: Arc<Self>) {
        let mut pods: HashMap<String, watch::Sender<Option<Arc<Pod>>>> = HashMap::new();
        let mut listed = Vec::new();
        let api: Api<Pod> = Api::all(self.client.clone());
        let mut events = watch_objects(api, watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.extend(object.uid());
                    self.see(&mut pods, object);
                }
                Ok(Event::InitDone) => {
                    for (_, gone) in pods.extract_if(|uid, _| !listed.contains(uid)) {
                        gone.send_replace(None);
                    }
                }
                Ok(Event::Apply(object)) => self.see(&mut pods, object),
                Ok(Event::Delete(object)) => {
                    if let Some(gone) = object.uid().and_then(|uid| pods.remove(&uid)) {
                        gone.send_replace(None);
                    }
                }
                Err(error) => tracing::warn!(%error, "the watch of Pods was interrupted"),
            }
        }
    }

    /// Hands the Pod's newest state to the task that runs it.
    fn see(self: &Arc<Self>, pods: &mut HashMap<String, watch::Sender<Option<Arc<Pod>>>>, object: Pod) {
        let Some(uid) = object.uid() else { return };
        let object = Arc::new(object);
        if let Some(known) = pods.get(&uid) {
            known.send_replace(Some(object));
        } else {
            let (sender, receiver) = watch::channel(Some(object.clone()));
            pods.insert(uid, sender);
            tokio::spawn(pod::run(self.clone(), object, receiver));
        }
    }

    async fn count_changes_of<K>(&self)
    where
        K: Resource<DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + Send
            + serde::de::DeserializeOwned
            + 'static,
    {
        let api: Api<PartialObjectMeta<K>> = Api::all(self.client.clone());
        let mut events = watch_objects(api, watcher::Config::default()).default_backoff().boxed();
        loop {
            match events.try_next().await {
                Ok(Some(_)) => self.sources.send_modify(|count| *count += 1),
                Ok(None) => return,
                Err(error) => tracing::warn!(%error, "the watch of volume sources was interrupted"),
            }
        }
    }

    fn node_address(&self) -> Ipv4Addr {
        self.setup.addresses.node()
    }

    /// Where a Pod's files are.
    fn folder(&self, pod: &Pod) -> PathBuf {
        self.setup.work.path().join("pods").join(pod.uid().unwrap_or_default())
    }
}
