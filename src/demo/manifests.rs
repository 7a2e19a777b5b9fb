//! Manifests as `kubectl apply -f` takes them: several documents in a file, and lists.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::kserve::{GROUP, KIND, VERSION};

/// The Namespace of an object that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// The samples that are applied when no manifest is given.
const SAMPLES: [(&str, &str); 3] = [
    ("registered.yaml", include_str!("samples/registered.yaml")),
    ("without-a-label.yaml", include_str!("samples/without-a-label.yaml")),
    ("unknown-model.yaml", include_str!("samples/unknown-model.yaml")),
];

/// Why a manifest cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum ManifestError {
    /// It cannot be read.
    #[error("{path} cannot be read: {cause}", path = path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// It is not YAML.
    #[error("{path} is not well-formed: {cause}", path = path.display())]
    Malformed {
        /// Which one.
        path: PathBuf,
        /// Why.
        cause: serde_norway::Error,
    },
}

/// Objects of one file.
pub(super) struct Manifest {
    /// What it is called.
    pub(super) name: String,
    /// Its InferenceServices, each with a Namespace.
    pub(super) objects: Vec<Value>,
    /// Objects of other kinds, by kind: they have nothing to do with this program.
    pub(super) others: Vec<String>,
}

/// The samples.
pub(super) fn samples() -> Result<Vec<Manifest>, ManifestError> {
    SAMPLES.iter().map(|(name, text)| parse(Path::new(name), text)).collect()
}

/// Reads the files.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Manifest>, ManifestError> {
    let read = |path: &PathBuf| {
        let unreadable = |cause| ManifestError::Unreadable { path: path.clone(), cause };
        parse(path, &std::fs::read_to_string(path).map_err(unreadable)?)
    };
    paths.iter().map(read).collect()
}

fn parse(path: &Path, text: &str) -> Result<Manifest, ManifestError> {
    let mut manifest = Manifest { name: path.display().to_string(), objects: Vec::new(), others: Vec::new() };
    // Some editors begin a file with a byte order mark, which kubectl passes over too.
    for document in serde_norway::Deserializer::from_str(text.trim_start_matches('\u{feff}')) {
        let malformed = |cause| ManifestError::Malformed { path: path.to_owned(), cause };
        manifest.take(Value::deserialize(document).map_err(malformed)?);
    }
    Ok(manifest)
}

impl Manifest {
    fn take(&mut self, mut object: Value) {
        if object.is_null() {
            return;
        }
        if let Some(Value::Array(items)) = object.get_mut("items").map(Value::take) {
            for item in items {
                self.take(item);
            }
            return;
        }
        let kind = object["kind"].as_str().unwrap_or("an object without kind").to_owned();
        if kind != KIND || object["apiVersion"] != format!("{GROUP}/{VERSION}") {
            self.others.push(kind);
            return;
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.entry("namespace").or_insert_with(|| DEFAULT_NAMESPACE.into());
        }
        self.objects.push(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_lists_and_other_kinds_are_read() {
        let text = "
apiVersion: v1
kind: List
items:
- {apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, metadata: {name: a}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
---
# nothing
---
{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, metadata: {name: c, namespace: d}}
";
        let manifest = parse(Path::new("a.yaml"), text).unwrap();
        let places: Vec<_> = manifest
            .objects
            .iter()
            .map(|object| (&object["metadata"]["namespace"], &object["metadata"]["name"]))
            .collect();
        assert_eq!(
            places,
            [(&Value::from("default"), &Value::from("a")), (&Value::from("d"), &Value::from("c"))]
        );
        assert_eq!(manifest.others, ["ConfigMap"]);
    }

    #[test]
    fn the_samples_are_manifests() {
        assert!(
            samples().unwrap().iter().all(|sample| sample.objects.len() == 1 && sample.others.is_empty())
        );
    }
}
