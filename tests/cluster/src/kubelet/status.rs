//! A Pod's status.
//!
//! In: reports of its containers. Out: the status as the API has it. What stays true: a Pod is ready only while all of
//! its containers run and are ready; a transition time changes only
//! with its condition.

use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateWaiting, ContainerStatus, HostIP, Pod,
    PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::watch;

/// What is known of one container.
#[derive(Debug, Clone, Default)]
pub(super) struct ContainerReport {
    pub(super) state: ContainerState,
    pub(super) last_state: Option<ContainerState>,
    pub(super) restarts: i32,
    pub(super) started: bool,
    pub(super) ready: bool,
}

/// What is known of a Pod's containers: those for initialization first, then the others.
#[derive(Debug, Clone, Default)]
pub(super) struct PodReport {
    pub(super) containers: Vec<ContainerReport>,
    /// No container will be started again.
    pub(super) finished: bool,
}

/// Where one container's runner writes its report.
#[derive(Debug, Clone)]
pub(super) struct Reporter {
    reports: Arc<watch::Sender<PodReport>>,
    index: usize,
}

impl Reporter {
    pub(super) fn new(reports: Arc<watch::Sender<PodReport>>, index: usize) -> Self {
        Self { reports, index }
    }

    /// Changes the report.
    pub(super) fn update(&self, change: impl FnOnce(&mut ContainerReport)) {
        self.reports.send_modify(|report| change(&mut report.containers[self.index]));
    }

    /// The container does not run; what it was before becomes its last state.
    pub(super) fn waits(&self, reason: &str, message: &str) {
        self.update(|report| {
            if report.state.terminated.is_some() {
                report.last_state = Some(std::mem::take(&mut report.state));
            }
            report.state = waiting(reason, message);
            report.started = false;
            report.ready = false;
        });
    }

    /// The container's process was started.
    pub(super) fn runs(&self, started_at: &Time) {
        self.update(|report| {
            let running = ContainerStateRunning { started_at: Some(started_at.clone()) };
            report.state = ContainerState { running: Some(running), ..ContainerState::default() };
        });
    }
}

/// A container that is not running.
pub(super) fn waiting(reason: &str, message: &str) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        message: (!message.is_empty()).then(|| message.to_owned()),
    };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

/// The time now, as the API writes it.
pub(super) fn now() -> Time {
    Time(Timestamp::now())
}

/// The whole status of a Pod.
pub(super) fn compose(
    pod: &Pod,
    report: &PodReport,
    pod_address: Ipv4Addr,
    node_address: Ipv4Addr,
    previous: Option<&PodStatus>,
) -> PodStatus {
    let empty = Vec::new();
    let (init, main) = pod
        .spec
        .as_ref()
        .map_or((&empty, &empty), |spec| (spec.init_containers.as_ref().unwrap_or(&empty), &spec.containers));
    let (init_reports, reports) = report.containers.split_at(init.len().min(report.containers.len()));
    let initialized = init_reports.iter().all(|report| exit_code(report) == Some(0));
    let unready: Vec<&str> = main
        .iter()
        .zip(reports)
        .filter(|(_, report)| !report.ready)
        .map(|(spec, _)| spec.name.as_str())
        .collect();
    let ready = initialized && unready.is_empty();

    let mut conditions = Conditions::new(previous);
    conditions.set("PodScheduled", true, None);
    conditions.set("Initialized", initialized, None);
    let message = (!ready).then(|| format!("containers with unready status: [{}]", unready.join(" ")));
    conditions.set("ContainersReady", ready, message.clone());
    conditions.set("Ready", ready, message);

    let address = pod_address.to_string();
    PodStatus {
        phase: Some(phase(report, init_reports, reports).to_owned()),
        conditions: Some(conditions.list),
        init_container_statuses: (!init.is_empty()).then(|| statuses(init, init_reports)),
        container_statuses: Some(statuses(main, reports)),
        pod_ip: Some(address.clone()),
        pod_ips: Some(vec![PodIP { ip: address }]),
        host_ip: Some(node_address.to_string()),
        host_ips: Some(vec![HostIP { ip: node_address.to_string() }]),
        start_time: previous.and_then(|status| status.start_time.clone()).or_else(|| Some(now())),
        ..PodStatus::default()
    }
}

/// Whether a status says that the Pod takes requests.
pub(super) fn is_ready(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn phase(report: &PodReport, init: &[ContainerReport], main: &[ContainerReport]) -> &'static str {
    let never_ran = |report: &ContainerReport| report.state.waiting.is_some() && report.last_state.is_none();
    if report.finished {
        let all_well = init.iter().chain(main).all(|report| exit_code(report) == Some(0));
        if all_well { "Succeeded" } else { "Failed" }
    } else if main.iter().any(never_ran) {
        "Pending"
    } else {
        "Running"
    }
}

fn exit_code(report: &ContainerReport) -> Option<i32> {
    report.state.terminated.as_ref().map(|terminated| terminated.exit_code)
}

fn statuses(containers: &[Container], reports: &[ContainerReport]) -> Vec<ContainerStatus> {
    let status = |(container, report): (&Container, &ContainerReport)| ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        image_id: container.image.clone().unwrap_or_default(),
        container_id: (report.state.running.is_some()).then(|| format!("process://{}", container.name)),
        state: Some(report.state.clone()),
        last_state: report.last_state.clone(),
        restart_count: report.restarts,
        started: Some(report.started),
        ready: report.ready,
        ..ContainerStatus::default()
    };
    containers.iter().zip(reports).map(status).collect()
}

/// Builds conditions on top of those that are there.
struct Conditions {
    list: Vec<PodCondition>,
}

impl Conditions {
    fn new(previous: Option<&PodStatus>) -> Self {
        Self { list: previous.and_then(|status| status.conditions.clone()).unwrap_or_default() }
    }

    fn set(&mut self, kind: &str, holds: bool, message: Option<String>) {
        let status = if holds { "True" } else { "False" };
        let position = self.list.iter().position(|condition| condition.type_ == kind);
        let previous = position.map(|position| self.list.remove(position));
        let last_transition_time = previous
            .filter(|condition| condition.status == status)
            .and_then(|condition| condition.last_transition_time)
            .or_else(|| Some(now()));
        self.list.push(PodCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            // Empty and not absent: a patch would leave what was there before.
            reason: Some(if holds { "" } else { "ContainersNotReady" }.to_owned()),
            message: Some(message.unwrap_or_default()),
            last_transition_time,
            ..PodCondition::default()
        });
    }
}
