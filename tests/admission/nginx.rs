//! A real nginx in front of the registry, as installations have it: TLS with a private CA, a path prefix, a bearer
//! token, and pages of its own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use isvc_registrar::admission::{Mode, OnMissing, Policies, Severity};
use isvc_registrar::certs::issue::Authority;
use isvc_registrar::registry::embedded::EmbeddedRegistry;
use isvc_registrar::registry::{ApiChoice, ClientSettings};
use isvc_registrar::server::Limits;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::reviews::Review;
use crate::scene::registry_with_models;
use crate::webhook::{Setup, TestWebhook, registry_settings};

/// An address of its own, so that nobody else takes the port meanwhile.
const HOST: &str = "127.0.0.68";

/// nginx listens by then, or never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// nginx, until it is dropped.
struct Nginx {
    directory: TempDir,
    port: u16,
    _process: Child,
}

impl Nginx {
    async fn start(registry: &EmbeddedRegistry) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path();
        let authority = Authority::for_development().expect("a CA");
        let leaf = authority.issue(&[HOST.to_owned()]).expect("a certificate");
        let port =
            TcpListener::bind((HOST, 0)).and_then(|free| free.local_addr()).expect("a free port").port();
        for (name, content) in [
            ("ca.crt", authority.certificate),
            ("tls.crt", leaf.certificate),
            ("tls.key", leaf.key),
            ("nginx.conf", configuration(at, port, registry)),
            ("token", "first".to_owned()),
        ] {
            std::fs::write(at.join(name), content).expect("a file");
        }
        std::fs::create_dir(at.join("valid")).expect("a directory");
        let process = Command::new("nginx")
            .arg("-p")
            .arg(at)
            .arg("-e")
            .arg(at.join("error.log"))
            .arg("-c")
            .arg(at.join("nginx.conf"))
            .kill_on_drop(true)
            .spawn()
            .expect("nginx is installed");
        let listening = async {
            while TcpStream::connect((HOST, port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, listening).await.expect("nginx listens");
        let nginx = Self { directory, port, _process: process };
        nginx.accept_token("first");
        nginx
    }

    /// The registry behind nginx, at a path of it.
    fn registry(&self, path: &str) -> ClientSettings {
        let url = format!("https://{HOST}:{}{path}", self.port);
        ClientSettings {
            token_file: Some(self.file("token")),
            ca_file: Some(self.file("ca.crt")),
            ..registry_settings(&url, &STRICT)
        }
    }

    fn webhook(&self) -> TestWebhook {
        TestWebhook::start_with(self.registry("/models/registry"), STRICT)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn accept_token(&self, token: &str) {
        std::fs::write(self.file("valid").join(token), "").expect("a file");
    }

    fn refuse_token(&self, token: &str) {
        std::fs::remove_file(self.file("valid").join(token)).expect("the token was accepted");
    }

    fn write_token(&self, token: &str) {
        std::fs::write(self.file("token"), format!("{token}\n")).expect("a file");
    }
}

/// A registry that cannot be asked refuses the object, so that nothing passes for well here.
const STRICT: Setup = Setup {
    policies: Policies {
        mode: Mode::Enforce,
        on_missing: OnMissing::Allow,
        on_invalid: Severity::Deny,
        on_archived: Severity::Warn,
        on_unavailable: Severity::Deny,
    },
    cluster: "east",
    registry_limit: Duration::from_secs(25),
    timeout: 30,
    api: ApiChoice::Auto,
    limits: Limits {
        connections: 16,
        handshake: PATIENCE,
        first_request: PATIENCE,
        idle: PATIENCE,
        unread: PATIENCE,
    },
};

/// One process, which asks for a token whose name is among the files in `valid`.
fn configuration(at: &Path, port: u16, registry: &EmbeddedRegistry) -> String {
    let at = at.display();
    let upstream = registry.address();
    format!(
        "daemon off;
        master_process off;
        pid {at}/nginx.pid;
        error_log {at}/error.log;
        events {{ worker_connections 256; }}
        http {{
            access_log off;
            client_body_temp_path {at}/bodies;
            proxy_temp_path {at}/proxied;
            fastcgi_temp_path {at}/fastcgi;
            uwsgi_temp_path {at}/uwsgi;
            scgi_temp_path {at}/scgi;
            map $http_authorization $token {{
                default none;
                ~^Bearer\\ (?<given>[a-z]+)$ $given;
            }}
            server {{
                listen {HOST}:{port} ssl;
                ssl_certificate {at}/tls.crt;
                ssl_certificate_key {at}/tls.key;
                location /models/registry/ {{
                    if (!-f {at}/valid/$token) {{ return 401; }}
                    proxy_http_version 1.1;
                    proxy_pass http://{upstream}/;
                }}
                location /moved/ {{
                    rewrite ^/moved/(.*)$ https://{HOST}:{port}/models/registry/$1 redirect;
                }}
            }}
        }}
        "
    )
}

#[tokio::test]
#[ignore = "needs nginx: run tests/run"]
async fn an_object_is_registered_through_it() {
    let registry = registry_with_models().await;
    let nginx = Nginx::start(&registry).await;
    let webhook = nginx.webhook();
    let answered = webhook.review(&Review::create("model=7 version=70")).await;
    assert!(answered.label.is_some(), "{}", answered.said());
    assert_eq!(webhook.review(&Review::create("model=7")).await.label, answered.label, "and found again");
    assert_eq!(webhook.review(&Review::create("model=5")).await.told(), "deny 422", "missing is missing");
    assert_eq!(registry.registry().entries().len(), 1);
}

#[tokio::test]
#[ignore = "needs nginx: run tests/run"]
async fn the_token_is_swapped_while_it_runs() {
    let registry = registry_with_models().await;
    let nginx = Nginx::start(&registry).await;
    let webhook = nginx.webhook();
    let first = webhook.review(&Review::create("model=7")).await;
    assert!(first.label.is_some(), "{}", first.said());
    nginx.accept_token("second");
    nginx.write_token("second");
    nginx.refuse_token("first");
    let second = webhook.review(&Review::create("model=7 called=second")).await;
    assert!(second.label.is_some(), "the new token is used at once: {}", second.said());
    nginx.refuse_token("second");
    let refused = webhook.review(&Review::create("model=7 called=third")).await;
    assert_eq!(refused.told(), "deny 503");
    assert!(refused.said().contains("answered 401"), "{}", refused.said());
    assert!(refused.said().contains("check the token"), "{}", refused.said());
    assert_eq!(registry.registry().entries().len(), 2, "and nothing is taken for missing");
}

#[tokio::test]
#[ignore = "needs nginx: run tests/run"]
async fn its_own_pages_are_no_answers_of_the_registry() {
    let registry = registry_with_models().await;
    let nginx = Nginx::start(&registry).await;
    let webhook = nginx.webhook();
    let wrong_path = TestWebhook::start_with(nginx.registry("/models"), STRICT);
    let answered = wrong_path.review(&Review::create("model=7")).await;
    assert_eq!(answered.told(), "deny 503", "404, a page: {}", answered.said());
    let id = webhook.review(&Review::create("model=7")).await.label.expect("an entry");
    registry.stop().await;
    for words in ["model=7", "model=5", &format!("model=7 id={id}"), &format!("id={id}")] {
        let answered = webhook.review(&Review::create(words)).await;
        assert_eq!(answered.told(), "deny 503", "{words}: {}", answered.said());
        assert!(answered.said().contains("answered 502"), "{words}: {}", answered.said());
    }
}

#[tokio::test]
#[ignore = "needs nginx: run tests/run"]
async fn redirects_are_not_followed() {
    let registry = registry_with_models().await;
    let nginx = Nginx::start(&registry).await;
    let webhook = TestWebhook::start_with(nginx.registry("/moved"), STRICT);
    let answered = webhook.review(&Review::create("model=7")).await;
    assert_eq!(answered.told(), "deny 503");
    assert!(answered.said().contains("redirects are not followed"), "{}", answered.said());
    assert_eq!(registry.registry().requests(), [], "the registry behind it has heard nothing");
}

#[tokio::test]
#[ignore = "needs nginx: run tests/run"]
async fn a_certificate_of_an_unknown_authority_is_not_trusted() {
    let registry = registry_with_models().await;
    let nginx = Nginx::start(&registry).await;
    let trusting_the_platform = ClientSettings { ca_file: None, ..nginx.registry("/models/registry") };
    let webhook = TestWebhook::start_with(trusting_the_platform, STRICT);
    let answered = webhook.review(&Review::create("model=7")).await;
    assert_eq!(answered.told(), "deny 503", "{}", answered.said());
    let other = Authority::for_development().expect("a CA");
    std::fs::write(nginx.file("ca.crt"), other.certificate).expect("a file");
    let answered = nginx.webhook().review(&Review::create("model=7")).await;
    assert_eq!(answered.told(), "deny 503", "{}", answered.said());
    assert_eq!(registry.registry().requests(), [], "no token was sent to it");
}
