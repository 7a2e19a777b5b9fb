//! How often this replica writes.

use std::collections::VecDeque;

use time::{Duration, OffsetDateTime};

/// Within this time...
const WINDOW: Duration = Duration::MINUTE;

/// ...so many writes at most. A rotation takes three, a lost Secret as many, and replicas that start together
/// make each other read again. More than this means that something else keeps undoing what is written here, and
/// both would go on as fast as the API server lets them.
const MAX_WRITES: usize = 10;

/// Counts writes over the last minute.
#[derive(Debug, Default)]
pub(super) struct Budget {
    written: VecDeque<OffsetDateTime>,
}

impl Budget {
    /// Takes one write from the budget, if there is one left.
    pub(super) fn take(&mut self, now: OffsetDateTime) -> bool {
        // What lies ahead was written before the clock was set back, and would count for ever.
        self.written.retain(|written| *written <= now && now - *written < WINDOW);
        let left = self.written.len() < MAX_WRITES;
        if left {
            self.written.push_back(now);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_so_many_writes() {
        let start = OffsetDateTime::UNIX_EPOCH + Duration::DAY;
        let mut budget = Budget::default();
        assert!((0..MAX_WRITES).all(|_| budget.take(start)));
        assert!(!budget.take(start + WINDOW - Duration::SECOND));
        assert!(budget.take(start + WINDOW));
    }

    #[test]
    fn a_clock_that_is_set_back_blocks_nothing() {
        let start = OffsetDateTime::UNIX_EPOCH + Duration::DAY;
        let mut budget = Budget::default();
        assert!((0..MAX_WRITES).all(|_| budget.take(start)));
        assert!(budget.take(start - Duration::HOUR));
    }
}
