//! The Lease as a Kubernetes object.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};

use super::lease::{Claim, DURATION, LeaseError, Leases, Record};

/// One Lease of one cluster.
pub struct ClusterLease {
    api: Api<Lease>,
    name: String,
    /// As it was last read or written: a write keeps its labels and all else that is not ours.
    last: Mutex<Lease>,
}

impl ClusterLease {
    /// The Lease of this name.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.to_owned(), last: Mutex::default() }
    }

    fn last(&self) -> MutexGuard<'_, Lease> {
        // It is only ever replaced whole.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Lease as it is to be written.
    fn claimed(&self, claim: Claim) -> Lease {
        let now = MicroTime(Timestamp::now());
        let mut lease = match claim.resource_version {
            Some(_) => self.last().clone(),
            None => Lease::default(),
        };
        lease.metadata.name = Some(self.name.clone());
        lease.metadata.resource_version = claim.resource_version;
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(claim.holder);
        spec.lease_duration_seconds = i32::try_from(claim.duration.as_secs()).ok();
        spec.lease_transitions = Some(claim.transitions);
        if claim.acquired {
            spec.acquire_time = Some(now.clone());
        }
        spec.renew_time = Some(now);
        lease
    }

    fn note(&self, lease: Lease) -> Record {
        let record = record(&lease);
        *self.last() = lease;
        record
    }
}

impl Leases for ClusterLease {
    fn read(&self) -> BoxFuture<'_, Result<Option<Record>, LeaseError>> {
        async move {
            let lease = self.api.get_opt(&self.name).await.map_err(read_error)?;
            Ok(lease.map(|lease| self.note(lease)))
        }
        .boxed()
    }

    fn write(&self, claim: Claim) -> BoxFuture<'_, Result<Record, LeaseError>> {
        async move {
            let params = PostParams::default();
            let create = claim.resource_version.is_none();
            let lease = self.claimed(claim);
            let written = if create {
                self.api.create(&params, &lease).await
            } else {
                self.api.replace(&self.name, &params, &lease).await
            };
            written.map(|lease| self.note(lease)).map_err(read_error)
        }
        .boxed()
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        duration: seconds.map_or(DURATION, Duration::from_secs),
        resource_version: lease.metadata.resource_version.clone().unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

fn read_error(error: kube::Error) -> LeaseError {
    match error {
        kube::Error::Api(status) if status.code == 409 => LeaseError::Conflict,
        error => LeaseError::Unavailable(error.to_string()),
    }
}
