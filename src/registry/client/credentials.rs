//! The bearer token and the CA of a registry, read from files that are swapped while the program runs.
//!
//! Goes in: two paths. Comes out: an HTTP client that trusts the CA, and the `authorization` header. What stays
//! true: a change of either file is used within [`RECHECK_AFTER`]; a bad or absent file keeps what was last good; the
//! token is never logged.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use tokio::sync::Mutex;

use crate::registry::Unavailability;

/// How old a reading of the files may be. Kubelet swaps a projected token long before the old one expires, and a
/// file in memory costs some 50 µs to read: once a second is early enough and costs nothing.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

/// What a request needs.
pub(super) struct Ready {
    /// The HTTP clients.
    pub(super) clients: Clients,
    /// `Bearer …`, marked sensitive.
    pub(super) authorization: Option<HeaderValue>,
    token: Vec<u8>,
    ca: Vec<u8>,
    read_at: Instant,
}

/// Two ways to the same registry.
#[derive(Clone)]
pub(super) struct Clients {
    /// Keeps connections and uses them again.
    pub(super) keeping: reqwest::Client,
    /// Makes a new connection for each request.
    pub(super) connecting: reqwest::Client,
}

/// Builds the HTTP clients for a CA in PEM; empty means the platform's own roots.
pub(super) type BuildClients = Box<dyn Fn(&[u8]) -> Result<Clients, ClientError> + Send + Sync>;

/// Why no HTTP client can be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// The CA file is no PEM, or the client cannot be made.
    #[error("{}", root_cause(.0))]
    Client(#[from] reqwest::Error),
    /// There is no certificate in the CA file.
    #[error("it holds no certificate in PEM")]
    NoCertificate,
}

/// The files and what was last read from them.
pub(super) struct Credentials {
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    build: BuildClients,
    ready: ArcSwapOption<Ready>,
    reading: Mutex<()>,
}

impl Credentials {
    pub(super) fn new(token_file: Option<PathBuf>, ca_file: Option<PathBuf>, build: BuildClients) -> Self {
        Self { token_file, ca_file, build, ready: ArcSwapOption::empty(), reading: Mutex::new(()) }
    }

    /// What was read last, read again when that is too long ago.
    pub(super) async fn current(&self) -> Result<Arc<Ready>, Unavailability> {
        let known = self.ready.load_full();
        match known {
            Some(ready) if ready.read_at.elapsed() < RECHECK_AFTER || self.has_no_files() => Ok(ready),
            // Somebody else is reading: what is known will do meanwhile.
            Some(ready) => match self.reading.try_lock() {
                Ok(_reading) => match self.read(Some(Arc::clone(&ready))).await {
                    // What was good a second ago is better than nothing: the registry says when it is not.
                    Err(error) => {
                        tracing::warn!(%error, "the last good credentials stay");
                        Ok(ready)
                    }
                    read => read,
                },
                Err(_) => Ok(ready),
            },
            None => {
                let _reading = self.reading.lock().await;
                let known = self.ready.load_full();
                if let Some(ready) = known { Ok(ready) } else { self.read(None).await }
            }
        }
    }

    /// Reads the files now, after a 401; gives the new reading when the token has changed.
    pub(super) async fn renewed(&self, refused: &Ready) -> Option<Arc<Ready>> {
        self.token_file.as_ref()?;
        let _reading = self.reading.lock().await;
        let now = self.read(self.ready.load_full()).await.ok()?;
        (now.token != refused.token).then_some(now)
    }

    fn has_no_files(&self) -> bool {
        self.token_file.is_none() && self.ca_file.is_none()
    }

