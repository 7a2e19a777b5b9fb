//! Startup, readiness and liveness probes.
//!
//! In: a running container and its probes. Out: its `started` and `ready`, and at last the reason to kill it. What
//! stays true: the thresholds and periods are the Pod's; readiness and liveness wait for startup.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::sandbox::Sandbox;
use super::status::Reporter;

/// What the API server sets where a Pod leaves it out.
const DEFAULT_PERIOD: i32 = 10;
const DEFAULT_TIMEOUT: i32 = 1;
const DEFAULT_FAILURES: i32 = 3;

/// A container that is being probed.
pub(super) struct Probed<'a> {
    pub(super) container: &'a Container,
    pub(super) address: Ipv4Addr,
    pub(super) sandbox: &'a Sandbox,
    pub(super) log: &'a Path,
}

impl Probed<'_> {
    /// Probes for as long as the container may live; returns why it must not any longer.
    pub(super) async fn watch(&self, reporter: &Reporter) -> String {
        if let Some(probe) = &self.container.startup_probe
            && let Verdict::Down(why) = self.settle(probe, Tally::new(probe)).await
        {
            return format!("startup probe failed: {why}");
        }
        reporter.update(|report| {
            report.started = true;
            report.ready = self.container.readiness_probe.is_none();
        });
        tokio::select! {
            why = self.watch_liveness() => format!("liveness probe failed: {why}"),
            () = self.watch_readiness(reporter) => unreachable!("readiness is watched for ever"),
        }
    }

    async fn watch_liveness(&self) -> String {
        let Some(probe) = &self.container.liveness_probe else {
            return std::future::pending().await;
        };
        loop {
            if let Verdict::Down(why) = self.settle(probe, Tally::new(probe)).await {
                return why;
            }
            sleep(period(probe)).await;
        }
    }

    async fn watch_readiness(&self, reporter: &Reporter) {
        let Some(probe) = &self.container.readiness_probe else {
            return std::future::pending().await;
        };
        loop {
            let up = matches!(self.settle(probe, Tally::new(probe)).await, Verdict::Up);
            reporter.update(|report| report.ready = up);
            sleep(period(probe)).await;
        }
    }

    /// Probes until a threshold is reached.
    async fn settle(&self, probe: &Probe, mut tally: Tally) -> Verdict {
        let delay = probe.initial_delay_seconds.unwrap_or_default();
        sleep(Duration::from_secs(delay.unsigned_abs().into())).await;
        loop {
            let outcome = self.check(probe).await;
            if let Some(verdict) = tally.count(outcome) {
                return verdict;
            }
            sleep(period(probe)).await;
        }
    }

    async fn check(&self, probe: &Probe) -> Result<()> {
        let seconds = probe.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT).max(1).unsigned_abs();
        let limit = Duration::from_secs(seconds.into());
        let Ok(outcome) = timeout(limit, self.ask(probe)).await else {
            bail!("no answer within {seconds} s")
        };
        outcome
    }

    async fn ask(&self, probe: &Probe) -> Result<()> {
        if let Some(http) = &probe.http_get {
            self.http_get(http).await
        } else if let Some(tcp) = &probe.tcp_socket {
            let host = tcp.host.clone().unwrap_or_else(|| self.address.to_string());
            TcpStream::connect((host, self.port(&tcp.port)?)).await?;
            Ok(())
        } else if let Some(exec) = &probe.exec {
            let command = exec.command.clone().unwrap_or_default();
            let code = self.sandbox.exec(&command, self.log)?.wait().await;
            ensure!(code == 0, "{command:?} ended with code {code}");
            Ok(())
        } else {
            bail!("the tests' kubelet knows httpGet, tcpSocket and exec only")
        }
    }

    /// One GET as the kubelet sends it: to the Pod's address, certificates not verified.
    pub(super) async fn http_get(&self, action: &HTTPGetAction) -> Result<()> {
        let scheme = action.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
        let host = action.host.clone().unwrap_or_else(|| self.address.to_string());
        let path = action.path.as_deref().unwrap_or("/").trim_start_matches('/');
        let url = format!("{scheme}://{host}:{}/{path}", self.port(&action.port)?);
        let client = reqwest::Client::builder().tls_danger_accept_invalid_certs(true).no_proxy().build()?;
        let mut request = client.get(&url).header("user-agent", "kube-probe/tests");
        for header in action.http_headers.iter().flatten() {
            request = request.header(&header.name, &header.value);
        }
        let status = request.send().await?.status();
        ensure!(status.is_success() || status.is_redirection(), "{url} answers {status}");
        Ok(())
    }

    fn port(&self, port: &IntOrString) -> Result<u16> {
        let number = match port {
            IntOrString::Int(number) => *number,
            IntOrString::String(name) => {
                let mut ports = self.container.ports.iter().flatten();
                ports
                    .find(|port| port.name.as_ref() == Some(name))
                    .with_context(|| format!("container {} has no port {name:?}", self.container.name))?
                    .container_port
            }
        };
        Ok(u16::try_from(number)?)
    }
}

enum Verdict {
    Up,
    Down(String),
}

/// Counts outcomes in a row against the thresholds.
struct Tally {
    successes_needed: i32,
    failures_needed: i32,
    successes: i32,
    failures: i32,
}

impl Tally {
    fn new(probe: &Probe) -> Self {
        Self {
            successes_needed: probe.success_threshold.unwrap_or(1),
            failures_needed: probe.failure_threshold.unwrap_or(DEFAULT_FAILURES),
            successes: 0,
            failures: 0,
        }
    }

    fn count(&mut self, outcome: Result<()>) -> Option<Verdict> {
        match outcome {
            Ok(()) => {
                self.successes += 1;
                self.failures = 0;
                (self.successes >= self.successes_needed).then_some(Verdict::Up)
            }
            Err(error) => {
                self.failures += 1;
                self.successes = 0;
                (self.failures >= self.failures_needed).then(|| Verdict::Down(format!("{error:#}")))
            }
        }
    }
}

fn period(probe: &Probe) -> Duration {
    let seconds = probe.period_seconds.unwrap_or(DEFAULT_PERIOD).max(1);
    Duration::from_secs(seconds.unsigned_abs().into())
}
