//! How soon the webhook is ready, and how large the program is.

use std::time::Instant;

use super::growth::megabytes;
use crate::side_by_side::scene::{Scene, is_ready};
use crate::side_by_side::table::{Goal, Line, Unit};

const MOST_MILLISECONDS: f64 = 300.0;
const MOST_MEGABYTES: f64 = 15.0;

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Line>> {
    let registry = scene.registry(0)?;
    let mut milliseconds = Vec::new();
    for _ in 0..scene.effort.rounds {
        let started = Instant::now();
        let (mut webhook, health) = scene.starting_webhook(&registry)?;
        webhook.wait_until(|| is_ready(health))?;
        milliseconds.push(started.elapsed().as_secs_f64() * 1e3);
    }
    let size = megabytes(std::fs::metadata(scene.release())?.len());
    Ok(vec![
        Line {
            what: "webhook, start to ready".to_owned(),
            against: "",
            goal: Goal::AtMost(MOST_MILLISECONDS),
            unit: Unit::Milliseconds,
            figures: milliseconds,
        },
        Line {
            what: "release binary, stripped".to_owned(),
            against: "",
            goal: Goal::AtMost(MOST_MEGABYTES),
            unit: Unit::Megabytes,
            figures: vec![size],
        },
    ])
}
