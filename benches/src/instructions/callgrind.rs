//! Runs this very program under callgrind, and reads how many instructions it took.

use std::process::Command;

use anyhow::{Context, ensure};

/// The function whose instructions count, with all that it calls; behind its path comes the compiler's hash.
pub(crate) const COUNTED: &str = "*::instructions::steps::counted*";

/// Instructions of one step.
pub(crate) fn count(step: &str) -> anyhow::Result<u64> {
    let directory = tempfile::tempdir()?;
    let counts = directory.path().join("counts");
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(std::env::current_exe()?)
        .args(["step", step])
        .output()
        .context("cannot run valgrind: install it, on Debian by apt-get install valgrind")?;
    ensure!(ran.status.success(), "valgrind failed: {}", String::from_utf8_lossy(&ran.stderr));
    let text = std::fs::read_to_string(&counts)?;
    let count = text.lines().find_map(|line| line.strip_prefix("totals: ")).context("no totals")?;
    let count = count.trim().parse().context("totals is no number")?;
    ensure!(count > 0, "{COUNTED} was never called: were the symbols stripped?");
    Ok(count)
}
