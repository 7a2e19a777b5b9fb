//! The resync: compares the registries with the cluster, whatever was missed.
//!
//! Goes in: every configured registry and the store. Comes out: names in the queue, for whatever differs. What
//! stays true: entries are read first and objects then, so that an object made meanwhile is never taken for
//! missing; a list that failed or was partial retires nothing; nothing is written from here.
//!
//! A full resync reads everything that is deployed. One in between reads what was updated since the last, so that
//! its cost follows what changed.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, timeout};

use super::brake::EntryKey;
use super::cases::{Cases, Compared, Read};
use super::known::Known;
use super::listing::{self, Listing, may_be_of};
use super::plan::Row;
use super::standing::{Standing, asks_for_an_entry};
use super::watch::Refresh;
use super::world::World;
use crate::registration::ownership::is_ours;
use crate::registry::{DesiredState, InferenceService, RegistryClient};

/// Limit of listing all objects anew: an API server that takes longer is not well, and the next resync comes.
const LIST_LIMIT: Duration = Duration::from_mins(5);

/// Why a resync came to no end.
#[derive(Debug, thiserror::Error)]
pub(super) enum SweepError {
    /// The Services of the registries have not been listed yet.
    #[error("the registries are not known yet")]
    RegistriesUnknown,
    /// The API server did not list all objects in time.
    #[error("the objects could not be listed within {} s: check the API server", LIST_LIMIT.as_secs())]
    ObjectsUnknown,
    /// Some registries could not be read; the others were.
    #[error("could not read {0}: check that it runs; the other registries were compared")]
    Registries(String),
}

/// How a resync went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Objects and names that were looked at.
    pub(super) names: usize,
    /// Names that differ, and were queued.
    pub(super) differing: usize,
    /// Retirements that wait until resyncs agree.
    pub(super) held_back: usize,
}

/// Carries out resyncs, and remembers how far the last one read.
pub(super) struct Sweeper {
    newest_ms: HashMap<u64, i64>,
    last_full: Option<Instant>,
    full_every: Duration,
}

impl Sweeper {
    pub(super) fn new(full_every: Duration) -> Self {
        Self { newest_ms: HashMap::new(), last_full: None, full_every }
    }

    /// Whether a registry is configured that was never read.
    pub(super) fn lacks_a_registry(&self, world: &World) -> bool {
        let configured = world.directory.all().unwrap_or_default();
        configured.iter().any(|registry| !self.newest_ms.contains_key(&registry.id()))
    }

    /// Has the next resync be a full one.
    pub(super) fn start_over(&mut self) {
        self.last_full = None;
    }

    /// One resync. It is a full one at the start, every `--full-resync`, and while retirements are held back.
    #[tracing::instrument(name = "resync", skip_all)]
    pub(super) async fn resync(&mut self, world: &World, refresh: &Refresh) -> Result<Report, SweepError> {
        let registries = world.directory.all().ok_or(SweepError::RegistriesUnknown)?;
        let is_due = self.last_full.is_none_or(|last| last.elapsed() >= self.full_every);
        let all_read = registries.iter().all(|registry| self.newest_ms.contains_key(&registry.id()));
        let full = is_due || !all_read || world.retirements().held() > 0;
        let kind = if full { "full" } else { "changes" };
        let begun = Instant::now();
        let done = if full {
            self.full(world, refresh, registries).await
        } else {
            self.changes(world, registries).await
        };
        world.metrics.resynced(kind, if done.is_ok() { "done" } else { "failed" });
        if let Ok(report) = &done {
            if full {
                self.last_full = Some(begun);
                world.metrics.fully_resynced();
            }
            tracing::info!(
                kind,
                names = report.names,
                differing = report.differing,
                held_back = report.held_back,
                milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
                "compared the registries with the cluster"
            );
        }
        done
    }

    async fn full(
        &mut self,
        world: &World,
        refresh: &Refresh,
        registries: Vec<RegistryClient>,
    ) -> Result<Report, SweepError> {
        world.known.keep_only(&registries.iter().map(RegistryClient::id).collect::<Vec<_>>());
        // Entries first.
        let retired: Vec<AtomicUsize> = registries.iter().map(|_| AtomicUsize::new(0)).collect();
        let lists = registries.iter().zip(&retired).map(|(registry, retired)| {
            listing::everything(registry, |_, entry| {
                let deployed = entry.desired_state == DesiredState::Deployed;
                let may_be_of = may_be_of(entry, &world.cluster);
                if !deployed && may_be_of && is_ours(entry) {
                    retired.fetch_add(1, Ordering::Relaxed);
                }
                deployed && may_be_of
            })
        });
        let lists = join_all(lists).await;
        for ((registry, list), retired) in registries.iter().zip(&lists).zip(retired) {
            if let Ok(listing) = list {
                let deployed = listing.entries.iter().filter(|entry| is_ours(entry)).count();
                world.metrics.entries(registry.name(), deployed, retired.into_inner());
            }
        }
        let (reads, failed) = sort_out(&registries, lists);
        for read in &reads {
            self.note(&world.known, read);
            let of_ours = read.listing.entries.iter().filter(|entry| is_ours(entry));
            let found = of_ours.filter_map(|entry| Some((read.listing.object_of(entry)?, entry.id)));
            world.known.replace(read.registry.id(), found);
        }
        // Objects then.
        timeout(LIST_LIMIT, refresh.all()).await.map_err(|_| SweepError::ObjectsUnknown)?;
        let retry = std::mem::take(&mut *world.invalid());
        let report = compare(world, reads, failed.is_empty());
        for name in &retry {
            world.queue.add(name);
        }
        finish(report, &failed)
    }

