//! Two brakes on writing: one on retiring too much at once, one on a quarrel with another writer. Pure but for
//! the time that is handed in.
//!
//! Goes in: what a resync would retire; what is about to be written and when. Comes out: whether it may. What
//! stays true: a registry or a cluster restored from a backup, a wrong kubeconfig or a copied cluster id retires
//! next to nothing before somebody has had the time to see it; two writers do not write against each other for
//! ever.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

use super::plan::{Action, Write};
use crate::registry::EntryId;

/// An entry of one registry, by [`RegistryClient::id`](crate::registry::RegistryClient::id).
pub type EntryKey = (u64, EntryId);

/// So many may always be retired: a team that removes what it tried out.
const ALWAYS_ALLOWED: usize = 20;
/// And so large a part of all that are deployed: a clean-up of old things.
const ALLOWED_PERCENT: usize = 25;
/// More than that must be found by so many resyncs in a row.
const AGREEING_RESYNCS: u32 = 3;

/// Another writer may set an entry back so often before it is left alone.
const SET_BACKS: usize = 3;
/// Within this time.
const QUARREL: Duration = Duration::from_hours(1);

/// The brake on retiring what no object was ever seen for.
#[derive(Debug, Default)]
pub struct RetirementBrake {
    /// What is held back, and by how many resyncs in a row it was found.
    held: HashMap<EntryKey, u32>,
    /// What the last resync let through.
    allowed: HashSet<EntryKey>,
    /// How many more may be retired that no resync has let through, until the next one.
    spare: usize,
}

impl RetirementBrake {
    /// What a complete resync would retire, out of so many deployed entries of this cluster; decides.
    pub fn resync(&mut self, found: &HashSet<EntryKey>, deployed: usize) {
        self.spare = ALWAYS_ALLOWED;
        let is_much = found.len() > ALWAYS_ALLOWED
            && found.len().saturating_mul(100) > deployed.saturating_mul(ALLOWED_PERCENT);
        if !is_much {
            self.held.clear();
            self.allowed.clone_from(found);
            return;
        }
        let before = std::mem::take(&mut self.held);
        self.allowed.clear();
        for entry in found {
            let times = before.get(entry).copied().unwrap_or_default() + 1;
            if times >= AGREEING_RESYNCS {
                self.allowed.insert(*entry);
            } else {
                self.held.insert(*entry, times);
            }
        }
    }

    /// Lets these through, and nothing else: a person has looked at them.
    pub fn allow_only(&mut self, seen: HashSet<EntryKey>) {
        *self = Self { allowed: seen, ..Self::default() };
    }

    /// How many are held back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether this one may be retired now. One that no resync has seen yet, because it came and went between
    /// two, takes one of the few that are always allowed.
    pub fn allows(&mut self, entry: EntryKey) -> bool {
        if self.allowed.contains(&entry) {
            return true;
        }
        if self.held.contains_key(&entry) || self.spare == 0 {
            return false;
        }
        self.spare -= 1;
        true
    }
}

/// Entries remembered before those written long ago are forgotten: a few MB.
const FORGET_FROM: usize = 10_000;

/// The brake on quarrels.
#[derive(Debug, Default)]
pub struct QuarrelBrake {
    entries: HashMap<EntryKey, Written>,
    forget_from: usize,
}

/// What was last written to an entry, and when it was set back.
#[derive(Debug)]
struct Written {
    what: u64,
    at: Instant,
    set_back: Vec<Instant>,
}

impl QuarrelBrake {
    /// Whether a write may be made. The same write again means that somebody has set the entry back meanwhile.
    pub fn allows(&mut self, entry: EntryKey, write: &Write, now: Instant) -> bool {
        let Some(written) = self.entries.get_mut(&entry) else { return true };
        written.set_back.retain(|at| is_recent(*at, now));
        written.what != digest(write) || written.set_back.len() < SET_BACKS
    }

    /// Notes a write that was made.
    pub fn wrote(&mut self, entry: EntryKey, write: &Write, now: Instant) {
        let what = digest(write);
        match self.entries.get_mut(&entry) {
            Some(written) => {
                if written.what == what && is_recent(written.at, now) {
                    written.set_back.push(now);
                }
                written.what = what;
                written.at = now;
            }
            None => {
                self.entries.insert(entry, Written { what, at: now, set_back: Vec::new() });
            }
        }
        if self.entries.len() > self.forget_from.max(FORGET_FROM) {
            self.entries.retain(|_, written| is_recent(written.at, now));
            // Not looked through again before it has doubled.
            self.forget_from = self.entries.len() * 2;
        }
    }
}

