//! Reads the body of a request: bounded in size, in time, and in the memory that all bodies take together.
//!
//! The start of each body has memory of its own, and only what comes after it is taken from the room that bodies
//! share: however many large bodies are slow to come, the usual review is still read.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A review can hold an object and its old self, 3 MiB each at the API server's limit, and what surrounds them.
const LARGEST_REVIEW_BYTES: usize = 8 << 20;

/// What each body may take without asking: three times the usual review of 10 kB. The number of connections bounds
/// it, 32 MiB for the 1024 of them, so it can never run out.
const OWN_BYTES: usize = 32 << 10;

/// What all bodies together may take beyond that: four of the largest. Without this limit a thousand clients who
/// send all but the last byte would take gigabytes.
const SHARED_BYTES: usize = 32 << 20;

/// How long a body may take to come: the API server sends it at once.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    /// Larger than any review.
    #[error("the body is larger than any review")]
    TooLarge,
    /// The client went away in the middle of it.
    #[error("the body broke off")]
    BrokeOff,
    /// The client is too slow.
    #[error("the body took too long")]
    TooSlow,
    /// Other large bodies take all the memory there is for them.
    #[error("too many large reviews at once")]
    NoRoom,
}

impl BodyError {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BrokeOff => StatusCode::BAD_REQUEST,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The memory for bodies.
#[derive(Debug, Clone)]
pub(super) struct Room {
    /// What each body has to itself.
    own: usize,
    /// What is left of the rest.
    free: Arc<Semaphore>,
    timeout: Duration,
}

impl Default for Room {
    fn default() -> Self {
        Self { own: OWN_BYTES, free: Arc::new(Semaphore::new(SHARED_BYTES)), timeout: TIMEOUT }
    }
}

/// A body, and the shared room it takes until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl Held {
    /// The bytes, for as long as the room is held: moving them out would leave the room behind.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Room {
    pub(super) async fn read(&self, body: Body) -> Result<Held, BodyError> {
        tokio::time::timeout(self.timeout, self.read_all(body)).await.unwrap_or(Err(BodyError::TooSlow))
    }

    async fn read_all(&self, body: Body) -> Result<Held, BodyError> {
        let (mut first, mut whole) = (Bytes::new(), Vec::new());
        let mut room = None;
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| BodyError::BrokeOff)?;
            let length = first.len() + whole.len() + chunk.len();
            if length > LARGEST_REVIEW_BYTES {
                return Err(BodyError::TooLarge);
            }
            self.share(&mut room, length.saturating_sub(self.own))?;
            // The usual review comes in one piece, and is not copied.
            if length == chunk.len() {
                first = chunk;
                continue;
            }
            whole.extend_from_slice(&std::mem::take(&mut first));
            whole.extend_from_slice(&chunk);
        }
        Ok(Held { bytes: if whole.is_empty() { first } else { whole.into() }, _room: room })
    }

    /// Bytes of the shared room that nobody holds.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.available_permits()
    }

    /// Takes from the shared room until so many bytes are held.
    fn share(&self, held: &mut Option<OwnedSemaphorePermit>, bytes: usize) -> Result<(), BodyError> {
        let more = bytes - held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if more == 0 {
            return Ok(());
        }
        let more = u32::try_from(more).map_err(|_| BodyError::TooLarge)?;
        let more = Arc::clone(&self.free).try_acquire_many_owned(more).map_err(|_| BodyError::NoRoom)?;
        match held {
            Some(room) => room.merge(more),
            None => *held = Some(more),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use futures::stream;

    use super::*;
    use crate::server::Limits;

    /// Room that is all shared.
    fn room(bytes: usize) -> Room {
        Room { own: 0, free: Arc::new(Semaphore::new(bytes)), timeout: TIMEOUT }
    }

    /// A body that comes in pieces.
    fn pieces(pieces: &[&'static str]) -> Body {
        let pieces: Vec<_> =
            pieces.iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from(*piece))).collect();
        Body::from_stream(stream::iter(pieces))
    }

    /// A body of which no end comes.
    fn endless() -> Body {
        Body::from_stream(stream::iter([Ok::<_, std::io::Error>(Bytes::from("{"))]).chain(stream::pending()))
    }

    #[tokio::test]
    async fn a_body_is_read_whole() {
        assert_eq!(room(4).read(pieces(&["ab", "cd"])).await.unwrap().bytes(), &b"abcd"[..]);
        assert_eq!(room(4).read(Body::empty()).await.unwrap().bytes(), &b""[..]);
    }

    #[tokio::test]
    async fn bodies_share_the_room_and_give_it_back() {
        let room = room(4);
        let first = room.read(pieces(&["abc"])).await.unwrap();
        assert_eq!(room.read(pieces(&["x", "yz"])).await.unwrap_err(), BodyError::NoRoom);
        drop(first);
        room.read(pieces(&["x", "yz"])).await.expect("the first body has given its room back");
        assert_eq!(room.free(), 4);
    }

    #[tokio::test]
    async fn a_small_body_is_read_when_large_ones_have_taken_the_room() {
        let room = Room { own: 2, ..room(2) };
        let large = room.read(pieces(&["a", "bcd"])).await.unwrap();
        assert_eq!(room.free(), 0);
        assert_eq!(room.read(pieces(&["x", "yz"])).await.unwrap_err(), BodyError::NoRoom);
        let small = room.read(pieces(&["x", "y"])).await.expect("it needs nothing of what they took");
        assert_eq!((small.bytes(), large.bytes()), (&b"xy"[..], &b"abcd"[..]));
        drop(large);
        assert_eq!(room.free(), 2);
    }

    #[test]
    fn bodies_on_all_connections_leave_room_for_the_rest_of_the_program() {
        const MEMORY_OF_THE_POD: usize = 128 << 20;
        let all = Limits::default().connections * OWN_BYTES + SHARED_BYTES;
        assert!(all <= MEMORY_OF_THE_POD / 2, "{all} bytes");
    }

    #[tokio::test]
    async fn a_body_larger_than_any_review_is_not_read_to_its_end() {
        let large = Body::from(vec![b' '; LARGEST_REVIEW_BYTES + 1]);
        assert_eq!(Room::default().read(large).await.unwrap_err(), BodyError::TooLarge);
    }

    #[tokio::test]
    async fn a_body_that_never_ends_is_given_up_and_gives_its_room_back() {
        let room = Room { timeout: Duration::from_millis(1), ..room(4) };
        assert_eq!(room.read(endless()).await.unwrap_err(), BodyError::TooSlow);
        assert_eq!(room.free(), 4);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_no_review() {
        let broken = stream::iter([Ok(Bytes::from("{")), Err(std::io::Error::other("gone"))]);
        let outcome = Room::default().read(Body::from_stream(broken)).await;
        assert_eq!(outcome.unwrap_err(), BodyError::BrokeOff);
    }
}
