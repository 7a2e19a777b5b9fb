//! A webhook that allows everything and writes down what it was asked.
//!
//! In: reviews from the API server. Out: those reviews, by the path they came to. What stays true: a review is recorded
//! before it is answered, so once a request to the API server has returned, all of its reviews are here.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use axum_server::tls_rustls::RustlsConfig;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::authority::Authority;

/// A review as it came.
#[derive(Debug, Clone)]
pub struct Review {
    /// The part of the URL's path that tells the webhooks of a configuration apart.
    pub webhook: String,
    /// Its `request`.
    pub request: Value,
}

/// A running recorder; it ends when it is dropped.
#[derive(Debug)]
pub struct Recorder {
    reviews: Arc<Mutex<Vec<Review>>>,
    url: String,
    authority: String,
    _serving: AbortOnDropHandle<std::io::Result<()>>,
}

impl Recorder {
    /// Starts one on the runtime of the caller.
    pub async fn start() -> Result<Self> {
        let authority = Authority::new("recorder")?;
        let address = Ipv4Addr::LOCALHOST;
        let server = authority.issue(&[&address.to_string()])?;
        let tls = RustlsConfig::from_pem(server.certificate.into_bytes(), server.key.into_bytes()).await?;
        let listener = TcpListener::bind((address, 0))?;
        listener.set_nonblocking(true)?;
        let url = format!("https://{}", listener.local_addr()?);
        let reviews = Arc::new(Mutex::new(Vec::new()));
        let router = Router::new().route("/{webhook}", post(record)).with_state(reviews.clone());
        let server = axum_server::from_tcp_rustls(listener, tls)?.serve(router.into_make_service());
        let serving = AbortOnDropHandle::new(tokio::spawn(server));
        Ok(Self { reviews, url, authority: authority.certificate(), _serving: serving })
    }

    /// The URL for a webhook's `clientConfig`.
    #[must_use]
    pub fn url(&self, webhook: &str) -> String {
        format!("{}/{webhook}", self.url)
    }

    /// The authority for its `caBundle`, in PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The reviews since the last call.
    pub fn take(&self) -> Vec<Review> {
        std::mem::take(&mut self.reviews.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn record(
    State(reviews): State<Arc<Mutex<Vec<Review>>>>,
    Path(webhook): Path<String>,
    Json(mut review): Json<Value>,
) -> Json<Value> {
    let request = review["request"].take();
    let uid = request["uid"].clone();
    reviews.lock().unwrap_or_else(PoisonError::into_inner).push(Review { webhook, request });
    Json(json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": true},
    }))
}
