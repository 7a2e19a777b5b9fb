//! The runtime on which a cluster's own work is done.
//!
//! In: the log file. Out: a runtime that no test's runtime can take down with it. What stays true: dropping it ends all
//! of its tasks before the drop returns, from inside another runtime too.

use std::fs::File;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Handle, Runtime};
use tracing::dispatcher::{self, Dispatch};
use tracing_subscriber::filter::EnvFilter;

/// What is worth reading when a test failed.
const LOG_FILTER: &str = "info,kube_client=off";

/// How long tasks may take to end; they only ever wait, so they end at once.
const END: Duration = Duration::from_secs(5);

/// A runtime of its own threads, whose log lines go to a file.
#[derive(Debug)]
pub(crate) struct Background {
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Background {
    pub(crate) fn start(log: &Path) -> Result<Self> {
        let log = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(Mutex::new(log))
            .with_env_filter(EnvFilter::new(LOG_FILTER))
            .finish();
        let dispatch = Dispatch::new(subscriber);
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("cluster")
            .enable_all()
            // The test's own subscriber, if it has one, is not ours to fill. The guard would end the setting.
            .on_thread_start(move || std::mem::forget(dispatcher::set_default(&dispatch)))
            .build()
            .context("cannot start a runtime")?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        // A runtime may not be waited for on a thread of another one.
        let end = thread::spawn(move || runtime.shutdown_timeout(END));
        let _ = end.join();
    }
}
