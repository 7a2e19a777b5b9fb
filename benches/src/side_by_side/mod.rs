//! Holds the built program against bare references, side by side, and prints a table of ratios.
//!
//! Goes in: the built program. Comes out: the table, and exit code 1 when a line misses its goal. Every
//! part is a process of its own: the load, the bare handler, the registry, the webhook. A figure is one of ours by one
//! of the reference's, taken in turns; times by the clock say nothing on a machine that others use.

mod cluster;
mod connection;
mod lines;
pub(crate) mod load;
mod program;
pub(crate) mod reference;
mod scene;
mod syncer;
mod table;
mod target;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use lines::{GROUPS, Group};
use scene::{Effort, Scene};
use table::{Goal, Verdict};

/// Flags of the table.
#[derive(Debug, clap::Args)]
pub(crate) struct SideBySideArgs {
    /// Only prove that everything still works; judge no figure
    #[arg(long)]
    short: bool,

    /// Measure only these groups of lines
    #[arg(long, value_name = "GROUP", value_parser = GROUPS.map(|group| group.name))]
    only: Vec<String>,

    /// The built program [default: isvc-registrar beside this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// The program whose size is measured [default: the same]
    #[arg(long, value_name = "FILE")]
    release: Option<PathBuf>,
}

/// Measures, and prints what came of it.
pub(crate) fn run(arguments: &SideBySideArgs) -> anyhow::Result<ExitCode> {
    let effort = if arguments.short { Effort::SHORT } else { Effort::FULL };
    let program = program(arguments)?;
    let release = arguments.release.clone().unwrap_or_else(|| program.clone());
    let scene = Scene::new(program, release, effort)?;
    let wanted =
        |group: &&Group| arguments.only.is_empty() || arguments.only.iter().any(|name| name == group.name);
    let mut lines = Vec::new();
    for group in GROUPS.iter().filter(wanted) {
        let mut measured =
            (group.measure)(&scene).with_context(|| format!("cannot measure {}", group.name))?;
        if arguments.short {
            for line in &mut measured {
                line.goal = Goal::Told;
            }
        }
        println!("{}\n", table::render(&measured));
        lines.extend(measured);
    }
    println!("{}", table::render(&lines));
    let missed = lines.iter().any(|line| line.verdict() == Verdict::Missed);
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn program(arguments: &SideBySideArgs) -> anyhow::Result<PathBuf> {
    if let Some(program) = &arguments.program {
        return Ok(program.clone());
    }
    let this = std::env::current_exe()?;
    Ok(this.with_file_name("isvc-registrar"))
}
