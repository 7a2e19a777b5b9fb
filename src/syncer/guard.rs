//! The guard in front of every PATCH.
//!
//! Goes in: a write that was planned. Comes out: the entry as the registry has it afterwards, or why nothing was
//! sent. What stays true, since a [`Confirmed`] is made nowhere else and nothing else sends a PATCH:
//!
//! - the fence is open from the first to the last byte;
//! - a change of state, or of whose an entry is, is sent only when it is planned from the object as it is now, read
//!   from no cache, and from the entry as it is now, read after the object: an object counts as absent only when the
//!   API server says `NotFound` of that very object, and only while every list that would have it is complete;
//! - what no object was ever seen for is retired only as far as the brake lets it;
//! - an entry that another writer keeps setting back is left alone.

use tokio::time::Instant;

use super::brake::EntryKey;
use super::facts::Facts;
use super::fence::Fenced;
use super::objects::ObjectsError;
use super::plan::{Action, Row, Write};
use super::store::Seen;
use super::world::World;
use crate::registry::{EntryId, EntryPatch, InferenceService, RegistryClient, RegistryError};

/// Why a write was not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stop {
    /// Another replica acts, or the lease ends too soon.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// The object or the entry is not as it was when the write was planned: plan again.
    #[error("the object or its entry has changed since the write was planned")]
    Stale,
    /// The API server says that the object is not there, and no watch has said so yet: it is about to.
    #[error("the object is not there any more, which the watch has not shown yet")]
    WatchBehind,
    /// Too much would be retired at once.
    #[error("held back until three resyncs in a row agree that it is to be retired")]
    HeldBack,
    /// Another writer sets the entry back again and again.
    #[error(
        "another writer keeps setting the entry back: find it by the registry's log and stop one of the two"
    )]
    Contested,
    /// The API server could not be asked.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// The registry did not take it, or could not be asked.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

/// A write that may be sent now. Only [`confirm`] makes one.
struct Confirmed {
    registry: RegistryClient,
    entry: EntryId,
    patch: EntryPatch,
    key: EntryKey,
    write: Write,
}

/// Makes one planned PATCH, if it still is the thing to do.
pub(super) async fn patch(world: &World, facts: &Facts, write: &Write) -> Result<InferenceService, Stop> {
    let confirmed = confirm(world, facts, write).await.inspect_err(|stop| {
        if matches!(stop, Stop::Stale | Stop::WatchBehind) {
            world.metrics.refused_by_guard();
        }
    })?;
    let sent = confirmed.registry.patch_entry(confirmed.entry, &confirmed.patch);
    let sent = world.fence.write(world.write_limit, sent).await?;
    let outcome = match &sent {
        Ok(_) => "written",
        Err(RegistryError::Refused { .. }) => "refused",
        Err(_) => "failed",
    };
    world.metrics.wrote(confirmed.registry.name(), write.row, outcome);
    let entry = sent?;
    world.quarrels().wrote(confirmed.key, &confirmed.write, Instant::now());
    if write.retires() {
        world.known.forget(&facts.name, confirmed.key);
    } else {
        world.known.remember(&facts.name, confirmed.key);
    }
    Ok(entry)
}

async fn confirm(world: &World, facts: &Facts, write: &Write) -> Result<Confirmed, Stop> {
    let shelf = &facts.shelves[write.registry];
    let Some(entry) = write.entry() else { return Err(Stop::Stale) };
    let key = shelf.key(entry);
    let write = if write.needs_a_second_look() && !facts.absence_confirmed {
        planned_again(world, facts, write, entry).await?
    } else {
        write.clone()
    };
    if write.row == Row::NeverSeen && !world.retirements().allows(key) {
        return Err(Stop::HeldBack);
    }
    if !world.quarrels().allows(key, &write, Instant::now()) {
        world.metrics.contested(shelf.registry.name());
        return Err(Stop::Contested);
    }
    let Action::Patch { patch, .. } = &write.action else { return Err(Stop::Stale) };
    Ok(Confirmed { registry: shelf.registry.clone(), entry, patch: patch.clone(), key, write })
}

/// The same write, planned from the object and the entry as they are at this moment.
async fn planned_again(world: &World, facts: &Facts, write: &Write, entry: EntryId) -> Result<Write, Stop> {
    let registry = &facts.shelves[write.registry].registry;
    // One after the other: between the entry as it is read here and the PATCH there is nothing.
    let object = world.objects.get(&facts.name).await?;
    let seen = seen_now(world, facts, object.as_ref())?;
    let entry_now = registry.entry(entry).await?.ok_or(Stop::Stale)?;
    let mut fresh = facts.with_seen(seen).ok_or(Stop::Stale)?;
    fresh.shelves[write.registry].put(entry_now);
    let again = fresh.plan(world).writes.into_iter().find(|again| {
        again.row == write.row
            && again.registry == write.registry
            && again.entry() == write.entry()
            && again.changes_state() == write.changes_state()
            && again.retires() == write.retires()
    });
    again.ok_or(Stop::Stale)
}

/// What is seen of the object, now that the API server was asked.
fn seen_now(
    world: &World,
    facts: &Facts,
    object: Option<&crate::kserve::InferenceService>,
) -> Result<Seen, Stop> {
    match object.map(|view| world.read(view)) {
        // It is there: what the watch will say later is known already.
        Some(Some((name, object))) if name == facts.name => {
            world.store.apply(name, object);
            Ok(world.store.seen(&facts.name))
        }
        Some(_) => {
            Err(Stop::Objects(ObjectsError::Unavailable("it gave another object than was asked for".into())))
        }
        None => match world.store.seen(&facts.name) {
            Seen::There(_) => Err(Stop::WatchBehind),
            absent => Ok(absent),
        },
    }
}
