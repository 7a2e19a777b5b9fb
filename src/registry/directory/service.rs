//! Where a Service of a registry is reached. Pure.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Service, ServicePort};
use url::Url;

/// The label that Model Registry's own manifests put on its Service. The model catalog, which has a port of the
/// same name, does not carry it.
pub(super) const LABEL: &str = "component=model-registry";

/// Names of the API's port.
const HTTP_PORT: &str = "http-api";
const HTTPS_PORT: &str = "https-api";

/// Annotations with an address outside the cluster: Kubeflow's and OpenDataHub's.
pub const EXTERNAL_ADDRESS: [&str; 2] =
    ["routing.kubeflow.org/external-address-rest", "routing.opendatahub.io/external-address-rest"];

/// Where a registry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Scheme, host, port and path.
    pub(super) url: Url,
    /// Where to connect, when no DNS has to be asked.
    pub(super) socket: Option<SocketAddr>,
}

/// The address of a Service; `None` when it says nothing that could be one.
pub(super) fn address(service: &Service) -> Option<Address> {
    let (name, namespace) = (service.metadata.name.as_deref()?, service.metadata.namespace.as_deref()?);
    let spec = service.spec.as_ref()?;
    let ports = spec.ports.as_deref().unwrap_or_default();
    let named = |wanted: &str| ports.iter().find(|port| port.name.as_deref() == Some(wanted));
    let of = |port: &ServicePort, scheme: &str| {
        let number = u16::try_from(port.port).ok()?;
        let url = Url::parse(&format!("{scheme}://{name}.{namespace}.svc:{number}")).ok()?;
        let ip = spec.cluster_ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok());
        Some(Address { url, socket: ip.map(|ip| SocketAddr::new(ip, number)) })
    };
    if let Some(port) = named(HTTP_PORT) {
        return of(port, "http");
    }
    if let Some(port) = named(HTTPS_PORT) {
        return of(port, "https");
    }
    if let [only] = ports {
        return of(only, if only.port == 443 { "https" } else { "http" });
    }
    let annotations = service.metadata.annotations.as_ref()?;
    let external = EXTERNAL_ADDRESS.iter().find_map(|key| annotations.get(*key))?;
    let url = Url::parse(&format!("https://{}", external.trim())).ok()?;
    // An address is a host, a port and a path; anything else in it would be somebody's trick.
    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    plain.then_some(Address { url, socket: None })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn of(spec: &Value, annotations: &Value) -> Option<(String, Option<String>)> {
        let service = json!({
            "metadata": {"name": "registry", "namespace": "kubeflow", "annotations": annotations},
            "spec": spec,
        });
        let address = address(&serde_json::from_value(service).unwrap())?;
        Some((address.url.to_string(), address.socket.map(|socket| socket.to_string())))
    }

    #[rstest]
    #[case::http_api(
        json!({"clusterIP": "10.0.0.7", "ports": [{"name": "grpc", "port": 9090}, {"name": "http-api", "port": 8080}]}),
        Some(("http://registry.kubeflow.svc:8080/", Some("10.0.0.7:8080"))))]
    #[case::https_api(
        json!({"clusterIP": "10.0.0.7", "ports": [{"name": "x", "port": 1}, {"name": "https-api", "port": 8443}]}),
        Some(("https://registry.kubeflow.svc:8443/", Some("10.0.0.7:8443"))))]
    #[case::its_only_port(
        json!({"clusterIP": "10.0.0.7", "ports": [{"port": 80}]}),
        Some(("http://registry.kubeflow.svc/", Some("10.0.0.7:80"))))]
    #[case::six(
        json!({"clusterIP": "fd00::7", "ports": [{"name": "http-api", "port": 8080}]}),
        Some(("http://registry.kubeflow.svc:8080/", Some("[fd00::7]:8080"))))]
    #[case::headless(
        json!({"clusterIP": "None", "ports": [{"name": "http-api", "port": 8080}]}),
        Some(("http://registry.kubeflow.svc:8080/", None)))]
    #[case::two_ports_of_other_names(
        json!({"clusterIP": "10.0.0.7", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}), None)]
    #[case::no_port(json!({"clusterIP": "10.0.0.7"}), None)]
    fn an_address_is_read_from_the_ports(#[case] spec: Value, #[case] want: Option<(&str, Option<&str>)>) {
        let want = want.map(|(url, socket)| (url.to_owned(), socket.map(str::to_owned)));
        assert_eq!(of(&spec, &json!({})), want);
    }

    #[rstest]
    #[case::host("registry.example.org", Some("https://registry.example.org/"))]
    #[case::port_and_path(
        "registry.example.org:8443/prefix",
        Some("https://registry.example.org:8443/prefix")
    )]
    #[case::a_password("u:p@registry.example.org", None)]
    #[case::empty("", None)]
    fn else_from_an_annotation(#[case] annotation: &str, #[case] want: Option<&str>) {
        for key in EXTERNAL_ADDRESS {
            let found = of(&json!({"ports": []}), &json!({ key: annotation }));
            assert_eq!(found, want.map(|url| (url.to_owned(), None)));
        }
    }
}
