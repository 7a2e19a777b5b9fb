//! Who an entry can belong to.

use std::fmt;
use std::sync::Arc;

/// A cluster: the UID of its Namespace `kube-system`, which no two clusters share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClusterId(Arc<str>);

/// A text that cannot name a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a cluster id must not be empty: give the UID of the cluster's Namespace kube-system")]
pub struct EmptyClusterId;

impl ClusterId {
    /// How much of the id goes into a name, in characters.
    const SHORT: usize = 8;

    /// A cluster's id.
    pub fn new(id: &str) -> Result<Self, EmptyClusterId> {
        let id = id.trim();
        if id.is_empty() { Err(EmptyClusterId) } else { Ok(Self(id.into())) }
    }

    /// The whole id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first eight characters: enough to tell apart the few clusters that share a registry.
    #[must_use]
    pub fn short(&self) -> &str {
        let end = self.0.char_indices().nth(Self::SHORT).map_or(self.0.len(), |(at, _)| at);
        &self.0[..end]
    }
}

impl std::str::FromStr for ClusterId {
    type Err = EmptyClusterId;

    fn from_str(id: &str) -> Result<Self, EmptyClusterId> {
        Self::new(id)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// An InferenceService by its place: the same name deleted and created again is the same place.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ObjectName {
    /// Its Namespace, which is also the name of its serving environment.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectName {
    /// A place.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_short_in_names_and_never_empty() {
        assert_eq!(ClusterId::new("0f6b7c1e-1d5c-4a4e").unwrap().short(), "0f6b7c1e");
        assert_eq!(ClusterId::new("edge").unwrap().short(), "edge");
        assert!(ClusterId::new(" ").is_err());
    }
}
