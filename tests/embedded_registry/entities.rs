//! Entities: what is unique, what a patch resets, what is upserted.

use serde_json::json;

use crate::scene::{Ids, Scene};

#[tokio::test]
async fn an_external_id_is_unique_over_all_kinds_but_serves_and_artifacts() {
    let (scene, ids) = Scene::with_entry().await;
    let Ids { model, version, environment, service } = &ids;
    let external = json!({"externalId": "ext"});
    let (status, _) =
        scene.call("PATCH", &format!("/registered_models/{model}"), Some(external.clone())).await;
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
    scene.create(&format!("/inference_services/{service}/serves"), serve).await;
    // The owner may keep it, and whoever gives it up frees it.
    let own = scene.call("PATCH", &format!("/registered_models/{model}"), Some(external.clone())).await;
    assert_eq!(own.0, 200);
    let other = json!({"externalId": "other"});
    scene.call("PATCH", &format!("/registered_models/{model}"), Some(other)).await;
    let freed = scene.call("PATCH", &format!("/inference_services/{service}"), Some(external)).await;
    assert_eq!(freed.0, 200);
}

#[tokio::test]
async fn a_patch_resets_the_state_that_it_omits() {
    let (scene, ids) = Scene::with_entry().await;
    for (path, word, reset) in [
        (format!("/registered_models/{}", ids.model), json!({"state": "ARCHIVED"}), "LIVE"),
        (format!("/model_versions/{}", ids.version), json!({"state": "ARCHIVED"}), "LIVE"),
        (format!("/inference_services/{}", ids.service), json!({"desiredState": "UNDEPLOYED"}), "DEPLOYED"),
    ] {
        let (key, value) = word.as_object().and_then(|word| word.iter().next()).expect("a word");
        let (_, answer) = scene.call("PATCH", &path, Some(word.clone())).await;
        assert_eq!(&answer[key], value);
        let (_, answer) = scene.call("PATCH", &path, Some(json!({"description": "d"}))).await;
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
    assert_eq!((status, &changed["id"], &changed["uri"]), (200, &json!(id), &json!("s3://b")));

    let document = json!({"artifactType": "doc-artifact", "name": "card", "uri": "https://card"});
    let document = scene.create(&path, document).await;
    assert_eq!(scene.get(&format!("/artifacts/{document}")).await.0, 200);
    assert_eq!(scene.get(&format!("/model_artifacts/{document}")).await.0, 404);
    assert_eq!(scene.names(&path).await, ["weights", "card"]);
    assert_eq!(scene.names("/model_artifacts").await, ["weights"]);
    let mismatch = json!({"artifactType": "model-artifact", "id": document});
    assert_eq!(scene.call("POST", &path, Some(mismatch)).await.0, 400);
    assert_eq!(scene.call("POST", &path, Some(json!({"name": "untyped"}))).await.0, 400);
}
