//! What to write about one name: the syncer's table, as a pure function.
//!
//! Goes in: a [`Case`], which is what is known of one object, the entries that may be its own in each configured
//! registry, the registries' clocks and the rules. Comes out: a [`Plan`], the writes that would make the entries
//! true, or none. What stays true: no I/O, no clock; nothing is planned for an entry that does not belong to the
//! object; a plan for what the plan before has written is empty.
//!
//! | # | object | entry | write |
//! |---|---|---|---|
//! | 1 | gone, or being deleted | belonging, DEPLOYED | UNDEPLOYED |
//! | 2 | live, without model and id label | ours, DEPLOYED | UNDEPLOYED |
//! | 3 | live, model label | none | register |
//! | 4 | live | its entry, something differs | one PATCH with all of it |
//! | 5 | live | another of ours, DEPLOYED, untouched for the grace | UNDEPLOYED |
//! | 6 | live, version label, ready or failed | its entry, `recorded` says something else | a record of its history |
//! | 7 | never seen | ours, DEPLOYED, untouched for the grace | UNDEPLOYED |
//! | 8 | live, named by `audit --take-over` | of the former cluster, made for this very name | our cluster's id |
//!
//! Row 1 takes an entry without our stamp only when it is the very one the object used, and row 5 takes none: an
//! entry that is not ours is retired only after a deletion that was seen, and only by the object that had it.

mod settle;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::object::{IdLabel, Object};
use crate::registration::ownership::{Claimant, Tie, made_for, tie};
use crate::registration::{ClusterId, ObjectName, naming};
use crate::registry::{DesiredState, EntryId, EntryPatch, EnvironmentId, InferenceService, NewServeModel};

pub use settle::RECORDED;

/// What is known about one name.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The cluster whose objects these are.
    pub cluster: &'a ClusterId,
    /// A cluster that is no more, whose entries are taken over for the objects that are here.
    pub former_cluster: Option<&'a ClusterId>,
    /// The name.
    pub name: &'a ObjectName,
    /// Whether its Namespace is watched: nothing is known of any other.
    pub watched: bool,
    /// What was seen of the object.
    pub sighting: Sighting<'a>,
    /// The configured registries, with the entries that may be the object's.
    pub registries: &'a [Shelf<'a>],
    /// A version of its label that turned out not to be its model's: it is not written.
    pub refused_version: Option<crate::registry::ModelVersionId>,
    /// The record of its history that was written last, when its entry does not say so yet.
    pub recorded: Option<&'a str>,
    /// The rules.
    pub rules: Rules,
}

/// What was seen of an object.
#[derive(Debug, Clone, Copy)]
pub enum Sighting<'a> {
    /// It is there.
    Live(Live<'a>),
    /// It is there with a `deletionTimestamp`: it will go, and nothing can hold that up.
    Deleting(&'a Object),
    /// This process saw it go; this is what it was.
    Gone(&'a Object),
    /// Every list is complete, and it was in none.
    NeverSeen,
    /// The lists are not complete, so nothing follows from its absence.
    Unknown,
}

/// An object that is there.
#[derive(Debug, Clone, Copy)]
pub struct Live<'a> {
    /// What is kept of it.
    pub object: &'a Object,
    /// Whether its status has changed since its version label did, or since it was first seen.
    pub status_moved: bool,
    /// How long it has been as ready, or as failed, as it is.
    pub outcome_held: Duration,
}

/// One registry, as far as it concerns one name.
#[derive(Debug, Clone, Copy)]
pub struct Shelf<'a> {
    /// Whether it is the registry that the object means.
    pub home: bool,
    /// The environment named as the object's Namespace, where there is one.
    pub environment: Option<EnvironmentId>,
    /// The registry's clock, in milliseconds since the epoch; none when it has not been read.
    pub now_ms: Option<i64>,
    /// Entries that may be the object's.
    pub entries: &'a [InferenceService],
}

/// What the administrator chose.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// How long an entry must have been untouched before rows 5 and 7 take it.
    pub grace: Duration,
    /// Whether anything is retired at all.
    pub retire: bool,
}

/// What to write.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The writes, in the order in which they are to be made.
    pub writes: Vec<Write>,
    /// When to look again, for what only time keeps from being written.
    pub due_in: Option<Duration>,
    /// The entry that the id label names, when it is there and belongs to somebody else.
    pub stranger: Option<EntryId>,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// The row of the table.
    pub row: Row,
    /// Where, as an index into [`Case::registries`].
    pub registry: usize,
    /// What.
    pub action: Action,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Row {
    /// Its object is gone.
    Gone = 1,
    /// Its object has neither label any more.
    OptedOut = 2,
    /// Its object has no entry.
    Register = 3,
    /// It says something else than its object.
    Settle = 4,
    /// Its object has another entry.
    Former = 5,
    /// Its history lacks a deployment.
    Record = 6,
    /// No object of its name was ever seen.
    NeverSeen = 7,
    /// It is still stamped with a cluster that is no more; planned only where one was named.
    TakeOver = 8,
}

