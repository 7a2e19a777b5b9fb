//! The folder of one run: data, logs, kubeconfigs.
//!
//! In: the target folder. Out: a path, a lock that every process of the run shares, and a verdict at the end. What
//! stays true: the folder goes away when the run is over, also after a kill -9, unless a test failed meanwhile;
//! then it stays and its place is printed. A janitor process outside the suite sees to that.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::{panic, process};

use anyhow::{Context, Result};

/// Waits for the suite's end (standard input), then for that of the last process of the run (the lock), and removes
/// the folder unless it was marked.
const JANITOR: &str = r#"cat >/dev/null; exec 9<"$1/lock"; flock 9; [ -e "$1/failed" ] || rm -rf "$1""#;

/// Scripts that processes of the run are started by: files of their own, so that `ps` stays readable.
const SCRIPTS: [(&str, &str); 2] =
    [("leash.sh", include_str!("leash.sh")), ("sandbox.sh", include_str!("kubelet/sandbox.sh"))];

/// The runs of this process whose folders are to be kept when a test panics.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The folder of one run.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
    janitor: Child,
    suite: Option<ChildStdin>,
}

impl WorkDir {
    /// Makes a new folder under `parent`, and has it removed when the run ends.
    pub(crate) fn create(parent: &Path) -> Result<Self> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let path = parent.join(format!("{}-{}", process::id(), RUNS.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir_all(path.join("logs")).with_context(|| format!("cannot make {}", path.display()))?;
        File::create(path.join("lock"))?;
        for (name, script) in SCRIPTS {
            fs::write(path.join(name), script)?;
        }
        // In a process group of its own: Ctrl-C at a terminal must not take it before its work is done.
        let mut janitor = {
            use std::os::unix::process::CommandExt;
            Command::new("sh")
                .args(["-c", JANITOR, "janitor"])
                .arg(&path)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()
                .context("cannot start a shell")?
        };
        let suite = janitor.stdin.take();
        keep_when_a_test_fails();
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        Ok(Self { path, janitor, suite })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A log file by the name of what writes it.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.path.join("logs").join(format!("{name}.log"))
    }

    /// One of the scripts: `leash.sh` or `sandbox.sh`.
    pub(crate) fn script(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The file on which every process of the run holds a shared lock.
    pub(crate) fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// Keeps the folder beyond the run.
    pub(crate) fn keep(&self) {
        keep(&self.path);
    }
}

impl Drop for WorkDir {
    /// Waits until the last process of the run is gone and the folder with it.
    fn drop(&mut self) {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| path != &self.path);
        self.suite = None;
        let _ = self.janitor.wait();
    }
}

/// Chains a panic hook, once, that marks the folders of all live runs: which of them the failed test used is not
/// known here, and logs too many hurt less than logs missing.
fn keep_when_a_test_fails() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            previous(panic);
            for path in LIVE.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                keep(path);
            }
        }));
    });
}

fn keep(path: &Path) {
    if File::create_new(path.join("failed")).is_ok() {
        // Standard error itself, not the test's captured one: also a person who lets the output be captured reads it.
        let _ = io::Write::write_fmt(
            &mut io::stderr(),
            format_args!("logs of the control plane: {}\n", path.join("logs").display()),
        );
    }
}
