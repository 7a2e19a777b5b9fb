//! List and watch: keeps the store equal to what a source of objects has, for one scope.
//!
//! Goes in: pages and changes. Comes out: a store that is complete, names in the queue for what the registry has
//! to be told, and [`Signal`]s for what only a comparison with the registry can find. What stays true: a list is
//! used only when every page of it came; a page or a watch that says nothing for too long is given up and begun
//! anew; what a watch missed is found by the next list.
//!
//! This is not `kube::runtime::watcher`, which hides bookmarks, so that a silent watch looks like a quiet one, sets
//! no limit on lists and on the start of a watch, and wants each object's whole metadata.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::metrics::Metrics;
use super::object::Object;
use super::objects::{Change, ObjectPage, Objects, ObjectsError, Scope};
use super::queue::Queue;
use super::store::{Effect, Store};
use crate::kserve::{InferenceService, LabelKeys};
use crate::registration::ObjectName;

/// Limit of one page of a list, and of the start of a watch: an API server answers either within its own 60 s.
const ANSWER_LIMIT: Duration = Duration::from_mins(1);

/// How long the first list waits for a resync to have read the entries, which are read before the objects. Tens of
/// thousands of entries are read by then. Whoever has to wait longer, for a lease or for a registry that is down, is
/// better off with the objects.
const FIRST_LIST_WAITS: Duration = Duration::from_secs(2);

/// An API server sends a bookmark about once a minute; a watch without any for so long is dead.
const SILENCE_LIMIT: Duration = Duration::from_secs(150);

/// The first wait before a list or a watch that failed is tried again.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// The longest such wait: an API server that is back is noticed within it.
const LAST_RETRY: Duration = Duration::from_secs(30);

/// A burst of changes of one object becomes one write when it is shorter than this. Long enough for the status
/// updates of one rollout step, short enough not to be noticed by a reader of the registry.
const BURST: Duration = Duration::from_secs(1);

/// What else has to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A list was short of objects that were there before: compare the registry with the cluster.
    Missing(usize),
}

/// Asks watches to list anew, and tells when they have.
#[derive(Debug)]
pub struct Refresh {
    wanted: watch::Sender<u64>,
    done: Vec<watch::Sender<u64>>,
}

impl Refresh {
    /// For so many scopes.
    #[must_use]
    pub fn new(scopes: usize) -> Self {
        Self { wanted: watch::Sender::new(0), done: (0..scopes).map(|_| watch::Sender::new(0)).collect() }
    }

    /// Has every scope listed anew. Returns when all lists that began after this call are in the store; for ever
    /// waits whoever sets no limit.
    pub async fn all(&self) {
        let mut wanted = 0;
        self.wanted.send_modify(|latest| {
            *latest += 1;
            wanted = *latest;
        });
        for done in &self.done {
            // The sender lives in `self`, so this only ends with the list.
            let _ = done.subscribe().wait_for(|done| *done >= wanted).await;
        }
    }
}

/// Keeps the store equal to one scope of a source.
#[derive(Clone)]
pub struct Watcher {
    /// Where objects come from.
    pub objects: Arc<dyn Objects>,
    /// Which objects.
    pub scope: Scope,
    /// Which of the store's scopes that is.
    pub at: usize,
    /// Where they go.
    pub store: Arc<Store>,
    /// Who works on them.
    pub queue: Arc<Queue>,
    /// Who asks for lists.
    pub refresh: Arc<Refresh>,
    /// Who is told what else there is to do.
    pub signals: tokio::sync::mpsc::UnboundedSender<Signal>,
    /// Our label keys.
    pub keys: LabelKeys,
    /// The finalizer that is taken off objects being deleted.
    pub release_finalizer: Option<String>,
    /// What is counted.
    pub metrics: Metrics,
}

/// Why a watch ended.
enum Ended {
    /// It is to be begun again where it stopped.
    Resume(String),
    /// A list is needed.
    List,
}

