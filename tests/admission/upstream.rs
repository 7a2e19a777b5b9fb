//! What stands between the webhook and the registry, and misbehaves.
//!
//! Requests go in, and those that a fault concerns are mistreated; all others reach the embedded registry and are
//! answered by it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use isvc_registrar::registry::embedded::{Database, Faults, Registry};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower_service::Service;

/// More than any answer of a registry.
pub(crate) const HUGE_BYTES: usize = 50 << 20;

/// How often a byte of a body that trickles comes.
const TRICKLE: Duration = Duration::from_millis(20);

/// What is done to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection is reset.
    Reset,
    /// The connection of the first such request is reset before anything is done; the others are well.
    ResetOnce,
    /// Two such requests reach the registry together: the first waits for the second.
    Together,
    /// The connection is reset, if it has carried a request before.
    ResetWhenUsedBefore,
    /// No answer comes.
    Silence,
    /// The answer ends after its headers, and the connection stays open.
    HeadersAlone,
    /// The body comes a byte at a time.
    Trickle,
    /// The connection is closed in the middle of the body.
    CutShort,
    /// Half of the JSON comes, as if it were all.
    HalfJson,
    /// An empty list in JSON, with more spaces than any answer is long.
    Huge,
    /// Another status, in words that are not the registry's.
    Page(u16, &'static str, &'static str),
    /// The registry's database goes down before the request reaches it.
    DatabaseDown,
    /// The request is carried out, but its answer is lost, and then the database goes down.
    DatabaseDownAfterwards,
    /// Every other request reaches a replica that is too old for v1.
    OldReplica,
}

