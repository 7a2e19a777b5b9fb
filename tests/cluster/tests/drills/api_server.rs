//! The API server is restarted.

use isvc_registrar_test_cluster::{ControlPlane, Installation, Registry};

use crate::drill::{Drill, QUICK, names};

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn what_happened_around_its_restart_is_told() {
    let cluster = ControlPlane::start().await.unwrap();
    let registry = Registry::of_cluster(&cluster).await.unwrap();
    Installation::install(&cluster, &registry, &QUICK).await.unwrap();
    let drill = Drill::of(&cluster, &registry, "restart").await.unwrap();
    let names = names(20);
    drill.create_all(&names).await.unwrap();
    drill.registry_tells_the_truth().await.unwrap();

    drill.delete_all(&names[..10]).await.unwrap();
    cluster.stop_api_server().await.unwrap();
    cluster.start_api_server().await.unwrap();
    // Its connections are new ones from here on.
    let again = Drill::with(&cluster, &registry, drill.namespace.clone(), drill.model.clone()).unwrap();
    again.delete_all(&names[10..15]).await.unwrap();
    again.create("later").await.unwrap();

    again.registry_tells_the_truth().await.unwrap();
}
