//! One call to the registry, from request to entity: version, credentials, time-out, size and verdict.
//!
//! Every call of the client goes through [`Transport::call`]. What stays true: a call ends within its time-out;
//! no redirect is followed; at most [`LARGEST_ANSWER_BYTES`] are read; a request that may have had an effect is
//! never sent twice from here: its caller looks at what there is first.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{Method, StatusCode, header};
use serde::de::DeserializeOwned;
use url::Url;

use super::breaker::{Breaker, Next};
use super::classify::{Fault, classify};
use super::credentials::{ClientError, Clients, Credentials, Ready, root_cause};
use super::{ApiChoice, ApiVersion, ClientSettings};
use crate::metrics::{CallOutcome, RegistryMetrics};
use crate::registry::{RegistryError, Unavailability};

/// Larger than any page this program asks for; a body beyond it comes from something else.
pub(super) const LARGEST_ANSWER_BYTES: usize = 16 << 20;

/// Connections kept open to one registry: as many as the parallel look-ups of some eight reviews need.
const IDLE_CONNECTIONS: usize = 32;

/// Shorter than the idle limits of common proxies (nginx: 75 s), so that it is this side that lets go first.
const IDLE_LIMIT: Duration = Duration::from_secs(50);

/// A call that its caller gave up after so long, or after half the time-out of a call where that is shorter, counts
/// as a time-out: the registry had its chance.
const ABANDONED_AFTER: Duration = Duration::from_secs(1);

/// How often a registry that has stopped answering is probed.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// A request, but for the version, the credentials and the host.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: Method,
    /// Path segments behind the API's base path, not yet encoded.
    pub(super) path: Vec<String>,
    /// Not yet encoded.
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) body: Option<Bytes>,
    pub(super) over: Connection,
}

/// Which connection a request goes over.
///
/// One that was kept saves the time to make one, but the other side may have closed it at the very moment it is used;
/// and then the others that were kept may be as dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// One that was kept, where there is one.
    Kept,
    /// A new one: for what has failed over a kept one.
    New,
}

impl Request {
    pub(super) fn get<const N: usize>(path: [&str; N]) -> Self {
        let path = path.map(String::from).into();
        Self { method: Method::GET, path, query: Vec::new(), body: None, over: Connection::Kept }
    }

    pub(super) fn query(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.query.push((key, value.into()));
        self
    }

    pub(super) fn send<const N: usize>(method: Method, path: [&str; N], body: Vec<u8>) -> Self {
        let path = path.map(String::from).into();
        Self { method, path, query: Vec::new(), body: Some(body.into()), over: Connection::Kept }
    }

    pub(super) fn over(self, connection: Connection) -> Self {
        Self { over: connection, ..self }
    }
}

/// An entity and when the registry gave it.
#[derive(Debug)]
pub(super) struct Answer<T> {
    pub(super) value: T,
    /// The `Date` header, in milliseconds since the epoch.
    pub(super) registry_time_ms: Option<i64>,
}

/// The way to one registry.
pub(super) struct Transport {
    base: Url,
    choice: ApiChoice,
    spoken: AtomicU8,
    credentials: Credentials,
    timeout: Duration,
    breaker: Breaker,
    metrics: RegistryMetrics,
}

impl Transport {
    pub(super) fn new(settings: ClientSettings) -> Self {
        let mut base = settings.url;
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let direct = is_cluster_local(&base);
        let resolved = settings.address.zip(base.host_str().map(String::from));
        let plain = direct && base.scheme() == "http";
        let build = move |ca: &[u8], idle_connections| {
            let mut builder = reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .pool_max_idle_per_host(idle_connections)
                .pool_idle_timeout(IDLE_LIMIT)
                .tcp_nodelay(true)
                .user_agent(concat!("isvc-registrar/", env!("CARGO_PKG_VERSION")));
            if direct {
                builder = builder.no_proxy();
            }
            if let Some((address, host)) = &resolved {
                builder = builder.resolve(host, *address);
            }
            if plain {
                // No roots to load: with neither redirect nor proxy this client never speaks TLS.
                builder = builder.tls_certs_only([]);
            } else if !ca.is_empty() {
                let authorities = reqwest::Certificate::from_pem_bundle(ca)?;
                if authorities.is_empty() {
                    return Err(ClientError::NoCertificate);
                }
                builder = builder.tls_certs_only(authorities);
            }
            Ok(builder.build()?)
        };
        let build =
            move |ca: &[u8]| Ok(Clients { keeping: build(ca, IDLE_CONNECTIONS)?, connecting: build(ca, 0)? });
        let version = match settings.api {
            ApiChoice::V1alpha3 => ApiVersion::V1alpha3,
            ApiChoice::Auto | ApiChoice::V1 => ApiVersion::V1,
        };
        Self {
            base,
            choice: settings.api,
            spoken: AtomicU8::new(version as u8),
            credentials: Credentials::new(settings.token_file, settings.ca_file, Box::new(build)),
            timeout: settings.timeout,
            breaker: Breaker::default(),
            metrics: settings.metrics,
        }
    }

