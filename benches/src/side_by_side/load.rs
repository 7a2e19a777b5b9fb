//! The load: a process of its own that is told on standard input what to do, does it as fast as it is answered, and
//! says on standard output how long it took.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::{Deserialize, Serialize};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::target::{Session, Target};

/// Operations of each worker before the clock starts: connections are open and caches warm by then.
const WARM_UP: u64 = 20;

/// What to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// To whom.
    pub(crate) target: Target,
    /// How many at a time, each over connections of its own.
    pub(crate) workers: usize,
    /// For how long.
    pub(crate) until: Until,
    /// Number of the first object; each operation takes the next.
    pub(crate) first_object: u64,
}

/// When to stop.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Until {
    /// After so long.
    Elapsed(Duration),
    /// After so many.
    Operations(u64),
}

/// How it went.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Operations while the clock ran.
    pub(crate) operations: u64,
    /// From the first to the last.
    pub(crate) took: Duration,
    /// Half of the operations were faster.
    pub(crate) median: Duration,
    /// 99 of 100 operations were faster.
    pub(crate) p99: Duration,
    /// Number of the next object.
    pub(crate) next_object: u64,
}

impl Report {
    /// Operations in a second.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(crate) fn throughput(&self) -> f64 {
        self.operations as f64 / self.took.as_secs_f64()
    }
}

/// Reads a plan, carries it out, writes the report.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mut plan = String::new();
    std::io::stdin().read_to_string(&mut plan)?;
    let report = carry_out(serde_json::from_str(&plan)?).await?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// What the workers share.
struct Shared {
    plan: Plan,
    objects: AtomicU64,
    operations: AtomicU64,
    warm: Barrier,
}

async fn carry_out(plan: Plan) -> anyhow::Result<Report> {
    let shared = Arc::new(Shared {
        objects: AtomicU64::new(plan.first_object),
        operations: AtomicU64::new(0),
        warm: Barrier::new(plan.workers),
        plan,
    });
    let mut workers = JoinSet::new();
    for _ in 0..shared.plan.workers {
        workers.spawn(work(Arc::clone(&shared)));
    }
    let (mut latencies, mut started, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(worker) = workers.join_next().await {
        let shift = worker??;
        latencies.extend(shift.latencies);
        started.push(shift.started);
        ended.push(shift.ended);
    }
    ensure!(!latencies.is_empty(), "nothing was done");
    latencies.sort_unstable();
    let first = started.into_iter().min().unwrap_or_else(Instant::now);
    let last = ended.into_iter().max().unwrap_or(first);
    Ok(Report {
        operations: latencies.len() as u64,
        took: last - first,
        median: latencies[latencies.len() / 2],
        p99: latencies[latencies.len() * 99 / 100],
        next_object: shared.objects.load(Ordering::Relaxed),
    })
}

/// What one worker did.
struct Shift {
    latencies: Vec<Duration>,
    started: Instant,
    ended: Instant,
}

async fn work(shared: Arc<Shared>) -> anyhow::Result<Shift> {
    let mut session = Session::open(&shared.plan.target).await?;
    for _ in 0..WARM_UP {
        session.operate(shared.objects.fetch_add(1, Ordering::Relaxed)).await?;
    }
    shared.warm.wait().await;
    let started = Instant::now();
    let mut ended = started;
    let mut latencies = Vec::new();
    loop {
        let goes_on = match shared.plan.until {
            Until::Elapsed(limit) => ended - started < limit,
            Until::Operations(limit) => shared.operations.fetch_add(1, Ordering::Relaxed) < limit,
        };
        if !goes_on {
            return Ok(Shift { latencies, started, ended });
        }
        let before = Instant::now();
        session.operate(shared.objects.fetch_add(1, Ordering::Relaxed)).await?;
        ended = Instant::now();
        latencies.push(ended - before);
    }
}
