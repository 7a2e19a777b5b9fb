//! The lease: at most one replica acts.
//!
//! Goes in: a Lease object that all replicas share. Comes out: a [`Fence`] that is open while the lease is certain
//! to be ours. What stays true: a write to the Lease carries the resourceVersion that was read, so of two who try at
//! once one fails; another's record counts as expired only when it has not changed for its whole duration by our
//! own monotonic clock, so that no clock of another machine matters; our own counts from the *start* of the last
//! renewal that succeeded, less a margin, so that we stop before anybody else may begin.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::fence::Fence;

/// How long a lease lasts that is not renewed: how long nobody acts when the holder is killed.
pub const DURATION: Duration = Duration::from_secs(15);

/// How often it is renewed: two renewals may fail before the lease is lost.
const RENEW_EVERY: Duration = Duration::from_secs(4);

/// How much earlier than its end we stop to write: more than two monotonic clocks drift apart in one duration, and
/// what a registry may take to carry out a request that it has received.
const MARGIN: Duration = Duration::from_secs(2);

/// How long we may write after the start of a renewal.
const ACT_FOR: Duration = DURATION.saturating_sub(MARGIN);

/// Limit of one request, so that a renewal that hangs can be followed by another.
const REQUEST_LIMIT: Duration = Duration::from_secs(3);

/// What a Lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Who holds it; empty when it was given up.
    pub holder: String,
    /// How long it lasts without a renewal.
    pub duration: Duration,
    /// The object's version: it changes with every renewal.
    pub resource_version: String,
    /// How often it has passed from one holder to another.
    pub transitions: i32,
}

/// What is to be written into a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who holds it from now on; empty to give it up.
    pub holder: String,
    /// How long it lasts without a renewal.
    pub duration: Duration,
    /// How often it has passed from one holder to another.
    pub transitions: i32,
    /// Whether the holder is another than before.
    pub acquired: bool,
    /// The version that was read; `None` to create the object.
    pub resource_version: Option<String>,
}

/// Why a Lease could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// Somebody else has written it since it was read.
    #[error("another replica was faster")]
    Conflict,
    /// The API server could not be asked, or does not allow it.
    #[error("the Lease cannot be read or written: {0}")]
    Unavailable(String),
}

/// Where the Lease is kept.
pub trait Leases: Send + Sync + 'static {
    /// The Lease, when there is one.
    fn read(&self) -> BoxFuture<'_, Result<Option<Record>, LeaseError>>;
    /// Writes it; a [`LeaseError::Conflict`] when it is not as it was read.
    fn write(&self, claim: Claim) -> BoxFuture<'_, Result<Record, LeaseError>>;
}

/// What a candidate does next.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Write this.
    Claim(Claim),
    /// Another holds it.
    Wait,
}

/// One replica that would like to act. A state machine without I/O.
#[derive(Debug)]
struct Candidate {
    identity: String,
    /// The record as it was last read, and since when it has been the same.
    observed: Option<(Record, Instant)>,
}

impl Candidate {
    fn new(identity: String) -> Self {
        Self { identity, observed: None }
    }

    /// Notes a record that was read or written.
    fn observe(&mut self, record: Record, now: Instant) {
        match &self.observed {
            Some((known, _)) if *known == record => {}
            _ => self.observed = Some((record, now)),
        }
    }

    fn next(&self, now: Instant) -> Step {
        let Some((record, since)) = &self.observed else {
            return Step::Claim(self.claim(None, 0, true));
        };
        let ours = record.holder == self.identity;
        let expired = now.saturating_duration_since(*since) >= record.duration;
        if ours || record.holder.is_empty() || expired {
            let transitions = record.transitions.saturating_add(i32::from(!ours));
            Step::Claim(self.claim(Some(record.resource_version.clone()), transitions, !ours))
        } else {
            Step::Wait
        }
    }

