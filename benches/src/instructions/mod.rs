//! Counts the instructions of each step of a review under callgrind and holds them against the accepted figures.
//!
//! Goes in: `benches/instructions.json`. Comes out: a table, and exit code 1 when a step takes over
//! [`TOLERANCE`] more than accepted. Counts do not depend on what else the machine does; they do depend on the
//! compiler and on the C library, so after a change of either `--accept` writes new ones.

mod callgrind;
mod steps;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use steps::Step;

/// How much more than accepted a step may take: hash seeds and allocation leave counts equal to within 0.1 %, so
/// what is beyond this was changed on purpose or by mistake.
const TOLERANCE: f64 = 0.05;

/// And so many instructions beside that: where the heap lies differs from machine to machine, and a slow path of the
/// allocator would be a large part of the smallest steps.
const SLACK: f64 = 300.0;

/// Flags of the count.
#[derive(Debug, clap::Args)]
pub(crate) struct InstructionsArgs {
    /// Write what is counted as the accepted figures
    #[arg(long)]
    accept: bool,
}

/// Counts by the name of the step.
type Counts = BTreeMap<String, u64>;

/// Counts all steps and compares.
pub(crate) fn run(arguments: &InstructionsArgs) -> anyhow::Result<ExitCode> {
    let accepted_file = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.json");
    let counts = Step::all()
        .iter()
        .map(|step| Ok((step.name(), callgrind::count(&step.name())?)))
        .collect::<anyhow::Result<Counts>>()?;
    if arguments.accept {
        accept(&accepted_file, &counts)?;
    }
    Ok(compare(&read_accepted(&accepted_file)?, &counts))
}

/// Runs one step and nothing else: what callgrind is given to run.
pub(crate) fn run_step(name: &str) -> anyhow::Result<()> {
    let step = Step::all().into_iter().find(|step| step.name() == name).context("no such step")?;
    step.run();
    Ok(())
}

fn accept(file: &Path, counts: &Counts) -> anyhow::Result<()> {
    let text = format!("{}\n", serde_json::to_string_pretty(counts)?);
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn read_accepted(file: &Path) -> anyhow::Result<Counts> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not what --accept writes", file.display()))
}

/// Whether a step takes more than is tolerated.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn is_over(accepted: u64, count: u64) -> bool {
    count as f64 > accepted as f64 * (1.0 + TOLERANCE) + SLACK
}

/// Prints each step; fails when one takes too many, or was never accepted.
fn compare(accepted: &Counts, counts: &Counts) -> ExitCode {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["step", "instructions", "accepted", "ratio", ""]);
    let mut failed = false;
    for (name, count) in counts {
        let known = accepted.get(name).copied();
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let ratio = known.map(|known| *count as f64 / known as f64);
        let verdict = match known {
            Some(known) if !is_over(known, *count) => "",
            Some(_) => "over",
            None => "not accepted yet",
        };
        failed |= !verdict.is_empty();
        table.add_row([
            name.clone(),
            count.to_string(),
            known.map(|known| known.to_string()).unwrap_or_default(),
            ratio.map(|ratio| format!("{ratio:.3}")).unwrap_or_default(),
            verdict.to_owned(),
        ]);
    }
    println!("{table}");
    if failed {
        println!(
            "
A step takes over {:.0} % more than accepted. If that is meant: tests/bench --accept",
            TOLERANCE * 1e2
        );
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twentieth_more_is_too_much() {
        assert!(!is_over(100_000, 105_000));
        assert!(is_over(100_000, 105_400));
        assert!(!is_over(2_000, 2_300), "a slow path of the allocator is no regression");
        assert!(is_over(2_000, 2_500));
    }
}
