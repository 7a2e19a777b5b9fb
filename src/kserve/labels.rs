//! The keys of the labels and the annotation that this program reads, under one prefix.

use crate::dns_name::is_subdomain;

/// Prefix of Kubeflow; OpenDataHub has `modelregistry.opendatahub.io`.
pub const DEFAULT_PREFIX: &str = "modelregistry.kubeflow.org";

/// A prefix that Kubernetes would not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no label prefix: give a DNS subdomain such as {DEFAULT_PREFIX}")]
pub struct LabelPrefixError(String);

/// The keys, made once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelKeys {
    /// The registered model that is served.
    pub registered_model_id: String,
    /// Its version.
    pub model_version_id: String,
    /// The entry.
    pub inference_service_id: String,
    /// Name of the registry.
    pub name: String,
    /// Namespace of the registry.
    pub namespace: String,
    /// Annotation: URL of the registry.
    pub url: String,
    /// Label on a Namespace: the mode in it.
    pub registrar: String,
}

impl LabelKeys {
    /// The keys under a prefix.
    pub fn new(prefix: &str) -> Result<Self, LabelPrefixError> {
        if !is_subdomain(prefix) {
            return Err(LabelPrefixError(prefix.to_owned()));
        }
        let key = |name: &str| format!("{prefix}/{name}");
        Ok(Self {
            registered_model_id: key("registered-model-id"),
            model_version_id: key("model-version-id"),
            inference_service_id: key("inference-service-id"),
            name: key("name"),
            namespace: key("namespace"),
            url: key("url"),
            registrar: key("registrar"),
        })
    }
}

impl Default for LabelKeys {
    fn default() -> Self {
        Self::new(DEFAULT_PREFIX).expect("the default prefix is a DNS subdomain")
    }
}

/// The name parts, under whatever prefix, of labels worth keeping when an object is read.
const LABEL_NAMES: [&str; 5] =
    ["registered-model-id", "model-version-id", "inference-service-id", "name", "namespace"];

/// Whether a label may be one of ours under some prefix.
pub(super) fn may_be_our_label(key: &str) -> bool {
    key.split_once('/').is_some_and(|(_, name)| LABEL_NAMES.contains(&name))
}

/// Whether an annotation may be ours under some prefix.
pub(super) fn may_be_our_annotation(key: &str) -> bool {
    key.ends_with("/url")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_of_a_prefix() {
        let keys = LabelKeys::new("modelregistry.opendatahub.io").unwrap();
        assert_eq!(keys.inference_service_id, "modelregistry.opendatahub.io/inference-service-id");
        assert!(may_be_our_label(&keys.model_version_id) && may_be_our_annotation(&keys.url));
        assert!(!may_be_our_label("app.kubernetes.io/part-of"));
    }

    #[test]
    fn a_bad_prefix_is_refused() {
        for bad in ["", "Upper.example", "a/b", "-a.example", "a..b", "a_b"] {
            assert!(LabelKeys::new(bad).is_err(), "{bad:?}");
        }
    }
}