impl Watcher {
    /// Lists and watches for ever.
    pub async fn run(self) {
        let mut wanted = self.refresh.wanted.subscribe();
        let mut failures = 0;
        let mut first = !self.store.has_listed(self.at);
        if first {
            // Then the first list is also the one that the first resync asks for, and objects are listed once.
            let _ = timeout(FIRST_LIST_WAITS, wanted.wait_for(|generation| *generation > 0)).await;
        }
        loop {
            let generation = *wanted.borrow_and_update();
            let mut version = match self.list().await {
                Ok((listed, version)) => {
                    self.take_list(listed, first);
                    first = false;
                    self.refresh.done[self.at].send_replace(generation);
                    version
                }
                Err(error) => {
                    failures += 1;
                    self.metrics.watch_failed();
                    tracing::warn!(%error, scope = %self.scope, "cannot list InferenceServices, trying again");
                    wait(failures).await;
                    continue;
                }
            };
            loop {
                let begun = Instant::now();
                match self.watch(&version, &mut wanted).await {
                    Ok(Ended::List) => break,
                    Ok(Ended::Resume(seen)) => version = seen,
                    Err(ObjectsError::Expired) => {
                        tracing::info!(scope = %self.scope, "the watch has fallen behind, listing anew");
                        break;
                    }
                    Err(error) => {
                        self.metrics.watch_failed();
                        tracing::warn!(%error, scope = %self.scope, "the watch broke off, beginning it anew");
                    }
                }
                // One that lasted was no failure; one that ends at once, again and again, is.
                failures = if begun.elapsed() > LAST_RETRY { 0 } else { failures + 1 };
                wait(failures).await;
            }
        }
    }

    /// All pages, or an error.
    async fn list(&self) -> Result<(HashMap<ObjectName, Object>, String), ObjectsError> {
        let mut listed = HashMap::new();
        let version = list(&*self.objects, &self.scope, |page| {
            self.metrics.watch_heard();
            listed.extend(page.items.iter().filter_map(|item| self.read(item)));
        })
        .await?;
        Ok((listed, version))
    }

    fn take_list(&self, listed: HashMap<ObjectName, Object>, first: bool) {
        let count = listed.len();
        let difference = self.store.replace(self.at, listed);
        tracing::info!(
            scope = %self.scope,
            objects = count,
            changed = difference.changed.len(),
            missing = difference.missing,
            "listed InferenceServices"
        );
        // After the first list everything is compared with the registry anyway, and with far fewer calls.
        if !first {
            for name in &difference.changed {
                self.queue.add(name);
            }
        }
        // Whatever the registry says, and whether or not anybody compares: a deletion waits for these.
        for name in self.store.to_release() {
            self.queue.add(&name);
        }
        if difference.missing > 0 {
            // Nobody listens any more only when the syncer is being stopped.
            let _ = self.signals.send(Signal::Missing(difference.missing));
        }
    }

    async fn watch(&self, after: &str, wanted: &mut watch::Receiver<u64>) -> Result<Ended, ObjectsError> {
        let mut seen = after.to_owned();
        let begin = timeout(ANSWER_LIMIT, self.objects.watch(&self.scope, after));
        let mut changes = begin.await.unwrap_or_else(|_| Err(silent(ANSWER_LIMIT)))?;
        loop {
            // Cancelling either side loses nothing: a list follows, or the stream is kept.
            let change = tokio::select! {
                _ = wanted.changed() => return Ok(Ended::List),
                change = timeout(SILENCE_LIMIT, changes.next()) => change,
            };
            let change = match change {
                Err(_) => {
                    self.metrics.watch_failed();
                    tracing::warn!(scope = %self.scope, "the watch has been silent for too long");
                    return Ok(Ended::Resume(seen));
                }
                Ok(None) => return Ok(Ended::Resume(seen)),
                Ok(Some(Err(ObjectsError::Expired))) => return Err(ObjectsError::Expired),
                Ok(Some(Err(error))) => {
                    self.metrics.watch_failed();
                    tracing::warn!(%error, scope = %self.scope, "the watch broke off, beginning it anew");
                    return Ok(Ended::Resume(seen));
                }
                Ok(Some(Ok(change))) => change,
            };
            self.metrics.watch_heard();
            if let Some(version) = self.take_change(change) {
                seen = version;
            }
        }
    }

    /// Puts a change into the store; gives the resource version up to which everything is known now.
    fn take_change(&self, change: Change) -> Option<String> {
        let (object, deleted) = match change {
            Change::Bookmark(version) => return Some(version),
            Change::Applied(object) => (object, false),
            Change::Deleted(object) => (object, true),
        };
        if let Some((name, kept)) = self.read(&object) {
            let effect = if deleted {
                self.store.delete(name.clone(), kept)
            } else {
                self.store.apply(name.clone(), kept)
            };
            match effect {
                Effect::Nothing => {}
                Effect::Appeared | Effect::Leaving => self.queue.add(&name),
                Effect::Changed => self.queue.add_after(&name, BURST),
            }
        }
        object.metadata.resource_version
    }

