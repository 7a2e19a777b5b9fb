//! Another controller at work on the same objects and the same registry, for good.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use isvc_registrar::registration::ObjectName;
use isvc_registrar::registry::embedded::{Entry, Registry};
use isvc_registrar::syncer::objects::Objects;
use isvc_registrar::syncer::objects::memory::MemoryObjects;
use serde_json::{Value, json};

use crate::scene::{MODEL, NAMESPACE, Scene, label, labels, name, object, ready, until};

const FINALIZER: &str = "modelregistry.kubeflow.org/finalizer";

/// How often it looks at every object: often enough to meet the syncer in the middle of things.
const LOOKS_EVERY: Duration = Duration::from_millis(10);

/// Does what the Go controller does: finds or creates `<name>/<uid>` where there is no id label, adds label and
/// finalizer, writes the url without `desiredState`, and marks UNDEPLOYED when the object is being deleted.
struct Neighbour {
    objects: MemoryObjects,
    registry: Registry,
    url: String,
    http: reqwest::Client,
    patches: AtomicUsize,
}

impl Neighbour {
    fn move_in(scene: &Scene) -> (Arc<Self>, tokio_util::task::AbortOnDropHandle<()>) {
        let neighbour = Arc::new(Self {
            objects: scene.objects.clone(),
            registry: scene.registry().clone(),
            url: format!("{}/api/model_registry/v1/inference_services", scene.server.url()),
            http: reqwest::Client::new(),
            patches: AtomicUsize::new(0),
        });
        let working = Arc::clone(&neighbour);
        let task = tokio::spawn(async move {
            loop {
                for name in working.objects.names() {
                    working.reconcile(&name).await;
                }
                tokio::time::sleep(LOOKS_EVERY).await;
            }
        });
        (neighbour, tokio_util::task::AbortOnDropHandle::new(task))
    }

    async fn reconcile(&self, name: &ObjectName) {
        let Some(mut object) = self.objects.object(name) else { return };
        let metadata = &object["metadata"];
        let leaving = metadata["deletionTimestamp"].is_string();
        let Some(id) = self.entry_of(metadata).await else { return };
        let Some(entry) = self.registry.entry(id) else { return };
        self.tell_url(&entry, object["status"]["url"].as_str().unwrap_or_default()).await;
        if leaving {
            self.patch(id, json!({"desiredState": "UNDEPLOYED"})).await;
            let uid = metadata["uid"].as_str().unwrap_or_default();
            // Somebody else may have taken it off meanwhile.
            let _ = self.objects.release_finalizer(name, uid, FINALIZER, 0).await;
        } else if metadata["finalizers"].as_array().is_none_or(Vec::is_empty) {
            object["metadata"]["labels"][label("inference-service-id")] = json!(id.to_string());
            object["metadata"]["finalizers"] = json!([FINALIZER]);
            self.objects.apply(object);
        }
    }

    /// The labelled entry, else `<name>/<uid>`.
    async fn entry_of(&self, metadata: &Value) -> Option<i32> {
        if let Some(id) = metadata["labels"][label("inference-service-id")].as_str() {
            return id.parse().ok();
        }
        let name = format!("{}/{}", metadata["name"].as_str()?, metadata["uid"].as_str()?);
        let known = self.registry.entries().into_iter().find(|entry| entry.name == name);
        if let Some(known) = known {
            return Some(known.id);
        }
        let entries = self.registry.entries();
        let environment = entries.iter().find(|entry| entry.environment == NAMESPACE)?.environment_id;
        let body = json!({"name": name, "registeredModelId": MODEL.to_string(),
            "servingEnvironmentId": environment.to_string(), "desiredState": "DEPLOYED"});
        let post =
            self.http.post(&self.url).header("content-type", "application/json").body(body.to_string());
        let made: Value = serde_json::from_slice(&post.send().await.unwrap().bytes().await.unwrap()).unwrap();
        made["id"].as_str()?.parse().ok()
    }