    fn claim(&self, resource_version: Option<String>, transitions: i32, acquired: bool) -> Claim {
        Claim { holder: self.identity.clone(), duration: DURATION, transitions, acquired, resource_version }
    }

    /// What gives the lease up, when it is ours.
    fn release(&self) -> Option<Claim> {
        let (record, _) = self.observed.as_ref().filter(|(record, _)| record.holder == self.identity)?;
        let mut claim = self.claim(Some(record.resource_version.clone()), record.transitions, false);
        claim.holder = String::new();
        Some(claim)
    }
}

/// Holds the lease whenever it can be had, and moves the fence; until it is stopped, and then gives it up.
///
/// Stop it only when no write is under way any more: from that moment another replica may act.
pub async fn hold(leases: &dyn Leases, identity: String, fence: &Fence, stop: CancellationToken) {
    let mut candidate = Candidate::new(identity);
    let mut held = false;
    while !stop.is_cancelled() {
        let begun = Instant::now();
        match attempt(leases, &mut candidate).await {
            Ok(true) => {
                // From the start of the renewal: that is the latest moment at which others can have seen it begin.
                fence.move_to(begun + ACT_FOR);
                if !held {
                    tracing::info!("holds the lease: this replica acts");
                }
                held = true;
            }
            Ok(false) => {
                fence.close();
                if held {
                    tracing::warn!("lost the lease to another replica");
                }
                held = false;
            }
            // The fence stays where it is, and closes by itself when no renewal succeeds in time.
            Err(error) => tracing::warn!(%error, "cannot renew or read the lease, trying again"),
        }
        // Cancelling the wait loses nothing.
        tokio::select! {
            () = tokio::time::sleep_until(begun + RENEW_EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
    fence.close();
    if let Some(claim) = candidate.release()
        && let Ok(Ok(_)) = timeout(REQUEST_LIMIT, leases.write(claim)).await
    {
        tracing::info!("gave up the lease");
    }
}

/// One attempt to get or to keep the lease; says whether it is ours now.
async fn attempt(leases: &dyn Leases, candidate: &mut Candidate) -> Result<bool, LeaseError> {
    let limited = |_| Err(LeaseError::Unavailable(format!("no answer within {} s", REQUEST_LIMIT.as_secs())));
    if let Some(record) = timeout(REQUEST_LIMIT, leases.read()).await.unwrap_or_else(limited)? {
        candidate.observe(record, Instant::now());
    } else {
        candidate.observed = None;
    }
    let Step::Claim(claim) = candidate.next(Instant::now()) else { return Ok(false) };
    let limited = |_| Err(LeaseError::Unavailable(format!("no answer within {} s", REQUEST_LIMIT.as_secs())));
    match timeout(REQUEST_LIMIT, leases.write(claim)).await.unwrap_or_else(limited) {
        Ok(record) => {
            candidate.observe(record, Instant::now());
            Ok(true)
        }
        // What the other one wrote is read with the next attempt.
        Err(LeaseError::Conflict) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures::FutureExt;

    use super::*;

    /// A Lease in memory that can be cut off from a replica.
    #[derive(Default)]
    struct Shared {
        record: Mutex<Option<Record>>,
        version: Mutex<u64>,
    }

    struct Connection {
        shared: Arc<Shared>,
        cut: Mutex<bool>,
    }

    impl Connection {
        fn new(shared: &Arc<Shared>) -> Arc<Self> {
            Arc::new(Self { shared: Arc::clone(shared), cut: Mutex::new(false) })
        }

        fn set_cut(&self, cut: bool) {
            *self.cut.lock().unwrap() = cut;
        }

        fn check(&self) -> Result<(), LeaseError> {
            if *self.cut.lock().unwrap() { Err(LeaseError::Unavailable("cut".into())) } else { Ok(()) }
        }
    }

    impl Leases for Connection {
        fn read(&self) -> BoxFuture<'_, Result<Option<Record>, LeaseError>> {
            let record = self.check().map(|()| self.shared.record.lock().unwrap().clone());
            futures::future::ready(record).boxed()
        }

        fn write(&self, claim: Claim) -> BoxFuture<'_, Result<Record, LeaseError>> {
            let written = self.check().and_then(|()| {
                let mut record = self.shared.record.lock().unwrap();
                let there = record.as_ref().map(|record| record.resource_version.clone());
                if there != claim.resource_version {
                    return Err(LeaseError::Conflict);
                }
                let mut version = self.shared.version.lock().unwrap();
                *version += 1;
                let new = Record {
                    holder: claim.holder,
                    duration: claim.duration,
                    resource_version: version.to_string(),
                    transitions: claim.transitions,
                };
                *record = Some(new.clone());
                Ok(new)
            });
            futures::future::ready(written).boxed()
        }
    }

    struct Replica {
        connection: Arc<Connection>,
        fence: Fence,
        stop: CancellationToken,
        task: tokio::task::JoinHandle<()>,
    }

    fn start(shared: &Arc<Shared>, identity: &str) -> Replica {
        let (connection, fence, stop) = (Connection::new(shared), Fence::closed(), CancellationToken::new());
        let task = tokio::spawn({
            let (connection, fence, stop, identity) =
                (Arc::clone(&connection), fence.clone(), stop.clone(), identity.to_owned());
            async move { hold(&*connection, identity, &fence, stop).await }
        });
        Replica { connection, fence, stop, task }
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_two_acts_and_the_other_follows_when_it_is_killed() {
        let shared = Arc::new(Shared::default());
        let first = start(&shared, "a");
        first.fence.opened().await;
        let second = start(&shared, "b");
        tokio::time::sleep(DURATION * 3).await;
        assert!(first.fence.allows() && !second.fence.allows(), "the holder keeps it");
        first.task.abort();
        let killed = Instant::now();
        second.fence.opened().await;
        assert!(!first.fence.allows(), "two must never act at once");
        assert!(killed.elapsed() <= DURATION + RENEW_EVERY * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_is_cut_off_stops_before_another_begins() {
        let shared = Arc::new(Shared::default());
        let first = start(&shared, "a");
        first.fence.opened().await;
        let second = start(&shared, "b");
        tokio::time::sleep(RENEW_EVERY).await;
        first.connection.set_cut(true);
        first.fence.closes().await;
        assert!(!second.fence.allows(), "there is a while in which nobody acts");
        second.fence.opened().await;
        first.connection.set_cut(false);
        tokio::time::sleep(RENEW_EVERY * 2).await;
        assert!(!first.fence.allows() && second.fence.allows());
        assert_eq!(shared.record.lock().unwrap().as_ref().unwrap().transitions, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_given_up_is_taken_at_once() {
        let shared = Arc::new(Shared::default());
        let first = start(&shared, "a");
        first.fence.opened().await;
        let second = start(&shared, "b");
        tokio::time::sleep(RENEW_EVERY).await;
        first.stop.cancel();
        first.task.await.unwrap();
        let begun = Instant::now();
        second.fence.opened().await;
        assert!(begun.elapsed() <= RENEW_EVERY);
    }

    #[test]
    fn a_record_counts_as_expired_by_our_own_clock_alone() {
        let now = Instant::now();
        let mut candidate = Candidate::new("a".into());
        let record =
            Record { holder: "b".into(), duration: DURATION, resource_version: "1".into(), transitions: 0 };
        candidate.observe(record.clone(), now);
        candidate.observe(record.clone(), now + DURATION / 2);
        assert_eq!(candidate.next(now + DURATION / 2), Step::Wait);
        assert!(matches!(candidate.next(now + DURATION), Step::Claim(_)), "the same record has grown old");
        candidate.observe(Record { resource_version: "2".into(), ..record }, now + DURATION);
        assert_eq!(candidate.next(now + DURATION), Step::Wait, "it was renewed");
    }
}
