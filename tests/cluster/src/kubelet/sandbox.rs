//! A container's process: its user, its view of the file system, its command.
//!
//! In: a Pod, a container of it, its mounts and the image. Out: a process on a leash. What stays true: the process sees
//! its volumes where the Pod says, the system's libraries, and nothing else of this machine; it runs as the user the
//! Pod says, and never as root when the Pod forbids it.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;

use super::Kubelet;
use super::environment::{Variables, expand_all};
use crate::images::Image;
use crate::leash::{Leash, LeashedCommand};
use crate::processes::Setup;

/// A folder or file that a container sees at a path.
#[derive(Debug, Clone)]
pub(super) struct Mount {
    pub(super) source: PathBuf,
    pub(super) target: String,
    pub(super) read_only: bool,
}

/// All that is needed to start a container's process, or one more in its surroundings.
#[derive(Debug)]
pub(super) struct Sandbox {
    view: Vec<String>,
    variables: Variables,
    command: Vec<String>,
    setup: Arc<Setup>,
}

/// Who a container runs as.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    user: i64,
    group: i64,
    groups: Vec<i64>,
}

impl Sandbox {
    pub(super) fn new(
        kubelet: &Kubelet,
        pod: &Pod,
        container: &Container,
        image: &Image,
        mounts: &[Mount],
        variables: Variables,
        address: Ipv4Addr,
    ) -> Result<Self> {
        let identity = Identity::of(pod, container, image)?;
        let folder = kubelet.folder(pod);
        let root = folder.join("root");
        fs::create_dir_all(&root)?;
        let hosts = folder.join("hosts");
        fs::write(&hosts, format!("127.0.0.1\tlocalhost\n{address}\t{}\n", pod.name_any()))?;

        let entrypoint = entrypoint(image);
        let read_only_root =
            container.security_context.as_ref().and_then(|context| context.read_only_root_filesystem)
                == Some(true);
        let groups: Vec<String> = identity.groups.iter().map(ToString::to_string).collect();
        let mut view = vec![
            path(&root),
            mode(read_only_root),
            identity.user.to_string(),
            identity.group.to_string(),
            if groups.is_empty() { "-".to_owned() } else { groups.join(",") },
        ];
        view.extend([path(&image.program), entrypoint.clone(), mode(true)]);
        view.extend([path(&hosts), "/etc/hosts".to_owned(), mode(false)]);
        for mount in mounts {
            view.extend([path(&mount.source), mount.target.clone(), mode(mount.read_only)]);
        }

        let mut command = expand_all(container.command.as_ref(), &variables);
        if command.is_empty() {
            command.push(entrypoint);
            command.extend(image.arguments.iter().cloned());
        }
        command.extend(expand_all(container.args.as_ref(), &variables));
        if let Some(folder) = &container.working_dir {
            let inside = ["env", "--chdir", folder, "--"].map(str::to_owned);
            command = inside.into_iter().chain(command).collect();
        }
        Ok(Self { view, variables, command, setup: kubelet.setup.clone() })
    }

    /// Starts the container's process.
    pub(super) fn start(&self, log: &Path) -> Result<Leash> {
        self.spawn(&self.command, log)
    }

    /// Starts another command in the same surroundings, for probes and hooks.
    pub(super) fn exec(&self, command: &[String], log: &Path) -> Result<Leash> {
        self.spawn(command, log)
    }

    fn spawn(&self, command: &[String], log: &Path) -> Result<Leash> {
        LeashedCommand::new("unshare")
            .arguments(["--mount", "--propagation", "private", "sh"])
            .arguments([self.setup.work.script("sandbox.sh")])
            .arguments(&self.view)
            .arguments(["--"])
            .arguments(command)
            .only_environment(self.variables.clone().into_iter().collect())
            .spawn(log, &self.setup.work)
    }
}

impl Identity {
    fn of(pod: &Pod, container: &Container, image: &Image) -> Result<Self> {
        let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        let of_container = container.security_context.as_ref();
        let user = of_container
            .and_then(|context| context.run_as_user)
            .or_else(|| of_pod?.run_as_user)
            .unwrap_or(image.user);
        let must_not_be_root = of_container
            .and_then(|context| context.run_as_non_root)
            .or_else(|| of_pod?.run_as_non_root)
            .unwrap_or(false);
        ensure!(user != 0 || !must_not_be_root, "container has runAsNonRoot and image will run as root");
        let group = of_container
            .and_then(|context| context.run_as_group)
            .or_else(|| of_pod?.run_as_group)
            .unwrap_or(0);
        let mut groups = of_pod.and_then(|context| context.supplemental_groups.clone()).unwrap_or_default();
        groups.extend(of_pod.and_then(|context| context.fs_group));
        Ok(Self { user, group, groups })
    }
}

/// Where the image's program lies in the container.
fn entrypoint(image: &Image) -> String {
    format!("/{}", image.program.file_name().unwrap_or_default().to_string_lossy())
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

fn mode(read_only: bool) -> String {
    if read_only { "ro" } else { "rw" }.to_owned()
}
