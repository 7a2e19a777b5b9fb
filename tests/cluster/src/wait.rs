//! Waiting for a condition.
//!
//! In: what is expected, in the user's terms, and a look at the world. Out: what the look found. What stays true:
//! the deadline is far beyond what any machine needs, so that no test measures time, and the failure says what was
//! expected and what was seen last.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::time::{Instant, sleep};

/// Long enough for a busy machine of two cores; only a failing test ever waits this long.
pub const DEADLINE: Duration = Duration::from_mins(2);

/// How often the world is looked at.
const PERIOD: Duration = Duration::from_millis(100);

/// Looks until `look` answers `Ok`; its errors say what is there instead of what is expected.
///
/// ```no_run
/// # async fn example(cluster: &isvc_registrar_test_cluster::ControlPlane) -> anyhow::Result<()> {
/// use isvc_registrar_test_cluster::wait;
///
/// wait::until("the namespace is gone", async || {
///     let run = cluster.kubectl(&["get", "namespace", "team-a"]).await?;
///     anyhow::ensure!(run.stderr.contains("NotFound"), "kubectl says {run:?}");
///     Ok(())
/// })
/// .await
/// # }
/// ```
pub async fn until<T>(expected: &str, mut look: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let patience = Patience::new(expected);
    loop {
        match look().await {
            Ok(found) => return Ok(found),
            Err(seen) => patience.once_more(seen).await?,
        }
    }
}

/// The deadline of one wait, for loops that are no closure.
pub(crate) struct Patience<'a> {
    expected: &'a str,
    deadline: Instant,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(expected: &'a str) -> Self {
        Self { expected, deadline: Instant::now() + DEADLINE }
    }

    /// Returns when it is time to look again, and fails with what was seen when there has been time enough.
    pub(crate) async fn once_more(&self, seen: anyhow::Error) -> Result<()> {
        if Instant::now() >= self.deadline {
            return Err(anyhow!(
                "expected that {}, within {} s: {seen:#}",
                self.expected,
                DEADLINE.as_secs()
            ));
        }
        sleep(PERIOD).await;
        Ok(())
    }
}
