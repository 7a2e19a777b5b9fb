//! The switches: what a caller sees when something is wrong with the registry.

use std::time::Duration;

use isvc_registrar::registry::embedded::{Api, Database, Faults};
use serde_json::json;

use crate::http::send;
use crate::scene::Scene;

fn down() -> Faults {
    Faults { database: Database::Down, ..Faults::default() }
}

#[tokio::test]
async fn with_its_database_down_a_404_by_id_proves_nothing() {
    let (scene, ids) = Scene::with_entry().await;
    let service = format!("/inference_services/{}", ids.service);
    scene.registry().set_faults(down());
    for path in [
        format!("/registered_models/{}", ids.model),
        format!("/model_versions/{}", ids.version),
        format!("/serving_environments/{}", ids.environment),
        format!("{service}/model"),
        format!("{service}/version"),
        service.clone(),
    ] {
        scene.refuses("GET", &path, None, 404).await;
    }
    let undeploy = json!({"desiredState": "UNDEPLOYED"});
    scene.refuses("PATCH", &service, Some(undeploy), 404).await;
    let entry = json!({"registeredModelId": ids.model, "servingEnvironmentId": ids.environment});
    scene.refuses("POST", "/inference_services", Some(entry), 404).await;
    let serve = json!({"modelVersionId": ids.version});
    scene.refuses("POST", &format!("{service}/serves"), Some(serve), 404).await;

    scene.registry().set_faults(Faults::default());
    let (status, entry) = scene.get(&service).await;
    assert_eq!((status, &entry["desiredState"]), (200, &json!("DEPLOYED")));
    assert_eq!(scene.names("/inference_services").await, ["scorer"]);
}

#[tokio::test]
async fn with_its_database_down_everything_else_is_500() {
    let (scene, ids) = Scene::with_entry().await;
    scene.registry().set_faults(down());
    for path in [
        "/inference_services",
        "/model_versions?filterQuery=id%3D2",
        "/serving_environment?name=team-a",
        &format!("/serving_environments/{}/inference_services", ids.environment),
        &format!("/inference_services/{}/serves", ids.service),
        &format!("/inference_service?name=scorer&parentResourceId={}", ids.environment),
    ] {
        scene.refuses("GET", path, None, 500).await;
    }
    for path in ["/serving_environments", "/registered_models"] {
        scene.refuses("POST", path, Some(json!({"name": "new"})), 500).await;
    }
    // What cannot be read, or is not whole, is refused without asking the database.
    for path in
        ["/inference_services/abc", "/inference_service?name=x", "/registered_models?filterQuery=id%3D%3D"]
    {
        scene.refuses("GET", path, None, 400).await;
    }
    scene.refuses("POST", "/inference_services", Some(json!({"name": "bare"})), 422).await;

    assert_eq!(scene.send("GET", "/readyz/health", None).await.status, 503);
    scene.registry().set_faults(Faults::default());
    assert_eq!(scene.send("GET", "/readyz/health", None).await.status, 200);
}

#[tokio::test]
async fn a_registry_that_boots_answers_503_in_plain_text() {
    let scene = Scene::new().await;
    scene.registry().set_faults(Faults { database: Database::Booting, ..Faults::default() });
    for path in ["/api/model_registry/v1/registered_models", "/readyz/health"] {
        let reply = scene.send("GET", path, None).await;
        assert_eq!((reply.status, reply.content_type.as_str()), (503, "text/plain"));
    }
}

#[tokio::test]
async fn the_other_version_of_the_api_is_no_page() {
    let scene = Scene::new().await;
    for (api, there, away) in [(Api::V1, "v1", "v1alpha3"), (Api::V1alpha3, "v1alpha3", "v1")] {
        scene.registry().set_faults(Faults { api, ..Faults::default() });
        let path = |version| format!("/api/model_registry/{version}/registered_models");
        assert_eq!(scene.send("GET", &path(there), None).await.status, 200);
        let reply = scene.send("GET", &path(away), None).await;
        assert_eq!(
            (reply.status, reply.content_type.as_str(), reply.text.trim()),
            (404, "text/plain", "404 page not found")
        );
    }
}

