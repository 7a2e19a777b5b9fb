//! Flags of `isvc-registrar registry`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Flags of the embedded registry.
#[derive(Debug, Clone, Args)]
pub struct RegistryArgs {
    /// Address to listen on
    #[arg(long, env = "ISVC_REGISTRAR_LISTEN", default_value = "127.0.0.1:8085")]
    pub listen: SocketAddr,

    /// Requests to run at start, as JSON lines of {method, path, body}
    #[arg(long, env = "ISVC_REGISTRAR_SEED", value_name = "FILE")]
    pub seed: Option<PathBuf>,
}

pub(super) async fn run(_args: RegistryArgs) -> anyhow::Result<()> {
    anyhow::bail!("the embedded registry is not built yet")
}
