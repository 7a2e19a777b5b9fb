//! A proxy in front of a registry that lets nobody in without the right bearer token, as meshes and kube-rbac-proxy do.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// Larger than anything that is sent here.
const LARGEST_BODY: usize = 1 << 20;

pub(crate) struct Gate {
    url: String,
    keeper: Arc<Keeper>,
    _task: AbortOnDropHandle<()>,
}

struct Keeper {
    registry: String,
    client: reqwest::Client,
    token: Mutex<String>,
}

impl Gate {
    /// Lets those with this token through to the registry.
    pub(crate) async fn open(registry: &str, token: &str) -> Result<Self> {
        let keeper = Arc::new(Keeper {
            registry: registry.to_owned(),
            client: reqwest::Client::builder().no_proxy().build()?,
            token: Mutex::new(token.to_owned()),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let router = axum::Router::new().fallback(pass).with_state(keeper.clone());
        let task = tokio::spawn(async move {
            // It ends with the gate.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, keeper, _task: AbortOnDropHandle::new(task) })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// From now on this token counts, and the one before is refused.
    pub(crate) fn rotate(&self, token: &str) {
        let mut known = self.keeper.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.clone_into(&mut known);
    }
}

async fn pass(State(keeper): State<Arc<Keeper>>, request: Request) -> Response {
    let wanted = format!("Bearer {}", keeper.token.lock().unwrap_or_else(PoisonError::into_inner));
    if request.headers().get("authorization").is_none_or(|given| given != wanted.as_str()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    match keeper.forward(request).await {
        Ok(response) => response,
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

impl Keeper {
    async fn forward(&self, request: Request) -> Result<Response> {
        let (parts, body) = request.into_parts();
        let url = format!("{}{}", self.registry, parts.uri);
        let body = to_bytes(body, LARGEST_BODY).await?;
        let forwarded =
            self.client.request(parts.method, url).header("content-type", "application/json").body(body);
        let answer = forwarded.send().await?;
        let mut response = Response::builder().status(answer.status());
        for name in ["content-type", "date"] {
            if let Some(value) = answer.headers().get(name) {
                response = response.header(name, value);
            }
        }
        Ok(response.body(Body::from(answer.bytes().await?))?)
    }
}