#[tokio::test]
async fn switches_are_set_over_http_all_at_once() {
    let scene = Scene::new().await;
    let put = |body| scene.send("PUT", "/faults", Some(body));
    assert_eq!(put(json!({"database": "down", "delayMs": 5, "api": "v1"})).await.status, 200);
    let shown = scene.send("GET", "/faults", None).await.json().expect("JSON");
    assert_eq!(
        (&shown["database"], &shown["delayMs"], &shown["api"]),
        (&json!("down"), &json!(5), &json!("v1"))
    );
    for wrong in [json!({"database": "gone"}), json!({"delay": 5}), json!("down")] {
        assert_eq!(put(wrong).await.status, 400);
    }
    assert_eq!(scene.registry().faults().database, Database::Down, "a refused body changes nothing");
    assert_eq!(put(json!({"status": null})).await.status, 200);
    assert_eq!(scene.registry().faults(), Faults::default());
}

#[tokio::test]
async fn a_refusal_is_a_proxys_or_the_registrys() {
    let scene = Scene::new().await;
    let mut faults = Faults { status: Some(403), method: Some("POST".to_owned()), ..Faults::default() };
    let path = "/api/model_registry/v1/registered_models";
    let body = Some(json!({"name": "fraud"}));
    scene.registry().set_faults(faults.clone());
    let reply = scene.send("POST", path, body.clone()).await;
    assert_eq!((reply.status, reply.json()), (403, None));

    faults.message = Some("no more models, please".to_owned());
    faults.status = Some(422);
    scene.registry().set_faults(faults);
    let (status, answer) = scene.call("POST", "/registered_models", body).await;
    assert_eq!((status, &answer["message"]), (422, &json!("no more models, please")));
    assert!(scene.names("/registered_models").await.is_empty(), "a refused request does nothing");
}

#[tokio::test]
async fn a_caller_who_does_not_wait_has_done_it_all_the_same() {
    let scene = Scene::new().await;
    scene.registry().set_faults(Faults { delay_ms: 2_000, times: Some(1), ..Faults::default() });
    let url = format!("{}/api/model_registry/v1/registered_models", scene.server.url());
    let answer =
        scene.client.post(url).body(r#"{"name": "fraud"}"#).timeout(Duration::from_millis(200)).send().await;
    assert!(answer.expect_err("no answer in time").is_timeout());
    assert_eq!(scene.names("/registered_models").await, ["fraud"]);
}

#[tokio::test]
async fn a_dropped_answer_is_lost_and_the_work_is_done() {
    let scene = Scene::new().await;
    scene.registry().set_faults(Faults {
        drop: true,
        times: Some(1),
        path: Some("/registered_models".to_owned()),
        ..Faults::default()
    });
    let url = format!("{}/api/model_registry/v1/registered_models", scene.server.url());
    let body = json!({"name": "fraud"}).to_string();
    let lost = send(&scene.client, "POST", &url, Some(("application/json", body))).await;
    assert!(lost.is_err(), "{lost:?}");
    assert_eq!(scene.names("/registered_models").await, ["fraud"]);
}

#[tokio::test]
async fn the_log_shows_what_was_asked() {
    let scene = Scene::new().await;
    scene.get("/registered_models?pageSize=1").await;
    scene.get("/registered_model?name=fraud").await;
    let log = scene.send("GET", "/requests", None).await.json().expect("JSON");
    assert_eq!(
        log,
        json!([
            {"method": "GET", "target": "/api/model_registry/v1/registered_models?pageSize=1", "status": 200},
            {"method": "GET", "target": "/api/model_registry/v1/registered_model?name=fraud", "status": 404},
        ])
    );
    assert_eq!(scene.send("DELETE", "/requests", None).await.status, 204);
    assert!(scene.registry().requests().is_empty());
}
