//! The processes of the program's replicas, to be killed and stopped as no API can.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use isvc_registrar_test_cluster::{ControlPlane, wait};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

/// The release's namespace, and the name of its Lease.
const NAMESPACE: &str = "isvc-registrar";
const LEASE: &str = "isvc-registrar-syncer";

/// Who holds the lease: the Pod's name and a number for its process.
pub(crate) async fn leader(cluster: &ControlPlane) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(cluster.client()?, NAMESPACE);
    let spec = leases.get(LEASE).await?.spec.unwrap_or_default();
    spec.holder_identity.filter(|holder| !holder.is_empty()).context("nobody holds the lease")
}

/// Waits until another process holds the lease.
pub(crate) async fn another_leads(cluster: &ControlPlane, before: &str) -> Result<String> {
    wait::until("another replica takes over", async || {
        let holder = leader(cluster).await?;
        ensure!(holder != before, "{holder} still holds the lease");
        Ok(holder)
    })
    .await
}

/// The Pod of a process that holds the lease.
pub(crate) fn pod_of(holder: &str) -> Result<&str> {
    let (pod, _) = holder.rsplit_once('_').with_context(|| format!("{holder:?} names no Pod"))?;
    Ok(pod)
}

/// The syncer's process in a Pod.
pub(crate) struct Syncer {
    id: u32,
}

impl Syncer {
    /// Finds it by what only a container of that Pod has in its environment.
    pub(crate) fn of(pod: &str) -> Result<Self> {
        let variable = format!("HOSTNAME={pod}");
        for process in fs::read_dir("/proc")? {
            let process = process?.path();
            let Some(id) = process.file_name().and_then(|name| name.to_str()?.parse().ok()) else { continue };
            // A process that ends meanwhile is not the one that is looked for.
            let (Ok(environment), Ok(command)) =
                (fs::read(process.join("environ")), fs::read(process.join("cmdline")))
            else {
                continue;
            };
            let mut arguments = command.split(|byte| *byte == 0);
            let program = arguments.next().unwrap_or_default();
            let is_syncer = program.ends_with(b"isvc-registrar") && arguments.next() == Some(b"syncer");
            if is_syncer && environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes()) {
                return Ok(Self { id });
            }
        }
        bail!("Pod {pod} runs no syncer")
    }

    /// `KILL`, `STOP` or `CONT`.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let status = Command::new("kill").args(["-s", name, &self.id.to_string()]).status()?;
        ensure!(status.success(), "kill -s {name} {} fails", self.id);
        Ok(())
    }

    /// The most memory that it ever had, in MiB.
    pub(crate) fn peak_memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kibibytes / 1024)
    }
}
