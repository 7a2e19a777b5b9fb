//! The program in a cluster, installed by its chart.
//!
//! In: a cluster, its registry, and values of the chart. Out: a release whose Pods are ready. What stays true: nothing
//! of the chart is replaced or left out; unless a test says otherwise it is installed with its defaults, by which the
//! program makes its own certificate.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::authority::Authority;
use crate::commands::Run;
use crate::control_plane::ControlPlane;
use crate::registry::Registry;
use crate::wait;
use crate::workspace;

/// The release's name, and that of its namespace, Service and Deployment.
const RELEASE: &str = "isvc-registrar";

/// The Secret that holds a certificate that the chart did not ask for.
const PROVIDED_CERTIFICATE: &str = "provided-certificate";

/// A release of the chart.
#[derive(Debug)]
pub struct Installation<'a> {
    cluster: &'a ControlPlane,
    namespace: String,
    values: Vec<String>,
}

impl<'a> Installation<'a> {
    /// Installs the chart into a namespace of its own, with these values (`registration.mode=warn`) beside those for
    /// the registry, and waits until it is ready. There can be one installation in a cluster.
    pub async fn install(cluster: &'a ControlPlane, registry: &Registry, values: &[&str]) -> Result<Self> {
        let mut installation = Self::prepare(cluster, registry, values).await?;
        installation.helm("install", &["--wait"]).await?;
        Ok(installation)
    }

    /// The same without waiting for anything: nothing is ready yet.
    pub async fn begin(cluster: &'a ControlPlane, registry: &Registry, values: &[&str]) -> Result<Self> {
        let mut installation = Self::prepare(cluster, registry, values).await?;
        installation.helm("install", &[]).await?;
        Ok(installation)
    }

    /// What can be installed, in a namespace that is there.
    pub async fn prepare(cluster: &'a ControlPlane, registry: &Registry, values: &[&str]) -> Result<Self> {
        let namespace = RELEASE.to_owned();
        let exists = ["get", "namespace", &namespace, "--ignore-not-found", "--output=name"];
        if cluster.kubectl(&exists).await?.stdout()?.is_empty() {
            cluster.kubectl(&["create", "namespace", &namespace]).await?.stdout()?;
        }
        let mut all = registry.values();
        all.extend(values.iter().map(ToString::to_string));
        Ok(Self { cluster, namespace, values: all })
    }

    /// Values by which a certificate made here is served, after it was put into the namespace.
    pub async fn provide_certificate(cluster: &ControlPlane) -> Result<[String; 3]> {
        let authority = Authority::new("isvc-registrar")?;
        let server = authority.issue(&[&format!("{RELEASE}.{RELEASE}.svc")])?;
        let secret = json!({
            "apiVersion": "v1",
            "kind": "List",
            "items": [
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RELEASE}},
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "type": "kubernetes.io/tls",
                    "metadata": {"name": PROVIDED_CERTIFICATE, "namespace": RELEASE},
                    "stringData": {"tls.crt": server.certificate, "tls.key": server.key},
                },
            ],
        });
        cluster.apply(&secret.to_string()).await?;
        Ok([
            "certificate.mode=provided".to_owned(),
            format!("certificate.existingSecret={PROVIDED_CERTIFICATE}"),
            format!("certificate.caBundle={}", authority.certificate()),
        ])
    }

    /// Upgrades the release to these values beside those it has, and returns when no Pod of before is left.
    pub async fn upgrade(&mut self, values: &[&str]) -> Result<()> {
        self.values.extend(values.iter().map(ToString::to_string));
        self.helm("upgrade", &["--wait"]).await?;
        self.former_pods_are_gone().await
    }

    /// Takes the release back to what it was before the last upgrade, and returns when no Pod of before is left.
    pub async fn roll_back(&self) -> Result<()> {
        let arguments = ["rollback", RELEASE, "--namespace", &self.namespace, "--wait", "--timeout=120s"];
        self.cluster.helm(&arguments).await?.stdout()?;
        self.former_pods_are_gone().await
    }

    /// `helm test`.
    pub async fn test(&self) -> Result<Run> {
        self.cluster.helm(&["test", RELEASE, "--namespace", &self.namespace, "--timeout=60s"]).await
    }

    /// Uninstalls the release. Its namespace stays.
    pub async fn uninstall(self) -> Result<()> {
        let arguments = ["uninstall", RELEASE, "--namespace", &self.namespace, "--wait"];
        self.cluster.helm(&arguments).await?.stdout().map(drop)
    }

    /// The manifests, as `helm template` renders them for a tool that keeps them in Git.
    pub async fn render(&self) -> Result<String> {
        let arguments = [self.arguments("template")?, vec!["--skip-tests".to_owned()]].concat();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.cluster.helm(&arguments).await?.stdout()
    }

    /// Waits until a Deployment of the release has rolled out.
    pub async fn rolled_out(&self, deployment: &str) -> Result<()> {
        let deployment = format!("deployment/{deployment}");
        let rollout = ["rollout", "status", &deployment, "--namespace", &self.namespace, "--timeout=120s"];
        let outcome = self.cluster.kubectl(&rollout).await?;
        outcome.stdout().with_context(|| self.logs()).map(drop)
    }

    /// The namespace that it is installed in.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// What a container (`webhook`, `syncer`, or `test` of `helm test`) has written, in all Pods.
    pub fn log(&self, container: &str) -> Result<String> {
        self.cluster.container_log(&self.namespace, RELEASE, container)
    }

    /// A Pod that is being stopped still answers on the connections that it has.
    async fn former_pods_are_gone(&self) -> Result<()> {
        wait::until("all Pods that are being stopped are gone", async || {
            let template = "--output=jsonpath={.items[?(@.metadata.deletionTimestamp)].metadata.name}";
            let pods = ["get", "pods", "--namespace", &self.namespace, template];
            let going = self.cluster.kubectl(&pods).await?.stdout()?;
            ensure!(going.is_empty(), "there are {going}");
            Ok(())
        })
        .await
    }

    async fn helm(&mut self, verb: &str, more: &[&str]) -> Result<()> {
        let arguments = [self.arguments(verb)?, vec!["--timeout=120s".to_owned()]].concat();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.cluster.helm(&arguments).await?.stdout().with_context(|| self.logs()).map(drop)
    }

    fn arguments(&self, verb: &str) -> Result<Vec<String>> {
        let chart = workspace::chart();
        let chart = chart.to_str().context("the workspace's path is no text")?;
        let mut arguments: Vec<String> =
            [verb, RELEASE, chart, "--namespace", &self.namespace].map(str::to_owned).into();
        for value in &self.values {
            arguments.extend(["--set".to_owned(), value.clone()]);
        }
        Ok(arguments)
    }

    /// What the program has written, for the message of a failure.
    fn logs(&self) -> String {
        let log = |container| self.log(container).unwrap_or_default();
        format!("webhook:\n{}\nsyncer:\n{}", log("webhook"), log("syncer"))
    }
}
