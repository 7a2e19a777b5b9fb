//! The syncer: keeps the registries' entries true to what is stored in the cluster.
//!
//! ```text
//! objects (API server or memory) --list, watch--> store --names--> queue --> workers --PATCH, POST--> registries
//!                                                   ^                ^
//!                                 resync: registries first, then objects
//! ```
//!
//! Goes in: a source of [`objects`] and the directory of registries. Comes out: writes to the registries, and
//! Events. What stays true: what is written depends only on what is there ([`plan`]), so that nothing is lost by
//! missing an event; nothing but the registry remembers; nothing is written without the guard; one replica writes,
//! the others keep their store warm; whatever fails is tried again within the process.

pub mod brake;
mod cases;
pub mod cluster_lease;
mod facts;
pub mod fence;
mod guard;
pub mod inspect;
mod known;
mod lanes;
pub mod lease;
mod listing;
pub mod metrics;
mod notices;
pub mod object;
pub mod objects;
pub mod plan;
pub mod queue;
pub mod standing;
pub mod store;
mod supervise;
mod sweep;
pub mod watch;
mod worker;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kserve::LabelKeys;
use crate::registration::ClusterId;
use crate::registry::directory::Directory;

pub use fence::Fence;
pub use metrics::Metrics;

use objects::{Objects, Scope};
use queue::Outcome;
use sweep::Sweeper;
use watch::{Refresh, Signal, Watcher};
use world::World;

/// The first wait after a resync that failed, doubled each time up to the resync's own interval.
const FIRST_RESYNC_RETRY: Duration = Duration::from_secs(1);

/// How often the sizes of queue and store are measured.
const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// Deletions that nobody has settled for so long are forgotten: the resync finds what is left of them.
const REMEMBER_DELETIONS: Duration = Duration::from_hours(2);

/// Limit of one write from the first to the last byte, where no lease ends it earlier. Longer than the client's
/// own limits, which end it first and say why.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// How the syncer is to work.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The cluster whose objects these are.
    pub cluster: ClusterId,
    /// Our label keys.
    pub keys: LabelKeys,
    /// Which Namespaces are watched; none means all.
    pub namespaces: Vec<String>,
    /// How often the registries are compared with the cluster.
    pub resync: Duration,
    /// How often everything that is deployed is read for that, not only what has changed.
    pub full_resync: Duration,
    /// How long an entry must have been untouched before it is retired for an object that was never seen.
    pub grace: Duration,
    /// Whether entries are retired at all.
    pub retire: bool,
    /// How many names are worked on at once.
    pub workers: usize,
    /// A finalizer that is taken off objects being deleted.
    pub release_finalizer: Option<String>,
    /// Limit of finding or creating one entry.
    pub registry_timeout: Duration,
}

impl Settings {
    /// The defaults of the command line, for this cluster.
    #[must_use]
    pub fn new(cluster: ClusterId) -> Self {
        Self {
            cluster,
            keys: LabelKeys::default(),
            namespaces: Vec::new(),
            resync: Duration::from_mins(10),
            full_resync: Duration::from_hours(1),
            grace: Duration::from_mins(5),
            retire: true,
            workers: 8,
            release_finalizer: None,
            registry_timeout: Duration::from_secs(3),
        }
    }

    /// Which objects are looked at.
    fn scopes(&self) -> Vec<Scope> {
        let namespaces: BTreeSet<&str> = self.namespaces.iter().map(String::as_str).collect();
        if namespaces.is_empty() {
            return vec![Scope::All];
        }
        namespaces.into_iter().map(|namespace| Scope::Namespace(namespace.into())).collect()
    }
}

/// The syncer; a clone is another handle to the same one.
#[derive(Clone)]
pub struct Syncer {
    world: Arc<World>,
    refresh: Arc<Refresh>,
    settings: Arc<Settings>,
    scopes: Vec<Scope>,
}

impl Syncer {
    /// Prepares a syncer that may write while the fence is open.
    #[must_use]
    pub fn new(
        settings: Settings,
        objects: Arc<dyn Objects>,
        directory: Directory,
        fence: Fence,
        metrics: Metrics,
    ) -> Self {
        let scopes = settings.scopes();
        let world = World::new(&settings, objects, directory, fence, metrics);
        Self {
            world: Arc::new(world),
            refresh: Arc::new(Refresh::new(scopes.len())),
            settings: Arc::new(settings),
            scopes,
        }
    }

