//! The table "Which registry", row by row. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Selector as LabelSelector, SelectorExt};
use url::Url;

use crate::registry::RegistryClient;

/// The configured registries.
#[derive(Debug, Clone, Default)]
pub struct Configured {
    /// All of them: those of the file, that of the flags, then those of Services.
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
    /// Where it comes from.
    pub source: Source,
    /// Which Namespaces may use it.
    pub allowed: Scope,
    /// For which Namespaces it is the default.
    pub default_for: Scope,
    /// The way to it; none for a Service of the file that is not there. Its objects wait for it: another registry
    /// would take them in under ids that mean something else.
    pub way: Option<Way>,
}

/// The way to a registry.
#[derive(Debug, Clone)]
pub struct Way {
    /// Its URL.
    pub url: Url,
    /// Who asks it.
    pub client: RegistryClient,
}

/// Where a configured registry comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The registries file.
    File,
    /// `--registry-url`: the default of every Namespace that the file gives none.
    Flags,
    /// A labelled Service.
    Service,
}

/// A set of Namespaces.
#[derive(Debug, Clone, PartialEq)]
pub enum Scope {
    /// Every one.
    All,
    /// These.
    Some {
        /// By name.
        names: BTreeSet<String>,
        /// By their labels.
        selector: Option<LabelSelector>,
    },
}

impl Scope {
    /// No Namespace.
    #[must_use]
    pub fn none() -> Self {
        Self::Some { names: BTreeSet::new(), selector: None }
    }

    /// Whether a Namespace is among them; `None` when that hangs on labels which are not known yet.
    fn holds(&self, namespace: &NamespaceView<'_>) -> Option<bool> {
        match self {
            Self::All => Some(true),
            Self::Some { names, .. } if names.contains(namespace.name) => Some(true),
            Self::Some { selector: None, .. } => Some(false),
            Self::Some { selector: Some(selector), .. } => {
                namespace.labels.map(|labels| selector.matches(labels))
            }
        }
    }
}

/// A Namespace, as far as a choice depends on it.
#[derive(Debug, Clone, Copy)]
pub struct NamespaceView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels; `None` while they are not known.
    pub labels: Option<&'a BTreeMap<String, String>>,
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
    /// The object's Namespace may not use it.
    #[error("registry {registry} may not be used in Namespace {namespace}")]
    NotAllowed {
        /// Which one.
        registry: String,
        /// The object's Namespace.
        namespace: String,
    },
    /// Several, and the object names none.
    #[error("several registries are configured ({0}) and none is named")]
    Several(String),
    /// The file names its Service, and there is none.
    #[error("registry {0} has no Service")]
    NoService(String),
    /// No registry is configured, or no Service was found.
    #[error("no registry is configured and no Service of one was found")]
    NoneFound,
    /// The Services, or the labels of the Namespace, are not yet known.
    #[error("the registries are not known yet")]
    NotYetKnown,
}

impl ChoiceError {
    /// Whether asking again later may help: the others are the object's own fault.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::NoService(_) | Self::NoneFound | Self::NotYetKnown)
    }
}

/// The registry that an object means.
pub fn choose(
    configured: &Configured,
    namespace: &NamespaceView<'_>,
    selector: &Selector<'_>,
) -> Result<RegistryClient, ChoiceError> {
    let found = named(configured, namespace, selector)?.map_or_else(|| default(configured, namespace), Ok)?;
    match found.allowed.holds(namespace) {
        Some(true) => match &found.way {
            Some(way) => Ok(way.client.clone()),
            None if configured.complete => Err(ChoiceError::NoService(found.name.clone())),
            None => Err(ChoiceError::NotYetKnown),
        },
        Some(false) => Err(ChoiceError::NotAllowed {
            registry: found.name.clone(),
            namespace: namespace.name.to_owned(),
        }),
        None => Err(ChoiceError::NotYetKnown),
    }
}

/// Rows 1 and 2: the registry that the object names; `None` when it names none.
fn named<'a>(
    configured: &'a Configured,
    namespace: &NamespaceView<'_>,
    selector: &Selector<'_>,
) -> Result<Option<&'a Registry>, ChoiceError> {
    let mut registries = configured.registries.iter();
    let unknown = |error| if configured.complete { error } else { ChoiceError::NotYetKnown };
    // Row 1: annotation `/url`.
    if let Some(wanted) = selector.url {
        let wanted = Url::parse(wanted).map_err(|_| ChoiceError::NoSuchUrl)?;
        let is_there =
            |registry: &&Registry| registry.way.as_ref().is_some_and(|way| same_place(&wanted, &way.url));
        let there: Vec<_> = registries.filter(is_there).collect();
        // Two may be at one place, with other tokens, for other Namespaces.
        let usable = there.iter().find(|registry| registry.allowed.holds(namespace) != Some(false));
        let found = usable.or(there.first()).copied();
        return found.map(Some).ok_or_else(|| unknown(ChoiceError::NoSuchUrl));
    }
    // Row 2: label `/name`, with or without `/namespace`.
    let Some(name) = selector.name else { return Ok(None) };
    let namespace = selector.namespace.unwrap_or(&configured.registry_namespace);
    let is_it = |registry: &&Registry| {
        // One that is known by its URL alone has no namespace, so only its name can be given.
        let in_namespace =
            registry.namespace.as_deref().map_or(selector.namespace.is_none(), |its| its == namespace);
        registry.name == name && in_namespace
    };
    let called =
        || selector.namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    registries.find(is_it).map(Some).ok_or_else(|| unknown(ChoiceError::NoSuchName(called())))
}

