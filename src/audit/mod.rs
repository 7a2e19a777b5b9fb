//! The audit: where cluster and registries do not agree, printed, and mended on a person's word.
//!
//! Goes in: an [`Inspector`], and what to do with what it finds. Comes out: a report, and a [`Verdict`]. What stays
//! true: what is printed is what the syncer's own table plans; nothing is written before the person has seen it and
//! said yes; after writing, everything is compared once more, so that *mended* is a finding and no hope.

mod progress;
mod report;
mod table;

use std::io::{self, Write};

pub use progress::Progress;
pub use report::{Difference, Report};

use crate::syncer::inspect::{InspectError, Inspector};

/// How the report is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Table,
    /// One JSON object, as described in docs/audit.md
    Json,
}

/// Whether to write.
pub enum Fix<'a> {
    /// No.
    No,
    /// When this, asked with a question, says yes.
    Ask(&'a mut dyn FnMut(&str) -> io::Result<bool>),
    /// Yes.
    Yes,
}

/// How an audit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Cluster and registries agree.
    Agreement,
    /// They do now.
    Mended,
    /// They do not.
    Drift,
}

/// Why an audit came to no end.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// There was something that could not be read.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// The report could not be printed, or the answer not be read.
    #[error("cannot print the report or read the answer: {0}")]
    Io(#[from] io::Error),
    /// Some writes were not made.
    #[error("{0} objects could not be mended: the messages above say why; run it again to see what is left")]
    NotWritten(usize),
}

/// Where an audit prints.
pub struct Paper<'a> {
    /// The report, and nothing else.
    pub report: &'a mut dyn Write,
    /// What is said beside it.
    pub remarks: &'a mut dyn Write,
}

/// Compares, prints, and writes if it may.
pub async fn run(
    inspector: &Inspector,
    output: Output,
    fix: Fix<'_>,
    paper: Paper<'_>,
    progress: &Progress,
) -> Result<Verdict, AuditError> {
    let looked = inspector.inspect(&|step| progress.step(step)).await;
    progress.end();
    let findings = looked?;
    let report = Report::new(inspector.cluster(), &findings);
    print(&report, output, paper.report)?;
    if findings.is_empty() {
        return Ok(Verdict::Agreement);
    }
    let writes = report.writes();
    if writes == 0 || !may_write(inspector, &report, &findings, fix)? {
        return Ok(Verdict::Drift);
    }
    progress.begin_writing(report.names_to_write());
    let failed = inspector.mend(&findings, &|step| progress.step(step)).await;
    progress.end();
    if failed > 0 {
        return Err(AuditError::NotWritten(failed));
    }
    let left = inspector.inspect(&|step| progress.step(step)).await;
    progress.end();
    let left = left?;
    if left.is_empty() {
        writeln!(paper.remarks, "All is mended.")?;
        return Ok(Verdict::Mended);
    }
    writeln!(paper.remarks, "This is left:")?;
    print(&Report::new(inspector.cluster(), &left), Output::Table, paper.remarks)?;
    Ok(Verdict::Drift)
}

fn print(report: &Report, output: Output, paper: &mut dyn Write) -> io::Result<()> {
    match output {
        Output::Table => table::print(report, paper),
        Output::Json => {
            serde_json::to_writer_pretty(&mut *paper, report)?;
            writeln!(paper)
        }
    }
}

fn may_write(
    inspector: &Inspector,
    report: &Report,
    findings: &[crate::syncer::inspect::Finding],
    fix: Fix<'_>,
) -> io::Result<bool> {
    match fix {
        Fix::No => Ok(false),
        Fix::Yes => Ok(true),
        Fix::Ask(ask) => {
            let registries = report::registries(findings);
            let writes = report.writes();
            let taking_over = inspector.former_cluster().map_or_else(String::new, |former| {
                format!(" Cluster {former} must not be running any more: its entries become this cluster's.")
            });
            ask(&format!(
                "About to make {writes} write{} to {registries} for cluster {}.{taking_over} Go on?",
                if writes == 1 { "" } else { "s" },
                inspector.cluster(),
            ))
        }
    }
}