impl Row {
    /// Its number in the table.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// What to write.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Find the object's entry or create it.
    Register,
    /// PATCH the entry.
    Patch {
        /// The entry.
        entry: EntryId,
        /// All that differs, and what has to go with it.
        patch: EntryPatch,
        /// The names of the fields and properties that differ.
        differs: Vec<&'static str>,
    },
    /// Add to the entry's history.
    Record {
        /// The entry.
        entry: EntryId,
        /// The record.
        record: NewServeModel,
    },
}

impl Write {
    /// Whether it sets an entry to UNDEPLOYED.
    #[must_use]
    pub fn retires(&self) -> bool {
        matches!(&self.action, Action::Patch { patch, .. } if patch.desired_state == DesiredState::Undeployed)
    }

    /// Whether it may be sent only after object and entry were both read again: it changes an entry's state, or whose
    /// the entry is.
    #[must_use]
    pub fn needs_a_second_look(&self) -> bool {
        self.row == Row::TakeOver || self.changes_state()
    }

    /// Whether it sets an entry to the other state than the one it is in.
    #[must_use]
    pub fn changes_state(&self) -> bool {
        matches!(&self.action, Action::Patch { differs, .. } if differs.contains(&settle::DESIRED_STATE))
    }

    /// The entry it is about.
    #[must_use]
    pub fn entry(&self) -> Option<EntryId> {
        match self.action {
            Action::Register => None,
            Action::Patch { entry, .. } | Action::Record { entry, .. } => Some(entry),
        }
    }
}

/// Goes through the table.
#[must_use]
pub fn plan(case: &Case<'_>) -> Plan {
    let mut plan = Plan::default();
    if !case.watched {
        return plan;
    }
    match case.sighting {
        Sighting::Unknown => {}
        Sighting::Deleting(object) | Sighting::Gone(object) => row_1(case, object, &mut plan),
        Sighting::Live(live) if !live.object.opted_in() => row_2(case, live.object, &mut plan),
        Sighting::Live(live) => {
            row_8(case, &mut plan);
            // All else is planned from what that leaves.
            if plan.writes.is_empty() {
                rows_3_to_6(case, &live, &mut plan);
            }
        }
        Sighting::NeverSeen => row_7(case, &mut plan),
    }
    if !case.rules.retire {
        plan.writes.retain(|write| !write.retires());
        plan.due_in = None;
    }
    plan
}

fn row_1(case: &Case<'_>, object: &Object, plan: &mut Plan) {
    for (at, shelf, entry) in deployed(case) {
        let retire = match tie(entry, &case.claimant(shelf, Some(object))) {
            Some(Tie::Ours) => true,
            Some(Tie::ByName | Tie::ByHand) => shelf.home && is_used_by(entry, object),
            None => false,
        };
        if retire {
            plan.writes.push(retirement(Row::Gone, at, entry));
        }
    }
}

fn row_2(case: &Case<'_>, object: &Object, plan: &mut Plan) {
    for (at, shelf, entry) in deployed(case) {
        if tie(entry, &case.claimant(shelf, Some(object))) == Some(Tie::Ours) {
            plan.writes.push(retirement(Row::OptedOut, at, entry));
        }
    }
}

fn rows_3_to_6(case: &Case<'_>, live: &Live<'_>, plan: &mut Plan) {
    // Without a registry that the object means, nothing can be said of any entry.
    let Some((home, shelf)) = case.registries.iter().enumerate().find(|(_, shelf)| shelf.home) else {
        return;
    };
    let object = live.object;
    let claimant = case.claimant(shelf, Some(object));
    plan.stranger = claimant
        .labelled
        .filter(|id| shelf.entries.iter().any(|entry| entry.id == *id && tie(entry, &claimant).is_none()));
    let Some((its, bond)) = its_entry(shelf, object, &claimant) else {
        // Row 3. The entries of a former model stay until there is another.
        if object.model.id().is_some() {
            plan.writes.push(Write { row: Row::Register, registry: home, action: Action::Register });
        }
        return;
    };
    // Row 6 comes before row 4, whose PATCH then says that it was done.
    match settle::record(case, live, its) {
        settle::History::Told => {}
        settle::History::Missing(record) => plan.writes.push(Write {
            row: Row::Record,
            registry: home,
            action: Action::Record { entry: its.id, record },
        }),
        settle::History::TooEarly(wait) => plan.look_again_in(wait),
    }
    // Row 4.
    if let Some(action) = settle::settle(case, object, its, bond) {
        plan.writes.push(Write { row: Row::Settle, registry: home, action });
    }
    // Row 5.
    for (at, shelf, entry) in deployed(case) {
        // Of a registry that is configured twice, by its URL and by its Service, every entry is there twice.
        let is_its = entry.id == its.id && (at == home || entry == its);
        if !is_its && tie(entry, &case.claimant(shelf, Some(object))) == Some(Tie::Ours) {
            after_the_grace(case, Row::Former, at, entry, plan);
        }
    }
}

