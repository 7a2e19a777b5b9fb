//! A look at cluster and registries from outside the syncer, and the same writes on somebody's word.
//!
//! Goes in: a source of objects and the directory of registries. Comes out: every [`Finding`] that a resync would
//! queue, and on demand the worker's own writes for them. What stays true: it reads by lists alone, in pages; it
//! fails rather than compare a part of what there is; a write passes the guard as any other does, and the brake lets
//! through exactly the retirements that were shown.
//!
//! Objects are listed twice: first to know which retired entries are worth keeping in memory, and again after the
//! entries, so that an object made meanwhile is never taken for missing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use futures::future::try_join_all;

use super::cases::{Cases, Compared, Read};
use super::listing::{self, Listing, may_be_of};
use super::metrics::Metrics;
use super::object::Object;
use super::objects::{Objects, ObjectsError, Scope};
use super::plan::{Row, Write};
use super::queue::Outcome;
use super::world::World;
use super::{Fence, Settings, watch, worker};
use crate::registration::ownership::made_for;
use crate::registration::{ClusterId, ObjectName};
use crate::registry::directory::{ChoiceError, Directory};
use crate::registry::{DesiredState, EntryId, InferenceService, RegistryClient, RegistryError};

/// How often a name is looked at again that changes while it is written.
const MOST_LOOKS: usize = 10;

/// One thing in which cluster and registries do not agree.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The object.
    pub name: ObjectName,
    /// The registry, where the object means one that there is.
    pub registry: Option<RegistryClient>,
    /// The entry, where there is one.
    pub entry: Option<EntryId>,
    /// What is the matter.
    pub matter: Matter,
}

/// What is the matter.
#[derive(Debug, Clone)]
pub enum Matter {
    /// This write would mend it.
    Write(Write),
    /// The object names a registry that it cannot have, or the registries are not known.
    NoRegistry(ChoiceError),
    /// The id label names an entry of somebody else.
    Stranger,
    /// The id label names an entry that does not exist.
    NoSuchEntry,
}

/// How far a look has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// So many objects were listed.
    Objects(usize),
    /// So many entries were read.
    Entries(usize),
    /// So many names were written.
    Names(usize),
}

/// Told about every step.
pub type OnStep<'a> = &'a (dyn Fn(Step) + Sync);

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The Services of the registries have not been listed yet.
    #[error("the registries are not known: check that Services can be listed, or give --registry-url")]
    RegistriesUnknown,
    /// There is none.
    #[error("no registry is configured: give --registry-url, or a --registry-namespace that has one")]
    NoRegistry,
    /// The objects could not be listed.
    #[error("cannot list the InferenceServices: {0}")]
    Objects(#[from] ObjectsError),
    /// A registry could not be read.
    #[error("cannot read {registry} at {url}: {error}")]
    Registry {
        /// Its name.
        registry: String,
        /// Where it is.
        url: url::Url,
        /// Why.
        error: RegistryError,
    },
}

/// Looks, and writes when it is told to.
pub struct Inspector {
    world: World,
    scopes: Vec<Scope>,
    workers: usize,
}

impl Inspector {
    /// An inspector of these objects and registries. Entries of `former`, a cluster that is no more, are taken over
    /// for the objects that are here.
    #[must_use]
    pub fn new(
        settings: &Settings,
        objects: Arc<dyn Objects>,
        directory: Directory,
        former: Option<ClusterId>,
    ) -> Self {
        let mut world = World::new(settings, objects, directory, Fence::open(), Metrics::default());
        world.former_cluster = former;
        Self { world, scopes: settings.scopes(), workers: settings.workers.max(1) }
    }

