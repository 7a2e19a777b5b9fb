//! What the lines of the table are measured on: a folder with certificates, and in it registries, webhooks and the bare
//! handler, started when they are asked for.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use isvc_registrar::certs::issue::Authority;
use registrar_benches::reviews::NAMESPACE;
use serde_json::json;
use tempfile::TempDir;

use super::load::{Plan, Until};
use super::program::{Program, command, free_address};
use super::target::{Reviews, Target};

/// The id of the cluster whose objects are registered.
pub(crate) const CLUSTER: &str = "benchmark";

/// What the image sets for the program.
const IMAGE_ENVIRONMENT: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "131072"), ("MALLOC_TRIM_THRESHOLD_", "131072")];

/// How often and how long things are measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Rounds, each of ours and the reference.
    pub(crate) rounds: usize,
    /// How long one side is measured in one round.
    pub(crate) slice: Duration,
    /// Divides every number of operations.
    pub(crate) divisor: u64,
}

impl Effort {
    /// Enough for figures that can be judged.
    pub(crate) const FULL: Self = Self { rounds: 9, slice: Duration::from_secs(2), divisor: 1 };
    /// Enough to see that everything still works.
    pub(crate) const SHORT: Self = Self { rounds: 1, slice: Duration::from_millis(50), divisor: 100 };

    /// Waits for so long, or as long as this effort takes for it.
    pub(crate) fn wait(self, full: Duration) {
        std::thread::sleep(full / u32::try_from(self.divisor).unwrap_or(u32::MAX));
    }

    /// So many operations, or as many as this effort makes of them.
    pub(crate) fn operations(self, full: u64) -> u64 {
        (full / self.divisor).max(1)
    }
}

/// Entries that a registry has from the start.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entries {
    /// Deployed, and of nobody that is asked about.
    OfOthers(u64),
    /// Of objects of this cluster that went long ago.
    Retired(u64),
}

impl Listening {
    /// Has every answer of a registry wait for so long first.
    pub(crate) fn answer_after(&self, milliseconds: u64) -> anyhow::Result<()> {
        let answer = ask(self.address, "PUT /faults", &format!("{{\"delayMs\": {milliseconds}}}"))?;
        ensure!(answer.starts_with("HTTP/1.1 2"), "the registry will not be slow: {answer}");
        Ok(())
    }
}

/// The folder and what is in it.
pub(crate) struct Scene {
    directory: TempDir,
    program: PathBuf,
    release: PathBuf,
    /// How much to measure.
    pub(crate) effort: Effort,
}

/// A program that listens, and where.
pub(crate) struct Listening {
    pub(crate) program: Program,
    pub(crate) address: SocketAddr,
}

