//! The program in a cluster, installed by its chart.
//!
//! In: a cluster, its registry, and values of the chart. Out: a release whose Pods are ready. What stays true: nothing
//! of the chart is replaced or left out; its certificate is made for its Service's name, as a person would make it.

use anyhow::{Context, Result};
use serde_json::json;

use crate::authority::Authority;
use crate::control_plane::ControlPlane;
use crate::registry::Registry;
use crate::workspace;

/// The release's name, and that of its Service and Deployment.
const RELEASE: &str = "isvc-registrar";

/// The Secret that holds the certificate.
const CERTIFICATE: &str = "isvc-registrar-tls";

/// A release of the chart.
#[derive(Debug)]
pub struct Installation<'a> {
    cluster: &'a ControlPlane,
    namespace: String,
    values: Vec<String>,
}

impl<'a> Installation<'a> {
    /// Installs the chart into a namespace of its own, with these values (`registration.mode=warn`) beside those for
    /// the registry and the certificate. There can be one installation in a cluster.
    pub async fn install(cluster: &'a ControlPlane, registry: &Registry, values: &[&str]) -> Result<Self> {
        let namespace = RELEASE.to_owned();
        cluster.kubectl(&["create", "namespace", &namespace]).await?.stdout()?;
        let authority = Authority::new("isvc-registrar")?;
        let server = authority.issue(&[&format!("{RELEASE}.{namespace}.svc")])?;
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": CERTIFICATE, "namespace": namespace},
            "stringData": {"tls.crt": server.certificate, "tls.key": server.key},
        });
        cluster.apply(&secret.to_string()).await?;

        let mut all = registry.values();
        all.push(format!("certificate.existingSecret={CERTIFICATE}"));
        all.push(format!("certificate.caBundle={}", authority.certificate()));
        let mut installation = Self { cluster, namespace, values: all };
        installation.helm("install", values).await?;
        Ok(installation)
    }

    /// Upgrades the release to these values beside those it has.
    pub async fn upgrade(&mut self, values: &[&str]) -> Result<()> {
        self.helm("upgrade", values).await
    }

    /// Uninstalls the release.
    pub async fn uninstall(self) -> Result<()> {
        let arguments = ["uninstall", RELEASE, "--namespace", &self.namespace, "--wait"];
        self.cluster.helm(&arguments).await?.stdout().map(drop)
    }

    /// The namespace that it is installed in.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// What a container (`webhook` or `syncer`) has written, in all Pods.
    pub fn log(&self, container: &str) -> Result<String> {
        self.cluster.container_log(&self.namespace, RELEASE, container)
    }

    async fn helm(&mut self, verb: &str, values: &[&str]) -> Result<()> {
        self.values.extend(values.iter().map(ToString::to_string));
        let chart = workspace::chart();
        let chart = chart.to_str().context("the workspace's path is no text")?;
        let mut arguments =
            vec![verb, RELEASE, chart, "--namespace", &self.namespace, "--wait", "--timeout=120s"];
        for value in &self.values {
            arguments.extend(["--set", value]);
        }
        let outcome = self.cluster.helm(&arguments).await?;
        let logs = || {
            format!(
                "webhook:\n{}\nsyncer:\n{}",
                self.log("webhook").unwrap_or_default(),
                self.log("syncer").unwrap_or_default()
            )
        };
        outcome.stdout().with_context(logs)?;
        Ok(())
    }
}
