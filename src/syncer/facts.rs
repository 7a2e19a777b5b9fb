//! What is known of one name, gathered afresh before anything is planned.
//!
//! Goes in: a name and what was seen of its object. Comes out: the entries that may be its own, read just now from
//! each registry that may have some. What stays true: a registry that could not be asked is left out whole, so
//! that nothing is planned from half of what it has.

use futures::future::join_all;

use super::brake::EntryKey;
use super::lanes::Leave;
use super::plan::{Case, Plan, Shelf, plan};
use super::store::Seen;
use super::world::World;
use crate::registration::ObjectName;
use crate::registration::ownership::is_ours;
use crate::registry::directory::ChoiceError;
use crate::registry::{
    EntryId, EnvironmentId, InferenceService, ModelVersionId, RegistryClient, RegistryError,
};

/// What is known of one name.
pub(super) struct Facts {
    pub(super) name: ObjectName,
    pub(super) seen: Seen,
    pub(super) shelves: Vec<OwnedShelf>,
    /// Why the object has no registry, when it asks for one.
    pub(super) no_home: Option<ChoiceError>,
    /// Registries that could not be asked, and why.
    pub(super) failed: Vec<(RegistryClient, RegistryError)>,
    pub(super) refused_version: Option<ModelVersionId>,
    pub(super) recorded: Option<String>,
    /// Whether the API server said that there is no such object, and its one entry was read after that, and nothing
    /// after the entry: what is planned from this, and written first, needs no second look.
    pub(super) absence_confirmed: bool,
    /// Held until the job has ended.
    leave: Option<Leave>,
}

/// Why nothing can be known of a name now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotNow {
    /// The Services of the registries have not been listed yet.
    #[error("the registries are not known yet")]
    RegistriesUnknown,
    /// A registry has its share of workers already.
    #[error("a registry that is needed keeps enough workers busy already")]
    Busy,
}

/// One registry and the entries it has for the name.
#[derive(Clone)]
pub(super) struct OwnedShelf {
    pub(super) registry: RegistryClient,
    pub(super) home: bool,
    pub(super) environment: Option<EnvironmentId>,
    pub(super) entries: Vec<InferenceService>,
}

impl OwnedShelf {
    pub(super) fn key(&self, entry: EntryId) -> EntryKey {
        (self.registry.id(), entry)
    }

    /// Puts an entry in the place of what was known of it.
    pub(super) fn put(&mut self, entry: InferenceService) {
        match self.entries.iter_mut().find(|known| known.id == entry.id) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
    }
}

impl Facts {
    /// Reads everything that is known to exist for the name.
    pub(super) async fn gather(world: &World, name: &ObjectName, seen: Seen) -> Result<Self, NotNow> {
        let mut registries = world.directory.all().ok_or(NotNow::RegistriesUnknown)?;
        let object = seen.object().filter(|object| object.opted_in());
        let home = object
            .map(|object| world.directory.choose(&name.namespace, &object.registry.selector()))
            .transpose();
        let (home, no_home) = match home {
            Ok(home) => (home, None),
            Err(error) => (None, Some(error)),
        };
        if let Some(home) = &home
            && !registries.iter().any(|registry| registry.id() == home.id())
        {
            // Configured a moment ago.
            registries.push(home.clone());
        }
        let mut facts = Self {
            name: name.clone(),
            shelves: Vec::new(),
            no_home,
            failed: Vec::new(),
            refused_version: None,
            recorded: None,
            absence_confirmed: false,
            leave: None,
            seen,
        };
        let known = world.known.entries(name);
        let labelled = facts.seen.object().and_then(|object| object.entry.id());
        let configured = registries.len();
        let wanted: Vec<(RegistryClient, bool, Vec<EntryId>)> = registries
            .into_iter()
            .filter_map(|registry| {
                let home = home.as_ref().is_some_and(|home| home.id() == registry.id());
                let of_registry = known.iter().filter(|(of, _)| *of == registry.id());
                let mut ids: Vec<EntryId> = of_registry.map(|(_, id)| *id).collect();
                ids.extend(labelled.filter(|labelled| home && !ids.contains(labelled)));
                (home || !ids.is_empty()).then_some((registry, home, ids))
            })
            .collect();
        let leave = world.lanes.enter(wanted.iter().map(|(registry, ..)| registry.id()), configured);
        facts.leave = Some(leave.ok_or(NotNow::Busy)?);
        let is_one_entry = matches!(&wanted[..], [(_, _, ids)] if ids.len() == 1);
        let is_absent = is_one_entry && is_absent(world, name, &facts.seen).await;
        let reads =
            wanted.into_iter().map(|(registry, home, ids)| read_shelf(world, name, registry, home, ids));
        for read in join_all(reads).await {
            match read {
                Ok(shelf) => facts.shelves.push(shelf),
                Err(failure) => facts.failed.push(failure),
            }
        }
        // After an entry that is not ours its environment was read too.
        let mut entries = facts.shelves.iter().flat_map(|shelf| &shelf.entries);
        facts.absence_confirmed = is_absent && entries.all(is_ours);
        Ok(facts)
    }

