//! Which registry an object's entry is in, where there are several, and whom nobody ever asks.

use anyhow::{Context, Result, ensure};
use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry, wait};
use serde_json::{Value, json};

use crate::gate::{Gate, Trap};
use crate::scene::{ID, MODEL, QUICK, Scene, label, refusal, service};

const NAME: &str = "modelregistry.kubeflow.org/name";
const NAMESPACE: &str = "modelregistry.kubeflow.org/namespace";
const URL: &str = "modelregistry.kubeflow.org/url";

/// Where registries' Services are looked for.
const KUBEFLOW: &str = "kubeflow";

/// The label by which a Service is known to be a registry's.
fn labelled() -> Value {
    json!({"component": "model-registry"})
}

/// A Service with the port of a registry's, in front of the Pods of `app`.
fn front(name: &str, app: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": KUBEFLOW, "labels": labels},
        "spec": {
            "selector": {"app": app},
            "ports": [{"name": "http-api", "port": 8080, "targetPort": "http-api"}],
        },
    })
}

/// Starts one more registry behind a Service with these labels.
async fn start(cluster: &ControlPlane, name: &str, labels: &Value) -> Result<Registry> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": KUBEFLOW, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
            "name": "registry", "image": "isvc-registrar:tests",
            "args": ["registry", "--listen=$(POD_IP):8080"],
            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "ports": [{"name": "http-api", "containerPort": 8080}],
            "readinessProbe": {"periodSeconds": 1, "tcpSocket": {"port": "http-api"}},
        }]},
    });
    cluster.apply(&pod.to_string()).await?;
    cluster.apply(&front(name, name, labels).to_string()).await?;
    let ready = ["wait", "--for=condition=Ready", "pod", name, "--namespace", KUBEFLOW, "--timeout=60s"];
    cluster.kubectl(&ready).await?.stdout()?;
    let address = ["get", "service", name, "--namespace", KUBEFLOW, "--output=jsonpath={.spec.clusterIP}"];
    let address = cluster.kubectl(&address).await?.stdout()?;
    Ok(Registry::at(&format!("http://{address}:8080"), name))
}

/// Applies an object of a model that only this registry has, and checks that its entry is there.
async fn is_registered(scene: &Scene<'_>, name: &str, labels: Value) -> Result<()> {
    let model = scene.model().await?;
    let mut manifest = service(name, labels);
    manifest["metadata"]["labels"][MODEL] = json!(model);
    let applied = scene.apply(&manifest).await?;
    ensure!(applied.said.is_empty(), "kubectl says {}", applied.said);
    let entries = scene.entries(&model).await?;
    let id = Some(applied.id()?);
    ensure!(
        matches!(entries.as_slice(), [entry] if entry["id"].as_str() == id),
        "{} has {entries:?} for {applied:?}",
        scene.registry.name()
    );
    Ok(())
}

/// Fills a registry with some models, so that the ids of two registries are not the same.
async fn fill(registry: &Registry, models: usize) -> Result<()> {
    for model in 0..models {
        registry
            .post("registered_models", &json!({"name": format!("of {} {model}", registry.name())}))
            .await?;
    }
    Ok(())
}

/// The values for registry `at` of the list.
fn listed(at: usize, gate: &Gate, name: &str, teams: &[&str]) -> Vec<String> {
    let teams = teams.join(",");
    [
        format!("name={name}"),
        format!("url={}", gate.url()),
        format!("token.secret={name}"),
        format!("namespaces.names={{{teams}}}"),
        format!("defaultFor.names={{{teams}}}"),
    ]
    .map(|value| format!("registry.list[{at}].{value}"))
    .to_vec()
}

async fn upgrade(installation: &mut Installation<'_>, values: &[Vec<String>]) -> Result<()> {
    let values: Vec<&str> = values.iter().flatten().map(String::as_str).collect();
    installation.upgrade(&values).await
}

