//! The volumes of a Pod.
//!
//! In: a Pod's volumes and the objects they name. Out: a folder for each, and the mounts of each container. What stays
//! true: a changed Secret, ConfigMap or token reaches the files within a second or two by one swap; a volume that
//! cannot be filled keeps what it had; a kind of volume that is not known here is an error.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Permissions};
use std::net::Ipv4Addr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{
    Container, DownwardAPIVolumeFile, KeyToPath, Pod, ServiceAccount, ServiceAccountTokenProjection, Volume,
    VolumeProjection,
};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use tokio::time::{Instant, sleep_until};

use super::Kubelet;
use super::downward::Downward;
use super::sandbox::Mount;
use super::volume_writer::{File, Files, VolumeWriter};

/// The mode of files whose volume gives none.
const DEFAULT_MODE: i32 = 0o644;

/// How long a token is valid when its projection does not say.
const TOKEN_SECONDS: i64 = 3600;

/// A token is replaced when this part of its life is over, as the kubelet does.
const TOKEN_RENEWAL: (u32, u32) = (4, 5);

/// How soon a volume that could not be refreshed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The volumes of one Pod.
pub(super) struct PodVolumes {
    kubelet: Arc<Kubelet>,
    pod: Arc<Pod>,
    address: Ipv4Addr,
    writers: HashMap<String, VolumeWriter>,
    tokens: HashMap<PathBuf, Token>,
}

struct Token {
    value: String,
    renewal: Instant,
}

impl PodVolumes {
    pub(super) fn new(kubelet: Arc<Kubelet>, pod: Arc<Pod>, address: Ipv4Addr) -> Self {
        Self { kubelet, pod, address, writers: HashMap::new(), tokens: HashMap::new() }
    }

