//! Keeps a directory true: watches Services and the registries file.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};

use super::Directory;
use super::file::{self, FileError, ServiceName};
use super::service::{Address, LABEL, address};
use super::sources::Sources;

/// How often the file is looked at: kubelet swaps a link above it, which no watch of the file would see.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// The sources of a directory, and the directory they make.
#[derive(Clone)]
pub(super) struct Keeper {
    sources: Arc<Mutex<Sources>>,
    directory: Directory,
}

impl Keeper {
    pub(super) fn new(sources: Sources, directory: Directory) -> Self {
        let keeper = Self { sources: Arc::new(Mutex::new(sources)), directory };
        keeper.change(|_| ());
        keeper
    }

    /// Changes the sources and then the directory, as one.
    fn change(&self, change: impl FnOnce(&mut Sources)) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut sources);
        self.directory.set(sources.configured());
    }

    /// Reads the file now.
    pub(super) async fn read_file(&self, path: &PathBuf) -> Result<String, FileError> {
        let text = tokio::fs::read_to_string(path).await.map_err(FileError::Unreadable)?;
        let registries = file::read(&text)?;
        self.change(|sources| sources.set_file(registries));
        Ok(text)
    }

    /// Reads the file whenever it changes, for ever. One that makes no sense is passed over, and said once.
    pub(super) async fn follow_file(self, path: PathBuf, mut known: String) {
        let mut last_error = String::new();
        loop {
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
            match tokio::fs::read_to_string(&path).await {
                Ok(now) if now == known => continue,
                _ => {}
            }
            match self.read_file(&path).await {
                Ok(now) => {
                    tracing::info!(file = %path.display(), "the registries file has changed");
                    known = now;
                    last_error.clear();
                }
                Err(error) => {
                    let error = error.to_string();
                    if error != last_error {
                        tracing::warn!(error, "the registries file cannot be used, the last good one stays");
                        last_error = error;
                    }
                }
            }
        }
    }

    /// Watches the registries' Services of one namespace, for ever.
    #[tracing::instrument(name = "watch", skip_all, fields(kind = "Service", namespace))]
    pub(super) async fn follow_services(self, client: kube::Client, namespace: String) {
        let services: Api<Service> = Api::namespaced(client, &namespace);
        let config = watcher::Config::default().labels(LABEL);
        let mut events = watcher(services, config).default_backoff().boxed();
        let mut coming = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(service)) => self.change(|sources| {
                    if let Some(name) = name_of(&service) {
                        sources.set_service(name, address_of(&service));
                    }
                }),
                Ok(Event::Delete(service)) => self.change(|sources| {
                    if let Some(name) = name_of(&service) {
                        sources.set_service(name, None);
                    }
                }),
                Ok(Event::Init) => coming.clear(),
                Ok(Event::InitApply(service)) => coming.extend(name_of(&service).zip(address_of(&service))),
                Ok(Event::InitDone) => {
                    let listed = std::mem::take(&mut coming);
                    tracing::info!(registries = listed.len(), "listed the Services of registries");
                    self.change(|sources| sources.set_listed(&namespace, listed));
                }
                Err(error) => tracing::warn!(%error, "the watch of Services failed and starts anew"),
            }
        }
    }
}

fn name_of(service: &Service) -> Option<ServiceName> {
    let metadata = &service.metadata;
    Some(ServiceName { namespace: metadata.namespace.clone()?, name: metadata.name.clone()? })
}

/// The address, or a line in the log that says what the Service lacks.
fn address_of(service: &Service) -> Option<Address> {
    let address = address(service);
    if address.is_none() {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        tracing::warn!(
            name,
            "a Service of a registry has no port http-api or https-api, nor only one port, and is left out"
        );
    }
    address
}