    async fn tell_url(&self, entry: &Entry, url: &str) {
        if entry.properties.get("url").is_some_and(|known| known == url) {
            return;
        }
        let mut properties = entry.properties.clone();
        properties.insert("url".into(), url.into());
        let properties: BTreeMap<String, Value> = properties
            .into_iter()
            .map(|(key, value)| (key, json!({"metadataType": "MetadataStringValue", "string_value": value})))
            .collect();
        self.patch(entry.id, json!({"customProperties": properties})).await;
    }

    async fn patch(&self, id: i32, body: Value) {
        let patch = self.http.patch(format!("{}/{id}", self.url)).header("content-type", "application/json");
        patch.body(body.to_string()).send().await.unwrap();
        self.patches.fetch_add(1, Ordering::SeqCst);
    }
}

/// How many entries of an object are DEPLOYED.
fn deployed(scene: &Scene, object: &str) -> usize {
    let entries = scene.registry().entries().into_iter();
    let own = entries.filter(|entry| entry.name == object || entry.name.starts_with(&format!("{object}/")));
    own.filter(|entry| entry.desired_state == "DEPLOYED").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_the_go_controller_each_object_has_one_entry_that_ends_undeployed() {
    let scene = Scene::new().await;
    let names = ["admitted", "late", "contested"];
    scene.create("admitted").await;
    scene.objects.apply(object("late", &labels(Some(MODEL), None), &ready("http://late")));
    // Its status has an address alone, of which the other knows nothing: each sets the url back.
    let address = json!({"address": {"url": "http://inside"}});
    let contested = scene.admit("contested", MODEL).await;
    scene.objects.apply(object("contested", &labels(Some(MODEL), Some(contested)), &address));
    let running = scene.start();
    let (neighbour, _at_work) = Neighbour::move_in(&scene);

    until("the metric names the quarrel", || scene.metrics.contested_writes("registry") > 0).await;
    until("each object has one entry", || names.iter().all(|name| deployed(&scene, name) == 1)).await;
    until("each has its finalizer", || {
        let has = |object: &str| {
            scene.objects.object(&name(object)).unwrap()["metadata"]["finalizers"] == json!([FINALIZER])
        };
        names.iter().all(|object| has(object))
    })
    .await;
    let lists = scene.source.lists();
    until("three resyncs are over", || scene.source.lists() >= lists + 4).await;
    let ours = scene.patches().len() - neighbour.patches.load(Ordering::SeqCst);
    assert!(ours <= 30, "{ours} PATCHes of ours for three objects, however long the other goes on");

    for object in names {
        scene.objects.delete(&name(object));
    }
    until("no object is left", || scene.objects.names().is_empty()).await;
    until("all have ended", || names.iter().all(|name| deployed(&scene, name) == 0)).await;
    let lists = scene.source.lists();
    until("two resyncs are over", || scene.source.lists() >= lists + 3).await;
    assert!(scene.states().values().all(|state| state == "UNDEPLOYED"), "{:?}", scene.states());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_left_behind_is_adopted_and_its_finalizer_released() {
    let mut scene = Scene::new().await;
    scene.settings.release_finalizer = Some(FINALIZER.into());
    // The environment is there before the controller is.
    scene.admit("first", MODEL).await;
    scene.objects.apply(object("scorer", &labels(Some(MODEL), None), &ready("http://a")));
    let (_, at_work) = Neighbour::move_in(&scene);
    until("the controller has done its work", || {
        scene.objects.object(&name("scorer")).unwrap()["metadata"]["finalizers"] == json!([FINALIZER])
    })
    .await;
    drop(at_work);

    let running = scene.start();
    let uid = scene.objects.object(&name("scorer")).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let theirs = format!("scorer/{uid}");
    let entry = || scene.registry().entries().into_iter().find(|entry| entry.name == theirs).unwrap();
    until("its entry is adopted", || entry().properties.get("uid").is_some_and(|stamped| *stamped == uid))
        .await;
    scene.objects.delete(&name("scorer"));
    until("no finalizer holds the object", || scene.objects.object(&name("scorer")).is_none()).await;
    until("its entry is retired", || entry().desired_state == "UNDEPLOYED").await;
    assert!(!scene.states().contains_key("scorer"), "no second entry was made");
    running.stop().await;
}
