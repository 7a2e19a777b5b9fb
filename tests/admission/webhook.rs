//! The real webhook over real TLS, and what is true of every answer that it gives.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use isvc_registrar::admission::{self, Policies, Webhook};
use isvc_registrar::certs::issue::Authority;
use isvc_registrar::certs::{CertificateResolver, read_pair};
use isvc_registrar::kserve::LabelKeys;
use isvc_registrar::metrics::Metrics;
use isvc_registrar::namespaces::Namespaces;
use isvc_registrar::registration::{ClusterId, Registrar};
use isvc_registrar::registry::directory::{Configured, Directory, Registry, Scope, Source, Way};
use isvc_registrar::registry::{ApiChoice, ClientSettings, RegistryClient};
use isvc_registrar::server::Limits;
use isvc_registrar::server::tls::{self, Stop};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::reviews::{ID_LABEL, Review};

/// The cluster of all webhooks that say nothing else.
pub(crate) const CLUSTER: &str = "east";

/// What the registry is called in messages.
pub(crate) const REGISTRY: &str = "model-registry-service";

/// Characters of a warning that the API server keeps in any case.
const LONGEST_WARNING: usize = 256;

/// How a webhook is set up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) policies: Policies,
    pub(crate) cluster: &'static str,
    /// The most that one review may spend on the registry.
    pub(crate) registry_limit: Duration,
    /// What the API server says in `?timeout=`, in seconds; the client here leaves after that time.
    pub(crate) timeout: u64,
    pub(crate) api: ApiChoice,
    pub(crate) limits: Limits,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            policies: Policies::default(),
            cluster: CLUSTER,
            // Far beyond what anything takes, so that a busy machine changes no answer.
            registry_limit: Duration::from_secs(25),
            timeout: 30,
            api: ApiChoice::Auto,
            limits: Limits::default(),
        }
    }
}

/// A webhook that serves until it is dropped.
pub(crate) struct TestWebhook {
    pub(crate) address: SocketAddr,
    pub(crate) authority: String,
    pub(crate) client: reqwest::Client,
    timeout: u64,
    _running: DropGuard,
}

/// The client of a registry, as the webhook would be given it by its flags.
pub(crate) fn registry_settings(url: &str, setup: &Setup) -> ClientSettings {
    ClientSettings {
        name: REGISTRY.to_owned(),
        url: url.parse().expect("the URL of a registry"),
        address: None,
        api: setup.api,
        token_file: None,
        ca_file: None,
        timeout: setup.registry_limit,
        metrics: Metrics::default().registry,
    }
}

impl TestWebhook {
    /// A webhook with one registry.
    pub(crate) fn start(registry_url: &str, setup: Setup) -> Self {
        let settings = registry_settings(registry_url, &setup);
        Self::start_with(settings, setup)
    }

    /// A webhook with one registry that needs more than a URL.
    pub(crate) fn start_with(registry: ClientSettings, setup: Setup) -> Self {
        // Fails only when a provider is there already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let only = Registry {
            name: registry.name.clone(),
            namespace: None,
            source: Source::Flags,
            allowed: Scope::All,
            default_for: Scope::All,
            way: Some(Way { url: registry.url.clone(), client: RegistryClient::new(registry) }),
        };
        let configured = Configured { registries: vec![only], complete: true, ..Configured::default() };
        let webhook = Webhook {
            registrar: Registrar::new(
                ClusterId::new(setup.cluster).expect("a cluster"),
                setup.registry_limit,
            ),
            directory: Directory::of(configured),
            namespaces: Namespaces::default(),
            keys: LabelKeys::default(),
            policies: setup.policies,
            registry_limit: setup.registry_limit,
            metrics: Metrics::default().reviews,
        };
        let authority = Authority::for_development().expect("an authority");
        let leaf = authority.issue(&["127.0.0.1".to_owned()]).expect("a certificate");
        let pair = read_pair(leaf.certificate.as_bytes(), leaf.key.as_bytes()).expect("a pair");
        let resolver = Arc::new(CertificateResolver::default());
        resolver.serve(pair);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let signal = CancellationToken::new();
        let stop = Stop { signal: signal.clone(), drain_delay: Duration::ZERO };
        tokio::spawn(tls::serve(listener, admission::router(webhook), resolver, stop, setup.limits));
        let root = reqwest::Certificate::from_pem(authority.certificate.as_bytes()).expect("a CA");
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([root])
            .timeout(Duration::from_secs(setup.timeout))
            .build()
            .expect("a client that trusts the CA");
        Self {
            address,
            authority: authority.certificate,
            client,
            timeout: setup.timeout,
            _running: signal.drop_guard(),
        }
    }

    /// Where reviews are sent, with the API server's deadline.
    pub(crate) fn url(&self) -> String {
        format!("https://{}/mutate?timeout={}s", self.address, self.timeout)
    }

    /// Sends a body as it is; gives status and body of the answer.
    pub(crate) async fn post(&self, body: Vec<u8>) -> (u16, Vec<u8>) {
        let request = self.client.post(self.url()).header("content-type", "application/json").body(body);
        let response = request.send().await.expect("an answer before the API server's deadline");
        let status = response.status().as_u16();
        assert!(response.headers().get("retry-after").is_none(), "the API server would send it again");
        (status, response.bytes().await.expect("a whole answer before the API server's deadline").into())
    }

    /// The answer to a review.
    pub(crate) async fn review(&self, review: &Review) -> Answered {
        let (status, body) = self.post(review.body().to_string().into_bytes()).await;
        assert_eq!(status, 200, "a review is answered: {}", String::from_utf8_lossy(&body));
        Answered::read(review.body(), &body)
    }
}

