//! Which notices are news.
//!
//! Goes in: what there is to tell users of an object. Comes out: whether they have not been told it last. What
//! stays true: nothing is repeated while nothing changes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use super::objects::Notice;
use crate::registration::ObjectName;

/// What users of each object were told last.
#[derive(Debug, Default)]
pub(super) struct Notices {
    told: Mutex<HashMap<ObjectName, Told>>,
}

/// A notice, as far as it is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    hash: u64,
    trouble: bool,
}

impl Notices {
    /// Whether this is another notice than the last one about the object.
    pub(super) fn is_news(&self, name: &ObjectName, notice: &Notice) -> bool {
        let mut hasher = DefaultHasher::new();
        notice.hash(&mut hasher);
        let told = Told { hash: hasher.finish(), trouble: notice.reason.is_warning() };
        self.told().insert(name.clone(), told) != Some(told)
    }

    /// Forgets what was told of trouble: the object is in order, so that the same trouble would be news again.
    pub(super) fn forget_trouble(&self, name: &ObjectName) {
        let mut told = self.told();
        if told.get(name).is_some_and(|last| last.trouble) {
            told.remove(name);
        }
    }

    /// Forgets all that was told: the object is gone.
    pub(super) fn forget(&self, name: &ObjectName) {
        self.told().remove(name);
    }

    fn told(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectName, Told>> {
        // A map is never left half changed by the calls made on it here.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::objects::NoticeReason;
    use super::*;

    #[test]
    fn nothing_is_told_twice_in_a_row() {
        let notices = Notices::default();
        let name = ObjectName::new("team-a", "scorer");
        let notice =
            |message: &str| Notice { reason: NoticeReason::RegistrationFailed, message: message.into() };
        assert!(notices.is_news(&name, &notice("a")));
        assert!(!notices.is_news(&name, &notice("a")));
        assert!(notices.is_news(&name, &notice("b")));
        notices.forget(&name);
        assert!(notices.is_news(&name, &notice("b")));
    }
}
