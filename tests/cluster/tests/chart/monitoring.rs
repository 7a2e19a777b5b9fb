//! What Prometheus and Grafana are given.

use serde_json::Value;

use super::rendering::{object, objects, set};

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn nothing_is_rendered_that_a_bare_cluster_does_not_know() {
    let kinds: Vec<Value> = objects(&[]).await.unwrap().iter().map(|object| object["kind"].clone()).collect();
    for kind in ["ServiceMonitor", "PrometheusRule", "Certificate", "AuthorizationPolicy"] {
        assert!(!kinds.contains(&kind.into()), "{kind} among {kinds:?}");
    }
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn both_health_ports_are_scraped_and_keep_the_namespaces_of_objects() {
    let values =
        set(&["metrics.serviceMonitor.enabled=true", "metrics.serviceMonitor.labels.release=prometheus"]);
    let monitor = object("ServiceMonitor", &values).await.unwrap();
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    let endpoints = monitor["spec"]["endpoints"].as_array().unwrap();
    assert!(endpoints.iter().all(|endpoint| endpoint["honorLabels"] == true), "{monitor}");

    let services = objects(&values).await.unwrap();
    let selected = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
    let is_selected = |service: &&Value| {
        service["kind"] == "Service"
            && selected.iter().all(|(key, value)| service["metadata"]["labels"][key] == *value)
    };
    let services: Vec<&Value> = services.iter().filter(is_selected).collect();
    assert_eq!(services.len(), 1, "{services:?}");
    let names = |list: &Value, key: &str| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|item| item[key].clone()).collect()
    };
    assert_eq!(names(&services[0]["spec"]["ports"], "name"), names(&monitor["spec"]["endpoints"], "port"));
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn alerts_and_dashboard_are_about_this_release() {
    let values = set(&[
        "metrics.prometheusRule.enabled=true",
        "metrics.prometheusRule.alertLabels.team=platform",
        "metrics.prometheusRule.fullSyncWithinSeconds=7200",
        "metrics.dashboard.enabled=true",
        "labelPrefix=modelregistry.opendatahub.io",
    ]);
    let rule = object("PrometheusRule", &values).await.unwrap();
    let rules = rule["spec"]["groups"][0]["rules"].as_array().unwrap();
    assert!(rules.iter().all(|rule| rule["labels"]["team"] == "platform"), "{rules:?}");
    let dashboard = objects(&values).await.unwrap();
    let dashboard =
        dashboard.iter().find(|object| object["data"]["isvc-registrar.json"].is_string()).unwrap();
    let dashboard: Value =
        serde_json::from_str(dashboard["data"]["isvc-registrar.json"].as_str().unwrap()).unwrap();
    for text in [rule.to_string(), dashboard.to_string()] {
        assert!(text.contains("(register|late)[.]modelregistry[.]opendatahub[.]io"), "{text}");
        assert!(!text.contains('@'), "something is not filled in: {text}");
    }
    assert!(rule.to_string().contains("> 7200"), "{rule}");
}
