//! The command line: flags in, an exit code out.
//!
//! Each subcommand has its flags in a file of its own, with the environment variable beside each flag. What
//! stays true: a bad value ends the program before anything is started, with one line and exit code 2.

#![allow(
    clippy::doc_markdown,
    reason = "the doc comments of flags are their help texts, where backticks are noise"
)]

mod address;
mod audit;
mod certs;
mod cluster;
mod demo;
mod duration;
mod go_controller;
mod program;
mod registries;
mod registry;
mod serving_certificate;
mod syncer;
mod webhook;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

pub use audit::AuditArgs;
pub use certs::CertsArgs;
pub use demo::DemoArgs;
pub use program::{LogFormat, ProgramArgs};
pub use registries::RegistriesArgs;
pub use registry::RegistryArgs;
pub use serving_certificate::ServingCertificateArgs;
pub use syncer::SyncerArgs;
pub use webhook::WebhookArgs;

/// Exit code for a command that could not do its work.
const EXIT_FAILURE: u8 = 1;
/// Exit code for a command line that makes no sense; clap has the same.
const EXIT_USAGE: u8 = 2;

/// A command line that makes no sense in a way that its flags alone do not show.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// Registers KServe InferenceServices in Kubeflow Model Registry at admission time.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 110)]
pub struct Cli {
    /// What to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer admission reviews: register InferenceServices while they are created
    Webhook(Box<WebhookArgs>),
    /// Keep the registries' entries true to the InferenceServices in the cluster
    Syncer(Box<SyncerArgs>),
    /// Show where cluster and registries do not agree, and mend it on request
    Audit(Box<AuditArgs>),
    /// Show it all in one process: registry, webhook, syncer, and an API server in memory
    Demo(DemoArgs),
    /// Serve the Model Registry REST API from memory, for tests and trials
    Registry(RegistryArgs),
    /// Write a certificate authority and a server certificate for development
    Certs(CertsArgs),
}

/// Installs the TLS provider, starts the runtime and runs the command to its end.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    // Fails only when a provider is there already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match runtime(threads(&cli.command)) {
        Ok(runtime) => runtime,
        Err(error) => {
            return failed(
                &anyhow::Error::new(error).context("cannot start the async runtime"),
                EXIT_FAILURE,
            );
        }
    };
    // An audit that finds drift ends with the code of other commands' failures.
    let failure = if matches!(cli.command, Command::Audit(_)) { EXIT_USAGE } else { EXIT_FAILURE };
    let outcome = runtime.block_on(async {
        match cli.command {
            Command::Webhook(args) => webhook::run(*args).await,
            Command::Syncer(args) => syncer::run(*args).await,
            Command::Audit(args) => return audit::run(*args).await,
            Command::Demo(args) => demo::run(args).await,
            Command::Registry(args) => registry::run(args).await,
            Command::Certs(args) => certs::run(&args),
        }
        .map(|()| ExitCode::SUCCESS)
    });
    outcome.unwrap_or_else(|error| failed(&error, failure))
}

/// The threads that a command waits on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Threads {
    /// The one that started the program.
    One,
    /// So many beside it.
    Many(usize),
    /// One for each processor of the machine.
    PerProcessor,
}

/// What stays in the cluster has a fixed number of threads.
///
/// Tokio's own choice is a thread per processor of the node, whatever a container may use of them, and each of them
/// keeps memory of its own: with 16 the webhook takes twice as much. Both programs wait most of the time. One thread
/// also answers a review sooner than two that hand it to each other; the syncer has a second one that renews the lease
/// and answers probes while a page of objects or entries is read.
fn threads(command: &Command) -> Threads {
    match command {
        Command::Webhook(_) => Threads::One,
        Command::Syncer(_) => Threads::Many(2),
        Command::Audit(_) | Command::Demo(_) | Command::Registry(_) | Command::Certs(_) => {
            Threads::PerProcessor
        }
    }
}

fn runtime(threads: Threads) -> io::Result<Runtime> {
    let mut builder = match threads {
        Threads::One => Builder::new_current_thread(),
        Threads::Many(_) | Threads::PerProcessor => Builder::new_multi_thread(),
    };
    if let Threads::Many(threads) = threads {
        builder.worker_threads(threads);
    }
    builder.enable_all().build()
}

/// Says on standard error why the command ended.
fn failed(error: &anyhow::Error, code: u8) -> ExitCode {
    #[expect(clippy::print_stderr, reason = "the last words of a command line tool belong on standard error")]
    {
        eprintln!("isvc-registrar: {error:#}");
    }
    ExitCode::from(if error.is::<Usage>() { EXIT_USAGE } else { code })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::runtime::RuntimeFlavor;

    use super::*;

    fn threads_of(command: &[&str]) -> Threads {
        threads(&Cli::try_parse_from([&["isvc-registrar"], command].concat()).unwrap().command)
    }

    #[test]
    fn what_stays_in_the_cluster_has_as_few_threads_however_many_processors_the_node_has() {
        let webhook = ["webhook", "--tls-cert-file", "tls.crt", "--tls-key-file", "tls.key"];
        assert_eq!(threads_of(&webhook), Threads::One);
        assert_eq!(threads_of(&["syncer"]), Threads::Many(2));
    }

    #[test]
    fn an_audit_can_wait_for_an_answer_at_the_terminal_while_its_calls_go_on() {
        let audit = runtime(threads_of(&["audit"])).unwrap();
        assert_eq!(audit.handle().runtime_flavor(), RuntimeFlavor::MultiThread);
    }

    #[test]
    fn a_runtime_has_the_threads_that_it_was_given() {
        let one = runtime(Threads::One).unwrap();
        assert_eq!(one.handle().runtime_flavor(), RuntimeFlavor::CurrentThread);
        let more_than_one_per_processor = thread::available_parallelism().unwrap().get() + 1;
        let many = runtime(Threads::Many(more_than_one_per_processor)).unwrap();
        assert_eq!(many.metrics().num_workers(), more_than_one_per_processor);
    }
}
