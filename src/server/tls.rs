//! The webhook's listener.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use rustls::server::ResolvesServerCert;
use tokio_util::sync::CancellationToken;

use super::connections::Places;
use super::limits::{Limits, limited};

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
        .acceptor(Places::new(&limits));
    let server = axum_server::from_tcp(listener)?.acceptor(acceptor).handle(handle);
    limited(server, &limits).serve(router.into_make_service()).await
}

async fn drain(handle: Handle<SocketAddr>, stop: Stop) {
    stop.signal.cancelled().await;
    tracing::info!("stopping: still accepting while endpoints are updated");
    tokio::time::sleep(stop.drain_delay).await;
    handle.graceful_shutdown(Some(DRAIN_LIMIT));
}
