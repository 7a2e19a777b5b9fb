//! The environment and the arguments of a container.
//!
//! In: the Pod, a container of it, and the Secrets, ConfigMaps and Services of its namespace. Out: variables, and
//! arguments with `$(VARIABLE)` replaced. What stays true: the order of precedence is the kubelet's (image, Services,
//! `envFrom`, `env`), and a source that is missing and not optional is an error.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar, Pod, Secret, Service};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::Kubelet;
use super::downward::Downward;

/// The search path that container images come with.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables by name.
pub(super) type Variables = BTreeMap<String, String>;

impl Kubelet {
    /// The whole environment of a container.
    pub(super) async fn environment(
        &self,
        downward: Downward<'_>,
        container: &Container,
    ) -> Result<Variables> {
        let pod = downward.pod;
        let mut variables = Variables::from([
            ("PATH".to_owned(), PATH.to_owned()),
            ("HOSTNAME".to_owned(), pod.name_any()),
            ("KUBERNETES_SERVICE_HOST".to_owned(), self.setup.addresses.api_server().to_string()),
            ("KUBERNETES_SERVICE_PORT".to_owned(), "443".to_owned()),
            ("KUBERNETES_SERVICE_PORT_HTTPS".to_owned(), "443".to_owned()),
        ]);
        if pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true) {
            let services = Api::<Service>::namespaced(self.client.clone(), namespace(pod));
            for service in services.list(&ListParams::default()).await?.items {
                add_service_links(&mut variables, &service);
            }
        }
        for source in container.env_from.iter().flatten() {
            let prefix = source.prefix.as_deref().unwrap_or_default();
            let map = if let Some(reference) = &source.config_map_ref {
                self.config_map(pod, &reference.name, reference.optional).await?
            } else if let Some(reference) = &source.secret_ref {
                self.secret(pod, &reference.name, reference.optional).await?
            } else {
                bail!("an envFrom source is neither configMapRef nor secretRef");
            };
            for (key, value) in map.unwrap_or_default() {
                variables.insert(format!("{prefix}{key}"), String::from_utf8_lossy(&value).into_owned());
            }
        }
        for variable in container.env.iter().flatten() {
            if let Some(value) = self.value(downward, variable, &variables).await? {
                variables.insert(variable.name.clone(), value);
            }
        }
        Ok(variables)
    }

    async fn value(
        &self,
        downward: Downward<'_>,
        variable: &EnvVar,
        before: &Variables,
    ) -> Result<Option<String>> {
        let Some(source) = &variable.value_from else {
            return Ok(Some(expand(variable.value.as_deref().unwrap_or_default(), before)));
        };
        if let Some(field) = &source.field_ref {
            return downward.field(&field.field_path).map(Some);
        }
        let (map, key, optional) = if let Some(reference) = &source.config_map_key_ref {
            (
                self.config_map(downward.pod, &reference.name, reference.optional).await?,
                &reference.key,
                reference.optional,
            )
        } else if let Some(reference) = &source.secret_key_ref {
            (
                self.secret(downward.pod, &reference.name, reference.optional).await?,
                &reference.key,
                reference.optional,
            )
        } else {
            bail!("the source of variable {} is not supported by the tests' kubelet", variable.name);
        };
        match map.and_then(|mut map| map.remove(key)) {
            Some(value) => Ok(Some(String::from_utf8_lossy(&value).into_owned())),
            None if optional == Some(true) => Ok(None),
            None => bail!("variable {}: there is no key {key}", variable.name),
        }
    }

    /// The content of a ConfigMap in the Pod's namespace; none when it is absent and optional.
    pub(super) async fn config_map(
        &self,
        pod: &Pod,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Option<BTreeMap<String, Vec<u8>>>> {
        let found = Api::<ConfigMap>::namespaced(self.client.clone(), namespace(pod)).get_opt(name).await?;
        if found.is_none() && optional != Some(true) {
            bail!("configmap {name:?} not found");
        }
        Ok(found.map(|map| {
            let text = map.data.into_iter().flatten().map(|(key, value)| (key, value.into_bytes()));
            text.chain(map.binary_data.into_iter().flatten().map(|(key, value)| (key, value.0))).collect()
        }))
    }

    /// The content of a Secret in the Pod's namespace; none when it is absent and optional.
    pub(super) async fn secret(
        &self,
        pod: &Pod,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Option<BTreeMap<String, Vec<u8>>>> {
        let found = Api::<Secret>::namespaced(self.client.clone(), namespace(pod)).get_opt(name).await?;
        if found.is_none() && optional != Some(true) {
            bail!("secret {name:?} not found");
        }
        Ok(found.map(|secret| secret.data.into_iter().flatten().map(|(key, value)| (key, value.0)).collect()))
    }
}

fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or("default")
}

