//! The life of one container: started, probed, started again, stopped.
//!
//! In: a container of a Pod and the order to stop. Out: reports, and at last its end. What stays true: it is started
//! again by the Pod's restart policy with growing pauses; an order to stop goes through the preStop hook and SIGTERM,
//! and within the grace it was given everything it started is gone.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Container, ContainerState, ContainerStateTerminated, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::Kubelet;
use super::downward::Downward;
use super::probes::Probed;
use super::sandbox::{Mount, Sandbox};
use super::status::{Reporter, now};
use crate::images::Image;
use crate::leash::Leash;

/// Pauses before a restart. Shorter than the kubelet's (10 s to 5 min): tests wait for them.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A container that ran this long starts again without a pause that earlier ends had made longer.
const WELL_AFTER: Duration = Duration::from_mins(1);

/// How soon a container that could not be started (no image, no Secret for its environment) is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The grace of a Pod that gives none.
const DEFAULT_GRACE: i64 = 30;

/// The order to stop, with the grace; none while the container may run.
pub(super) type StopOrder = watch::Receiver<Option<Duration>>;

/// When a container that ended is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restart {
    Always,
    OnFailure,
    Never,
}

/// Runs one container.
pub(super) struct ContainerRunner {
    pub(super) kubelet: Arc<Kubelet>,
    pub(super) pod: Arc<Pod>,
    pub(super) container: Container,
    pub(super) address: Ipv4Addr,
    pub(super) mounts: Vec<Mount>,
    pub(super) restart: Restart,
    /// Whether it is one of those that end before the others start.
    pub(super) initializes: bool,
    pub(super) reporter: Reporter,
    pub(super) stop: StopOrder,
}

/// How one run of the process ended.
struct End {
    code: i32,
    ordered: bool,
    ran: Duration,
}

