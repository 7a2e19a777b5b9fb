//! Which program an image name stands for: no image is ever pulled.
//!
//! In: names that the tests give to programs. Out: the program that a Pod's `image` means. What stays true: a name
//! that nobody gave is an image that cannot be pulled, as it would be in a cluster.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The user that images run as when the Pod names none: `nonroot` of the distroless images.
const NONROOT: i64 = 65532;

/// What an image would hold: its entrypoint and its user.
#[derive(Debug, Clone)]
pub struct Image {
    /// The program on this machine; it is all that the container sees beside the system's libraries.
    pub program: PathBuf,
    /// Arguments that come before those of the Pod.
    pub arguments: Vec<String>,
    /// Who it runs as when the Pod's securityContext does not say.
    pub user: i64,
}

impl Image {
    /// An image whose entrypoint is this program.
    pub fn of(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), arguments: Vec::new(), user: NONROOT }
    }

    /// The same with arguments that come before those of the Pod.
    #[must_use]
    pub fn with_arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments = arguments.iter().map(ToString::to_string).collect();
        self
    }
}

/// The images of one cluster.
#[derive(Debug, Default)]
pub struct Images {
    by_name: Mutex<HashMap<String, Image>>,
}

impl Images {
    /// Makes `name` stand for an image: `repository:tag`, or a repository alone for all its tags and digests.
    pub fn insert(&self, name: &str, image: Image) {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), image);
    }

    /// What a Pod's `image` stands for: the exact name, else its repository, else the last part of the repository
    /// (`registry.example.com/team/isvc-registrar` is found as `isvc-registrar`).
    pub(crate) fn find(&self, reference: &str) -> Option<Image> {
        let repository = repository(reference);
        let last = repository.rsplit('/').next().unwrap_or(repository);
        let exact = format!("{last}{}", &reference[repository.len()..]);
        let by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        [reference, &exact, repository, last].iter().find_map(|name| by_name.get(*name)).cloned()
    }
}

/// An image reference without tag and digest. A colon before the last slash belongs to a port.
fn repository(reference: &str) -> &str {
    let name = reference.split('@').next().unwrap_or(reference);
    let path = name.rfind('/').map_or(0, |slash| slash + 1);
    name[path..].find(':').map_or(name, |colon| &name[..path + colon])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_of_its_own_comes_before_its_repository() {
        let images = Images::default();
        images.insert("isvc-registrar", Image::of("/any"));
        images.insert("isvc-registrar:next", Image::of("/next"));
        let program = |reference| images.find(reference).map(|image| image.program.display().to_string());

        assert_eq!(program("isvc-registrar:next").as_deref(), Some("/next"));
        assert_eq!(program("localhost:5000/team/isvc-registrar:next").as_deref(), Some("/next"));
        assert_eq!(program("localhost:5000/team/isvc-registrar:1.0").as_deref(), Some("/any"));
        assert_eq!(program("isvc-registrar@sha256:00").as_deref(), Some("/any"));
        assert_eq!(program("nginx:next"), None);
    }
}
