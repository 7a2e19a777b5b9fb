//! kubectl and helm, run as a person would run them.
//!
//! In: arguments, and for kubectl a manifest on standard input. Out: what the command wrote and how it ended. What
//! stays true: nothing of the person's own configuration is read or written, and a command never hangs.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// Longer than helm's own `--timeout` (5 minutes), whose message says more than ours could.
const LIMIT: Duration = Duration::from_secs(330);

/// How a command ended.
#[derive(Debug, Clone)]
pub struct Run {
    /// The command line, for messages.
    pub command: String,
    /// Whether the exit code is 0.
    pub success: bool,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Run {
    /// Standard output of a command that succeeded; an error with all it said otherwise.
    pub fn stdout(self) -> Result<String> {
        if self.success {
            return Ok(self.stdout);
        }
        bail!("`{}` failed:\n{}{}", self.command, self.stdout, self.stderr)
    }
}

/// Runs commands against one cluster.
#[derive(Debug)]
pub(crate) struct Commands {
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Commands {
    /// Commands that use `kubeconfig`, and `home` for all that they cache.
    pub(crate) fn new(kubeconfig: PathBuf, home: PathBuf) -> Self {
        Self { kubeconfig, home }
    }

    /// Runs `program` to its end, with `input` on standard input.
    pub(crate) async fn run(&self, program: &Path, arguments: &[&str], input: Option<&str>) -> Result<Run> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let line = format!("{name} {}", arguments.join(" "));
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            // kubectl's discovery cache and helm's folders; a run's discovery must not be the next run's.
            .env("HOME", &self.home)
            .envs(
                ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"]
                    .map(|variable| (variable, &self.home)),
            )
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
        let stdin = child.stdin.take();
        let feed = async {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // A command that ends before it has read everything says why by itself.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let Ok(((), output)) = timeout(LIMIT, async { tokio::join!(feed, child.wait_with_output()) }).await
        else {
            bail!("`{line}` did not end within {} s", LIMIT.as_secs());
        };
        let output = output?;
        Ok(Run {
            command: line,
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}