/// An internal error.
pub(crate) const ERROR_500: Fault =
    Fault::Page(500, "application/json", r#"{"code": "", "message": "panic"}"#);
/// A registry that has not found its database yet.
pub(crate) const BOOTING_503: Fault = Fault::Page(503, "text/plain", "Service not ready");
/// A token that is refused.
pub(crate) const UNAUTHORIZED_401: Fault = Fault::Page(401, "text/plain", "Jwt is missing");
/// A policy of a mesh.
pub(crate) const FORBIDDEN_403: Fault =
    Fault::Page(403, "text/html", "<html><body>RBAC: denied</body></html>");
/// A limit of a proxy.
pub(crate) const TOO_MANY_429: Fault = Fault::Page(429, "text/plain", "slow down");
/// A wrong path.
pub(crate) const NOT_FOUND_404: Fault = Fault::Page(404, "text/html", "<html><body>Not Found</body></html>");
/// The API server, or anything else whose 404 is JSON of its own.
pub(crate) const FOREIGN_404: Fault =
    Fault::Page(404, "application/json", r#"{"kind": "Status", "message": "not found", "code": 404}"#);
/// The login page of a single sign-on.
pub(crate) const LOGIN_200: Fault = Fault::Page(200, "text/html", "<html><body>Log in</body></html>");
/// JSON of another service.
pub(crate) const FOREIGN_200: Fault = Fault::Page(200, "application/json", r#"{"status": "ok"}"#);
/// A proxy that sends everybody to its login page.
pub(crate) const REDIRECT_302: Fault = Fault::Page(302, "text/html", "");

/// A server that misbehaves while a fault is set.
pub(crate) struct Upstream {
    pub(crate) url: String,
    state: Arc<State>,
    _running: DropGuard,
}

struct State {
    registry: Registry,
    fault: Mutex<Option<(Fault, &'static str)>>,
    requests: Mutex<Vec<String>>,
    ignores_filters: AtomicBool,
    together: Barrier,
    /// Bytes of huge answers that were taken from this side.
    huge: AtomicUsize,
}

/// A request, as far as it is read here.
struct Request {
    /// Method and target.
    line: String,
    body: Vec<u8>,
}

impl Upstream {
    /// Stands in front of a registry and does what it should.
    pub(crate) async fn start(registry: &Registry) -> Self {
        Self::start_at(registry, ([127, 0, 0, 1], 0).into()).await
    }

    /// The same at a certain address.
    pub(crate) async fn start_at(registry: &Registry, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(State {
            registry: registry.clone(),
            fault: Mutex::default(),
            requests: Mutex::default(),
            ignores_filters: AtomicBool::default(),
            together: Barrier::new(2),
            huge: AtomicUsize::default(),
        });
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(accept(listener, Arc::clone(&state))));
        Self { url, state, _running: stop.drop_guard() }
    }

    /// From now on, mistreats requests that have this text in their method and target: `POST`, `/registered_models`.
    pub(crate) fn misbehave(&self, fault: Fault, only: &'static str) {
        *lock(&self.state.fault) = Some((fault, only));
    }

    /// From now on, takes no notice of `filterQuery`.
    pub(crate) fn ignore_filters(&self) {
        self.state.ignores_filters.store(true, Ordering::SeqCst);
    }

    /// From now on, does what it should.
    pub(crate) fn behave(&self) {
        *lock(&self.state.fault) = None;
    }

    /// Method and target of each request, the first one first.
    pub(crate) fn requests(&self) -> Vec<String> {
        lock(&self.state.requests).clone()
    }

    /// How many bytes of huge answers the other side has let come.
    pub(crate) fn huge_bytes_sent(&self) -> usize {
        self.state.huge.load(Ordering::SeqCst)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        // An error here is a connection that ended, as both sides like to do in these tests.
        tokio::spawn(serve(stream, Arc::clone(&state)));
    }
}

async fn serve(stream: TcpStream, state: Arc<State>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut used_before = false;
    while let Some(request) = read(&mut stream).await? {
        let number = {
            let mut requests = lock(&state.requests);
            requests.push(request.line.clone());
            requests.len()
        };
        let fault = *lock(&state.fault);
        let fault = fault.filter(|(_, only)| request.line.contains(only)).map(|(fault, _)| fault);
        let out = stream.get_mut();
        match fault {
            Some(Fault::Reset) => return reset(out),
            Some(Fault::ResetOnce) => {
                *lock(&state.fault) = None;
                return reset(out);
            }
            Some(Fault::ResetWhenUsedBefore) if used_before => return reset(out),
            Some(Fault::Silence) => return std::future::pending().await,
            Some(Fault::HeadersAlone) => {
                write_head(out, 200, "application/json", 100).await?;
                return std::future::pending().await;
            }
            Some(Fault::Trickle) => return trickle(out).await,
            Some(Fault::CutShort) => {
                write_head(out, 200, "application/json", 100).await?;
                return out.write_all(br#"{"items": ["#).await;
            }
            Some(Fault::HalfJson) => write(out, 200, "application/json", br#"{"items": ["#).await?,
            Some(Fault::Huge) => return huge(out, &state.huge).await,
            Some(Fault::Page(status, content_type, body)) => {
                write(out, status, content_type, body.as_bytes()).await?;
            }
            Some(Fault::OldReplica) if number.is_multiple_of(2) && request.line.contains("/v1/") => {
                write(out, 404, "text/plain", b"404 page not found\n").await?;
            }
            fault => {
                if fault == Some(Fault::Together) {
                    state.together.wait().await;
                }
                if fault == Some(Fault::DatabaseDown) {
                    state.registry.set_faults(Faults { database: Database::Down, ..Faults::default() });
                }
                let (status, body) = forward(&state, request).await;
                if fault == Some(Fault::DatabaseDownAfterwards) {
                    state.registry.set_faults(Faults { database: Database::Down, ..Faults::default() });
                    return reset(out);
                }
                write(out, status, "application/json", &body).await?;
            }
        }
        used_before = true;
    }
    Ok(())
}

/// The next request; none when the client has closed the connection.
async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let mut first = String::new();
    if stream.read_line(&mut first).await? == 0 {
        return Ok(None);
    }
    let mut length = 0;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await?;
        let Some((name, value)) = header.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let line = first.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    Ok(Some(Request { line, body }))
}

/// What the registry itself answers.
async fn forward(state: &State, request: Request) -> (u16, Vec<u8>) {
    let (method, target) = request.line.split_once(' ').expect("a method and a target");
    let ignored = state.ignores_filters.load(Ordering::SeqCst).then_some("ignored");
    let request = http::Request::builder()
        .method(method)
        .uri(target.replace("filterQuery", ignored.unwrap_or("filterQuery")))
        .header("content-type", "application/json")
        .body(axum::body::Body::from(request.body))
        .expect("what came as a request is one");
    let Ok(response) = state.registry.router().call(request).await;
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("an answer from memory");
    (status, body.into())
}

async fn write_head(out: &mut TcpStream, status: u16, content_type: &str, length: usize) -> io::Result<()> {
    let location = if status == 302 { "location: /login\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\n{location}content-length: {length}\r\n\r\n"
    );
    out.write_all(head.as_bytes()).await
}

async fn write(out: &mut TcpStream, status: u16, content_type: &str, body: &[u8]) -> io::Result<()> {
    write_head(out, status, content_type, body.len()).await?;
    out.write_all(body).await
}

fn reset(stream: &TcpStream) -> io::Result<()> {
    stream.set_zero_linger()
}

/// An empty list whose spaces come one at a time.
async fn trickle(out: &mut TcpStream) -> io::Result<()> {
    write_head(out, 200, "application/json", HUGE_BYTES).await?;
    out.write_all(br#"{"items": []"#).await?;
    loop {
        tokio::time::sleep(TRICKLE).await;
        out.write_all(b" ").await?;
    }
}

async fn huge(out: &mut TcpStream, sent: &AtomicUsize) -> io::Result<()> {
    const JSON: &[u8] = br#"{"items": []}"#;
    write_head(out, 200, "application/json", JSON.len() + HUGE_BYTES).await?;
    out.write_all(JSON).await?;
    let spaces = vec![b' '; 1 << 16];
    for _ in 0..HUGE_BYTES / spaces.len() {
        out.write_all(&spaces).await?;
        sent.fetch_add(spaces.len(), Ordering::SeqCst);
    }
    Ok(())
}
