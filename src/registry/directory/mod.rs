//! Which of the configured registries an object means.
//!
//! Goes in: an object's Namespace and what it says of its registry. Comes out: the client of one registry, or why
//! there is none. What stays true: only registries that the administrator configured are ever contacted; a user
//! chooses among them and cannot add one.

mod choose;
mod file;
mod service;
mod sources;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch::{Receiver, Sender};
use url::Url;

pub use choose::{ChoiceError, Configured, NamespaceView, Registry, Scope, Selector, Source, Way, choose};
pub use file::FileError;
pub use service::EXTERNAL_ADDRESS;
pub use sources::Defaults;

use super::RegistryClient;
use crate::namespaces::Namespaces;
use sources::Sources;
use watch::Keeper;

/// The configured registries, as they are now; cheap to clone.
#[derive(Clone)]
pub struct Directory {
    now: Arc<ArcSwap<Configured>>,
    changed: Sender<()>,
    namespaces: Namespaces,
}

/// Where the configured registries come from.
pub struct Settings {
    /// What holds for those that say nothing else.
    pub defaults: Defaults,
    /// Name and URL of the one that the flags name.
    pub flags: Option<(String, Url)>,
    /// The registries file.
    pub file: Option<PathBuf>,
    /// The namespaces whose Services are looked at; the first is where a registry named without one is looked for.
    pub namespaces: Vec<String>,
}

impl Directory {
    /// Exactly these registries.
    #[must_use]
    pub fn of(configured: Configured) -> Self {
        let now = Arc::new(ArcSwap::from_pointee(configured));
        Self { now, changed: Sender::default(), namespaces: Namespaces::default() }
    }

    /// The registries of the settings, kept true in the background for as long as the runtime lives. Without a
    /// client for a cluster no Services are looked at.
    pub async fn follow(
        settings: Settings,
        namespaces: Namespaces,
        cluster: Option<&kube::Client>,
    ) -> Result<Self, FileError> {
        let directory = Self { now: Arc::default(), changed: Sender::default(), namespaces };
        let watched = if cluster.is_some() { settings.namespaces } else { Vec::new() };
        let keeper =
            Keeper::new(Sources::new(settings.defaults, settings.flags, watched.clone()), directory.clone());
        if let Some(path) = settings.file {
            let text = keeper.read_file(&path).await?;
            tokio::spawn(keeper.clone().follow_file(path, text));
        }
        for (client, namespace) in
            cluster.into_iter().flat_map(|client| watched.iter().map(move |ns| (client, ns)))
        {
            tokio::spawn(keeper.clone().follow_services(client.clone(), namespace.clone()));
        }
        Ok(directory)
    }

    /// Replaces the registries.
    pub fn set(&self, configured: Configured) {
        self.now.store(Arc::new(configured));
        self.changed.send_replace(());
    }

    /// Waits until all registries are known.
    pub async fn known(&self) {
        let mut changes = self.changes();
        // The sender lives in `self`, so this only ends with the condition.
        let _ = changes.wait_for(|()| self.now.load().complete).await;
    }

    /// Tells of every replacement from now on.
    #[must_use]
    pub fn changes(&self) -> Receiver<()> {
        self.changed.subscribe()
    }

    /// The registry that an object means.
    pub fn choose(&self, namespace: &str, selector: &Selector<'_>) -> Result<RegistryClient, ChoiceError> {
        let labels = self.namespaces.labels(namespace);
        choose(&self.now.load(), &NamespaceView { name: namespace, labels: labels.as_deref() }, selector)
    }

    /// All that there is a way to, to be swept; `None` while they are not known yet.
    #[must_use]
    pub fn all(&self) -> Option<Vec<RegistryClient>> {
        let now = self.now.load();
        let ways = now.registries.iter().filter_map(|registry| registry.way.as_ref());
        now.complete.then(|| ways.map(|way| way.client.clone()).collect())
    }
}
