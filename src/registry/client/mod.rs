//! The client of one registry.
//!
//! Goes in: a question. Comes out: an entity, `None` when there is none, or a [`RegistryError`]. What stays true:
//! `None` is only said after the registry could read its database; names are compared here, since the registry
//! compares them by SQL LIKE; every call ends within the time-out.

mod breaker;
mod classify;
mod credentials;
mod entries;
mod lookup;
mod transport;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use url::Url;

use crate::metrics::RegistryMetrics;
pub use transport::Connection;
use transport::Transport;

/// Version of the REST API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ApiVersion {
    /// Since August 2026.
    V1,
    /// Before; deprecated since.
    V1alpha3,
}

impl ApiVersion {
    /// The version's segment in a path.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1alpha3 => "v1alpha3",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::V1 => Self::V1alpha3,
            Self::V1alpha3 => Self::V1,
        }
    }
}

/// Which version to speak.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum ApiChoice {
    /// v1 where the registry speaks it, else v1alpha3
    #[default]
    Auto,
    /// v1 alone
    V1,
    /// v1alpha3 alone
    #[value(name = "v1alpha3")]
    V1alpha3,
}

/// How to reach a registry.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// What messages call it.
    pub name: String,
    /// Scheme, host, port and path in front of `/api/model_registry`.
    pub url: Url,
    /// Where to connect instead of asking DNS for the URL's host.
    pub address: Option<SocketAddr>,
    /// The API version.
    pub api: ApiChoice,
    /// File with the bearer token, read again when it changes.
    pub token_file: Option<PathBuf>,
    /// File with the CAs to trust instead of the platform's, in PEM, read again when it changes.
    pub ca_file: Option<PathBuf>,
    /// Limit of each call.
    pub timeout: Duration,
    /// Where calls are counted.
    pub metrics: RegistryMetrics,
}

/// A registry; cheap to clone, all clones share the connections.
#[derive(Clone)]
pub struct RegistryClient {
    id: u64,
    name: Arc<str>,
    url: Arc<Url>,
    transport: Arc<Transport>,
}

/// Number of the next client.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl RegistryClient {
    /// Prepares the client; connects to nothing yet.
    #[must_use]
    pub fn new(settings: ClientSettings) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let name = settings.name.as_str().into();
        let url = Arc::new(settings.url.clone());
        Self { id, name, url, transport: Arc::new(Transport::new(settings)) }
    }

    /// Tells this client from every other one of the process; all clones share it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL, up to where the API's own path begins.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }
}

impl fmt::Debug for RegistryClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RegistryClient").field("name", &self.name).finish_non_exhaustive()
    }
}
