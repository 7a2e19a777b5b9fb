//! `/healthz`, `/readyz` and `/metrics`.
//!
//! A part of the program announces itself and says when it is ready. `/readyz` names the parts that are not; what
//! it says depends on no registry, since a registry that is away must not take the webhook away with it.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use super::connections::Places;
use super::limits::{Limits, limited};
use crate::metrics::Metrics;

/// The state of all parts; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Health {
    parts: Arc<Mutex<Parts>>,
}

/// Names, and what each is not ready for.
type Parts = Vec<(&'static str, Option<String>)>;

/// One part, held by whoever knows whether it is ready.
#[derive(Debug, Clone)]
pub struct Part {
    health: Health,
    name: &'static str,
}

impl Health {
    /// Adds a part that is not ready yet.
    #[must_use]
    pub fn part(&self, name: &'static str) -> Part {
        self.lock().push((name, Some("not started".to_owned())));
        Part { health: self.clone(), name }
    }

    /// The parts that are not ready, and why; empty when all are.
    #[must_use]
    pub fn not_ready(&self) -> Vec<String> {
        let parts = self.lock();
        parts
            .iter()
            .filter_map(|(name, reason)| reason.as_ref().map(|reason| format!("{name}: {reason}")))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        // Each change is one assignment, so a panic elsewhere leaves nothing half done.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    /// It is ready.
    pub fn ready(&self) {
        self.set(None);
    }

    /// It is not, for this reason.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Some(reason.into()));
    }

    fn set(&self, reason: Option<String>) {
        if let Some(part) = self.health.lock().iter_mut().find(|(name, _)| *name == self.name) {
            part.1 = reason;
        }
    }
}

/// The routes of the health port.
pub fn router(health: Health, metrics: Metrics) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readiness).with_state(health))
        .route("/metrics", get(expose).with_state(metrics))
}

async fn readiness(State(health): State<Health>) -> (StatusCode, String) {
    let not_ready = health.not_ready();
    if not_ready.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("not ready\n{}\n", not_ready.join("\n")))
    }
}

async fn expose(State(metrics): State<Metrics>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, OPEN_METRICS)], metrics.text())
}

/// Serves the health port for as long as the program runs: how it is, is told until the very end.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits) -> std::io::Result<()> {
    let server = axum_server::from_tcp(listener)?.acceptor(Places::new(&limits));
    limited(server, &limits).serve(router.into_make_service()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ready_is_named() {
        let health = Health::default();
        let certificate = health.part("certificate");
        let listener = health.part("listener");
        listener.ready();
        certificate.not_ready("expired");
        assert_eq!(health.not_ready(), ["certificate: expired"]);
        certificate.ready();
        assert!(health.not_ready().is_empty());
    }
}
