//! One name made true: look, plan, write, until there is nothing to write.
//!
//! Goes in: a name. Comes out: how the job ended. What stays true: what is done depends on what is there, never on
//! what happened; each write is planned from what the one before it left; one registry that cannot be asked keeps
//! nothing from being written to another.

use std::time::Duration;

use super::facts::{Facts, NotNow};
use super::guard::{self, Stop};
use super::objects::{NoticeReason, ObjectsError};
use super::plan::{Action, Row, Write};
use super::queue::Outcome;
use super::standing;
use super::store::Seen;
use super::world::World;
use crate::registration::{Effects, NotRegistered, ObjectName, Origin, Wanted};
use crate::registry::directory::ChoiceError;
use crate::registry::{EntryId, NewServeModel, RegistryError};

/// More writes than any name needs at once; a name that still has some is not coming to an end.
const MOST_WRITES: usize = 64;

/// When a write that was planned from something stale is planned again: the watch is about to bring the news.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// When another writer's entry is looked at again.
const CONTESTED_AGAIN: Duration = Duration::from_mins(10);

/// What came of one write.
enum Step {
    /// It was made; plan again from what it left.
    Made,
    /// It cannot be made; plan again without it.
    Impossible,
    /// Stop here.
    End(Outcome),
}

/// Makes one name true.
#[tracing::instrument(name = "reconcile", skip_all, fields(namespace = %name.namespace, name = %name.name))]
pub(super) async fn reconcile(world: &World, name: &ObjectName) -> Outcome {
    if !world.fence.allows() {
        // Another replica acts. When this one takes over it compares everything.
        return Outcome::Done;
    }
    let seen = world.store.seen(name);
    let released = release_finalizer(world, name, &seen).await;
    let settled = settle(world, name, seen.clone()).await;
    match (released, settled) {
        (Outcome::Failed, _) => Outcome::Failed,
        (_, Outcome::Done) => {
            world.store.settled(name, &seen);
            if !matches!(seen, Seen::There(_)) {
                world.notices.forget(name);
            }
            Outcome::Done
        }
        (_, outcome) => outcome,
    }
}

/// Takes the finalizer off an object that is being deleted, at once, whatever the registry does.
async fn release_finalizer(world: &World, name: &ObjectName, seen: &Seen) -> Outcome {
    let (Seen::There(_), Some(finalizer)) = (seen, &world.release_finalizer) else { return Outcome::Done };
    let Some(object) = seen.object().filter(|object| object.being_deleted) else { return Outcome::Done };
    let Some(at) = object.finalizer_to_release else { return Outcome::Done };
    match world.objects.release_finalizer(name, &object.uid, finalizer, at).await {
        Ok(()) => {
            tracing::info!(finalizer, "released the finalizer of an object being deleted");
            Outcome::Done
        }
        // It is gone already, or its finalizers are others: the watch brings the news.
        Err(ObjectsError::Changed) => Outcome::Done,
        Err(error) => {
            tracing::warn!(%error, finalizer, "cannot release the finalizer of an object being deleted");
            Outcome::Failed
        }
    }
}

async fn settle(world: &World, name: &ObjectName, seen: Seen) -> Outcome {
    world.invalid().remove(name);
    let wants_entry = standing::asks_for_an_entry(&seen);
    let mut facts = match Facts::gather(world, name, seen).await {
        Ok(facts) => facts,
        Err(reason) => {
            if wants_entry {
                world.standings.note_unknown(name);
            }
            tracing::debug!(%reason, "trying again later");
            return match reason {
                NotNow::Busy => Outcome::Again(LOOK_AGAIN),
                NotNow::RegistriesUnknown => Outcome::Failed,
            };
        }
    };
    let outcome = write_all(world, &mut facts).await;
    standing::note_worked_on(world, &facts, outcome);
    outcome
}

async fn write_all(world: &World, facts: &mut Facts) -> Outcome {
    report_unreachable(world, facts).await;
    if let Some(outcome) = check_version(world, facts).await {
        return outcome;
    }
    let mut impossible: Vec<Write> = Vec::new();
    for _ in 0..MOST_WRITES {
        let plan = facts.plan(world);
        let Some(write) = plan.writes.into_iter().find(|write| !impossible.contains(write)) else {
            return end(world, facts, plan.stranger, plan.due_in, &impossible).await;
        };
        match make(world, facts, &write).await {
            Step::Made => {}
            Step::Impossible => impossible.push(write),
            Step::End(outcome) => return outcome,
        }
    }
    tracing::error!("planned more writes for one name than can be: please report this");
    Outcome::Failed
}

