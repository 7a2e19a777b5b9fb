//! The life of one Pod: bound, given an address, its volumes filled, its containers run, its end reported.
//!
//! In: the Pod's states as the watch brings them. Out: running containers, and the Pod's status. What stays true: the
//! Pod's object is deleted only once its processes are gone; when the object is gone before (a forced deletion) the
//! processes are killed at once.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Binding, Container, ObjectReference, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use super::container::{ContainerRunner, Restart, StopOrder, log_folder, ordered};
use super::sandbox::Mount;
use super::status::{ContainerReport, PodReport, Reporter, compose, is_ready, waiting};
use super::volumes::PodVolumes;
use super::{Kubelet, NODE};

/// How soon a call that failed is made again. The API server may be stopped by a test, for as long as it likes.
const RETRY: Duration = Duration::from_millis(500);

/// A Pod that this kubelet runs.
struct PodRunner {
    kubelet: Arc<Kubelet>,
    pod: Arc<Pod>,
    address: Ipv4Addr,
    reports: Arc<watch::Sender<PodReport>>,
}

/// Runs a Pod until its object is gone. `seen` holds its newest state, and nothing once it is gone.
pub(super) async fn run(kubelet: Arc<Kubelet>, pod: Arc<Pod>, seen: watch::Receiver<Option<Arc<Pod>>>) {
    let address = kubelet.setup.addresses.next_pod();
    let count = containers(&pod).count();
    let report = ContainerReport { state: waiting("PodInitializing", ""), ..ContainerReport::default() };
    let reports =
        Arc::new(watch::Sender::new(PodReport { containers: vec![report; count], finished: false }));
    let runner = PodRunner { kubelet, pod, address, reports };

    let (order, mut stop) = watch::channel(None);
    let life = async {
        runner.bind().await;
        tokio::select! {
            () = runner.live(stop.clone()) => {}
            () = runner.publish() => {}
        }
        // Nothing runs any more: the status says so until somebody deletes the Pod.
        runner.reports.send_modify(|report| report.finished = true);
        tokio::select! {
            _ = ordered(&mut stop) => {}
            () = runner.publish() => {}
        }
        runner.delete().await;
    };
    tokio::select! {
        () = life => {}
        // What is still running is on a leash that ends here.
        () = pass_on_deletion(seen, &order) => {}
    }
    // The mounts of a process that was just killed may hold it for a moment; the run's end removes the rest.
    let _ = fs::remove_dir_all(runner.kubelet.folder(&runner.pod));
}

/// Turns the deletion of a Pod into the order to stop; returns when the object is gone.
async fn pass_on_deletion(
    mut seen: watch::Receiver<Option<Arc<Pod>>>,
    order: &watch::Sender<Option<Duration>>,
) {
    loop {
        let Some(pod) = seen.borrow_and_update().clone() else {
            return;
        };
        if pod.metadata.deletion_timestamp.is_some() {
            let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
            order.send_replace(Some(Duration::from_secs(seconds.unsigned_abs())));
        }
        if seen.changed().await.is_err() {
            return;
        }
    }
}

impl PodRunner {
    /// From the first volume to the end of the last container.
    async fn live(&self, mut stop: StopOrder) {
        let mut volumes = PodVolumes::new(self.kubelet.clone(), self.pod.clone(), self.address);
        while let Err(error) = volumes.fill().await {
            self.wait_all("ContainerCreating", &format!("{error:#}"));
            tokio::select! {
                () = sleep(RETRY) => {}
                _ = ordered(&mut stop) => return,
            }
        }
        let prepared: anyhow::Result<Vec<Vec<Mount>>> =
            containers(&self.pod).map(|(container, _)| volumes.mounts(container)).collect();
        let mounts = match prepared {
            Ok(mounts) => mounts,
            Err(error) => {
                self.wait_all("CreateContainerConfigError", &format!("{error:#}"));
                ordered(&mut stop).await;
                return;
            }
        };
        if let Err(error) =
            fs::create_dir_all(log_folder(&self.kubelet.setup.work.path().join("logs"), &self.pod))
        {
            tracing::warn!(%error, "a Pod has no folder for its logs");
        }
        let runners = containers(&self.pod).zip(mounts).enumerate().map(
            |(index, ((container, initializes), mounts))| ContainerRunner {
                kubelet: self.kubelet.clone(),
                pod: self.pod.clone(),
                container: container.clone(),
                address: self.address,
                mounts,
                restart: self.restart(initializes),
                initializes,
                reporter: Reporter::new(self.reports.clone(), index),
                stop: stop.clone(),
            },
        );
        let (first, main): (Vec<_>, Vec<_>) = runners.partition(|runner| runner.initializes);
        tokio::select! {
            () = run_in_order(first, main) => {}
            () = volumes.keep_fresh() => {}
        }
    }

