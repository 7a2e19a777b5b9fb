//! The webhook's listener.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use hyper_util::rt::TokioTimer;
use rustls::server::ResolvesServerCert;
use tokio_util::sync::CancellationToken;

use super::connections::Places;

/// What clients may take of the server: how many of them, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Open connections.
    pub connections: usize,
    /// Time for a handshake.
    pub handshake: Duration,
    /// Time from the handshake to the end of the first request's headers.
    pub first_request: Duration,
    /// Time from one request to the end of the next one's headers.
    pub idle: Duration,
}

impl Default for Limits {
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
        }
    }
}

/// Time for reviews that are under way when the listener closes: more than the longest webhook time-out, 30 s,
/// would outlast the grace of a Pod, and no review takes longer than the registry's limit.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// How the listener stops.
#[derive(Debug, Clone)]
pub struct Stop {
    /// Cancelled when the process is to stop.
    pub signal: CancellationToken,
    /// How long connections are still accepted after that: until every API server has heard that this endpoint
    /// is gone.
    pub drain_delay: Duration,
}

/// Serves routes over TLS until stopped; returns when what was under way is answered.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    certificate: Arc<dyn ResolvesServerCert>,
    stop: Stop,
    limits: Limits,
) -> std::io::Result<()> {
    let mut config = rustls::ServerConfig::builder().with_no_client_auth().with_cert_resolver(certificate);
    // The API server speaks HTTP/1.1 to webhooks, so nothing else is offered.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let handle: Handle<SocketAddr> = Handle::new();
    tokio::spawn(drain(handle.clone(), stop));
    let acceptor = RustlsAcceptor::new(RustlsConfig::from_config(Arc::new(config)))
        .handshake_timeout(limits.handshake)
        .acceptor(Places::new(limits.connections));
    let mut server = axum_server::from_tcp(listener)?
        .acceptor(acceptor)
        .handle(handle)
        .http1_only()
        .first_request_timeout(limits.first_request);
    server.http_builder().http1().timer(TokioTimer::new()).header_read_timeout(limits.idle);
    server.serve(router.into_make_service()).await
}

async fn drain(handle: Handle<SocketAddr>, stop: Stop) {
    stop.signal.cancelled().await;
    tracing::info!("stopping: still accepting while endpoints are updated");
    tokio::time::sleep(stop.drain_delay).await;
    handle.graceful_shutdown(Some(DRAIN_LIMIT));
}
