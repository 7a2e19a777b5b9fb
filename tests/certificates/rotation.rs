//! Months of renewals under constant load: every handshake and every request succeeds.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::routing::get;
use isvc_registrar::certs::{Bundle, CertificateResolver};
use isvc_registrar::server::{Limits, tls};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;

use crate::api_server::ApiServer;
use crate::clock::Hand;
use crate::replica::{LEAF_LIFETIME, Replica, SERVER_NAME, until};

/// Clients that connect anew for each request: two for each replica.
const CALLERS: usize = 4;

/// Requests that have to go through between two steps of the clock.
const REQUESTS_PER_STEP: u64 = 4;

/// Each step of the clock is this part of a leaf's life: much shorter than the third that is there for a renewal,
/// longer than the time for a bundle to settle.
const STEPS_PER_LEAF: i32 = 10;

/// An authority lives as long as four leaves; so the first one ends on the way.
const LEAVES: i32 = 5;

/// What the callers have to say.
#[derive(Default)]
struct Load {
    succeeded: AtomicU64,
    failures: Mutex<Vec<String>>,
    /// The bundle that was live when the clock was last set. Read while a request is under way, so that none spans
    /// two steps.
    known: RwLock<Bundle>,
}

impl Load {
    async fn call(&self, client: &reqwest::Client, port: u16) {
        let answer = client.get(format!("https://{SERVER_NAME}:{port}/")).send().await;
        match answer.and_then(reqwest::Response::error_for_status) {
            Ok(_) => drop(self.succeeded.fetch_add(1, Ordering::SeqCst)),
            Err(error) => {
                let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
                failures.push(format!("{error:?}"));
            }
        }
    }

    fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A client as the API server is one: it trusts this bundle, and holds everything against the clock.
fn client(bundle: &Bundle, hand: &Hand, address: SocketAddr) -> reqwest::Client {
    let mut roots = RootCertStore::empty();
    for authority in bundle.without_expired(hand.now()).authorities() {
        roots.add(authority.der().clone()).expect("an authority that was read");
    }
    let tls = ClientConfig::builder_with_details(Arc::new(ring::default_provider()), Arc::new(hand.clone()))
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .resolve(SERVER_NAME, address)
        .no_proxy()
        .build()
        .expect("a client without options")
}

fn serve(resolver: &Arc<CertificateResolver>, stop: &CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    listener.set_nonblocking(true).expect("a socket that does not block");
    let stop = tls::Stop { signal: stop.clone(), drain_delay: std::time::Duration::ZERO };
    let routes = Router::new().route("/", get(|| async { "answered" }));
    tokio::spawn(tls::serve(
        listener,
        routes,
        Arc::<CertificateResolver>::clone(resolver),
        stop,
        Limits::default(),
    ));
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_leaves_and_authorities_are_replaced() {
    let (api, hand) = (ApiServer::installed(), Hand::new());
    // The servers go on until the last caller has its answer.
    let (enough, stop) = (CancellationToken::new(), CancellationToken::new());
    let mut replicas = [Replica::start(&api, &hand), Replica::start(&api, &hand)];
    until("both are ready", || replicas.iter().all(Replica::is_ready)).await;
    let addresses = replicas.each_ref().map(|replica| serve(&replica.resolver, &stop));

    let load = Arc::new(Load { known: RwLock::new(api.ca_bundles().remove(0)), ..Load::default() });
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let (api, hand, load, enough) = (api.clone(), hand.clone(), Arc::clone(&load), enough.clone());
        let address = addresses[caller / 2];
        callers.spawn(async move {
            while !enough.is_cancelled() {
                let known = load.known.read().await;
                // One API server has heard of the last change, the other has not: that is what settling is for.
                let live = if caller % 2 == 0 { known.clone() } else { api.ca_bundles().remove(0) };
                load.call(&client(&live, &hand, address), address.port()).await;
            }
        });
    }
    // Trusts the first authority alone, for ever: only its first connection can be what it sends its requests over.
    let first = api.ca_bundles().remove(0);
    let keeps_its_connection = client(&first, &hand, addresses[0]);

    let (mut leaves, mut bundles, mut most) = (BTreeSet::new(), BTreeSet::new(), 0);
    for _ in 0..LEAVES * STEPS_PER_LEAF {
        {
            let mut known = load.known.write().await;
            *known = api.ca_bundles().remove(0);
            hand.advance(LEAF_LIFETIME / STEPS_PER_LEAF);
        }
        for replica in &mut replicas {
            replica.has_looked().await;
        }
        let target = load.succeeded.load(Ordering::SeqCst) + REQUESTS_PER_STEP;
        until("calls go through", || {
            load.succeeded.load(Ordering::SeqCst) >= target || !load.failures().is_empty()
        })
        .await;
        load.call(&keeps_its_connection, addresses[0].port()).await;
        assert_eq!(load.failures(), Vec::<String>::new(), "at {}", hand.now());
        assert!(replicas.iter().all(Replica::is_ready), "{:?}", replicas[0].health.not_ready());
        leaves.extend(replicas.iter().filter_map(Replica::served));
        let bundle = api.ca_bundles().remove(0);
        most = most.max(bundle.authorities().len());
        bundles.insert(bundle.to_pem());
    }
    enough.cancel();
    while callers.join_next().await.is_some_and(|ended| ended.is_ok()) {}
    stop.cancel();

    assert_eq!(load.failures(), Vec::<String>::new());
    assert!(leaves.len() >= 7, "renewed every two thirds of a life: {}", leaves.len());
    assert_eq!(most, 2, "never more than the new authority and the one before it");
    assert_eq!(bundles.len(), 3, "the first authority, both, the second");
    let last = api.ca_bundles().remove(0);
    assert!(!last.authorities().contains(&first.authorities()[0]), "the first authority is dropped");
}