    /// Fills every volume; an error says which one is not ready yet and why.
    pub(super) async fn fill(&mut self) -> Result<()> {
        let pod = self.pod.clone();
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            self.fill_one(volume).await.with_context(|| format!("volume {:?}", volume.name))?;
        }
        Ok(())
    }

    /// Fills the volumes again whenever a source may have changed or a token grows old; never returns.
    pub(super) async fn keep_fresh(&mut self) {
        let kubelet = self.kubelet.clone();
        let mut sources = kubelet.sources.subscribe();
        loop {
            let next_token = self.tokens.values().map(|token| token.renewal).min();
            tokio::select! {
                changed = sources.changed() => if changed.is_err() { return },
                () = sleep_until(next_token.unwrap_or_else(Instant::now)), if next_token.is_some() => {}
            }
            while let Err(error) = self.fill().await {
                tracing::warn!(pod = %self.pod.name_any(), error = format!("{error:#}"), "a volume keeps its old content");
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// What a container mounts where.
    pub(super) fn mounts(&self, container: &Container) -> Result<Vec<Mount>> {
        let volumes = self.pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let mounts = container.volume_mounts.iter().flatten().map(|mount| {
            let volume = volumes.iter().find(|volume| volume.name == mount.name).with_context(|| {
                format!("container {} mounts {:?}, which is no volume", container.name, mount.name)
            })?;
            let mut source = self.folder(volume);
            if let Some(path) = &mount.sub_path {
                source.push(path);
            }
            // The kubelet mounts these read-only whatever the Pod says.
            let generated = volume.empty_dir.is_none() && volume.host_path.is_none();
            let read_only = generated || mount.read_only == Some(true);
            Ok(Mount { source, target: mount.mount_path.clone(), read_only })
        });
        mounts.collect()
    }

    fn folder(&self, volume: &Volume) -> PathBuf {
        match &volume.host_path {
            Some(host) => PathBuf::from(&host.path),
            None => self.kubelet.folder(&self.pod).join("volumes").join(&volume.name),
        }
    }

    async fn fill_one(&mut self, volume: &Volume) -> Result<()> {
        let folder = self.folder(volume);
        let files = if let Some(secret) = &volume.secret {
            let name = secret.secret_name.as_deref().unwrap_or_default();
            let content = self.kubelet.secret(&self.pod, name, secret.optional).await?;
            self.select(content, secret.items.as_ref(), secret.optional, secret.default_mode)?
        } else if let Some(map) = &volume.config_map {
            let content = self.kubelet.config_map(&self.pod, &map.name, map.optional).await?;
            self.select(content, map.items.as_ref(), map.optional, map.default_mode)?
        } else if let Some(downward) = &volume.downward_api {
            self.downward(downward.items.as_ref(), downward.default_mode)?
        } else if let Some(projected) = &volume.projected {
            let mut files = Files::new();
            for source in projected.sources.iter().flatten() {
                files.extend(self.project(&folder, source, projected.default_mode).await?);
            }
            files
        } else if volume.empty_dir.is_some() {
            return self.make_empty(&folder);
        } else if volume.host_path.is_some() {
            return Ok(());
        } else {
            bail!("its kind is not supported by the tests' kubelet");
        };
        self.writers.entry(volume.name.clone()).or_insert_with(|| VolumeWriter::new(folder)).write(files)
    }

    fn make_empty(&self, folder: &Path) -> Result<()> {
        if !folder.exists() {
            fs::create_dir_all(folder)?;
            let group = self.fs_group();
            chown(folder, None, group)?;
            fs::set_permissions(
                folder,
                Permissions::from_mode(if group.is_some() { 0o2777 } else { 0o777 }),
            )?;
        }
        Ok(())
    }

    async fn project(
        &mut self,
        folder: &Path,
        source: &VolumeProjection,
        mode: Option<i32>,
    ) -> Result<Files> {
        if let Some(secret) = &source.secret {
            let content = self.kubelet.secret(&self.pod, &secret.name, secret.optional).await?;
            self.select(content, secret.items.as_ref(), secret.optional, mode)
        } else if let Some(map) = &source.config_map {
            let content = self.kubelet.config_map(&self.pod, &map.name, map.optional).await?;
            self.select(content, map.items.as_ref(), map.optional, mode)
        } else if let Some(downward) = &source.downward_api {
            self.downward(downward.items.as_ref(), mode)
        } else if let Some(token) = &source.service_account_token {
            let value = self.token(&folder.join(&token.path), token).await?;
            let mut file = self.file(value.into_bytes(), mode);
            file.owner = self.user();
            if file.owner.is_some() || file.group.is_some() {
                // Nobody else has any business with a token.
                file.mode = if file.group.is_some() { 0o640 } else { 0o600 };
            }
            Ok(Files::from([(PathBuf::from(&token.path), file)]))
        } else {
            bail!("one of its sources is not supported by the tests' kubelet")
        }
    }

    /// The keys that a volume wants of a Secret or ConfigMap, as files.
    fn select(
        &self,
        content: Option<BTreeMap<String, Vec<u8>>>,
        items: Option<&Vec<KeyToPath>>,
        optional: Option<bool>,
        default_mode: Option<i32>,
    ) -> Result<Files> {
        let mut content = content.unwrap_or_default();
        let Some(items) = items else {
            let all =
                content.into_iter().map(|(key, value)| (PathBuf::from(key), self.file(value, default_mode)));
            return Ok(all.collect());
        };
        let mut files = Files::new();
        for item in items {
            match content.remove(&item.key) {
                Some(value) => {
                    files.insert(PathBuf::from(&item.path), self.file(value, item.mode.or(default_mode)));
                }
                None if optional == Some(true) => {}
                None => bail!("there is no key {:?}", item.key),
            }
        }
        Ok(files)
    }

    fn downward(&self, items: Option<&Vec<DownwardAPIVolumeFile>>, mode: Option<i32>) -> Result<Files> {
        let downward =
            Downward { pod: &self.pod, pod_address: self.address, node_address: self.kubelet.node_address() };
        let files = items.into_iter().flatten().map(|item| {
            let field =
                item.field_ref.as_ref().context("only fieldRef is supported by the tests' kubelet")?;
            let value = downward.field(&field.field_path)?;
            Ok((PathBuf::from(&item.path), self.file(value.into_bytes(), item.mode.or(mode))))
        });
        files.collect()
    }

    /// A token of the Pod's ServiceAccount, asked for anew when the one at hand grows old.
    async fn token(&mut self, path: &Path, wanted: &ServiceAccountTokenProjection) -> Result<String> {
        if let Some(token) = self.tokens.get(path).filter(|token| token.renewal > Instant::now()) {
            return Ok(token.value.clone());
        }
        let seconds = wanted.expiration_seconds.unwrap_or(TOKEN_SECONDS);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: wanted.audience.iter().cloned().collect(),
                expiration_seconds: Some(seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: self.pod.metadata.name.clone(),
                    uid: self.pod.metadata.uid.clone(),
                }),
            },
            ..TokenRequest::default()
        };
        let account =
            self.pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
        let accounts: Api<ServiceAccount> =
            Api::namespaced(self.kubelet.client.clone(), &self.pod.namespace().unwrap_or_default());
        let answer = accounts.create_token_request(account, &PostParams::default(), &request).await?;
        let value = answer.status.context("the answer holds no token")?.token;
        let life = Duration::from_secs(u64::try_from(seconds)?);
        let renewal = Instant::now() + life * TOKEN_RENEWAL.0 / TOKEN_RENEWAL.1;
        self.tokens.insert(path.to_path_buf(), Token { value: value.clone(), renewal });
        Ok(value)
    }

    fn file(&self, content: Vec<u8>, mode: Option<i32>) -> File {
        let group = self.fs_group();
        let readable_by_group = if group.is_some() { 0o440 } else { 0 };
        let mode = mode.unwrap_or(DEFAULT_MODE).unsigned_abs() | readable_by_group;
        File { content, mode, owner: None, group }
    }

    fn fs_group(&self) -> Option<u32> {
        let group = self.pod.spec.as_ref()?.security_context.as_ref()?.fs_group?;
        u32::try_from(group).ok()
    }

    /// The one user of all containers, who then owns the tokens.
    fn user(&self) -> Option<u32> {
        let spec = self.pod.spec.as_ref()?;
        let of_pod = spec.security_context.as_ref().and_then(|context| context.run_as_user);
        let mut users =
            spec.containers.iter().chain(spec.init_containers.iter().flatten()).map(|container| {
                container.security_context.as_ref().and_then(|context| context.run_as_user).or(of_pod)
            });
        let first = users.next()??;
        users.all(|user| user == Some(first)).then(|| u32::try_from(first).ok())?
    }
}
