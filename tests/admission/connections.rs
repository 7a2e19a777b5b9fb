//! Slow, idle and many clients: each holds a bounded number of places for a bounded time.
//!
//! A connection that the server should end is waited for; without the limit it would never end, and the test with
//! it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use isvc_registrar::metrics::Metrics;
use isvc_registrar::server::{Health, Limits, health};
use reqwest::StatusCode;
use rstest::rstest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::reviews::Review;
use crate::scene::Scene;
use crate::webhook::{Setup, TestWebhook};

/// For a limit that is to be reached.
const SHORT: Duration = Duration::from_millis(50);

/// For one that runs while a request is on its way, too.
const BETWEEN_REQUESTS: Duration = Duration::from_secs(1);

/// For one that is not.
const LONG: Duration = Duration::from_mins(10);

/// The server has ended a connection by then, or never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// Limits of which none is ever reached.
const GENEROUS: Limits =
    Limits { connections: 1024, handshake: LONG, first_request: LONG, idle: LONG, unread: LONG };

/// The largest body of a review.
const LARGEST: usize = 8 << 20;

/// A body that needs more room than its own, and than the largest ones leave.
const LARGER_THAN_ORDINARY: usize = 256 << 10;

async fn webhook(limits: Limits) -> Scene {
    Scene::of("", Setup { limits, ..Setup::default() }).await
}

/// A health port that is served as long as the test runs.
fn health_port(limits: Limits) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(health::serve(listener, health::router(Health::default(), Metrics::default()), limits));
    address
}

/// Connects with a small buffer for what is received, so that soon no more is taken in when nothing is read.
async fn connect_to(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a buffer");
    socket.connect(address).await.expect("the kernel takes the connection")
}

async fn connect(webhook: &TestWebhook) -> TcpStream {
    connect_to(webhook.address).await
}

async fn handshake(webhook: &TestWebhook) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(webhook.authority.as_bytes()).expect("a CA");
    roots.add(root).expect("a CA that can be trusted");
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, connect(webhook).await).await.expect("a handshake")
}

/// Waits until the server has ended a connection, in whatever way; gives what it said before.
async fn ended(mut stream: impl AsyncRead + Unpin) -> String {
    let mut said = Vec::new();
    // An error is an end too.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await.expect("the server ends it");
    String::from_utf8_lossy(&said).into_owned()
}

