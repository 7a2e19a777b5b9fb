//! What must be so after every drill.
//!
//! In: a cluster and its registry. Out: what is otherwise, in sentences. What stays true: every live object that names
//! a model has exactly one DEPLOYED entry, and its id label, where it has one, names that; every other entry of this
//! cluster is UNDEPLOYED; no object has two entries for one model.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use isvc_registrar_test_cluster::Registry;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::drill::{ID, MODEL};

/// Objects and entries on one page.
const PAGE: u32 = 500;

/// One entry of this cluster.
struct Entry {
    id: String,
    model: String,
    deployed: bool,
}

type Place = (String, String);

pub(crate) async fn compare(
    client: &Client,
    resource: &ApiResource,
    registry: &Registry,
) -> Result<Vec<String>> {
    let cluster = cluster_id(client).await?;
    let mut entries = entries(registry, &cluster).await?;
    let mut untrue = Vec::new();
    for object in objects(client, resource).await? {
        let Some(model) = object.labels().get(MODEL) else { continue };
        let place = (object.namespace().unwrap_or_default(), object.name_any());
        let name = format!("{}/{}", place.0, place.1);
        let own = entries.remove(&place).unwrap_or_default();
        let deployed: Vec<&Entry> = own.iter().filter(|entry| entry.deployed).collect();
        match deployed.as_slice() {
            [entry] => {
                if entry.model != *model {
                    untrue.push(format!(
                        "{name} serves model {model}, entry {} says {}",
                        entry.id, entry.model
                    ));
                }
                if let Some(label) = object.labels().get(ID).filter(|label| **label != entry.id) {
                    untrue.push(format!("{name} is labelled {label}, and its entry is {}", entry.id));
                }
            }
            deployed => untrue.push(format!("{name} has {} DEPLOYED entries", deployed.len())),
        }
        for entry in &own {
            if own.iter().filter(|other| other.model == entry.model).count() > 1 {
                untrue.push(format!("{name} has entry {} twice", entry.id));
            }
        }
    }
    for ((namespace, name), orphans) in entries {
        for entry in orphans.iter().filter(|entry| entry.deployed) {
            untrue.push(format!("{namespace}/{name} is gone, and entry {} is DEPLOYED", entry.id));
        }
    }
    Ok(untrue)
}

/// The cluster's id, as the program has it without a flag.
pub(crate) async fn cluster_id(client: &Client) -> Result<String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.get("kube-system").await?.uid().context("kube-system has no uid")
}

async fn objects(client: &Client, resource: &ApiResource) -> Result<Vec<DynamicObject>> {
    let api = Api::<DynamicObject>::all_with(client.clone(), resource);
    let mut objects = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

/// All entries stamped with this cluster, by the place of their object.
async fn entries(registry: &Registry, cluster: &str) -> Result<BTreeMap<Place, Vec<Entry>>> {
    let mut entries: BTreeMap<Place, Vec<Entry>> = BTreeMap::new();
    let mut token = String::new();
    loop {
        let page = format!("inference_services?pageSize={PAGE}&orderBy=ID&nextPageToken={token}");
        let page = registry.get(&page).await?;
        for entry in page["items"].as_array().context("a list without items")? {
            let property = |key: &str| text(&entry["customProperties"][key]["string_value"]);
            if property("cluster") == cluster {
                let place = (property("namespace"), property("name"));
                let deployed = entry["desiredState"] == "DEPLOYED";
                let (id, model) = (text(&entry["id"]), text(&entry["registeredModelId"]));
                entries.entry(place).or_default().push(Entry { id, model, deployed });
            }
        }
        token = text(&page["nextPageToken"]);
        if token.is_empty() {
            return Ok(entries);
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
