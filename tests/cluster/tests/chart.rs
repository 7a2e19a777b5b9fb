//! What the chart renders, and what it refuses.

use anyhow::{Result, bail};
use isvc_registrar_test_cluster::{ControlPlane, Run, workspace};
use serde::Deserialize;
use serde_json::Value;

/// The least that the chart has to be told.
const VALUES: &str = "ci/provided-values.yaml";

/// Runs a helm command on the chart with the least values and some more.
async fn helm(command: &[&str], more: &[&str]) -> Result<Run> {
    let cluster = ControlPlane::shared().await?;
    let chart = workspace::chart();
    let values = chart.join(VALUES).display().to_string();
    let chart = chart.display().to_string();
    cluster.helm(&[command, &[&chart, "--values", &values], more].concat()).await
}

async fn render(more: &[&str]) -> Result<String> {
    helm(&["template", "registrar", "--namespace", "serving"], more).await?.stdout()
}

/// The first rendered object of a kind.
async fn rendered(kind: &str) -> Result<Value> {
    for document in serde_norway::Deserializer::from_str(&render(&[]).await?) {
        let object = Value::deserialize(document)?;
        if object["kind"] == kind {
            return Ok(object);
        }
    }
    bail!("the chart renders no {kind}")
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn it_lints_clean() {
    let run = helm(&["lint", "--strict"], &[]).await.unwrap();
    assert!(run.success && !run.stdout.contains("WARN"), "{run:?}");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn it_renders_the_same_twice() {
    assert_eq!(render(&[]).await.unwrap(), render(&[]).await.unwrap());
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn it_refuses_values_that_it_does_not_know() {
    for (value, complaint) in [
        ("replica=3", "additional properties 'replica' not allowed"),
        ("registration.mode=enforced", "registration/mode"),
        ("webhook.port=99999", "webhook/port"),
        ("registry.url=model-registry:8080", "registry/url"),
        ("labelPrefix=", "labelPrefix"),
        ("certificate.existingSecret=", "certificate.existingSecret is needed"),
        ("registry.token.from=secret", "registry.token.secret is needed"),
        ("registry.list[0].name=gold", "registry/list/0"),
        (
            "registry.list[0].name=gold,registry.list[0].service.namespace=vault,registry.list[0].service.name=gold",
            "vault, which is not one of registry.namespaces",
        ),
    ] {
        let run = helm(&["template", "registrar"], &["--set", value]).await.unwrap();
        assert!(!run.success && run.stderr.contains(complaint), "{value}: {run:?}");
    }
}

/// The API server fills in defaults: a field that it adds would be a difference that Argo CD undoes for ever.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn the_api_server_adds_nothing_to_the_webhooks() {
    let cluster = ControlPlane::shared().await.unwrap();
    let mut rendered = rendered("MutatingWebhookConfiguration").await.unwrap();
    // The sample's bundle is no certificate, which the API server would refuse.
    for webhook in rendered["webhooks"].as_array_mut().unwrap() {
        webhook["clientConfig"].as_object_mut().unwrap().remove("caBundle");
    }

    let arguments = ["create", "--dry-run=server", "--output=json", "--filename=-"];
    let stored = cluster.kubectl_with(&arguments, &rendered.to_string()).await.unwrap().stdout().unwrap();

    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["webhooks"], rendered["webhooks"]);
}

/// In one Pod, a container that is restarted makes the Pod unready: nothing may restart the syncer but itself.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn no_probe_can_reach_the_syncer() {
    let deployment = rendered("Deployment").await.unwrap();
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().unwrap();

    let syncer = containers.iter().find(|container| container["name"] == "syncer").unwrap();
    let probes = ["startupProbe", "livenessProbe", "readinessProbe"];
    assert!(probes.iter().all(|probe| syncer[probe].is_null()), "{syncer}");
    let webhook = containers.iter().find(|container| container["name"] == "webhook").unwrap();
    assert!(probes.iter().all(|probe| webhook[probe]["httpGet"]["port"] == "health"), "{webhook}");
}

/// What the Pod Security Standards call restricted, as the API server itself judges it.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn its_pods_pass_the_restricted_standard() {
    let cluster = ControlPlane::shared().await.unwrap();
    let namespace = cluster.namespace("restricted").await.unwrap();
    let label = ["label", "namespace", &namespace, "pod-security.kubernetes.io/enforce=restricted"];
    cluster.kubectl(&label).await.unwrap().stdout().unwrap();
    let mut template = rendered("Deployment").await.unwrap()["spec"]["template"].take();
    template["apiVersion"] = "v1".into();
    template["kind"] = "Pod".into();
    template["metadata"]["name"] = "judged".into();
    template["spec"]["serviceAccountName"] = "default".into();

    let arguments = ["create", "--dry-run=server", "--namespace", &namespace, "--filename=-"];
    cluster.kubectl_with(&arguments, &template.to_string()).await.unwrap().stdout().unwrap();
}
