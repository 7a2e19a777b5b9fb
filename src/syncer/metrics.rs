//! What the syncer counts.
//!
//! Goes in: what happened. Comes out: metrics whose names begin with `isvc_registrar_syncer_`, listed in
//! `docs/metrics.md`. What stays true: labels take few values, never a name of an object.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::plan::Row;
use super::standing::{Counts, Standing};
use super::supervise;

/// Labels of writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    registry: String,
    row: u8,
    outcome: &'static str,
}

/// Labels of what concerns one registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RegistryLabels {
    registry: String,
}

/// Labels of entries.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EntryLabels {
    registry: String,
    state: &'static str,
}

/// Labels of objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ObjectLabels {
    namespace: String,
    state: &'static str,
}

/// Labels of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabels {
    task: &'static str,
}

/// Labels of resyncs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResyncLabels {
    kind: &'static str,
    outcome: &'static str,
}

/// The syncer's metrics; clones count into the same.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    writes: Family<WriteLabels, Counter>,
    refused_by_guard: Counter,
    watch_failures: Counter,
    watch_heard: Gauge<f64, AtomicU64>,
    restarts: Family<TaskLabels, Counter>,
    resyncs: Family<ResyncLabels, Counter>,
    held_back: Gauge,
    contested: Family<RegistryLabels, Counter>,
    leading: Gauge,
    watched: Gauge,
    objects: Family<ObjectLabels, Gauge>,
    /// What `objects` says now.
    told: Arc<Mutex<Counts>>,
    entries: Family<EntryLabels, Gauge>,
    last_full_resync: Gauge<f64, AtomicU64>,
    retries: Counter,
    queued: Gauge,
    failing: Gauge,
}

impl Metrics {
    /// Adds them to a registry of metrics.
    pub fn register(&self, registry: &mut Registry) {
        // There from the start: what begins with its first restart has not increased in the eyes of Prometheus.
        for task in supervise::TASKS {
            drop(self.restarts.get_or_create(&TaskLabels { task }));
        }
        let syncer = registry.sub_registry_with_prefix("syncer");
        syncer.register("writes", "Writes to a registry, by row of the syncer's table", self.writes.clone());
        syncer.register(
            "writes_refused_by_guard",
            "Changes of state that were not made because the object or the entry had changed meanwhile",
            self.refused_by_guard.clone(),
        );
        syncer.register(
            "watch_failures",
            "Lists and watches that failed or fell silent and were begun anew",
            self.watch_failures.clone(),
        );
        syncer.register(
            "watch_last_heard_timestamp_seconds",
            "When a list or a watch last brought anything, in seconds since the epoch",
            self.watch_heard.clone(),
        );
        syncer.register(
            "restarts",
            "Tasks that panicked or stopped and were restarted within the process",
            self.restarts.clone(),
        );
        syncer.register("resyncs", "Comparisons of the registries with the cluster", self.resyncs.clone());
        syncer.register(
            "retirements_held_back",
            "Retirements that wait until three resyncs in a row agree on them",
            self.held_back.clone(),
        );
        syncer.register(
            "contested_writes",
            "Writes not made because another writer keeps setting the entry back",
            self.contested.clone(),
        );
        syncer.register("leading", "1 while this replica may write", self.leading.clone());
        syncer.register("watched_objects", "InferenceServices that are watched", self.watched.clone());
        syncer.register(
            "objects",
            "InferenceServices that ask for an entry, by namespace and how they stand; known to the replica that leads",
            self.objects.clone(),
        );
        syncer.register(
            "entries",
            "Entries of this cluster at the last full resync, by registry and state",
            self.entries.clone(),
        );
        syncer.register(
            "last_full_resync_timestamp_seconds",
            "When everything was last compared, in seconds since the epoch; 0 before the first time",
            self.last_full_resync.clone(),
        );
        syncer.register(
            "retries",
            "Names that could not be settled and are tried again",
            self.retries.clone(),
        );
        syncer.register("queued", "Names that wait for a worker", self.queued.clone());
        syncer.register("failing", "Names that are tried again after a failure", self.failing.clone());
    }

