//! The benchmarks that are programs: the table of `tests/bench`, and the count of instructions.

mod instructions;
mod side_by_side;

use std::process::ExitCode;

use clap::Parser;

use instructions::InstructionsArgs;
use side_by_side::SideBySideArgs;
use side_by_side::reference::ReferenceArgs;

/// Benchmarks of isvc-registrar.
#[derive(Debug, Parser)]
enum Command {
    /// Hold the built program against bare references
    SideBySide(SideBySideArgs),
    /// Count the instructions of each step of a review
    Instructions(InstructionsArgs),
    /// Put a load on somebody, as standard input says
    #[command(hide = true)]
    Load,
    /// Serve the bare handler
    #[command(hide = true)]
    Reference(ReferenceArgs),
    /// Run one step of a review
    #[command(hide = true)]
    Step {
        /// Its name
        name: String,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    // Fails only when a provider is there already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match Command::parse() {
        Command::SideBySide(args) => return side_by_side::run(&args),
        Command::Instructions(args) => return instructions::run(&args),
        Command::Load => run_async(side_by_side::load::run())?,
        Command::Reference(args) => run_async(side_by_side::reference::run(args))?,
        Command::Step { name } => instructions::run_step(&name)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_async(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