/// There is nothing left to write: what is left to say, and to wait for.
async fn end(
    world: &World,
    facts: &Facts,
    stranger: Option<EntryId>,
    due_in: Option<Duration>,
    impossible: &[Write],
) -> Outcome {
    if let (Some(stranger), Some(object)) = (stranger, facts.seen.object()) {
        let message = format!(
            "inference service {stranger} of label {} belongs to somebody else and is left alone: remove the label",
            world.keys.inference_service_id
        );
        tracing::warn!(entry = %stranger, "the id label names an entry of somebody else");
        world.tell(&facts.name, &object.uid, NoticeReason::ForeignEntry, message).await;
    } else if facts.failed.is_empty() && facts.no_home.is_none() && impossible.is_empty() {
        world.notices.forget_trouble(&facts.name);
    }
    let choice_failed = facts.no_home.as_ref().is_some_and(ChoiceError::is_unavailable);
    if !facts.failed.is_empty() || choice_failed {
        return Outcome::Failed;
    }
    due_in.map_or(Outcome::Done, Outcome::Again)
}

/// Says which registries could not be asked, and why the object has none.
async fn report_unreachable(world: &World, facts: &Facts) {
    for (registry, error) in &facts.failed {
        tracing::warn!(%error, registry = registry.name(), "cannot ask the registry, trying again");
    }
    let Some(object) = facts.seen.object().filter(|_| matches!(facts.seen, Seen::There(_))) else { return };
    if let Some(error) = &facts.no_home {
        let reason = if error.is_unavailable() {
            NoticeReason::RegistryUnavailable
        } else {
            world.invalid().insert(facts.name.clone());
            NoticeReason::RegistrationFailed
        };
        tracing::warn!(%error, "the object has no registry");
        world.tell(&facts.name, &object.uid, reason, error.to_string()).await;
    } else if let Some((registry, error)) = facts.failed.first() {
        let message = format!("{} {error}", registry.name());
        world.tell(&facts.name, &object.uid, NoticeReason::RegistryUnavailable, message).await;
    }
}

/// Holds the labelled version against its model before it is written: the registry never checks it.
async fn check_version(world: &World, facts: &mut Facts) -> Option<Outcome> {
    let object = facts.seen.object()?.clone();
    let version = object.version.id()?;
    if !matches!(facts.seen, Seen::There(_)) || object.being_deleted {
        return None;
    }
    let (registry, model) = facts.plan(world).writes.iter().find_map(|write| match &write.action {
        Action::Patch { entry, patch, .. } if patch.model_version_id == Some(version) => {
            let shelf = &facts.shelves[write.registry];
            let entry = shelf.entries.iter().find(|known| known.id == *entry)?;
            Some((shelf.registry.clone(), entry.registered_model_id))
        }
        _ => None,
    })?;
    let message = match registry.model_version(version).await {
        Ok(Some(found)) if found.registered_model_id == model => return None,
        Ok(Some(found)) => {
            format!(
                "model version {version} belongs to registered model {}, not to {model}",
                found.registered_model_id
            )
        }
        Ok(None) => format!("model version {version} does not exist in {}", registry.name()),
        Err(error) => {
            tracing::warn!(%error, registry = registry.name(), "cannot check the version");
            return Some(Outcome::Failed);
        }
    };
    facts.refused_version = Some(version);
    world.invalid().insert(facts.name.clone());
    tracing::warn!(%version, "the labelled version is not one of the model's");
    let message = format!("{message}: set label {} to one of its versions", world.keys.model_version_id);
    world.tell(&facts.name, &object.uid, NoticeReason::RegistrationFailed, message).await;
    None
}

async fn make(world: &World, facts: &mut Facts, write: &Write) -> Step {
    let step = match &write.action {
        Action::Register => register(world, facts, write.registry).await,
        Action::Record { entry, record } => add_record(world, facts, write, *entry, record).await,
        Action::Patch { .. } => patch(world, facts, write).await,
    };
    // Meanwhile an object of that name may have come, and other entries may have changed.
    facts.absence_confirmed = false;
    step
}

