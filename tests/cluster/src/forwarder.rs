//! Makes cluster IPs work: a connection to a Service reaches one of its ready Pods.
//!
//! In: Services and Pods, from watches, and ahead of them the kubelet's announcements of ready Pods. Out: a listener for
//! each TCP port of each Service that has a ready Pod, or any Pod where it leads to those that are not ready too. What
//! stays true: where there is none a connection is refused; connections go to the Pods in turn; once the API shows a Pod
//! ready, its Services reach it (the kubelet announces it here before it writes that status), so no test has to wait a
//! little longer.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, reflector, watcher as watch_objects};
use kube::{Api, Client, ResourceExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

/// Where the kubelet says that a Pod is about to be shown ready.
#[derive(Debug, Clone)]
pub(crate) struct Announcements(mpsc::Sender<Announcement>);

#[derive(Debug)]
struct Announcement {
    pod: Pod,
    heard: oneshot::Sender<()>,
}

impl Announcements {
    /// Returns once connections reach the Pod.
    pub(crate) async fn ready(&self, pod: Pod) {
        let (heard, hearing) = oneshot::channel();
        // The forwarder is gone only when the whole cluster is being taken down.
        if self.0.send(Announcement { pod, heard }).await.is_ok() {
            let _ = hearing.await;
        }
    }
}

/// The forwarder of one cluster.
pub(crate) struct Forwarder {
    client: Client,
    announcements: mpsc::Receiver<Announcement>,
    announced: HashMap<String, Pod>,
    listeners: HashMap<SocketAddrV4, Listener>,
}

/// Pods by the address that stands for them.
type Backends = HashMap<SocketAddrV4, Vec<SocketAddrV4>>;

struct Listener {
    backends: Arc<RwLock<Vec<SocketAddrV4>>>,
    _accepting: AbortOnDropHandle<()>,
}

enum Change {
    Service(Box<Event<Service>>),
    Pod(Box<Event<Pod>>),
}

impl Forwarder {
    pub(crate) fn new(client: Client) -> (Self, Announcements) {
        let (sender, announcements) = mpsc::channel(1);
        let forwarder = Self { client, announcements, announced: HashMap::new(), listeners: HashMap::new() };
        (forwarder, Announcements(sender))
    }

    /// Forwards until it is dropped.
    pub(crate) async fn run(mut self) {
        let (services, mut service_writer) = reflector::store();
        let (pods, mut pod_writer) = reflector::store();
        let all = watcher::Config::default();
        let service_events = watch_objects(Api::all(self.client.clone()), all.clone()).default_backoff();
        let pod_events = watch_objects(Api::all(self.client.clone()), all).default_backoff();
        let mut changes = stream::select(
            service_events.map(|event| event.map(|event| Change::Service(Box::new(event)))).boxed(),
            pod_events.map(|event| event.map(|event| Change::Pod(Box::new(event)))).boxed(),
        );
        loop {
            let mut heard = None;
            tokio::select! {
                Some(change) = changes.next() => match change {
                    Ok(Change::Service(event)) => service_writer.apply_watcher_event(&event),
                    Ok(Change::Pod(event)) => pod_writer.apply_watcher_event(&event),
                    Err(error) => tracing::warn!(%error, "the forwarder's watch was interrupted"),
                },
                Some(announcement) = self.announcements.recv() => {
                    self.announced.insert(announcement.pod.uid().unwrap_or_default(), announcement.pod);
                    heard = Some(announcement.heard);
                }
                else => return,
            }
            let pods = self.merge(&pods.state());
            self.listen(&backends(&services.state(), &pods)).await;
            if let Some(heard) = heard {
                let _ = heard.send(());
            }
        }
    }

    /// The Pods as they are, announcements included that the watch has not caught up with.
    fn merge(&mut self, watched: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        self.announced.retain(|uid, _| {
            watched.iter().any(|pod| pod.uid().as_ref() == Some(uid) && !is_ready(pod) && !is_going(pod))
        });
        let announced = |pod: &Arc<Pod>| self.announced.get(&pod.uid()?).cloned().map(Arc::new);
        watched.iter().map(|pod| announced(pod).unwrap_or_else(|| pod.clone())).collect()
    }

    /// Opens, changes and closes listeners.
    async fn listen(&mut self, wanted: &Backends) {
        self.listeners.retain(|address, _| wanted.contains_key(address));
        for (address, pods) in wanted {
            if let Some(listener) = self.listeners.get(address) {
                listener.backends.write().unwrap_or_else(PoisonError::into_inner).clone_from(pods);
                continue;
            }
            match TcpListener::bind(address).await {
                Ok(socket) => {
                    let backends = Arc::new(RwLock::new(pods.clone()));
                    let accepting = AbortOnDropHandle::new(tokio::spawn(accept(socket, backends.clone())));
                    self.listeners.insert(*address, Listener { backends, _accepting: accepting });
                }
                Err(error) => tracing::warn!(%address, %error, "cannot listen on a cluster IP"),
            }
        }
    }
}

async fn accept(socket: TcpListener, backends: Arc<RwLock<Vec<SocketAddrV4>>>) {
    let turn = AtomicUsize::new(0);
    loop {
        let Ok((mut client, _)) = socket.accept().await else {
            continue;
        };
        let backend = {
            let backends = backends.read().unwrap_or_else(PoisonError::into_inner);
            let turn = turn.fetch_add(1, Ordering::Relaxed);
            backends.get(turn % backends.len().max(1)).copied()
        };
        // A connection outlives the listener: a Pod that is being stopped finishes what it has begun.
        tokio::spawn(async move {
            let Some(backend) = backend else { return };
            match TcpStream::connect(backend).await {
                Ok(mut pod) => {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut pod).await;
                }
                Err(error) => tracing::info!(%backend, %error, "a ready Pod does not take connections"),
            }
        });
    }
}