    /// The same, with the object seen like this. `None` when the object means another registry now, so that what
    /// was read does not answer for it.
    pub(super) fn with_seen(&self, seen: Seen) -> Option<Self> {
        let same_registry = match (self.seen.object(), seen.object()) {
            (Some(before), Some(now)) => before.registry == now.registry,
            (None, None) => true,
            _ => false,
        };
        same_registry.then(|| Self {
            name: self.name.clone(),
            seen,
            shelves: self.shelves.clone(),
            no_home: self.no_home.clone(),
            failed: self.failed.clone(),
            refused_version: self.refused_version,
            recorded: self.recorded.clone(),
            absence_confirmed: false,
            leave: None,
        })
    }

    /// The plan for what is known.
    pub(super) fn plan(&self, world: &World) -> Plan {
        let shelves: Vec<Shelf<'_>> = self
            .shelves
            .iter()
            .map(|shelf| Shelf {
                home: shelf.home,
                environment: shelf.environment,
                now_ms: world.known.now_ms(shelf.registry.id()),
                entries: &shelf.entries,
            })
            .collect();
        plan(&Case {
            cluster: &world.cluster,
            former_cluster: world.former_cluster.as_ref(),
            name: &self.name,
            watched: world.store.watches(&self.name.namespace),
            sighting: self.seen.sighting(),
            registries: &shelves,
            refused_version: self.refused_version,
            recorded: self.recorded.as_deref(),
            rules: world.rules,
        })
    }
}

/// Whether an object that is taken for absent is: from no cache, and still so when the answer has come. Of one that is
/// there after all, or cannot be asked for, the [guard](super::guard) has more to say.
async fn is_absent(world: &World, name: &ObjectName, seen: &Seen) -> bool {
    let is_absent = |seen: &Seen| matches!(seen, Seen::Gone { .. } | Seen::Never);
    is_absent(seen) && matches!(world.objects.get(name).await, Ok(None)) && is_absent(&world.store.seen(name))
}

async fn read_shelf(
    world: &World,
    name: &ObjectName,
    registry: RegistryClient,
    home: bool,
    ids: Vec<EntryId>,
) -> Result<OwnedShelf, (RegistryClient, RegistryError)> {
    let reads = join_all(ids.iter().map(|id| registry.entry(*id))).await;
    let mut entries = Vec::new();
    for (id, read) in ids.into_iter().zip(reads) {
        match read {
            Ok(Some(entry)) => entries.push(entry),
            // A registry restored from a backup has fewer.
            Ok(None) => world.known.forget(name, (registry.id(), id)),
            Err(error) => return Err((registry, error)),
        }
    }
    // The environment matters only for what is tied to the object by its name.
    let environment = if entries.iter().all(is_ours) {
        None
    } else {
        match registry.environment(&name.namespace).await {
            Ok(environment) => environment.map(|environment| environment.id),
            Err(error) => return Err((registry, error)),
        }
    };
    Ok(OwnedShelf { registry, home, environment, entries })
}
