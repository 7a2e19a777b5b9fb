//! `isvc-registrar demo`: everything in one process.

use std::path::PathBuf;

use clap::Args;

use crate::demo::{self, Demo};
use crate::server::stop_signal;

/// Flags of the demonstration.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// Manifests to apply; without any the built-in samples
    #[arg(value_name = "MANIFEST")]
    pub manifests: Vec<PathBuf>,

    /// Stay up afterwards and print two commands to try
    #[arg(long)]
    pub serve: bool,
}

pub(super) async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let serve = if args.serve { Some(stop_signal()?) } else { None };
    demo::run(Demo { manifests: args.manifests, serve }, std::io::stdout()).await
}
