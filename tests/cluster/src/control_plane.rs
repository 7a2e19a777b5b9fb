//! A cluster for tests, from start to end.
//!
//! In: nothing, or images that the test adds. Out: a running control plane with the InferenceService CRD, a Node that
//! runs Pods, Services that reach them, and the commands kubectl and helm. What stays true: one cluster never meets
//! another on the machine, and nothing of it outlives the test process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, Config};
use tokio::sync::{Mutex, OnceCell};

use crate::addresses::AddressBlock;
use crate::audit_log::{self, AuditEvent};
use crate::background::Background;
use crate::commands::{Commands, Run};
use crate::credentials::{Credentials, User};
use crate::forwarder::Forwarder;
use crate::images::{Image, Images};
use crate::kubelet::Kubelet;
use crate::processes::{Processes, Setup};
use crate::wait;
use crate::work_dir::WorkDir;
use crate::workspace::{self, Tools};

/// The InferenceService of the tests.
const INFERENCE_SERVICE_CRD: &str = include_str!("../crds/inferenceservice.yaml");

/// A running cluster. Dropping it takes everything down.
#[derive(Debug)]
pub struct ControlPlane {
    // Dropped in this order: the tasks that use the programs, the programs, their folder.
    background: Background,
    processes: Arc<Mutex<Processes>>,
    commands: Commands,
    images: Arc<Images>,
    admin: Config,
    namespaces: AtomicU32,
    setup: Arc<Setup>,
}

impl ControlPlane {
    /// The cluster that the tests of one binary share. A test that uses it keeps to namespaces of its own, and breaks
    /// nothing that others need.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// A cluster of one's own, in a few seconds.
    pub async fn start() -> Result<Self> {
        let cluster = Self::start_empty().await?;
        cluster.images.insert("isvc-registrar", Image::of(workspace::program_under_test()?));
        Ok(cluster)
    }

    /// One that knows no image: the program under test is not built for it.
    pub async fn start_empty() -> Result<Self> {
        // Fails only when a provider is there already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let tools = Tools::prepare()?;
        let work = WorkDir::create(&workspace::target()?.join("clusters"))?;
        let addresses = AddressBlock::claim()?;
        let credentials = Credentials::create(work.path(), addresses.api_server())?;
        let background = Background::start(&work.log("suite"))?;
        let commands = Commands::new(credentials.kubeconfig(User::Admin), work.path().join("home"));
        let admin = credentials.config(User::Admin).await?;
        let setup = Arc::new(Setup { tools, work, addresses, credentials });
        let images = Arc::new(Images::default());

        let processes = background.handle().spawn(boot(setup.clone(), images.clone())).await?;
        let processes = processes.inspect_err(|_| setup.work.keep())?;
        let cluster = Self {
            background,
            processes: Arc::new(Mutex::new(processes)),
            commands,
            images,
            admin,
            namespaces: AtomicU32::new(0),
            setup,
        };
        cluster.apply(INFERENCE_SERVICE_CRD).await?;
        cluster.serves_inference_services().await?;
        Ok(cluster)
    }

    /// Waits until the API server serves InferenceServices. `kubectl wait` fails on a definition that is so new that its
    /// conditions are still null.
    async fn serves_inference_services(&self) -> Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client()?);
        wait::until("the InferenceService CRD is established", async || {
            let definition = definitions.get("inferenceservices.serving.kserve.io").await?;
            let conditions = definition.status.and_then(|status| status.conditions).unwrap_or_default();
            let established = conditions
                .iter()
                .any(|condition| condition.type_ == "Established" && condition.status == "True");
            ensure!(established, "its conditions are {conditions:?}");
            Ok(())
        })
        .await
    }

    /// A client with all rights. Make one for each test: a client ends with the runtime that it was made on.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::try_from(self.admin.clone())?)
    }

    /// The kubeconfig of the same user.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.setup.credentials.kubeconfig(User::Admin)
    }

    /// The programs that image names stand for. `isvc-registrar`, with any tag, is the program under test.
    #[must_use]
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// The kubectl of the API server's version.
    #[must_use]
    pub fn kubectl_program(&self) -> &Path {
        &self.setup.tools.kubectl
    }

    /// Runs kubectl.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<Run> {
        self.commands.run(&self.setup.tools.kubectl, arguments, None).await
    }

    /// Runs kubectl with a manifest on its standard input (`-f -`).
    pub async fn kubectl_with(&self, arguments: &[&str], manifest: &str) -> Result<Run> {
        self.commands.run(&self.setup.tools.kubectl, arguments, Some(manifest)).await
    }

    /// `kubectl apply` of a manifest that has to work.
    pub async fn apply(&self, manifest: &str) -> Result<String> {
        self.kubectl_with(&["apply", "-f", "-"], manifest).await?.stdout()
    }

    /// Runs helm.
    pub async fn helm(&self, arguments: &[&str]) -> Result<Run> {
        self.commands.run(&self.setup.tools.helm, arguments, None).await
    }

    /// Makes a namespace that no other test of this cluster has.
    pub async fn namespace(&self, purpose: &str) -> Result<String> {
        let name = format!("{purpose}-{}", self.namespaces.fetch_add(1, Ordering::Relaxed));
        self.kubectl(&["create", "namespace", &name]).await?.stdout()?;
        Ok(name)
    }

    /// Stops the API server as a person would, and returns when it is down.
    pub async fn stop_api_server(&self) -> Result<()> {
        let processes = self.processes.clone();
        self.background.handle().spawn(async move { processes.lock().await.stop_api_server().await }).await?
    }

    /// Starts the API server again, where it was, and returns when it is ready.
    pub async fn start_api_server(&self) -> Result<()> {
        let (processes, setup) = (self.processes.clone(), self.setup.clone());
        self.background
            .handle()
            .spawn(async move { processes.lock().await.start_api_server(&setup).await })
            .await?
    }

    /// What the API server was asked so far. Reads by the suite itself are left out.
    pub fn audit_log(&self) -> Result<Vec<AuditEvent>> {
        audit_log::read(&self.setup.work.log("audit"))
    }

    /// What a container of the Pods whose names begin with `pod` has written: every Pod, gone ones too, and every run.
    pub fn container_log(&self, namespace: &str, pod: &str, container: &str) -> Result<String> {
        let pods = self.setup.work.path().join("logs/pods").join(namespace);
        let mut text = String::new();
        for log in files(&pods)?.iter().filter(|log| named(log, pod)) {
            for run in files(log)?.iter().filter(|run| named(run, &format!("{container}-"))) {
                text += &fs::read_to_string(run)?;
            }
        }
        Ok(text)
    }

    /// The folder of this cluster's data and logs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.setup.work.path()
    }
}

/// Starts the programs, then all that runs beside them.
async fn boot(setup: Arc<Setup>, images: Arc<Images>) -> Result<Processes> {
    let processes = Processes::start(&setup).await?;
    let client = Client::try_from(setup.credentials.config(User::Node).await?)?;
    let (forwarder, announcements) = Forwarder::new(client.clone());
    let kubelet = Kubelet::new(client, setup, images, announcements);
    kubelet.register().await.context("cannot register the Node")?;
    tokio::spawn(forwarder.run());
    tokio::spawn(kubelet.run());
    Ok(processes)
}

/// The entries of a folder in the order of their names; none when there is no folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn named(path: &Path, beginning: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning))
}