    /// Whose objects these are.
    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        &self.world.cluster
    }

    /// The cluster whose entries are taken over.
    #[must_use]
    pub fn former_cluster(&self) -> Option<&ClusterId> {
        self.world.former_cluster.as_ref()
    }

    /// Everything in which cluster and registries do not agree, by name.
    pub async fn inspect(&self, on_step: OnStep<'_>) -> Result<Vec<Finding>, InspectError> {
        let world = &self.world;
        let registries = world.directory.all().ok_or(InspectError::RegistriesUnknown)?;
        if registries.is_empty() {
            return Err(InspectError::NoRegistry);
        }
        self.list_objects(on_step).await?;
        let wanted = Wanted::of(world);
        let read = AtomicUsize::new(0);
        let count = || on_step(Step::Entries(read.fetch_add(1, Ordering::Relaxed) + 1));
        let reads = try_join_all(registries.into_iter().map(|registry| {
            let (wanted, count) = (&wanted, &count);
            async move {
                let listing = listing::everything(&registry, |listing, entry| {
                    count();
                    wanted.has(listing, entry)
                });
                match listing.await {
                    Ok(listing) => Ok(Read { registry, listing }),
                    Err(error) => Err(InspectError::Registry {
                        registry: registry.name().to_owned(),
                        url: registry.url().clone(),
                        error,
                    }),
                }
            }
        }))
        .await?;
        self.list_objects(on_step).await?;
        for Read { registry, listing } in &reads {
            world.known.set_clock(registry.id(), listing.registry_time_ms);
            let found =
                listing.entries.iter().filter_map(|entry| Some((listing.object_of(entry)?, entry.id)));
            world.known.replace(registry.id(), found);
        }
        Ok(self.compare(reads))
    }

    /// Makes the writes of these findings, each planned once more from what is there then. Says how many names could
    /// not be brought to an end; why stands in the log.
    pub async fn mend(&self, findings: &[Finding], on_step: OnStep<'_>) -> usize {
        let shown = findings.iter().filter_map(|finding| match &finding.matter {
            Matter::Write(write) if write.row == Row::NeverSeen => {
                Some((finding.registry.as_ref()?.id(), write.entry()?))
            }
            _ => None,
        });
        self.world.retirements().allow_only(shown.collect());
        let names: HashSet<&ObjectName> = findings
            .iter()
            .filter(|finding| matches!(finding.matter, Matter::Write(_)))
            .map(|finding| &finding.name)
            .collect();
        let (done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        futures::stream::iter(names)
            .for_each_concurrent(self.workers, async |name| {
                if self.write(name).await == Outcome::Failed {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
                on_step(Step::Names(done.fetch_add(1, Ordering::Relaxed) + 1));
            })
            .await;
        failed.into_inner()
    }

    async fn write(&self, name: &ObjectName) -> Outcome {
        let mut outcome = worker::reconcile(&self.world, name).await;
        for _ in 1..MOST_LOOKS {
            let Outcome::Again(wait) = outcome else { break };
            if wait > worker::LOOK_AGAIN {
                break;
            }
            tokio::time::sleep(wait).await;
            outcome = worker::reconcile(&self.world, name).await;
        }
        outcome
    }

    async fn list_objects(&self, on_step: OnStep<'_>) -> Result<(), ObjectsError> {
        let mut listed = 0;
        for (at, scope) in self.scopes.iter().enumerate() {
            let mut objects: HashMap<ObjectName, Object> = HashMap::new();
            watch::list(&*self.world.objects, scope, |page| {
                objects.extend(page.items.iter().filter_map(|item| self.world.read(item)));
                on_step(Step::Objects(listed + objects.len()));
            })
            .await?;
            listed += objects.len();
            self.world.store.replace(at, objects);
        }
        Ok(())
    }

    fn compare(&self, reads: Vec<Read>) -> Vec<Finding> {
        let mut cases = Cases::new(reads);
        cases.add_names(self.world.store.all().into_iter().map(|(name, _)| name));
        let mut names: Vec<&ObjectName> = cases.names().iter().collect();
        names.sort();
        names.into_iter().flat_map(|name| self.findings(&cases, name)).collect()
    }

    fn findings(&self, cases: &Cases, name: &ObjectName) -> Vec<Finding> {
        let seen = self.world.store.seen(name);
        let Compared { plan, no_home, unaccounted, home } = cases.compare(&self.world, name, &seen);
        let finding = |at: Option<usize>, entry, matter| Finding {
            name: name.clone(),
            registry: at.map(|at| cases.registry(at).clone()),
            entry,
            matter,
        };
        let mut findings = Vec::new();
        let is_here = matches!(seen, super::store::Seen::There(_));
        findings
            .extend(no_home.filter(|_| is_here).map(|error| finding(None, None, Matter::NoRegistry(error))));
        findings.extend(plan.stranger.map(|entry| finding(home, Some(entry), Matter::Stranger)));
        findings.extend(unaccounted.map(|entry| finding(home, Some(entry), Matter::NoSuchEntry)));
        let writes = plan.writes.into_iter();
        findings
            .extend(writes.map(|write| finding(Some(write.registry), write.entry(), Matter::Write(write))));
        findings
    }
}

/// Which entries matter: what is deployed here, and what the objects that are here have or name in whatever state.
struct Wanted<'a> {
    world: &'a World,
    objects: HashSet<ObjectName>,
    labelled: HashSet<EntryId>,
}

impl<'a> Wanted<'a> {
    fn of(world: &'a World) -> Self {
        let (mut objects, mut labelled) = (HashSet::new(), HashSet::new());
        for (name, seen) in world.store.all() {
            labelled.extend(seen.object().and_then(|object| object.entry.id()));
            objects.insert(name);
        }
        Self { world, objects, labelled }
    }

    fn has(&self, listing: &Listing, entry: &InferenceService) -> bool {
        let deployed_here =
            entry.desired_state == DesiredState::Deployed && may_be_of(entry, &self.world.cluster);
        let of_whom = || made_for(entry).map(|(cluster, _)| cluster);
        let may_be_here = || {
            may_be_of(entry, &self.world.cluster)
                || self.world.former_cluster.as_ref().is_some_and(|former| of_whom() == Some(former.as_str()))
        };
        let has_an_object = || listing.object_of(entry).is_some_and(|name| self.objects.contains(&name));
        deployed_here || self.labelled.contains(&entry.id) || (may_be_here() && has_an_object())
    }
}