/// The answer to a review, which has been held to what is true of all of them.
#[derive(Debug)]
pub(crate) struct Answered {
    /// As it came.
    pub(crate) response: Value,
    /// The id label that the patch sets.
    pub(crate) label: Option<String>,
    /// What the user is told.
    pub(crate) warnings: Vec<String>,
}

impl Answered {
    /// Reads an answer, and applies its patch as the API server would.
    pub(crate) fn read(review: &Value, body: &[u8]) -> Self {
        let answer: Value = serde_json::from_slice(body).expect("an answer is JSON");
        assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(answer["kind"], "AdmissionReview");
        let response = answer["response"].clone();
        assert_eq!(response["uid"], review["request"]["uid"], "the answer is to this review");
        let allowed = response["allowed"].as_bool().expect("allowed or not");
        if allowed {
            assert_eq!(response.get("status"), None, "there is nothing to say of what goes through");
        } else {
            let code = response["status"]["code"].as_u64().expect("a refusal has a code");
            assert!((400..600).contains(&code), "{code} is no refusal");
            assert_sentence(response["status"]["message"].as_str().expect("a refusal has a message"));
            assert_eq!(response.get("patch"), None, "what is refused is not changed");
        }
        let warnings = response.get("warnings").map_or(Vec::new(), |warnings| {
            let texts = warnings.as_array().expect("a list of warnings").iter();
            texts.map(|text| text.as_str().expect("a warning is a text").to_owned()).collect()
        });
        for warning in &warnings {
            assert_sentence(warning);
        }
        let label = patched(&review["request"]["object"], &response);
        Self { response, label, warnings }
    }

    /// The answer in words: `allow`, `deny 422`, then `set=9` for the label, `warned` for each warning, `would`.
    pub(crate) fn told(&self) -> String {
        let mut words = vec![match self.response["status"]["code"].as_u64() {
            None => "allow".to_owned(),
            Some(code) => format!("deny {code}"),
        }];
        words.extend(self.label.as_ref().map(|id| format!("set={id}")));
        words.extend(self.warnings.iter().map(|_| "warned".to_owned()));
        words.extend(self.audit("would").map(|_| "would".to_owned()));
        words.join(" ")
    }

    /// What the user reads: the refusal, or the warnings.
    pub(crate) fn said(&self) -> String {
        match self.response["status"]["message"].as_str() {
            Some(message) => message.to_owned(),
            None => self.warnings.join("\n"),
        }
    }

    /// An audit annotation.
    pub(crate) fn audit(&self, key: &str) -> Option<&str> {
        self.response["auditAnnotations"][key].as_str()
    }
}

/// One line that the API server passes on as it is.
fn assert_sentence(text: &str) {
    assert!(!text.is_empty(), "a message says something");
    assert!(text.chars().count() <= LONGEST_WARNING, "the API server cuts this: {text}");
    assert!(!text.contains(char::is_control), "the API server drops this: {text:?}");
    assert!(!text.starts_with("Warning:"), "kubectl says that itself: {text}");
}

/// The id label that a patch sets; fails when it changes anything else.
fn patched(object: &Value, response: &Value) -> Option<String> {
    let (patch, patch_type) = (response.get("patch"), response.get("patchType"));
    assert_eq!(patch.is_some(), patch_type.is_some(), "patch and patchType come together");
    let patch = patch?.as_str().expect("a patch is a text in base64, not a list of numbers");
    assert_eq!(patch_type, Some(&Value::from("JSONPatch")));
    let patch = STANDARD.decode(patch).expect("base64");
    let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("a JSON Patch");
    let mut after = object.clone();
    json_patch::patch(&mut after, &patch).expect("a patch that does not apply rejects the object");
    let label = after["metadata"]["labels"][ID_LABEL].as_str().expect("a label is a text").to_owned();
    assert_eq!(without_id(after), without_id(object.clone()), "nothing but the id label is changed");
    Some(label)
}

/// An object without the id label; no labels and an empty map of them are the same to the API server.
fn without_id(mut object: Value) -> Value {
    let labels = object["metadata"]["labels"].take();
    let mut labels = labels.as_object().cloned().unwrap_or_default();
    labels.remove(ID_LABEL);
    object["metadata"]["labels"] = labels.into();
    object
}
