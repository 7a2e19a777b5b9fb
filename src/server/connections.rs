//! How many connections may be open at once.
//!
//! Goes in: each connection as it is accepted, before its handshake. Comes out: the same connection holding one of
//! the places, or the end of it. What stays true: a place is given back when its connection ends, however it ends;
//! those that have one are not disturbed by those that have none.

use std::future::{Ready, ready};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum_server::accept::Accept;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

/// Gives places to connections.
#[derive(Debug, Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    full: Arc<AtomicBool>,
}

impl Places {
    pub(super) fn new(connections: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(connections)), full: Arc::default() }
    }
}

impl<I, S> Accept<I, S> for Places {
    type Stream = I;
    type Service = Held<S>;
    type Future = Ready<io::Result<(I, Held<S>)>>;

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
        ready(Ok((stream, Held { service, _place: Arc::new(place) })))
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
