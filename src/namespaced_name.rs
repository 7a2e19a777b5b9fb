//! The name of an object in a Namespace, as flags write it: `NAMESPACE/NAME`.

use std::fmt;
use std::str::FromStr;

use crate::dns_name::{is_label, is_subdomain};

/// An object's Namespace and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespacedName {
    /// Where it is.
    pub namespace: String,
    /// What it is called there.
    pub name: String,
}

/// Why a text names no object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write NAMESPACE/NAME, in lower case, such as kubeflow/isvc-registrar")]
pub struct NamespacedNameError;

impl NamespacedName {
    /// The name of an object that is known to exist, or to be made.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for NamespacedName {
    type Err = NamespacedNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, name) = text.split_once('/').ok_or(NamespacedNameError)?;
        if is_label(namespace) && is_subdomain(name) {
            Ok(Self::new(namespace, name))
        } else {
            Err(NamespacedNameError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_and_a_name_are_read() {
        assert_eq!("kubeflow/a.b-c".parse(), Ok(NamespacedName::new("kubeflow", "a.b-c")));
        for bad in ["", "a", "/a", "a/", "a/b/c", "A/b", "a/B", "a.b/c", "-a/b", "a/b-", "a/b..c", "a /b"] {
            assert_eq!(bad.parse::<NamespacedName>(), Err(NamespacedNameError), "{bad:?}");
        }
    }
}
