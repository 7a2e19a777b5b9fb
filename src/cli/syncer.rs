//! `isvc-registrar syncer`: flags, and the wiring of the syncer.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::go_controller::GoController;
use super::{ProgramArgs, RegistriesArgs, cluster, duration};
use crate::metrics::Metrics;
use crate::namespaced_name::NamespacedName;
use crate::server::{Health, Limits, Part, health, stop_signal};
use crate::syncer::cluster_lease::ClusterLease;
use crate::syncer::objects::cluster::ClusterObjects;
use crate::syncer::{Fence, Settings, Syncer, lease};

/// Where health is told when no flag says otherwise.
const HEALTH_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 8081);

/// Name of the Lease when no flag says otherwise.
const LEASE: &str = "isvc-registrar-syncer";

/// How often readiness is looked at.
const LOOK_AT_READINESS_EVERY: Duration = Duration::from_secs(1);

/// Flags of the syncer.
#[derive(Debug, Clone, Args)]
pub struct SyncerArgs {
    /// Namespace whose InferenceServices are watched; may be given more than once [default: all]
    #[arg(long, env = "ISVC_REGISTRAR_WATCH_NAMESPACE", value_name = "NAMESPACE", value_delimiter = ',')]
    pub watch_namespace: Vec<String>,

    /// Lease by which replicas agree on which of them acts [default: isvc-registrar-syncer in this Namespace]
    #[arg(long, env = "ISVC_REGISTRAR_LEASE", value_name = "NAMESPACE/NAME")]
    pub lease: Option<NamespacedName>,

    /// Act without a Lease: only where this is the one replica there is
    #[arg(long, env = "ISVC_REGISTRAR_NO_LEASE", conflicts_with = "lease")]
    pub no_lease: bool,

    /// How often the registries are compared with the cluster
    #[arg(long, env = "ISVC_REGISTRAR_RESYNC", value_name = "DURATION", default_value = "10m",
          value_parser = duration::positive)]
    pub resync: Duration,

    /// How often everything that is deployed is compared, not only what has changed
    #[arg(long, env = "ISVC_REGISTRAR_FULL_RESYNC", value_name = "DURATION", default_value = "1h",
          value_parser = duration::positive)]
    pub full_resync: Duration,

    /// How long an entry must be untouched before it is retired for an object that was never seen
    #[arg(long, env = "ISVC_REGISTRAR_GRACE", value_name = "DURATION", default_value = "5m",
          value_parser = duration::any)]
    pub grace: Duration,

    /// Retire nothing
    #[arg(long, env = "ISVC_REGISTRAR_NO_RETIRE")]
    pub no_retire: bool,

    /// How many objects are worked on at once
    #[arg(long, env = "ISVC_REGISTRAR_WORKERS", value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,

    /// Finalizer that is taken off objects being deleted, as the Go controller left it
    #[arg(long, env = "ISVC_REGISTRAR_RELEASE_FINALIZER", value_name = "FINALIZER")]
    pub release_finalizer: Option<String>,

    /// The registries.
    #[command(flatten)]
    pub registries: RegistriesArgs,

    /// The program.
    #[command(flatten)]
    pub program: ProgramArgs,
}

/// Works until SIGTERM, and then until the last write has ended.
pub(super) async fn run(args: SyncerArgs) -> anyhow::Result<()> {
    let go_controller = GoController::from_environment()?;
    args.program.start_logging();
    let stop = stop_signal()?;
    let metrics = Metrics::default();
    let health = Health::default();
    let objects_part = health.part("objects");

    let health_listen = args.program.health_listen.unwrap_or(HEALTH_LISTEN);
    let health_listener = TcpListener::bind(health_listen)
        .with_context(|| format!("cannot serve health on {health_listen}"))?;
    let health_routes = health::router(health.clone(), metrics.clone());
    let health_server = tokio::spawn(health::serve(health_listener, health_routes, Limits::of_health()));

    let client = cluster::client().await?;
    let namespaces = cluster::namespaces(&client);
    let settings = args.registries.settings(&go_controller, &metrics.registry)?;
    let directory = args.registries.follow(settings, namespaces, Some(&client)).await?;
    let cluster_id = if let Some(id) = args.program.cluster_id.clone() {
        id
    } else {
        // Cancelling the wait loses nothing: it only reads.
        tokio::select! {
            id = cluster::id(&client) => id?,
            () = stop.cancelled() => return Ok(()),
        }
    };
    let fence = if args.no_lease { Fence::open() } else { Fence::closed() };
    let settings = Settings {
        keys: args.program.keys(&go_controller),
        namespaces: args.watch_namespace,
        resync: args.resync,
        full_resync: args.full_resync,
        grace: args.grace,
        retire: !args.no_retire,
        workers: usize::from(args.workers),
        release_finalizer: args
            .release_finalizer
            .filter(|finalizer| !finalizer.is_empty())
            .or(go_controller.finalizer),
        registry_timeout: args.registries.registry_timeout,
        ..Settings::new(cluster_id.clone())
    };
    let objects = Arc::new(ClusterObjects::new(client.clone()));
    let syncer = Syncer::new(settings, objects, directory, fence.clone(), metrics.syncer.clone());

    // The lease is given up only when no write is under way any more.
    let give_up = CancellationToken::new();
    let holding = (!args.no_lease).then(|| {
        let namespace = client.default_namespace().to_owned();
        let name = args.lease.unwrap_or_else(|| NamespacedName::new(namespace, LEASE));
        let leases = ClusterLease::new(client, &name.namespace, &name.name);
        let (fence, give_up) = (fence, give_up.clone());
        tokio::spawn(async move { lease::hold(&leases, identity(), &fence, give_up).await })
    });
    tokio::spawn(tell_readiness(syncer.clone(), objects_part));
    tracing::info!(cluster = %cluster_id, lease = !args.no_lease, "keeping entries true");
    tokio::select! {
        () = syncer.run(stop) => {}
        // It does not end while all is well.
        ended = health_server => ended.context("the health server panicked")?
            .with_context(|| format!("cannot serve health on {health_listen}"))?,
    }
    give_up.cancel();
    if let Some(holding) = holding {
        // A panic of it has left the lease to run out by itself.
        let _ = holding.await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// What tells this replica from every other: its pod, and a number for a restart within it.
fn identity() -> String {
    let host = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME"));
    format!("{}_{:016x}", host.unwrap_or_else(|_| "isvc-registrar".into()), fastrand::u64(..))
}

async fn tell_readiness(syncer: Syncer, part: Part) {
    loop {
        if syncer.is_ready() {
            part.ready();
        } else {
            part.not_ready("not all InferenceServices are listed yet");
        }
        tokio::time::sleep(LOOK_AT_READINESS_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_has_a_namespace_and_a_name() {
        let good = NamespacedName::new("kubeflow", "syncer");
        assert_eq!("kubeflow/syncer".parse(), Ok(good));
        for bad in ["", "syncer", "/syncer", "kubeflow/", "a/b/c"] {
            assert!(bad.parse::<NamespacedName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn two_processes_of_one_pod_are_told_apart() {
        assert_ne!(identity(), identity());
    }
}
