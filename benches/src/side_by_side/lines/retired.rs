//! A registry that has been in use for years: 200,000 retired entries beside 5,000 live objects.

use std::time::{Duration, Instant};

use registrar_benches::reviews::NAMESPACE;

use super::growth::megabytes;
use crate::side_by_side::cluster::Cluster;
use crate::side_by_side::scene::{Entries, Scene};
use crate::side_by_side::syncer::Syncer;
use crate::side_by_side::table::{Goal, Line, Unit};

const RETIRED: u64 = 200_000;
const LIVE: u64 = 5_000;

const MOST_SECONDS: f64 = 60.0;
const MOST_MEGABYTES: f64 = 60.0;
/// One page of the entries that changed last, and one of the environments: far from the 411 that a look at everything
/// takes.
const MOST_CALLS: f64 = 2.0;

/// A resync reads again what changed up to a minute before the last change: what is to be old is older.
const OLD: Duration = Duration::from_secs(65);

/// Rounds: each takes many seconds.
const ROUNDS: usize = 3;
/// Between two resyncs, when they are counted.
const RESYNC: &str = "1s";
/// So many are counted.
const RESYNCS: f64 = 5.0;

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Line>> {
    let cluster = Cluster::start()?;
    let registry = scene.registry_with(Entries::Retired(scene.effort.operations(RETIRED)))?;
    let webhook = scene.webhook(&registry)?;
    let objects = cluster.objects(NAMESPACE)?;
    objects.put_before(scene, &webhook)?;
    let live = scene.effort.operations(LIVE);
    scene.effort.wait(OLD);
    objects.create_all(0..live)?;
    let start = |flags: &[&str]| Syncer::start(scene, &cluster, NAMESPACE, &registry, flags);
    // Stamps the entries, so that a start finds all agreeing.
    start(&[])?.wait_until_registered(NAMESPACE, live)?;

    let (mut seconds, mut peak) = (Vec::new(), Vec::new());
    for _ in 0..scene.effort.rounds.min(ROUNDS) {
        let begun = Instant::now();
        let mut syncer = start(&[])?;
        syncer.wait_until_compared()?;
        seconds.push(begun.elapsed().as_secs_f64());
        peak.push(megabytes(syncer.program.peak_memory()?));
    }
    scene.effort.wait(OLD);
    objects.create_all(live..live + 1)?;
    start(&[])?.wait_until_registered(NAMESPACE, live + 1)?;
    let calls = calls_of_a_resync(&mut start(&["--resync", RESYNC])?)?;
    Ok(vec![
        Line {
            what: "syncer, 200,000 retired entries, 5,000 objects: start".to_owned(),
            against: "",
            goal: Goal::AtMost(MOST_SECONDS),
            unit: Unit::Seconds,
            figures: seconds,
        },
        Line {
            what: "syncer, 200,000 retired entries, 5,000 objects: peak memory".to_owned(),
            against: "",
            goal: Goal::AtMost(MOST_MEGABYTES),
            unit: Unit::Megabytes,
            figures: peak,
        },
        Line {
            what: "the same: registry calls of a resync with nothing changed".to_owned(),
            against: "",
            goal: Goal::AtMost(MOST_CALLS),
            unit: Unit::Calls,
            figures: vec![calls],
        },
    ])
}

/// How often the registry is asked for one resync, once everything was compared.
fn calls_of_a_resync(syncer: &mut Syncer) -> anyhow::Result<f64> {
    syncer.wait_until_compared()?;
    let resyncs = "isvc_registrar_syncer_resyncs_total{kind=\"changes\"";
    // The first looks at what changed while everything was compared.
    syncer.wait_for(resyncs, 1.0)?;
    std::thread::sleep(Duration::from_millis(500));
    let look = |syncer: &Syncer| {
        let [calls, resyncs] = ["isvc_registrar_registry_calls_total", resyncs]
            .map(|metric| syncer.sum(metric).unwrap_or_default());
        (calls, resyncs)
    };
    let (calls_before, resyncs_before) = look(syncer);
    syncer.wait_for(resyncs, resyncs_before + RESYNCS)?;
    std::thread::sleep(Duration::from_millis(500));
    let (calls, resyncs) = look(syncer);
    Ok((calls - calls_before) / (resyncs - resyncs_before))
}
