//! A source of objects in which a test can have something happen at the worst moment.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use isvc_registrar::kserve::InferenceService;
use isvc_registrar::registration::ObjectName;
use isvc_registrar::syncer::objects::memory::MemoryObjects;
use isvc_registrar::syncer::objects::{Change, Notice, ObjectPage, Objects, ObjectsError, Scope};
use tokio::sync::watch;

type Happening = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// The objects of a store, as late, as partial and as broken as a test wants them.
pub(crate) struct Races {
    objects: MemoryObjects,
    before_get: Mutex<Option<Happening>>,
    after_get: Mutex<Option<Happening>>,
    after_list: Mutex<Option<Happening>>,
    gets: AtomicUsize,
    lists: AtomicUsize,
    get_fails: AtomicBool,
    last_page_fails: AtomicBool,
    watch_held: watch::Sender<bool>,
    /// Counts up when all watches are to end.
    watches: watch::Sender<u32>,
}

impl Races {
    pub(crate) fn new(objects: MemoryObjects) -> Arc<Self> {
        Arc::new(Self {
            objects,
            before_get: Mutex::default(),
            after_get: Mutex::default(),
            after_list: Mutex::default(),
            gets: AtomicUsize::new(0),
            lists: AtomicUsize::new(0),
            get_fails: AtomicBool::new(false),
            last_page_fails: AtomicBool::new(false),
            watch_held: watch::Sender::new(false),
            watches: watch::Sender::new(0),
        })
    }

    /// Has something happen right before the next uncached GET is answered.
    pub(crate) fn before_get(&self, happening: impl FnOnce() -> BoxFuture<'static, ()> + Send + 'static) {
        *self.before_get.lock().unwrap() = Some(Box::new(happening));
    }

    /// Has something happen right after the next uncached GET was answered, before anybody knows the answer.
    pub(crate) fn after_get(&self, happening: impl FnOnce() -> BoxFuture<'static, ()> + Send + 'static) {
        *self.after_get.lock().unwrap() = Some(Box::new(happening));
    }

    /// Has something happen right after the next page of a list was read, before anybody has it.
    pub(crate) fn after_list(&self, happening: impl FnOnce() -> BoxFuture<'static, ()> + Send + 'static) {
        *self.after_list.lock().unwrap() = Some(Box::new(happening));
    }

    /// Whether changes are kept from watches for now.
    pub(crate) fn hold_watch(&self, held: bool) {
        self.watch_held.send_replace(held);
    }

    /// Ends all watches that there are.
    pub(crate) fn break_watches(&self) {
        self.watches.send_modify(|count| *count += 1);
    }

    pub(crate) fn fail_gets(&self, fail: bool) {
        self.get_fails.store(fail, Ordering::SeqCst);
    }

    /// Whether lists break off before their last page.
    pub(crate) fn fail_last_page(&self, fail: bool) {
        self.last_page_fails.store(fail, Ordering::SeqCst);
    }

    /// How many uncached GETs were asked.
    pub(crate) fn gets(&self) -> usize {
        self.gets.load(Ordering::SeqCst)
    }

    /// How many pages of lists were asked.
    pub(crate) fn lists(&self) -> usize {
        self.lists.load(Ordering::SeqCst)
    }
}

async fn happen(slot: &Mutex<Option<Happening>>) {
    let happening = slot.lock().unwrap().take();
    if let Some(happening) = happening {
        happening().await;
    }
}

impl Objects for Races {
    fn page<'a>(
        &'a self,
        scope: &'a Scope,
        token: Option<String>,
    ) -> BoxFuture<'a, Result<ObjectPage, ObjectsError>> {
        async move {
            self.lists.fetch_add(1, Ordering::SeqCst);
            let page = self.objects.page(scope, token).await?;
            happen(&self.after_list).await;
            if page.next.is_none() && self.last_page_fails.load(Ordering::SeqCst) {
                return Err(ObjectsError::Unavailable("the connection broke".into()));
            }
            Ok(page)
        }
        .boxed()
    }

    fn watch<'a>(
        &'a self,
        scope: &'a Scope,
        after: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Result<Change, ObjectsError>>, ObjectsError>> {
        async move {
            let changes = self.objects.watch(scope, after).await?;
            let held = self.watch_held.subscribe();
            let changes = changes.then(move |change| {
                let mut held = held.clone();
                async move {
                    held.wait_for(|held| !held).await.expect("the source outlives its watches");
                    change
                }
            });
            let mut watches = self.watches.subscribe();
            let broken = async move {
                // Only a break ends it, not the end of the source.
                if watches.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            Ok(changes.take_until(Box::pin(broken)).boxed())
        }
        .boxed()
    }

    fn get<'a>(
        &'a self,
        name: &'a ObjectName,
    ) -> BoxFuture<'a, Result<Option<InferenceService>, ObjectsError>> {
        async move {
            self.gets.fetch_add(1, Ordering::SeqCst);
            if self.get_fails.load(Ordering::SeqCst) {
                return Err(ObjectsError::Unavailable("no connection".into()));
            }
            happen(&self.before_get).await;
            let object = self.objects.get(name).await;
            happen(&self.after_get).await;
            object
        }
        .boxed()
    }

    fn release_finalizer<'a>(
        &'a self,
        name: &'a ObjectName,
        uid: &'a str,
        finalizer: &'a str,
        at: usize,
    ) -> BoxFuture<'a, Result<(), ObjectsError>> {
        self.objects.release_finalizer(name, uid, finalizer, at)
    }

    fn tell<'a>(&'a self, name: &'a ObjectName, uid: &'a str, notice: &'a Notice) -> BoxFuture<'a, ()> {
        self.objects.tell(name, uid, notice)
    }
}
