//! Processes that cannot outlive the suite.
//!
//! In: a command, a log file and the run's lock. Out: a handle that signals it and waits for it. What stays true:
//! the handle's end, and the end of the whole test process by whatever means, is the end of the process and of
//! everything it started. A pipe does that: the kernel closes it, no code of ours has to run.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use crate::work_dir::WorkDir;

/// Exit code that stands for a program whose own is not known (its leash was killed).
const UNKNOWN_EXIT: i32 = 255;

/// What to run on a leash.
#[derive(Debug)]
pub(crate) struct LeashedCommand {
    arguments: Vec<OsString>,
    environment: Option<Vec<(String, String)>>,
}

impl LeashedCommand {
    /// A program, with this process's environment.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self { arguments: vec![program.as_ref().to_owned()], environment: None }
    }

    pub(crate) fn arguments<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Exactly these variables, none of this process's.
    pub(crate) fn only_environment(mut self, environment: Vec<(String, String)>) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Starts the program; what it writes is appended to `log`.
    pub(crate) fn spawn(self, log: &Path, work: &WorkDir) -> Result<Leash> {
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot open {}", log.display()))?;
        let mut command = Command::new("sh");
        command.arg(work.script("leash.sh")).arg(work.lock()).args(&self.arguments);
        if let Some(environment) = self.environment {
            command.env_clear().envs(environment);
        }
        command.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let mut leash = command.spawn().context("cannot start a shell")?;
        let signals = leash.stdin.take();
        Ok(Leash { leash, signals })
    }
}

/// A running process; dropping this kills it.
#[derive(Debug)]
pub(crate) struct Leash {
    leash: Child,
    signals: Option<ChildStdin>,
}

impl Leash {
    /// Sends a signal by its name (`TERM`). Nothing happens when the process has ended.
    pub(crate) async fn signal(&mut self, name: &str) {
        if let Some(signals) = &mut self.signals {
            // A closed pipe means that the process is gone, which is what a signal is for.
            let _ = signals.write_all(format!("{name}\n").as_bytes()).await;
        }
    }

    /// Kills the process and whatever it started.
    pub(crate) fn kill(&mut self) {
        self.signals = None;
    }

    /// Waits for the end; the exit code is as a shell gives it (128 and the number for a signal). Safe to cancel.
    pub(crate) async fn wait(&mut self) -> i32 {
        // `Child::wait` would close the pipe, and that would kill the process: it was taken out before.
        self.leash.wait().await.ok().and_then(|status| status.code()).unwrap_or(UNKNOWN_EXIT)
    }

    /// The exit code of a process that has ended.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let status = self.leash.try_wait().ok()??;
        Some(status.code().unwrap_or(UNKNOWN_EXIT))
    }

    /// SIGTERM, and SIGKILL once `grace` has passed; returns the exit code.
    pub(crate) async fn stop(&mut self, grace: Duration) -> i32 {
        self.signal("TERM").await;
        if let Ok(code) = timeout(grace, self.wait()).await {
            return code;
        }
        self.kill();
        self.wait().await
    }
}