impl Scene {
    /// Prepares certificates for `localhost`. `program` is the built `isvc-registrar`, `release` the same as it is shipped.
    pub(crate) fn new(program: PathBuf, release: PathBuf, effort: Effort) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let authority = Authority::for_development()?;
        let leaf = authority.issue(&["localhost".into()])?;
        std::fs::write(directory.path().join("ca.crt"), &authority.certificate)?;
        std::fs::write(directory.path().join("tls.crt"), &leaf.certificate)?;
        std::fs::write(directory.path().join("tls.key"), &leaf.key)?;
        Ok(Self { directory, program, release, effort })
    }

    /// The built program as it is shipped.
    pub(crate) fn release(&self) -> &Path {
        &self.release
    }

    /// A command of it, as its image runs it.
    pub(crate) fn command(&self) -> Command {
        let mut command = command(&self.program);
        command.envs(IMAGE_ENVIRONMENT);
        command
    }

    /// A registry with the model, its version and the environment, and so many entries of other objects.
    pub(crate) fn registry(&self, entries: u64) -> anyhow::Result<Listening> {
        self.registry_with(Entries::OfOthers(entries))
    }

    /// The same with these entries.
    pub(crate) fn registry_with(&self, entries: Entries) -> anyhow::Result<Listening> {
        let seed = self.path("seed.jsonl");
        std::fs::write(&seed, seed_lines(entries)?)?;
        let address = free_address()?;
        let mut command = self.command();
        command.arg("registry").args(["--listen", &address.to_string(), "--seed"]).arg(seed);
        self.listening("registry", &mut command, address)
    }

    /// A webhook before a registry. A cluster is not asked for anything.
    pub(crate) fn webhook(&self, registry: &Listening) -> anyhow::Result<Listening> {
        let (address, health) = (free_address()?, free_address()?);
        let mut command = self.webhook_command(registry.address, address, health);
        let mut program = Program::start("webhook", &mut command, &self.path("webhook.log"))?;
        // It listens before it has its certificate.
        program.wait_until(|| is_ready(health))?;
        Ok(Listening { program, address })
    }

    /// A webhook that is just starting, and where it tells its health.
    pub(crate) fn starting_webhook(&self, registry: &Listening) -> anyhow::Result<(Program, SocketAddr)> {
        let (address, health) = (free_address()?, free_address()?);
        let mut command = self.webhook_command(registry.address, address, health);
        Ok((Program::start("webhook", &mut command, &self.path("webhook.log"))?, health))
    }

    fn webhook_command(&self, registry: SocketAddr, listen: SocketAddr, health: SocketAddr) -> Command {
        let mut command = self.command();
        command
            .arg("webhook")
            .args(["--cluster-id", CLUSTER, "--registry-url", &format!("http://{registry}")])
            .args(["--listen", &listen.to_string(), "--health-listen", &health.to_string()]);
        self.with_certificate(&mut command);
        command
    }

    /// The bare handler.
    pub(crate) fn reference(&self) -> anyhow::Result<Listening> {
        self.reference_with(&[])
    }

    /// The same, and it makes sure that every body is JSON.
    pub(crate) fn reference_that_checks_json(&self) -> anyhow::Result<Listening> {
        self.reference_with(&["--checks-json"])
    }

    fn reference_with(&self, flags: &[&str]) -> anyhow::Result<Listening> {
        let address = free_address()?;
        let mut command = command(&std::env::current_exe()?);
        command.arg("reference").args(["--listen", &address.to_string()]).args(flags);
        self.with_certificate(&mut command);
        self.listening("reference", &mut command, address)
    }

    /// A load of reviews.
    pub(crate) fn reviews(&self, to: &Listening, reviews: Reviews, workers: usize, until: Until) -> Plan {
        let ca = self.ca();
        Plan { target: Target::Webhook { address: to.address, ca, reviews }, workers, until, first_object: 0 }
    }

    fn with_certificate(&self, command: &mut Command) {
        command
            .arg("--tls-cert-file")
            .arg(self.path("tls.crt"))
            .arg("--tls-key-file")
            .arg(self.path("tls.key"));
    }

    fn listening(
        &self,
        name: &'static str,
        command: &mut Command,
        address: SocketAddr,
    ) -> anyhow::Result<Listening> {
        let mut program = Program::start(name, command, &self.path(&format!("{name}.log")))?;
        program.wait_for(address)?;
        Ok(Listening { program, address })
    }

    /// The file of the authority that signed the certificates.
    pub(crate) fn ca(&self) -> PathBuf {
        self.path("ca.crt")
    }

    /// A file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Whether a program says that it is ready.
pub(crate) fn is_ready(health: SocketAddr) -> bool {
    ask(health, "GET /readyz", "").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// Sends one request over a connection of its own, `GET /path` and a body in JSON or none; the answer with its head.
pub(crate) fn ask(address: SocketAddr, request: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The requests that fill a registry. Ids are given out in this order.
fn seed_lines(entries: Entries) -> anyhow::Result<String> {
    let model = json!({"method": "POST", "path": "/registered_models", "body": {"name": "fraud"}});
    let version = json!({
        "method": "POST", "path": "/model_versions", "body": {"name": "12", "registeredModelId": "1"},
    });
    let environment = json!({"method": "POST", "path": "/serving_environments", "body": {"name": NAMESPACE}});
    let mut lines = format!("{model}\n{version}\n{environment}\n");
    let (Entries::OfOthers(count) | Entries::Retired(count)) = entries;
    for at in 0..count {
        let name = format!("another-object-{at}");
        let mut body = json!({
            "name": name, "registeredModelId": "1", "servingEnvironmentId": "3", "runtime": "sklearn",
            "desiredState": "DEPLOYED",
        });
        if let Entries::Retired(_) = entries {
            let text = |value: &str| json!({"metadataType": "MetadataStringValue", "string_value": value});
            body["desiredState"] = "UNDEPLOYED".into();
            body["customProperties"] = json!({
                "managedBy": text("isvc-registrar"), "cluster": text(CLUSTER), "namespace": text(NAMESPACE),
                "name": text(&name), "uid": text(&format!("3f2b8c1e-5a67-4d8f-9b0a-{at:012x}")),
            });
        }
        let entry = json!({"method": "POST", "path": "/inference_services", "body": body});
        writeln!(lines, "{entry}")?;
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_runs_here_as_in_its_image() {
        let image = include_str!("../../../Dockerfile");
        for (variable, value) in IMAGE_ENVIRONMENT {
            assert!(
                image.contains(&format!("{variable}={value}")),
                "the image does not set {variable}={value}"
            );
        }
    }
}
