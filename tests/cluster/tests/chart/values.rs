//! Values that make no sense are refused with a line that names them.

use super::rendering::{PROVIDED, helm, render, set};

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn values_that_make_no_sense_are_refused() {
    for (value, complaint) in [
        ("replica=3", "additional properties 'replica' not allowed"),
        ("replicas=two", "at '/replicas': got string, want integer"),
        ("registration.mode=enforced", "at '/registration/mode': value must be one of"),
        ("webhook.port=99999", "at '/webhook/port': maximum"),
        ("webhook.port=8081", "webhook.port, webhook.healthPort and syncer.healthPort have to differ"),
        ("hostNetwork=true", "webhook.port 10250 is the kubelet's own with hostNetwork"),
        ("registry.url=model-registry:8080", "at '/registry/url'"),
        ("registry.token.from=secret", "registry.token.secret is needed"),
        ("registry.list[0].name=gold", "at '/registry/list/0': missing property 'url'"),
        (
            "registry.list[0].name=gold,registry.list[0].service.namespace=vault,registry.list[0].service.name=gold",
            "vault, which is not one of registry.namespaces",
        ),
        ("syncer.resync=10", "at '/syncer/resync'"),
        ("labelPrefix=", "at '/labelPrefix'"),
        ("image.digest=latest", "at '/image/digest'"),
        ("certificate.mode=selfSigned", "at '/certificate/mode': value must be one of"),
        ("certificate.mode=provided,certificate.caBundle=-----BEGIN", "certificate.existingSecret is needed"),
        ("serviceAccount.create=false", "serviceAccount.name is needed"),
        ("podLabels.number=1", "at '/podLabels/number': got number, want string"),
        ("istio=true", "at '/istio': got boolean, want object"),
    ] {
        let run = helm(&["template", "registrar"], &set(&[value])).await.unwrap();
        assert!(!run.success && run.stderr.contains(complaint), "{value}: {run:?}");
    }
    let no_bundle = [&["--values", PROVIDED][..], &set(&["certificate.caBundle="])].concat();
    let run = helm(&["template", "registrar"], &no_bundle).await.unwrap();
    assert!(!run.success && run.stderr.contains("certificate.caBundle is needed"), "{run:?}");
}

/// Without the flag the program would look in its default namespace, where it has no rights.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn with_no_registry_namespace_no_service_is_looked_for() {
    let rendered = render(&["--set-json", "registry.namespaces=[]"]).await.unwrap();
    assert!(rendered.contains("- --registry-namespace=\n"), "{rendered}");
    assert!(!rendered.contains("resources: [services]"), "{rendered}");
}
