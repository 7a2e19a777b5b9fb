//! The Python client `model-registry`, in a virtual environment of its own.
//!
//! In: a registry's URL and what to register there. Out: the ids that the client found. What stays true: an
//! environment is made once for each set of requirements, and one that is not whole is made anew.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// One release of the client.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// The folder of its script and its requirements.
    pub(crate) scripts: PathBuf,
    /// The file with its requirements.
    pub(crate) requirements: &'static str,
    /// Where its environment is made.
    pub(crate) environment: PathBuf,
}

impl Client {
    /// Registers a model with a version, and finds them again: `{"model": id, "version": id, "artifact": id}`.
    pub(crate) fn register(&self, url: &str, model: &str, version: &str) -> Result<Value, String> {
        self.try_register(url, model, version).map_err(|error| error.to_string())
    }

    fn try_register(&self, url: &str, model: &str, version: &str) -> Result<Value, Box<dyn Error>> {
        let script = self.scripts.join("register_and_find.py");
        let printed = run(Command::new(self.python()?).arg(script).args([url, model, version]))?;
        Ok(serde_json::from_str(printed.lines().last().ok_or("nothing was printed")?)?)
    }

    /// The Python of an environment that has what the requirements say.
    fn python(&self) -> Result<PathBuf, Box<dyn Error>> {
        let requirements = self.scripts.join(self.requirements);
        let python = self.environment.join("bin/python");
        // Written last: without it, or with other requirements in it, the environment is not whole.
        let installed = self.environment.join("installed.txt");
        let wanted = std::fs::read_to_string(&requirements)?;
        if std::fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) {
            return Ok(python);
        }
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&self.environment))?;
        run(&mut install(&python, &requirements))?;
        std::fs::write(installed, wanted)?;
        Ok(python)
    }
}

fn install(python: &Path, requirements: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    pip.arg(requirements);
    pip
}

/// Runs a command to its end and returns what it printed; its errors are ours.
fn run(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(printed)
    } else {
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("{command:?}: {}\n{printed}\n{errors}", output.status).into())
    }
}
