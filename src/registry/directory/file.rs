//! The registries file. Pure: text in, registries out, or one clear line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use kube::core::Selector;
use serde::Deserialize;
use url::Url;

use super::choose::Scope;
use crate::registry::ApiChoice;

/// Why a registries file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(std::io::Error),
    /// It is not in the form that `docs/registries.md` shows.
    #[error("is not well-formed: {0}")]
    Malformed(serde_norway::Error),
    /// One of its registries makes no sense.
    #[error("registry `{name}`: {reason}")]
    Registry {
        /// Which one.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    registries: Vec<Entry>,
}

/// One registry as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Entry {
    name: String,
    namespace: Option<String>,
    url: Option<Url>,
    service: Option<ServiceName>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    #[serde(default)]
    api: ApiChoice,
    namespaces: Option<Namespaces>,
    default_for: Option<Namespaces>,
}

/// A Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceName {
    /// Its Namespace.
    pub(super) namespace: String,
    /// Its name.
    pub(super) name: String,
}

/// Namespaces, by name or by labels.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Namespaces {
    all: bool,
    names: BTreeSet<String>,
    match_labels: BTreeMap<String, String>,
}

/// A registry of the file, checked.
#[derive(Debug, Clone)]
pub(super) struct FileRegistry {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) place: Place,
    pub(super) token_file: Option<PathBuf>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) api: ApiChoice,
    pub(super) allowed: Scope,
    pub(super) default_for: Scope,
}

/// Where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Url(Url),
    Service(ServiceName),
}

/// Reads the file's text.
pub(super) fn read(text: &str) -> Result<Vec<FileRegistry>, FileError> {
    let file: File = serde_norway::from_str(text).map_err(FileError::Malformed)?;
    let mut seen = BTreeSet::new();
    file.registries
        .into_iter()
        .map(|entry| {
            let wrong =
                |reason: &str| FileError::Registry { name: entry.name.clone(), reason: reason.to_owned() };
            if !seen.insert((entry.namespace.clone(), entry.name.clone())) {
                return Err(wrong("is there twice"));
            }
            let place = match (entry.url, entry.service) {
                (Some(url), None) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
                    Place::Url(url)
                }
                (Some(_), None) => {
                    return Err(wrong("its url must begin with http:// or https:// and have a host"));
                }
                (None, Some(service)) => Place::Service(service),
                _ => return Err(wrong("give either url or service")),
            };
            Ok(FileRegistry {
                name: entry.name,
                namespace: entry.namespace,
                place,
                token_file: entry.token_file,
                ca_file: entry.ca_file,
                api: entry.api,
                allowed: entry.namespaces.map_or(Scope::All, Namespaces::scope),
                default_for: entry.default_for.map_or_else(Scope::none, Namespaces::scope),
            })
        })
        .collect()
}

impl Namespaces {
    fn scope(self) -> Scope {
        if self.all {
            return Scope::All;
        }
        let selector =
            (!self.match_labels.is_empty()).then(|| self.match_labels.into_iter().collect::<Selector>());
        Scope::Some { names: self.names, selector }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let registries = read(
            r"
registries:
- name: private
  namespace: vault
  url: https://registry.example.org/prefix
  tokenFile: /etc/tokens/private
  caFile: /etc/tokens/ca.crt
  api: v1
  namespaces: {names: [team-a], matchLabels: {tier: gold}}
  defaultFor: {names: [team-a]}
- name: shared
  service: {namespace: kubeflow, name: model-registry-service}
  defaultFor: {all: true}
",
        )
        .unwrap();
        let [private, shared] = registries.as_slice() else { panic!("two registries") };
        assert_eq!(private.api, ApiChoice::V1);
        assert!(
            matches!(&private.allowed, Scope::Some { names, selector: Some(_) } if names.contains("team-a"))
        );
        assert_eq!(shared.allowed, Scope::All, "who says nothing lets everybody in");
        assert_eq!(shared.default_for, Scope::All);
        let service = ServiceName { namespace: "kubeflow".into(), name: "model-registry-service".into() };
        assert_eq!(shared.place, Place::Service(service));
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused_with_the_registry_s_name() {
        for (registry, said) in [
            ("{name: a}", "registry `a`: give either url or service"),
            ("{name: a, url: 'ftp://b'}", "registry `a`: its url must begin with"),
            ("{name: a, url: 'http://b'}, {name: a, url: 'http://c'}", "registry `a`: is there twice"),
            ("{name: a, url: 'http://b', tokn: c}", "unknown field `tokn`"),
        ] {
            let error = read(&format!("registries: [{registry}]")).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