/// Row 3.
async fn register(world: &World, facts: &mut Facts, at: usize) -> Step {
    let registry = facts.shelves[at].registry.clone();
    let Some(object) = facts.seen.object().cloned() else { return Step::End(Outcome::Done) };
    let wanted = Wanted {
        object: facts.name.clone(),
        uid: Some(object.uid.to_string()),
        model: object.model.id(),
        version: object.version.id(),
        labelled: object.entry.id(),
        runtime: object.runtime.to_string(),
        // It runs already: an archived model is its owner's business.
        refuse_archived: false,
    };
    // On the heap: the future is large, and every worker would carry it with every name.
    let find_or_create = Box::pin(world.registrar.register(&registry, &wanted, Effects::Create));
    let registered = match world.fence.write(world.write_limit, find_or_create).await {
        Ok(Ok(registered)) => registered,
        Ok(Err(NotRegistered::Unavailable(error))) => {
            world.metrics.wrote(registry.name(), Row::Register, "failed");
            tracing::warn!(%error, registry = registry.name(), "cannot register the object, trying again");
            let message = format!("{} {error}", registry.name());
            world.tell(&facts.name, &object.uid, NoticeReason::RegistryUnavailable, message).await;
            return Step::End(Outcome::Failed);
        }
        Ok(Err(error)) => {
            world.metrics.wrote(registry.name(), Row::Register, "refused");
            world.invalid().insert(facts.name.clone());
            tracing::warn!(%error, registry = registry.name(), "the object cannot be registered");
            let message = format!("{error} ({})", registry.name());
            world.tell(&facts.name, &object.uid, NoticeReason::RegistrationFailed, message).await;
            return Step::End(Outcome::Done);
        }
        Err(fenced) => return Step::End(stopped(&fenced.into())),
    };
    let entry = registered.entry;
    if registered.origin == Origin::Created {
        world.metrics.wrote(registry.name(), Row::Register, "written");
        tracing::info!(entry = %entry.id, registry = registry.name(), "registered");
        tell_registered(world, facts, entry.id, registry.name()).await;
    }
    world.known.remember(&facts.name, (registry.id(), entry.id));
    let shelf = &mut facts.shelves[at];
    shelf.environment = Some(entry.serving_environment_id);
    let known_already = shelf.entries.contains(&entry);
    shelf.put(entry);
    // An entry that was there all along and still is not the object's own would be found for ever.
    if known_already { Step::Impossible } else { Step::Made }
}

/// Row 6. A history that the registry refuses holds up nothing else.
async fn add_record(
    world: &World,
    facts: &mut Facts,
    write: &Write,
    entry: EntryId,
    record: &NewServeModel,
) -> Step {
    let registry = facts.shelves[write.registry].registry.clone();
    let sent = registry.create_serve_model(entry, record);
    match world.fence.write(world.write_limit, sent).await {
        // A conflict: it was added before, and only the entry does not say so yet.
        Ok(Ok(_) | Err(RegistryError::Conflict { .. })) => {
            world.metrics.wrote(registry.name(), Row::Record, "written");
            tracing::info!(entry = %entry, record = record.name, "added to the deployment history");
            facts.recorded = Some(record.name.clone());
            Step::Made
        }
        Ok(Err(error @ RegistryError::Refused { .. })) => {
            world.metrics.wrote(registry.name(), Row::Record, "refused");
            tracing::warn!(%error, registry = registry.name(), "the registry refuses a record of the history");
            Step::Impossible
        }
        Ok(Err(error)) => {
            world.metrics.wrote(registry.name(), Row::Record, "failed");
            tracing::warn!(%error, registry = registry.name(), "cannot add to the history, trying again");
            Step::End(Outcome::Failed)
        }
        Err(fenced) => Step::End(stopped(&fenced.into())),
    }
}

/// Every other row.
async fn patch(world: &World, facts: &mut Facts, write: &Write) -> Step {
    let registry = facts.shelves[write.registry].registry.name().to_owned();
    let entry = match guard::patch(world, facts, write).await {
        Ok(entry) => entry,
        Err(Stop::Registry(error @ RegistryError::Refused { .. })) => {
            world.invalid().insert(facts.name.clone());
            tracing::warn!(%error, registry, row = write.row.number(), "the registry refuses a change");
            return Step::Impossible;
        }
        Err(Stop::HeldBack) => return Step::Impossible,
        Err(Stop::Contested) => {
            tracing::warn!(registry, row = write.row.number(), "another writer keeps setting the entry back");
            return Step::End(Outcome::Again(CONTESTED_AGAIN));
        }
        Err(stop) => return Step::End(stopped(&stop)),
    };
    let Action::Patch { differs, .. } = &write.action else { return Step::Made };
    tracing::info!(entry = %entry.id, registry, row = write.row.number(), ?differs, "changed an entry");
    if write.retires() {
        if let Seen::There(_) = facts.seen {
            let message = format!("inference service {} in {registry} is UNDEPLOYED", entry.id);
            if let Some(object) = facts.seen.object() {
                world.tell(&facts.name, &object.uid, NoticeReason::Retired, message).await;
            }
        }
    } else if differs.contains(&"uid") {
        tell_registered(world, facts, entry.id, &registry).await;
    }
    facts.shelves[write.registry].put(entry);
    Step::Made
}

async fn tell_registered(world: &World, facts: &Facts, entry: EntryId, registry: &str) {
    if let Some(object) = facts.seen.object() {
        let message = format!("inference service {entry} in {registry}");
        world.tell(&facts.name, &object.uid, NoticeReason::Registered, message).await;
    }
}

/// How a job ends whose write was stopped.
fn stopped(stop: &Stop) -> Outcome {
    match stop {
        Stop::Stale | Stop::WatchBehind => {
            tracing::debug!(reason = %stop, "planning again");
            Outcome::Again(LOOK_AGAIN)
        }
        stop => {
            tracing::warn!(reason = %stop, "cannot write, trying again");
            Outcome::Failed
        }
    }
}
