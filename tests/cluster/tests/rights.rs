//! What the program may do in the cluster is what it does, no more and no less: what the chart grants is held against
//! the API server's own log of a life with everything in it.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use isvc_registrar_test_cluster::{AuditEvent, ControlPlane, Installation, Registry, wait};
use serde_json::{Value, json};

const RELEASE: &str = "isvc-registrar";
const MODEL: &str = "modelregistry.kubeflow.org/registered-model-id";
const FINALIZER: &str = "modelregistry.kubeflow.org/finalizer";

/// What stands for any namespace, or any name.
const ANY: &str = "*";

/// One thing that an account may do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    account: String,
    verb: String,
    group: String,
    resource: String,
    namespace: String,
    name: String,
}

impl Right {
    fn covers(&self, event: &AuditEvent) -> bool {
        let object = &event.object_ref;
        let fits = |wanted: &str, is: &str| wanted == ANY || wanted == is;
        event.user.username == format!("system:serviceaccount:{RELEASE}:{}", self.account)
            && self.verb == event.verb
            && self.group == object.api_group
            && self.resource == object.resource
            && object.subresource.is_empty()
            && fits(&self.namespace, &object.namespace)
            && fits(&self.name, &object.name)
    }
}

/// All rights that the release's roles give to the release's accounts.
async fn granted(cluster: &ControlPlane) -> Result<BTreeSet<Right>> {
    let kinds = "roles,rolebindings,clusterroles,clusterrolebindings";
    let labelled = format!("--selector=app.kubernetes.io/instance={RELEASE}");
    let get = ["get", kinds, &labelled, "--all-namespaces", "--output=json"];
    let list: Value = serde_json::from_str(&cluster.kubectl(&get).await?.stdout()?)?;
    let objects = list["items"].as_array().context("no list")?;
    let mut rights = BTreeSet::new();
    for binding in objects.iter().filter(|object| object["roleRef"].is_object()) {
        let namespace = binding["metadata"]["namespace"].as_str();
        let is_it = |role: &&Value| {
            role["kind"] == binding["roleRef"]["kind"]
                && role["metadata"]["name"] == binding["roleRef"]["name"]
                && role["metadata"]["namespace"].as_str() == namespace
        };
        let role = objects.iter().find(is_it).with_context(|| format!("no role for {binding}"))?;
        for subject in words(&binding["subjects"], "name") {
            for rule in role["rules"].as_array().into_iter().flatten() {
                rights.extend(of_rule(&subject, namespace.unwrap_or(ANY), rule));
            }
        }
    }
    Ok(rights)
}

fn of_rule(account: &str, namespace: &str, rule: &Value) -> Vec<Right> {
    let list = |key: &str| -> Vec<String> {
        let values = rule[key].as_array().into_iter().flatten();
        values.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut names = list("resourceNames");
    if names.is_empty() {
        names.push(ANY.to_owned());
    }
    let mut rights = Vec::new();
    for verb in list("verbs") {
        for group in list("apiGroups") {
            for resource in list("resources") {
                for name in &names {
                    rights.push(Right {
                        account: account.to_owned(),
                        verb: verb.clone(),
                        group: group.clone(),
                        resource: resource.clone(),
                        namespace: namespace.to_owned(),
                        name: name.clone(),
                    });
                }
            }
        }
    }
    rights
}

fn words(list: &Value, key: &str) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item[key].as_str()).map(str::to_owned).collect()
}

/// What the release's accounts asked the API server for.
fn asked(cluster: &ControlPlane) -> Result<Vec<AuditEvent>> {
    let ours = format!("system:serviceaccount:{RELEASE}:");
    let log = cluster.audit_log()?;
    Ok(log.into_iter().filter(|event| event.user.username.starts_with(&ours)).collect())
}

/// An object's whole life: registered, in trouble, retired, released.
async fn live(cluster: &ControlPlane, registry: &Registry, namespace: &str) -> Result<()> {
    let model = registry.post("registered_models", &json!({"name": "iris"})).await?;
    let model = model["id"].as_str().context("a model without an id")?;
    let object = json!({
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": "iris",
            "namespace": namespace,
            "labels": {MODEL: model},
            "finalizers": [FINALIZER],
        },
        "spec": {"predictor": {"model": {"modelFormat": {"name": "sklearn"}}}},
    });
    cluster.apply(&object.to_string()).await?;
    wait::until("the entry carries the object's uid", async || {
        let entries = registry.get("inference_services?pageSize=0").await?;
        let uid = &entries["items"][0]["customProperties"]["uid"];
        ensure!(!uid.is_null(), "they are {entries}");
        Ok(())
    })
    .await?;
    // Comes back only once the finalizer is released.
    let delete = ["delete", "isvc", "iris", "--namespace", namespace, "--timeout=60s"];
    cluster.kubectl(&delete).await?.stdout()?;
    wait::until("the entry is retired", async || {
        let entries = registry.get("inference_services?pageSize=0").await?;
        ensure!(entries["items"][0]["desiredState"] == "UNDEPLOYED", "they are {entries}");
        Ok(())
    })
    .await
}

/// Every right is made use of, and nothing is asked for that is not among them.
async fn rights_are_what_is_needed(values: &[&str], namespace: &str) -> Result<()> {
    let cluster = ControlPlane::start().await?;
    let registry = Registry::of_cluster(&cluster).await?;
    cluster.kubectl(&["create", "namespace", namespace]).await?.stdout()?;
    let release = format!("syncer.releaseFinalizer={FINALIZER}");
    let values = [values, &["syncer.grace=1s", "syncer.resync=2s", &release]].concat();
    Installation::install(&cluster, &registry, &values).await?;
    let granted = granted(&cluster).await?;
    live(&cluster, &registry, namespace).await?;

    wait::until("every right that the chart grants is made use of", async || {
        let asked = asked(&cluster)?;
        let unused: Vec<&Right> =
            granted.iter().filter(|right| !asked.iter().any(|event| right.covers(event))).collect();
        ensure!(unused.is_empty(), "these are not: {unused:#?}");
        Ok(())
    })
    .await?;
    let asked = asked(&cluster)?;
    let code = |event: &AuditEvent| event.response_status.as_ref().map(|status| status.code);
    let forbidden: Vec<&AuditEvent> = asked.iter().filter(|event| code(event) == Some(403)).collect();
    ensure!(forbidden.is_empty(), "these were forbidden: {forbidden:#?}");
    let elsewhere: Vec<&AuditEvent> =
        asked.iter().filter(|event| !granted.iter().any(|right| right.covers(event))).collect();
    ensure!(elsewhere.is_empty(), "the chart grants none of these: {elsewhere:#?}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn one_account_for_both_may_do_what_they_do() {
    rights_are_what_is_needed(&[], "team").await.unwrap();
}

/// The webhook's account has nothing to do with InferenceServices, the syncer's nothing with the certificate; and no
/// namespace is looked into but those that were named.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_account_for_each_in_chosen_namespaces_may_do_what_it_does() {
    let values = ["syncer.standalone=true", "syncer.watchNamespaces[0]=team"];
    rights_are_what_is_needed(&values, "team").await.unwrap();
}
