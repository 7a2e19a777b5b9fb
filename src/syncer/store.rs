//! What was seen of every object: a small cache that a watch fills and everybody else reads.
//!
//! Goes in: complete lists and single changes, by scope. Comes out: for a name, what was seen of it. What stays
//! true: an object counts as never seen only while every list that would have it is complete; a deletion counts as
//! seen only when a watch said so, not when an object was merely missing from a later list.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::object::{DeploymentOutcome, Object};
use super::objects::Scope;
use super::plan::{Live, Sighting};
use crate::registration::ObjectName;

/// So many deletions are remembered for entries that could not be retired yet, the oldest are forgotten first. A
/// forgotten one is found again by comparing the registry with the cluster.
const DELETIONS_REMEMBERED: usize = 100_000;

/// The cache.
#[derive(Debug)]
pub struct Store {
    scopes: Vec<Scope>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    names: HashMap<ObjectName, Seen>,
    complete: Vec<bool>,
    deletions: usize,
}

/// What was seen of one object.
#[derive(Debug, Clone)]
pub enum Seen {
    /// It is there.
    There(Arc<Presence>),
    /// It was seen to go.
    Gone {
        /// What it was.
        object: Arc<Object>,
        /// When.
        at: Instant,
    },
    /// Every list is complete, and it was in none.
    Never,
    /// The lists are not complete.
    Unknown,
}

/// An object that is there, and since when it has been as it is.
#[derive(Debug, Clone)]
pub struct Presence {
    /// What is kept of it.
    pub object: Arc<Object>,
    /// The object with the status that it had when its version changed or when it was first seen, until it has had
    /// another. Mostly the same as `object`.
    with_status_at_change: Option<Arc<Object>>,
    /// Since when it has been as ready, or as failed, as it is.
    outcome_since: Instant,
}

impl Presence {
    fn first(object: Object) -> Self {
        let object = Arc::new(object);
        Self { with_status_at_change: Some(Arc::clone(&object)), outcome_since: Instant::now(), object }
    }

    fn then(&self, object: Object) -> Self {
        let before = &self.object;
        if before.uid != object.uid || before.version != object.version {
            return Self::first(object);
        }
        let has_status_still =
            self.with_status_at_change.as_ref().is_some_and(|then| then.status.same_as(&object.status));
        let outcome = |object: &Object| -> Option<DeploymentOutcome> { object.outcome() };
        let outcome_since =
            if outcome(before) == outcome(&object) { self.outcome_since } else { Instant::now() };
        let object = Arc::new(object);
        Self { with_status_at_change: has_status_still.then(|| Arc::clone(&object)), outcome_since, object }
    }

    /// Whether there is anything to look at now that was not there before.
    fn differs_from(&self, before: &Self) -> bool {
        !self.object.asks_the_same_as(&before.object)
            || self.with_status_at_change.is_some() != before.with_status_at_change.is_some()
    }
}

impl Seen {
    /// As the plan reads it.
    #[must_use]
    pub fn sighting(&self) -> Sighting<'_> {
        match self {
            Self::There(presence) if presence.object.being_deleted => Sighting::Deleting(&presence.object),
            Self::There(presence) => Sighting::Live(Live {
                object: &presence.object,
                status_moved: presence.with_status_at_change.is_none(),
                outcome_held: presence.outcome_since.elapsed(),
            }),
            Self::Gone { object, .. } => Sighting::Gone(object),
            Self::Never => Sighting::NeverSeen,
            Self::Unknown => Sighting::Unknown,
        }
    }

    /// The object, there or gone.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<Object>> {
        match self {
            Self::There(presence) => Some(&presence.object),
            Self::Gone { object, .. } => Some(object),
            Self::Never | Self::Unknown => None,
        }
    }
}

/// What a change amounted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing that the registry would be told.
    Nothing,
    /// The object was not known before.
    Appeared,
    /// Something that the registry is told is another.
    Changed,
    /// It is being deleted, or gone.
    Leaving,
}

/// What a complete list amounted to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Objects that are new or other than before.
    pub changed: Vec<ObjectName>,
    /// How many were there before and are not any more.
    pub missing: usize,
}

impl Store {
    /// An empty store for these scopes, none of them listed.
    #[must_use]
    pub fn new(scopes: Vec<Scope>) -> Self {
        let state = State { complete: vec![false; scopes.len()], ..State::default() };
        Self { scopes, state: Mutex::new(state) }
    }

    /// Whether objects of this Namespace are watched.
    #[must_use]
    pub fn watches(&self, namespace: &str) -> bool {
        self.scopes.iter().any(|scope| scope.contains(namespace))
    }

