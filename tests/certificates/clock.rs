//! A clock that the test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use isvc_registrar::certs::Clock;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use time::{Duration, OffsetDateTime};
use tokio::sync::watch;

/// Some day.
const START: i64 = 1_800_000_000;

/// The hand of the clock; all clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct Hand(Arc<AtomicI64>);

impl Hand {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicI64::new(START)))
    }

    pub(crate) fn now(&self) -> OffsetDateTime {
        let seconds = self.0.load(Ordering::SeqCst);
        OffsetDateTime::from_unix_timestamp(seconds).expect("a time in this millennium")
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(by.whole_seconds(), Ordering::SeqCst);
    }

    /// A clock with this hand, and how often it was read.
    pub(crate) fn clock(&self) -> (Clock, watch::Receiver<u64>) {
        let (reads, read) = watch::channel(0);
        let hand = self.clone();
        let clock = Clock::new(move || {
            reads.send_modify(|reads| *reads += 1);
            hand.now()
        });
        (clock, read)
    }
}

impl TimeProvider for Hand {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.now().unix_timestamp()).ok()?;
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds)))
    }
}
