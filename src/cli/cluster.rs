//! The cluster a program belongs to: its API server, and its id in the registry.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};

use crate::namespaces::Namespaces;
use crate::registration::ClusterId;

/// The Namespace whose UID names a cluster: every cluster has it, for as long as it exists.
const CLUSTER_NAMESPACE: &str = "kube-system";

/// How long to wait before the API server is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Limit of one request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether this process was put into a cluster, or pointed at one. A kubeconfig that merely lies in somebody's home
/// does not count where the flags say all that is needed.
pub(super) fn is_meant() -> bool {
    ["KUBERNETES_SERVICE_HOST", "KUBECONFIG"].iter().any(|name| std::env::var_os(name).is_some())
}

/// The client of the cluster that this program runs in, or that the kubeconfig names.
pub(super) async fn client() -> anyhow::Result<kube::Client> {
    let config = kube::Config::infer().await.map_err(|error| {
        anyhow::anyhow!(
            "no cluster: {error}; run in a Pod, set KUBECONFIG, or give --cluster-id and --registry-url"
        )
    })?;
    Ok(kube::Client::try_from(config)?)
}

/// The cluster's id; asks until the API server answers, since a program that starts with its cluster may be first.
pub(super) async fn id(client: &kube::Client) -> anyhow::Result<ClusterId> {
    loop {
        match ask_for_uid(client).await {
            Ok(uid) => return Ok(ClusterId::new(&uid)?),
            Err(error) => {
                tracing::warn!(
                    error,
                    "cannot read Namespace kube-system to learn the cluster's id, trying again"
                );
            }
        }
        tokio::time::sleep(ASK_AGAIN_AFTER).await;
    }
}

/// The cluster's id, asked for once.
pub(super) async fn read_id(client: &kube::Client) -> anyhow::Result<ClusterId> {
    let uid = ask_for_uid(client).await.map_err(|error| {
        anyhow::anyhow!(
            "cannot read Namespace kube-system to learn the cluster's id: {error}; or give --cluster-id"
        )
    })?;
    Ok(ClusterId::new(&uid)?)
}

async fn ask_for_uid(client: &kube::Client) -> Result<String, String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match tokio::time::timeout(REQUEST_TIMEOUT, namespaces.get(CLUSTER_NAMESPACE)).await {
        Ok(Ok(namespace)) => Ok(namespace.metadata.uid.unwrap_or_default()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// The labels of all Namespaces, from a watch in the background.
pub(super) fn namespaces(client: &kube::Client) -> Namespaces {
    let namespaces = Namespaces::default();
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
    let followed = namespaces.clone();
    tokio::spawn(async move {
        let events = watcher(api, watcher::Config::default()).default_backoff();
        followed.follow(events).await;
    });
    namespaces
}
