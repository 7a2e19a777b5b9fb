//! Self-managed certificates on the real API server: filled in, put back and rotated, with the least of rights.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use isvc_registrar_test_cluster::{ControlPlane, wait};
use serde_json::{Value, json};

const MANIFEST: &str = include_str!("fixtures/self-managed.yaml");

/// A namespace with two replicas in it, and a configuration of the same name.
struct Scene<'a> {
    cluster: &'a ControlPlane,
    namespace: String,
}

impl<'a> Scene<'a> {
    async fn set(cluster: &'a ControlPlane) -> Result<Self> {
        let namespace = cluster.namespace("certificates").await?;
        cluster.apply(&MANIFEST.replace("NAMESPACE", &namespace)).await?;
        let scene = Self { cluster, namespace };
        let rollout = ["rollout", "status", "deployment/registrar", "--timeout=120s"];
        scene.kubectl(&rollout).await.with_context(|| scene.log())?;
        Ok(scene)
    }

    async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let arguments = [arguments, &["--namespace", &self.namespace]].concat();
        self.cluster.kubectl(&arguments).await?.stdout()
    }

    /// An InferenceService on trial: nothing is stored, but the webhook has to answer.
    async fn call(&self) -> Result<()> {
        let object = json!({
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": "iris", "labels": {"modelregistry.kubeflow.org/registered-model-id": "7"}},
            "spec": {"predictor": {"model": {"modelFormat": {"name": "sklearn"}}}},
        });
        let create = ["create", "--dry-run=server", "--namespace", &self.namespace, "--filename=-"];
        let run = self.cluster.kubectl_with(&create, &object.to_string()).await?;
        ensure!(run.success && run.stderr.starts_with("Warning: "), "{run:?}\n{}", self.log());
        Ok(())
    }

    async fn secret(&self, key: &str) -> Result<String> {
        let path = format!("--output=jsonpath={{.data.{}}}", key.replace('.', "\\."));
        self.kubectl(&["get", "secret", "registrar-tls", &path]).await
    }

    async fn ca_bundle(&self) -> Result<String> {
        let path = "--output=jsonpath={.webhooks[0].clientConfig.caBundle}";
        self.kubectl(&["get", "mutatingwebhookconfiguration", &self.namespace, path]).await
    }

    async fn patch(&self, kind: &str, name: &str, patch: &Value) -> Result<()> {
        self.kubectl(&["patch", kind, name, "--type=json", "--patch", &patch.to_string()]).await.map(drop)
    }

    fn log(&self) -> String {
        self.cluster.container_log(&self.namespace, "registrar", "webhook").unwrap_or_default()
    }

    /// What the replicas did with a resource, and how often they were forbidden to.
    fn verbs(&self, resource: &str) -> Result<(BTreeSet<String>, usize)> {
        let user = format!("system:serviceaccount:{}:registrar", self.namespace);
        let all = self.cluster.audit_log()?;
        let ours = all.iter().filter(|event| event.user.username == user);
        let (mut verbs, mut forbidden) = (BTreeSet::new(), 0);
        for event in ours.filter(|event| event.object_ref.resource == resource) {
            verbs.insert(event.verb.clone());
            forbidden += usize::from(event.response_status.as_ref().is_some_and(|status| status.code == 403));
        }
        Ok((verbs, forbidden))
    }
}

fn words(words: &str) -> BTreeSet<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn the_webhook_keeps_its_certificates_with_the_rights_that_are_documented() {
    let cluster = ControlPlane::shared().await.unwrap();
    let scene = Scene::set(cluster).await.unwrap();
    scene.call().await.unwrap();

    let good = scene.ca_bundle().await.unwrap();
    let wiped = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    scene.patch("mutatingwebhookconfiguration", &scene.namespace, &wiped).await.unwrap();
    wait::until("the wiped caBundle is put back", async || {
        ensure!(scene.ca_bundle().await? == good, "{}", scene.log());
        Ok(())
    })
    .await
    .unwrap();

    let leaf = scene.secret("tls.crt").await.unwrap();
    let emptied = json!([{"op": "remove", "path": "/data"}]);
    scene.patch("secret", "registrar-tls", &emptied).await.unwrap();
    wait::until("authority and certificate are replaced, and no call fails meanwhile", async || {
        scene.call().await.unwrap();
        let now = scene.secret("tls.crt").await?;
        ensure!(!now.is_empty() && now != leaf, "{}", scene.log());
        ensure!(scene.ca_bundle().await?.len() > good.len(), "the former authority stays trusted");
        Ok(())
    })
    .await
    .unwrap();
    scene.call().await.unwrap();

    let renewed = scene.secret("tls.crt").await.unwrap();
    wait::until("the certificate is renewed in time, and no call fails meanwhile", async || {
        scene.call().await.unwrap();
        ensure!(scene.secret("tls.crt").await? != renewed, "{}", scene.log());
        Ok(())
    })
    .await
    .unwrap();
    scene.call().await.unwrap();

    assert_eq!(scene.verbs("secrets").unwrap(), (words("get list update watch"), 0));
    assert_eq!(scene.verbs("mutatingwebhookconfigurations").unwrap(), (words("get list patch watch"), 0));
    scene.kubectl(&["delete", "mutatingwebhookconfiguration", &scene.namespace]).await.unwrap();
    scene.kubectl(&["delete", "namespace", &scene.namespace]).await.unwrap();
}
