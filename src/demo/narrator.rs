//! What a person at a terminal sees: commands, their output, and the registry's table of entries.

use std::io::{self, Write};

use comfy_table::{Table, presets};
use serde_json::Value;

use super::api_server::Applied;
use crate::kserve::LabelKeys;
use crate::registry::embedded::Entry;

/// Name of the webhook in the API server's messages, as the chart renders it.
const WEBHOOK: &str = "register.modelregistry.kubeflow.org";

/// Writes the story.
pub(super) struct Narrator<W> {
    out: W,
    keys: LabelKeys,
}

impl<W: Write> Narrator<W> {
    pub(super) fn new(out: W, keys: LabelKeys) -> Self {
        Self { out, keys }
    }

    /// A sentence of the narrator's own.
    pub(super) fn say(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "\n{text}")
    }

    /// A line below it.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    /// A command, as it would be typed.
    pub(super) fn command(&mut self, command: &str) -> io::Result<()> {
        writeln!(self.out, "\n$ {command}")
    }

    /// What `kubectl apply` prints for an object, and the label that it has now.
    pub(super) fn applied(&mut self, name: &str, applied: &Applied) -> io::Result<()> {
        match applied {
            Applied::Stored { object, how, warnings } => {
                for warning in warnings {
                    writeln!(self.out, "Warning: {warning}")?;
                }
                writeln!(self.out, "inferenceservice.serving.kserve.io/{name} {how}")?;
                let key = &self.keys.inference_service_id;
                match object["metadata"]["labels"].get(key).and_then(Value::as_str) {
                    Some(id) => writeln!(self.out, "  it was stored with the label {key}: \"{id}\""),
                    None => writeln!(self.out, "  it names no registered model and was stored as it is"),
                }
            }
            Applied::Refused { message } => {
                writeln!(
                    self.out,
                    "Error from server: admission webhook \"{WEBHOOK}\" denied the request: {message}"
                )
            }
        }
    }

    /// The registry's entries.
    pub(super) fn entries(&mut self, entries: &[Entry]) -> io::Result<()> {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(["  ID", "NAME", "ENVIRONMENT", "MODEL", "VERSION", "RUNTIME", "STATE"]);
        for entry in entries {
            let version = entry.model_version_id.map_or_else(|| "-".to_owned(), |id| id.to_string());
            table.add_row([
                format!("  {}", entry.id),
                entry.name.clone(),
                entry.environment.clone(),
                entry.registered_model_id.to_string(),
                version,
                entry.runtime.clone().unwrap_or_default(),
                entry.desired_state.clone(),
            ]);
        }
        writeln!(self.out, "\nThe registry's inference services:\n{table}")
    }
}