    /// Makes one call.
    pub(super) async fn call<T: DeserializeOwned>(
        self: &Arc<Self>,
        request: Request,
    ) -> Result<Answer<T>, RegistryError> {
        let (method, started) = (request.method.clone(), Instant::now());
        let outcome = self.call_in_time(request).await;
        self.metrics.called(&method, call_outcome(outcome.as_ref().err()), started.elapsed());
        outcome
    }

    async fn call_in_time<T: DeserializeOwned>(
        self: &Arc<Self>,
        request: Request,
    ) -> Result<Answer<T>, RegistryError> {
        if self.breaker.is_open() {
            return Err(Unavailability::Suspended.into());
        }
        let mut watched = Watched { transport: self, started: Instant::now(), ended: false };
        // Boxed: an HTTP request is a large future, and a round makes several at once.
        let asked = Box::pin(self.in_a_version_it_speaks(request));
        let outcome = tokio::time::timeout(self.timeout, asked).await;
        watched.ended = true;
        let Ok(outcome) = outcome else {
            self.note_time_out();
            return Err(Unavailability::TimedOut { after: self.timeout }.into());
        };
        // A registry that refuses connections answers at once too: nobody waits for it.
        self.breaker.answered();
        outcome
    }

    /// Asks in the version known to be spoken, and in the other one when that is not served after all.
    ///
    /// The call itself finds out, so nothing is asked twice where the first guess is right: v1 until it is known
    /// otherwise. During a rolling upgrade both versions stand behind one address; then the older one is settled
    /// on, which both serve.
    async fn in_a_version_it_speaks<T: DeserializeOwned>(
        &self,
        request: Request,
    ) -> Result<Answer<T>, RegistryError> {
        let first = self.spoken();
        let status = match self.in_version(first, &request).await {
            Ok(answer) => return Ok(answer),
            Err(Fault::Error(error)) => return Err(error),
            Err(Fault::OtherVersion { status }) => status,
        };
        if self.choice != ApiChoice::Auto {
            return Err(Unavailability::NoApi { status }.into());
        }
        let second = first.other();
        match self.in_version(second, &request).await {
            Err(Fault::OtherVersion { status }) => Err(Unavailability::NoApi { status }.into()),
            Err(Fault::Error(RegistryError::Unavailable(error))) => Err(error.into()),
            outcome => {
                // It answered in its own JSON, if only that there is no such entity.
                self.spoken.store(second as u8, Ordering::Relaxed);
                tracing::info!(version = second.path(), "the registry speaks another API version");
                outcome.map_err(|fault| match fault {
                    Fault::Error(error) => error,
                    Fault::OtherVersion { status } => Unavailability::NoApi { status }.into(),
                })
            }
        }
    }

    async fn in_version<T: DeserializeOwned>(
        &self,
        version: ApiVersion,
        request: &Request,
    ) -> Result<Answer<T>, Fault> {
        let mut ready = self.credentials.current().await?;
        let is_read = request.method == Method::GET;
        // A read is sent again without harm. What a write did cannot be told from here.
        let mut response = match self.send(&ready, version, request, request.over).await {
            Err(Unavailability::Unreachable { .. }) if is_read => {
                self.send(&ready, version, request, Connection::New).await?
            }
            outcome => outcome?,
        };
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(renewed) = self.credentials.renewed(&ready).await
        {
            ready = renewed;
            response = self.send(&ready, version, request, request.over).await?;
        }
        let status = response.status().as_u16();
        let registry_time_ms = date(&response);
        let body = bounded_body(response).await?;
        classify(status, &body).map(|value| Answer { value, registry_time_ms })
    }

