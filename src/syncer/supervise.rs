//! Keeps a task going: one that panics or stops is begun anew, within the process.
//!
//! The syncer shares a pod with the webhook, and a container that restarts would make that pod unready.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;

/// How long a task that stopped is left alone: a bug that comes back at once must not take all of a processor.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// The tasks that are kept going, by their names in metrics.
pub(super) const TASKS: [&str; 4] = ["watch", "worker", "resync", "measure"];

/// Runs a task until it is to stop, however often it ends before; then it is broken off.
pub(super) async fn keep<F>(
    task: &'static str,
    metrics: Metrics,
    stop: CancellationToken,
    begin: impl Fn() -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    while !stop.is_cancelled() {
        let mut running = tokio::spawn(begin());
        // Cancelling the wait loses nothing: the task is broken off then.
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = stop.cancelled() => {
                running.abort();
                // It is over when its current step is; what it holds is given back before anybody goes on.
                let _ = running.await;
                return;
            }
        };
        note(task, &metrics, ended, &stop).await;
    }
}

/// Runs a task that ends by itself when it is to stop, however often it ends before.
pub(super) async fn keep_to_the_end<F>(
    task: &'static str,
    metrics: Metrics,
    stop: CancellationToken,
    begin: impl Fn() -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    while !stop.is_cancelled() {
        let ended = tokio::spawn(begin()).await;
        if !stop.is_cancelled() {
            note(task, &metrics, ended, &stop).await;
        }
    }
}

async fn note(
    task: &'static str,
    metrics: &Metrics,
    ended: Result<(), tokio::task::JoinError>,
    stop: &CancellationToken,
) {
    metrics.restarted(task);
    match ended {
        Ok(()) => tracing::error!(task, "a task stopped and is begun anew"),
        Err(error) => tracing::error!(%error, task, "a task panicked and is begun anew: please report this"),
    }
    // Cancelling the wait loses nothing.
    tokio::select! {
        () = tokio::time::sleep(RESTART_AFTER) => {}
        () = stop.cancelled() => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_or_stops_is_begun_anew_and_counted() {
        let begun = Arc::new(AtomicU32::new(0));
        let stop = CancellationToken::new();
        let metrics = Metrics::default();
        let kept = keep_to_the_end("test", metrics.clone(), stop.clone(), || {
            let (begun, stop) = (Arc::clone(&begun), stop.clone());
            async move {
                match begun.fetch_add(1, Ordering::Relaxed) {
                    0 => panic!("a bug"),
                    1 => {}
                    _ => stop.cancel(),
                }
            }
        });
        kept.await;
        assert_eq!(begun.load(Ordering::Relaxed), 3);
        assert_eq!(metrics.restarts("test"), 2, "the last end was asked for");
    }
}
