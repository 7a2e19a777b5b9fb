//! A stranger's client against the embedded registry: the Python client `model-registry` registers a model, a
//! version and an artifact, and finds them again.
//!
//! Each test makes a virtual environment under `target/`, once for each set of requirements.
//! `ISVC_REGISTRAR_TEST_REGISTRY=URL` runs the same against another registry.

mod http;

use std::error::Error;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use http::{client, send};
use isvc_registrar::registry::embedded::{EmbeddedRegistry, Registry};
use serde_json::{Value, json};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Runs a command to its end and returns what it printed; its errors are ours.
fn run(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(printed)
    } else {
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("{command:?}: {}\n{printed}\n{errors}", output.status).into())
    }
}

/// The Python of a virtual environment that has what the requirements say.
fn python(api: &str, requirements: &Path) -> Outcome<PathBuf> {
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-client-{api}"));
    let python = environment.join("bin/python");
    // Written last: without it, or with other requirements in it, the environment is not whole.
    let installed = environment.join("installed.txt");
    let wanted = std::fs::read_to_string(requirements)?;
    if std::fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(requirements))?;
    std::fs::write(installed, wanted)?;
    Ok(python)
}

/// Registers with the client, and looks at what the registry has then.
async fn register_and_find(api: &str, requirements: &str) -> Outcome {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python_client");
    let requirements = scripts.join(requirements);
    let for_python = api.to_owned();
    let python = tokio::task::spawn_blocking(move || {
        python(&for_python, &requirements).map_err(|error| error.to_string())
    })
    .await??;

    let server = EmbeddedRegistry::start(Registry::new(), (Ipv4Addr::LOCALHOST, 0).into()).await?;
    let url = std::env::var("ISVC_REGISTRAR_TEST_REGISTRY").unwrap_or_else(|_| server.url());
    let url = url.trim_end_matches('/').to_owned();
    // Another registry remembers earlier runs.
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let name = format!("fraud-{api}-{now}");

    let mut command = Command::new(python);
    command.arg(scripts.join("register_and_find.py")).args([&url, &name, "v1"]);
    let printed =
        tokio::task::spawn_blocking(move || run(&mut command).map_err(|error| error.to_string())).await??;
    let ids: Value = serde_json::from_str(printed.lines().last().ok_or("nothing was printed")?)?;

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
