//! What a Pod can learn about itself: `fieldRef` in its environment and its volumes.
//!
//! In: a Pod, its address and a field path. Out: the value. What stays true: a path that is not known here is an
//! error, never an empty value.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::NODE;

/// What the fields are read from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Downward<'a> {
    pub(super) pod: &'a Pod,
    pub(super) pod_address: Ipv4Addr,
    pub(super) node_address: Ipv4Addr,
}

impl Downward<'_> {
    /// The value at `path`.
    pub(super) fn field(&self, path: &str) -> Result<String> {
        if let Some((map, key)) = subscript(path) {
            let map = match map {
                "metadata.labels" => self.pod.labels(),
                "metadata.annotations" => self.pod.annotations(),
                _ => bail!("fieldPath {path} is not known"),
            };
            return Ok(map.get(key).cloned().unwrap_or_default());
        }
        Ok(match path {
            "metadata.name" => self.pod.name_any(),
            "metadata.namespace" => self.pod.namespace().unwrap_or_default(),
            "metadata.uid" => self.pod.uid().unwrap_or_default(),
            "metadata.labels" => lines(self.pod.labels()),
            "metadata.annotations" => lines(self.pod.annotations()),
            "spec.nodeName" => NODE.to_owned(),
            "spec.serviceAccountName" => {
                self.pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()
            }
            "status.podIP" | "status.podIPs" => self.pod_address.to_string(),
            "status.hostIP" | "status.hostIPs" => self.node_address.to_string(),
            _ => bail!("fieldPath {path} is not known"),
        })
    }
}

/// `metadata.labels['a.b/c']` taken apart.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['")
}

/// The form that the kubelet gives to a whole map in a file.
fn lines(map: &BTreeMap<String, String>) -> String {
    let lines: Vec<String> = map.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
    lines.join("\n")
}
