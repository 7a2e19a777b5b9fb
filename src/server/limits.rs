//! What clients may take of a listener, and for how long.

use std::net::SocketAddr;
use std::time::Duration;

use axum_server::Server;
use hyper_util::rt::TokioTimer;

/// What clients may take of a listener: how many of them, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Open connections.
    pub connections: usize,
    /// Time for a TLS handshake, where there is one.
    pub handshake: Duration,
    /// Time from the handshake to the end of the first request's headers.
    pub first_request: Duration,
    /// Time from one request to the end of the next one's headers.
    pub idle: Duration,
    /// Time for which a client may take in nothing of an answer that is being sent.
    pub unread: Duration,
}

impl Default for Limits {
    /// Those of the webhook.
    fn default() -> Self {
        Self {
            // An API server has 200 changes in flight by default, and each that waits here has a connection of its
            // own: these are five API servers with nothing else to do. Some 40 kB each, 40 MB in all.
            connections: 1024,
            // It takes two round trips: who needs longer is not the API server.
            handshake: Duration::from_secs(10),
            // The API server sends its request with the connection.
            first_request: Duration::from_secs(10),
            // The API server keeps a connection idle for 90 s. This limit also runs while a connection is idle, so
            // it has to be longer, or a request and the end of its connection cross on the way.
            idle: Duration::from_mins(2),
            // The API server reads an answer as it comes, and waits for none longer than 30 s. Lost packets are sent
            // again several times within this.
            unread: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// Those of the health port.
    #[must_use]
    pub fn of_health() -> Self {
        Self {
            // The kubelet and a few scrapers, with one or two connections each; the most that may be taken of the
            // file descriptors that the rest of the program needs.
            connections: 64,
            // A probe has a connection of its own, and a scraper comes every 15 s or more: neither gains from one
            // that is kept, and a GET that crosses with its end is sent again.
            idle: Duration::from_secs(10),
            ..Self::default()
        }
    }
}

/// A server that keeps the limits on requests; those on connections are kept by
/// [`Places`](super::connections::Places).
pub(super) fn limited<A>(server: Server<SocketAddr, A>, limits: &Limits) -> Server<SocketAddr, A> {
    let mut server = server.http1_only().first_request_timeout(limits.first_request);
    server.http_builder().http1().timer(TokioTimer::new()).header_read_timeout(limits.idle);
    server
}
