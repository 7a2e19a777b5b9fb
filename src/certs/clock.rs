//! The time that certificates are held against.

use std::sync::Arc;

use rustls::pki_types::UnixTime;
use time::OffsetDateTime;

/// Tells the time. A test has one that it sets by hand, so that a year passes between two statements.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> OffsetDateTime + Send + Sync>);

impl Clock {
    /// The time of the machine.
    #[must_use]
    pub fn system() -> Self {
        Self::new(OffsetDateTime::now_utc)
    }

    /// The time that a function tells.
    pub fn new(now: impl Fn() -> OffsetDateTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// The time as rustls counts it; what is before 1970 counts as 1970.
pub(super) fn unix_time(time: OffsetDateTime) -> UnixTime {
    let seconds = u64::try_from(time.unix_timestamp()).unwrap_or_default();
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
}
