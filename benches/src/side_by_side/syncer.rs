//! The syncer as a process of its own, and what it tells of itself.

use std::net::SocketAddr;
use std::time::Duration;

use super::cluster::Cluster;
use super::program::{Program, free_address};
use super::scene::{CLUSTER, Listening, Scene, ask};

/// How often its metrics are looked at: often enough for what takes seconds, and no load.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Longer than anything here takes, even on a slow machine.
const LIMIT: Duration = Duration::from_mins(10);

/// A running syncer. It is ended when this is dropped.
pub(crate) struct Syncer {
    pub(crate) program: Program,
    health: SocketAddr,
}

impl Syncer {
    /// Starts it for one namespace and one registry; `flags` come on top.
    pub(crate) fn start(
        scene: &Scene,
        cluster: &Cluster,
        namespace: &str,
        registry: &Listening,
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        let health = free_address()?;
        let mut command = scene.command();
        command
            .args(["syncer", "--no-lease", "--grace", "0s", "--cluster-id", CLUSTER])
            .args(["--watch-namespace", namespace])
            .args(["--registry-url", &format!("http://{}", registry.address)])
            .args(["--health-listen", &health.to_string()])
            .args(flags)
            .env("KUBECONFIG", cluster.kubeconfig());
        let program = Program::start("syncer", &mut command, &scene.path("syncer.log"))?;
        Ok(Self { program, health })
    }

    /// Waits until all samples of these metrics together, one or more by the beginning of their lines, come to so much.
    pub(crate) fn wait_for(&mut self, metric: &str, at_least: f64) -> anyhow::Result<()> {
        let health = self.health;
        self.program.wait_until_within(LIMIT, LOOK_AGAIN_AFTER, || {
            sum(health, metric).is_some_and(|sum| sum >= at_least)
        })
    }

    /// Waits until it has compared everything once.
    pub(crate) fn wait_until_compared(&mut self) -> anyhow::Result<()> {
        self.wait_for("isvc_registrar_syncer_resyncs_total{kind=\"full\",outcome=\"done\"}", 1.0)
    }

    /// Waits until so many objects of a namespace have their entries, and those say what is so.
    pub(crate) fn wait_until_registered(&mut self, namespace: &str, objects: u64) -> anyhow::Result<()> {
        let registered =
            format!("isvc_registrar_syncer_objects{{namespace=\"{namespace}\",state=\"registered\"");
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        self.wait_for(&registered, objects as f64)
    }

    /// The sum of the samples whose lines begin so; none before it answers.
    pub(crate) fn sum(&self, metric: &str) -> Option<f64> {
        sum(self.health, metric)
    }
}

fn sum(health: SocketAddr, metric: &str) -> Option<f64> {
    let answer = ask(health, "GET /metrics", "").ok()?;
    let samples = answer.lines().filter(|line| line.starts_with(metric));
    Some(samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}