/// Which Pods stand behind which address.
fn backends(services: &[Arc<Service>], pods: &[Arc<Pod>]) -> Backends {
    let mut wanted = Backends::new();
    for service in services {
        let Some(spec) = &service.spec else { continue };
        let Some(address) = spec.cluster_ip.as_deref().and_then(|address| address.parse::<Ipv4Addr>().ok())
        else {
            continue;
        };
        let Some(selector) = spec.selector.as_ref().filter(|selector| !selector.is_empty()) else {
            continue;
        };
        let all = spec.publish_not_ready_addresses == Some(true);
        let selected: Vec<&Arc<Pod>> = pods
            .iter()
            .filter(|pod| pod.namespace() == service.namespace())
            .filter(|pod| all || is_ready(pod) && !is_going(pod))
            .filter(|pod| selector.iter().all(|(key, value)| pod.labels().get(key) == Some(value)))
            .collect();
        for port in spec.ports.iter().flatten().filter(|port| port.protocol.as_deref() != Some("UDP")) {
            let Ok(number) = u16::try_from(port.port) else {
                continue;
            };
            let mut targets: Vec<SocketAddrV4> =
                selected.iter().filter_map(|pod| target(pod, port)).collect();
            targets.sort();
            if !targets.is_empty() {
                wanted.insert(SocketAddrV4::new(address, number), targets);
            }
        }
    }
    wanted
}

/// Where a Pod serves a Service's port.
fn target(pod: &Pod, port: &ServicePort) -> Option<SocketAddrV4> {
    let address = pod.status.as_ref()?.pod_ip.as_deref()?.parse().ok()?;
    let number = match &port.target_port {
        None => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(name)) => {
            let mut ports =
                pod.spec.as_ref()?.containers.iter().flat_map(|container| container.ports.iter().flatten());
            ports.find(|port| port.name.as_ref() == Some(name))?.container_port
        }
    };
    Some(SocketAddrV4::new(address, u16::try_from(number).ok()?))
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse<T: serde::de::DeserializeOwned>(object: serde_json::Value) -> Arc<T> {
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_service_stands_for_its_ready_pods_alone_unless_it_says_otherwise() {
        let service = |all: bool| {
            parse::<Service>(json!({
                "metadata": {"name": "s", "namespace": "a"},
                "spec": {
                    "clusterIP": "127.64.1.1",
                    "selector": {"app": "x"},
                    "ports": [{"port": 443, "targetPort": "https"}, {"port": 80}],
                    "publishNotReadyAddresses": all,
                },
            }))
        };
        let pod = |address: &str, ready: &str, app: &str| {
            parse::<Pod>(json!({
                "metadata": {"namespace": "a", "labels": {"app": app}},
                "spec": {"containers": [{"name": "c", "ports": [{"name": "https", "containerPort": 10250}]}]},
                "status": {"podIP": address, "conditions": [{"type": "Ready", "status": ready}]},
            }))
        };
        let pods = [
            pod("127.65.0.3", "True", "x"),
            pod("127.65.0.2", "True", "x"),
            pod("127.65.0.4", "False", "x"),
            pod("127.65.0.5", "True", "y"),
        ];

        let found = backends(&[service(false)], &pods);
        let all = backends(&[service(true)], &pods);

        let at = |address: &str| address.parse::<SocketAddrV4>().unwrap();
        assert_eq!(found[&at("127.64.1.1:443")], [at("127.65.0.2:10250"), at("127.65.0.3:10250")]);
        assert_eq!(found[&at("127.64.1.1:80")], [at("127.65.0.2:80"), at("127.65.0.3:80")]);
        let not_ready = at("127.65.0.4:80");
        assert_eq!(all[&at("127.64.1.1:80")], [at("127.65.0.2:80"), at("127.65.0.3:80"), not_ready]);
    }
}