    async fn read(&self, known: Option<Arc<Ready>>) -> Result<Arc<Ready>, Unavailability> {
        let token = content(self.token_file.as_ref()).await?;
        let ca = content(self.ca_file.as_ref()).await?;
        // A file that was configured and holds nothing is half written, or a mistake: without it this would be a
        // request without a token, or one that trusts whomever the platform trusts.
        for (path, content, what) in
            [(&self.token_file, &token, "token"), (&self.ca_file, &ca, "certificate")]
        {
            if let Some(path) = path.as_ref().filter(|_| content.trim_ascii().is_empty()) {
                let reason = format!("{} holds no {what}", path.display());
                return Err(Unavailability::Credentials { reason });
            }
        }
        let authorization = authorization(&token)?;
        let clients = match known {
            Some(known) if known.ca == ca => known.clients.clone(),
            known => match ((self.build)(&ca), known) {
                (Ok(clients), _) => clients,
                (Err(error), Some(known)) => {
                    tracing::warn!(%error, "the registry's CA file cannot be used, the last good one stays");
                    known.clients.clone()
                }
                (Err(error), None) => {
                    let reason = format!("its CA file cannot be used: {error}");
                    return Err(Unavailability::Credentials { reason });
                }
            },
        };
        let ready = Arc::new(Ready { clients, authorization, token, ca, read_at: Instant::now() });
        self.ready.store(Some(Arc::clone(&ready)));
        Ok(ready)
    }
}

async fn content(path: Option<&PathBuf>) -> Result<Vec<u8>, Unavailability> {
    let Some(path) = path else { return Ok(Vec::new()) };
    tokio::fs::read(path).await.map_err(|error| Unavailability::Credentials {
        reason: format!("{} cannot be read: {error}", path.display()),
    })
}

/// The header for a token file's content; none for an empty file.
fn authorization(token: &[u8]) -> Result<Option<HeaderValue>, Unavailability> {
    let token = token.trim_ascii();
    if token.is_empty() {
        return Ok(None);
    }
    let mut value = HeaderValue::from_bytes(&[b"Bearer ", token].concat()).map_err(|_| {
        Unavailability::Credentials { reason: "its token file holds bytes that no header can carry".into() }
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// The innermost cause of an error: the part that says what happened.
pub(super) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(token: Option<PathBuf>) -> Credentials {
        let client = || reqwest::Client::builder().build();
        let build =
            move |_: &[u8]| Ok::<_, ClientError>(Clients { keeping: client()?, connecting: client()? });
        Credentials::new(token, None, Box::new(build))
    }

    #[test]
    fn a_token_is_trimmed_and_hidden() {
        let header = authorization(b" abc\n").unwrap().unwrap();
        assert_eq!(header.as_bytes(), b"Bearer abc");
        assert!(!format!("{header:?}").contains("abc"), "a token must not show up in a log line");
        assert_eq!(authorization(b"\n").unwrap(), None);
        assert!(authorization(b"a\nb").is_err());
    }

    #[tokio::test]
    async fn a_swapped_token_is_found_when_the_old_one_is_refused() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "old").unwrap();
        let credentials = of(Some(file.path().into()));
        let old = credentials.current().await.unwrap();
        assert!(credentials.renewed(&old).await.is_none(), "the same token is not worth a second try");
        std::fs::write(file.path(), "new").unwrap();
        let new = credentials.renewed(&old).await.expect("the new token is worth a second try");
        assert_eq!(new.authorization.as_ref().unwrap().as_bytes(), b"Bearer new");
    }

    #[tokio::test]
    async fn a_file_that_holds_nothing_is_a_mistake() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = of(Some(file.path().into())).current().await.err().expect("no client without its token");
        assert!(error.to_string().contains("holds no token"), "{error}");
    }

    #[tokio::test]
    async fn a_token_file_that_goes_away_leaves_the_last_token() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "last").unwrap();
        let credentials = of(Some(file.path().into()));
        let read = credentials.current().await.unwrap();
        file.close().unwrap();
        credentials.ready.store(Some(Arc::new(Ready {
            clients: read.clients.clone(),
            authorization: read.authorization.clone(),
            token: read.token.clone(),
            ca: read.ca.clone(),
            read_at: read.read_at.checked_sub(2 * RECHECK_AFTER).unwrap(),
        })));
        let kept = credentials.current().await.expect("the registry is asked with what is known");
        assert_eq!(kept.authorization.as_ref().unwrap().as_bytes(), b"Bearer last");
    }

    #[tokio::test]
    async fn a_token_file_that_is_not_there_makes_the_registry_unavailable() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let error =
            of(Some("/nonexistent/token".into())).current().await.err().expect("no client without its token");
        assert!(error.to_string().contains("/nonexistent/token"), "it names the file: {error}");
    }
}
