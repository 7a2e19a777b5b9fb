//! The report: findings in, the stable form of `docs/audit.md` out. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::registration::{ClusterId, ObjectName};
use crate::syncer::inspect::{Finding, Matter};
use crate::syncer::plan::{Action, Row, Write};

/// What an audit found. Its JSON is documented in `docs/audit.md` and only ever grows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The cluster.
    pub cluster: String,
    /// What does not agree, by Namespace and name.
    pub differences: Vec<Difference>,
}

/// One thing that does not agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The object's Namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The registry's name; `None` where the object has none.
    pub registry: Option<String>,
    /// The entry's id; `None` where there is none.
    pub entry: Option<String>,
    /// The row of the syncer's table; `None` where only a person can mend it.
    pub row: Option<u8>,
    /// Fields and properties of the entry that differ, or what else does.
    pub differs: Vec<String>,
    /// What would be written; `None` where only a person can mend it.
    pub write: Option<Kind>,
    /// For a person.
    #[serde(skip)]
    pub remark: String,
}

/// A kind of write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The object's entry is found or created.
    Register,
    /// The entry's fields are set.
    Patch,
    /// The entry is set to UNDEPLOYED.
    Retire,
    /// A deployment is added to the entry's history.
    Record,
    /// The entry of a former cluster is stamped with this one.
    TakeOver,
}

impl Report {
    /// Of these findings.
    #[must_use]
    pub fn new(cluster: &ClusterId, findings: &[Finding]) -> Self {
        Self { cluster: cluster.to_string(), differences: findings.iter().map(Difference::new).collect() }
    }

    /// How many writes would be made.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.to_write().count()
    }

    /// How many objects they are about.
    #[must_use]
    pub fn names_to_write(&self) -> usize {
        self.to_write()
            .map(|difference| (&difference.namespace, &difference.name))
            .collect::<BTreeSet<_>>()
            .len()
    }

    fn to_write(&self) -> impl Iterator<Item = &Difference> {
        self.differences.iter().filter(|difference| difference.write.is_some())
    }
}

impl Difference {
    fn new(finding: &Finding) -> Self {
        let ObjectName { namespace, name } = finding.name.clone();
        let (row, differs, write, remark) = match &finding.matter {
            Matter::Write(write) => {
                (Some(write.row.number()), differs(write), Some(Kind::of(write)), String::new())
            }
            Matter::NoRegistry(error) => (None, vec!["registry".into()], None, error.to_string()),
            Matter::Stranger => {
                let remark = "the id label names an entry of somebody else: remove the label";
                (None, vec!["inference-service-id".into()], None, remark.into())
            }
            Matter::NoSuchEntry => {
                let remark = "the id label names an entry that does not exist: remove the label";
                (None, vec!["inference-service-id".into()], None, remark.into())
            }
        };
        Self {
            namespace,
            name,
            registry: finding.registry.as_ref().map(|registry| registry.name().to_owned()),
            entry: finding.entry.map(|entry| entry.to_string()),
            row,
            differs,
            write,
            remark,
        }
    }
}

impl Kind {
    fn of(write: &Write) -> Self {
        match &write.action {
            Action::Register => Self::Register,
            Action::Record { .. } => Self::Record,
            Action::Patch { .. } if write.row == Row::TakeOver => Self::TakeOver,
            Action::Patch { .. } if write.retires() => Self::Retire,
            Action::Patch { .. } => Self::Patch,
        }
    }
}

fn differs(write: &Write) -> Vec<String> {
    match &write.action {
        Action::Register => vec!["entry".into()],
        Action::Record { .. } => vec!["history".into()],
        Action::Patch { differs, .. } => differs.iter().map(ToString::to_string).collect(),
    }
}

/// The registries that would be written to, with their addresses, as a sentence has them.
pub(super) fn registries(findings: &[Finding]) -> String {
    let written = findings.iter().filter(|finding| matches!(finding.matter, Matter::Write(_)));
    let named: BTreeMap<&str, &url::Url> = written
        .filter_map(|finding| finding.registry.as_ref())
        .map(|registry| (registry.name(), registry.url()))
        .collect();
    let named: Vec<String> =
        named.into_iter().map(|(name, url)| format!("registry {name} ({url})")).collect();
    named.join(" and ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::{DesiredState, EntryPatch};

    fn finding(row: Row, desired_state: DesiredState, differs: Vec<&'static str>) -> Finding {
        let patch =
            EntryPatch { desired_state, model_version_id: None, runtime: None, custom_properties: None };
        let entry = "17".parse().unwrap();
        let write = Write { row, registry: 0, action: Action::Patch { entry, patch, differs } };
        Finding {
            name: ObjectName::new("team-a", "scorer"),
            registry: None,
            entry: Some(entry),
            matter: Matter::Write(write),
        }
    }

    #[test]
    fn the_json_is_as_documented() {
        let register = Write { row: Row::Register, registry: 0, action: Action::Register };
        let findings = [
            finding(Row::NeverSeen, DesiredState::Undeployed, vec!["desiredState"]),
            finding(Row::Settle, DesiredState::Deployed, vec!["url", "ready"]),
            finding(Row::TakeOver, DesiredState::Deployed, vec!["cluster"]),
            Finding {
                entry: None,
                matter: Matter::Write(register),
                ..finding(Row::Gone, DesiredState::Deployed, vec![])
            },
            Finding { matter: Matter::Stranger, ..finding(Row::Gone, DesiredState::Deployed, vec![]) },
        ];
        let report = Report::new(&ClusterId::new("east").unwrap(), &findings);
        let difference = |entry: Option<&str>, row: Option<u8>, differs: &[&str], write: Option<&str>| {
            json!({"namespace": "team-a", "name": "scorer", "registry": null, "entry": entry, "row": row,
                   "differs": differs, "write": write})
        };
        assert_eq!(
            serde_json::to_value(&report).unwrap(),
            json!({"cluster": "east", "differences": [
                difference(Some("17"), Some(7), &["desiredState"], Some("retire")),
                difference(Some("17"), Some(4), &["url", "ready"], Some("patch")),
                difference(Some("17"), Some(8), &["cluster"], Some("take-over")),
                difference(None, Some(3), &["entry"], Some("register")),
                difference(Some("17"), None, &["inference-service-id"], None),
            ]})
        );
        assert_eq!((report.writes(), report.names_to_write()), (4, 1));
    }
}
