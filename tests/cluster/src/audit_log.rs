//! The API server's audit log: who did what.
//!
//! In: the log file. Out: the events that the tests ask about. What stays true: an event is in the log before its
//! caller has the answer, so no waiting is needed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// One request that the API server has answered. Reads by the suite itself are not recorded.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// `ResponseComplete`, or `ResponseStarted` for a watch that is still going on.
    pub stage: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, …
    pub verb: String,
    /// Who asked.
    pub user: AuditUser,
    /// On what.
    #[serde(default)]
    pub object_ref: AuditObject,
    /// How it went.
    pub response_status: Option<AuditStatus>,
    /// What admission noted, the webhooks' own annotations included.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// Who asked.
#[derive(Debug, Clone, Deserialize)]
pub struct AuditUser {
    /// `system:serviceaccount:<namespace>:<name>` for a Pod.
    pub username: String,
}

/// What a request was about; a part that it did not name is empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AuditObject {
    /// The API group, empty for the core one.
    pub api_group: String,
    /// The resource, in the plural.
    pub resource: String,
    /// `status`, `token`, …
    pub subresource: String,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

/// How a request went.
#[derive(Debug, Clone, Deserialize)]
pub struct AuditStatus {
    /// The HTTP status code.
    #[serde(default)]
    pub code: u16,
}

/// Reads the whole log.
pub(crate) fn read(log: &Path) -> Result<Vec<AuditEvent>> {
    let content = fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?;
    let complete = content.rfind('\n').map_or("", |end| &content[..end]);
    complete
        .lines()
        .map(|line| {
            serde_json::from_str(line)
                .with_context(|| format!("the audit log has a line that is no event: {line}"))
        })
        .collect()
}
