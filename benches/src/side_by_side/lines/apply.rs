//! CREATEs through a real API server, against the same without a webhook and the registry's own calls.

use std::time::Duration;

use registrar_benches::reviews::NAMESPACE;

use super::create::Turns;
use crate::side_by_side::cluster::Cluster;
use crate::side_by_side::scene::Scene;
use crate::side_by_side::table::{Goal, Line, Unit};

/// CREATEs of either kind in one round.
const CREATES: u64 = 200;
/// CREATEs of either kind before the first round: the API server has opened its connections by then.
const WARM_UP: u64 = 50;

const MOST_MILLISECONDS_MORE: f64 = 2.0;

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Line>> {
    let cluster = Cluster::start()?;
    let registry = scene.registry(0)?;
    let webhook = scene.webhook(&registry)?;
    let mut direct = Turns::new(scene, &registry, &webhook);
    let (ours, bare) = (cluster.objects(NAMESPACE)?, cluster.objects("bare")?);
    ours.put_before(scene, &webhook)?;
    for number in 0..WARM_UP {
        ours.create(number)?;
        bare.create(number)?;
    }
    let (mut more, mut all) = (Vec::new(), Vec::new());
    let mut next = WARM_UP;
    for _ in 0..scene.effort.rounds {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..scene.effort.operations(CREATES) {
            with.push(ours.create(next)?);
            without.push(bare.create(next)?);
            next += 1;
        }
        let [with, without] = [with, without].map(median);
        let registry = direct.direct(1, CREATES)?.median;
        more.push((with.as_secs_f64() - without.as_secs_f64() - registry.as_secs_f64()) * 1e3);
        all.push(with.as_secs_f64() / without.as_secs_f64());
    }
    Ok(vec![
        Line {
            what: "CREATE through the API server: median beyond it".to_owned(),
            against: "no webhook, plus the registry's own calls",
            goal: Goal::AtMost(MOST_MILLISECONDS_MORE),
            unit: Unit::Milliseconds,
            figures: more,
        },
        Line {
            what: "CREATE through the API server: median".to_owned(),
            against: "no webhook",
            goal: Goal::Told,
            unit: Unit::Ratio,
            figures: all,
        },
    ])
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
