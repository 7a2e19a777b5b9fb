//! What the recording does not show of the embedded registry: its switches, its lists when they are long, its
//! filters, its seeds, and what other code in the process can do with it.

mod http;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use assert_cmd::Command;
use http::{Reply, client, send};
use isvc_registrar::registry::embedded::{Api, Database, EmbeddedRegistry, Faults, Registry};
use serde_json::{Value, json};

/// A registry that runs, and a client that talks to it.
struct Scene {
    server: EmbeddedRegistry,
    client: reqwest::Client,
}

impl Scene {
    async fn new() -> Self {
        Self::of(Registry::new()).await
    }

    async fn of(registry: Registry) -> Self {
        let server = EmbeddedRegistry::start(registry, (Ipv4Addr::LOCALHOST, 0).into())
            .await
            .expect("a free port");
        Self {
            server,
            client: client(),
        }
    }

    /// A model, its version, an environment and an inference service in it; returns their ids.
    async fn with_entry() -> (Self, Ids) {
        let scene = Self::new().await;
        let model = scene.create("/registered_models", json!({"name": "fraud"})).await;
        let version = scene
            .create(
                "/model_versions",
                json!({"name": "v1", "registeredModelId": model}),
            )
            .await;
        let environment = scene
            .create("/serving_environments", json!({"name": "team-a"}))
            .await;
        let service = scene
            .create(
                "/inference_services",
                json!({"name": "scorer", "registeredModelId": model, "servingEnvironmentId": environment}),
            )
            .await;
        let ids = Ids {
            model,
            version,
            environment,
            service,
        };
        (scene, ids)
    }

    fn registry(&self) -> &Registry {
        self.server.registry()
    }

    async fn send(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        let url = format!("{}{path}", self.server.url());
        let body = body.map(|body| ("application/json", body.to_string()));
        send(&self.client, method, &url, body).await.expect("an answer")
    }

    /// The status and body of an answer in JSON.
    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let path = format!("/api/model_registry/v1{path}");
        let reply = self.send(method, &path, body).await;
        (reply.status, reply.json().expect("an answer in JSON"))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.call("GET", path, None).await
    }

    /// Asks for something that the registry refuses in its own words.
    async fn refuses(&self, method: &str, path: &str, body: Option<Value>, status: u16) {
        let (got, answer) = self.call(method, path, body).await;
        assert_eq!(got, status, "{method} {path}: {answer}");
        assert!(
            answer["code"].is_string() && answer["message"].is_string(),
            "{answer}"
        );
    }

    /// Makes something and returns its id.
    async fn create(&self, path: &str, body: Value) -> String {
        let (status, answer) = self.call("POST", path, Some(body)).await;
        assert_eq!(status, 201, "{answer}");
        answer["id"].as_str().expect("an id").to_owned()
    }

    /// The names in a list.
    async fn names(&self, path: &str) -> Vec<String> {
        let (status, list) = self.get(path).await;
        assert_eq!(status, 200, "{list}");
        names_in(&list)
    }
}

struct Ids {
    model: String,
    version: String,
    environment: String,
    service: String,
}

fn names_in(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    items
        .iter()
        .map(|item| item["name"].as_str().expect("a name").to_owned())
        .collect()
}

fn down() -> Faults {
    Faults {
        database: Database::Down,
        ..Faults::default()
    }
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
    scene
        .refuses("POST", "/inference_services", Some(entry), 404)
        .await;
    let serve = json!({"modelVersionId": ids.version});
    scene
        .refuses("POST", &format!("{service}/serves"), Some(serve), 404)
        .await;

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
        &format!(
            "/inference_service?name=scorer&parentResourceId={}",
            ids.environment
        ),
    ] {
        scene.refuses("GET", path, None, 500).await;
    }
    for path in ["/serving_environments", "/registered_models"] {
        scene
            .refuses("POST", path, Some(json!({"name": "new"})), 500)
            .await;
    }
    // What cannot be read, or is not whole, is refused without asking the database.
    for path in [
        "/inference_services/abc",
        "/inference_service?name=x",
        "/registered_models?filterQuery=id%3D%3D",
    ] {
        scene.refuses("GET", path, None, 400).await;
    }
    scene
        .refuses("POST", "/inference_services", Some(json!({"name": "bare"})), 422)
        .await;

    assert_eq!(scene.send("GET", "/readyz/health", None).await.status, 503);
    scene.registry().set_faults(Faults::default());
    assert_eq!(scene.send("GET", "/readyz/health", None).await.status, 200);
}

