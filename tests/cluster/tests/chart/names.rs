//! Names fit into what Kubernetes takes, whatever the release is called.

use super::rendering::{objects, set};

/// As long as Helm takes one.
const LONGEST_RELEASE: usize = 53;

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn names_are_cut_to_63_characters() {
    let name = format!("fullnameOverride={}", "n".repeat(80));
    let modes = ["certificate.mode=selfManaged", "certificate.mode=certManager"];
    for mode in modes {
        let values = set(&[&name, mode, "syncer.standalone=true", "networkPolicy.enabled=true"]);
        for object in objects(&values).await.unwrap() {
            let kind = object["kind"].as_str().unwrap();
            let name = object["metadata"]["name"].as_str().unwrap();
            let name = name.strip_prefix("registration.").unwrap_or(name);
            assert!(name.len() <= 63, "{kind} {name}");
        }
    }
    let long = format!("nameOverride={}", "n".repeat(LONGEST_RELEASE));
    for object in objects(&set(&[&long])).await.unwrap() {
        let labels = object["metadata"]["labels"].as_object().unwrap();
        assert!(labels.values().all(|value| value.as_str().unwrap().len() <= 63), "{labels:?}");
    }
}

/// Two objects of one kind and one name would be one object.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn every_object_has_a_name_of_its_own() {
    for values in [set(&["certificate.mode=certManager"]), set(&["syncer.standalone=true"])] {
        let mut seen = Vec::new();
        for object in objects(&values).await.unwrap() {
            let metadata = &object["metadata"];
            let key = (object["kind"].clone(), metadata["namespace"].clone(), metadata["name"].clone());
            assert!(!seen.contains(&key), "{key:?} is there twice");
            seen.push(key);
        }
    }
}
