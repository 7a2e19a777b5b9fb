//! UPDATEs with nothing to do, sent to the handler directly, against the bare handler.

use registrar_benches::reviews::Size;

use crate::side_by_side::load::{Report, Until};
use crate::side_by_side::program::put_load;
use crate::side_by_side::scene::{Listening, Scene};
use crate::side_by_side::table::{Goal, Line, Unit};
use crate::side_by_side::target::Reviews;

/// Connections at a time: what one API server has open mostly, and in a storm.
const CONNECTIONS: [usize; 2] = [8, 64];

const LEAST_THROUGHPUT: f64 = 0.8;
const MOST_P99: f64 = 1.3;

/// What one side did in one round.
struct Run {
    report: Report,
    /// Processor time of the server for one review, in seconds.
    processor: f64,
}

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Line>> {
    let registry = scene.registry(0)?;
    let (webhook, reference) = (scene.webhook(&registry)?, scene.reference()?);
    let checking = scene.reference_that_checks_json()?;
    let mut lines = Vec::new();
    for connections in CONNECTIONS {
        let (mut throughput, mut p99, mut processor) = (Vec::new(), Vec::new(), Vec::new());
        let mut limit = Vec::new();
        for _ in 0..scene.effort.rounds {
            let ours = run(scene, &webhook, connections)?;
            let bare = run(scene, &reference, connections)?;
            let checked = run(scene, &checking, connections)?;
            throughput.push(ours.report.throughput() / bare.report.throughput());
            p99.push(ours.report.p99.as_secs_f64() / bare.report.p99.as_secs_f64());
            processor.push(ours.processor / bare.processor);
            limit.push(ours.report.throughput() / checked.report.throughput());
        }
        let line = |what: &str, against, goal, figures| Line {
            what: format!("UPDATE with nothing to do, {connections} connections: {what}"),
            against,
            goal,
            unit: Unit::Ratio,
            figures,
        };
        let bare = "the bare handler";
        lines.push(line("throughput", bare, Goal::AtLeast(LEAST_THROUGHPUT), throughput));
        lines.push(line("throughput", "one that checks the JSON, and no more", Goal::Told, limit));
        lines.push(line("p99", bare, Goal::AtMost(MOST_P99), p99));
        lines.push(line("processor time of the server", bare, Goal::Told, processor));
    }
    Ok(lines)
}

fn run(scene: &Scene, server: &Listening, connections: usize) -> anyhow::Result<Run> {
    let until = Until::Elapsed(scene.effort.slice);
    let before = server.program.processor_time()?;
    let report = put_load(&scene.reviews(server, Reviews::Updates(Size::Usual), connections, until))?;
    let processor = server.program.processor_time()?.saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let each = processor.as_secs_f64() / report.operations as f64;
    Ok(Run { report, processor: each })
}