async fn pods(cluster: &ControlPlane, installation: &Installation<'_>) -> Result<String> {
    let uids = "--output=jsonpath={.items[*].metadata.uid}";
    cluster.kubectl(&["get", "pods", "--namespace", installation.namespace(), uids]).await?.stdout()
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn namespaces_have_the_registries_that_the_file_gives_them() {
    let cluster = ControlPlane::start().await.unwrap();
    let nothing = json!({});
    cluster.kubectl(&["create", "namespace", KUBEFLOW]).await.unwrap().stdout().unwrap();
    let gold = start(&cluster, "gold", &nothing).await.unwrap();
    let silver = start(&cluster, "silver", &nothing).await.unwrap();
    fill(&silver, 5).await.unwrap();
    let gold_gate = Gate::start(gold.url(), "for-gold-alone").await.unwrap();
    let silver_gate = Gate::start(silver.url(), "for-silver-alone").await.unwrap();
    let values = [&QUICK[..], &["replicas=1", "registry.token.from=none"]].concat();
    let mut installation = Installation::install(&cluster, &gold, &values).await.unwrap();
    for name in ["gold", "silver"] {
        let token = format!("--from-literal=token=for-{name}-alone");
        let home = ["--namespace", installation.namespace()];
        let secret = ["create", "secret", "generic", name, &token];
        cluster.kubectl(&[&secret[..], &home].concat()).await.unwrap().stdout().unwrap();
    }
    // Each with the registry that its objects should be in.
    let team_a = Scene::of(&cluster, &gold, "team-a").await.unwrap();
    let team_b = Scene::of(&cluster, &silver, "team-b").await.unwrap();
    let later = Scene::of(&cluster, &silver, "team-d").await.unwrap();
    let list = [
        listed(0, &gold_gate, "gold", &[&team_a.namespace]),
        listed(1, &silver_gate, "silver", &[&team_b.namespace]),
    ];
    upgrade(&mut installation, &list).await.unwrap();

    // Each Namespace has its own, and each registry gets its own token.
    is_registered(&team_a, "fraud", json!({})).await.unwrap();
    is_registered(&team_b, "fraud", json!({})).await.unwrap();
    for (gate, token) in [(&gold_gate, "Bearer for-gold-alone"), (&silver_gate, "Bearer for-silver-alone")] {
        let seen = gate.take();
        assert!(!seen.is_empty() && seen.iter().all(|seen| seen.authorization == token), "{seen:?}");
    }

    // A third one is nobody's but those who have none of their own.
    let third = start(&cluster, "third", &labelled()).await.unwrap();
    fill(&third, 9).await.unwrap();
    let team_c = Scene::of(&cluster, &third, "team-c").await.unwrap();
    wait::until("team-c has the third", async || would_be_in(&team_c, "third").await).await.unwrap();
    is_registered(&team_c, "fraud", json!({})).await.unwrap();
    is_registered(&team_a, "after", json!({})).await.unwrap();
    is_registered(&team_b, "after", json!({})).await.unwrap();

    // One that a Namespace may not use is not asked for it.
    gold_gate.take();
    let stolen = service("stolen", json!({MODEL: "1", NAME: "gold"}));
    let refused = refusal(team_b.kubectl_with(&["create"], &stolen).await.unwrap()).unwrap();
    let said = format!("registry gold may not be used in Namespace {}", team_b.namespace);
    assert!(refused.contains(&said), "expected {said}\nkubectl says {refused}");
    let seen = gold_gate.take();
    assert!(seen.iter().all(|seen| !seen.request.contains("stolen")), "{seen:?}");

    // The file changes while the program runs.
    let before = pods(&cluster, &installation).await.unwrap();
    would_be_in(&later, "third").await.unwrap();
    let both = listed(1, &silver_gate, "silver", &[&team_b.namespace, &later.namespace]);
    upgrade(&mut installation, &[both]).await.unwrap();
    wait::until("team-d has silver", async || would_be_in(&later, "silver").await).await.unwrap();
    is_registered(&later, "fraud", json!({})).await.unwrap();
    assert_eq!(pods(&cluster, &installation).await.unwrap(), before, "no Pod was started for it");
}

/// Checks by a dry run which registry an object of the namespace would be in.
async fn would_be_in(scene: &Scene<'_>, registry: &str) -> Result<()> {
    // Each of the registries has this model.
    let probe = service("probe", json!({MODEL: "1"}));
    let run = scene.kubectl_with(&["create", "--dry-run=server"], &probe).await?;
    let warning = format!("no entry exists yet in {registry}");
    ensure!(run.success && run.stderr.contains(&warning), "it would not be in {registry}: {run:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_registry_whose_service_is_missing_is_waited_for() {
    let cluster = ControlPlane::start().await.unwrap();
    let registry = Registry::of_cluster(&cluster).await.unwrap();
    let service_of = "registry.list[0].service";
    let of_file = [
        "registry.list[0].name=late".to_owned(),
        format!("{service_of}.namespace={KUBEFLOW}"),
        format!("{service_of}.name=late"),
        "registry.list[0].defaultFor.all=true".to_owned(),
    ];
    let of_file: Vec<&str> = of_file.iter().map(String::as_str).collect();
    let values = [&QUICK[..], &["replicas=1"], &of_file].concat();
    Installation::install(&cluster, &registry, &values).await.unwrap();
    let scene = Scene::of(&cluster, &registry, "waits").await.unwrap();
    // Of the same number in both: whoever took the other registry would not notice.
    let model = scene.model().await.unwrap();

    let applied = scene.apply(&service("fraud", json!({MODEL: model}))).await.unwrap();
    assert!(applied.said.contains("registry late has no Service"), "kubectl says {}", applied.said);
    let late = start(&cluster, "late", &labelled()).await.unwrap();
    let scene = Scene { registry: &late, ..scene };
    assert_eq!(scene.model().await.unwrap(), model);

    wait::until("the object is registered in the registry that is its own", async || {
        scene.entries(&model).await?.pop().context("there is no entry")
    })
    .await
    .unwrap();
    let scene = Scene { registry: &registry, ..scene };
    assert_eq!(scene.entries(&model).await.unwrap(), Vec::<Value>::new(), "it was never in the other");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn of_several_services_an_object_names_one() {
    let cluster = ControlPlane::start().await.unwrap();
    let first = Registry::of_cluster(&cluster).await.unwrap();
    // The model catalog has a port of the same name.
    let catalog = front("model-catalog", "model-registry", &json!({"component": "model-catalog"}));
    cluster.apply(&catalog.to_string()).await.unwrap();
    let values = [&QUICK[..], &["replicas=1"]].concat();
    Installation::install(&cluster, &first, &values).await.unwrap();
    let scene = Scene::of(&cluster, &first, "chooses").await.unwrap();
    is_registered(&scene, "alone", json!({})).await.unwrap();

    let second = start(&cluster, "second", &labelled()).await.unwrap();
    fill(&second, 7).await.unwrap();
    let unnamed = service("unnamed", json!({MODEL: "1"}));
    let several = "several registries are configured (model-registry-service, second) and none is named";
    wait::until("an object that names none is refused", async || {
        let refused = refusal(scene.kubectl_with(&["create", "--dry-run=server"], &unnamed).await?)?;
        ensure!(refused.contains(several), "kubectl says {refused}");
        Ok(())
    })
    .await
    .unwrap();

    let named = Scene { registry: &second, namespace: scene.namespace.clone(), ..scene };
    is_registered(&named, "by-name", json!({NAME: "second"})).await.unwrap();
    is_registered(&named, "by-both", json!({NAME: "second", NAMESPACE: KUBEFLOW})).await.unwrap();
    is_registered(&scene, "the-other", json!({NAME: first.name()})).await.unwrap();
    for (labels, said) in [
        (json!({NAME: "third"}), "no configured registry is called third"),
        (json!({NAME: "second", NAMESPACE: "default"}), "no configured registry is called default/second"),
        (json!({NAME: "model-catalog"}), "no configured registry is called model-catalog"),
    ] {
        let mut strange = service("strange", labels);
        strange["metadata"]["labels"][MODEL] = json!("1");
        let refused = refusal(scene.kubectl_with(&["create"], &strange).await.unwrap()).unwrap();
        assert!(refused.contains(said), "expected {said}\nkubectl says {refused}");
    }
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_address_that_a_user_made_up_is_never_contacted() {
    let scene = Scene::set("made-up").await.unwrap();
    let trap = Trap::set().await.unwrap();
    let mut manifest = service("fraud", json!({MODEL: "1"}));
    manifest["metadata"]["annotations"] = json!({URL: trap.url()});

    let refused = refusal(scene.kubectl_with(&["create"], &manifest).await.unwrap()).unwrap();
    assert!(refused.contains("no configured registry has the URL in annotation"), "{refused}");

    // Stored, it is the syncer's too.
    scene.set_registrar("warn").await.unwrap();
    let applied =
        wait::until("the Namespace is let off", async || scene.create(&manifest).await).await.unwrap();
    assert_eq!(label(&applied.object, ID), None);
    wait::until("an Event says why it is not registered", async || {
        let reasons = scene.kubectl(&["get", "events", "--output=jsonpath={.items[*].reason}"]).await?;
        ensure!(reasons.stdout.contains("RegistrationFailed"), "{reasons:?}");
        Ok(())
    })
    .await
    .unwrap();

    assert_eq!(trap.connections(), 0, "somebody has connected to {}", trap.url());
}
