//! The webhook's listener.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::{Router, middleware};
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
    let leaving = Arc::new(AtomicBool::new(false));
    tokio::spawn(drain(handle.clone(), stop, Arc::clone(&leaving)));
    let router = router.layer(middleware::map_response_with_state(leaving, let_go));
    let acceptor = RustlsAcceptor::new(RustlsConfig::from_config(Arc::new(config)))
        .handshake_timeout(limits.handshake)
        .acceptor(Places::new(&limits));
    let server = axum_server::from_tcp(listener)?.acceptor(acceptor).handle(handle);
    limited(server, &limits).serve(router.into_make_service()).await
}

/// Asks whoever is answered while this endpoint goes to use another connection from then on. In HTTP/1.1 a request that
/// comes at the moment an idle connection is closed is lost, and a client may not send a POST again: so no connection
/// that is in use should be left for that moment.
async fn let_go(State(leaving): State<Arc<AtomicBool>>, mut answer: Response) -> Response {
    if leaving.load(Ordering::Relaxed) {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

async fn drain(handle: Handle<SocketAddr>, stop: Stop, leaving: Arc<AtomicBool>) {
    stop.signal.cancelled().await;
    leaving.store(true, Ordering::Relaxed);
    tracing::info!("stopping: still accepting while endpoints are updated");
    tokio::time::sleep(stop.drain_delay).await;
    handle.graceful_shutdown(Some(DRAIN_LIMIT));
}

#[cfg(test)]
mod tests {
    use axum::routing::get;

    use super::*;
    use crate::certs::issue::Authority;
    use crate::certs::{CertificateResolver, read_pair};

    /// Longer than the test takes: what is asked of clients is asked before connections are closed.
    const DRAIN_DELAY: Duration = Duration::from_mins(10);

    #[tokio::test]
    async fn clients_are_asked_to_let_go_of_their_connections_while_the_endpoint_goes() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let authority = Authority::for_development().unwrap();
        let leaf = authority.issue(&["127.0.0.1".to_owned()]).unwrap();
        let resolver = Arc::new(CertificateResolver::default());
        resolver.serve(read_pair(leaf.certificate.as_bytes(), leaf.key.as_bytes()).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let signal = CancellationToken::new();
        let stop = Stop { signal: signal.clone(), drain_delay: DRAIN_DELAY };
        let router = Router::new().route("/", get(async || "an answer"));
        tokio::spawn(serve(listener, router, resolver, stop, Limits::default()));
        let root = reqwest::Certificate::from_pem(authority.certificate.as_bytes()).unwrap();
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([root]).build().unwrap();
        let ask = async || {
            let answer = client.get(&url).send().await.unwrap();
            answer.headers().get(header::CONNECTION).cloned()
        };

        assert_eq!(ask().await, None, "a connection is kept as long as the endpoint stays");
        signal.cancel();
        while ask().await.as_ref() != Some(&HeaderValue::from_static("close")) {
            tokio::task::yield_now().await;
        }
    }
}
