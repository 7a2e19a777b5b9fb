//! Flags of `isvc-registrar registry`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::registry::embedded::{EmbeddedRegistry, Registry};

/// Flags of the embedded registry.
#[derive(Debug, Clone, Args)]
pub struct RegistryArgs {
    /// Address to listen on
    #[arg(long, env = "ISVC_REGISTRAR_LISTEN", default_value = "127.0.0.1:8085", value_parser = super::address::listen)]
    pub listen: SocketAddr,

    /// Requests to run at start, as JSON lines of {method, path, body}
    #[arg(long, env = "ISVC_REGISTRAR_SEED", value_name = "FILE")]
    pub seed: Option<PathBuf>,
}

pub(super) async fn run(args: RegistryArgs) -> anyhow::Result<()> {
    let registry = Registry::new();
    if let Some(path) = &args.seed {
        let lines = tokio::fs::read_to_string(path)
            .await
            .with_context(|| format!("cannot read {}", path.display()))?;
        let sown = registry.seed(&lines).with_context(|| path.display().to_string())?;
        println!("{sown} requests of {} were run", path.display());
    }
    let server = EmbeddedRegistry::start(registry, args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    println!("A Model Registry in memory at {}", server.url());
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    tokio::select! {
        _ = terminate.recv() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot wait for Ctrl-C")?,
    }
    server.stop().await;
    Ok(())
}
