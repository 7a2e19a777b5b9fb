//! The work queue: names in, one job at a time for each name out.
//!
//! What stays true: a name is never in two hands; a name that is added while it is worked on is worked on once
//! more afterwards, and one that is added ten times while it waits is worked on once; a failing name waits longer
//! each time and holds up nobody else; a job that is dropped, even by a panic, gives its name back.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::registration::ObjectName;

/// The first wait after a failure: about as long as a restart of a connection takes.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// The longest wait after failures: what a registry that is back has to wait for at most.
const LAST_RETRY: Duration = Duration::from_mins(2);
/// Doublings after which the longest wait is reached, so that no shift can overflow.
const LARGEST_DOUBLING: u32 = 16;

/// The queue.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<ObjectName>,
    names: HashMap<ObjectName, Entry>,
    waiting: BTreeSet<(Instant, ObjectName)>,
}

/// What the queue knows of a name; dropped when there is nothing to know.
#[derive(Debug, Default)]
struct Entry {
    /// It stands in `ready`.
    ready: bool,
    /// It is in a worker's hands.
    running: bool,
    /// It was added while it was in a worker's hands.
    again: bool,
    /// It stands in `waiting`, for then.
    due: Option<Instant>,
    /// How often it has failed in a row.
    failures: u32,
}

impl Entry {
    fn is_idle(&self) -> bool {
        !self.ready && !self.running && !self.again && self.due.is_none() && self.failures == 0
    }
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// There is nothing more to do.
    Done,
    /// There will be something to do then.
    Again(Duration),
    /// It is to be tried again, later each time.
    Failed,
}

/// A name in a worker's hands.
#[derive(Debug)]
pub struct Job {
    queue: Arc<Queue>,
    /// The name.
    pub name: ObjectName,
    outcome: Outcome,
}

impl Job {
    /// Gives the name back.
    pub fn end(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.queue.give_back(&self.name, self.outcome);
    }
}

impl Queue {
    /// Has a name worked on as soon as a worker is free.
    pub fn add(&self, name: &ObjectName) {
        let mut state = self.state();
        let entry = state.names.entry(name.clone()).or_default();
        if entry.running {
            entry.again = true;
        } else if !entry.ready {
            entry.ready = true;
            let due = entry.due.take();
            state.waiting_no_longer(name, due);
            state.ready.push_back(name.clone());
            self.changed.notify_one();
        }
    }

    /// Has a name worked on after a while. One that is due earlier stays so.
    pub fn add_after(&self, name: &ObjectName, wait: Duration) {
        if wait.is_zero() {
            return self.add(name);
        }
        self.state().wait_until(name, Instant::now() + wait);
        self.changed.notify_one();
    }

