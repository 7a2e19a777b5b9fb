//! What a data scientist registers with the Python client `model-registry` is then deployed.

use std::path::Path;

use isvc_registrar_test_cluster::workspace;
use serde_json::json;

use crate::environment::Client;
use crate::scene::{MODEL, Scene, VERSION, service};

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn what_a_python_client_has_registered_is_deployed() {
    let scene = Scene::set("python").await.unwrap();
    let client = Client {
        scripts: workspace::root().join("tests/python_client"),
        requirements: "requirements.txt",
        environment: Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-client-v1"),
    };
    let (url, name) = (scene.registry.url().to_owned(), scene.unique("fraud").unwrap());
    let registered = tokio::task::spawn_blocking(move || client.register(&url, &name, "2026-11"));
    let ids = registered.await.unwrap().unwrap();

    let labels = json!({MODEL: ids["model"], VERSION: ids["version"]});
    let applied = scene.apply(&service("fraud", labels)).await.unwrap();

    assert_eq!(applied.said, "");
    let entry = scene.settled(applied.id().unwrap()).await.unwrap();
    assert_eq!(entry["registeredModelId"], ids["model"]);
    assert_eq!(entry["modelVersionId"], ids["version"]);
    assert_eq!(entry["desiredState"], "DEPLOYED");
}
