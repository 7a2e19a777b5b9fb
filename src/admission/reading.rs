//! On which thread a body is read: a long one takes milliseconds, and must not keep the other reviews waiting.
//!
//! The webhook has one thread for all of its waiting. What a short body takes of it is less than handing it over
//! would. A long one gets a thread of its own, and none of the runtime's for work that blocks: those may all be
//! waiting for a name server that says nothing, and a review that needs no registry must not wait behind them.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

use axum::http::StatusCode;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use super::body::Held;
use super::review::{Request, ReviewError};
use crate::kserve::LabelKeys;

/// The longest body that is read at once, in bytes: it takes a tenth of a millisecond.
const SHORT_BODY_BYTES: usize = 32 << 10;

/// Long bodies that are read at the same time: threads that read have memory of their own.
const LONG_BODIES_AT_A_TIME: usize = 2;

/// Why there is no request.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotRead {
    /// It is not one.
    #[error(transparent)]
    NoReview(#[from] ReviewError),
    /// The deadline has come before its end.
    #[error("too many large reviews at once, or too little processor time: ask again")]
    Late,
    /// There is no thread for a long one.
    #[error("cannot start a thread to read a large review: raise the limit of processes")]
    NoThread(#[source] io::Error),
}

impl NotRead {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::NoReview(_) => StatusCode::BAD_REQUEST,
            Self::Late | Self::NoThread(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The places of those that are read beside the others.
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
    /// Reads a review, and gives back the room of its body.
    ///
    /// # Errors
    /// If it is no review, or cannot be read in time.
    ///
    /// # Panics
    /// If reading does.
    pub(super) async fn read(
        &self,
        body: Held,
        keys: &LabelKeys,
        deadline: Instant,
    ) -> Result<Request, NotRead> {
        if body.bytes().len() <= SHORT_BODY_BYTES {
            return Ok(Request::read(body.bytes(), keys)?);
        }
        let keys = keys.clone();
        let read = self.beside(body, move |bytes| Request::read(bytes, &keys));
        let read = timeout_at(deadline, read).await.unwrap_or(Err(NotRead::Late))?;
        Ok(read?)
    }

    /// Does the work that a body asks for on a thread of its own, when there is a place.
    async fn beside<T: Send + 'static>(
        &self,
        body: Held,
        work: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> Result<T, NotRead> {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("nobody closes the places");
        let (tell, told) = oneshot::channel::<Result<T, Box<dyn Any + Send>>>();
        // The work goes on when its client has gone away, and holds its place and the body's room till then.
        let work = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| work(body.bytes())));
            drop((body, place));
            // Nobody waits for it when the client has gone away.
            let _ = tell.send(outcome);
        };
        thread::Builder::new().name("large-review".to_owned()).spawn(work).map_err(NotRead::NoThread)?;
        let outcome = told.await.expect("the thread tells, whatever becomes of the work");
        Ok(outcome.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use axum::body::Body;
    use futures::FutureExt;
    use tokio::sync::SemaphorePermit;

    use super::*;
    use crate::admission::body::Room;

    /// Far longer than anything here takes: a test that fails says so in place of waiting for ever.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// A body of which some room is taken.
    async fn long(room: &Room) -> Held {
        body(room, SHORT_BODY_BYTES + 1).await
    }

    async fn body(room: &Room, bytes: usize) -> Held {
        room.read(Body::from(vec![b' '; bytes])).await.expect("there is room")
    }

    /// Work that tells when it has begun, and goes on until it is let go.
    fn work() -> (impl FnOnce(&[u8]) -> bool + Send + 'static, oneshot::Receiver<()>, mpsc::Sender<()>) {
        let (begin, begun) = oneshot::channel();
        let (end, ended) = mpsc::channel::<()>();
        let work = move |_: &[u8]| {
            let told = begin.send(()).is_ok();
            ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Disconnected) && told
        };
        (work, begun, end)
    }

    async fn soon<T>(future: impl Future<Output = T>, what: &str) -> T {
        tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}"))
    }

    /// Takes all places, once those who read have given theirs back.
    async fn all_places(reading: &Reading) -> SemaphorePermit<'_> {
        let all = u32::try_from(LONG_BODIES_AT_A_TIME).unwrap();
        soon(reading.places.acquire_many(all), "all places are free").await.unwrap()
    }

    fn is_no_review(read: &Result<Request, NotRead>) -> bool {
        matches!(read, Err(NotRead::NoReview(_)))
    }

    #[tokio::test]
    async fn a_short_body_is_read_at_once_and_a_long_one_needs_a_place() {
        let (room, reading, keys) = (Room::default(), Reading::default(), LabelKeys::default());
        let all_places = all_places(&reading).await;
        let later = Instant::now() + PATIENCE;
        let short = body(&room, SHORT_BODY_BYTES).await;
        let read = reading.read(short, &keys, later).now_or_never();
        assert!(is_no_review(&read.expect("it waits for nothing")));
        let mut waits = Box::pin(reading.read(long(&room).await, &keys, later));
        assert!(waits.as_mut().now_or_never().is_none(), "it waits for a place");
        drop(all_places);
        assert!(is_no_review(&waits.await));
    }

    #[tokio::test]
    async fn a_long_body_for_which_no_place_gets_free_in_time_is_refused() {
        let (room, reading, keys) = (Room::default(), Reading::default(), LabelKeys::default());
        let all = room.free();
        let _all_places = all_places(&reading).await;
        let read = reading.read(long(&room).await, &keys, Instant::now() + Duration::from_millis(1));
        let error = soon(read, "it is not waited for beyond the deadline").await.unwrap_err();
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE, "{error}");
        assert_eq!(room.free(), all, "its room is free for others");
    }

    #[tokio::test]
    async fn long_bodies_are_read_on_other_threads_and_further_ones_wait() {
        let (room, reading) = (Room::default(), Reading::default());
        let here = thread::current().id();
        let (mut reads, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..LONG_BODIES_AT_A_TIME {
            let (work, begun, end) = work();
            let work = move |bytes: &[u8]| (thread::current().id(), work(bytes));
            let (reading, body) = (reading.clone(), long(&room).await);
            reads.push(tokio::spawn(async move { reading.beside(body, work).await }));
            ends.push(end);
            soon(begun, "as many as there are places are read at a time").await.unwrap();
        }
        assert_eq!(reading.places.available_permits(), 0, "every long body that is read holds a place");
        let mut further = Box::pin(reading.beside(long(&room).await, <[u8]>::len));
        assert!(further.as_mut().now_or_never().is_none(), "it waits for a place");
        drop(ends);
        let further = soon(further, "a place that was given back is taken").await;
        assert_eq!(further.unwrap(), SHORT_BODY_BYTES + 1);
        for read in reads {
            let (thread, done) = read.await.unwrap().unwrap();
            assert!(done);
            assert_ne!(thread, here);
        }
        drop(all_places(&reading).await);
    }

    #[tokio::test]
    async fn a_client_that_goes_away_leaves_place_and_room_to_those_who_read() {
        let (room, reading) = (Room::default(), Reading::default());
        let all = room.free();
        let (work, begun, end) = work();
        let read = reading.beside(long(&room).await, work).now_or_never();
        assert!(read.is_none(), "it is dropped while it is read");
        soon(begun, "it is read").await.unwrap();
        assert_eq!(reading.places.available_permits(), LONG_BODIES_AT_A_TIME - 1);
        assert!(room.free() < all, "the body is still there");
        drop(end);
        drop(all_places(&reading).await);
        assert_eq!(room.free(), all);
    }

    #[tokio::test]
    async fn work_that_panics_panics_here_and_gives_its_place_back() {
        let (room, reading) = (Room::default(), Reading::default());
        let work = |_: &[u8]| panic!("as the work does");
        let panic = AssertUnwindSafe(reading.beside(long(&room).await, work)).catch_unwind().await;
        let said = panic.map(|read: Result<(), _>| read.is_ok()).unwrap_err();
        assert_eq!(said.downcast_ref(), Some(&"as the work does"));
        drop(all_places(&reading).await);
    }
}
