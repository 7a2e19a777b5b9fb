//! What differs, name by name: the entries of every registry beside what was seen of the objects.
//!
//! Goes in: registries as they were listed. Comes out: for a name, its plan and what else is wrong with it. What stays
//! true: no I/O; resync and audit compare by this alone, so that what one prints is what the other writes.

use std::collections::{HashMap, HashSet};

use super::brake::EntryKey;
use super::listing::Listing;
use super::plan::{Action, Case, Plan, Row, Shelf, Sighting, Write, plan};
use super::store::Seen;
use super::world::World;
use crate::registration::ObjectName;
use crate::registry::directory::ChoiceError;
use crate::registry::{EntryId, InferenceService, RegistryClient};

/// One registry that was read.
pub(super) struct Read {
    pub(super) registry: RegistryClient,
    pub(super) listing: Listing,
}

/// The entries of all registries, by name.
pub(super) struct Cases {
    registries: Vec<RegistryCase>,
    names: HashSet<ObjectName>,
}

/// What came of comparing one name.
pub(super) struct Compared {
    pub(super) plan: Plan,
    /// Why the object has no registry, when it asks for one.
    pub(super) no_home: Option<ChoiceError>,
    /// The entry that the object's id label names, when it was not listed: it is retired, another cluster's, or
    /// there is none at all.
    pub(super) unaccounted: Option<EntryId>,
    /// The registry that the object means, as an index.
    pub(super) home: Option<usize>,
}

impl Compared {
    /// Whether a worker has to look at the name.
    pub(super) fn differs(&self) -> bool {
        !self.plan.writes.is_empty() || self.plan.stranger.is_some() || self.unaccounted.is_some()
    }
}

struct RegistryCase {
    registry: RegistryClient,
    listing: Listing,
    /// Where the entries of a name stand in the listing.
    by_name: HashMap<ObjectName, Vec<usize>>,
    by_id: HashMap<EntryId, usize>,
}

impl RegistryCase {
    fn new(Read { registry, listing }: Read) -> Self {
        let mut by_name: HashMap<ObjectName, Vec<usize>> = HashMap::new();
        let mut by_id = HashMap::new();
        for (at, entry) in listing.entries.iter().enumerate() {
            by_id.insert(entry.id, at);
            if let Some(name) = listing.object_of(entry) {
                by_name.entry(name).or_default().push(at);
            }
        }
        Self { registry, listing, by_name, by_id }
    }

    /// The entries that may be an object's: those of its name, and the one that its id label names.
    fn entries(&self, name: &ObjectName, labelled: Option<EntryId>) -> Vec<InferenceService> {
        let mut places = self.by_name.get(name).cloned().unwrap_or_default();
        let labelled = labelled.and_then(|id| self.by_id.get(&id)).copied();
        places.extend(labelled.filter(|labelled| !places.contains(labelled)));
        places.into_iter().map(|at| self.listing.entries[at].clone()).collect()
    }
}

impl Cases {
    /// Cases of the names that have entries.
    pub(super) fn new(reads: Vec<Read>) -> Self {
        let registries: Vec<RegistryCase> = reads.into_iter().map(RegistryCase::new).collect();
        let names = registries.iter().flat_map(|case| case.by_name.keys().cloned()).collect();
        Self { registries, names }
    }

    /// Adds names that may have no entry.
    pub(super) fn add_names(&mut self, names: impl IntoIterator<Item = ObjectName>) {
        self.names.extend(names);
    }

    /// All names.
    pub(super) fn names(&self) -> &HashSet<ObjectName> {
        &self.names
    }

    /// The registry that a plan's index means.
    pub(super) fn registry(&self, at: usize) -> &RegistryClient {
        &self.registries[at].registry
    }

    /// The entry that a planned write is about.
    pub(super) fn key(&self, write: &Write) -> Option<EntryKey> {
        Some((self.registry(write.registry).id(), write.entry()?))
    }

    /// Plans for one name.
    pub(super) fn compare(&self, world: &World, name: &ObjectName, seen: &Seen) -> Compared {
        let object = seen.object().filter(|object| object.opted_in());
        let chosen = object
            .map(|object| world.directory.choose(&name.namespace, &object.registry.selector()))
            .transpose();
        let (chosen, no_home) = match chosen {
            Ok(chosen) => (chosen, None),
            Err(error) => (None, Some(error)),
        };
        let is_home =
            |case: &RegistryCase| chosen.as_ref().is_some_and(|home| home.id() == case.registry.id());
        let home = self.registries.iter().position(is_home);
        let labelled = object.and_then(|object| object.entry.id());
        let mut held: Vec<Vec<InferenceService>> = self
            .registries
            .iter()
            .enumerate()
            .map(|(at, case)| case.entries(name, labelled.filter(|_| home == Some(at))))
            .collect();
        let mut plan = self.plan(world, name, seen, home, &held);
        if plan.writes.iter().any(|write| write.row == Row::TakeOver) {
            // What comes after it is planned from what it leaves.
            for write in &plan.writes {
                make_believe(&mut held[write.registry], write);
            }
            let then = self.plan(world, name, seen, home, &held);
            plan.writes.extend(then.writes);
            plan.due_in = then.due_in;
            plan.stranger = then.stranger;
        }
        let unaccounted = live_label(seen)
            .filter(|labelled| home.is_some_and(|home| held[home].iter().all(|entry| entry.id != *labelled)));
        Compared { plan, no_home, unaccounted, home }
    }

    fn plan(
        &self,
        world: &World,
        name: &ObjectName,
        seen: &Seen,
        home: Option<usize>,
        held: &[Vec<InferenceService>],
    ) -> Plan {
        let shelves: Vec<Shelf<'_>> = self
            .registries
            .iter()
            .zip(held)
            .enumerate()
            .map(|(at, (case, entries))| Shelf {
                home: home == Some(at),
                environment: case.listing.environment_of(&name.namespace),
                now_ms: world.known.now_ms(case.registry.id()),
                entries,
            })
            .collect();
        plan(&Case {
            cluster: &world.cluster,
            former_cluster: world.former_cluster.as_ref(),
            name,
            watched: world.store.watches(&name.namespace),
            sighting: seen.sighting(),
            registries: &shelves,
            refused_version: None,
            recorded: None,
            rules: world.rules,
        })
    }
}

/// Changes an entry as a write would.
fn make_believe(entries: &mut [InferenceService], write: &Write) {
    let Action::Patch { entry, patch, .. } = &write.action else { return };
    let Some(known) = entries.iter_mut().find(|known| known.id == *entry) else { return };
    known.desired_state = patch.desired_state;
    if let Some(properties) = &patch.custom_properties {
        known.custom_properties.clone_from(properties);
    }
}

/// The id label of an object that is there to stay.
fn live_label(seen: &Seen) -> Option<EntryId> {
    match seen.sighting() {
        Sighting::Live(live) => live.object.entry.id(),
        _ => None,
    }
}
