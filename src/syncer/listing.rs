//! All that one registry has to say about this cluster, in pages.
//!
//! Goes in: a registry, and how far back to read. Comes out: the entries that may belong to an object here, with
//! the names of their environments. What stays true: a list that broke off is no list; memory follows what is
//! wanted, not what ever was.

use std::collections::HashMap;

use crate::registration::ClusterId;
use crate::registration::ObjectName;
use crate::registration::ownership::{CLUSTER, is_ours, made_for};
use crate::registry::{
    EnvironmentId, InferenceService, PageRequest, RegistryClient, RegistryError, ServingEnvironment,
    SortOrder,
};

/// Entries on one page: half a megabyte at the size they commonly have.
const PAGE: u32 = 500;

/// Entries updated so shortly before the newest one of the last list are read again: writes that overlap may
/// become visible out of order. In milliseconds.
const OVERLAP_MS: i64 = 60_000;

/// What was read of one registry.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Entries that may belong to an object of this cluster.
    pub(super) entries: Vec<InferenceService>,
    environments: HashMap<EnvironmentId, String>,
    by_name: HashMap<String, EnvironmentId>,
    /// The newest update that was seen, in milliseconds since the epoch.
    pub(super) newest_ms: i64,
    /// The registry's clock at the end, in milliseconds since the epoch.
    pub(super) registry_time_ms: Option<i64>,
}

impl Listing {
    /// The object that an entry was made for, by its stamp, or else by its environment and its name.
    pub(super) fn object_of(&self, entry: &InferenceService) -> Option<ObjectName> {
        if let Some((_, object)) = made_for(entry) {
            return Some(object);
        }
        let namespace = self.environments.get(&entry.serving_environment_id)?;
        let name = entry.name.split('/').next().filter(|name| !name.is_empty())?;
        Some(ObjectName::new(namespace.clone(), name))
    }

    /// The environment named as a Namespace.
    pub(super) fn environment_of(&self, namespace: &str) -> Option<EnvironmentId> {
        self.by_name.get(namespace).copied()
    }

    fn set_environments(&mut self, environments: Vec<ServingEnvironment>) {
        self.by_name = environments.iter().map(|found| (found.name.clone(), found.id)).collect();
        self.environments = environments.into_iter().map(|found| (found.id, found.name)).collect();
    }
}

/// Everything that is wanted. Sorted by id, so that nothing that changes meanwhile is missed. Who decides what is
/// wanted sees the environments, and the rest of the listing as far as it is read.
pub(super) async fn everything(
    registry: &RegistryClient,
    wanted: impl Fn(&Listing, &InferenceService) -> bool,
) -> Result<Listing, RegistryError> {
    let mut listing = Listing::default();
    listing.set_environments(environments(registry).await?);
    let mut page = PageRequest { size: PAGE, order: SortOrder::IdAscending, token: None };
    loop {
        let answer = registry.entries(&page).await?;
        for entry in answer.items {
            listing.newest_ms = listing.newest_ms.max(entry.last_update_ms);
            if wanted(&listing, &entry) {
                listing.entries.push(entry);
            }
        }
        listing.registry_time_ms = answer.registry_time_ms.or(listing.registry_time_ms);
        match answer.next {
            Some(next) => page.token = Some(next),
            None => return Ok(listing),
        }
    }
}

/// What has been updated since `newest_ms` of the list before, whatever its state.
pub(super) async fn changes(
    registry: &RegistryClient,
    cluster: &ClusterId,
    since_ms: i64,
) -> Result<Listing, RegistryError> {
    let mut listing = Listing { newest_ms: since_ms, ..Listing::default() };
    let mut page = PageRequest { size: PAGE, order: SortOrder::LastUpdateDescending, token: None };
    loop {
        let answer = registry.entries(&page).await?;
        listing.registry_time_ms = answer.registry_time_ms.or(listing.registry_time_ms);
        let mut reached = false;
        for entry in answer.items {
            reached |= entry.last_update_ms < since_ms.saturating_sub(OVERLAP_MS);
            listing.newest_ms = listing.newest_ms.max(entry.last_update_ms);
            if !reached && may_be_of(&entry, cluster) {
                listing.entries.push(entry);
            }
        }
        match answer.next {
            Some(next) if !reached => page.token = Some(next),
            _ => break,
        }
    }
    if listing.entries.iter().any(|entry| !is_ours(entry)) {
        listing.set_environments(environments(registry).await?);
    }
    Ok(listing)
}

/// Whether an entry may belong to an object of this cluster: it says so, or says nothing.
pub(super) fn may_be_of(entry: &InferenceService, cluster: &ClusterId) -> bool {
    entry.custom_properties.string(CLUSTER).is_none_or(|of| of == cluster.as_str())
}

async fn environments(registry: &RegistryClient) -> Result<Vec<ServingEnvironment>, RegistryError> {
    let mut environments = Vec::new();
    let mut page = PageRequest { size: PAGE, order: SortOrder::IdAscending, token: None };
    loop {
        let answer = registry.environments(&page).await?;
        environments.extend(answer.items);
        match answer.next {
            Some(next) => page.token = Some(next),
            None => return Ok(environments),
        }
    }
}
