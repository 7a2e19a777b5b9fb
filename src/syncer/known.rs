//! What is remembered of the registries between two comparisons: ids and clocks, never a state.
//!
//! Goes in: entries as they were listed, found or made. Comes out: for a name, which entries to read again, and
//! for a registry, what its clock says. What stays true: nothing here is ever written from; it only says where to
//! look, and a comparison builds it anew.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::brake::EntryKey;
use crate::registration::ObjectName;
use crate::registry::EntryId;

/// Where to look for the entries of a name, and the registries' clocks.
#[derive(Debug, Default)]
pub(super) struct Known {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<ObjectName, Vec<EntryKey>>,
    clocks: HashMap<u64, Clock>,
}

/// A registry's clock as it was read, and when.
#[derive(Debug, Clone, Copy)]
struct Clock {
    ms: i64,
    read: Instant,
}

impl Known {
    /// The entries that were last known to be DEPLOYED for a name.
    pub(super) fn entries(&self, name: &ObjectName) -> Vec<EntryKey> {
        self.state().entries.get(name).cloned().unwrap_or_default()
    }

    /// Remembers an entry that is DEPLOYED for a name.
    pub(super) fn remember(&self, name: &ObjectName, entry: EntryKey) {
        let mut state = self.state();
        let entries = state.entries.entry(name.clone()).or_default();
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }

    /// Forgets an entry that is not DEPLOYED for the name any more.
    pub(super) fn forget(&self, name: &ObjectName, entry: EntryKey) {
        let mut state = self.state();
        if let Some(entries) = state.entries.get_mut(name) {
            entries.retain(|known| *known != entry);
            if entries.is_empty() {
                state.entries.remove(name);
            }
        }
    }

    /// Takes what a complete list of one registry found in the place of what was known of it.
    pub(super) fn replace(&self, registry: u64, found: impl IntoIterator<Item = (ObjectName, EntryId)>) {
        let mut state = self.state();
        state.entries.retain(|_, entries| {
            entries.retain(|(of, _)| *of != registry);
            !entries.is_empty()
        });
        for (name, entry) in found {
            state.entries.entry(name).or_default().push((registry, entry));
        }
    }

    /// Forgets registries that are not configured any more.
    pub(super) fn keep_only(&self, registries: &[u64]) {
        let mut state = self.state();
        state.clocks.retain(|registry, _| registries.contains(registry));
        state.entries.retain(|_, entries| {
            entries.retain(|(of, _)| registries.contains(of));
            !entries.is_empty()
        });
    }

    /// Notes what a registry's clock says, in milliseconds since the epoch.
    pub(super) fn set_clock(&self, registry: u64, ms: Option<i64>) {
        if let Some(ms) = ms {
            self.state().clocks.insert(registry, Clock { ms, read: Instant::now() });
        }
    }

    /// What a registry's clock says now, in milliseconds since the epoch; `None` when it has never been read.
    pub(super) fn now_ms(&self, registry: u64) -> Option<i64> {
        let clock = *self.state().clocks.get(&registry)?;
        let since = i64::try_from(clock.read.elapsed().as_millis()).unwrap_or(i64::MAX);
        Some(clock.ms.saturating_add(since))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The maps are never left half changed by the calls made on them here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