    pub(super) fn wrote(&self, registry: &str, row: Row, outcome: &'static str) {
        let labels = WriteLabels { registry: registry.to_owned(), row: row.number(), outcome };
        self.writes.get_or_create(&labels).inc();
    }

    pub(super) fn refused_by_guard(&self) {
        self.refused_by_guard.inc();
    }

    pub(super) fn watch_failed(&self) {
        self.watch_failures.inc();
    }

    pub(super) fn watch_heard(&self) {
        self.watch_heard.set(now());
    }

    pub(super) fn restarted(&self, task: &'static str) {
        self.restarts.get_or_create(&TaskLabels { task }).inc();
    }

    pub(super) fn resynced(&self, kind: &'static str, outcome: &'static str) {
        self.resyncs.get_or_create(&ResyncLabels { kind, outcome }).inc();
    }

    pub(super) fn held_back(&self, count: usize) {
        self.held_back.set(gauge(count));
    }

    pub(super) fn contested(&self, registry: &str) {
        self.contested.get_or_create(&RegistryLabels { registry: registry.to_owned() }).inc();
    }

    pub(super) fn leading(&self, leading: bool) {
        self.leading.set(leading.into());
    }

    pub(super) fn sizes(&self, objects: usize, queued: usize, failing: usize) {
        self.watched.set(gauge(objects));
        self.queued.set(gauge(queued));
        self.failing.set(gauge(failing));
    }

    /// How many objects stand how. A Namespace that is not among them any more has none.
    pub(super) fn standings(&self, counts: Counts) {
        let labels = |(namespace, standing): &(String, Standing)| ObjectLabels {
            namespace: namespace.clone(),
            state: standing.as_str(),
        };
        for (key, count) in &counts {
            self.objects.get_or_create(&labels(key)).set(gauge(*count));
        }
        // A count is never left half changed.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for key in told.keys().filter(|key| !counts.contains_key(key)) {
            self.objects.remove(&labels(key));
        }
        *told = counts;
    }

    pub(super) fn entries(&self, registry: &str, deployed: usize, undeployed: usize) {
        for (state, count) in [("deployed", deployed), ("undeployed", undeployed)] {
            let labels = EntryLabels { registry: registry.to_owned(), state };
            self.entries.get_or_create(&labels).set(gauge(count));
        }
        // There before it first increases.
        drop(self.contested.get_or_create(&RegistryLabels { registry: registry.to_owned() }));
    }

    pub(super) fn fully_resynced(&self) {
        self.last_full_resync.set(now());
    }

    pub(super) fn retried(&self) {
        self.retries.inc();
    }

    /// How many writes have been made for a row, with whatever outcome.
    #[must_use]
    pub fn contested_writes(&self, registry: &str) -> u64 {
        self.contested.get_or_create(&RegistryLabels { registry: registry.to_owned() }).get()
    }

    /// How often a task was restarted.
    #[must_use]
    pub fn restarts(&self, task: &'static str) -> u64 {
        self.restarts.get_or_create(&TaskLabels { task }).get()
    }

    /// How many changes of state the guard has kept from being made.
    #[must_use]
    pub fn guarded(&self) -> u64 {
        self.refused_by_guard.get()
    }

    /// How many retirements wait until resyncs agree.
    #[must_use]
    pub fn waiting_for_agreement(&self) -> i64 {
        self.held_back.get()
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
impl Metrics {
    /// With a sample of every metric.
    pub(crate) fn with_one_of_each() -> Self {
        let metrics = Self::default();
        metrics.wrote("registry", Row::Settle, "written");
        metrics.resynced("full", "done");
        metrics.entries("registry", 1, 1);
        metrics.standings(Counts::from([(("team-a".to_owned(), Standing::Registered), 1)]));
        metrics
    }
}