/// Row 3: the default of the Namespace in the file, else the URL of the flags, else the only Service.
fn default<'a>(
    configured: &'a Configured,
    namespace: &NamespaceView<'_>,
) -> Result<&'a Registry, ChoiceError> {
    for registry in configured.registries.iter().filter(|registry| registry.source == Source::File) {
        match registry.default_for.holds(namespace) {
            Some(true) => return Ok(registry),
            Some(false) => {}
            None => return Err(ChoiceError::NotYetKnown),
        }
    }
    let of = |source| configured.registries.iter().filter(move |registry| registry.source == source);
    if let Some(registry) = of(Source::Flags).next() {
        return Ok(registry);
    }
    if !configured.complete {
        return Err(ChoiceError::NotYetKnown);
    }
    let services: Vec<&Registry> = of(Source::Service).collect();
    match services.as_slice() {
        [] => Err(ChoiceError::NoneFound),
        [only] => Ok(only),
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
        && left.query().is_none()
        && left.username().is_empty()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::*;
    use crate::registry::{ApiChoice, ClientSettings};

    /// A registry that messages call `<namespace>/<name>`, or by its name alone.
    fn registry(name: &str, namespace: Option<&str>, url: &str, source: Source) -> Registry {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = Url::parse(url).unwrap();
        let client = RegistryClient::new(ClientSettings {
            name: name.to_owned(),
            url: url.clone(),
            address: None,
            api: ApiChoice::Auto,
            token_file: None,
            ca_file: None,
            timeout: Duration::from_secs(1),
            metrics: crate::metrics::RegistryMetrics::default(),
        });
        Registry {
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
            source,
            allowed: Scope::All,
            default_for: Scope::none(),
            way: Some(Way { url, client }),
        }
    }

    fn names(names: &[&str]) -> Scope {
        Scope::Some { names: names.iter().map(|name| (*name).to_owned()).collect(), selector: None }
    }

    fn gold() -> Scope {
        let selector = LabelSelector::from_iter([("tier".to_owned(), "gold".to_owned())]);
        Scope::Some { names: BTreeSet::new(), selector: Some(selector) }
    }

    fn configured(registries: Vec<Registry>) -> Configured {
        Configured { registries, registry_namespace: "kubeflow".into(), complete: true }
    }

    /// Two Services, the URL of the flags, and one of the file that only Namespace `team-b` may use.
    fn all_kinds() -> Configured {
        let mut of_file =
            registry("private", Some("vault"), "https://private.vault.svc/prefix", Source::File);
        of_file.allowed = names(&["team-b"]);
        of_file.default_for = names(&["team-b"]);
        configured(vec![
            of_file,
            registry("flags", None, "http://flags:8080", Source::Flags),
            registry("one", Some("kubeflow"), "http://one.kubeflow.svc:8080", Source::Service),
            registry("two", Some("other"), "http://two.other.svc:8080", Source::Service),
        ])
    }

    fn chosen(configured: &Configured, namespace: &str, selector: &Selector<'_>) -> String {
        let labels = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
        let namespace =
            NamespaceView { name: namespace, labels: (namespace != "unknown").then_some(&labels) };
        match choose(configured, &namespace, selector) {
            Ok(client) => client.name().to_owned(),
            Err(error) => error.to_string(),
        }
    }

    const NO_URL: &str = "no configured registry has the URL in annotation";
    const PRIVATE: &str = "registry private may not be used in Namespace team-a";

    #[rstest]
    // 1: annotation /url
    #[case::url("http://one.kubeflow.svc:8080", "one")]
    #[case::slash("http://one.kubeflow.svc:8080/", "one")]
    #[case::case_of_the_host("http://ONE.kubeflow.svc:8080", "one")]
    #[case::other_scheme("https://one.kubeflow.svc:8080", NO_URL)]
    #[case::other_port("http://one.kubeflow.svc", NO_URL)]
    #[case::other_path("http://one.kubeflow.svc:8080/a", NO_URL)]
    #[case::a_user("http://u@one.kubeflow.svc:8080", NO_URL)]
    #[case::a_query("http://one.kubeflow.svc:8080/?a=b", NO_URL)]
    #[case::stranger("http://evil.example", NO_URL)]
    #[case::no_url("one", NO_URL)]
    #[case::empty("", NO_URL)]
    #[case::not_for_this_namespace("https://private.vault.svc:443/prefix", PRIVATE)]
    fn row_1_the_annotation_names_one_of_the_configured(#[case] url: &str, #[case] want: &str) {
        // The labels count for nothing beside it.
        let selector = Selector { url: Some(url), name: Some("two"), namespace: Some("other") };
        assert_eq!(chosen(&all_kinds(), "team-a", &selector), want);
    }

    #[rstest]
    // 2: label /name, with or without /namespace
    #[case::name("one", None, "one")]
    #[case::of_the_flags("flags", None, "flags")]
    #[case::of_the_flags_in_a_namespace(
        "flags",
        Some("kubeflow"),
        "no configured registry is called kubeflow/flags"
    )]
    #[case::name_in_another_namespace("two", None, "no configured registry is called two")]
    #[case::name_and_namespace("two", Some("other"), "two")]
    #[case::wrong_namespace("one", Some("other"), "no configured registry is called other/one")]
    #[case::stranger("three", None, "no configured registry is called three")]
    #[case::not_for_this_namespace("private", Some("vault"), PRIVATE)]
    fn row_2_the_label_names_one(#[case] name: &str, #[case] namespace: Option<&str>, #[case] want: &str) {
        let selector = Selector { url: None, name: Some(name), namespace };
        assert_eq!(chosen(&all_kinds(), "team-a", &selector), want);
    }

    #[test]
    fn row_3_the_default() {
        let nothing = Selector::default();
        assert_eq!(
            chosen(&all_kinds(), "team-b", &nothing),
            "private",
            "the default of its Namespace in the file"
        );
        assert_eq!(chosen(&all_kinds(), "team-a", &nothing), "flags", "else the URL of the flags");
        let mut services = all_kinds();
        services.registries.retain(|registry| registry.source != Source::Flags);
        let several = "several registries are configured (one, two) and none is named";
        assert_eq!(chosen(&services, "team-a", &nothing), several);
        services.registries.retain(|registry| registry.name != "two");
        assert_eq!(chosen(&services, "team-a", &nothing), "one", "else the only Service");
        services.registries.clear();
        assert_eq!(chosen(&services, "team-a", &nothing), ChoiceError::NoneFound.to_string());
    }

    #[test]
    fn a_registry_of_the_file_whose_service_is_gone_is_replaced_by_no_other() {
        let mut configured = all_kinds();
        configured.registries[0].way = None;
        let gone = "registry private has no Service";
        assert_eq!(chosen(&configured, "team-b", &Selector::default()), gone, "not by that of the flags");
        let named = Selector { name: Some("private"), namespace: Some("vault"), url: None };
        assert_eq!(chosen(&configured, "team-b", &named), gone);
        assert_eq!(chosen(&configured, "team-a", &named), PRIVATE);
        configured.complete = false;
        assert_eq!(chosen(&configured, "team-b", &named), ChoiceError::NotYetKnown.to_string());
        assert!(ChoiceError::NoService(String::new()).is_unavailable(), "it may come back");
    }

    #[test]
    fn nothing_is_said_to_be_missing_before_all_is_known() {
        let mut early = all_kinds();
        early.complete = false;
        let not_yet = ChoiceError::NotYetKnown.to_string();
        assert_eq!(
            chosen(&early, "team-a", &Selector { name: Some("three"), ..Selector::default() }),
            not_yet
        );
        assert_eq!(
            chosen(&early, "team-a", &Selector { url: Some("http://x"), ..Selector::default() }),
            not_yet
        );
        assert_eq!(chosen(&early, "team-a", &Selector::default()), "flags", "the flags need no watch");
        early.registries.retain(|registry| registry.source == Source::Service);
        assert_eq!(
            chosen(&early, "team-a", &Selector::default()),
            not_yet,
            "one Service may not stay the only one"
        );
    }

    #[test]
    fn a_namespace_is_chosen_by_its_labels() {
        let mut of_file = registry("gold", None, "http://gold", Source::File);
        of_file.allowed = gold();
        of_file.default_for = gold();
        let configured = configured(vec![of_file]);
        assert_eq!(chosen(&configured, "team-a", &Selector::default()), "gold");
        let not_yet = ChoiceError::NotYetKnown.to_string();
        assert_eq!(chosen(&configured, "unknown", &Selector::default()), not_yet, "its labels are not known");
    }
}
