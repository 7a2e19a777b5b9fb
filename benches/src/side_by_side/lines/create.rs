//! CREATEs in a known environment, against the same calls to the registry made directly.

use crate::side_by_side::load::{Plan, Report, Until};
use crate::side_by_side::program::put_load;
use crate::side_by_side::scene::{Listening, Scene};
use crate::side_by_side::table::{Goal, Line, Unit};
use crate::side_by_side::target::{Reviews, Target};

/// CREATEs one after the other, in one round.
const ONE_BY_ONE: u64 = 300;
/// CREATEs many at a time, in one round.
const MANY: u64 = 500;
/// How many at a time those are.
const AT_A_TIME: usize = 16;

const MOST_MILLISECONDS_MORE: f64 = 0.5;
const LEAST_THROUGHPUT: f64 = 0.9;
const MOST_WITH_MANY_ENTRIES: f64 = 1.2;

/// How long a registry with a database takes for an answer, at the least, in milliseconds.
const DATABASE: u64 = 5;

/// Entries in the registry, few and many.
const ENTRIES: [u64; 2] = [500, 50_000];

/// What no webhook in this stack can do without.
const BARE_FIRST: &str = "the bare handler first, then the same calls";

/// Our CREATEs and the direct calls, by turns, never twice for the same object.
pub(super) struct Turns<'a> {
    scene: &'a Scene,
    registry: &'a Listening,
    webhook: &'a Listening,
    next_object: u64,
}

impl<'a> Turns<'a> {
    pub(super) fn new(scene: &'a Scene, registry: &'a Listening, webhook: &'a Listening) -> Self {
        Self { scene, registry, webhook, next_object: 0 }
    }

    fn ours(&mut self, workers: usize, operations: u64) -> anyhow::Result<Report> {
        let (address, ca) = (self.webhook.address, self.scene.ca());
        self.put(Target::Webhook { address, ca, reviews: Reviews::Creates }, workers, operations)
    }

    pub(super) fn direct(&mut self, workers: usize, operations: u64) -> anyhow::Result<Report> {
        self.put(Target::Registry { address: self.registry.address }, workers, operations)
    }

    /// The direct calls, each after a review that the bare handler has answered.
    fn direct_behind(&mut self, bare: &Listening, workers: usize, operations: u64) -> anyhow::Result<Report> {
        let (ca, registry) = (self.scene.ca(), self.registry.address);
        self.put(Target::BareThenRegistry { bare: bare.address, ca, registry }, workers, operations)
    }

    fn put(&mut self, target: Target, workers: usize, operations: u64) -> anyhow::Result<Report> {
        let until = Until::Operations(self.scene.effort.operations(operations));
        let report = put_load(&Plan { target, workers, until, first_object: self.next_object })?;
        self.next_object = report.next_object;
        Ok(report)
    }
}

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Line>> {
    let registry = scene.registry(0)?;
    let webhook = scene.webhook(&registry)?;
    let mut turns = Turns::new(scene, &registry, &webhook);
    let bare = scene.reference()?;
    let (mut more, mut latency, mut throughput) = (Vec::new(), Vec::new(), Vec::new());
    let (mut more_than_must_be, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..scene.effort.rounds {
        let (ours, direct) = (turns.ours(1, ONE_BY_ONE)?, turns.direct(1, ONE_BY_ONE)?);
        more.push((ours.median.as_secs_f64() - direct.median.as_secs_f64()) * 1e3);
        latency.push(ours.median.as_secs_f64() / direct.median.as_secs_f64());
        let behind = turns.direct_behind(&bare, 1, ONE_BY_ONE)?;
        more_than_must_be.push((ours.median.as_secs_f64() - behind.median.as_secs_f64()) * 1e3);
        let (ours, direct) = (turns.ours(AT_A_TIME, MANY)?, turns.direct(AT_A_TIME, MANY)?);
        throughput.push(ours.throughput() / direct.throughput());
        limit.push(ours.throughput() / turns.direct_behind(&bare, AT_A_TIME, MANY)?.throughput());
    }
    registry.answer_after(DATABASE)?;
    let mut with_database = Vec::new();
    for _ in 0..scene.effort.rounds {
        let (ours, direct) = (turns.ours(AT_A_TIME, MANY)?, turns.direct(AT_A_TIME, MANY)?);
        with_database.push(ours.throughput() / direct.throughput());
    }
    let line = |what: &str, goal, unit, figures| Line {
        what: what.to_owned(),
        against: "the same calls, made directly",
        goal,
        unit,
        figures,
    };
    Ok(vec![
        line(
            "CREATE, known environment: median beyond the registry's",
            Goal::AtMost(MOST_MILLISECONDS_MORE),
            Unit::Milliseconds,
            more,
        ),
        Line {
            against: BARE_FIRST,
            ..line(
                "CREATE, known environment: median beyond",
                Goal::Told,
                Unit::Milliseconds,
                more_than_must_be,
            )
        },
        line("CREATE, known environment: median", Goal::Told, Unit::Ratio, latency),
        line(
            "500 CREATEs, 16 at a time: throughput",
            Goal::AtLeast(LEAST_THROUGHPUT),
            Unit::Ratio,
            throughput,
        ),
        Line {
            against: BARE_FIRST,
            ..line("500 CREATEs, 16 at a time: throughput", Goal::Told, Unit::Ratio, limit)
        },
        line(
            "the same, and the registry takes 5 ms for an answer",
            Goal::AtLeast(LEAST_THROUGHPUT),
            Unit::Ratio,
            with_database,
        ),
        with_many_entries(scene)?,
    ])
}

/// The same CREATEs before a registry with many entries, and one with few.
fn with_many_entries(scene: &Scene) -> anyhow::Result<Line> {
    let [few, many] = ENTRIES;
    let (few, many) = (scene.registry(few)?, scene.registry(many)?);
    let (before_few, before_many) = (scene.webhook(&few)?, scene.webhook(&many)?);
    let mut with_few = Turns::new(scene, &few, &before_few);
    let mut with_many = Turns::new(scene, &many, &before_many);
    let mut figures = Vec::new();
    for _ in 0..scene.effort.rounds {
        let (few, many) = (with_few.ours(1, ONE_BY_ONE)?, with_many.ours(1, ONE_BY_ONE)?);
        figures.push(many.median.as_secs_f64() / few.median.as_secs_f64());
    }
    Ok(Line {
        what: "CREATE with 50,000 entries in the registry: median".to_owned(),
        against: "with 500",
        goal: Goal::AtMost(MOST_WITH_MANY_ENTRIES),
        unit: Unit::Ratio,
        figures,
    })
}
