//! The Pods: what can restart them, whom they run as, what they listen on.

use isvc_registrar_test_cluster::ControlPlane;
use serde_json::{Value, json};

use super::rendering::{arguments, container, object, objects, set};

const PROBES: [&str; 3] = ["startupProbe", "livenessProbe", "readinessProbe"];

/// A Deployment of the release, by its name's end.
async fn deployment(end: &str, values: &[&str]) -> Value {
    let objects = objects(&set(values)).await.unwrap();
    let is_it = |object: &Value| {
        object["kind"] == "Deployment" && object["metadata"]["name"].as_str().unwrap().ends_with(end)
    };
    objects.into_iter().find(is_it).unwrap()
}

/// In one Pod, a container that is restarted makes the Pod unready: nothing may restart the syncer but itself.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn no_probe_can_reach_the_syncer_beside_the_webhook() {
    let deployment = object("Deployment", &[]).await.unwrap();
    let syncer = container(&deployment, "syncer");
    assert!(syncer.is_object() && PROBES.iter().all(|probe| syncer[probe].is_null()), "{syncer}");
}

/// The health port answers for certificate and listener alone: a registry that is away, or a syncer in trouble, takes
/// no webhook out of the Service.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn the_webhook_is_probed_on_its_own_health_port() {
    let deployment = object("Deployment", &[]).await.unwrap();
    let webhook = container(&deployment, "webhook");
    assert!(PROBES.iter().all(|probe| webhook[probe]["httpGet"]["port"] == "health"), "{webhook}");
    assert_eq!(webhook["ports"][1], json!({"name": "health", "containerPort": 8080}));
    assert!(arguments(&deployment, "webhook").contains(&"--health-listen=$(POD_IP):8080"));
    assert_eq!(webhook["readinessProbe"]["httpGet"]["path"], "/readyz");
    assert_eq!(webhook["livenessProbe"]["httpGet"]["path"], "/healthz");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_syncer_of_its_own_has_its_own_account_and_no_liveness_probe() {
    let standalone = ["syncer.standalone=true", "syncer.replicas=3"];
    let syncer = deployment("-syncer", &standalone).await;
    assert_eq!(syncer["spec"]["replicas"], 3);
    assert_eq!(syncer["spec"]["template"]["spec"]["serviceAccountName"], "registrar-isvc-registrar-syncer");
    assert!(container(&syncer, "syncer")["livenessProbe"].is_null());

    let webhook = deployment("isvc-registrar", &standalone).await;
    assert!(container(&webhook, "syncer").is_null(), "it is beside the webhook as well");
    let selected = &webhook["spec"]["selector"]["matchLabels"];
    assert_ne!(selected, &syncer["spec"]["selector"]["matchLabels"]);
    let service = object("Service", &set(&standalone)).await.unwrap();
    assert_eq!(&service["spec"]["selector"], selected, "the API server would call a syncer");
}

/// What the Pod Security Standards call restricted, as the API server itself judges it; and no user is named, since
/// OpenShift chooses one.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn its_pods_pass_the_restricted_standard() {
    let cluster = ControlPlane::shared().await.unwrap();
    let namespace = cluster.namespace("restricted").await.unwrap();
    let label = ["label", "namespace", &namespace, "pod-security.kubernetes.io/enforce=restricted"];
    cluster.kubectl(&label).await.unwrap().stdout().unwrap();
    let test = object("Pod", &[]).await.unwrap();
    let webhook = deployment("isvc-registrar", &[]).await["spec"]["template"].take();
    let syncer = deployment("-syncer", &["syncer.standalone=true"]).await["spec"]["template"].take();
    for mut pod in [webhook, syncer, test] {
        assert!(!pod.to_string().contains("runAsUser") && !pod.to_string().contains("fsGroup"), "{pod}");
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = "judged".into();
        pod["metadata"]["namespace"] = namespace.as_str().into();
        pod["spec"]["serviceAccountName"] = "default".into();
        let arguments = ["create", "--dry-run=server", "--filename=-"];
        cluster.kubectl_with(&arguments, &pod.to_string()).await.unwrap().stdout().unwrap();
    }
}

/// The mesh keeps its hands off what the API server, the kubelet and Prometheus call.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn with_istio_every_port_is_left_out_of_the_sidecar() {
    const EXCLUDED: &str = "traffic.sidecar.istio.io/excludeInboundPorts";
    let values = ["istio.enabled=true", "webhook.port=9443", "syncer.healthPort=9081"];
    let metadata = |deployment: Value| deployment["spec"]["template"]["metadata"].clone();
    let one = metadata(deployment("isvc-registrar", &values).await);
    assert_eq!(one["annotations"][EXCLUDED], "9443,8080,9081");
    assert_eq!(one["labels"]["sidecar.istio.io/inject"], "true");

    let values = [&values[..], &["syncer.standalone=true"]].concat();
    assert_eq!(metadata(deployment("isvc-registrar", &values).await)["annotations"][EXCLUDED], "9443,8080");
    assert_eq!(metadata(deployment("-syncer", &values).await)["annotations"][EXCLUDED], "9081");

    let policy = object("AuthorizationPolicy", &set(&values)).await.unwrap();
    assert_eq!(policy["metadata"]["namespace"], "kubeflow");
    let principals = &policy["spec"]["rules"][0]["from"][0]["source"]["principals"];
    let account = "cluster.local/ns/serving/sa/registrar-isvc-registrar";
    assert_eq!(principals, &json!([account, format!("{account}-syncer")]));
}

/// The API server calls from an address that no policy can name.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn the_network_policy_names_ports_and_nobody() {
    let policy = object("NetworkPolicy", &set(&["networkPolicy.enabled=true"])).await.unwrap();
    let ingress = policy["spec"]["ingress"].as_array().unwrap();
    assert!(ingress.iter().all(|rule| rule["from"].is_null()), "{policy}");
    let ports: Vec<&Value> =
        ingress[0]["ports"].as_array().unwrap().iter().map(|port| &port["port"]).collect();
    assert_eq!(ports, [10250, 8080, 8081]);
}

/// On the node's network the ports are the node's: the old Pod has to leave before the new one comes.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn on_the_nodes_network_cluster_names_resolve_and_ports_are_free() {
    let deployment = deployment("isvc-registrar", &["hostNetwork=true", "webhook.port=9443"]).await;
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["hostNetwork"], true);
    assert_eq!(pod["dnsPolicy"], "ClusterFirstWithHostNet");
    assert_eq!(deployment["spec"]["strategy"]["rollingUpdate"], json!({"maxSurge": 0, "maxUnavailable": 1}));
}
