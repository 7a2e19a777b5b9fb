//! Stops asking a registry that has stopped answering, so that reviews do not each wait for their time-out.
//!
//! Goes in: how each call ended. Comes out: whether the next one may be made. A state machine without a clock or
//! I/O; the probing is the transport's. What stays true: only time-outs open it, any answer at all closes it.

use std::sync::Mutex;

/// So many time-outs in a row open the breaker: fewer can be one slow moment of a database.
pub(super) const TIMEOUTS_TO_OPEN: u32 = 5;

/// Counts time-outs in a row.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    timeouts_in_a_row: u32,
    open: bool,
}

/// What to do after a time-out was noted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Go on.
    Nothing,
    /// It has just opened: start to probe.
    Probe,
}

impl Breaker {
    /// Whether calls are held back.
    pub(super) fn is_open(&self) -> bool {
        self.lock().open
    }

    /// Notes that the registry answered, whatever it said.
    pub(super) fn answered(&self) {
        *self.lock() = State::default();
    }

    /// Notes that a call had no answer in time.
    pub(super) fn timed_out(&self) -> Next {
        let mut state = self.lock();
        state.timeouts_in_a_row = state.timeouts_in_a_row.saturating_add(1);
        if state.open || state.timeouts_in_a_row < TIMEOUTS_TO_OPEN {
            return Next::Nothing;
        }
        state.open = true;
        Next::Probe
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Two plain fields are never left half written, so a panic elsewhere does not spoil them.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_time_outs_open_it_once_and_an_answer_closes_it() {
        let breaker = Breaker::default();
        for _ in 1..TIMEOUTS_TO_OPEN {
            assert_eq!(breaker.timed_out(), Next::Nothing);
            assert!(!breaker.is_open());
        }
        assert_eq!(breaker.timed_out(), Next::Probe);
        assert!(breaker.is_open());
        assert_eq!(breaker.timed_out(), Next::Nothing, "one probe is enough");
        breaker.answered();
        assert!(!breaker.is_open());
    }

    #[test]
    fn time_outs_that_are_not_in_a_row_do_not_open_it() {
        let breaker = Breaker::default();
        for _ in 0..3 * TIMEOUTS_TO_OPEN {
            assert_eq!(breaker.timed_out(), Next::Nothing);
            breaker.answered();
        }
    }
}
