//! From the three sources (file, flags, Services) to the configured registries. No I/O.
//!
//! What stays true: a registry whose settings have not changed keeps its client, with its connections and what is
//! known of its API version; the order is that of the file, then the flags, then Services by name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::choose::{Configured, Registry, Scope, Source, Way};
use super::file::{FileRegistry, Place, ServiceName};
use super::service::Address;
use crate::metrics::RegistryMetrics;
use crate::registry::{ApiChoice, ClientSettings, RegistryClient};

/// What holds for every registry that says nothing else of its own.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// File with the bearer token.
    pub token_file: Option<PathBuf>,
    /// File with the CAs to trust.
    pub ca_file: Option<PathBuf>,
    /// The API version.
    pub api: ApiChoice,
    /// Limit of each call.
    pub timeout: Duration,
    /// Where calls are counted.
    pub metrics: RegistryMetrics,
}

/// All that is known of registries.
#[derive(Debug)]
pub(super) struct Sources {
    defaults: Defaults,
    flags: Option<(String, Url)>,
    registry_namespaces: Vec<String>,
    file: Vec<FileRegistry>,
    services: BTreeMap<ServiceName, Address>,
    /// Namespaces of which the first list of Services has come.
    listed: BTreeSet<String>,
    clients: BTreeMap<Reach, RegistryClient>,
}

/// How a registry is reached: all that a client is made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Reach {
    name: String,
    url: Url,
    address: Option<SocketAddr>,
    api: ApiChoice,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
}

impl Sources {
    pub(super) fn new(
        defaults: Defaults,
        flags: Option<(String, Url)>,
        registry_namespaces: Vec<String>,
    ) -> Self {
        Self {
            defaults,
            flags,
            registry_namespaces,
            file: Vec::new(),
            services: BTreeMap::new(),
            listed: BTreeSet::new(),
            clients: BTreeMap::new(),
        }
    }

    pub(super) fn set_file(&mut self, file: Vec<FileRegistry>) {
        self.file = file;
    }

    /// Notes a Service, or that it is gone or has no address.
    pub(super) fn set_service(&mut self, service: ServiceName, address: Option<Address>) {
        match address {
            Some(address) => self.services.insert(service, address),
            None => self.services.remove(&service),
        };
    }

    /// Replaces all Services of a namespace by a complete list.
    pub(super) fn set_listed(&mut self, namespace: &str, services: Vec<(ServiceName, Address)>) {
        self.services.retain(|service, _| service.namespace != namespace);
        self.services.extend(services);
        self.listed.insert(namespace.to_owned());
    }

    /// The registries as they are now.
    pub(super) fn configured(&mut self) -> Configured {
        let file = std::mem::take(&mut self.file);
        let mut of_file = BTreeSet::new();
        let mut registries = Vec::new();
        let mut reaches = BTreeSet::new();
        for registry in &file {
            let address = match &registry.place {
                Place::Url(url) => Some(Address { url: url.clone(), socket: None }),
                Place::Service(service) => {
                    of_file.insert(service.clone());
                    self.services.get(service).cloned()
                }
            };
            let reach = address.map(|Address { url, socket }| Reach {
                name: registry.name.clone(),
                url,
                address: socket,
                api: registry.api,
                token_file: registry.token_file.clone().or_else(|| self.defaults.token_file.clone()),
                ca_file: registry.ca_file.clone().or_else(|| self.defaults.ca_file.clone()),
            });
            registries.push(Registry {
                name: registry.name.clone(),
                namespace: registry.namespace.clone(),
                source: Source::File,
                allowed: registry.allowed.clone(),
                default_for: registry.default_for.clone(),
                way: reach.as_ref().map(|reach| self.way(reach)),
            });
            reaches.extend(reach);
        }
        let mut add = |sources: &mut Self, reach: Reach, namespace, source| {
            registries.push(Registry {
                name: reach.name.clone(),
                namespace,
                source,
                allowed: Scope::All,
                default_for: Scope::none(),
                way: Some(sources.way(&reach)),
            });
            reaches.insert(reach);
        };
        if let Some((name, url)) = self.flags.clone() {
            let reach = self.reach(name, Address { url, socket: None });
            add(self, reach, None, Source::Flags);
        }
        for (service, address) in self.services.clone() {
            // One that the file names is what the file says of it, for those Namespaces alone.
            if of_file.contains(&service) || !self.registry_namespaces.contains(&service.namespace) {
                continue;
            }
            let reach = self.reach(service.name, address);
            add(self, reach, Some(service.namespace), Source::Service);
        }
        self.clients.retain(|reach, _| reaches.contains(reach));
        self.file = file;
        Configured {
            registries,
            registry_namespace: self.registry_namespaces.first().cloned().unwrap_or_default(),
            complete: self.namespaces_to_watch().iter().all(|namespace| self.listed.contains(namespace)),
        }
    }

