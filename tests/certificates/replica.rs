//! A replica of the webhook, as far as its certificate goes.

use std::sync::Arc;
use std::time::Duration;

use isvc_registrar::certs::self_managed::plan::Lifetimes;
use isvc_registrar::certs::self_managed::{SelfManaged, Settings};
use isvc_registrar::certs::{CertificateResolver, Serving};
use isvc_registrar::metrics::CertificateMetrics;
use isvc_registrar::namespaced_name::NamespacedName;
use isvc_registrar::server::Health;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::api_server::{ApiServer, CONFIGURATION, NAMESPACE, SECRET, SERVICE};
use crate::clock::Hand;

/// How long a leaf lasts in these tests, on the clock of the test.
pub(crate) const LEAF_LIFETIME: time::Duration = time::Duration::HOUR;

/// What the API server verifies.
pub(crate) const SERVER_NAME: &str = "registrar.kubeflow.svc";

/// A test that waits this long waits for something that will not come.
const LIMIT: Duration = Duration::from_secs(30);

/// How often a replica looks, and a test at its condition: a test waits for what it wants to see, never for a time.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Replicas that look only when something wakes them.
pub(crate) const NEVER: Duration = Duration::from_hours(1);

/// A running replica; it ends when it is dropped.
pub(crate) struct Replica {
    pub(crate) health: Health,
    pub(crate) resolver: Arc<CertificateResolver>,
    pub(crate) metrics: CertificateMetrics,
    looks: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

pub(crate) fn lifetimes() -> Lifetimes {
    Lifetimes::of_leaf(LEAF_LIFETIME)
}

impl Replica {
    /// A replica that looks all the time.
    pub(crate) fn start(api: &ApiServer, hand: &Hand) -> Self {
        Self::start_looking_every(api, hand, LOOK_EVERY)
    }

    /// A replica that looks so often.
    pub(crate) fn start_looking_every(api: &ApiServer, hand: &Hand, period: Duration) -> Self {
        // Fails only when a provider is there already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (health, metrics) = (Health::default(), CertificateMetrics::default());
        let resolver = Arc::new(CertificateResolver::default());
        let (clock, looks) = hand.clock();
        let part = health.part("certificate");
        let serving = Serving::new(Arc::clone(&resolver), metrics.clone(), part, clock);
        let settings = Settings {
            secret: NamespacedName::new(NAMESPACE, SECRET),
            configuration: CONFIGURATION.into(),
            service: NamespacedName::new(NAMESPACE, SERVICE),
            lifetimes: lifetimes(),
        };
        let managed = SelfManaged::new(&api.client(), settings, serving).every(period);
        let task = tokio::spawn(async move { match Box::pin(managed.run()).await {} });
        Self { health, resolver, metrics, looks, task }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.health.not_ready().is_empty()
    }

    /// The leaf that is served.
    pub(crate) fn served(&self) -> Option<Vec<u8>> {
        Some(self.resolver.served()?.cert.first()?.to_vec())
    }

    /// Waits until everything has been looked at anew.
    pub(crate) async fn has_looked(&mut self) {
        // A look reads the clock first, when it writes, and last: so the look that is under way has two readings
        // to go, and the one after it has three at most.
        const READS: u64 = 5;
        let until = *self.looks.borrow() + READS;
        let looked = tokio::time::timeout(LIMIT, self.looks.wait_for(|reads| *reads >= until)).await;
        assert!(looked.is_ok_and(|looked| looked.is_ok()), "the replica has stopped looking");
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let met = async {
        while !condition() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, met).await.is_ok(), "it never came to this: {what}");
}