/// The variables by which Pods find the Services of their namespace, those of Docker's links included: their names
/// can clash with a program's own (`<SERVICE>_PORT` is a URL), which is worth meeting in a test.
fn add_service_links(variables: &mut Variables, service: &Service) {
    let Some(spec) = &service.spec else { return };
    let Some(host) = spec.cluster_ip.as_deref().filter(|address| !address.is_empty() && *address != "None")
    else {
        return;
    };
    let name = service.name_any().to_uppercase().replace('-', "_");
    let ports = spec.ports.iter().flatten();
    for (index, port) in ports.enumerate() {
        let number = port.port;
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let url = format!("{}://{host}:{number}", protocol.to_lowercase());
        if index == 0 {
            variables.insert(format!("{name}_SERVICE_HOST"), host.to_owned());
            variables.insert(format!("{name}_SERVICE_PORT"), number.to_string());
            variables.insert(format!("{name}_PORT"), url.clone());
        }
        if let Some(port_name) = &port.name {
            let port_name = port_name.to_uppercase().replace('-', "_");
            variables.insert(format!("{name}_SERVICE_PORT_{port_name}"), number.to_string());
        }
        let link = format!("{name}_PORT_{number}_{protocol}");
        variables.insert(format!("{link}_ADDR"), host.to_owned());
        variables.insert(format!("{link}_PORT"), number.to_string());
        variables.insert(format!("{link}_PROTO"), protocol.to_lowercase());
        variables.insert(link, url);
    }
}

/// Replaces `$(NAME)` by the variable's value; `$$` is a dollar sign, and an unknown name stays as it is.
pub(super) fn expand(text: &str, variables: &Variables) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        expanded += &rest[..dollar];
        let after = &rest[dollar + 1..];
        if let Some(escaped) = after.strip_prefix('$') {
            expanded.push('$');
            rest = escaped;
            continue;
        }
        let reference = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        if let Some((value, tail)) = reference.and_then(|(name, tail)| Some((variables.get(name)?, tail))) {
            expanded += value;
            rest = tail;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded + rest
}

/// Replaces references in each of a container's arguments.
pub(super) fn expand_all(texts: Option<&Vec<String>>, variables: &Variables) -> Vec<String> {
    texts.into_iter().flatten().map(|text| expand(text, variables)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_as_the_kubelet_does() {
        let variables = Variables::from([("POD_IP".to_owned(), "127.0.0.9".to_owned())]);
        let cases = [
            ("--listen=$(POD_IP):80", "--listen=127.0.0.9:80"),
            ("$(UNKNOWN)", "$(UNKNOWN)"),
            ("$$(POD_IP)", "$(POD_IP)"),
            ("$(POD_IP", "$(POD_IP"),
            ("100$", "100$"),
            ("$(POD_IP)$(POD_IP)", "127.0.0.9127.0.0.9"),
        ];
        for (text, expected) in cases {
            assert_eq!(expand(text, &variables), expected);
        }
    }
}
