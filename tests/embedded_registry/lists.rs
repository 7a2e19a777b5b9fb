//! Lists: paging where entries share a millisecond or are many, and filters.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use isvc_registrar::registry::embedded::Registry;
use serde_json::json;

use crate::scene::{Scene, names_in};

#[tokio::test]
async fn pages_by_last_update_neither_skip_nor_repeat() {
    // All but the last write happen in one millisecond.
    let clock = Arc::new(AtomicU64::new(1_790_000_000_000));
    let ticking = Arc::clone(&clock);
    let registry =
        Registry::with_clock(move || UNIX_EPOCH + Duration::from_millis(ticking.load(Ordering::Relaxed)));
    let scene = Scene::of(registry).await;
    let environment = scene.create("/serving_environments", json!({"name": "team-a"})).await;
    for number in 0..25 {
        let name = format!("scorer-{number:02}");
        let entry = json!({"name": name, "registeredModelId": "1", "servingEnvironmentId": environment});
        scene.create("/inference_services", entry).await;
    }
    clock.fetch_add(1, Ordering::Relaxed);
    let touched = scene.registry().entries()[3].id;
    scene.call("PATCH", &format!("/inference_services/{touched}"), Some(json!({}))).await;

    let mut expected: Vec<String> = (0..25).map(|number| format!("scorer-{number:02}")).collect();
    let moved = expected.remove(3);
    expected.push(moved);
    let lists =
        ["/inference_services".to_owned(), format!("/serving_environments/{environment}/inference_services")];
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
    let mut seen = BTreeSet::new();
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
    let (status, last) = scene.get("/inference_service?name=s-19999&parentResourceId=1").await;
    assert_eq!((status, &last["name"]), (200, &json!("s-19999")));
}

#[tokio::test]
async fn filters_find_models_and_versions() {
    let scene = Scene::new().await;
    for (name, owner, state, tier) in
        [("fraud", "ana", "LIVE", 1), ("churn", "bo", "LIVE", 2), ("it's", "ana", "ARCHIVED", 3)]
    {
        let tier = json!({"tier": {"metadataType": "MetadataIntValue", "int_value": tier.to_string()}});
        let body = json!({"name": name, "owner": owner, "state": state, "customProperties": tier});
        scene.create("/registered_models", body).await;
    }
    for (name, model) in [("v_1", "1"), ("v-1", "1"), ("v_1", "2")] {
        scene.create("/model_versions", json!({"name": name, "registeredModelId": model})).await;
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
        ("(owner='ana' AND state='LIVE') or tier > 2", vec!["fraud", "it's"]),
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
        assert_eq!((status, &answer["code"]), (400, &json!("Bad Request")), "{malformed}");
    }
    // Under a parent the stored name begins with its id, and even `=` compares by LIKE.
    for (path, found) in [
        ("/model_versions?filterQuery=name%3D%27v_1%27", vec!["v_1", "v-1", "v_1"]),
        ("/registered_models/1/versions?name=v_1", vec!["v_1", "v-1"]),
        ("/registered_models/1/versions?name=v-1", vec!["v-1"]),
        ("/registered_models/2/versions?filterQuery=id%3E1&name=v_1", vec!["v_1"]),
        ("/registered_models/1/versions?name=v", vec![]),
    ] {
        assert_eq!(scene.names(path).await, found, "{path}");
    }
    assert_eq!(scene.get("/registered_models/1/versions?name=it%27s").await.0, 400);
}
