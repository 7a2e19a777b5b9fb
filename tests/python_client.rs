//! A stranger's client against the embedded registry: the Python client `model-registry` registers a model, a
//! version and an artifact, and finds them again.
//!
//! Each test makes a virtual environment under `target/`, once for each set of requirements.
//! `ISVC_REGISTRAR_TEST_REGISTRY=URL` runs the same against another registry.

#[path = "python_client/environment.rs"]
mod environment;
mod http;

use std::error::Error;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use environment::Client;
use http::{client, send};
use isvc_registrar::registry::embedded::{EmbeddedRegistry, Registry};
use serde_json::{Value, json};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Registers with the client, and looks at what the registry has then.
async fn register_and_find(api: &str, requirements: &'static str) -> Outcome {
    let python = Client {
        scripts: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python_client"),
        requirements,
        environment: Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-client-{api}")),
    };
    let server = EmbeddedRegistry::start(Registry::new(), (Ipv4Addr::LOCALHOST, 0).into()).await?;
    let url = std::env::var("ISVC_REGISTRAR_TEST_REGISTRY").unwrap_or_else(|_| server.url());
    let url = url.trim_end_matches('/').to_owned();
    // Another registry remembers earlier runs.
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let name = format!("fraud-{api}-{now}");

    let (python_url, python_name) = (url.clone(), name.clone());
    let ids = tokio::task::spawn_blocking(move || python.register(&python_url, &python_name, "v1")).await??;

    let client = client();
    let get = async |path: String| -> Outcome<Value> {
        let reply = send(&client, "GET", &format!("{url}/api/model_registry/{api}{path}"), None).await?;
        let kind = reply.content_type.as_str();
        assert_eq!((reply.status, kind), (200, "application/json"), "{path}: {}", reply.text);
        Ok(reply.json().ok_or("no JSON")?)
    };
    let (model, version) = (text(&ids["model"])?, text(&ids["version"])?);
    let models = get(format!("/registered_models?filterQuery=id%3D{model}")).await?;
    assert_eq!(
        (&models["items"][0]["name"], &models["items"][0]["owner"], &models["items"][0]["state"]),
        (&json!(name), &json!("a stranger"), &json!("LIVE"))
    );
    let versions = get(format!("/registered_models/{model}/versions")).await?;
    assert_eq!(versions["size"], 1);
    assert_eq!((&versions["items"][0]["id"], &versions["items"][0]["name"]), (&ids["version"], &json!("v1")));
    assert_eq!(
        versions["items"][0]["customProperties"]["epochs"],
        json!({"metadataType": "MetadataIntValue", "int_value": "3"})
    );
    let artifacts = get(format!("/model_versions/{version}/artifacts")).await?;
    assert_eq!(
        (&artifacts["items"][0]["id"], &artifacts["items"][0]["modelFormatName"]),
        (&ids["artifact"], &json!("sklearn"))
    );
    server.stop().await;
    Ok(())
}

fn text(value: &Value) -> Outcome<&str> {
    Ok(value.as_str().ok_or_else(|| format!("{value} is no text"))?)
}

#[tokio::test]
#[ignore = "needs Python and PyPI: run tests/run"]
async fn a_client_of_v1_registers_a_model_and_finds_it() -> Outcome {
    register_and_find("v1", "requirements.txt").await
}

#[tokio::test]
#[ignore = "needs Python and PyPI: run tests/run"]
async fn a_client_of_v1alpha3_registers_a_model_and_finds_it() -> Outcome {
    register_and_find("v1alpha3", "requirements-v1alpha3.txt").await
}
