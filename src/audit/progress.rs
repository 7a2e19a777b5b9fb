//! A line that says how far a long audit has come.
//!
//! What stays true: only a person at a terminal sees it, only when it takes long, and nothing of it stays.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::syncer::inspect::Step;

/// An audit that takes less needs no progress bar.
const LONG: Duration = Duration::from_secs(1);

/// The progress of one audit.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: usize,
    entries: usize,
    /// How many names there are to write.
    to_write: Option<u64>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// One that is shown on standard error when `shown`.
    #[must_use]
    pub fn new(shown: bool) -> Self {
        Self { shown, begun: Instant::now(), state: Mutex::default() }
    }

    /// What follows is writing, for so many names.
    pub(super) fn begin_writing(&self, names: usize) {
        self.state().to_write = u64::try_from(names).ok();
    }

    /// Takes the line away.
    pub(super) fn end(&self) {
        let mut state = self.state();
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// A step was made.
    pub(super) fn step(&self, step: Step) {
        if !self.shown || self.begun.elapsed() < LONG {
            return;
        }
        let mut state = self.state();
        match step {
            Step::Objects(objects) => state.objects = objects,
            Step::Entries(entries) => state.entries = entries,
            Step::Names(_) => {}
        }
        let (objects, entries, to_write) = (state.objects, state.entries, state.to_write);
        let bar = state.bar.get_or_insert_with(|| match to_write {
            Some(names) => ProgressBar::new(names).with_style(writing()),
            None => ProgressBar::new_spinner(),
        });
        match step {
            Step::Names(done) => bar.set_position(u64::try_from(done).unwrap_or(u64::MAX)),
            Step::Objects(_) | Step::Entries(_) => {
                bar.set_message(format!("{objects} objects, {entries} entries read"));
                bar.tick();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every field is replaced whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn writing() -> ProgressStyle {
    // The default is as good as any where a template cannot be read.
    ProgressStyle::with_template("{bar:40} {pos}/{len} objects written, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}