    /// Works until it is stopped; returns when no write is under way any more.
    pub async fn run(&self, stop: CancellationToken) {
        let tasks = TaskTracker::new();
        let (signals, signalled) = mpsc::unbounded_channel();
        let signalled = Arc::new(tokio::sync::Mutex::new(signalled));
        let metrics = &self.world.metrics;
        for (at, scope) in self.scopes.iter().enumerate() {
            let watcher = self.watcher(at, scope.clone(), signals.clone());
            let begin = move || watcher.clone().run();
            tasks.spawn(supervise::keep("watch", metrics.clone(), stop.clone(), begin));
        }
        for _ in 0..self.settings.workers.max(1) {
            let (world, stopping) = (Arc::clone(&self.world), stop.clone());
            let begin = move || work(Arc::clone(&world), stopping.clone());
            // A worker ends its job before it stops.
            tasks.spawn(supervise::keep_to_the_end("worker", metrics.clone(), stop.clone(), begin));
        }
        let syncer = self.clone();
        let begin = move || syncer.clone().resync_for_ever(Arc::clone(&signalled));
        tasks.spawn(supervise::keep("resync", metrics.clone(), stop.clone(), begin));
        let world = Arc::clone(&self.world);
        let begin = move || measure(Arc::clone(&world));
        tasks.spawn(supervise::keep("measure", metrics.clone(), stop, begin));
        tasks.close();
        tasks.wait().await;
    }

    /// Whether every list of objects has come at least once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.world.store.is_complete()
    }

    /// Whether this replica may write now.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.world.fence.allows()
    }

    /// Whether no name is being worked on or waits for a worker. Something may still be due later.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.world.queue.is_idle()
    }

    fn watcher(&self, at: usize, scope: Scope, signals: mpsc::UnboundedSender<Signal>) -> Watcher {
        Watcher {
            objects: Arc::clone(&self.world.objects),
            scope,
            at,
            store: Arc::clone(&self.world.store),
            queue: Arc::clone(&self.world.queue),
            refresh: Arc::clone(&self.refresh),
            signals,
            keys: self.settings.keys.clone(),
            release_finalizer: self.settings.release_finalizer.clone(),
            metrics: self.world.metrics.clone(),
        }
    }

    /// Resyncs whenever this replica begins to act, then every `--resync`, when a watch has missed something, and
    /// when a registry is configured.
    async fn resync_for_ever(self, signalled: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Signal>>>) {
        let world = &self.world;
        // Only one resync task is alive at a time, so this waits for nobody.
        let mut signalled = signalled.lock().await;
        let mut configured = world.directory.changes();
        loop {
            world.fence.opened().await;
            // What was seen while another replica acted was left to it, and no comparison looks at finalizers.
            for name in world.store.to_release() {
                world.queue.add(&name);
            }
            let mut sweeper = Sweeper::new(self.settings.full_resync);
            let mut failures: u32 = 0;
            while world.fence.allows() {
                let wait = match sweeper.resync(world, &self.refresh).await {
                    Ok(_) => {
                        failures = 0;
                        self.settings.resync
                    }
                    Err(error) => {
                        failures += 1;
                        tracing::warn!(%error, "the resync is not complete, trying again");
                        let longer = FIRST_RESYNC_RETRY.saturating_mul(1 << (failures - 1).min(16));
                        longer.min(self.settings.resync)
                    }
                };
                world.store.forget_deletions_older_than(REMEMBER_DELETIONS);
                // Cancelling any of these loses nothing: each is waited for anew, and a signal is taken whole.
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = world.fence.closes() => {}
                    () = new_registry(world, &sweeper, &mut configured) => {
                        tracing::info!("a registry was configured, comparing it");
                    }
                    Some(Signal::Missing(objects)) = signalled.recv() => {
                        tracing::info!(objects, "objects went while nobody watched, comparing everything");
                        sweeper.start_over();
                    }
                }
            }
        }
    }
}

/// Waits until a registry is configured that the sweeper has not read.
async fn new_registry(world: &World, sweeper: &Sweeper, configured: &mut Receiver<()>) {
    while configured.changed().await.is_ok() {
        if sweeper.lacks_a_registry(world) {
            return;
        }
    }
    // The sender lives in the directory, so this cannot be; nothing new is ever configured then.
    std::future::pending::<()>().await;
}

/// One worker: takes names, one after the other, until it is to stop.
async fn work(world: Arc<World>, stop: CancellationToken) {
    loop {
        // Cancelling the wait loses nothing: a job that was not taken stays in the queue.
        let job = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            job = world.queue.next() => job,
        };
        let outcome = worker::reconcile(&world, &job.name).await;
        if outcome == Outcome::Failed {
            world.metrics.retried();
            tracing::debug!(name = %job.name, "trying again later");
        }
        job.end(outcome);
    }
}

/// Keeps the sizes in the metrics up to date.
async fn measure(world: Arc<World>) {
    loop {
        world.metrics.sizes(world.store.len(), world.queue.depth(), world.queue.failing());
        let leading = world.fence.allows();
        world.metrics.leading(leading);
        if !leading {
            world.standings.clear();
        }
        world.metrics.standings(world.standings.counts());
        tokio::time::sleep(MEASURE_EVERY).await;
    }
}