    async fn changes(
        &mut self,
        world: &World,
        registries: Vec<RegistryClient>,
    ) -> Result<Report, SweepError> {
        let since = |registry: &RegistryClient| self.newest_ms.get(&registry.id()).copied();
        let lists = registries
            .iter()
            .map(|registry| listing::changes(registry, &world.cluster, since(registry).unwrap_or_default()));
        let (reads, failed) = sort_out(&registries, join_all(lists).await);
        for read in &reads {
            self.note(&world.known, read);
            let deployed =
                |entry: &&InferenceService| is_ours(entry) && entry.desired_state == DesiredState::Deployed;
            for entry in read.listing.entries.iter().filter(deployed) {
                if let Some(name) = read.listing.object_of(entry) {
                    world.known.remember(&name, (read.registry.id(), entry.id));
                }
            }
        }
        let retry = std::mem::take(&mut *world.invalid());
        // Planned from what has changed alone, this may find too much, and the worker sees that it is nothing.
        let cases = Cases::new(reads);
        let mut report = Report { names: cases.names().len(), ..Report::default() };
        for name in cases.names() {
            let compared = cases.compare(world, name, &world.store.seen(name));
            if compared.differs() {
                report.differing += 1;
                world.queue.add(name);
            } else if let Some(due) = compared.plan.due_in {
                world.queue.add_after(name, due);
            }
        }
        for name in &retry {
            world.queue.add(name);
        }
        finish(report, &failed)
    }

    fn note(&mut self, known: &Known, read: &Read) {
        known.set_clock(read.registry.id(), read.listing.registry_time_ms);
        self.newest_ms.insert(read.registry.id(), read.listing.newest_ms);
    }
}

fn finish(report: Report, failed: &[String]) -> Result<Report, SweepError> {
    if failed.is_empty() { Ok(report) } else { Err(SweepError::Registries(failed.join(", "))) }
}

/// Registries that were read whole, and the names of the others.
fn sort_out(
    registries: &[RegistryClient],
    lists: Vec<Result<Listing, crate::registry::RegistryError>>,
) -> (Vec<Read>, Vec<String>) {
    let mut reads = Vec::new();
    let mut failed = Vec::new();
    for (registry, list) in registries.iter().zip(lists) {
        match list {
            Ok(listing) => reads.push(Read { registry: registry.clone(), listing }),
            Err(error) => {
                tracing::warn!(%error, registry = registry.name(), "cannot list the registry's entries");
                failed.push(registry.name().to_owned());
            }
        }
    }
    (reads, failed)
}

/// Plans for every name there is, and queues those that differ.
fn compare(world: &World, reads: Vec<Read>, complete: bool) -> Report {
    let deployed =
        reads.iter().map(|read| read.listing.entries.iter().filter(|entry| is_ours(entry)).count()).sum();
    let mut cases = Cases::new(reads);
    cases.add_names(world.store.all().into_iter().map(|(name, _)| name));
    let mut differing = Vec::new();
    let mut never_seen: HashSet<EntryKey> = HashSet::new();
    for name in cases.names() {
        let seen = world.store.seen(name);
        let compared = cases.compare(world, name, &seen);
        let Compared { plan, .. } = &compared;
        let missing = plan.writes.iter().filter(|write| write.row == Row::NeverSeen);
        never_seen.extend(missing.filter_map(|write| cases.key(write)));
        if let Some(due) = plan.due_in {
            world.queue.add_after(name, due);
        }
        if compared.differs() {
            differing.push(name);
        } else if compared.home.is_some() {
            // Its registry was read, and has nothing to be told.
            let standing = asks_for_an_entry(&seen).then_some(Standing::Registered);
            world.standings.note(name, standing);
        }
    }
    let mut brake = world.retirements();
    if complete {
        brake.resync(&never_seen, deployed);
    }
    let held_back = brake.held();
    drop(brake);
    world.metrics.held_back(held_back);
    if held_back > 0 {
        tracing::warn!(
            held_back,
            deployed,
            "so many entries have no object that none of them is retired before three resyncs in a row agree: \
             check that this is the right cluster and registry"
        );
    }
    for name in &differing {
        world.queue.add(name);
    }
    Report { names: cases.names().len(), differing: differing.len(), held_back }
}
