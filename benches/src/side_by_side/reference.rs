//! The bare handler: the same listener and the same TLS as the webhook's, and behind it a handler that reads the body
//! and answers a constant, on a thread for each processor. Nothing in this stack can answer more reviews a second.
//!
//! The same with a check that the body is JSON shows what is left when the first thing that any webhook has to do is done.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::post;
use isvc_registrar::admission::PATH;
use isvc_registrar::certs::{CertificateResolver, read_pair};
use isvc_registrar::server::{Limits, tls};
use serde::de::IgnoredAny;
use tokio_util::sync::CancellationToken;

/// What it answers.
const ANSWER: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"5f3c6c0e-7a55-4f0a-9d52-6d1c8a3c6a11","allowed":true}}"#;

/// As large as the webhook takes.
const LARGEST_BODY_BYTES: usize = 8 << 20;

/// Where it listens, and with which certificate.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReferenceArgs {
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long)]
    tls_cert_file: PathBuf,
    #[arg(long)]
    tls_key_file: PathBuf,
    /// Make sure that the body is JSON, and look at nothing of it
    #[arg(long)]
    checks_json: bool,
}

/// Serves until it is ended.
pub(crate) async fn run(args: ReferenceArgs) -> anyhow::Result<()> {
    let resolver = Arc::new(CertificateResolver::default());
    resolver.serve(read_pair(&std::fs::read(args.tls_cert_file)?, &std::fs::read(args.tls_key_file)?)?);
    let answer = || ([(header::CONTENT_TYPE, "application/json")], ANSWER).into_response();
    let route = if args.checks_json {
        post(move |body: Bytes| async move {
            match serde_json::from_slice::<IgnoredAny>(&body) {
                Ok(_) => answer(),
                Err(_) => StatusCode::BAD_REQUEST.into_response(),
            }
        })
    } else {
        post(move |body: Bytes| async move {
            drop(body);
            answer()
        })
    };
    let router = Router::new().route(PATH, route).layer(DefaultBodyLimit::max(LARGEST_BODY_BYTES));
    let stop = tls::Stop { signal: CancellationToken::new(), drain_delay: Duration::ZERO };
    tls::serve(TcpListener::bind(args.listen)?, router, resolver, stop, Limits::default()).await?;
    Ok(())
}
