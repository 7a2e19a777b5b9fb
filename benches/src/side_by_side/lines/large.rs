//! A review of 7 MiB, the largest that there can be, against the bare handler; and whether memory comes back.

use std::time::Duration;

use registrar_benches::reviews::Size;

use super::growth::megabytes;
use crate::side_by_side::load::Until;
use crate::side_by_side::program::put_load;
use crate::side_by_side::scene::Scene;
use crate::side_by_side::table::{Goal, Line, Unit};
use crate::side_by_side::target::Reviews;

/// Reviews of one side in one round.
const REVIEWS: u64 = 30;
/// Usual reviews before memory is read for the first time.
const USUAL_REVIEWS: u64 = 20_000;
/// Connections for those, and for a storm of large ones.
const CONNECTIONS: usize = 4;

const MOST_TIME: f64 = 3.0;
/// Memory is back when what is left is no more than a few buffers.
const MOST_MEMORY: f64 = 1.2;

/// An allocator may take its time to give memory back.
const PAUSE: Duration = Duration::from_secs(2);

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Line>> {
    let registry = scene.registry(0)?;
    let (webhook, reference) = (scene.webhook(&registry)?, scene.reference()?);
    let until = Until::Operations(scene.effort.operations(USUAL_REVIEWS));
    put_load(&scene.reviews(&webhook, Reviews::Updates(Size::Usual), CONNECTIONS, until))?;
    let before = megabytes(webhook.program.memory()?);

    let until = Until::Operations(scene.effort.operations(REVIEWS));
    let (mut time, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..scene.effort.rounds {
        let ours = put_load(&scene.reviews(&webhook, Reviews::Updates(Size::Largest), 1, until))?;
        let bare = put_load(&scene.reviews(&reference, Reviews::Updates(Size::Largest), 1, until))?;
        time.push(ours.median.as_secs_f64() / bare.median.as_secs_f64());
        put_load(&scene.reviews(&webhook, Reviews::Updates(Size::Largest), CONNECTIONS, until))?;
        std::thread::sleep(PAUSE);
        memory.push(megabytes(webhook.program.memory()?) / before);
    }
    Ok(vec![
        Line {
            what: "a review of 7 MiB: median".to_owned(),
            against: "the bare handler",
            goal: Goal::AtMost(MOST_TIME),
            unit: Unit::Ratio,
            figures: time,
        },
        Line {
            what: "webhook, memory after reviews of 7 MiB, 4 at a time".to_owned(),
            against: "before them",
            goal: Goal::AtMost(MOST_MEMORY),
            unit: Unit::Ratio,
            figures: memory,
        },
    ])
}
