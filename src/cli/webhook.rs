//! `isvc-registrar webhook`: flags, and the wiring of the webhook.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::go_controller::GoController;
use super::{ProgramArgs, RegistriesArgs, ServingCertificateArgs, cluster, duration};
use crate::admission::{self, Mode, OnMissing, Policies, Severity, Webhook};
use crate::certs::{CertificateResolver, Clock, Serving};
use crate::metrics::Metrics;
use crate::registration::{ClusterId, Registrar};
use crate::server::{Health, Limits, health, stop_signal, tls};

/// Where health is told when no flag says otherwise.
const HEALTH_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 8080);

/// How long the first lists of Services and Namespaces are waited for; they take milliseconds.
const FIRST_LISTS_LIMIT: Duration = Duration::from_secs(10);

/// Flags of the webhook.
#[derive(Debug, Clone, Args)]
pub struct WebhookArgs {
    /// Address to listen on for reviews
    #[arg(long, env = "ISVC_REGISTRAR_LISTEN", value_name = "ADDRESS", default_value = "0.0.0.0:10250", value_parser = super::address::listen)]
    pub listen: SocketAddr,

    /// How long reviews are still accepted after SIGTERM, while endpoints are updated
    #[arg(long, env = "ISVC_REGISTRAR_DRAIN_DELAY", value_name = "DURATION", default_value = "5s",
          value_parser = duration::any)]
    pub drain_delay: Duration,

    /// The certificate.
    #[command(flatten)]
    pub certificate: ServingCertificateArgs,

    /// The policies.
    #[command(flatten)]
    pub policies: PolicyArgs,

    /// The registries.
    #[command(flatten)]
    pub registries: RegistriesArgs,

    /// The program.
    #[command(flatten)]
    pub program: ProgramArgs,
}

/// Flags of the policies.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Policies")]
pub struct PolicyArgs {
    /// How far the registrar goes; a Namespace can set its own by label <prefix>/registrar
    #[arg(long, env = "ISVC_REGISTRAR_MODE", value_enum, default_value_t = Mode::Enforce)]
    pub mode: Mode,

    /// An object names neither a registered model nor an entry
    #[arg(long, env = "ISVC_REGISTRAR_ON_MISSING", value_enum, default_value_t = OnMissing::Allow)]
    pub on_missing: OnMissing,

    /// What an object names does not exist, or belongs to somebody else
    #[arg(long, env = "ISVC_REGISTRAR_ON_INVALID", value_enum, default_value_t = Severity::Deny)]
    pub on_invalid: Severity,

    /// What an object names was archived by its owner
    #[arg(long, env = "ISVC_REGISTRAR_ON_ARCHIVED", value_enum, default_value_t = Severity::Warn)]
    pub on_archived: Severity,

    /// The registry cannot be asked
    #[arg(long, env = "ISVC_REGISTRAR_ON_UNAVAILABLE", value_enum, default_value_t = Severity::Warn)]
    pub on_unavailable: Severity,
}

impl PolicyArgs {
    fn policies(&self) -> Policies {
        Policies {
            mode: self.mode,
            on_missing: self.on_missing,
            on_invalid: self.on_invalid,
            on_archived: self.on_archived,
            on_unavailable: self.on_unavailable,
        }
    }
}

/// Serves until SIGTERM, and then until the last review is answered.
pub(super) async fn run(args: WebhookArgs) -> anyhow::Result<()> {
    let go_controller = GoController::from_environment()?;
    args.program.start_logging();
    let stop = stop_signal()?;
    let metrics = Metrics::default();
    let health = Health::default();
    let (certificate_part, listener_part) = (health.part("certificate"), health.part("listener"));

    let health_listen = args.program.health_listen.unwrap_or(HEALTH_LISTEN);
    let health_listener = TcpListener::bind(health_listen)
        .with_context(|| format!("cannot serve health on {health_listen}"))?;
    let health_routes = health::router(health.clone(), metrics.clone());
    let health_server = tokio::spawn(health::serve(health_listener, health_routes, Limits::of_health()));

    let prepared = prepare(&args, &go_controller, &metrics);
    // Cancelling the preparation loses nothing: it only reads, and nobody is served yet.
    let (client, webhook, cluster) = tokio::select! {
        prepared = prepared => prepared?,
        () = stop.cancelled() => return Ok(()),
    };

    let resolver = Arc::new(CertificateResolver::default());
    let certificates = metrics.certificates.clone();
    let serving = Serving::new(Arc::clone(&resolver), certificates, certificate_part, Clock::system());
    let certificate_keeper = tokio::spawn(args.certificate.keeper(client.as_ref(), serving)?);

    let listener =
        TcpListener::bind(args.listen).with_context(|| format!("cannot listen on {}", args.listen))?;
    listener_part.ready();
    tracing::info!(listen = %args.listen, %cluster, "answering reviews");
    let stopping = stop.clone();
    tokio::spawn(async move {
        stopping.cancelled().await;
        listener_part.not_ready("stopping");
    });
    let serving = tls::serve(
        listener,
        admission::router(webhook),
        resolver,
        tls::Stop { signal: stop, drain_delay: args.drain_delay },
        Limits::default(),
    );
    tokio::select! {
        served = serving => served.context("the webhook's listener failed")?,
        // Neither ends while all is well.
        ended = health_server => ended.context("the health server panicked")?
            .with_context(|| format!("cannot serve health on {health_listen}"))?,
        ended = certificate_keeper => match ended.context("what keeps the certificate panicked")? {},
    }
    tracing::info!("stopped");
    Ok(())
}

/// What has to be known before anybody can be served.
async fn prepare(
    args: &WebhookArgs,
    go_controller: &GoController,
    metrics: &Metrics,
) -> anyhow::Result<(Option<kube::Client>, Webhook, ClusterId)> {
    let alone = args.program.cluster_id.is_some()
        && args.registries.need_no_cluster()
        && !args.certificate.needs_cluster();
    let client = if alone && !cluster::is_meant() { None } else { Some(cluster::client().await?) };
    let namespaces = client.as_ref().map(cluster::namespaces).unwrap_or_default();
    let settings = args.registries.settings(go_controller, &metrics.registry)?;
    let directory = args.registries.follow(settings, namespaces.clone(), client.as_ref()).await?;
    let cluster = match (args.program.cluster_id.clone(), &client) {
        (Some(id), _) => id,
        (None, Some(client)) => cluster::id(client).await?,
        (None, None) => anyhow::bail!("give --cluster-id"),
    };
    if client.is_some() {
        // So that the first reviews find their registry. When the API server does not let this program list, it
        // serves all the same: reviews are answered as when the registry is away.
        let lists = async { tokio::join!(directory.known(), namespaces.known()) };
        if tokio::time::timeout(FIRST_LISTS_LIMIT, lists).await.is_err() {
            tracing::warn!("Services and Namespaces are not listed yet, starting without");
        }
    }
    let webhook = Webhook {
        registrar: Registrar::new(cluster.clone(), args.registries.registry_timeout),
        directory,
        namespaces,
        keys: args.program.keys(go_controller),
        policies: args.policies.policies(),
        registry_limit: args.registries.registry_timeout,
        metrics: metrics.reviews.clone(),
    };
    Ok((client, webhook, cluster))
}
