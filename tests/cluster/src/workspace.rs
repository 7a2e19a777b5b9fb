//! Where things are in this workspace, and the programs that the suite runs.
//!
//! In: nothing but where the running test binary lies, and `KUBEBUILDER_ASSETS`. Out: the target folder, the
//! control plane's programs and the program under test. What stays true: everything is built before it is named
//! here, so a test never runs a program older than its source.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};

/// The environment variable by which a caller points at a folder of control plane programs of their own.
const CALLERS_TOOLS: &str = "KUBEBUILDER_ASSETS";

/// What Cargo puts at the root of a target folder, wherever `CARGO_TARGET_DIR` moved it: the tag only in a folder that
/// Cargo itself made, the other one unless `CARGO_CACHE_RUSTC_INFO` is 0.
const TARGET_MARKS: [&str; 2] = ["CACHEDIR.TAG", ".rustc_info.json"];

/// The folder of this crate; the chart and the fixtures are found from here.
const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(CRATE).ancestors().nth(2).unwrap_or(Path::new("/")).to_path_buf()
}

/// The chart under test.
#[must_use]
pub fn chart() -> PathBuf {
    root().join("charts/isvc-registrar")
}

/// The folder of build products that the running program came from.
pub fn target() -> Result<PathBuf> {
    let program = env::current_exe().context("cannot tell where the running test binary is")?;
    program
        .ancestors()
        .find(|folder| TARGET_MARKS.iter().any(|mark| folder.join(mark).exists()))
        .map(Path::to_path_buf)
        .with_context(|| format!("{} is in no target folder of Cargo's: run it by cargo", program.display()))
}

/// The control plane's programs, each the caller's own or one built from its Go module.
#[derive(Debug, Clone)]
pub struct Tools {
    pub(crate) etcd: PathBuf,
    pub(crate) kube_apiserver: PathBuf,
    pub(crate) kube_controller_manager: PathBuf,
    pub(crate) kubectl: PathBuf,
    pub(crate) helm: PathBuf,
}

impl Tools {
    /// Finds the programs; those that are missing or of another version are built first, which takes minutes.
    pub fn prepare() -> Result<Self> {
        let built = target()?.join("tools");
        let script = Path::new(CRATE).join("tools/build");
        let output = Command::new(&script)
            .arg(&built)
            .output()
            .with_context(|| format!("cannot run {}", script.display()))?;
        ensure!(
            output.status.success(),
            "the control plane's programs cannot be built (Go 1.26 is needed): {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let callers = env::var_os(CALLERS_TOOLS).map(PathBuf::from);
        let find = |name: &str| {
            callers
                .iter()
                .chain([&built])
                .map(|folder| folder.join(name))
                .find(|path| path.exists())
                .with_context(|| {
                    format!(
                        "{name} is neither in ${CALLERS_TOOLS} nor in {}: run {}",
                        built.display(),
                        script.display()
                    )
                })
        };
        Ok(Self {
            etcd: find("etcd")?,
            kube_apiserver: find("kube-apiserver")?,
            kube_controller_manager: find("kube-controller-manager")?,
            kubectl: find("kubectl")?,
            helm: find("helm")?,
        })
    }
}

/// The program under test, built from the source as it is now, with the profile of the running test binary.
///
/// Cargo builds a package's programs only for that package's own tests, so this asks for it; when nothing changed
/// that takes a fraction of a second.
pub fn program_under_test() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT
        .get_or_init(|| build_program().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(anyhow::Error::msg)
}

/// What `cargo test` tells the running test of its package. Some build scripts want a rebuild when it changes, and here
/// it would, with every dependency after them.
fn is_about_this_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

fn build_program() -> Result<PathBuf> {
    let target = target()?;
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    let mut cargo = Command::new(env!("CARGO"));
    for (variable, _) in env::vars_os() {
        if is_about_this_package(&variable.to_string_lossy()) {
            cargo.env_remove(variable);
        }
    }
    let output = cargo
        // Of the whole workspace, as the tests were: with other features every dependency would be built once more.
        .args(["build", "--quiet", "--workspace", "--bin", "isvc-registrar", "--profile", profile])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(root())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("isvc-registrar does not build: {}", String::from_utf8_lossy(&output.stderr));
    }
    let folder = if cfg!(debug_assertions) { "debug" } else { "release" };
    Ok(target.join(folder).join("isvc-registrar"))
}
