//! What rustls asks for the certificate at each handshake.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Holds the pair that is served; exchanged without touching a connection that is open.
#[derive(Debug, Default)]
pub struct CertificateResolver {
    served: ArcSwapOption<CertifiedKey>,
}

impl CertificateResolver {
    /// Serves this pair from now on.
    pub fn serve(&self, pair: Arc<CertifiedKey>) {
        self.served.store(Some(pair));
    }

    /// The pair that is served; none before the first one came.
    #[must_use]
    pub fn served(&self) -> Option<Arc<CertifiedKey>> {
        self.served.load_full()
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.served()
    }
}
