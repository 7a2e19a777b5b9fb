//! What stands in front of a registry in real installations, and an address that nobody may connect to.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures::TryFutureExt;
use http::{StatusCode, header};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// More than any request to a registry has.
const LARGEST_BODY: usize = 1 << 20;

/// A proxy that lets through who shows the token, and remembers every request.
pub(crate) struct Gate {
    url: String,
    state: Arc<GateState>,
    _serving: AbortOnDropHandle<std::io::Result<()>>,
}

struct GateState {
    registry: String,
    token: String,
    client: reqwest::Client,
    seen: Mutex<Vec<Seen>>,
}

/// A request that came to a gate.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Method, path, query and body.
    pub(crate) request: String,
    /// The header `authorization`.
    pub(crate) authorization: String,
}

impl Gate {
    /// A gate in front of the registry at `registry`.
    pub(crate) async fn start(registry: &str, token: &str) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let state = Arc::new(GateState {
            registry: registry.to_owned(),
            token: format!("Bearer {token}"),
            client: reqwest::Client::builder().no_proxy().build()?,
            seen: Mutex::default(),
        });
        let router = Router::new().fallback(pass).with_state(state.clone());
        let serving = tokio::spawn(axum::serve(listener, router).into_future());
        Ok(Self { url, state, _serving: AbortOnDropHandle::new(serving) })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The requests since the last call.
    pub(crate) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn pass(State(gate): State<Arc<GateState>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, LARGEST_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let authorization = parts.headers.get(header::AUTHORIZATION);
    let authorization =
        String::from_utf8_lossy(authorization.map_or(b"", |value| value.as_bytes())).into_owned();
    let allowed = authorization == gate.token;
    let request = format!("{} {} {}", parts.method, parts.uri, String::from_utf8_lossy(&body));
    gate.seen.lock().unwrap_or_else(PoisonError::into_inner).push(Seen { request, authorization });
    if !allowed {
        return (StatusCode::UNAUTHORIZED, "show your token").into_response();
    }
    let onward = gate.client.request(parts.method, format!("{}{}", gate.registry, parts.uri));
    let answer = onward.header(header::CONTENT_TYPE, "application/json").body(body).send();
    let answer = answer.and_then(async |answer| {
        let (status, kind) = (answer.status(), answer.headers().get(header::CONTENT_TYPE).cloned());
        Ok((status, kind, answer.bytes().await?))
    });
    match answer.await {
        Ok((status, Some(kind), body)) => (status, [(header::CONTENT_TYPE, kind)], body).into_response(),
        Ok((status, None, body)) => (status, body).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, Bytes::from(error.to_string())).into_response(),
    }
}

/// Counts the connections to an address that no administrator has configured.
pub(crate) struct Trap {
    url: String,
    connections: Arc<AtomicUsize>,
    _listening: AbortOnDropHandle<()>,
}

impl Trap {
    pub(crate) async fn set() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let listening = tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Ok(Self { url, connections, _listening: AbortOnDropHandle::new(listening) })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}
