//! The orders in which a list can be walked: ids go in, and come out from any point on, forwards or backwards.
//!
//! What stays true: a step costs the logarithm of the number of entities, wherever a page begins; and entities of
//! the same millisecond are told apart by their id, so that no page skips or repeats one.

use std::collections::BTreeSet;
use std::ops::Bound;

/// What a list is ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OrderBy {
    Id,
    Created,
    Updated,
}

/// The last entity of a page: where the next one goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) id: i32,
    /// Its time, or its id when ids are the order.
    pub(super) value: i64,
}

/// A set of entities, in every order.
#[derive(Debug, Default)]
pub(super) struct Order {
    ids: BTreeSet<i32>,
    created: BTreeSet<(i64, i32)>,
    updated: BTreeSet<(i64, i32)>,
}

impl Order {
    /// Adds an entity.
    pub(super) fn insert(&mut self, id: i32, created: i64, updated: i64) {
        self.ids.insert(id);
        self.created.insert((created, id));
        self.updated.insert((updated, id));
    }

    /// Moves an entity to the time of its new last update.
    pub(super) fn touch(&mut self, id: i32, before: i64, after: i64) {
        self.updated.remove(&(before, id));
        self.updated.insert((after, id));
    }

    /// The ids behind a cursor, or from the beginning.
    pub(super) fn walk(
        &self,
        by: OrderBy,
        descending: bool,
        after: Option<Cursor>,
    ) -> Box<dyn Iterator<Item = i32> + '_> {
        let timed = after.map(|cursor| (cursor.value, cursor.id));
        match by {
            OrderBy::Id => Box::new(walk(&self.ids, descending, after.map(|cursor| cursor.id))),
            OrderBy::Created => Box::new(walk(&self.created, descending, timed).map(|(_, id)| id)),
            OrderBy::Updated => Box::new(walk(&self.updated, descending, timed).map(|(_, id)| id)),
        }
    }
}

fn walk<K: Ord + Copy>(
    set: &BTreeSet<K>,
    descending: bool,
    after: Option<K>,
) -> Box<dyn Iterator<Item = K> + '_> {
    let edge = after.map_or(Bound::Unbounded, Bound::Excluded);
    if descending {
        Box::new(set.range((Bound::Unbounded, edge)).rev().copied())
    } else {
        Box::new(set.range((edge, Bound::Unbounded)).copied())
    }
}
