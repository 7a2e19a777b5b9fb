//! Flags of every long-running command: whose cluster, which labels, where health is told, how it logs.

use std::net::SocketAddr;

use clap::{Args, ValueEnum};

use super::go_controller::GoController;
use crate::kserve::LabelKeys;
use crate::registration::ClusterId;

/// Flags of every long-running command.
#[derive(Debug, Clone, Args)]
pub struct ProgramArgs {
    /// Prefix of the labels; OpenDataHub: modelregistry.opendatahub.io [default: modelregistry.kubeflow.org]
    #[arg(long, env = "ISVC_REGISTRAR_LABEL_PREFIX", value_name = "PREFIX",
          value_parser = |text: &str| LabelKeys::new(text))]
    pub label_prefix: Option<LabelKeys>,

    /// Id of the cluster in the registry [default: the UID of Namespace kube-system]
    #[arg(long, env = "ISVC_REGISTRAR_CLUSTER_ID", value_name = "ID")]
    pub cluster_id: Option<ClusterId>,

    /// Address for /healthz, /readyz and /metrics [default: webhook 0.0.0.0:8080, syncer 0.0.0.0:8081]
    #[arg(long, env = "ISVC_REGISTRAR_HEALTH_LISTEN", value_name = "ADDRESS", value_parser = super::address::listen)]
    pub health_listen: Option<SocketAddr>,

    /// How log lines are written
    #[arg(long, env = "ISVC_REGISTRAR_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What is logged: error, warn, info, debug or trace, also by module
    #[arg(long, env = "ISVC_REGISTRAR_LOG_LEVEL", value_name = "LEVEL", default_value = "info",
          value_parser = |text: &str| text.parse::<LogLevel>())]
    pub log_level: LogLevel,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// A filter of log lines that is known to be well-formed.
#[derive(Debug, Clone)]
pub struct LogLevel(String);

impl std::str::FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let filter = tracing_subscriber::EnvFilter::builder().parse(text);
        filter.map(|_| Self(text.to_owned())).map_err(|error| error.to_string())
    }
}

impl ProgramArgs {
    /// The keys of the labels: of the flag, else of the Go controller's variables.
    pub(super) fn keys(&self, go_controller: &GoController) -> LabelKeys {
        self.label_prefix.clone().or_else(|| go_controller.keys.clone()).unwrap_or_default()
    }

    /// Starts logging to standard error.
    pub fn start_logging(&self) {
        let filter = tracing_subscriber::EnvFilter::builder().parse_lossy(&self.log_level.0);
        let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        // Colours are for people.
        let lines = lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
        // Fails only where a subscriber is there already, as in tests.
        let _ = match self.log_format {
            LogFormat::Text => lines.try_init(),
            LogFormat::Json => lines.json().flatten_event(true).try_init(),
        };
    }
}
