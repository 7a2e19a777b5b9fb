//! How many workers one registry may keep busy at once.
//!
//! Goes in: the registries a job is about to ask. Comes out: leave to ask them, or none for now. What stays true:
//! while there are several registries, a slow one never has all workers waiting for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The lanes, one for each registry.
#[derive(Debug)]
pub(super) struct Lanes {
    workers: usize,
    lanes: Mutex<HashMap<u64, Arc<Semaphore>>>,
}

/// Leave to ask some registries, for as long as it is held.
#[derive(Debug)]
pub(super) struct Leave {
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Lanes {
    /// Lanes for so many workers.
    pub(super) fn new(workers: usize) -> Self {
        Self { workers, lanes: Mutex::default() }
    }

    /// Leave to ask these registries, out of so many that are configured; `None` while one of them has its share
    /// of workers already.
    pub(super) fn enter(
        &self,
        registries: impl IntoIterator<Item = u64>,
        configured: usize,
    ) -> Option<Leave> {
        if configured < 2 {
            return Some(Leave { _permits: Vec::new() });
        }
        // One worker is always left for the others.
        let share = self.workers.saturating_sub(1).max(1);
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let permits = registries.into_iter().map(|registry| {
            let lane = lanes.entry(registry).or_insert_with(|| Arc::new(Semaphore::new(share)));
            Arc::clone(lane).try_acquire_owned().ok()
        });
        permits.collect::<Option<Vec<_>>>().map(|permits| Leave { _permits: permits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_registry_never_has_all_workers() {
        let lanes = Lanes::new(3);
        let first = lanes.enter([1], 2).expect("a free lane");
        let _second = lanes.enter([1], 2).expect("a free lane");
        assert!(lanes.enter([1], 2).is_none());
        assert!(lanes.enter([2, 1], 2).is_none(), "a job that needs both has to wait");
        assert!(lanes.enter([2], 2).is_some());
        drop(first);
        assert!(lanes.enter([1], 2).is_some());
    }

    #[test]
    fn the_only_registry_may_have_them_all() {
        let lanes = Lanes::new(1);
        let leaves: Vec<_> = (0..3).map(|_| lanes.enter([1], 1)).collect();
        assert!(leaves.iter().all(Option::is_some));
    }
}
