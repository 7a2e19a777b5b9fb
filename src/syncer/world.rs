//! What every worker and every resync of one syncer shares.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::brake::{QuarrelBrake, RetirementBrake};
use super::fence::Fence;
use super::known::Known;
use super::lanes::Lanes;
use super::metrics::Metrics;
use super::notices::Notices;
use super::object::Object;
use super::objects::{Notice, NoticeReason, Objects};
use super::plan::Rules;
use super::queue::Queue;
use super::standing::Standings;
use super::store::Store;
use super::{Settings, WRITE_LIMIT};
use crate::kserve::{InferenceService, LabelKeys};
use crate::registration::{ClusterId, ObjectName, Registrar};
use crate::registry::directory::Directory;

/// What is shared.
pub(super) struct World {
    pub(super) cluster: ClusterId,
    /// A cluster that is no more, whose entries are taken over.
    pub(super) former_cluster: Option<ClusterId>,
    pub(super) keys: LabelKeys,
    pub(super) release_finalizer: Option<String>,
    pub(super) rules: Rules,
    pub(super) write_limit: Duration,
    pub(super) objects: Arc<dyn Objects>,
    pub(super) directory: Directory,
    pub(super) registrar: Registrar,
    pub(super) store: Arc<Store>,
    pub(super) queue: Arc<Queue>,
    pub(super) fence: Fence,
    pub(super) known: Known,
    pub(super) lanes: Lanes,
    pub(super) notices: Notices,
    pub(super) retirements: Mutex<RetirementBrake>,
    pub(super) quarrels: Mutex<QuarrelBrake>,
    /// Names whose objects ask for what cannot be had: tried again at the next resync, or when they change.
    pub(super) invalid: Mutex<std::collections::HashSet<ObjectName>>,
    pub(super) standings: Standings,
    pub(super) metrics: Metrics,
}

impl World {
    /// A world in which nothing has been seen yet.
    pub(super) fn new(
        settings: &Settings,
        objects: Arc<dyn Objects>,
        directory: Directory,
        fence: Fence,
        metrics: Metrics,
    ) -> Self {
        Self {
            cluster: settings.cluster.clone(),
            former_cluster: None,
            keys: settings.keys.clone(),
            release_finalizer: settings.release_finalizer.clone(),
            rules: Rules { grace: settings.grace, retire: settings.retire },
            write_limit: WRITE_LIMIT,
            objects,
            directory,
            registrar: Registrar::new(settings.cluster.clone(), settings.registry_timeout),
            store: Arc::new(Store::new(settings.scopes())),
            queue: Arc::new(Queue::default()),
            fence,
            known: Known::default(),
            lanes: Lanes::new(settings.workers),
            notices: Notices::default(),
            retirements: Mutex::default(),
            quarrels: Mutex::default(),
            standings: Standings::default(),
            invalid: Mutex::default(),
            metrics,
        }
    }

    /// Reads what is kept of an object.
    pub(super) fn read(&self, view: &InferenceService) -> Option<(ObjectName, Object)> {
        Object::read(view, &self.keys, self.release_finalizer.as_deref())
    }

    pub(super) fn retirements(&self) -> MutexGuard<'_, RetirementBrake> {
        locked(&self.retirements)
    }

    pub(super) fn quarrels(&self) -> MutexGuard<'_, QuarrelBrake> {
        locked(&self.quarrels)
    }

    pub(super) fn invalid(&self) -> MutexGuard<'_, std::collections::HashSet<ObjectName>> {
        locked(&self.invalid)
    }

    /// Tells the users of an object something, unless it was the last thing they were told.
    pub(super) async fn tell(&self, name: &ObjectName, uid: &str, reason: NoticeReason, message: String) {
        let notice = Notice { reason, message };
        if self.notices.is_news(name, &notice) {
            self.objects.tell(name, uid, &notice).await;
        }
    }
}

/// What these locks guard is never left half changed by a panic, so a poisoned lock is as good as any.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
