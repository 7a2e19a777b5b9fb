//! The log of requests: each exchange goes in, tests read what was asked and how often.
//!
//! What stays true: it never grows beyond its limit; the oldest go first.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// Enough for a test that counts calls, little enough not to matter in a long run.
const LIMIT: usize = 10_000;

/// One request and the status of its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exchange {
    /// GET, POST or PATCH, mostly.
    pub method: String,
    /// The path with its query, as it was sent.
    pub target: String,
    /// The status of the answer, lost or not.
    pub status: u16,
}

/// The latest exchanges, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Journal(Mutex<VecDeque<Exchange>>);

impl Journal {
    pub(super) fn record(&self, exchange: Exchange) {
        let mut exchanges = self.lock();
        if exchanges.len() == LIMIT {
            exchanges.pop_front();
        }
        exchanges.push_back(exchange);
    }

    pub(super) fn all(&self) -> Vec<Exchange> {
        self.lock().iter().cloned().collect()
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Exchange>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
