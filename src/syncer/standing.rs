//! How each object that asks for an entry stands with its registry.
//!
//! Goes in: what a worker, or a full resync, found of a name. Comes out: how many objects of each Namespace stand how,
//! for the metrics. What stays true: only the replica that acts knows anything; an object whose registry cannot be
//! asked stands as it stood before.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::facts::Facts;
use super::plan::{Plan, Row, Sighting};
use super::queue::Outcome;
use super::store::Seen;
use super::world::World;
use crate::registration::ObjectName;
use crate::registry::{DesiredState, InferenceService};

/// How an object stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// It has its entry, and the entry says what is so.
    Registered,
    /// It has no entry yet, or nobody could tell so far.
    Pending,
    /// It asks for what cannot be had.
    Invalid,
    /// Its id label names an entry of somebody else.
    Foreign,
    /// It has its entry, which says something else and cannot be changed now.
    Stale,
}

impl Standing {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::Registered, Self::Pending, Self::Invalid, Self::Foreign, Self::Stale];

    /// Its name in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Pending => "pending",
            Self::Invalid => "invalid",
            Self::Foreign => "foreign",
            Self::Stale => "stale",
        }
    }
}

/// How many objects of each Namespace stand how. Every Namespace that is there has all of them.
pub(super) type Counts = BTreeMap<(String, Standing), usize>;

/// How all objects stand.
#[derive(Debug, Default)]
pub(super) struct Standings {
    by_name: Mutex<HashMap<ObjectName, Standing>>,
}

impl Standings {
    /// Notes how an object stands; none when it asks for no entry, or is not there.
    pub(super) fn note(&self, name: &ObjectName, standing: Option<Standing>) {
        match standing {
            Some(standing) => drop(self.by_name().insert(name.clone(), standing)),
            None => drop(self.by_name().remove(name)),
        }
    }

    /// Notes an object that nobody can tell anything of now.
    pub(super) fn note_unknown(&self, name: &ObjectName) {
        self.by_name().entry(name.clone()).or_insert(Standing::Pending);
    }

    /// Forgets everything: another replica acts.
    pub(super) fn clear(&self) {
        self.by_name().clear();
    }

    pub(super) fn counts(&self) -> Counts {
        let by_name = self.by_name();
        let mut by_namespace: HashMap<&str, HashMap<Standing, usize>> = HashMap::new();
        for (name, standing) in by_name.iter() {
            *by_namespace.entry(&name.namespace).or_default().entry(*standing).or_default() += 1;
        }
        let of_one = |(namespace, counts): (&str, HashMap<Standing, usize>)| {
            let namespace = namespace.to_owned();
            Standing::ALL.map(|standing| {
                ((namespace.clone(), standing), counts.get(&standing).copied().unwrap_or_default())
            })
        };
        by_namespace.into_iter().flat_map(of_one).collect()
    }

    fn by_name(&self) -> MutexGuard<'_, HashMap<ObjectName, Standing>> {
        // Each change is one call on the map.
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes how an object stands after a worker had it.
pub(super) fn note_worked_on(world: &World, facts: &Facts, outcome: Outcome) {
    let name = &facts.name;
    if !asks_for_an_entry(&facts.seen) {
        return world.standings.note(name, None);
    }
    let home = facts.shelves.iter().position(|shelf| shelf.home);
    let is_invalid = world.invalid().contains(name);
    match home {
        _ if is_invalid => world.standings.note(name, Some(Standing::Invalid)),
        Some(home) => {
            match with_home(&facts.plan(world), home, &facts.shelves[home].entries) {
                // Invalid or not: the registry could not be asked.
                Standing::Pending if outcome == Outcome::Failed => world.standings.note_unknown(name),
                standing => world.standings.note(name, Some(standing)),
            }
        }
        None => world.standings.note_unknown(name),
    }
}

/// Whether there is a live object that wants one.
pub(super) fn asks_for_an_entry(seen: &Seen) -> bool {
    matches!(seen.sighting(), Sighting::Live(live) if live.object.opted_in())
}

/// How an object stands whose registry was read, by what would have to be written.
fn with_home(plan: &Plan, home: usize, entries: &[InferenceService]) -> Standing {
    let mut at_home = plan.writes.iter().filter(|write| write.registry == home);
    let deployed = entries.iter().any(|entry| entry.desired_state == DesiredState::Deployed);
    if plan.stranger.is_some() {
        Standing::Foreign
    } else if at_home.clone().any(|write| write.row == Row::Register) {
        Standing::Pending
    } else if at_home.any(|write| write.row == Row::Settle) {
        Standing::Stale
    } else if deployed {
        Standing::Registered
    } else {
        Standing::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_counted_by_namespace() {
        let standings = Standings::default();
        let [a, b, c] = [("team-a", "a"), ("team-a", "b"), ("team-b", "c")]
            .map(|(namespace, name)| ObjectName::new(namespace, name));
        standings.note(&a, Some(Standing::Registered));
        standings.note_unknown(&a);
        standings.note_unknown(&b);
        standings.note(&c, Some(Standing::Invalid));
        let count =
            |namespace: &str, standing| standings.counts().get(&(namespace.to_owned(), standing)).copied();
        assert_eq!(count("team-a", Standing::Registered), Some(1), "what is known stays known");
        assert_eq!(count("team-a", Standing::Pending), Some(1));
        assert_eq!(count("team-a", Standing::Stale), Some(0), "none of them is said, not left out");
        assert_eq!(count("team-b", Standing::Invalid), Some(1));
        standings.note(&c, None);
        assert_eq!(count("team-b", Standing::Invalid), None, "a namespace without objects is left out");
        standings.clear();
        assert!(standings.counts().is_empty());
    }
}
