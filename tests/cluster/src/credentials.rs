//! The keys, tokens and kubeconfigs of one control plane.
//!
//! In: the run's folder and the API server's address. Out: files in that folder. What stays true: everything is made
//! anew for each run, so nothing secret is ever in the source.

use std::fmt::Write;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rcgen::KeyPair;
use serde_json::json;

use crate::authority::Authority;

/// Kubernetes gives every random UUID that is asked for here.
const RANDOM: &str = "/proc/sys/kernel/random/uuid";

/// Who talks to the API server without being a Pod. All are in `system:masters`: what a test proves of RBAC it proves
/// of the ServiceAccounts of Pods.
#[derive(Debug, Clone, Copy)]
pub(crate) enum User {
    /// The person at the keyboard: kubectl, helm, and the tests' own client.
    Admin,
    /// kube-controller-manager.
    Controllers,
    /// The suite's kubelet and forwarder.
    Node,
}

impl User {
    const ALL: [Self; 3] = [Self::Admin, Self::Controllers, Self::Node];

    /// The user's name, as it stands in the audit log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Admin => "kubernetes-admin",
            Self::Controllers => "system:kube-controller-manager",
            Self::Node => "system:node:loopback",
        }
    }
}

/// The files by which the parts of a control plane know each other.
#[derive(Debug)]
pub(crate) struct Credentials {
    folder: PathBuf,
    server: String,
}

impl Credentials {
    /// Makes all of them.
    pub(crate) fn create(run: &Path, api_server: Ipv4Addr) -> Result<Self> {
        let folder = run.join("credentials");
        fs::create_dir_all(&folder)?;
        let credentials = Self { folder, server: format!("https://{api_server}") };

        let authority = Authority::new("isvc-registrar-tests")?;
        let address = api_server.to_string();
        let names = [&address, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"];
        let server = authority.issue(&names)?;
        credentials.write("ca.crt", &authority.certificate())?;
        credentials.write("server.crt", &server.certificate)?;
        credentials.write("server.key", &server.key)?;
        let service_accounts = KeyPair::generate()?;
        credentials.write("service-accounts.key", &service_accounts.serialize_pem())?;
        credentials.write("service-accounts.pub", &service_accounts.public_key_pem())?;

        let mut tokens = String::new();
        for user in User::ALL {
            let token = fs::read_to_string(RANDOM).with_context(|| format!("cannot read {RANDOM}"))?;
            let (token, name) = (token.trim(), user.name());
            writeln!(tokens, "{token},{name},{name},system:masters")?;
            credentials.write_kubeconfig(user, token)?;
        }
        credentials.write("tokens.csv", &tokens)?;
        Ok(credentials)
    }

    /// One of the files: `ca.crt`, `server.crt`, `server.key`, `service-accounts.key` and `.pub`, `tokens.csv`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The kubeconfig of a user.
    pub(crate) fn kubeconfig(&self, user: User) -> PathBuf {
        self.file(&format!("{user:?}.kubeconfig").to_lowercase())
    }

    /// A client configuration of a user.
    pub(crate) async fn config(&self, user: User) -> Result<Config> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig(user))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // A call that fails while the API server is down fails at once: the caller decides whether that is expected.
        config.default_retry = false;
        Ok(config)
    }

    fn write_kubeconfig(&self, user: User, token: &str) -> Result<()> {
        // JSON is YAML, and every reader of kubeconfigs takes it.
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "tests",
                "cluster": {"server": self.server, "certificate-authority": self.file("ca.crt")},
            }],
            "users": [{"name": user.name(), "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": user.name()}}],
            "current-context": "tests",
        });
        fs::write(self.kubeconfig(user), serde_json::to_string_pretty(&kubeconfig)?)?;
        Ok(())
    }

    fn write(&self, name: &str, content: &str) -> Result<()> {
        fs::write(self.file(name), content).with_context(|| format!("cannot write {name}"))
    }
}
