//! HTTP: requests go in, the operations answer them, and the switches for tests come between.
//!
//! What stays true: a path that is not the API's own answers 404 in plain text, never in the registry's JSON; and
//! a refusal by the registry itself is always JSON with `code` and `message`.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};

use super::Registry;
use super::faults::{Database, Faults};
use super::journal::Exchange;
use super::operations::{self, refusal_json};
use super::refusal::Refusal;

/// The routes of the registry, and those of its switches.
pub(super) fn router(registry: Registry) -> Router {
    let registry_routes = Router::new()
        .route("/readyz/health", get(health))
        .route("/readyz/isDirty", get(health))
        .route("/api/model_registry/{version}/{*path}", any(api))
        .fallback(|| async { Refusal::NoSuchPath })
        .layer(middleware::from_fn_with_state(registry.clone(), disturb));
    Router::new()
        .route("/faults", get(show_faults).put(set_faults))
        .route("/requests", get(show_requests).delete(clear_requests))
        .fallback_service(registry_routes.with_state(registry.clone()))
        .with_state(registry)
}

async fn api(
    State(registry): State<Registry>,
    Path((version, path)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    method: Method,
    body: Bytes,
) -> Result<Response, Refusal> {
    if !registry.inner.switches.api().speaks(&version) {
        return Err(Refusal::NoSuchPath);
    }
    let request = operations::Request {
        method: &method,
        path: &path,
        query: query.as_deref().unwrap_or_default(),
        body: &body,
    };
    let answer = operations::answer(registry.backend(), request)?;
    Ok(json_response(answer.status, answer.json))
}

async fn health(State(registry): State<Registry>) -> Response {
    match registry.inner.switches.database() {
        Database::Up => "OK".into_response(),
        Database::Down | Database::Booting => {
            (StatusCode::SERVICE_UNAVAILABLE, "the database cannot be reached").into_response()
        }
    }
}

/// Lets the switches have their way with a request, and logs it.
async fn disturb(State(registry): State<Registry>, request: Request<Body>, next: Next) -> Response {
    let method = request.method().to_string();
    let target = request.uri().to_string();
    let fate = registry.inner.switches.judge(&method, &target);
    let response = match fate.refusal {
        Some((status, message)) => refuse(status, message),
        None if registry.inner.switches.database() == Database::Booting => {
            (StatusCode::SERVICE_UNAVAILABLE, "the database is not connected yet").into_response()
        }
        None => next.run(request).await,
    };
    registry.inner.journal.record(Exchange { method, target, status: response.status().as_u16() });
    if let Some(delay) = fate.delay {
        tokio::time::sleep(delay).await;
    }
    if fate.drop {
        // A body that fails before its first byte makes the server close the connection with nothing sent.
        let lost = futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("answer dropped")) });
        return Response::new(Body::from_stream(lost));
    }
    response
}

/// A refusal by switch. A status that does not exist is the tester's mistake, and told as such.
fn refuse(status: u16, message: Option<String>) -> Response {
    let Ok(status) = StatusCode::from_u16(status) else {
        return Refusal::Internal(format!("faults: {status} is no status")).into_response();
    };
    let reason = status.canonical_reason().unwrap_or("refused");
    match message {
        Some(message) => {
            let body = serde_json::json!({"code": reason, "message": message});
            json_response(status, body.to_string().into_bytes())
        }
        None => (status, reason).into_response(),
    }
}

async fn show_faults(State(registry): State<Registry>) -> Response {
    to_json(&registry.faults())
}

async fn set_faults(State(registry): State<Registry>, body: Bytes) -> Result<Response, Refusal> {
    let faults: Faults =
        serde_json::from_slice(&body).map_err(|error| Refusal::BadRequest(format!("faults: {error}")))?;
    registry.set_faults(faults.clone());
    Ok(to_json(&faults))
}

async fn show_requests(State(registry): State<Registry>) -> Response {
    to_json(&registry.requests())
}

async fn clear_requests(State(registry): State<Registry>) -> StatusCode {
    registry.clear_requests();
    StatusCode::NO_CONTENT
}

fn to_json<T: serde::Serialize>(value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(json) => json_response(StatusCode::OK, json),
        Err(error) => Refusal::Internal(error.to_string()).into_response(),
    }
}

fn json_response(status: StatusCode, json: Vec<u8>) -> Response {
    let mut response = (status, json).into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=UTF-8"));
    response
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::NoSuchPath => (self.status(), format!("{self}\n")).into_response(),
            Self::MethodNotAllowed => self.status().into_response(),
            refusal => json_response(refusal.status(), refusal_json(&refusal)),
        }
    }
}
