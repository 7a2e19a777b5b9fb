//! `isvc-registrar audit`: flags, wiring, and the question before anything is written.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::go_controller::GoController;
use super::{ProgramArgs, RegistriesArgs, Usage, cluster, duration};
use crate::audit::{self, Fix, Output, Paper, Progress, Verdict};
use crate::metrics::Metrics;
use crate::registration::ClusterId;
use crate::registry::directory::Directory;
use crate::syncer::Settings;
use crate::syncer::inspect::Inspector;
use crate::syncer::objects::cluster::ClusterObjects;

/// Exit code when cluster and registries do not agree.
const EXIT_DRIFT: u8 = 1;

/// How long the first lists of Services and Namespaces may take.
const FIRST_LISTS_LIMIT: Duration = Duration::from_secs(30);

/// Flags of the audit.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("health_listen", |argument| argument.hide(true)))]
#[command(mut_arg("log_level", |argument| argument.default_value("warn")))]
pub struct AuditArgs {
    /// How the report is printed
    #[arg(long, env = "ISVC_REGISTRAR_OUTPUT", value_enum, default_value_t)]
    pub output: Output,

    /// Mend what differs, after showing it and asking
    #[arg(long, env = "ISVC_REGISTRAR_FIX")]
    pub fix: bool,

    /// Do not ask before mending
    #[arg(long, env = "ISVC_REGISTRAR_YES", requires = "fix")]
    pub yes: bool,

    /// Namespace whose InferenceServices are looked at; may be given more than once [default: all]
    #[arg(long, env = "ISVC_REGISTRAR_NAMESPACE", value_name = "NAMESPACE", value_delimiter = ',')]
    pub namespace: Vec<String>,

    /// Id of a cluster that is no more: its entries for objects that are here become this cluster's
    #[arg(long, env = "ISVC_REGISTRAR_TAKE_OVER", value_name = "CLUSTER-ID")]
    pub take_over: Option<ClusterId>,

    /// How long an entry must have been untouched before it is retired for an object that is not there
    #[arg(long, env = "ISVC_REGISTRAR_GRACE", value_name = "DURATION", default_value = "5m",
          value_parser = duration::any)]
    pub grace: Duration,

    /// The registries.
    #[command(flatten)]
    pub registries: RegistriesArgs,

    /// The program.
    #[command(flatten)]
    pub program: ProgramArgs,
}

/// Compares once, and mends if it may.
pub(super) async fn run(args: AuditArgs) -> anyhow::Result<ExitCode> {
    if args.fix && !args.yes && !io::stdin().is_terminal() {
        let message = "--fix asks before it writes, and standard input is no terminal: give --yes as well";
        return Err(Usage(message.into()).into());
    }
    let go_controller = GoController::from_environment()?;
    args.program.start_logging();
    let client = cluster::client().await?;
    let cluster_id = match &args.program.cluster_id {
        Some(id) => id.clone(),
        None => cluster::read_id(&client).await?,
    };
    if args.take_over.as_ref() == Some(&cluster_id) {
        let message =
            format!("--take-over {cluster_id} is this cluster's own id: name the cluster that is no more");
        return Err(Usage(message).into());
    }
    let directory = directory(&args, &go_controller, &client).await?;
    let settings = Settings {
        keys: args.program.keys(&go_controller),
        namespaces: args.namespace,
        grace: args.grace,
        registry_timeout: args.registries.registry_timeout,
        ..Settings::new(cluster_id)
    };
    let objects = Arc::new(ClusterObjects::new(client));
    let inspector = Inspector::new(&settings, objects, directory, args.take_over);
    let fix = match (args.fix, args.yes) {
        (false, _) => Fix::No,
        (true, true) => Fix::Yes,
        (true, false) => Fix::Ask(&mut ask),
    };
    let paper = Paper { report: &mut io::stdout(), remarks: &mut io::stderr() };
    let progress = Progress::new(io::stderr().is_terminal());
    let verdict = audit::run(&inspector, args.output, fix, paper, &progress).await?;
    Ok(match verdict {
        Verdict::Agreement | Verdict::Mended => ExitCode::SUCCESS,
        Verdict::Drift => ExitCode::from(EXIT_DRIFT),
    })
}

/// The registries, once they are known.
async fn directory(
    args: &AuditArgs,
    go_controller: &GoController,
    client: &kube::Client,
) -> anyhow::Result<Directory> {
    let namespaces = cluster::namespaces(client);
    let settings = args.registries.settings(go_controller, &Metrics::default().registry)?;
    let directory = args.registries.follow(settings, namespaces.clone(), Some(client)).await?;
    let known = async {
        directory.known().await;
        namespaces.known().await;
    };
    tokio::time::timeout(FIRST_LISTS_LIMIT, known).await.with_context(|| {
        format!(
            "Namespaces and the Services of registries could not be listed within {} s: check the kubeconfig and its \
             rights, or look at no Services with --registry-namespace=",
            FIRST_LISTS_LIMIT.as_secs()
        )
    })?;
    Ok(directory)
}

/// Asks at the terminal. Whatever is not a yes is a no.
fn ask(question: &str) -> io::Result<bool> {
    let mut terminal = io::stderr();
    write!(terminal, "{question} [y/N] ")?;
    terminal.flush()?;
    let mut answer = String::new();
    tokio::task::block_in_place(|| io::stdin().read_line(&mut answer))?;
    Ok(is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        assert!(is_yes("y\n") && is_yes("Yes\n"));
        assert!(!is_yes("\n") && !is_yes("") && !is_yes("no\n") && !is_yes("yo\n"));
    }
}
