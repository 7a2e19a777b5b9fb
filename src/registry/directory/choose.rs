//! The table "Which registry", row by row. Pure.

use url::Url;

use crate::registry::RegistryClient;

/// The configured registries.
#[derive(Debug, Clone, Default)]
pub struct Configured {
    /// All of them, in the order of their configuration.
    pub registries: Vec<Registry>,
    /// Where a registry named without a namespace is looked for.
    pub registry_namespace: String,
    /// Whether these are all: not so before the first list of Services has come.
    pub complete: bool,
}

/// One of them.
#[derive(Debug, Clone)]
pub struct Registry {
    /// Its name.
    pub name: String,
    /// Its namespace; none for one that is known by its URL alone.
    pub namespace: Option<String>,
    /// Its URL.
    pub url: Url,
    /// Where it comes from: the flags' own is the default of all Namespaces.
    pub source: Source,
    /// The way to it.
    pub client: RegistryClient,
}

/// Where a configured registry comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `--registry-url`.
    Flags,
    /// A labelled Service.
    Service,
}

/// What an object says of its registry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Selector<'a> {
    /// Annotation `/url`.
    pub url: Option<&'a str>,
    /// Label `/name`.
    pub name: Option<&'a str>,
    /// Label `/namespace`.
    pub namespace: Option<&'a str>,
}

/// Why an object has no registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// The annotation names none of the configured ones.
    #[error("no configured registry has the URL in annotation")]
    NoSuchUrl,
    /// The label names none of the configured ones.
    #[error("no configured registry is called {0}")]
    NoSuchName(String),
    /// Several, and the object names none.
    #[error("several registries are configured ({0}) and none is named")]
    Several(String),
    /// No registry is configured, or no Service was found.
    #[error("no registry is configured and no Service of one was found")]
    NoneFound,
    /// The Services are not yet known.
    #[error("the registries are not known yet")]
    NotYetKnown,
}

impl ChoiceError {
    /// Whether asking again later may help: the others are the object's own fault.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::NoneFound | Self::NotYetKnown)
    }
}

impl Configured {
    /// One registry, for every Namespace.
    #[must_use]
    pub fn of_one(client: RegistryClient, url: Url) -> Self {
        let registry =
            Registry { name: client.name().to_owned(), namespace: None, url, source: Source::Flags, client };
        Self { registries: vec![registry], registry_namespace: String::new(), complete: true }
    }
}

/// The registry that an object means.
pub fn choose(
    configured: &Configured,
    _namespace: &str,
    selector: &Selector<'_>,
) -> Result<RegistryClient, ChoiceError> {
    let registries = &configured.registries;
    let unknown = |error| {
        if configured.complete { error } else { ChoiceError::NotYetKnown }
    };
    // Row 1: the annotation names one by its URL.
    if let Some(wanted) = selector.url {
        let wanted = Url::parse(wanted).ok();
        let found = registries
            .iter()
            .find(|registry| wanted.as_ref().is_some_and(|url| same_place(url, &registry.url)));
        return found.map(|registry| registry.client.clone()).ok_or_else(|| unknown(ChoiceError::NoSuchUrl));
    }
    // Row 2: the labels name one, in a namespace or in the first registry namespace.
    if let Some(name) = selector.name {
        let namespace = selector.namespace.unwrap_or(&configured.registry_namespace);
        let found = registries.iter().find(|registry| {
            registry.name == name && registry.namespace.as_deref().unwrap_or(namespace) == namespace
        });
        return found
            .map(|registry| registry.client.clone())
            .ok_or_else(|| unknown(ChoiceError::NoSuchName(format!("{namespace}/{name}"))));
    }
    // Row 3: the URL of the flags, else the only Service.
    if let Some(registry) = registries.iter().find(|registry| registry.source == Source::Flags) {
        return Ok(registry.client.clone());
    }
    match registries.as_slice() {
        _ if !configured.complete => Err(ChoiceError::NotYetKnown),
        [] => Err(ChoiceError::NoneFound),
        [only] => Ok(only.client.clone()),
        several => {
            let names: Vec<&str> = several.iter().map(|registry| registry.name.as_str()).collect();
            Err(ChoiceError::Several(names.join(", ")))
        }
    }
}

/// Scheme, host, port and path are equal; a slash at the end does not matter.
fn same_place(left: &Url, right: &Url) -> bool {
    left.scheme() == right.scheme()
        && left.host() == right.host()
        && left.port_or_known_default() == right.port_or_known_default()
        && left.path().trim_end_matches('/') == right.path().trim_end_matches('/')
}
