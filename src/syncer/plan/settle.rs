//! What an object's own entry should say, and what its history should hold: rows 4, 6 and 8.

use std::time::Duration;

use super::{Action, Case, Live};
use crate::registration::ownership::{CLUSTER, MANAGED_BY, MANAGER, NAME, NAMESPACE, Tie, UID};
use crate::registry::{
    CustomProperties, DesiredState, EntryPatch, InferenceService, LastKnownState, NewServeModel,
};
use crate::syncer::object::{DeploymentOutcome, Object};

/// Property: where the model is served.
const URL: &str = "url";
/// Property: status of the condition `Ready`.
const READY: &str = "ready";
/// Property: name of the record that was last added to the history.
pub const RECORDED: &str = "recorded";

/// What audit and logs call the field.
pub(super) const DESIRED_STATE: &str = "desiredState";
const MODEL_VERSION_ID: &str = "modelVersionId";
const RUNTIME: &str = "runtime";

/// After a change of version a status may for a while still be that of the version before. So long it must have
/// held to be believed without having changed: KServe has long since begun to roll out by then.
const OUTCOME_BELIEVED_AFTER: Duration = Duration::from_mins(10);

/// Row 4: the PATCH that makes an object's entry say what the object says.
pub(super) fn settle(
    case: &Case<'_>,
    object: &Object,
    entry: &InferenceService,
    bond: Tie,
) -> Option<Action> {
    let mut differs = Vec::new();
    if entry.desired_state != DesiredState::Deployed {
        differs.push(DESIRED_STATE);
    }
    let version = object
        .version
        .id()
        .filter(|version| Some(*version) != case.refused_version && entry.model_version_id != Some(*version));
    if version.is_some() {
        differs.push(MODEL_VERSION_ID);
    }
    let runtime = (entry.runtime.as_deref() != Some(&*object.runtime)).then(|| object.runtime.to_string());
    if runtime.is_some() {
        differs.push(RUNTIME);
    }
    let mut properties = entry.custom_properties.clone();
    for (key, value) in wanted_properties(case, object, entry, bond) {
        if set(&mut properties, key, value) {
            differs.push(key);
        }
    }
    if differs.is_empty() {
        return None;
    }
    let patch = EntryPatch {
        desired_state: DesiredState::Deployed,
        model_version_id: version,
        runtime,
        custom_properties: Some(properties),
    };
    Some(Action::Patch { entry: entry.id, patch, differs })
}

/// Row 8: the PATCH that makes a former cluster's entry ours, and changes nothing else.
pub(super) fn take_over(case: &Case<'_>, entry: &InferenceService) -> Action {
    let mut properties = entry.custom_properties.clone();
    set(&mut properties, CLUSTER, Some(case.cluster.as_str()));
    let patch = EntryPatch {
        desired_state: entry.desired_state,
        model_version_id: None,
        runtime: None,
        custom_properties: Some(properties),
    };
    Action::Patch { entry: entry.id, patch, differs: vec![CLUSTER] }
}

/// Our properties and their values; `None` for one that should not be there.
fn wanted_properties<'a>(
    case: &Case<'a>,
    object: &'a Object,
    entry: &InferenceService,
    bond: Tie,
) -> Vec<(&'static str, Option<&'a str>)> {
    let mut wanted = vec![(URL, object.status.url()), (READY, Some(object.status.ready.as_str()))];
    if case.recorded.is_some() {
        wanted.push((RECORDED, case.recorded));
    }
    // Another tool's entry is not stamped: its `managedBy` stays, and a stamp without that would disown it.
    if bond == Tie::Ours || entry.custom_properties.string(MANAGED_BY).is_none() {
        wanted.extend([
            (MANAGED_BY, Some(MANAGER)),
            (CLUSTER, Some(case.cluster.as_str())),
            (NAMESPACE, Some(case.name.namespace.as_str())),
            (NAME, Some(case.name.name.as_str())),
            (UID, Some(&*object.uid)),
        ]);
    }
    wanted
}

/// Makes a property what it should be; says whether it was not.
fn set(properties: &mut CustomProperties, key: &str, value: Option<&str>) -> bool {
    match value {
        Some(value) if properties.string(key) == Some(value) => false,
        Some(value) => {
            properties.set_string(key, value);
            true
        }
        None => properties.remove(key),
    }
}

/// What an entry's history lacks.
pub(super) enum History {
    /// Nothing, or nothing that can be said.
    Told,
    /// This record.
    Missing(NewServeModel),
    /// A record that may still be about the version before; look again then.
    TooEarly(Duration),
}

/// Row 6: the record of the deployment that is going on.
pub(super) fn record(case: &Case<'_>, live: &Live<'_>, entry: &InferenceService) -> History {
    let object = live.object;
    let version = object.version.id().filter(|version| Some(*version) != case.refused_version);
    let (Some(version), Some(outcome)) = (version, object.outcome()) else { return History::Told };
    let of_uid = format!("{}/", object.uid);
    let of_version = format!("{of_uid}{version}/");
    let name = format!("{of_version}{}", outcome.as_str());
    let recorded = case.recorded.or_else(|| entry.custom_properties.string(RECORDED)).unwrap_or_default();
    if recorded == name {
        return History::Told;
    }
    let other_version = recorded.starts_with(&of_uid) && !recorded.starts_with(&of_version);
    if other_version && !live.status_moved {
        let wait = OUTCOME_BELIEVED_AFTER.saturating_sub(live.outcome_held);
        if !wait.is_zero() {
            return History::TooEarly(wait);
        }
    }
    let last_known_state = match outcome {
        DeploymentOutcome::Running => LastKnownState::Running,
        DeploymentOutcome::Failed => LastKnownState::Failed,
    };
    History::Missing(NewServeModel { name, model_version_id: version, last_known_state })
}
