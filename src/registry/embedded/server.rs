//! The registry as a server: an address goes in, a running server with its URL comes out.
//!
//! What stays true: once `stop` has returned, nothing listens on the address any more.

use std::net::SocketAddr;
use std::time::Duration;

use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Registry;

/// How long requests under way have when the server stops.
const DRAIN: Duration = Duration::from_secs(2);

/// A registry that serves its API over HTTP.
#[derive(Debug)]
pub struct EmbeddedRegistry {
    registry: Registry,
    address: SocketAddr,
    stopping: CancellationToken,
    serving: JoinHandle<std::io::Result<()>>,
}

impl EmbeddedRegistry {
    /// Serves a registry on an address; port 0 takes one that is free.
    pub async fn start(registry: Registry, address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let listener = listener.tap_io(|stream| {
            // Small answers must not wait for more; a socket that will not have it is merely slower.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "cannot set TCP_NODELAY");
            }
        });
        let stopping = CancellationToken::new();
        let serving = tokio::spawn(
            axum::serve(listener, registry.router())
                .with_graceful_shutdown(stopping.clone().cancelled_owned())
                .into_future(),
        );
        Ok(Self { registry, address, stopping, serving })
    }

    /// The registry that is served: its entries, its switches, its log.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Where it is served.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the server, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers what is under way, for a while, and stops. What the registry holds stays in [`Self::registry`].
    pub async fn stop(mut self) {
        self.stopping.cancel();
        if tokio::time::timeout(DRAIN, &mut self.serving).await.is_err() {
            self.serving.abort();
        }
    }
}

impl Drop for EmbeddedRegistry {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}
