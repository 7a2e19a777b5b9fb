//! The webhook's memory after many reviews, against itself after few.

use crate::side_by_side::load::{Plan, Until};
use crate::side_by_side::program::put_load;
use crate::side_by_side::scene::Scene;
use crate::side_by_side::table::{Goal, Line, Unit};
use crate::side_by_side::target::Reviews;

/// Reviews before memory is read for the first and for the second time.
const FEW: u64 = 20_000;
const MANY: u64 = 200_000;

/// As many as an API server has open when it is busy.
const CONNECTIONS: usize = 16;

/// No growth, but for what an allocator scatters.
const MOST_GROWTH: f64 = 1.05;
const MOST_MEGABYTES: f64 = 25.0;

/// Runs: memory does not depend on what else the machine does, so a few will do.
const ROUNDS: usize = 3;

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Line>> {
    let (mut growth, mut after_many) = (Vec::new(), Vec::new());
    for _ in 0..scene.effort.rounds.min(ROUNDS) {
        let registry = scene.registry(0)?;
        let webhook = scene.webhook(&registry)?;
        let few = scene.effort.operations(FEW);
        let plan =
            |operations| scene.reviews(&webhook, Reviews::Mixed, CONNECTIONS, Until::Operations(operations));
        let next_object = put_load(&plan(few))?.next_object;
        let before = megabytes(webhook.program.memory()?);
        put_load(&Plan { first_object: next_object, ..plan(scene.effort.operations(MANY) - few) })?;
        let after = megabytes(webhook.program.memory()?);
        growth.push(after / before);
        after_many.push(after);
    }
    let line = |what: &str, against, goal, unit, figures| Line {
        what: format!("webhook, memory after 200,000 reviews{what}"),
        against,
        goal,
        unit,
        figures,
    };
    Ok(vec![
        line(", growth", "after 20,000", Goal::AtMost(MOST_GROWTH), Unit::Ratio, growth),
        line("", "", Goal::AtMost(MOST_MEGABYTES), Unit::Megabytes, after_many),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(super) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