    /// How many names are waiting for a worker.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.state().ready.len()
    }

    /// How many names have failed when they were last worked on.
    #[must_use]
    pub fn failing(&self) -> usize {
        self.state().names.values().filter(|entry| entry.failures > 0).count()
    }

    /// Whether nothing is waiting for a worker or in a worker's hands; something may still be due later.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state().names.values().all(|entry| !entry.ready && !entry.running)
    }

    /// Takes the next name; waits until there is one.
    pub async fn next(self: &Arc<Self>) -> Job {
        loop {
            // Made before looking, so that what is added in between still wakes this waiter.
            let changed = self.changed.notified();
            let due = match self.take() {
                Ok(job) => return job,
                Err(due) => due,
            };
            match due {
                Some(due) => {
                    // Cancelling either side loses nothing: what is there is looked at anew.
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// A job, or when the next name is due.
    fn take(self: &Arc<Self>) -> Result<Job, Option<Instant>> {
        let mut state = self.state();
        let now = Instant::now();
        while let Some((due, name)) = state.waiting.first().cloned() {
            if due > now {
                break;
            }
            state.waiting.pop_first();
            let entry = state.names.entry(name.clone()).or_default();
            entry.due = None;
            if entry.running {
                entry.again = true;
            } else if !entry.ready {
                entry.ready = true;
                state.ready.push_back(name);
            }
        }
        let Some(name) = state.ready.pop_front() else {
            return Err(state.waiting.first().map(|(due, _)| *due));
        };
        let entry = state.names.entry(name.clone()).or_default();
        entry.ready = false;
        entry.running = true;
        if !state.ready.is_empty() {
            // A permit of `notify_one` may have been used up by this worker alone.
            self.changed.notify_one();
        }
        // Dropped without an end it counts as failed: its worker panicked or was stopped.
        Ok(Job { queue: Arc::clone(self), name, outcome: Outcome::Failed })
    }

    fn give_back(&self, name: &ObjectName, outcome: Outcome) {
        let mut state = self.state();
        let Some(entry) = state.names.get_mut(name) else { return };
        entry.running = false;
        let again = std::mem::take(&mut entry.again);
        match outcome {
            Outcome::Done | Outcome::Again(_) => entry.failures = 0,
            Outcome::Failed => entry.failures = entry.failures.saturating_add(1),
        }
        let wait = match outcome {
            Outcome::Done => None,
            Outcome::Again(wait) => Some(wait),
            Outcome::Failed => Some(retry_after(entry.failures)),
        };
        if again && outcome != Outcome::Failed {
            entry.ready = true;
            state.ready.push_back(name.clone());
        } else if let Some(wait) = wait {
            state.wait_until(name, Instant::now() + wait);
        }
        if state.names.get(name).is_some_and(Entry::is_idle) {
            state.names.remove(name);
        }
        drop(state);
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is made whole by calls that do not panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wait_until(&mut self, name: &ObjectName, due: Instant) {
        let entry = self.names.entry(name.clone()).or_default();
        if entry.ready || entry.due.is_some_and(|before| before <= due) {
            return;
        }
        let before = entry.due.replace(due);
        self.waiting_no_longer(name, before);
        self.waiting.insert((due, name.clone()));
    }

    fn waiting_no_longer(&mut self, name: &ObjectName, due: Option<Instant>) {
        if let Some(due) = due {
            self.waiting.remove(&(due, name.clone()));
        }
    }
}

/// How long to wait after so many failures in a row: twice as long each time, and up to half of it by chance, so
/// that what failed together does not come back together.
fn retry_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(LARGEST_DOUBLING);
    let longest = FIRST_RETRY.saturating_mul(1 << doublings).min(LAST_RETRY);
    longest.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ObjectName {
        ObjectName::new("team-a", name)
    }

    /// The next job, if one can be had at this moment.
    fn now(queue: &Arc<Queue>) -> Option<Job> {
        queue.take().ok()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_added_often_is_worked_on_once() {
        let queue = Arc::new(Queue::default());
        for _ in 0..10 {
            queue.add(&name("a"));
        }
        queue.next().await.end(Outcome::Done);
        assert!(now(&queue).is_none());
        assert!(queue.state().names.is_empty(), "a name that is done costs nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_never_in_two_hands_and_nothing_added_meanwhile_is_lost() {
        let queue = Arc::new(Queue::default());
        queue.add(&name("a"));
        let job = queue.next().await;
        queue.add(&name("a"));
        queue.add(&name("b"));
        let other = queue.next().await;
        assert_eq!(other.name, name("b"));
        assert!(now(&queue).is_none());
        job.end(Outcome::Done);
        assert_eq!(queue.next().await.name, name("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_name_waits_longer_each_time_and_holds_up_nobody() {
        let queue = Arc::new(Queue::default());
        queue.add(&name("bad"));
        let mut waits = Vec::new();
        for _ in 0..12 {
            let before = Instant::now();
            let job = queue.next().await;
            waits.push(before.elapsed());
            queue.add(&name("good"));
            job.end(Outcome::Failed);
            let good = queue.next().await;
            assert_eq!(good.name, name("good"));
            good.end(Outcome::Done);
        }
        assert!(waits[1] >= FIRST_RETRY / 2 && waits[1] <= FIRST_RETRY, "{waits:?}");
        assert!(waits[11] >= LAST_RETRY / 2 && waits[11] <= LAST_RETRY, "{waits:?}");
        assert_eq!(queue.failing(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_does_not_wait_for_the_end_of_a_retry() {
        let queue = Arc::new(Queue::default());
        queue.add(&name("a"));
        queue.next().await.end(Outcome::Failed);
        queue.add(&name("a"));
        now(&queue).expect("it is ready at once").end(Outcome::Done);
        assert_eq!(queue.failing(), 0);
        assert!(queue.state().waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_times_counts() {
        let queue = Arc::new(Queue::default());
        let start = Instant::now();
        queue.add_after(&name("a"), Duration::from_mins(1));
        queue.add_after(&name("a"), Duration::from_secs(5));
        queue.add_after(&name("a"), Duration::from_secs(90));
        queue.next().await.end(Outcome::Done);
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        assert!(queue.state().names.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_gives_the_name_back() {
        let queue = Arc::new(Queue::default());
        queue.add(&name("a"));
        let worker = Arc::clone(&queue);
        let panicked = tokio::spawn(async move {
            let _job = worker.next().await;
            panic!("a worker's bug");
        });
        assert!(panicked.await.is_err());
        assert_eq!(queue.next().await.name, name("a"));
    }
}