#[tokio::test]
async fn a_registry_that_boots_answers_503_in_plain_text() {
    let scene = Scene::new().await;
    scene.registry().set_faults(Faults {
        database: Database::Booting,
        ..Faults::default()
    });
    for path in ["/api/model_registry/v1/registered_models", "/readyz/health"] {
        let reply = scene.send("GET", path, None).await;
        assert_eq!((reply.status, reply.content_type.as_str()), (503, "text/plain"));
    }
}

#[tokio::test]
async fn the_other_version_of_the_api_is_no_page() {
    let scene = Scene::new().await;
    for (api, there, away) in [(Api::V1, "v1", "v1alpha3"), (Api::V1alpha3, "v1alpha3", "v1")] {
        scene.registry().set_faults(Faults {
            api,
            ..Faults::default()
        });
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
    assert_eq!(
        put(json!({"database": "down", "delayMs": 5, "api": "v1"}))
            .await
            .status,
        200
    );
    let shown = scene.send("GET", "/faults", None).await.json().expect("JSON");
    assert_eq!(
        (&shown["database"], &shown["delayMs"], &shown["api"]),
        (&json!("down"), &json!(5), &json!("v1"))
    );
    for wrong in [json!({"database": "gone"}), json!({"delay": 5}), json!("down")] {
        assert_eq!(put(wrong).await.status, 400);
    }
    assert_eq!(
        scene.registry().faults().database,
        Database::Down,
        "a refused body changes nothing"
    );
    assert_eq!(put(json!({"status": null})).await.status, 200);
    assert_eq!(scene.registry().faults(), Faults::default());
}

#[tokio::test]
async fn a_refusal_is_a_proxys_or_the_registrys() {
    let scene = Scene::new().await;
    let mut faults = Faults {
        status: Some(403),
        method: Some("POST".to_owned()),
        ..Faults::default()
    };
    let path = "/api/model_registry/v1/registered_models";
    let body = Some(json!({"name": "fraud"}));
    scene.registry().set_faults(faults.clone());
    let reply = scene.send("POST", path, body.clone()).await;
    assert_eq!((reply.status, reply.json()), (403, None));

    faults.message = Some("no more models, please".to_owned());
    faults.status = Some(422);
    scene.registry().set_faults(faults);
    let (status, answer) = scene.call("POST", "/registered_models", body).await;
    assert_eq!(
        (status, &answer["message"]),
        (422, &json!("no more models, please"))
    );
    assert!(
        scene.names("/registered_models").await.is_empty(),
        "a refused request does nothing"
    );
}

#[tokio::test]
async fn a_caller_who_does_not_wait_has_done_it_all_the_same() {
    let scene = Scene::new().await;
    scene.registry().set_faults(Faults {
        delay_ms: 2_000,
        times: Some(1),
        ..Faults::default()
    });
    let url = format!("{}/api/model_registry/v1/registered_models", scene.server.url());
    let answer = scene
        .client
        .post(url)
        .body(r#"{"name": "fraud"}"#)
        .timeout(Duration::from_millis(200))
        .send()
        .await;
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

#[tokio::test]
async fn answers_carry_the_date() {
    let scene = Scene::new().await;
    let url = format!("{}/api/model_registry/v1/registered_models", scene.server.url());
    let response = scene.client.get(url).send().await.expect("an answer");
    let date = response.headers()["date"].to_str().expect("text");
    httpdate::parse_http_date(date).expect("a date");
}

#[tokio::test]
async fn pages_by_last_update_neither_skip_nor_repeat() {
    // All but the last write happen in one millisecond.
    let clock = Arc::new(AtomicU64::new(1_790_000_000_000));
    let ticking = Arc::clone(&clock);
    let registry =
        Registry::with_clock(move || UNIX_EPOCH + Duration::from_millis(ticking.load(Ordering::Relaxed)));
    let scene = Scene::of(registry).await;
    let environment = scene
        .create("/serving_environments", json!({"name": "team-a"}))
        .await;
    for number in 0..25 {
        let name = format!("scorer-{number:02}");
        let entry = json!({"name": name, "registeredModelId": "1", "servingEnvironmentId": environment});
        scene.create("/inference_services", entry).await;
    }
    clock.fetch_add(1, Ordering::Relaxed);
    let touched = scene.registry().entries()[3].id;
    scene
        .call(
            "PATCH",
            &format!("/inference_services/{touched}"),
            Some(json!({})),
        )
        .await;

    let mut expected: Vec<String> = (0..25).map(|number| format!("scorer-{number:02}")).collect();
    let moved = expected.remove(3);
    expected.push(moved);
    let lists = [
        "/inference_services".to_owned(),
        format!("/serving_environments/{environment}/inference_services"),
    ];
    for list in &lists {
        for (sort_order, size) in [("ASC", 7), ("DESC", 7), ("ASC", 25), ("ASC", 24), ("DESC", 1)] {
            let first = format!("{list}?orderBy=LAST_UPDATE_TIME&sortOrder={sort_order}&pageSize={size}");
            let mut found = Vec::new();
            let mut page = first.clone();
            loop {
                let (status, body) = scene.get(&page).await;
                assert_eq!(status, 200, "{body}");
                found.extend(names_in(&body));
                match body["nextPageToken"].as_str() {
                    Some("") => break,
                    Some(token) => page = format!("{first}&nextPageToken={}", token.replace('=', "%3D")),
                    None => panic!("{body}"),
                }
            }
            if sort_order == "DESC" {
                found.reverse();
            }
            assert_eq!(found, expected, "{first}");
        }
    }
}

#[tokio::test]
async fn the_last_page_of_a_long_list_is_as_near_as_the_first() {
    const ENTRIES: usize = 20_000;
    const PAGE: usize = 500;
    let registry = Registry::new();
    registry
        .seed(r#"{"method": "POST", "path": "/serving_environments", "body": {"name": "team-a"}}"#)
        .expect("an environment");
    let lines: String = (0..ENTRIES)
        .map(|number| {
            let body =
                json!({"name": format!("s-{number}"), "registeredModelId": "1", "servingEnvironmentId": "1"});
            json!({"method": "POST", "path": "/inference_services", "body": body}).to_string() + "\n"
        })
        .collect();
    assert_eq!(registry.seed(&lines).expect("entries"), ENTRIES);

    let scene = Scene::of(registry).await;
    let first = format!("/inference_services?orderBy=LAST_UPDATE_TIME&sortOrder=ASC&pageSize={PAGE}");
    let mut page = first.clone();
    let mut times = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    loop {
        let begun = Instant::now();
        let (_, body) = scene.get(&page).await;
        times.push(begun.elapsed());
        seen.extend(names_in(&body));
        match body["nextPageToken"].as_str() {
            Some(token) if !token.is_empty() => {
                page = format!("{first}&nextPageToken={}", token.replace('=', "%3D"));
            }
            _ => break,
        }
    }
    assert_eq!((times.len(), seen.len()), (ENTRIES / PAGE, ENTRIES));
    // Walking there from the beginning would make the last pages tens of times slower; a busy machine does not.
    let half = times.len() / 2;
    let (front, back) = (times[..half].iter().min(), times[half..].iter().min());
    assert!(back < front.map(|front| *front * 5).as_ref(), "{times:?}");
    let (status, last) = scene
        .get("/inference_service?name=s-19999&parentResourceId=1")
        .await;
    assert_eq!((status, &last["name"]), (200, &json!("s-19999")));
}

#[tokio::test]
async fn an_external_id_is_unique_over_all_kinds_but_serves_and_artifacts() {
    let (scene, ids) = Scene::with_entry().await;
    let Ids {
        model,
        version,
        environment,
        service,
    } = &ids;
    let external = json!({"externalId": "ext"});
    let (status, _) = scene
        .call(
            "PATCH",
            &format!("/registered_models/{model}"),
            Some(external.clone()),
        )
        .await;
    assert_eq!(status, 200);
    for path in [
        format!("/model_versions/{version}"),
        format!("/serving_environments/{environment}"),
        format!("/inference_services/{service}"),
    ] {
        let (status, answer) = scene.call("PATCH", &path, Some(external.clone())).await;
        assert_eq!((status, &answer["code"]), (409, &json!("Conflict")), "{path}");
        let (status, _) = scene.get(&path).await;
        assert_eq!(status, 200);
    }
    assert_eq!(scene.get("/inference_service?externalId=ext").await.0, 404);
    let serve = json!({"modelVersionId": version, "externalId": "ext"});
    scene
        .create(&format!("/inference_services/{service}/serves"), serve)
        .await;
    // The owner may keep it, and whoever gives it up frees it.
    let own = scene
        .call(
            "PATCH",
            &format!("/registered_models/{model}"),
            Some(external.clone()),
        )
        .await;
    assert_eq!(own.0, 200);
    let other = json!({"externalId": "other"});
    scene
        .call("PATCH", &format!("/registered_models/{model}"), Some(other))
        .await;
    let freed = scene
        .call("PATCH", &format!("/inference_services/{service}"), Some(external))
        .await;
    assert_eq!(freed.0, 200);
}

#[tokio::test]
async fn filters_find_models_and_versions() {
    let scene = Scene::new().await;
    for (name, owner, state, tier) in [
        ("fraud", "ana", "LIVE", 1),
        ("churn", "bo", "LIVE", 2),
        ("it's", "ana", "ARCHIVED", 3),
    ] {
        let tier = json!({"tier": {"metadataType": "MetadataIntValue", "int_value": tier.to_string()}});
        let body = json!({"name": name, "owner": owner, "state": state, "customProperties": tier});
        scene.create("/registered_models", body).await;
    }
    for (name, model) in [("v_1", "1"), ("v-1", "1"), ("v_1", "2")] {
        scene
            .create(
                "/model_versions",
                json!({"name": name, "registeredModelId": model}),
            )
            .await;
    }
    let encode = |filter: &str| url::form_urlencoded::byte_serialize(filter.as_bytes()).collect::<String>();
    for (filter, found) in [
        ("name='fraud'", vec!["fraud"]),
        ("name = \"fraud\"", vec!["fraud"]),
        (r"name='it\'s'", vec!["it's"]),
        ("name='fr_ud'", vec![]),
        ("name LIKE 'fr_ud'", vec!["fraud"]),
        ("name ilike 'FR%'", vec!["fraud"]),
        ("name != 'fraud'", vec!["churn", "it's"]),
        ("id=1", vec!["fraud"]),
        ("id = 1 AND name='churn'", vec![]),
        ("id=1 OR name='churn'", vec!["fraud", "churn"]),
        (
            "(owner='ana' AND state='LIVE') or tier > 2",
            vec!["fraud", "it's"],
        ),
        ("tier=2", vec!["churn"]),
        ("tier.int_value>=2", vec!["churn", "it's"]),
        ("tier.string_value='2'", vec![]),
        ("`tier` <> 2", vec!["fraud", "it's"]),
        ("id IN (1, 3)", vec!["fraud", "it's"]),
        ("nothing_has_this=1", vec![]),
        ("nothing_has_this!=1", vec![]),
        ("id=99999999999", vec![]),
        (" ", vec!["fraud", "churn", "it's"]),
    ] {
        let path = format!("/registered_models?filterQuery={}", encode(filter));
        assert_eq!(scene.names(&path).await, found, "{filter}");
    }
    let nested = "(".repeat(10_000);
    for malformed in [
        "id==1",
        "name=fraud",
        "name='fraud",
        "id=",
        "=1",
        "id=1 id=2",
        "id='x'",
        "name=5",
        "(id=1",
        "id=1)",
        "name='it''s'",
        "tier.colour=1",
        "id LIKE 1",
        "id=1 AND",
        "é=1",
        nested.as_str(),
    ] {
        let path = format!("/registered_models?filterQuery={}", encode(malformed));
        let (status, answer) = scene.get(&path).await;
        assert_eq!(
            (status, &answer["code"]),
            (400, &json!("Bad Request")),
            "{malformed}"
        );
    }
    // Under a parent the stored name begins with its id, and even `=` compares by LIKE.
    for (path, found) in [
        (
            "/model_versions?filterQuery=name%3D%27v_1%27",
            vec!["v_1", "v-1", "v_1"],
        ),
        ("/registered_models/1/versions?name=v_1", vec!["v_1", "v-1"]),
        ("/registered_models/1/versions?name=v-1", vec!["v-1"]),
        (
            "/registered_models/2/versions?filterQuery=id%3E1&name=v_1",
            vec!["v_1"],
        ),
        ("/registered_models/1/versions?name=v", vec![]),
    ] {
        assert_eq!(scene.names(path).await, found, "{path}");
    }
    assert_eq!(
        scene.get("/registered_models/1/versions?name=it%27s").await.0,
        400
    );
}

#[tokio::test]
async fn a_patch_resets_the_state_that_it_omits() {
    let (scene, ids) = Scene::with_entry().await;
    for (path, word, reset) in [
        (
            format!("/registered_models/{}", ids.model),
            json!({"state": "ARCHIVED"}),
            "LIVE",
        ),
        (
            format!("/model_versions/{}", ids.version),
            json!({"state": "ARCHIVED"}),
            "LIVE",
        ),
        (
            format!("/inference_services/{}", ids.service),
            json!({"desiredState": "UNDEPLOYED"}),
            "DEPLOYED",
        ),
    ] {
        let (key, value) = word
            .as_object()
            .and_then(|word| word.iter().next())
            .expect("a word");
        let (_, answer) = scene.call("PATCH", &path, Some(word.clone())).await;
        assert_eq!(&answer[key], value);
        let (_, answer) = scene
            .call("PATCH", &path, Some(json!({"description": "d"})))
            .await;
        assert_eq!(answer[key], reset, "{path}");
    }
}

#[tokio::test]
async fn artifacts_are_upserted() {
    let (scene, ids) = Scene::with_entry().await;
    let path = format!("/model_versions/{}/artifacts", ids.version);
    let artifact = json!({"artifactType": "model-artifact", "name": "weights", "uri": "s3://a"});
    let id = scene.create(&path, artifact.clone()).await;
    assert_eq!(scene.call("POST", &path, Some(artifact)).await.0, 409);

    let (_, mut read) = scene.get(&format!("/model_artifacts/{id}")).await;
    read["uri"] = json!("s3://b");
    let (status, changed) = scene.call("POST", &path, Some(read)).await;
    assert_eq!(
        (status, &changed["id"], &changed["uri"]),
        (200, &json!(id), &json!("s3://b"))
    );

    let document = json!({"artifactType": "doc-artifact", "name": "card", "uri": "https://card"});
    let document = scene.create(&path, document).await;
    assert_eq!(scene.get(&format!("/artifacts/{document}")).await.0, 200);
    assert_eq!(scene.get(&format!("/model_artifacts/{document}")).await.0, 404);
    assert_eq!(scene.names(&path).await, ["weights", "card"]);
    assert_eq!(scene.names("/model_artifacts").await, ["weights"]);
    let mismatch = json!({"artifactType": "model-artifact", "id": document});
    assert_eq!(scene.call("POST", &path, Some(mismatch)).await.0, 400);
    assert_eq!(
        scene
            .call("POST", &path, Some(json!({"name": "untyped"})))
            .await
            .0,
        400
    );
}

#[tokio::test]
async fn other_code_makes_models_with_ids_of_its_own_and_reads_the_entries() {
    let scene = Scene::new().await;
    let registry = scene.registry();
    registry.add_model(42, "fraud").expect("a free id");
    registry.add_version(2, 42, "v1").expect("a free id");
    registry.add_model(42, "other").expect_err("a taken id");
    let environment = scene
        .create("/serving_environments", json!({"name": "team-a"}))
        .await;
    let entry = json!({
        "name": "scorer", "registeredModelId": "42", "modelVersionId": "2", "servingEnvironmentId": environment,
        "customProperties": {"cluster": {"metadataType": "MetadataStringValue", "string_value": "east"}},
    });
    let id = scene.create("/inference_services", entry).await;
    assert_eq!(
        (environment.as_str(), id.as_str()),
        ("1", "3"),
        "taken ids are passed over"
    );

    let [entry] = registry.entries().try_into().expect("one entry");
    assert_eq!(registry.entry(entry.id).as_ref(), Some(&entry));
    assert_eq!(
        (
            entry.name.as_str(),
            entry.environment.as_str(),
            entry.registered_model_id,
            entry.model_version_id
        ),
        ("scorer", "team-a", 42, Some(2))
    );
    assert_eq!(
        (entry.desired_state.as_str(), entry.properties["cluster"].as_str()),
        ("DEPLOYED", "east")
    );
    assert_eq!(scene.get("/model_versions/2").await.1["state"], "LIVE");
}

#[tokio::test]
async fn nothing_listens_once_the_server_has_stopped() {
    let scene = Scene::new().await;
    let address = scene.server.address();
    scene.get("/registered_models").await;
    scene.server.stop().await;
    tokio::net::TcpStream::connect(address)
        .await
        .expect_err("nobody there");
}

#[test]
fn a_seed_that_fails_names_its_line() {
    let registry = Registry::new();
    let good = r#"{"method": "POST", "path": "/registered_models", "body": {"name": "fraud"}}"#;
    for (lines, message) in [
        (format!("{good}\n\n{good}\n"), "seed line 3"),
        ("not JSON".to_owned(), "seed line 1"),
        (
            r#"{"method": "P ST", "path": "/registered_models"}"#.to_owned(),
            "seed line 1",
        ),
        (
            r#"{"method": "POST", "path": "/nowhere"}"#.to_owned(),
            "seed line 1",
        ),
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
    assert!(
        words.contains("seed line 1: POST /registered_models") && words.contains("'name'"),
        "{words}"
    );
    assert_eq!(words.lines().count(), 1, "{words}");
}
