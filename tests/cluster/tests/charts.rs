//! The test cluster runs charts as a cluster does: installed, reached, changed, rolled, removed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use isvc_registrar_test_cluster::{ControlPlane, Image, wait};

/// Debian's own Python: a container sees nothing of the machine but the system's folders.
const PYTHON: &str = "/usr/bin/python3";

fn greeter() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/greeter")
}

async fn cluster() -> Result<&'static ControlPlane> {
    let cluster = ControlPlane::shared().await?;
    cluster.images().insert("greeter", Image::of(PYTHON).with_arguments(&["-m", "http.server"]));
    cluster.images().insert("python", Image::of(PYTHON));
    Ok(cluster)
}

/// The cluster IP of a Service.
async fn address(cluster: &ControlPlane, namespace: &str, service: &str) -> Result<String> {
    let output = cluster
        .kubectl(&[
            "get",
            "service",
            service,
            "--namespace",
            namespace,
            "--output",
            "jsonpath={.spec.clusterIP}",
        ])
        .await?;
    output.stdout()
}

/// One GET on a connection of its own.
async fn get(url: &str) -> Result<String> {
    let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build()?;
    Ok(client.get(url).send().await?.error_for_status()?.text().await?)
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_chart_is_installed_upgraded_and_removed() {
    let cluster = cluster().await.unwrap();
    let namespace = cluster.namespace("greeter").await.unwrap();
    let chart = greeter();
    let chart = chart.to_str().unwrap();
    let helm = async |arguments: &[&str]| {
        let arguments = [arguments, &["--namespace", &namespace, "--wait"]].concat();
        cluster.helm(&arguments).await.unwrap().stdout().unwrap()
    };

    helm(&["install", "greeter", chart]).await;
    let url = format!("http://{}", address(cluster, &namespace, "greeter").await.unwrap());
    assert_eq!(get(&format!("{url}/config/greeting")).await.unwrap(), "hello");
    let first = get(&format!("{url}/about/pod")).await.unwrap();
    let second = get(&format!("{url}/about/pod")).await.unwrap();
    assert_ne!(first, second, "connections go to the two Pods in turn");

    helm(&["upgrade", "greeter", chart, "--set", "tag=2,greeting=welcome"]).await;
    assert_eq!(get(&format!("{url}/config/greeting")).await.unwrap(), "welcome");
    let rolled = get(&format!("{url}/about/pod")).await.unwrap();
    assert!(rolled != first && rolled != second, "{rolled} was there before the upgrade");

    helm(&["uninstall", "greeter"]).await;
    wait::until("nobody listens on the Service's address any more", async || {
        ensure!(get(&url).await.is_err(), "{url} still answers");
        Ok(())
    })
    .await
    .unwrap();
    cluster.kubectl(&["delete", "namespace", &namespace]).await.unwrap().stdout().unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_changed_config_map_reaches_the_running_pod() {
    let cluster = cluster().await.unwrap();
    let namespace = cluster.namespace("changed").await.unwrap();
    let install = ["install", "greeter", greeter().to_str().unwrap(), "--namespace", &namespace, "--wait"]
        .map(str::to_owned);
    let install: Vec<&str> = install.iter().map(String::as_str).collect();
    cluster.helm(&install).await.unwrap().stdout().unwrap();
    let url = format!("http://{}/config/greeting", address(cluster, &namespace, "greeter").await.unwrap());

    let patch = r#"{"data":{"greeting":"good evening"}}"#;
    let arguments = ["patch", "configmap", "greeter", "--namespace", &namespace, "--patch", patch];
    cluster.kubectl(&arguments).await.unwrap().stdout().unwrap();

    wait::until("both Pods serve the new greeting", async || {
        for _ in 0..2 {
            let greeting = get(&url).await?;
            ensure!(greeting == "good evening", "a Pod serves {greeting:?}");
        }
        Ok(())
    })
    .await
    .unwrap();
}

/// Asks the API server for a ConfigMap and for a Secret with what every Pod has: address, CA, token.
const ASK: &str = r"
import json, os, ssl, urllib.error, urllib.request
account = '/var/run/secrets/kubernetes.io/serviceaccount'
host, port = os.environ['KUBERNETES_SERVICE_HOST'], os.environ['KUBERNETES_SERVICE_PORT']
namespace, token = open(f'{account}/namespace').read(), open(f'{account}/token').read()
tls = ssl.create_default_context(cafile=f'{account}/ca.crt')
for resource in ('configmaps', 'secrets'):
    url = f'https://{host}:{port}/api/v1/namespaces/{namespace}/{resource}'
    request = urllib.request.Request(url, headers={'Authorization': f'Bearer {token}'})
    try:
        print(resource, urllib.request.urlopen(request, context=tls).status)
    except urllib.error.HTTPError as error:
        print(resource, error.code)
print('user', os.getuid(), 'home', os.path.exists('/root'))
";

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_pod_has_the_rights_of_its_service_account_and_no_more() {
    let cluster = cluster().await.unwrap();
    let namespace = cluster.namespace("account").await.unwrap();
    let objects = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "reader", "namespace": namespace},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "reader", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": namespace}},
    ]});
    cluster.apply(&objects.to_string()).await.unwrap();
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "asks", "namespace": namespace},
        "spec": {
            "serviceAccountName": "reader",
            "restartPolicy": "Never",
            "containers": [{"name": "asks", "image": "python", "args": ["-c", ASK]}],
        },
    });
    cluster.apply(&pod.to_string()).await.unwrap();

    let done = "--for=jsonpath={.status.phase}=Succeeded";
    let arguments = ["wait", done, "pod/asks", "--namespace", &namespace, "--timeout=60s"];
    let outcome = cluster.kubectl(&arguments).await.unwrap();

    let log = cluster.container_log(&namespace, "asks", "asks").unwrap();
    outcome.stdout().context(log.clone()).unwrap();
    assert_eq!(log, "configmaps 200\nsecrets 403\nuser 65532 home False\n");
    let audit = cluster.audit_log().unwrap();
    let user = format!("system:serviceaccount:{namespace}:reader");
    let asked: Vec<_> = audit
        .iter()
        .filter(|event| event.user.username == user)
        .map(|event| (event.verb.as_str(), event.object_ref.resource.as_str()))
        .collect();
    assert_eq!(asked, [("list", "configmaps"), ("list", "secrets")]);
}
