//! Callers that ask for the same thing at the same time share one call.
//!
//! Goes in: a key and the work. Comes out: the one outcome, to all who asked while it ran. What stays true: the
//! work runs to its end even when those who asked have left, so that nothing is given up half-way; nothing is
//! remembered once it has ended.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

/// The work did not come to its end: it panicked, or the runtime is shutting down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a call that several requests shared was broken off")]
pub(super) struct BrokenOff;

type Running<V> = Shared<BoxFuture<'static, Result<V, BrokenOff>>>;

/// Calls under way, by key.
pub(super) struct SharedCalls<K, V> {
    running: Arc<Mutex<HashMap<K, Running<V>>>>,
}

impl<K, V> Default for SharedCalls<K, V> {
    fn default() -> Self {
        Self { running: Arc::default() }
    }
}

impl<K, V> SharedCalls<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Joins the call under this key, or starts one.
    pub(super) async fn join<W>(&self, key: K, work: impl FnOnce() -> W) -> Result<V, BrokenOff>
    where
        W: Future<Output = V> + Send + 'static,
    {
        let call = {
            let mut running = lock(&self.running);
            let call = running.get(&key).cloned().unwrap_or_else(|| self.start(key.clone(), work()));
            // Puts it where it is already, when it was joined. The task that it waits for cannot have taken
            // itself off the list before: it needs the lock for that.
            running.insert(key, call.clone());
            call
        };
        call.await
    }

    fn start<W>(&self, key: K, work: W) -> Running<V>
    where
        W: Future<Output = V> + Send + 'static,
    {
        let ended = Ended { running: Arc::clone(&self.running), key };
        let task = tokio::spawn(async move {
            // Dropped with the task, however that ends: the next one who asks starts anew.
            let _ended = ended;
            work.await
        });
        async move { task.await.map_err(|_| BrokenOff) }.boxed().shared()
    }
}

/// Takes a call off the list.
struct Ended<K: Eq + Hash, V> {
    running: Arc<Mutex<HashMap<K, Running<V>>>>,
    key: K,
}

impl<K: Eq + Hash, V> Drop for Ended<K, V> {
    fn drop(&mut self) {
        lock(&self.running).remove(&self.key);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A map is never left half changed by the calls made on it here.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn those_who_ask_while_it_runs_share_it_and_the_next_starts_anew() {
        let calls: SharedCalls<&str, usize> = SharedCalls::default();
        let started = Arc::new(AtomicUsize::new(0));
        let work = || {
            let started = Arc::clone(&started);
            async move {
                let number = started.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                number
            }
        };
        let together = futures::future::join_all((0..100).map(|_| calls.join("a", work))).await;
        assert!(together.iter().all(|outcome| *outcome == Ok(0)), "one call for all: {together:?}");
        assert_eq!(calls.join("a", work).await, Ok(1), "what has ended is not remembered");
        assert!(lock(&calls.running).is_empty());
    }

    #[tokio::test]
    async fn a_caller_that_leaves_does_not_end_the_call() {
        let calls: SharedCalls<&str, ()> = SharedCalls::default();
        let (finish, finished) = tokio::sync::oneshot::channel();
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let asked = calls.join("a", || async {
            wait.await.ok();
            finish.send(()).ok();
        });
        assert!(asked.now_or_never().is_none(), "it waits");
        go.send(()).unwrap();
        finished.await.expect("the work goes on without the one who asked for it");
    }

    #[tokio::test]
    async fn a_panic_reaches_nobody_else_s_call() {
        let calls: SharedCalls<&str, usize> = SharedCalls::default();
        assert_eq!(calls.join("a", || async { panic!("on purpose") }).await, Err(BrokenOff));
        assert_eq!(calls.join("a", || async { 1 }).await, Ok(1));
    }
}
