//! Flags of the certificate that the webhook serves: self-managed, or in files.

use std::convert::Infallible;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use anyhow::Context;
use clap::{ArgGroup, Args};

use super::duration;
use crate::certs::self_managed::plan::Lifetimes;
use crate::certs::self_managed::{SelfManaged, Settings};
use crate::certs::{CertificateFiles, Provided, Serving};
use crate::namespaced_name::NamespacedName;

/// Shorter than this, and a slow API server could hold up a renewal until the certificate is over.
const SHORTEST_LIFETIME: Duration = Duration::from_mins(1);

/// Ten years: longer than any installation goes without an upgrade.
const LONGEST_LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);

/// Flags of the certificate.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Certificate (either self-managed or from files)")]
#[command(group = ArgGroup::new("certificate").args(["tls_secret", "tls_cert_file"]).required(true))]
pub struct ServingCertificateArgs {
    /// Self-managed: Secret that all replicas share; it has to exist, and is filled and renewed
    #[arg(
        long,
        env = "ISVC_REGISTRAR_TLS_SECRET",
        value_name = "NAMESPACE/NAME",
        requires = "webhook_configuration",
        requires = "service"
    )]
    pub tls_secret: Option<NamespacedName>,

    /// Self-managed: Service that the API server calls; the certificate is issued for its names
    #[arg(long, env = "ISVC_REGISTRAR_SERVICE", value_name = "NAMESPACE/NAME", requires = "tls_secret")]
    pub service: Option<NamespacedName>,

    /// Self-managed: how long a certificate lasts, from 1m on; renewed when a third is left, its authority lasts
    /// four times as long
    #[arg(long, env = "ISVC_REGISTRAR_CERTIFICATE_LIFETIME", value_name = "DURATION", default_value = "2160h",
          value_parser = lifetime)]
    pub certificate_lifetime: Duration,

    /// MutatingWebhookConfiguration that names this webhook. Self-managed: its caBundle is written and kept. With
    /// files: never written, but /readyz holds the certificate against its caBundle
    #[arg(long, env = "ISVC_REGISTRAR_WEBHOOK_CONFIGURATION", value_name = "NAME")]
    pub webhook_configuration: Option<String>,

    /// From files: the certificate chain in PEM, read again when it changes
    #[arg(long, env = "ISVC_REGISTRAR_TLS_CERT_FILE", value_name = "FILE", requires = "tls_key_file")]
    pub tls_cert_file: Option<PathBuf>,

    /// From files: the private key in PEM, read again when it changes
    #[arg(
        long,
        env = "ISVC_REGISTRAR_TLS_KEY_FILE",
        value_name = "FILE",
        requires = "tls_cert_file",
        conflicts_with = "tls_secret"
    )]
    pub tls_key_file: Option<PathBuf>,
}

/// Keeps the certificate for as long as it is polled.
pub(super) type Keeper = Pin<Box<dyn Future<Output = Infallible> + Send>>;

impl ServingCertificateArgs {
    /// Whether the API server has to be asked.
    pub(super) fn needs_cluster(&self) -> bool {
        self.webhook_configuration.is_some()
    }

    /// What keeps the certificate, once it is spawned.
    pub(super) fn keeper(self, client: Option<&kube::Client>, serving: Serving) -> anyhow::Result<Keeper> {
        let cluster = || client.context("--webhook-configuration needs a cluster");
        Ok(match self {
            Self {
                tls_secret: Some(secret),
                service: Some(service),
                webhook_configuration: Some(configuration),
                certificate_lifetime,
                ..
            } => {
                let lifetimes = Lifetimes::of_leaf(certificate_lifetime.try_into()?);
                let settings = Settings { secret, configuration, service, lifetimes };
                Box::pin(SelfManaged::new(cluster()?, settings, serving).run())
            }
            Self {
                tls_cert_file: Some(certificate), tls_key_file: Some(key), webhook_configuration, ..
            } => {
                let provided = Provided::new(CertificateFiles { certificate, key }, serving);
                Box::pin(match webhook_configuration {
                    Some(configuration) => provided.trusted_by(cluster()?, configuration).run(),
                    None => provided.run(),
                })
            }
            _ => anyhow::bail!(
                "give --tls-secret, --webhook-configuration and --service, or certificate files"
            ),
        })
    }
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = duration::positive(text)?;
    if (SHORTEST_LIFETIME..=LONGEST_LIFETIME).contains(&lifetime) {
        Ok(lifetime)
    } else {
        Err("must be from 1m to 87600h".into())
    }
}

#[cfg(test)]
mod tests {
    use clap::{Parser, error::ErrorKind};
    use rstest::rstest;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        certificate: ServingCertificateArgs,
    }

    fn parse(line: &str) -> Result<ServingCertificateArgs, clap::Error> {
        Program::try_parse_from(std::iter::once("program").chain(line.split_whitespace()))
            .map(|program| program.certificate)
    }

    #[rstest]
    #[case::self_managed("--tls-secret ns/a --webhook-configuration b --service ns/c", true)]
    #[case::short_lived(
        "--tls-secret ns/a --webhook-configuration b --service ns/c --certificate-lifetime 1m",
        true
    )]
    #[case::files("--tls-cert-file a --tls-key-file b", false)]
    #[case::files_of_a_configuration("--tls-cert-file a --tls-key-file b --webhook-configuration c", true)]
    fn either_way_is_taken(#[case] line: &str, #[case] needs_cluster: bool) {
        assert_eq!(parse(line).unwrap().needs_cluster(), needs_cluster);
    }

    #[rstest]
    #[case::nothing("", ErrorKind::MissingRequiredArgument)]
    #[case::no_key("--tls-cert-file a", ErrorKind::MissingRequiredArgument)]
    #[case::no_certificate("--tls-key-file a", ErrorKind::MissingRequiredArgument)]
    #[case::no_configuration("--tls-secret ns/a --service ns/c", ErrorKind::MissingRequiredArgument)]
    #[case::no_service("--tls-secret ns/a --webhook-configuration b", ErrorKind::MissingRequiredArgument)]
    #[case::no_secret("--service ns/a --webhook-configuration b", ErrorKind::MissingRequiredArgument)]
    #[case::a_service_for_files(
        "--tls-cert-file a --tls-key-file b --service ns/a",
        ErrorKind::MissingRequiredArgument
    )]
    #[case::both(
        "--tls-secret ns/a --webhook-configuration b --service ns/c --tls-cert-file a --tls-key-file b",
        ErrorKind::ArgumentConflict
    )]
    #[case::no_namespace(
        "--tls-secret a --webhook-configuration b --service ns/c",
        ErrorKind::ValueValidation
    )]
    #[case::too_short(
        "--tls-secret ns/a --webhook-configuration b --service ns/c --certificate-lifetime 59s",
        ErrorKind::ValueValidation
    )]
    fn anything_between_is_refused(#[case] line: &str, #[case] kind: ErrorKind) {
        let error = parse(line).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
