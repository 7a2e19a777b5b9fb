//! A Model Registry that the cluster's programs find.
//!
//! In: a cluster, and `ISVC_REGISTRAR_TEST_REGISTRY`. Out: a registry and its address. What stays true: tests use it
//! by its REST API alone and assume nothing of its content, so that another registry can stand in: the one at that URL,
//! or else the embedded one, in a Pod behind the Service that Kubeflow's manifests make.

use std::env;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::control_plane::ControlPlane;

/// The environment variable that names a registry elsewhere.
const ELSEWHERE: &str = "ISVC_REGISTRAR_TEST_REGISTRY";

/// The embedded registry as Kubeflow installs one: namespace, Service name, label and port name.
const MANIFEST: &str = include_str!("../manifests/registry.yaml");

/// The namespace and the name of its Service.
const NAMESPACE: &str = "kubeflow";
const SERVICE: &str = "model-registry-service";

/// A running registry.
#[derive(Debug, Clone)]
pub struct Registry {
    url: String,
    name: String,
    origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The cluster's own, found by its Service.
    Cluster,
    /// Named by the environment variable.
    Elsewhere,
    /// The test's business.
    Test,
}

impl Registry {
    /// Brings up the registry of a cluster, or finds the one elsewhere.
    pub async fn start(cluster: &ControlPlane) -> Result<Self> {
        if let Ok(url) = env::var(ELSEWHERE) {
            // The chart gives rights in this namespace, with or without a registry in it.
            cluster.kubectl(&["create", "namespace", NAMESPACE]).await?.stdout()?;
            let url = url.trim_end_matches('/').to_owned();
            let host = reqwest::Url::parse(&url).with_context(|| format!("${ELSEWHERE} is {url:?}"))?;
            let name = host.host_str().with_context(|| format!("${ELSEWHERE} has no host"))?.to_owned();
            return Ok(Self { url, name, origin: Origin::Elsewhere });
        }
        Self::of_cluster(cluster).await
    }

    /// Brings up one of the cluster's own, wherever else there is one: for tests that stop it.
    pub async fn of_cluster(cluster: &ControlPlane) -> Result<Self> {
        cluster.apply(MANIFEST).await?;
        let rollout =
            ["rollout", "status", "deployment/model-registry", "--namespace", NAMESPACE, "--timeout=120s"];
        let outcome = cluster.kubectl(&rollout).await?;
        outcome.stdout().with_context(|| {
            cluster.container_log(NAMESPACE, "model-registry", "registry").unwrap_or_default()
        })?;
        let address =
            ["get", "service", SERVICE, "--namespace", NAMESPACE, "--output=jsonpath={.spec.clusterIP}"];
        let address = cluster.kubectl(&address).await?.stdout()?;
        Ok(Self { url: format!("http://{address}:8080"), name: SERVICE.to_owned(), origin: Origin::Cluster })
    }

    /// One that the test itself started, and of which it tells the chart where need be.
    #[must_use]
    pub fn at(url: &str, name: &str) -> Self {
        Self { url: url.to_owned(), name: name.to_owned(), origin: Origin::Test }
    }

    /// Where the tests reach it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What the program calls it in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The chart's values by which the program finds it: none where it is found by its Service.
    pub(crate) fn values(&self) -> Vec<String> {
        if self.origin == Origin::Elsewhere { vec![format!("registry.url={}", self.url)] } else { Vec::new() }
    }

    /// Stops it: whoever asks it finds nobody. Only the cluster's own can be stopped.
    pub async fn stop(&self, cluster: &ControlPlane) -> Result<()> {
        self.scale(cluster, 0).await
    }

    /// Starts it again; what the embedded registry held is lost.
    pub async fn restart(&self, cluster: &ControlPlane) -> Result<()> {
        self.scale(cluster, 1).await
    }

    async fn scale(&self, cluster: &ControlPlane, replicas: u8) -> Result<()> {
        ensure!(self.origin == Origin::Cluster, "{} is not the suite's to stop", self.url);
        let replicas = format!("--replicas={replicas}");
        let scale = ["scale", "deployment/model-registry", "--namespace", NAMESPACE, &replicas];
        cluster.kubectl(&scale).await?.stdout()?;
        let rollout =
            ["rollout", "status", "deployment/model-registry", "--namespace", NAMESPACE, "--timeout=120s"];
        cluster.kubectl(&rollout).await?.stdout()?;
        if replicas == "--replicas=0" {
            let gone =
                ["wait", "--for=delete", "pod", "--selector=app=model-registry", "--namespace", NAMESPACE];
            cluster.kubectl(&gone).await?.stdout()?;
        }
        Ok(())
    }

    /// GET of a path below the API's root, such as `inference_services?pageSize=100`.
    pub async fn get(&self, path: &str) -> Result<Value> {
        answer(reqwest::Method::GET, &self.path(path), None).await
    }

    /// POST of an entity; returns it with its id.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        answer(reqwest::Method::POST, &self.path(path), Some(body)).await
    }

    /// PATCH of an entity.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Value> {
        answer(reqwest::Method::PATCH, &self.path(path), Some(body)).await
    }

    /// Sets what is wrong with an embedded registry from now on (`docs/embedded-registry.md`); `{}` is nothing.
    pub async fn set_faults(&self, faults: &Value) -> Result<()> {
        answer(reqwest::Method::PUT, &format!("{}/faults", self.url), Some(faults)).await.map(drop)
    }

    /// What an embedded registry was asked lately: `method`, `target` and `status`, the oldest first.
    pub async fn requests(&self) -> Result<Vec<Value>> {
        let requests = answer(reqwest::Method::GET, &format!("{}/requests", self.url), None).await?;
        Ok(serde_json::from_value(requests)?)
    }

    /// Has an embedded registry forget what it was asked so far.
    pub async fn forget_requests(&self) -> Result<()> {
        let url = format!("{}/requests", self.url);
        let response = reqwest::Client::builder().no_proxy().build()?.delete(&url).send().await?;
        ensure!(response.status().is_success(), "DELETE {url} answers {}", response.status());
        Ok(())
    }

    fn path(&self, path: &str) -> String {
        format!("{}/api/model_registry/v1alpha3/{path}", self.url)
    }
}

async fn answer(method: reqwest::Method, url: &str, body: Option<&Value>) -> Result<Value> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut request = client.request(method.clone(), url).header("content-type", "application/json");
    if let Some(body) = body {
        request = request.body(body.to_string());
    }
    let response = request.send().await.with_context(|| format!("{method} {url}"))?;
    let status = response.status();
    let text = response.text().await?;
    ensure!(status.is_success(), "{method} {url} answers {status}: {text}");
    serde_json::from_str(&text).with_context(|| format!("{method} {url} answers no JSON: {text}"))
}
