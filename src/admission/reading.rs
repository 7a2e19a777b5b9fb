//! On which thread a body is read: a long one takes milliseconds, and must not keep the other reviews waiting.
//!
//! The webhook has one thread for all of its waiting. What a short body takes of it is less than handing it over would.

use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// The longest body that is read at once, in bytes: it takes a tenth of a millisecond.
const SHORT_BODY_BYTES: usize = 32 << 10;

/// Long bodies that are read at the same time. Threads that read have memory of their own, and other work that blocks,
/// such as the look-up of a host, needs threads of the same kind.
const LONG_BODIES_AT_A_TIME: usize = 2;

/// The process is stopping, and reads nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the webhook is stopping: ask again")]
pub(super) struct Stopping;

/// The threads for long bodies.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    places: Arc<Semaphore>,
}

impl Default for Reading {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(LONG_BODIES_AT_A_TIME)) }
    }
}

impl Reading {
    /// Does the work that a body of so many bytes asks for: here, or on another thread when it is a long one.
    ///
    /// # Panics
    /// If the work does.
    pub(super) async fn of<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stopping> {
        if bytes <= SHORT_BODY_BYTES {
            return Ok(work());
        }
        // Goes with the work, which goes on when its client has gone away.
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| Stopping)?;
        let worked = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        worked.await.map_err(|error| error.try_into_panic().map_or(Stopping, |panic| resume_unwind(panic)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    /// Far longer than anything here takes: a test that fails says so in place of waiting for ever.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Work that tells when it has begun, and goes on until it is let go.
    fn work() -> (impl FnOnce() -> bool + Send + 'static, oneshot::Receiver<()>, mpsc::Sender<()>) {
        let (begin, begun) = oneshot::channel();
        let (end, ended) = mpsc::channel::<()>();
        let work = move || {
            let told = begin.send(()).is_ok();
            ended.recv().is_err() && told
        };
        (work, begun, end)
    }

    async fn all_places_are_free_again(reading: &Reading) {
        let all = u32::try_from(LONG_BODIES_AT_A_TIME).unwrap();
        let free = tokio::time::timeout(PATIENCE, reading.places.acquire_many(all)).await;
        assert!(free.is_ok(), "a long body that was read still holds its place");
    }

    #[tokio::test]
    async fn a_short_body_is_read_here_and_a_long_one_elsewhere() {
        let here = thread::current().id();
        let reading = Reading::default();
        let read_on = |bytes| reading.of(bytes, || thread::current().id());
        assert_eq!(read_on(SHORT_BODY_BYTES).now_or_never(), Some(Ok(here)), "without waiting for anything");
        assert_ne!(read_on(SHORT_BODY_BYTES + 1).await, Ok(here));
    }

    #[tokio::test]
    async fn while_long_bodies_are_read_short_ones_are_too_and_further_long_ones_wait() {
        let reading = Reading::default();
        let mut reads = Vec::new();
        let mut ends = Vec::new();
        for _ in 0..LONG_BODIES_AT_A_TIME {
            let (work, begun, end) = work();
            let reading = reading.clone();
            reads.push(tokio::spawn(async move { reading.of(usize::MAX, work).await }));
            ends.push(end);
            begun.await.unwrap();
        }
        assert_eq!(reading.of(1, || "short").await, Ok("short"));
        let mut further = Box::pin(reading.of(usize::MAX, || "long"));
        assert_eq!(reading.places.available_permits(), 0, "every long body that is read holds a place");
        assert_eq!(further.as_mut().now_or_never(), None, "it waits for a place");
        drop(ends);
        let further =
            tokio::time::timeout(PATIENCE, further).await.expect("a place that was given back is taken");
        assert_eq!(further, Ok("long"));
        for read in reads {
            assert_eq!(read.await.unwrap(), Ok(true));
        }
        all_places_are_free_again(&reading).await;
    }

    #[tokio::test]
    async fn a_long_body_is_read_to_its_end_when_its_client_has_gone_away_and_keeps_its_place_till_then() {
        let reading = Reading::default();
        let (work, begun, end) = work();
        assert_eq!(reading.of(usize::MAX, work).now_or_never(), None, "it is dropped while it is read");
        begun.await.unwrap();
        assert_eq!(reading.places.available_permits(), LONG_BODIES_AT_A_TIME - 1);
        drop(end);
        all_places_are_free_again(&reading).await;
    }

    #[tokio::test]
    #[should_panic(expected = "as the work does")]
    async fn work_that_panics_panics_here() {
        let _ = Reading::default().of(usize::MAX, || panic!("as the work does")).await;
    }
}
