//! Two clusters share one registry.

use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry};

use crate::drill::{Drill, QUICK};

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn two_clusters_with_the_same_names_leave_each_other_alone() {
    let (east, west) = tokio::try_join!(ControlPlane::start(), ControlPlane::start()).unwrap();
    let registry = Registry::of_cluster(&east).await.unwrap();
    Installation::install(&east, &registry, &QUICK).await.unwrap();
    // The chart gives rights there, with or without a registry in it.
    west.kubectl(&["create", "namespace", "kubeflow"]).await.unwrap().stdout().unwrap();
    let url = format!("registry.url={}", registry.url());
    Installation::install(&west, &registry, &[&QUICK[..], &[&url]].concat()).await.unwrap();
    let in_east = Drill::of(&east, &registry, "team").await.unwrap();
    let namespace = west.namespace("team").await.unwrap();
    assert_eq!(namespace, in_east.namespace, "both clusters have the same names");
    let in_west = Drill::with(&west, &registry, namespace, in_east.model.clone()).unwrap();

    let of_east = in_east.deploy("scorer").await.unwrap();
    let of_west = in_west.deploy("scorer").await.unwrap();
    assert_ne!(of_east, of_west, "each cluster has an entry of its own");
    in_east.registry_tells_the_truth().await.unwrap();
    in_west.registry_tells_the_truth().await.unwrap();

    in_east.delete("scorer").await.unwrap();
    in_east.registry_tells_the_truth().await.unwrap();
    assert_eq!(in_east.entry(&of_east).await.unwrap()["desiredState"], "UNDEPLOYED");
    assert_eq!(in_west.entry(&of_west).await.unwrap()["desiredState"], "DEPLOYED");
    in_west.registry_tells_the_truth().await.unwrap();
}