/// The headers of a review whose body has so many bytes.
fn headers(length: usize) -> String {
    format!(
        "POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// A review.
fn request() -> String {
    let body = Review::create("model=7").body().to_string();
    headers(body.len()) + &body
}

/// Sends a request again and again and reads nothing, until the server has ended the connection.
async fn send_without_reading(mut stream: impl AsyncWrite + Unpin, path: &str) {
    let requests = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").repeat(1000);
    let sending = async { while stream.write_all(requests.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, sending).await.expect("the server ends it");
}

#[rstest]
#[case::silent(b"")]
#[case::half_a_greeting(b"\x16\x03\x01\x02\x00\x01\x00")]
#[case::plain_http(b"GET / HTTP/1.1\r\n\r\n")]
#[tokio::test]
async fn who_does_not_finish_the_handshake_is_cut_off(#[case] bytes: &[u8]) {
    let scene = webhook(Limits { handshake: SHORT, ..GENEROUS }).await;
    let mut stream = connect(&scene.webhook).await;
    stream.write_all(bytes).await.expect("a few bytes");
    ended(stream).await;
}

#[rstest]
#[case::silent("")]
#[case::half_the_headers("POST /mutate HTTP/1.1\r\nhost: x\r\n")]
#[tokio::test]
async fn who_does_not_send_the_first_request_is_cut_off(#[case] bytes: &str) {
    let scene = webhook(Limits { first_request: SHORT, ..GENEROUS }).await;
    let mut stream = handshake(&scene.webhook).await;
    stream.write_all(bytes.as_bytes()).await.expect("a few bytes");
    assert_eq!(ended(stream).await, "");
}

#[rstest]
#[case::silent("")]
#[case::half_the_headers("POST /mutate HTTP/1.1\r\nhost: x\r\n")]
#[tokio::test]
async fn who_stays_after_a_request_is_cut_off(#[case] bytes: &str) {
    let scene = webhook(Limits { idle: BETWEEN_REQUESTS, ..GENEROUS }).await;
    let mut stream = handshake(&scene.webhook).await;
    stream.write_all(request().as_bytes()).await.expect("a request");
    stream.write_all(bytes.as_bytes()).await.expect("a few bytes");
    let said = ended(stream).await;
    assert!(said.starts_with("HTTP/1.1 200 OK"), "the request itself is answered: {said}");
}

#[tokio::test]
async fn idle_connections_take_no_place_from_those_that_are_open() {
    let scene = webhook(Limits { connections: 3, ..GENEROUS }).await;
    let review = Review::create("model=7");
    let first = scene.webhook.review(&review).await;
    assert!(first.label.is_some(), "{}", first.said());
    let mut idle = [connect(&scene.webhook).await, connect(&scene.webhook).await];
    for _ in 0..10 {
        ended(connect(&scene.webhook).await).await;
    }
    let again = scene.webhook.review(&review).await;
    assert_eq!(again.label, first.label, "the API server's connection goes on: {}", again.said());

    idle[0].shutdown().await.expect("an end from this side");
    ended(&mut idle[0]).await;
    let mut next = handshake(&scene.webhook).await;
    next.write_all(request().as_bytes()).await.expect("a request");
    let mut status = [0; "HTTP/1.1 200 OK".len()];
    next.read_exact(&mut status).await.expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 200 OK", "a place that was given back is taken again");
}

#[tokio::test]
async fn who_reads_no_answers_is_cut_off() {
    let scene = webhook(Limits { unread: SHORT, ..GENEROUS }).await;
    send_without_reading(handshake(&scene.webhook).await, "/").await;
}

#[tokio::test]
async fn large_bodies_that_do_not_come_keep_no_ordinary_review_out() {
    let scene = webhook(GENEROUS).await;
    let almost_all = headers(LARGEST) + &" ".repeat(LARGEST - 1);
    let send = async || {
        let mut stream = handshake(&scene.webhook).await;
        // Those for which there is no room are told so in the middle.
        let _ = stream.write_all(almost_all.as_bytes()).await;
        stream
    };
    let is_full = async || {
        let url = format!("https://{}/mutate", scene.webhook.address);
        let request = scene.webhook.client.post(url).header("content-type", "application/json");
        let answer = request.body(" ".repeat(LARGER_THAN_ORDINARY)).send().await;
        // The answer can be lost when it comes before the whole body is sent, which it does when there is no room.
        answer.map_or(true, |answer| answer.status() == StatusCode::SERVICE_UNAVAILABLE)
    };
    let mut held = Vec::new();
    let fill = async {
        while !is_full().await {
            held.push(send().await);
        }
    };
    tokio::time::timeout(PATIENCE, fill).await.expect("the room for large bodies is bounded");

    let review = scene.webhook.review(&Review::create("model=7")).await;
    assert!(review.label.is_some(), "{}", review.said());
    drop(held);
}

#[rstest]
#[case::silent("")]
#[case::half_a_request("GET /metr")]
#[case::half_the_headers("GET /metrics HTTP/1.1\r\nhost: x\r\n")]
#[tokio::test]
async fn who_does_not_ask_for_health_is_cut_off(#[case] bytes: &str) {
    let mut stream = connect_to(health_port(Limits { first_request: SHORT, ..GENEROUS })).await;
    stream.write_all(bytes.as_bytes()).await.expect("a few bytes");
    assert_eq!(ended(stream).await, "");
}

#[tokio::test]
async fn who_stays_after_asking_for_health_is_cut_off() {
    let mut stream = connect_to(health_port(Limits { idle: BETWEEN_REQUESTS, ..GENEROUS })).await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /metr").await.expect("a few bytes");
    let said = ended(stream).await;
    assert!(said.starts_with("HTTP/1.1 200 OK"), "the request itself is answered: {said}");
}

#[tokio::test]
async fn who_reads_no_answers_about_health_is_cut_off() {
    let address = health_port(Limits { unread: SHORT, ..GENEROUS });
    send_without_reading(connect_to(address).await, "/metrics").await;
}

#[tokio::test]
async fn all_places_of_the_health_port_take_none_from_reviews() {
    let scene = webhook(GENEROUS).await;
    let limits = Limits { first_request: LONG, ..Limits::of_health() };
    let address = health_port(limits);
    let mut held = Vec::new();
    for _ in 0..limits.connections {
        let mut stream = connect_to(address).await;
        stream.write_all(b"GET /metr").await.expect("a few bytes");
        held.push(stream);
    }
    for _ in 0..10 {
        ended(connect_to(address).await).await;
    }
    let review = scene.webhook.review(&Review::create("model=7")).await;
    assert!(review.label.is_some(), "{}", review.said());
    drop(held);
}
