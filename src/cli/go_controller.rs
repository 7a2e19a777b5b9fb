//! The environment variables of the Go controller that this program succeeds, so that its manifests can stay.
//!
//! Goes in: the environment. Comes out: what it sets here, or one line that says what cannot be taken over. A flag,
//! or a variable of this program's own, counts more.

use crate::kserve::LabelKeys;
use crate::registry::directory::EXTERNAL_ADDRESS;

use super::Usage;

/// Its variables for labels, each with what this program calls the label.
const LABELS: [(&str, &str); 6] = [
    ("NAMESPACE_LABEL", "namespace"),
    ("NAME_LABEL", "name"),
    ("URL_ANNOTATION", "url"),
    ("INFERENCE_SERVICE_ID_LABEL", "inference-service-id"),
    ("MODEL_VERSION_ID_LABEL", "model-version-id"),
    ("REGISTERED_MODEL_ID_LABEL", "registered-model-id"),
];

/// The finalizer that it put on objects.
const FINALIZER: &str = "FINALIZER";
/// Where it looked for registries.
const REGISTRIES_NAMESPACE: &str = "REGISTRIES_NAMESPACE";
/// The annotation of a Service that holds an address outside the cluster.
const SERVICE_ANNOTATION: &str = "SERVICE_ANNOTATION";
/// Whether it took any certificate.
const SKIP_TLS_VERIFY: &str = "SKIP_TLS_VERIFY";

/// What its variables set.
#[derive(Debug, Default, PartialEq)]
pub(super) struct GoController {
    /// The labels' keys.
    pub(super) keys: Option<LabelKeys>,
    /// The finalizer to release.
    pub(super) finalizer: Option<String>,
    /// Where registries are looked for.
    pub(super) registries_namespace: Option<String>,
}

impl GoController {
    /// Reads the process's environment.
    pub(super) fn from_environment() -> Result<Self, Usage> {
        Self::read(|name| std::env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Usage> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        // As Go's strconv.ParseBool reads it.
        let is_true = |value: &String| matches!(value.as_str(), "1" | "t" | "T" | "true" | "True" | "TRUE");
        if variable(SKIP_TLS_VERIFY).is_some_and(|value| is_true(&value)) {
            return Err(Usage(format!(
                "{SKIP_TLS_VERIFY}=true is not taken over: trust the registry's CA with --registry-ca-file, or unset it"
            )));
        }
        if let Some(key) =
            variable(SERVICE_ANNOTATION).filter(|key| !EXTERNAL_ADDRESS.contains(&key.as_str()))
        {
            return Err(Usage(format!(
                "{SERVICE_ANNOTATION}={key} is not taken over: this program reads {}",
                EXTERNAL_ADDRESS.join(" and ")
            )));
        }
        let mut prefix: Option<(String, &str)> = None;
        for (name, label) in LABELS {
            let Some(key) = variable(name) else { continue };
            let its = key.strip_suffix(label).and_then(|rest| rest.strip_suffix('/'));
            let Some(its) = its else {
                return Err(Usage(format!(
                    "{name}={key} cannot be taken over: this program calls it PREFIX/{label}"
                )));
            };
            match &prefix {
                Some((known, from)) if known != its => {
                    return Err(Usage(format!(
                        "{name} and {from} have different prefixes: use one for all labels"
                    )));
                }
                _ => prefix = Some((its.to_owned(), name)),
            }
        }
        let keys = prefix.map(|(prefix, name)| {
            LabelKeys::new(&prefix).map_err(|error| Usage(format!("{name} cannot be taken over: {error}")))
        });
        Ok(Self {
            keys: keys.transpose()?,
            finalizer: variable(FINALIZER),
            registries_namespace: variable(REGISTRIES_NAMESPACE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<GoController, String> {
        let find =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        GoController::read(find).map_err(|error| error.to_string())
    }

    #[test]
    fn its_manifests_variables_are_understood() {
        let prefix = "modelregistry.opendatahub.io";
        let labels = LABELS.map(|(name, label)| (name, format!("{prefix}/{label}")));
        let mut variables: Vec<(&str, &str)> =
            labels.iter().map(|(name, key)| (*name, key.as_str())).collect();
        variables.extend([
            ("FINALIZER", "modelregistry.opendatahub.io/finalizer"),
            ("REGISTRIES_NAMESPACE", "odh-model-registries"),
            ("SKIP_TLS_VERIFY", "false"),
            ("SERVICE_ANNOTATION", "routing.opendatahub.io/external-address-rest"),
        ]);
        let read = read(&variables).unwrap();
        assert_eq!(read.keys, LabelKeys::new(prefix).ok());
        assert_eq!(read.finalizer.as_deref(), Some("modelregistry.opendatahub.io/finalizer"));
        assert_eq!(read.registries_namespace.as_deref(), Some("odh-model-registries"));
    }

    #[test]
    fn what_cannot_be_taken_over_is_refused() {
        for (variables, said) in [
            (&[("SKIP_TLS_VERIFY", "true")][..], "--registry-ca-file"),
            (&[("SKIP_TLS_VERIFY", "1")], "--registry-ca-file"),
            (&[("SERVICE_ANNOTATION", "a.example/address")], "routing.kubeflow.org/external-address-rest"),
            (
                &[("NAME_LABEL", "a.example/name"), ("NAMESPACE_LABEL", "b.example/namespace")],
                "different prefixes",
            ),
            (&[("NAME_LABEL", "a.example/registry")], "PREFIX/name"),
            (&[("NAME_LABEL", "A/name")], "is no label prefix"),
        ] {
            let error = read(variables).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn an_environment_without_them_sets_nothing() {
        assert_eq!(read(&[("NAME_LABEL", "")]), Ok(GoController::default()));
    }
}