    async fn send(
        &self,
        ready: &Ready,
        version: ApiVersion,
        request: &Request,
        over: Connection,
    ) -> Result<reqwest::Response, Unavailability> {
        let client = match over {
            Connection::Kept => &ready.clients.keeping,
            Connection::New => &ready.clients.connecting,
        };
        let mut message = client.request(request.method.clone(), self.url(version, request));
        if let Some(authorization) = &ready.authorization {
            message = message.header(header::AUTHORIZATION, authorization.clone());
        }
        if let Some(body) = &request.body {
            message = message.header(header::CONTENT_TYPE, "application/json").body(body.clone());
        }
        message.send().await.map_err(|error| Unavailability::Unreachable { reason: root_cause(&error) })
    }

    fn url(&self, version: ApiVersion, request: &Request) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "model_registry", version.path()]).extend(&request.path);
        }
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        url
    }

    fn spoken(&self) -> ApiVersion {
        if self.spoken.load(Ordering::Relaxed) == ApiVersion::V1 as u8 {
            ApiVersion::V1
        } else {
            ApiVersion::V1alpha3
        }
    }

    fn note_time_out(self: &Arc<Self>) {
        if self.breaker.timed_out() == Next::Probe {
            tracing::warn!(registry = %self.base, "the registry has stopped answering, probing it");
            tokio::spawn(probe(Arc::downgrade(self)));
        }
    }
}

/// Notes the time-out of a call whose caller gave up first.
struct Watched<'a> {
    transport: &'a Arc<Transport>,
    started: Instant,
    ended: bool,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let enough = ABANDONED_AFTER.min(self.transport.timeout / 2);
        if !self.ended && self.started.elapsed() >= enough {
            self.transport.note_time_out();
        }
    }
}

/// Asks until the registry answers anything, or until nobody needs it any more.
async fn probe(transport: Weak<Transport>) {
    loop {
        tokio::time::sleep(PROBE_INTERVAL).await;
        let Some(transport) = transport.upgrade() else {
            return;
        };
        let request = Request::get(["registered_models"]).query("pageSize", "1");
        let version = transport.spoken();
        let asked = transport.in_version::<serde::de::IgnoredAny>(version, &request);
        if tokio::time::timeout(transport.timeout, asked).await.is_ok() {
            transport.breaker.answered();
            tracing::info!(registry = %transport.base, "the registry answers again");
            return;
        }
    }
}

/// What a call comes to, for the metric.
fn call_outcome(error: Option<&RegistryError>) -> CallOutcome {
    match error {
        None => CallOutcome::Ok,
        Some(RegistryError::Missing { .. }) => CallOutcome::Missing,
        Some(RegistryError::Conflict { .. }) => CallOutcome::Conflict,
        Some(RegistryError::Refused { .. }) => CallOutcome::Refused,
        Some(RegistryError::Unavailable(Unavailability::TimedOut { .. })) => CallOutcome::TimedOut,
        Some(RegistryError::Unavailable(Unavailability::Suspended)) => CallOutcome::Suspended,
        Some(RegistryError::Unavailable(_)) => CallOutcome::Unavailable,
    }
}

/// Hosts that no proxy can reach: Services of the cluster, and this machine.
fn is_cluster_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => {
            // `<service>.<namespace>.svc`, whatever the cluster's domain behind it.
            name == "localhost" || name.split('.').nth(2) == Some("svc")
        }
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The `Date` header in milliseconds since the epoch.
fn date(response: &reqwest::Response) -> Option<i64> {
    let text = response.headers().get(header::DATE)?.to_str().ok()?;
    let time = httpdate::parse_http_date(text).ok()?;
    i64::try_from(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis()).ok()
}

async fn bounded_body(mut response: reqwest::Response) -> Result<Vec<u8>, Unavailability> {
    let broken = |error: reqwest::Error| Unavailability::NotJson {
        reason: format!("it broke off: {}", root_cause(&error)),
    };
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if body.len() + chunk.len() > LARGEST_ANSWER_BYTES {
            return Err(Unavailability::TooLarge { limit: LARGEST_ANSWER_BYTES });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
