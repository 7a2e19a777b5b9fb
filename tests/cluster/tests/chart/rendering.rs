//! The chart through helm, as text and as objects.

use anyhow::{Context, Result};
use isvc_registrar_test_cluster::{ControlPlane, Run, workspace};
use serde::Deserialize;
use serde_json::Value;

/// A certificate that somebody else makes.
pub(crate) const PROVIDED: &str = "ci/provided-values.yaml";

/// All that can be turned on together.
pub(crate) const EVERYTHING: &str = "ci/everything-values.yaml";

/// Runs a helm command on the chart; a file of values is named from the chart's folder.
pub(crate) async fn helm(command: &[&str], values: &[&str]) -> Result<Run> {
    let cluster = ControlPlane::shared().await?;
    let chart = workspace::chart();
    let mut arguments: Vec<String> = command.iter().map(ToString::to_string).collect();
    arguments.push(chart.display().to_string());
    let in_chart = |value: &&str| match value.strip_prefix("ci/") {
        Some(_) => chart.join(value).display().to_string(),
        None => (*value).to_owned(),
    };
    arguments.extend(values.iter().map(in_chart));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    cluster.helm(&arguments).await
}

/// The manifests as text.
pub(crate) async fn render(values: &[&str]) -> Result<String> {
    helm(&["template", "registrar", "--namespace", "serving"], values).await?.stdout()
}

/// All rendered objects.
pub(crate) async fn objects(values: &[&str]) -> Result<Vec<Value>> {
    parse(&render(values).await?)
}

/// The objects of a text.
pub(crate) fn parse(text: &str) -> Result<Vec<Value>> {
    let documents = serde_norway::Deserializer::from_str(text);
    let objects: Result<Vec<Value>, _> = documents.map(Value::deserialize).collect();
    Ok(objects?.into_iter().filter(|object| !object.is_null()).collect())
}

/// The first rendered object of a kind.
pub(crate) async fn object(kind: &str, values: &[&str]) -> Result<Value> {
    let found = objects(values).await?.into_iter().find(|object| object["kind"] == kind);
    found.with_context(|| format!("with {values:?} the chart renders no {kind}"))
}

/// The values that are set by `--set`.
pub(crate) fn set<'a>(values: &[&'a str]) -> Vec<&'a str> {
    values.iter().flat_map(|value| ["--set", value]).collect()
}

/// A container of a Pod's template.
pub(crate) fn container<'a>(workload: &'a Value, name: &str) -> &'a Value {
    let containers = workload["spec"]["template"]["spec"]["containers"].as_array();
    let found = containers.and_then(|containers| containers.iter().find(|one| one["name"] == name));
    found.unwrap_or(&Value::Null)
}

/// The arguments of a container.
pub(crate) fn arguments<'a>(workload: &'a Value, name: &str) -> Vec<&'a str> {
    let arguments = container(workload, name)["args"].as_array();
    arguments.into_iter().flatten().filter_map(Value::as_str).collect()
}