impl ContainerRunner {
    /// Runs the container until it is to stay down; tells whether it ended well.
    pub(super) async fn run(mut self) -> bool {
        let mut pause = FIRST_PAUSE;
        for attempt in 0.. {
            let Some((sandbox, leash)) = self.start(attempt).await else {
                return false;
            };
            let end = self.attend(&sandbox, leash, attempt).await;
            let again = match self.restart {
                Restart::Always => true,
                Restart::OnFailure => end.code != 0,
                Restart::Never => false,
            };
            if end.ordered || !again {
                return end.code == 0;
            }
            if end.ran >= WELL_AFTER {
                pause = FIRST_PAUSE;
            }
            self.reporter.waits(
                "CrashLoopBackOff",
                &format!("exit code {}, again in {} s", end.code, pause.as_secs()),
            );
            self.reporter.update(|report| report.restarts += 1);
            tokio::select! {
                () = sleep(pause) => {}
                _ = ordered(&mut self.stop) => return false,
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
        false
    }

    /// Starts the process, trying until it can be; none when it is to stop before it ever ran.
    async fn start(&mut self, attempt: u32) -> Option<(Sandbox, Leash)> {
        let mut stop = self.stop.clone();
        loop {
            let (reason, error) = tokio::select! {
                started = self.try_start(attempt) => match started {
                    Ok(started) => return Some(started),
                    Err(failure) => failure,
                },
                _ = ordered(&mut stop) => return None,
            };
            self.reporter.waits(reason, &format!("{error:#}"));
            tokio::select! {
                () = sleep(RETRY) => {}
                _ = ordered(&mut stop) => return None,
            }
        }
    }

    async fn try_start(&self, attempt: u32) -> Result<(Sandbox, Leash), (&'static str, anyhow::Error)> {
        let reference = self.container.image.as_deref().unwrap_or_default();
        let image = self
            .kubelet
            .images
            .find(reference)
            .with_context(|| format!("no program stands for image {reference:?}"))
            .map_err(|error| ("ErrImagePull", error))?;
        let sandbox = self.sandbox(&image).await.map_err(|error| ("CreateContainerConfigError", error))?;
        let leash = sandbox.start(&self.log(attempt)).map_err(|error| ("RunContainerError", error))?;
        Ok((sandbox, leash))
    }

    async fn sandbox(&self, image: &Image) -> Result<Sandbox> {
        let node_address = self.kubelet.node_address();
        let downward = Downward { pod: &self.pod, pod_address: self.address, node_address };
        let variables = self.kubelet.environment(downward, &self.container).await?;
        Sandbox::new(&self.kubelet, &self.pod, &self.container, image, &self.mounts, variables, self.address)
    }

    /// Looks after the running process until it has ended.
    async fn attend(&mut self, sandbox: &Sandbox, mut leash: Leash, attempt: u32) -> End {
        let since = Instant::now();
        let started_at = now();
        self.reporter.runs(&started_at);
        let log = self.log(attempt);
        let probed = Probed { container: &self.container, address: self.address, sandbox, log: &log };
        let mut stop = self.stop.clone();
        let (code, why, ordered) = tokio::select! {
            code = leash.wait() => (code, None, false),
            why = probed.watch(&self.reporter) => {
                (self.terminate(&probed, &mut leash, self.grace()).await, Some(why), false)
            }
            grace = ordered(&mut stop) => (self.terminate(&probed, &mut leash, grace).await, None, true),
        };
        self.ended(code, why, started_at);
        End { code, ordered, ran: since.elapsed() }
    }

    /// Ends the process: preStop hook, SIGTERM, and SIGKILL when the grace is over.
    async fn terminate(&self, probed: &Probed<'_>, leash: &mut Leash, grace: Duration) -> i32 {
        let deadline = Instant::now() + grace;
        let hook = self.container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
        if let Some(hook) = hook {
            let work = async {
                if let Some(pause) = &hook.sleep {
                    sleep(Duration::from_secs(pause.seconds.unsigned_abs())).await;
                } else if let Some(exec) = &hook.exec {
                    let command = exec.command.clone().unwrap_or_default();
                    probed.sandbox.exec(&command, probed.log)?.wait().await;
                } else if let Some(http) = &hook.http_get {
                    probed.http_get(http).await?;
                }
                Ok::<(), anyhow::Error>(())
            };
            // A hook that fails or takes too long holds up nothing, as in a cluster.
            if let Ok(Err(error)) = timeout(grace, work).await {
                tracing::warn!(container = %self.container.name, error = format!("{error:#}"), "the preStop hook failed");
            }
        }
        leash.stop(deadline.saturating_duration_since(Instant::now())).await
    }

    fn ended(&self, code: i32, why: Option<String>, started_at: Time) {
        tracing::info!(
            pod = %self.pod.name_any(),
            container = %self.container.name,
            code,
            why = why.as_deref().unwrap_or_default(),
            "a container ended"
        );
        let terminated = ContainerStateTerminated {
            exit_code: code,
            reason: Some(if code == 0 { "Completed" } else { "Error" }.to_owned()),
            message: why,
            started_at: Some(started_at),
            finished_at: Some(now()),
            ..ContainerStateTerminated::default()
        };
        self.reporter.update(|report| {
            report.state = ContainerState { terminated: Some(terminated), ..ContainerState::default() };
            report.started = false;
            // A container for initialization is ready once it has done its work.
            report.ready = self.initializes && code == 0;
        });
    }

    fn grace(&self) -> Duration {
        let seconds = self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        Duration::from_secs(seconds.unwrap_or(DEFAULT_GRACE).unsigned_abs())
    }

    fn log(&self, attempt: u32) -> PathBuf {
        log_folder(&self.kubelet.setup.work.path().join("logs"), &self.pod)
            .join(format!("{}-{attempt}.log", self.container.name))
    }
}

/// Where a Pod's containers write; named so that a person finds it.
pub(super) fn log_folder(logs: &Path, pod: &Pod) -> PathBuf {
    logs.join("pods").join(pod.namespace().unwrap_or_default()).join(pod.name_any())
}

/// Waits for the order to stop; returns the grace. An order that can no longer come counts as one without grace.
pub(super) async fn ordered(stop: &mut StopOrder) -> Duration {
    match stop.wait_for(Option::is_some).await {
        Ok(grace) => grace.unwrap_or_default(),
        Err(_) => Duration::ZERO,
    }
}
