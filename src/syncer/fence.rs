//! The fence: until when this process may write.
//!
//! Goes in: how long the lease is certain to be ours. Comes out: a deadline for each write, or none. What stays
//! true: no write starts after the deadline, and none is waited for beyond it. It is measured on this machine's
//! monotonic clock, so that neither a wrong clock nor a pause of the process can stretch it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// A write that has less time than this is not begun: it would hardly be answered in time.
const LEAST_TIME_TO_WRITE: Duration = Duration::from_millis(250);

/// Why no write may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this replica does not hold the lease now, or not for long enough: another one acts, or it renews soon"
)]
pub struct Fenced;

/// The fence; clones stand at the same place.
#[derive(Debug, Clone)]
pub struct Fence {
    until: Arc<watch::Sender<Until>>,
}

/// How long writing is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Not at all.
    Closed,
    /// Up to then.
    Deadline(Instant),
    /// Always: there is no lease.
    Open,
}

impl Fence {
    /// A fence that is always open, for a process that is the only one.
    #[must_use]
    pub fn open() -> Self {
        Self { until: Arc::new(watch::Sender::new(Until::Open)) }
    }

    /// A fence that is closed until it is moved.
    #[must_use]
    pub fn closed() -> Self {
        Self { until: Arc::new(watch::Sender::new(Until::Closed)) }
    }

    /// Allows writes up to a deadline.
    pub fn move_to(&self, deadline: Instant) {
        self.until.send_replace(Until::Deadline(deadline));
    }

    /// Allows no more writes.
    pub fn close(&self) {
        self.until.send_replace(Until::Closed);
    }

    /// Whether a write could be made now.
    #[must_use]
    pub fn allows(&self) -> bool {
        self.deadline(Duration::ZERO).is_ok()
    }

    /// Waits until writes are allowed.
    pub async fn opened(&self) {
        let mut until = self.until.subscribe();
        while !self.allows() {
            if until.changed().await.is_err() {
                // The sender lives in `self`, so this cannot be; waiting for ever is what a closed fence means.
                return std::future::pending().await;
            }
        }
    }

    /// Waits until writes are no longer allowed. Never for a fence without a lease.
    pub async fn closes(&self) {
        let mut until = self.until.subscribe();
        loop {
            let now = *until.borrow_and_update();
            let passed = async {
                match now {
                    Until::Closed => {}
                    Until::Deadline(deadline) => {
                        let last = deadline.checked_sub(LEAST_TIME_TO_WRITE).unwrap_or(deadline);
                        tokio::time::sleep_until(last).await;
                    }
                    Until::Open => std::future::pending().await,
                }
            };
            // Cancelling either side loses nothing: the deadline is read anew.
            tokio::select! {
                () = passed => return,
                _ = until.changed() => {}
            }
        }
    }

    /// Makes one write, if it may be begun now; it is given up at the deadline, or after `limit`.
    ///
    /// The clock is read before every step of the write, not only by a timer: a process that was stopped in the
    /// middle and is woken after the deadline takes no further step.
    pub async fn write<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Result<T, Fenced> {
        let deadline = self.deadline(limit)?;
        let steps = Steps { deadline, work: std::pin::pin!(work) };
        tokio::time::timeout_at(deadline, steps).await.unwrap_or(Err(Fenced))
    }

    fn deadline(&self, limit: Duration) -> Result<Instant, Fenced> {
        let now = Instant::now();
        match *self.until.borrow() {
            Until::Closed => Err(Fenced),
            Until::Open => Ok(now + limit),
            Until::Deadline(deadline) if deadline.saturating_duration_since(now) < LEAST_TIME_TO_WRITE => {
                Err(Fenced)
            }
            Until::Deadline(deadline) => Ok(deadline.min(now + limit)),
        }
    }
}

/// A future that takes no step after its deadline.
struct Steps<'a, F> {
    deadline: Instant,
    work: Pin<&'a mut F>,
}

impl<F: Future> Future for Steps<'_, F> {
    type Output = Result<F::Output, Fenced>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if Instant::now() >= self.deadline {
            return Poll::Ready(Err(Fenced));
        }
        self.work.as_mut().poll(context).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(3);

    #[tokio::test(start_paused = true)]
    async fn no_write_begins_when_closed_or_too_late() {
        let fence = Fence::closed();
        assert_eq!(fence.write(LIMIT, async {}).await, Err(Fenced));
        fence.move_to(Instant::now() + Duration::from_secs(10));
        assert_eq!(fence.write(LIMIT, async {}).await, Ok(()));
        tokio::time::advance(Duration::from_millis(9_800)).await;
        assert_eq!(fence.write(LIMIT, async {}).await, Err(Fenced));
        fence.move_to(Instant::now() + Duration::from_secs(10));
        fence.close();
        assert_eq!(fence.write(LIMIT, async {}).await, Err(Fenced));
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_given_up_at_the_deadline() {
        let fence = Fence::closed();
        let begin = Instant::now();
        fence.move_to(begin + Duration::from_secs(2));
        assert_eq!(fence.write(LIMIT, std::future::pending::<()>()).await, Err(Fenced));
        assert_eq!(begin.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_slept_past_the_deadline_takes_no_further_step() {
        let fence = Fence::closed();
        fence.move_to(Instant::now() + Duration::from_secs(2));
        let sent = std::cell::Cell::new(false);
        let work = async {
            // Time passes without a timer having had a chance to fire, as when the process is stopped.
            tokio::time::advance(Duration::from_mins(1)).await;
            sent.set(true);
        };
        assert_eq!(fence.write(LIMIT, work).await, Err(Fenced));
        assert!(!sent.get());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_it_ends_when_it_moves() {
        let fence = Fence::closed();
        let waiting = fence.clone();
        let opened = tokio::spawn(async move { waiting.opened().await });
        fence.move_to(Instant::now() + Duration::from_secs(10));
        opened.await.unwrap();
        let begin = Instant::now();
        fence.closes().await;
        assert_eq!(begin.elapsed() + LEAST_TIME_TO_WRITE, Duration::from_secs(10));
    }
}
