//! The command `isvc-registrar`: parses the command line and runs one subcommand.

use std::process::ExitCode;

use clap::Parser;
use isvc_registrar::cli::{Cli, run};

fn main() -> ExitCode {
    run(Cli::parse())
}
