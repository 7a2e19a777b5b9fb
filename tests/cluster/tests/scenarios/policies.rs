//! What an administrator can choose, and what holds whatever they chose.

use anyhow::{Result, ensure};
use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry, wait};
use serde_json::{Value, json};

use crate::scene::{ID, KSERVE_FINALIZER, MODEL, QUICK, Scene, UNKNOWN_MODEL, label, refusal, service};

/// Creates an object and says what came of it: `refused`, `warned` or `silent`, then what kubectl said.
async fn create(scene: &Scene<'_>, name: &str, labels: Value) -> Result<String> {
    let run = scene.kubectl_with(&["create"], &service(name, labels)).await?;
    let outcome = match (run.success, run.stderr.is_empty()) {
        (false, _) => "refused",
        (true, false) => "warned",
        (true, true) => "silent",
    };
    Ok(format!("{outcome}: {}", run.stderr))
}

/// Checks an outcome by how it begins and by a part of what was said.
#[track_caller]
fn expect(outcome: &str, kind: &str, said: &str) {
    assert!(outcome.starts_with(kind) && outcome.contains(said), "expected {kind}: …{said}…\ngot {outcome}");
}

/// Waits until the policy that was just changed is in force, by a dry run of a create.
async fn in_force(scene: &Scene<'_>, labels: Value, expected: &str) -> Result<()> {
    let probe = service("probe", labels);
    wait::until(&format!("a create is {expected}"), async || {
        let run = scene.kubectl_with(&["create", "--dry-run=server"], &probe).await?;
        let seen = match (run.success, run.stderr.is_empty()) {
            (false, _) => "refused",
            (true, false) => "warned",
            (true, true) => "silent",
        };
        ensure!(seen == expected, "it is {seen}: {run:?}");
        Ok(())
    })
    .await
}

/// Changes that are none of the registrar's business, and must never hang on it.
async fn what_never_hangs_on_the_webhook(scene: &Scene<'_>, registered: &str, late: &str) -> Result<()> {
    for name in [registered, late] {
        scene.patch(name, &json!({"metadata": {"annotations": {"note": "x"}}})).await?;
        scene.patch(name, &json!({"spec": {"predictor": {"minReplicas": 2}}})).await?;
        scene.patch(name, &json!({"metadata": {"finalizers": [KSERVE_FINALIZER]}})).await?;
        scene.kubectl(&["delete", "isvc", name, "--wait=false"]).await?.stdout()?;
        scene.patch(name, &json!({"metadata": {"finalizers": null}})).await?;
        let gone = refusal(scene.kubectl(&["get", "isvc", name]).await?)?;
        ensure!(gone.contains("NotFound"), "{name} is not gone: {gone}");
    }
    expect(&create(scene, "bare", json!({})).await?, "silent", "");
    scene.delete("bare").await
}