    /// Whether every scope has been listed whole.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.state().complete.iter().all(|complete| *complete)
    }

    /// Whether one scope has been listed whole.
    #[must_use]
    pub fn has_listed(&self, scope: usize) -> bool {
        self.state().complete.get(scope).copied().unwrap_or_default()
    }

    /// How many objects are there.
    #[must_use]
    pub fn len(&self) -> usize {
        let state = self.state();
        state.names.len() - state.deletions
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was seen of an object.
    #[must_use]
    pub fn seen(&self, name: &ObjectName) -> Seen {
        let state = self.state();
        if let Some(seen) = state.names.get(name) {
            return seen.clone();
        }
        let mut covering =
            self.scopes.iter().zip(&state.complete).filter(|(scope, _)| scope.contains(&name.namespace));
        if covering.clone().next().is_some() && covering.all(|(_, complete)| *complete) {
            Seen::Never
        } else {
            Seen::Unknown
        }
    }

    /// Objects being deleted that are held by the finalizer that is to be released.
    #[must_use]
    pub fn to_release(&self) -> Vec<ObjectName> {
        let state = self.state();
        let is_held = |seen: &Seen| {
            matches!(seen, Seen::There(presence)
                if presence.object.being_deleted && presence.object.finalizer_to_release.is_some())
        };
        state.names.iter().filter(|(_, seen)| is_held(seen)).map(|(name, _)| name.clone()).collect()
    }

    /// All objects that are there or were seen to go.
    #[must_use]
    pub fn all(&self) -> Vec<(ObjectName, Seen)> {
        self.state().names.iter().map(|(name, seen)| (name.clone(), seen.clone())).collect()
    }

    /// Takes what a watch or a GET said of an object.
    pub fn apply(&self, name: ObjectName, object: Object) -> Effect {
        let mut state = self.state();
        let leaving = object.being_deleted;
        let before = state.names.remove(&name);
        let (presence, effect) = match &before {
            Some(Seen::There(before)) => {
                let presence = before.then(object);
                let effect = match presence.differs_from(before) {
                    true if leaving => Effect::Leaving,
                    true => Effect::Changed,
                    false => Effect::Nothing,
                };
                (presence, effect)
            }
            Some(Seen::Gone { .. }) => {
                state.deletions -= 1;
                (Presence::first(object), Effect::Appeared)
            }
            _ => (Presence::first(object), Effect::Appeared),
        };
        state.names.insert(name, Seen::There(Arc::new(presence)));
        effect
    }

    /// Takes a deletion that a watch saw.
    pub fn delete(&self, name: ObjectName, object: Object) -> Effect {
        let mut state = self.state();
        if let Some(Seen::There(presence)) = state.names.get(&name)
            && presence.object.uid != object.uid
        {
            // A GET was ahead of the watch: this is the end of the object before the one that is there.
            return Effect::Changed;
        }
        if state.deletions >= DELETIONS_REMEMBERED {
            state.forget_the_oldest_deletion();
        }
        let gone = Seen::Gone { object: Arc::new(object), at: Instant::now() };
        if !matches!(state.names.insert(name, gone), Some(Seen::Gone { .. })) {
            state.deletions += 1;
        }
        Effect::Leaving
    }

    /// Forgets a deletion that is settled, unless the object has come back since.
    pub fn settled(&self, name: &ObjectName, seen: &Seen) {
        let mut state = self.state();
        let (Seen::Gone { at: settled, .. }, Some(Seen::Gone { at, .. })) = (seen, state.names.get(name))
        else {
            return;
        };
        if at == settled {
            state.names.remove(name);
            state.deletions -= 1;
        }
    }

    /// Forgets deletions that nobody has settled for so long.
    pub fn forget_deletions_older_than(&self, age: Duration) {
        let mut state = self.state();
        state.names.retain(|_, seen| !matches!(seen, Seen::Gone { at, .. } if at.elapsed() > age));
        state.deletions = state.names.values().filter(|seen| matches!(seen, Seen::Gone { .. })).count();
    }

    /// Takes a complete list of one scope in the place of what was known of it.
    pub fn replace(&self, scope: usize, listed: HashMap<ObjectName, Object>) -> Difference {
        let mut difference = Difference::default();
        let mut state = self.state();
        let covered = &self.scopes[scope];
        state.names.retain(|name, seen| {
            let is_missing = matches!(seen, Seen::There(_))
                && covered.contains(&name.namespace)
                && !listed.contains_key(name);
            difference.missing += usize::from(is_missing);
            !is_missing
        });
        for (name, object) in listed {
            let presence = match state.names.get(&name) {
                Some(Seen::There(before)) => {
                    let presence = before.then(object);
                    if presence.differs_from(before) {
                        difference.changed.push(name.clone());
                    }
                    presence
                }
                before => {
                    let was_gone = matches!(before, Some(Seen::Gone { .. }));
                    state.deletions -= usize::from(was_gone);
                    difference.changed.push(name.clone());
                    Presence::first(object)
                }
            };
            state.names.insert(name, Seen::There(Arc::new(presence)));
        }
        state.complete[scope] = true;
        difference
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is made whole by calls that do not panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget_the_oldest_deletion(&mut self) {
        let deletions = self.names.iter().filter_map(|(name, seen)| match seen {
            Seen::Gone { at, .. } => Some((*at, name)),
            _ => None,
        });
        if let Some(oldest) = deletions.min_by_key(|(at, _)| *at).map(|(_, name)| name.clone()) {
            self.names.remove(&oldest);
            self.deletions -= 1;
        }
    }
}