fn is_recent(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < QUARREL
}

/// What a PATCH changes, without the properties of others that only travel with it.
fn digest(write: &Write) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Action::Patch { patch, differs, .. } = &write.action {
        patch.desired_state.hash(&mut hasher);
        for field in differs {
            let property = patch.custom_properties.as_ref().and_then(|all| all.string(field));
            (field, property).hash(&mut hasher);
        }
        if differs.contains(&"modelVersionId") {
            patch.model_version_id.hash(&mut hasher);
        }
        if differs.contains(&"runtime") {
            patch.runtime.hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::super::plan::Row;
    use super::*;
    use crate::registry::{DesiredState, EntryPatch};

    fn entries(from: u32, to: u32) -> HashSet<EntryKey> {
        (from..to).map(entry).collect()
    }

    fn entry(id: u32) -> EntryKey {
        (0, id.to_string().parse().unwrap())
    }

    #[test]
    fn little_is_let_through_at_once() {
        let mut brake = RetirementBrake::default();
        brake.resync(&entries(1, 21), 20);
        assert!(brake.allows(entry(20)) && brake.held() == 0, "20 of 20 are few");
        brake.resync(&entries(1, 251), 1000);
        assert!(brake.allows(entry(250)), "250 of 1000 are a quarter");
    }

    #[test]
    fn much_waits_until_three_resyncs_in_a_row_agree() {
        let mut brake = RetirementBrake::default();
        for round in 1..=2 {
            brake.resync(&entries(1, 101), 200);
            assert!(!brake.allows(entry(7)), "round {round}");
            assert_eq!(brake.held(), 100);
        }
        // One more that was not among them before has to wait by itself.
        brake.resync(&entries(1, 102), 200);
        assert!(brake.allows(entry(7)));
        assert!(!brake.allows(entry(101)));
    }

    #[test]
    fn a_resync_that_does_not_agree_begins_anew() {
        let mut brake = RetirementBrake::default();
        brake.resync(&entries(1, 101), 200);
        brake.resync(&entries(1, 101), 200);
        brake.resync(&HashSet::new(), 200);
        brake.resync(&entries(1, 101), 200);
        assert!(!brake.allows(entry(7)));
    }

    #[test]
    fn what_no_resync_has_seen_is_few() {
        let mut brake = RetirementBrake::default();
        brake.resync(&HashSet::new(), 200);
        let allowed = (1..=100).filter(|id| brake.allows(entry(*id))).count();
        assert_eq!(allowed, ALWAYS_ALLOWED);
    }

    fn state(desired_state: DesiredState) -> Write {
        let patch =
            EntryPatch { desired_state, model_version_id: None, runtime: None, custom_properties: None };
        let action = Action::Patch { entry: entry(1).1, patch, differs: vec!["desiredState"] };
        Write { row: Row::Gone, registry: 0, action }
    }

    #[test]
    fn an_entry_that_is_set_back_three_times_is_left_alone_for_a_while() {
        let mut brake = QuarrelBrake::default();
        let begin = Instant::now();
        let minute = |count: u32| begin + Duration::from_mins(1) * count;
        let undeployed = state(DesiredState::Undeployed);
        for round in 0..4 {
            assert!(brake.allows(entry(1), &undeployed, minute(round)), "round {round}");
            brake.wrote(entry(1), &undeployed, minute(round));
        }
        assert!(!brake.allows(entry(1), &undeployed, minute(4)));
        assert!(brake.allows(entry(2), &undeployed, minute(4)), "other entries are not concerned");
        assert!(brake.allows(entry(1), &undeployed, minute(62)), "an hour later it is tried again");
    }

    #[test]
    fn changes_of_the_object_are_no_quarrel() {
        let mut brake = QuarrelBrake::default();
        let now = Instant::now();
        for _ in 0..50 {
            for desired in [DesiredState::Deployed, DesiredState::Undeployed] {
                assert!(brake.allows(entry(1), &state(desired), now));
                brake.wrote(entry(1), &state(desired), now);
            }
        }
    }
}
