//! Which of the configured registries an object means.
//!
//! Goes in: an object's Namespace and what it says of its registry. Comes out: the client of one registry, or why
//! there is none. What stays true: only registries that the administrator configured are ever contacted; a user
//! chooses among them and cannot add one.

mod choose;

use std::sync::Arc;

use arc_swap::ArcSwap;

pub use choose::{ChoiceError, Configured, Selector, choose};

use super::RegistryClient;

/// The configured registries, as they are now; cheap to clone.
#[derive(Clone)]
pub struct Directory {
    now: Arc<ArcSwap<Configured>>,
}

impl Directory {
    /// One registry, for every Namespace.
    #[must_use]
    pub fn of_one(client: RegistryClient, url: url::Url) -> Self {
        Self::of(Configured::of_one(client, url))
    }

    /// These registries.
    #[must_use]
    pub fn of(configured: Configured) -> Self {
        Self { now: Arc::new(ArcSwap::from_pointee(configured)) }
    }

    /// Replaces them.
    pub fn set(&self, configured: Configured) {
        self.now.store(Arc::new(configured));
    }

    /// The registry that an object means.
    pub fn choose(&self, namespace: &str, selector: &Selector<'_>) -> Result<RegistryClient, ChoiceError> {
        choose(&self.now.load(), namespace, selector)
    }

    /// All of them, to be swept; `None` while they are not known yet.
    #[must_use]
    pub fn all(&self) -> Option<Vec<RegistryClient>> {
        let now = self.now.load();
        now.complete.then(|| now.registries.iter().map(|registry| registry.client.clone()).collect())
    }
}