    fn restart(&self, initializes: bool) -> Restart {
        let policy = self.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        match policy {
            Some("Never") => Restart::Never,
            Some("OnFailure") => Restart::OnFailure,
            _ if initializes => Restart::OnFailure,
            _ => Restart::Always,
        }
    }

    fn wait_all(&self, reason: &str, message: &str) {
        self.reports.send_modify(|report| {
            for container in &mut report.containers {
                container.state = waiting(reason, message);
            }
        });
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.kubelet.client.clone(), &self.pod.namespace().unwrap_or_default())
    }

    /// Does the scheduler's work.
    async fn bind(&self) {
        if self.pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
            return;
        }
        let binding = Binding {
            metadata: ObjectMeta { name: self.pod.metadata.name.clone(), ..ObjectMeta::default() },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(NODE.to_owned()),
                ..ObjectReference::default()
            },
        };
        let name = self.pod.name_any();
        let parameters = PostParams::default();
        let pods = self.pods();
        while let Err(error) =
            pods.create_subresource::<_, Status>("binding", &name, &parameters, &binding).await
        {
            if !self.worth_repeating("binding", &error).await {
                return;
            }
        }
    }

    /// Writes the status whenever it differs; returns once the report is final and written.
    async fn publish(&self) {
        let (pods, name) = (self.pods(), self.pod.name_any());
        let mut reports = self.reports.subscribe();
        let mut written: Option<PodStatus> = None;
        loop {
            let report = reports.borrow_and_update().clone();
            let status =
                compose(&self.pod, &report, self.address, self.kubelet.node_address(), written.as_ref());
            if written.as_ref() != Some(&status) {
                if is_ready(&status) {
                    let pod = Pod { status: Some(status.clone()), ..(*self.pod).clone() };
                    self.kubelet.announcements.ready(pod).await;
                }
                // A strategic merge keeps the conditions of others, such as the one that an eviction sets.
                let patch = Patch::Strategic(json!({"metadata": {"uid": self.pod.uid()}, "status": status}));
                while let Err(error) = pods.patch_status(&name, &PatchParams::default(), &patch).await {
                    if !self.worth_repeating("status", &error).await {
                        break;
                    }
                }
                written = Some(status);
            }
            if reports.changed().await.is_err() {
                return;
            }
        }
    }

    async fn delete(&self) {
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: self.pod.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        let (pods, name) = (self.pods(), self.pod.name_any());
        while let Err(error) = pods.delete(&name, &parameters).await {
            if !self.worth_repeating("delete", &error).await {
                return;
            }
        }
    }

    /// Waits before a call is made again; false when the answer will stay the same: the Pod is gone or another.
    async fn worth_repeating(&self, call: &str, error: &kube::Error) -> bool {
        let for_good = matches!(error, kube::Error::Api(status) if status.code == 404 || status.code == 409);
        tracing::info!(pod = %self.pod.name_any(), call, %error, for_good, "a call failed");
        if !for_good {
            sleep(RETRY).await;
        }
        !for_good
    }
}

/// The containers for initialization one after the other, then all the others at once.
async fn run_in_order(first: Vec<ContainerRunner>, main: Vec<ContainerRunner>) {
    for container in first {
        if !container.run().await {
            return;
        }
    }
    join_all(main.into_iter().map(ContainerRunner::run)).await;
}

/// All containers of a Pod in the order of its reports; the flag marks those for initialization.
fn containers(pod: &Pod) -> impl Iterator<Item = (&Container, bool)> {
    let first = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let main = pod.spec.iter().flat_map(|spec| &spec.containers);
    first.map(|container| (container, true)).chain(main.map(|container| (container, false)))
}
