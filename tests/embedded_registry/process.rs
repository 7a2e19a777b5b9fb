//! The registry as a part of a process: seeds, direct access, starting and stopping.

use std::time::Duration;

use assert_cmd::Command;
use isvc_registrar::registry::embedded::{EmbeddedRegistry, Registry};
use serde_json::json;

use crate::scene::Scene;

#[tokio::test]
async fn answers_carry_the_date() {
    let scene = Scene::new().await;
    let url = format!("{}/api/model_registry/v1/registered_models", scene.server.url());
    let response = scene.client.get(url).send().await.expect("an answer");
    let date = response.headers()["date"].to_str().expect("text");
    httpdate::parse_http_date(date).expect("a date");
}

#[tokio::test]
async fn other_code_makes_models_with_ids_of_its_own_and_reads_the_entries() {
    let scene = Scene::new().await;
    let registry = scene.registry();
    registry.add_model(42, "fraud").expect("a free id");
    registry.add_version(2, 42, "v1").expect("a free id");
    registry.add_model(42, "other").expect_err("a taken id");
    let environment = scene.create("/serving_environments", json!({"name": "team-a"})).await;
    let entry = json!({
        "name": "scorer", "registeredModelId": "42", "modelVersionId": "2", "servingEnvironmentId": environment,
        "customProperties": {"cluster": {"metadataType": "MetadataStringValue", "string_value": "east"}},
    });
    let id = scene.create("/inference_services", entry).await;
    assert_eq!((environment.as_str(), id.as_str()), ("1", "3"), "taken ids are passed over");

    let [entry] = registry.entries().try_into().expect("one entry");
    assert_eq!(registry.entry(entry.id).as_ref(), Some(&entry));
    assert_eq!(
        (entry.name.as_str(), entry.environment.as_str(), entry.registered_model_id, entry.model_version_id),
        ("scorer", "team-a", 42, Some(2))
    );
    assert_eq!((entry.desired_state.as_str(), entry.properties["cluster"].as_str()), ("DEPLOYED", "east"));
    assert_eq!(scene.get("/model_versions/2").await.1["state"], "LIVE");
}

#[tokio::test]
async fn a_server_that_stops_is_gone_and_one_that_comes_back_has_everything() {
    let (scene, ids) = Scene::with_entry().await;
    let address = scene.server.address();
    let registry = scene.registry().clone();
    scene.server.stop().await;
    tokio::net::TcpStream::connect(address).await.expect_err("nobody there");

    let server = EmbeddedRegistry::start(registry, address).await.expect("the same address");
    let scene = Scene { server, client: scene.client };
    let (status, _) = scene.get(&format!("/inference_services/{}", ids.service)).await;
    assert_eq!(status, 200);
}

#[test]
fn a_seed_that_fails_names_its_line() {
    let registry = Registry::new();
    let good = r#"{"method": "POST", "path": "/registered_models", "body": {"name": "fraud"}}"#;
    for (lines, message) in [
        (format!("{good}\n\n{good}\n"), "seed line 3"),
        ("not JSON".to_owned(), "seed line 1"),
        (r#"{"method": "P ST", "path": "/registered_models"}"#.to_owned(), "seed line 1"),
        (r#"{"method": "POST", "path": "/nowhere"}"#.to_owned(), "seed line 1"),
    ] {
        let error = registry.seed(&lines).expect_err("a bad line").to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn a_registry_does_not_start_on_a_bad_seed() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        file.path(),
        r#"{"method": "POST", "path": "/registered_models", "body": {"owner": "x"}}"#,
    )
    .expect("written");
    let output = Command::cargo_bin("isvc-registrar")
        .expect("the binary")
        .args(["registry", "--listen", "127.0.0.1:0", "--seed"])
        .arg(file.path())
        .timeout(Duration::from_secs(30))
        .assert()
        .failure();
    let words = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(words.contains("seed line 1: POST /registered_models") && words.contains("'name'"), "{words}");
    assert_eq!((words.lines().count(), words.matches("'name'").count()), (1, 1), "{words}");
}
