//! The three programs of the control plane: etcd, kube-apiserver, kube-controller-manager.
//!
//! In: the programs, the run's folder, addresses and credentials. Out: a running control plane whose API server can be
//! stopped and started again at its address. What stays true: whoever is told "ready" can use the API; a program that
//! ended early is an error that shows the end of its log.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use kube::Client;

use crate::addresses::AddressBlock;
use crate::credentials::{Credentials, User};
use crate::leash::{Leash, LeashedCommand};
use crate::wait::Patience;
use crate::work_dir::WorkDir;
use crate::workspace::Tools;

/// Metadata of everything that changes something or that a Pod asks; the suite's own reads would only bury it.
const AUDIT_POLICY: &str = include_str!("audit-policy.yaml");

/// Controllers whose work the chart's objects need. The EndpointSlice controller is left out: EndpointSlices refuse
/// addresses inside 127/8, and the suite's forwarder reads Pods. No scheduler and no node controllers: the suite's
/// kubelet takes every Pod.
const CONTROLLERS: &str = "namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,\
    garbage-collector-controller,deployment-controller,replicaset-controller,statefulset-controller,job-controller,\
    disruption-controller,clusterrole-aggregation-controller,validatingadmissionpolicy-status-controller";

/// An API server that was asked to stop drains its watches first, which takes it some five seconds.
const API_SERVER_GRACE: Duration = Duration::from_secs(30);

/// Lines of a log that are shown when its program ended early.
const LOG_TAIL: usize = 15;

/// The running programs.
#[derive(Debug)]
pub(crate) struct Processes {
    etcd: Leash,
    api_server: Option<Leash>,
    controllers: Option<Leash>,
}

/// What the programs are started with.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) tools: Tools,
    pub(crate) work: WorkDir,
    pub(crate) addresses: AddressBlock,
    pub(crate) credentials: Credentials,
}

impl Processes {
    /// Starts all three.
    pub(crate) async fn start(setup: &Setup) -> Result<Self> {
        let etcd = start_etcd(setup)?;
        let mut processes = Self { etcd, api_server: None, controllers: None };
        processes.start_api_server(setup).await?;
        processes.controllers = Some(start_controllers(setup)?);
        Ok(processes)
    }

    /// Starts the API server at the run's address and waits until it is ready.
    pub(crate) async fn start_api_server(&mut self, setup: &Setup) -> Result<()> {
        ensure!(self.api_server.is_none(), "the API server is running already");
        self.api_server = Some(start_api_server(setup)?);
        // Made anew: a client keeps connections, and those of an API server that was stopped are dead.
        let client = Client::try_from(setup.credentials.config(User::Admin).await?)?;
        let patience = Patience::new("the API server says that it is ready");
        while let Err(error) = client.request_text(http::Request::get("/readyz").body(Vec::new())?).await {
            self.check(setup)?;
            patience.once_more(error.into()).await?;
        }
        Ok(())
    }

    /// Fails when a program has ended that should be running.
    fn check(&mut self, setup: &Setup) -> Result<()> {
        let programs = [("etcd", Some(&mut self.etcd)), ("kube-apiserver", self.api_server.as_mut())];
        for (name, program) in programs {
            if let Some(code) = program.and_then(Leash::ended) {
                bail!("{name} ended with code {code}:\n{}", tail(&setup.work.log(name)));
            }
        }
        Ok(())
    }

    /// Asks the API server to stop and waits until its address is free again.
    pub(crate) async fn stop_api_server(&mut self) -> Result<()> {
        let Some(mut api_server) = self.api_server.take() else { bail!("the API server is stopped already") };
        api_server.stop(API_SERVER_GRACE).await;
        Ok(())
    }
}

fn start_etcd(setup: &Setup) -> Result<Leash> {
    let node = setup.addresses.node();
    let data = setup.work.path().join("etcd");
    LeashedCommand::new(&setup.tools.etcd)
        .arguments([
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls=http://{node}:2379"),
            format!("--advertise-client-urls=http://{node}:2379"),
            format!("--listen-peer-urls=http://{node}:2380"),
            format!("--initial-advertise-peer-urls=http://{node}:2380"),
            format!("--initial-cluster=default=http://{node}:2380"),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ])
        .spawn(&setup.work.log("etcd"), &setup.work)
}

fn start_api_server(setup: &Setup) -> Result<Leash> {
    let Setup { addresses, credentials, work, .. } = setup;
    let audit_policy = work.path().join("audit-policy.yaml");
    fs::write(&audit_policy, AUDIT_POLICY)?;
    LeashedCommand::new(&setup.tools.kube_apiserver)
        .arguments([
            format!("--etcd-servers=http://{}:2379", addresses.node()),
            format!("--bind-address={}", addresses.api_server()),
            // Its address is the cluster IP of Service default/kubernetes, whose port is 443: Pods reach it as usual.
            "--secure-port=443".to_owned(),
            format!("--service-cluster-ip-range={}", addresses.service_network()),
            // Endpoints refuse addresses inside 127/8.
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--tls-cert-file={}", credentials.file("server.crt").display()),
            format!("--tls-private-key-file={}", credentials.file("server.key").display()),
            format!("--cert-dir={}", work.path().join("credentials").display()),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", credentials.file("service-accounts.pub").display()),
            format!(
                "--service-account-signing-key-file={}",
                credentials.file("service-accounts.key").display()
            ),
            "--authorization-mode=RBAC".to_owned(),
            format!("--token-auth-file={}", credentials.file("tokens.csv").display()),
            format!("--audit-policy-file={}", audit_policy.display()),
            format!("--audit-log-path={}", work.log("audit").display()),
            // Every line is there before the caller has its answer.
            "--audit-log-mode=blocking-strict".to_owned(),
        ])
        .spawn(&work.log("kube-apiserver"), work)
}

fn start_controllers(setup: &Setup) -> Result<Leash> {
    let Setup { credentials, work, .. } = setup;
    LeashedCommand::new(&setup.tools.kube_controller_manager)
        .arguments([
            format!("--kubeconfig={}", credentials.kubeconfig(User::Controllers).display()),
            format!("--controllers={CONTROLLERS}"),
            format!("--root-ca-file={}", credentials.file("ca.crt").display()),
            format!(
                "--service-account-private-key-file={}",
                credentials.file("service-accounts.key").display()
            ),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ])
        .spawn(&work.log("kube-controller-manager"), work)
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let content = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = content.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n")
}