fn row_7(case: &Case<'_>, plan: &mut Plan) {
    for (at, shelf, entry) in deployed(case) {
        if tie(entry, &case.claimant(shelf, None)) == Some(Tie::Ours) {
            after_the_grace(case, Row::NeverSeen, at, entry, plan);
        }
    }
}

fn row_8(case: &Case<'_>, plan: &mut Plan) {
    let Some(former) = case.former_cluster else { return };
    for (registry, shelf) in case.registries.iter().enumerate() {
        let theirs = |entry: &&InferenceService| {
            made_for(entry)
                .is_some_and(|(cluster, object)| cluster == former.as_str() && object == *case.name)
        };
        let taken_over = shelf.entries.iter().filter(theirs).map(|entry| settle::take_over(case, entry));
        plan.writes.extend(taken_over.map(|action| Write { row: Row::TakeOver, registry, action }));
    }
}

impl<'a> Case<'a> {
    /// The object as somebody an entry may belong to. An id label names an entry of the object's own registry.
    fn claimant(&self, of: &Shelf<'_>, object: Option<&Object>) -> Claimant<'a> {
        Claimant {
            cluster: self.cluster,
            object: self.name,
            environment: of.environment,
            labelled: object.filter(|_| of.home).and_then(|object| object.entry.id()),
        }
    }
}

impl Plan {
    fn look_again_in(&mut self, wait: Duration) {
        self.due_in = Some(self.due_in.map_or(wait, |due| due.min(wait)));
    }
}

/// The entry of an object: the labelled one, else the one found by name.
fn its_entry<'e>(
    home: &Shelf<'e>,
    object: &Object,
    claimant: &Claimant<'_>,
) -> Option<(&'e InferenceService, Tie)> {
    let usable = |entry: &'e InferenceService| {
        tie(entry, claimant).filter(|_| serves(entry, object)).map(|bond| (entry, bond))
    };
    let labelled = home.entries.iter().find(|entry| Some(entry.id) == claimant.labelled).and_then(usable);
    let by_name = || {
        let model = object.model.id()?;
        let [first, second, third] = naming::candidates(claimant.object, model, claimant.cluster);
        let names = [naming::by_uid(claimant.object, &object.uid), first, second, third];
        names.iter().find_map(|name| home.entries.iter().find(|entry| entry.name == *name).and_then(usable))
    };
    labelled.or_else(by_name)
}

/// Whether an entry serves the labelled model, where one is labelled.
fn serves(entry: &InferenceService, object: &Object) -> bool {
    match object.model {
        IdLabel::Absent => true,
        IdLabel::Id(model) => entry.registered_model_id == model,
        IdLabel::Malformed => false,
    }
}

/// Whether an entry that is not ours is the one that the object used: its label or its model says so.
fn is_used_by(entry: &InferenceService, object: &Object) -> bool {
    serves(entry, object) && (object.model != IdLabel::Absent || object.entry.id() == Some(entry.id))
}

/// All entries that are DEPLOYED, with their registry.
fn deployed<'a>(
    case: &Case<'a>,
) -> impl Iterator<Item = (usize, &'a Shelf<'a>, &'a InferenceService)> + use<'a> {
    let all = case.registries.iter().enumerate();
    all.flat_map(|(at, shelf)| shelf.entries.iter().map(move |entry| (at, shelf, entry)))
        .filter(|(_, _, entry)| entry.desired_state == DesiredState::Deployed)
}

fn after_the_grace(case: &Case<'_>, row: Row, at: usize, entry: &InferenceService, plan: &mut Plan) {
    match grace_left(case.registries[at].now_ms, entry, case.rules.grace) {
        None => plan.writes.push(retirement(row, at, entry)),
        Some(left) => plan.look_again_in(left),
    }
}

/// How much of its grace an entry still has. A registry whose clock is not known grants all of it.
fn grace_left(now_ms: Option<i64>, entry: &InferenceService, grace: Duration) -> Option<Duration> {
    let Some(now_ms) = now_ms else { return Some(grace) };
    // An entry from the future has been touched just now.
    let untouched = u64::try_from(now_ms.saturating_sub(entry.last_update_ms)).unwrap_or_default();
    let left = grace.saturating_sub(Duration::from_millis(untouched));
    (!left.is_zero()).then_some(left)
}

fn retirement(row: Row, registry: usize, entry: &InferenceService) -> Write {
    let properties = &entry.custom_properties;
    let patch = EntryPatch {
        desired_state: DesiredState::Undeployed,
        model_version_id: None,
        runtime: None,
        // The registry refuses a PATCH without them for an entry that holds a struct.
        custom_properties: (!properties.is_empty()).then(|| properties.clone()),
    };
    let action = Action::Patch { entry: entry.id, patch, differs: vec![settle::DESIRED_STATE] };
    Write { row, registry, action }
}