/// Two objects, one registered, one with a model and no id yet.
async fn two_objects(scene: &Scene<'_>, model: &str) -> Result<(String, String)> {
    scene.apply(&service("registered", json!({MODEL: model}))).await?.id()?;
    let mut unnamed = service("", json!({MODEL: model}));
    unnamed["metadata"] = json!({"generateName": "late-", "labels": {MODEL: model}});
    let late = scene.create(&unnamed).await?.object;
    Ok(("registered".to_owned(), late["metadata"]["name"].as_str().unwrap_or_default().to_owned()))
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn with_no_webhook_running_only_what_it_decides_about_depends_on_the_failure_policy() {
    let cluster = ControlPlane::start().await.unwrap();
    let registry = Registry::start(&cluster).await.unwrap();
    let values = [&QUICK[..], &["webhook.failurePolicy=Fail", "replicas=1"]].concat();
    let mut installation = Installation::install(&cluster, &registry, &values).await.unwrap();
    let scene = Scene::of(&cluster, &registry, "fail").await.unwrap();
    let model = scene.model().await.unwrap();
    let (registered, late) = two_objects(&scene, &model).await.unwrap();
    scene.apply(&service("kept", json!({MODEL: model}))).await.unwrap();
    let ignoring = Scene::of(&cluster, &registry, "ignore").await.unwrap();
    let others = two_objects(&ignoring, &model).await.unwrap();
    installation.upgrade(&["replicas=0"]).await.unwrap();

    // Fail.
    what_never_hangs_on_the_webhook(&scene, &registered, &late).await.unwrap();
    let refused = create(&scene, "fraud", json!({MODEL: model})).await.unwrap();
    expect(&refused, "refused", "failed calling webhook \"register.modelregistry.kubeflow.org\"");
    for labels in [json!({MODEL: UNKNOWN_MODEL}), json!({ID: null})] {
        let patch = json!({"metadata": {"labels": labels}});
        let refused = refusal(scene.try_patch("kept", &patch).await.unwrap()).unwrap();
        assert!(refused.contains("failed calling webhook"), "{refused}");
    }

    // The emergency switch.
    scene.set_registrar("off").await.unwrap();
    in_force(&scene, json!({MODEL: model}), "silent").await.unwrap();
    expect(&create(&scene, "fraud", json!({MODEL: model})).await.unwrap(), "silent", "");
    installation.upgrade(&[]).await.unwrap();
    let outcome = create(&scene, "after-the-upgrade", json!({MODEL: model})).await.unwrap();
    expect(&outcome, "silent", "");
    let refused = create(&ignoring, "elsewhere", json!({MODEL: model})).await.unwrap();
    expect(&refused, "refused", "failed calling webhook");

    // Ignore.
    installation.upgrade(&["webhook.failurePolicy=Ignore"]).await.unwrap();
    in_force(&ignoring, json!({MODEL: model}), "silent").await.unwrap();
    what_never_hangs_on_the_webhook(&ignoring, &others.0, &others.1).await.unwrap();
    expect(&create(&ignoring, "fraud", json!({MODEL: model})).await.unwrap(), "silent", "");
    let relabelled = json!({"metadata": {"labels": {MODEL: UNKNOWN_MODEL}}});
    ignoring.patch("fraud", &relabelled).await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn each_policy_is_what_the_chart_was_told() {
    let cluster = ControlPlane::start().await.unwrap();
    let registry = Registry::of_cluster(&cluster).await.unwrap();
    let values = [
        &QUICK[..],
        &["replicas=1", "registration.onMissing=warn", "registration.onInvalid=warn"],
        &["registration.onArchived=deny", "registration.onUnavailable=deny"],
    ];
    let mut installation = Installation::install(&cluster, &registry, &values.concat()).await.unwrap();
    let scene = Scene::of(&cluster, &registry, "policies").await.unwrap();
    let (model, archived) = (scene.model().await.unwrap(), scene.model().await.unwrap());
    let archive = json!({"state": "ARCHIVED"});
    registry.patch(&format!("registered_models/{archived}"), &archive).await.unwrap();
    let with = |model: &str| json!({MODEL: model});
    let unknown = format!("registered model {UNKNOWN_MODEL} does not exist");

    // Every policy with the value that is not its default.
    expect(&create(&scene, "bare", json!({})).await.unwrap(), "warned", "no registered model is named");
    expect(&create(&scene, "unknown", with(UNKNOWN_MODEL)).await.unwrap(), "warned", &unknown);
    expect(&create(&scene, "archived", with(&archived)).await.unwrap(), "refused", "is archived in");
    assert_eq!(scene.entries(&archived).await.unwrap(), Vec::<Value>::new(), "nothing is made for it");
    scene.apply(&service("kept", with(&model))).await.unwrap();
    registry.stop(&cluster).await.unwrap();
    let away = create(&scene, "fraud", with(&model)).await.unwrap();
    expect(&away, "refused", "cannot be registered now, try again");
    scene.patch("kept", &json!({"metadata": {"finalizers": [KSERVE_FINALIZER]}})).await.unwrap();
    let dropped = scene.patch("kept", &json!({"metadata": {"labels": {ID: null}}})).await.unwrap();
    assert!(dropped.id().is_ok() && dropped.said.contains("Warning: "), "{dropped:?}");
    registry.restart(&cluster).await.unwrap();

    // The strictest, and Namespaces that are let off.
    let strict = ["registration.onMissing=deny", "registration.onInvalid=deny"];
    installation.upgrade(&strict).await.unwrap();
    in_force(&scene, json!({}), "refused").await.unwrap();
    let refused = create(&scene, "nameless", json!({})).await.unwrap();
    expect(&refused, "refused", "no registered model is named");
    expect(&create(&scene, "mistaken", with(UNKNOWN_MODEL)).await.unwrap(), "refused", &unknown);
    for (mode, outcome) in [("warn", "warned"), ("observe", "silent")] {
        let scene = Scene::of(&cluster, &registry, mode).await.unwrap();
        scene.set_registrar(mode).await.unwrap();
        in_force(&scene, json!({}), outcome).await.unwrap();
        expect(&create(&scene, "mistaken", with(UNKNOWN_MODEL)).await.unwrap(), outcome, "");
    }

    // The modes, and a Namespace that is held to more.
    installation.upgrade(&["registration.mode=warn"]).await.unwrap();
    in_force(&scene, json!({}), "warned").await.unwrap();
    expect(&create(&scene, "mode-warn", with(UNKNOWN_MODEL)).await.unwrap(), "warned", &unknown);
    installation.upgrade(&["registration.mode=observe"]).await.unwrap();
    in_force(&scene, json!({}), "silent").await.unwrap();
    expect(&create(&scene, "mode-observe", with(UNKNOWN_MODEL)).await.unwrap(), "silent", "");
    let noted = scene.noted("mode-observe").unwrap();
    assert!(noted["would"].starts_with("deny: registered model"), "{noted:?}");
    scene.set_registrar("enforce").await.unwrap();
    in_force(&scene, json!({}), "refused").await.unwrap();
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn what_is_archived_is_registered_with_a_warning_by_default() {
    let scene = Scene::set("archived").await.unwrap();
    let model = scene.model().await.unwrap();
    let archive = json!({"state": "ARCHIVED"});
    scene.registry.patch(&format!("registered_models/{model}"), &archive).await.unwrap();

    let applied = scene.apply(&service("fraud", json!({MODEL: model}))).await.unwrap();

    let warning = format!("Warning: registered model {model} is archived in {}", scene.registry.name());
    assert!(applied.said.contains(&warning), "expected {warning}\nkubectl says {}", applied.said);
    assert!(applied.id().is_ok(), "a rollback in the night must not fail on it");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_observed_namespace_is_told_nothing_and_given_nothing() {
    let scene = Scene::set("observed").await.unwrap();
    let model = scene.model().await.unwrap();
    scene.set_registrar("observe").await.unwrap();
    in_force(&scene, json!({MODEL: UNKNOWN_MODEL}), "silent").await.unwrap();

    let applied = scene.apply(&service("fraud", json!({MODEL: model}))).await.unwrap();

    assert_eq!((applied.said.as_str(), label(&applied.object, ID)), ("", None));
    let noted = scene.noted("fraud").unwrap();
    assert_eq!(noted["would"], "register");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn a_namespace_that_is_only_warned_is_registered_and_never_refused() {
    let scene = Scene::set("warned").await.unwrap();
    let model = scene.model().await.unwrap();
    scene.set_registrar("warn").await.unwrap();
    in_force(&scene, json!({MODEL: UNKNOWN_MODEL}), "warned").await.unwrap();

    let applied = scene.apply(&service("fraud", json!({MODEL: model}))).await.unwrap();
    assert!(applied.id().is_ok() && applied.said.is_empty(), "{applied:?}");
    let mistaken = create(&scene, "mistaken", json!({MODEL: UNKNOWN_MODEL})).await.unwrap();
    expect(&mistaken, "warned", "does not exist");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn exempt_users_and_groups_are_left_alone() {
    let scene = Scene::set("exempt").await.unwrap();
    let bind = ["create", "rolebinding", "all", "--clusterrole=cluster-admin", "--user=restorer"];
    let bind = [&bind[..], &["--user=anna", "--user=velero"]].concat();
    scene.kubectl(&bind).await.unwrap().stdout().unwrap();
    let manifest = service("fraud", json!({MODEL: UNKNOWN_MODEL}));
    let create = async |who: &[&str]| {
        let arguments = [&["create", "--dry-run=server"], who].concat();
        scene.kubectl_with(&arguments, &manifest).await.unwrap()
    };

    for who in [&["--as=restorer"][..], &["--as=velero", "--as-group=restorers"]] {
        let run = create(who).await;
        assert!(run.success && run.stderr.is_empty(), "{who:?} are left alone: {run:?}");
    }
    let refused = refusal(create(&["--as=anna"]).await).unwrap();
    assert!(refused.contains("does not exist"), "{refused}");
}
