//! Programs under load, each a process of its own: started, asked for its memory and processor time, ended.

use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::load::{Plan, Report};

/// Longer than any program here takes to start.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Between two looks at a program that is starting.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// Length of the kernel's clock tick in `/proc`, which is the same on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// A command of this program, whose end is the end of what it runs, also after a kill.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// A running program. It is ended when this is dropped.
pub(crate) struct Program {
    child: Child,
    name: &'static str,
}

impl Program {
    /// Starts a program; what it says goes to a file.
    pub(crate) fn start(name: &'static str, command: &mut Command, log: &Path) -> anyhow::Result<Self> {
        let log = File::create(log)?;
        let command = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start the {name}"))?;
        Ok(Self { child, name })
    }

    /// Waits for something to become true, for as long as the program runs.
    pub(crate) fn wait_until(&mut self, ready: impl FnMut() -> bool) -> anyhow::Result<()> {
        self.wait_until_within(START_LIMIT, LOOK_AGAIN_AFTER, ready)
    }

    /// The same, for what may take longer.
    pub(crate) fn wait_until_within(
        &mut self,
        limit: Duration,
        look_again_after: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        while !ready() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the {} has ended: {status}", self.name);
            }
            ensure!(started.elapsed() < limit, "the {} does not get ready", self.name);
            std::thread::sleep(look_again_after);
        }
        Ok(())
    }

    /// Waits until it accepts connections.
    pub(crate) fn wait_for(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        self.wait_until(|| TcpStream::connect(address).is_ok())
    }

    /// Bytes of memory that it holds now.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        self.bytes("VmRSS:")
    }

    /// The most bytes of memory that it ever held.
    pub(crate) fn peak_memory(&self) -> anyhow::Result<u64> {
        self.bytes("VmHWM:")
    }

    fn bytes(&self, what: &str) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let found = status.lines().find_map(|line| line.strip_prefix(what)).context("no such line")?;
        let kilobytes: u64 = found.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes << 10)
    }

    /// Processor time that it has taken so far.
    pub(crate) fn processor_time(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name, in parentheses, may hold anything; user and system time are the 14th and 15th field.
        let behind_name = stat.rsplit(')').next().context("no fields")?;
        let fields: Vec<&str> = behind_name.split_whitespace().collect();
        let ticks =
            |at: usize| fields.get(at).context("too few fields")?.parse::<u32>().map_err(anyhow::Error::from);
        Ok(TICK * (ticks(11)? + ticks(12)?))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address on loopback that nobody listens on.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Puts a load on somebody from a process of its own.
pub(crate) fn put_load(plan: &Plan) -> anyhow::Result<Report> {
    let mut load = command(&std::env::current_exe()?)
        .arg("load")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let plan = serde_json::to_vec(plan)?;
    load.stdin.take().context("it was piped")?.write_all(&plan)?;
    let output = load.wait_with_output()?;
    ensure!(output.status.success(), "the load failed: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}