    fn read(&self, object: &InferenceService) -> Option<(ObjectName, Object)> {
        Object::read(object, &self.keys, self.release_finalizer.as_deref())
    }
}

/// Shows every page of a list, and gives the version after which a watch has to begin. What was shown counts only when
/// this does not fail.
pub(super) async fn list(
    objects: &dyn Objects,
    scope: &Scope,
    mut show: impl FnMut(&ObjectPage),
) -> Result<String, ObjectsError> {
    let mut token = None;
    loop {
        let page = timeout(ANSWER_LIMIT, objects.page(scope, token.take()));
        let page = page.await.unwrap_or_else(|_| Err(silent(ANSWER_LIMIT)))?;
        show(&page);
        match page.next {
            Some(next) => token = Some(next),
            None => return Ok(page.resource_version),
        }
    }
}

fn silent(limit: Duration) -> ObjectsError {
    ObjectsError::Unavailable(format!("it was silent for {} s", limit.as_secs()))
}

/// Waits longer after each failure, and by chance up to half as long.
async fn wait(failures: u32) {
    if failures > 0 {
        let longest = FIRST_RETRY.saturating_mul(1 << (failures - 1).min(10)).min(LAST_RETRY);
        tokio::time::sleep(longest.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::SeqCst;

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use futures::stream::BoxStream;
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::super::objects::Notice;
    use super::super::objects::memory::MemoryObjects;
    use super::super::store::Seen;
    use super::*;

    /// What goes wrong with a call.
    #[derive(Clone, Copy, PartialEq)]
    enum Trouble {
        /// It is never answered.
        Silence,
        /// It is refused.
        Refusal,
    }

    /// A store whose next lists and watches have troubles.
    #[derive(Default)]
    struct Troubled {
        objects: MemoryObjects,
        lists: Mutex<Vec<Trouble>>,
        watches: Mutex<Vec<Trouble>>,
        silent_streams: AtomicU32,
        pages: AtomicU32,
    }

    async fn suffer(troubles: &Mutex<Vec<Trouble>>) -> Result<(), ObjectsError> {
        let trouble = troubles.lock().unwrap().pop();
        match trouble {
            None => Ok(()),
            Some(Trouble::Silence) => std::future::pending().await,
            Some(Trouble::Refusal) => Err(ObjectsError::Unavailable("refused".into())),
        }
    }

    impl Objects for Troubled {
        fn page<'a>(
            &'a self,
            scope: &'a Scope,
            token: Option<String>,
        ) -> BoxFuture<'a, Result<ObjectPage, ObjectsError>> {
            async move {
                suffer(&self.lists).await?;
                self.pages.fetch_add(1, SeqCst);
                self.objects.page(scope, token).await
            }
            .boxed()
        }

        fn watch<'a>(
            &'a self,
            scope: &'a Scope,
            after: &'a str,
        ) -> BoxFuture<'a, Result<BoxStream<'static, Result<Change, ObjectsError>>, ObjectsError>> {
            async move {
                suffer(&self.watches).await?;
                if self.silent_streams.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                    return Ok(futures::stream::pending().boxed());
                }
                self.objects.watch(scope, after).await
            }
            .boxed()
        }

        fn get<'a>(
            &'a self,
            name: &'a ObjectName,
        ) -> BoxFuture<'a, Result<Option<InferenceService>, ObjectsError>> {
            self.objects.get(name)
        }

        fn release_finalizer<'a>(
            &'a self,
            _: &'a ObjectName,
            _: &'a str,
            _: &'a str,
            _: usize,
        ) -> BoxFuture<'a, Result<(), ObjectsError>> {
            futures::future::ready(Ok(())).boxed()
        }

        fn tell<'a>(&'a self, _: &'a ObjectName, _: &'a str, _: &'a Notice) -> BoxFuture<'a, ()> {
            futures::future::ready(()).boxed()
        }
    }

    struct Scene {
        source: Arc<Troubled>,
        store: Arc<Store>,
        queue: Arc<Queue>,
        refresh: Arc<Refresh>,
        signalled: mpsc::UnboundedReceiver<Signal>,
        _task: tokio_util::task::AbortOnDropHandle<()>,
    }

    fn start(source: Troubled) -> Scene {
        let source = Arc::new(source);
        let store = Arc::new(Store::new(vec![Scope::All]));
        let (queue, refresh) = (Arc::new(Queue::default()), Arc::new(Refresh::new(1)));
        let (signals, signalled) = mpsc::unbounded_channel();
        let watcher = Watcher {
            objects: Arc::<Troubled>::clone(&source),
            scope: Scope::All,
            at: 0,
            store: Arc::clone(&store),
            queue: Arc::clone(&queue),
            refresh: Arc::clone(&refresh),
            signals,
            keys: LabelKeys::default(),
            release_finalizer: None,
            metrics: Metrics::default(),
        };
        let task = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(watcher.run()));
        Scene { source, store, queue, refresh, signalled, _task: task }
    }

    fn apply(objects: &MemoryObjects, name: &str) {
        objects.apply(json!({"metadata": {"namespace": "team-a", "name": name}}));
    }

    fn name(name: &str) -> ObjectName {
        ObjectName::new("team-a", name)
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_never_answered_or_refused_is_asked_again() {
        let troubles = Mutex::new(vec![Trouble::Silence, Trouble::Refusal, Trouble::Silence]);
        let scene = start(Troubled { lists: troubles, ..Troubled::default() });
        apply(&scene.source.objects, "a");
        assert!(matches!(scene.store.seen(&name("a")), Seen::Unknown));
        scene.refresh.all().await;
        assert!(matches!(scene.store.seen(&name("a")), Seen::There(_)));
        assert!(matches!(scene.store.seen(&name("b")), Seen::Never));
        assert!(scene.queue.is_idle(), "the first list is compared, not worked through");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_list_follows_the_entries_or_comes_by_itself_when_nobody_reads_them() {
        let scene = start(Troubled::default());
        tokio::time::sleep(FIRST_LIST_WAITS / 2).await;
        assert_eq!(scene.source.pages.load(SeqCst), 0, "the entries are still being read");
        scene.refresh.all().await;
        assert_eq!(scene.source.pages.load(SeqCst), 1, "one list is both the first and the one asked for");
        scene.refresh.all().await;
        assert_eq!(scene.source.pages.load(SeqCst), 2, "the next resync has a list of its own");

        let scene = start(Troubled::default());
        tokio::time::sleep(FIRST_LIST_WAITS * 2).await;
        assert!(scene.store.is_complete(), "objects are known where no resync begins");
        assert_eq!(scene.source.pages.load(SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_does_not_begin_or_falls_silent_is_begun_anew_and_misses_nothing() {
        let scene = start(Troubled {
            watches: Mutex::new(vec![Trouble::Refusal, Trouble::Silence]),
            silent_streams: AtomicU32::new(2),
            ..Troubled::default()
        });
        scene.refresh.all().await;
        let begun = Instant::now();
        apply(&scene.source.objects, "a");
        assert_eq!(scene.queue.next().await.name, name("a"));
        assert!(begun.elapsed() >= SILENCE_LIMIT * 2, "both silent streams were waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_has_fallen_behind_lists_anew_and_signals_what_went_meanwhile() {
        let mut scene = start(Troubled { silent_streams: AtomicU32::new(1), ..Troubled::default() });
        for object in ["stays", "goes"] {
            apply(&scene.source.objects, object);
        }
        scene.refresh.all().await;
        scene.source.objects.delete(&name("goes"));
        apply(&scene.source.objects, "comes");
        scene.source.objects.compact();
        assert_eq!(scene.queue.next().await.name, name("comes"));
        assert_eq!(scene.signalled.recv().await, Some(Signal::Missing(1)));
        assert!(matches!(scene.store.seen(&name("goes")), Seen::Never), "no watch saw it go");
        assert!(matches!(scene.store.seen(&name("stays")), Seen::There(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_that_the_watch_saw_is_remembered_as_one() {
        let scene = start(Troubled::default());
        apply(&scene.source.objects, "a");
        scene.refresh.all().await;
        scene.source.objects.delete(&name("a"));
        assert_eq!(scene.queue.next().await.name, name("a"));
        assert!(matches!(scene.store.seen(&name("a")), Seen::Gone { .. }));
    }
}
