//! The test cluster itself: it breaks as a cluster breaks, and leaves nothing behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use isvc_registrar_test_cluster::{ControlPlane, wait};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A Pod of one container that runs a command of the system's.
fn pod(name: &str, command: &[&str], spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "isvc-registrar:any", "command": command}],
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod
}

async fn wait_for(cluster: &ControlPlane, pod: &str, condition: &str) -> Result<()> {
    let condition = format!("--for={condition}");
    let arguments = ["wait", &condition, &format!("pod/{pod}"), "--timeout=60s"].map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    cluster.kubectl(&arguments).await?.stdout().map(drop)
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn the_api_server_stops_and_comes_back_with_everything_running() {
    let cluster = ControlPlane::start().await.unwrap();
    cluster.apply(&pod("before", &["sleep", "1000"], &json!({})).to_string()).await.unwrap();
    wait_for(&cluster, "before", "condition=Ready").await.unwrap();

    cluster.stop_api_server().await.unwrap();
    let refused = cluster.kubectl(&["get", "pods"]).await.unwrap();
    assert!(!refused.success, "{refused:?}");
    cluster.start_api_server().await.unwrap();

    wait_for(&cluster, "before", "condition=Ready").await.unwrap();
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
    let restarts = cluster.kubectl(&["get", "pod", "before", "--output", restarts]).await.unwrap();
    assert_eq!(restarts.stdout().unwrap(), "0", "the Pod ran on");
    cluster.apply(&pod("after", &["sleep", "1000"], &json!({})).to_string()).await.unwrap();
    wait_for(&cluster, "after", "condition=Ready").await.unwrap();
    cluster.kubectl(&["delete", "pod", "before", "after"]).await.unwrap().stdout().unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_container_that_ends_is_started_again_and_one_that_cannot_start_says_why() {
    let cluster = ControlPlane::shared().await.unwrap();
    let once = ["sh", "-c", "echo run; test -e /state/ran || { touch /state/ran; exit 3; }; exec sleep 1000"];
    let state = json!({"volumes": [{"name": "state", "emptyDir": {}}]});
    let mut crashes = pod("crashes", &once, &state);
    crashes["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "state", "mountPath": "/state"}]);
    cluster.apply(&crashes.to_string()).await.unwrap();
    let mut unknown = pod("unknown", &["sleep", "1000"], &json!({}));
    unknown["spec"]["containers"][0]["image"] = json!("nobody/knows:this");
    cluster.apply(&unknown.to_string()).await.unwrap();
    let secret = json!({"volumes": [{"name": "s", "secret": {"secretName": "absent"}}]});
    cluster.apply(&pod("unfilled", &["sleep", "1000"], &secret).to_string()).await.unwrap();
    let root = json!({"securityContext": {"runAsNonRoot": true, "runAsUser": 0}});
    cluster.apply(&pod("root", &["sleep", "1000"], &root).to_string()).await.unwrap();

    wait_for(cluster, "crashes", "jsonpath={.status.containerStatuses[0].restartCount}=1").await.unwrap();
    wait_for(cluster, "crashes", "condition=Ready").await.unwrap();
    let code = "jsonpath={.status.containerStatuses[0].lastState.terminated.exitCode}";
    let code = cluster.kubectl(&["get", "pod", "crashes", "--output", code]).await.unwrap();
    assert_eq!(code.stdout().unwrap(), "3");
    wait::until("the second run has written its line too", async || {
        let log = cluster.container_log("default", "crashes", "main")?;
        ensure!(log == "run\nrun\n", "the log holds {log:?}");
        Ok(())
    })
    .await
    .unwrap();
    for (name, reason) in [
        ("unknown", "ErrImagePull"),
        ("unfilled", "ContainerCreating"),
        ("root", "CreateContainerConfigError"),
    ] {
        let condition = format!("jsonpath={{.status.containerStatuses[0].state.waiting.reason}}={reason}");
        wait_for(cluster, name, &condition).await.unwrap();
    }
    cluster.kubectl(&["create", "secret", "generic", "absent"]).await.unwrap().stdout().unwrap();
    wait_for(cluster, "unfilled", "condition=Ready").await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_pod_is_asked_to_stop_and_killed_when_its_grace_is_over() {
    let cluster = ControlPlane::shared().await.unwrap();
    let obeys = ["sh", "-c", "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.1; done"];
    let refuses = ["sh", "-c", "trap 'echo asked' TERM; echo up; while :; do sleep 0.1; done"];
    for (name, command) in [("obeys", obeys), ("refuses", refuses)] {
        cluster.apply(&pod(name, &command, &json!({})).to_string()).await.unwrap();
        wait::until(&format!("Pod {name} has set its trap"), async || {
            ensure!(cluster.container_log("default", name, "main")?.contains("up"), "it has written nothing");
            Ok(())
        })
        .await
        .unwrap();

        cluster.kubectl(&["delete", "pod", name]).await.unwrap().stdout().unwrap();

        assert_eq!(cluster.container_log("default", name, "main").unwrap(), "up\nasked\n", "{name}");
    }
}

/// A cluster in a process of its own, up and with a Pod running.
async fn cluster_elsewhere() -> Result<(Child, String)> {
    let mut playground = Command::new(env!("CARGO_BIN_EXE_playground"))
        .arg("--bare")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(playground.stdout.take().context("no output")?).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some(kubeconfig) = line.strip_prefix("export KUBECONFIG=") {
            let folder = Path::new(kubeconfig).ancestors().nth(2).context("a path too short")?;
            return Ok((playground, folder.display().to_string()));
        }
    }
    bail!("the playground ended before it was ready")
}

/// The names of the processes that have a file of `folder` open; every process of a cluster does.
fn processes_of(folder: &str) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for process in fs::read_dir("/proc")? {
        let process = process?.path();
        let Ok(files) = fs::read_dir(process.join("fd")) else {
            continue;
        };
        let targets = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        if targets.into_iter().any(|target| target.starts_with(folder)) {
            names.insert(fs::read_to_string(process.join("comm")).unwrap_or_default().trim().to_owned());
        }
    }
    Ok(names)
}

async fn nothing_is_left(folder: &str) -> Result<()> {
    wait::until("no process and no folder of the cluster is left", async || {
        let left = processes_of(folder)?;
        ensure!(left.is_empty(), "there are {left:?}");
        ensure!(!Path::new(folder).exists(), "there is {folder}");
        Ok(())
    })
    .await
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn kill_9_leaves_nothing() {
    let (mut playground, folder) = cluster_elsewhere().await.unwrap();
    let admin = Path::new(&folder).join("credentials/admin.kubeconfig");
    let kubectl = ControlPlane::shared().await.unwrap().kubectl_program();
    let run = async |arguments: &[&str]| {
        let outcome =
            Command::new(kubectl).arg("--kubeconfig").arg(&admin).args(arguments).output().await.unwrap();
        assert!(outcome.status.success(), "{outcome:?}");
    };
    run(&["run", "lives", "--image=isvc-registrar", "--command", "--", "sleep", "1000"]).await;
    run(&["wait", "--for=condition=Ready", "pod/lives", "--timeout=60s"]).await;
    // Ready is said when the container's process is there, which is a moment before it has become the program.
    wait::until("every kind of process is running", async || {
        let running = processes_of(&folder)?;
        let kinds =
            ["etcd", "kube-apiserver", "kube-controller", "sleep"].map(|name| (name, running.contains(name)));
        ensure!(kinds.iter().all(|(_, running)| *running), "{kinds:?}");
        Ok(())
    })
    .await
    .unwrap();

    playground.kill().await.unwrap();

    nothing_is_left(&folder).await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn sigterm_takes_the_playground_down() {
    let (mut playground, folder) = cluster_elsewhere().await.unwrap();

    let pid = playground.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().await.unwrap().success());

    assert!(playground.wait().await.unwrap().success());
    nothing_is_left(&folder).await.unwrap();
}