    /// The namespaces whose Services have to be known.
    pub(super) fn namespaces_to_watch(&self) -> BTreeSet<String> {
        self.registry_namespaces.iter().cloned().collect()
    }

    fn reach(&self, name: String, address: Address) -> Reach {
        Reach {
            name,
            url: address.url,
            address: address.socket,
            api: self.defaults.api,
            token_file: self.defaults.token_file.clone(),
            ca_file: self.defaults.ca_file.clone(),
        }
    }

    fn way(&mut self, reach: &Reach) -> Way {
        let make = || {
            RegistryClient::new(ClientSettings {
                name: reach.name.clone(),
                url: reach.url.clone(),
                address: reach.address,
                api: reach.api,
                token_file: reach.token_file.clone(),
                ca_file: reach.ca_file.clone(),
                timeout: self.defaults.timeout,
                metrics: self.defaults.metrics.clone(),
            })
        };
        let client = self.clients.entry(reach.clone()).or_insert_with(make).clone();
        Way { url: reach.url.clone(), client }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn sources(flags: Option<&str>) -> Sources {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let defaults = Defaults {
            token_file: None,
            ca_file: None,
            api: ApiChoice::Auto,
            timeout: Duration::from_secs(1),
            metrics: RegistryMetrics::default(),
        };
        let flags = flags.map(|url| ("flags".to_owned(), Url::parse(url).unwrap()));
        Sources::new(defaults, flags, vec!["kubeflow".into(), "other".into()])
    }

    fn service(name: &str, namespace: &str) -> (ServiceName, Address) {
        let url = Url::parse(&format!("http://{name}.{namespace}.svc:8080")).unwrap();
        let name = ServiceName { namespace: namespace.into(), name: name.into() };
        (name, Address { url, socket: "127.0.0.1:8080".parse().ok() })
    }

    /// The names of those that can be reached.
    fn names(configured: &Configured) -> Vec<&str> {
        let reachable = configured.registries.iter().filter(|registry| registry.way.is_some());
        reachable.map(|registry| registry.name.as_str()).collect()
    }

    fn id(configured: &Configured) -> u64 {
        configured.registries[0].way.as_ref().unwrap().client.id()
    }

    #[test]
    fn all_is_known_when_every_namespace_has_been_listed() {
        let mut sources = sources(None);
        sources.set_listed("kubeflow", vec![service("one", "kubeflow")]);
        assert!(!sources.configured().complete);
        sources.set_listed("other", vec![]);
        let configured = sources.configured();
        assert!(configured.complete);
        assert_eq!(names(&configured), ["one"]);
    }

    #[test]
    fn a_registry_that_stays_as_it_is_keeps_its_client() {
        let mut sources = sources(None);
        sources.set_listed("kubeflow", vec![service("one", "kubeflow")]);
        let before = id(&sources.configured());
        let (two, address) = service("two", "kubeflow");
        sources.set_service(two.clone(), Some(address));
        let configured = sources.configured();
        assert_eq!(names(&configured), ["one", "two"]);
        assert_eq!(id(&configured), before);
        let (one, mut moved) = service("one", "kubeflow");
        moved.socket = "127.0.0.2:8080".parse().ok();
        sources.set_service(one, Some(moved));
        sources.set_service(two, None);
        let configured = sources.configured();
        assert_eq!(names(&configured), ["one"]);
        assert_ne!(id(&configured), before, "another address is another connection");
    }

    #[test]
    fn a_service_that_the_file_names_is_only_what_the_file_says() {
        let mut sources = sources(Some("http://flags"));
        let text =
            "registries: [{name: mine, service: {namespace: kubeflow, name: one}, namespaces: {names: [a]}}]";
        sources.set_file(file::read(text).unwrap());
        assert_eq!(names(&sources.configured()), ["flags"], "its Service is not there yet");
        sources.set_listed("kubeflow", vec![service("one", "kubeflow"), service("two", "kubeflow")]);
        assert_eq!(names(&sources.configured()), ["mine", "flags", "two"]);
    }
}
