//! Flags that say which registries there are, and how to talk to them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use url::Url;

use super::Usage;
use super::go_controller::GoController;
use crate::metrics::RegistryMetrics;
use crate::namespaces::Namespaces;
use crate::registry::ApiChoice;
use crate::registry::directory::{Defaults, Directory, Settings};

/// Where Model Registry's own manifests put it.
const REGISTRY_NAMESPACE: &str = "kubeflow";

/// The registry that `--registry-url` names has this name in messages when its host says nothing better.
const UNNAMED: &str = "the model registry";

/// Flags of the registries.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Registries")]
pub struct RegistriesArgs {
    /// YAML file that lists registries, read again when it changes
    #[arg(long, env = "ISVC_REGISTRAR_REGISTRIES", value_name = "FILE")]
    pub registries: Option<PathBuf>,

    /// Namespace whose Services labelled component=model-registry are registries; repeatable, empty for none [default: kubeflow]
    #[arg(long, env = "ISVC_REGISTRAR_REGISTRY_NAMESPACE", value_name = "NAMESPACE", value_delimiter = ',')]
    pub registry_namespace: Vec<String>,

    /// URL of the registry, up to where /api/model_registry begins
    #[arg(long, env = "ISVC_REGISTRAR_REGISTRY_URL", value_name = "URL", value_parser = registry_url)]
    pub registry_url: Option<Url>,

    /// Host of the registry's own ConfigMap, used when there is no --registry-url
    #[arg(long, env = "MODEL_REGISTRY_REST_SERVICE_HOST", value_name = "HOST", hide = true)]
    pub model_registry_rest_service_host: Option<String>,

    /// Port of the registry's own ConfigMap
    #[arg(long, env = "MODEL_REGISTRY_REST_SERVICE_PORT", value_name = "PORT", hide = true)]
    pub model_registry_rest_service_port: Option<String>,

    /// File with the bearer token, read again when it changes
    #[arg(long, env = "ISVC_REGISTRAR_REGISTRY_TOKEN_FILE", value_name = "FILE")]
    pub registry_token_file: Option<PathBuf>,

    /// File with the CAs to trust instead of the system's, in PEM, read again when it changes
    #[arg(long, env = "ISVC_REGISTRAR_REGISTRY_CA_FILE", value_name = "FILE")]
    pub registry_ca_file: Option<PathBuf>,

    /// Version of the REST API
    #[arg(long, env = "ISVC_REGISTRAR_REGISTRY_API", value_enum, default_value_t = ApiChoice::Auto)]
    pub registry_api: ApiChoice,

    /// Limit of one call to the registry, and of all calls of one review together
    #[arg(long, env = "ISVC_REGISTRAR_REGISTRY_TIMEOUT", value_name = "DURATION", default_value = "3s",
          value_parser = super::duration::positive)]
    pub registry_timeout: Duration,
}

impl RegistriesArgs {
    /// The registry of the flags, where they name one.
    fn url(&self) -> Result<Option<Url>, Usage> {
        if let Some(url) = &self.registry_url {
            return Ok(Some(url.clone()));
        }
        let Some(host) = self.model_registry_rest_service_host.as_ref().filter(|host| !host.is_empty())
        else {
            return Ok(None);
        };
        let port = self.model_registry_rest_service_port.as_deref().unwrap_or_default();
        let url = registry_url(&format!("http://{host}:{port}"));
        let said = "MODEL_REGISTRY_REST_SERVICE_HOST and MODEL_REGISTRY_REST_SERVICE_PORT";
        match url {
            Ok(url) if !port.is_empty() => Ok(Some(url)),
            Ok(_) => Err(Usage(format!("{said} go together: the port is missing"))),
            Err(error) => Err(Usage(format!("{said} make no URL: {error}"))),
        }
    }

    /// Where the configured registries come from.
    pub(super) fn settings(
        &self,
        go_controller: &GoController,
        metrics: &RegistryMetrics,
    ) -> Result<Settings, Usage> {
        let namespaces = match (self.registry_namespace.as_slice(), &go_controller.registries_namespace) {
            ([], Some(namespace)) => vec![namespace.clone()],
            ([], None) => vec![REGISTRY_NAMESPACE.to_owned()],
            // An empty one says that there is none.
            (namespaces, _) => namespaces.iter().filter(|namespace| !namespace.is_empty()).cloned().collect(),
        };
        Ok(Settings {
            defaults: Defaults {
                token_file: self.registry_token_file.clone(),
                ca_file: self.registry_ca_file.clone(),
                api: self.registry_api,
                timeout: self.registry_timeout,
                metrics: metrics.clone(),
            },
            flags: self.url()?.map(|url| (name_of(&url), url)),
            file: self.registries.clone(),
            namespaces,
        })
    }

    /// The directory of the configured registries. A registries file that makes no sense ends the program here.
    pub(super) async fn follow(
        &self,
        settings: Settings,
        namespaces: Namespaces,
        cluster: Option<&kube::Client>,
    ) -> Result<Directory, Usage> {
        let file = settings.file.clone().unwrap_or_default();
        let refused = |error| Usage(format!("--registries {}: {error}", file.display()));
        Directory::follow(settings, namespaces, cluster).await.map_err(refused)
    }

    /// Whether the flags alone say where the registries are, so that no cluster has to be asked.
    #[must_use]
    pub fn need_no_cluster(&self) -> bool {
        // One that is wrong is refused as soon as it is used.
        !matches!(self.url(), Ok(None))
    }
}

/// A Service's name for its URL, else the host.
fn name_of(url: &Url) -> String {
    match url.host() {
        Some(url::Host::Domain(host)) => match host.split('.').collect::<Vec<_>>().as_slice() {
            [service, _, "svc", ..] => (*service).to_owned(),
            _ => host.to_owned(),
        },
        Some(address) => address.to_string(),
        None => UNNAMED.to_owned(),
    }
}

/// Reads a URL that can stand in front of `/api/model_registry`.
fn registry_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("{error}; write it as http://host:port"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("only http and https URLs with a host can be used".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a URL must not hold a password: give a token by --registry-token-file".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("a registry's URL has neither query nor fragment".into());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_a_registry_is_refused() {
        assert!(registry_url("http://registry:8080/prefix/").is_ok());
        for bad in ["registry:8080", "ftp://a", "http://", "http://u:p@a", "http://a?b=c", "http://a#b", ""] {
            assert!(registry_url(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn services_are_looked_for_where_the_flags_say() {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            registries: RegistriesArgs,
        }
        let namespaces = |arguments: &[&str]| {
            let arguments = ["program"].iter().chain(arguments);
            let only = <Only as clap::Parser>::try_parse_from(arguments).unwrap();
            only.registries
                .settings(&GoController::default(), &RegistryMetrics::default())
                .unwrap()
                .namespaces
        };
        assert_eq!(namespaces(&[]), ["kubeflow"]);
        assert_eq!(namespaces(&["--registry-namespace=a,b", "--registry-namespace=c"]), ["a", "b", "c"]);
        assert!(namespaces(&["--registry-namespace="]).is_empty(), "an empty one says that there is none");
    }

    #[test]
    fn a_registry_is_called_by_its_service() {
        let name = |url: &str| name_of(&Url::parse(url).unwrap());
        assert_eq!(name("http://model-registry-service.kubeflow.svc:8080"), "model-registry-service");
        assert_eq!(name("https://registry.example.org/prefix"), "registry.example.org");
        assert_eq!(name("http://127.0.0.1:8085"), "127.0.0.1");
    }
}
