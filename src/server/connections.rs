//! How many connections may be open at once, and for how long one may leave its answers unread.
//!
//! Goes in: each connection as it is accepted, before its handshake. Comes out: the same connection holding one of
//! the places, or the end of it. What stays true: a place is given back when its connection ends, however it ends;
//! those that have one are not disturbed by those that have none; a connection whose
//! client takes in nothing of what is sent to it ends.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::accept::Accept;
use tokio::io::AsyncWrite;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutWriter;
use tower_service::Service;

use super::limits::Limits;

/// Gives places to connections.
#[derive(Debug, Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    full: Arc<AtomicBool>,
    unread: Duration,
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            free: Arc::new(Semaphore::new(limits.connections)),
            full: Arc::default(),
            unread: limits.unread,
        }
    }
}

impl<I: AsyncWrite, S> Accept<I, S> for Places {
    type Stream = Pin<Box<TimeoutWriter<I>>>;
    type Service = Held<S>;
    type Future = Ready<io::Result<(Self::Stream, Held<S>)>>;

    /// Turned away at once rather than kept waiting: one that waits holds a file descriptor too, and an API server
    /// that is told no goes on by its failure policy without spending its time-out first.
    fn accept(&self, stream: I, service: S) -> Self::Future {
        let Ok(place) = Arc::clone(&self.free).try_acquire_owned() else {
            // Once each time it fills up: a flood of connections must not become a flood of lines.
            if !self.full.swap(true, Ordering::Relaxed) {
                tracing::warn!("all connections are taken, further ones are turned away");
            }
            return ready(Err(io::Error::other("all connections are taken")));
        };
        self.full.store(false, Ordering::Relaxed);
        // A client that sends one request after the other and reads no answer is neither idle nor late: without this
        // limit the answer that does not get away would keep its place without end.
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(self.unread));
        ready(Ok((Box::pin(stream), Held { service, _place: Arc::new(place) })))
    }
}

/// The service of one connection, and its place.
#[derive(Debug, Clone)]
pub(super) struct Held<S> {
    service: S,
    _place: Arc<OwnedSemaphorePermit>,
}

impl<R, S: Service<R>> Service<R> for Held<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.service.call(request)
    }
}
