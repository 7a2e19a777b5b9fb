//! The Lease as a Kubernetes object.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};

use super::lease::{Claim, DURATION, LeaseError, Leases, Record};

/// One Lease of one cluster.
pub struct ClusterLease {
    api: Api<Lease>,
    name: String,
}

impl ClusterLease {
    /// The Lease of this name.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.to_owned() }
    }

    fn lease(&self, claim: Claim, acquired_at: Option<MicroTime>) -> Lease {
        let now = MicroTime(Timestamp::now());
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                resource_version: claim.resource_version,
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(claim.holder),
                lease_duration_seconds: i32::try_from(claim.duration.as_secs()).ok(),
                acquire_time: if claim.acquired { Some(now.clone()) } else { acquired_at },
                renew_time: Some(now),
                lease_transitions: Some(claim.transitions),
                ..LeaseSpec::default()
            }),
        }
    }
}

impl Leases for ClusterLease {
    fn read(&self) -> BoxFuture<'_, Result<Option<Record>, LeaseError>> {
        async move { Ok(self.api.get_opt(&self.name).await.map_err(read_error)?.map(record)) }.boxed()
    }

    fn write(&self, claim: Claim) -> BoxFuture<'_, Result<Record, LeaseError>> {
        async move {
            let params = PostParams::default();
            let create = claim.resource_version.is_none();
            let lease = self.lease(claim, None);
            let written = if create {
                self.api.create(&params, &lease).await
            } else {
                self.api.replace(&self.name, &params, &lease).await
            };
            written.map(record).map_err(read_error)
        }
        .boxed()
    }
}

fn record(lease: Lease) -> Record {
    let spec = lease.spec.unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        duration: seconds.map_or(DURATION, Duration::from_secs),
        resource_version: lease.metadata.resource_version.unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

fn read_error(error: kube::Error) -> LeaseError {
    match error {
        kube::Error::Api(status) if status.code == 409 => LeaseError::Conflict,
        error => LeaseError::Unavailable(error.to_string()),
    }
}
