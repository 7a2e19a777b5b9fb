//! What is read of the status: addresses, readiness, and whether the model could not be loaded.

use serde::de::{IgnoredAny, MapAccess};

use super::fingerprint::Fingerprint;
use super::lenient::{Map, MapList, Members, Text};

/// Values of `modelStatus.transitionStatus` that mean failure. `UpToDate` is the default, so it means nothing.
const FAILED: [&str; 2] = ["BlockedByFailedLoad", "InvalidSpec"];

/// What is read of the status.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    url: Option<String>,
    address: Option<String>,
    /// Status of the condition `Ready`.
    pub ready: Readiness,
    /// Whether the model could not be loaded, or cannot be.
    pub failed: bool,
    all: Fingerprint,
}

/// Status of the condition `Ready`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Readiness {
    /// It serves.
    True,
    /// It does not.
    False,
    /// Nobody has said yet.
    #[default]
    Unknown,
}

impl Readiness {
    /// As a condition writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl Status {
    /// `status.url`, else `status.address.url`.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref().or(self.address.as_deref())
    }

    /// Whether both say the same, also in what was not kept.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Members for Status {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        let value = match key {
            "url" => {
                self.url = members.next_value::<Text>()?.0.filter(|url| !url.is_empty());
                Fingerprint::of(self.url.as_deref().unwrap_or_default())
            }
            "address" => {
                self.address = members.next_value::<Map<Address>>()?.0.url;
                Fingerprint::of(self.address.as_deref().unwrap_or_default())
            }
            "conditions" => {
                let conditions = members.next_value::<MapList<Condition>>()?.0;
                let ready = conditions.iter().find(|condition| condition.kind.as_deref() == Some("Ready"));
                self.ready = match ready.and_then(|condition| condition.status.as_deref()) {
                    Some("True") => Readiness::True,
                    Some("False") => Readiness::False,
                    _ => Readiness::Unknown,
                };
                let mut all = Fingerprint::default();
                for condition in &conditions {
                    let status = Fingerprint::of(condition.status.as_deref().unwrap_or_default());
                    all.add_member(condition.kind.as_deref().unwrap_or_default(), status);
                }
                all
            }
            "modelStatus" => {
                let model = members.next_value::<Map<ModelStatus>>()?.0;
                self.failed =
                    model.transition.is_some_and(|transition| FAILED.contains(&transition.as_str()));
                model.all
            }
            _ => members.next_value()?,
        };
        self.all.add_member(key, value);
        Ok(())
    }
}

#[derive(Default)]
struct Address {
    url: Option<String>,
}

impl Members for Address {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        match key {
            "url" => self.url = members.next_value::<Text>()?.0.filter(|url| !url.is_empty()),
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

#[derive(Default)]
struct Condition {
    kind: Option<String>,
    status: Option<String>,
}

impl Members for Condition {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        match key {
            "type" => self.kind = members.next_value::<Text>()?.0,
            "status" => self.status = members.next_value::<Text>()?.0,
            _ => drop(members.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

#[derive(Default)]
struct ModelStatus {
    transition: Option<String>,
    all: Fingerprint,
}

impl Members for ModelStatus {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error> {
        let value = if key == "transitionStatus" {
            self.transition = members.next_value::<Text>()?.0;
            Fingerprint::of(self.transition.as_deref().unwrap_or_default())
        } else {
            members.next_value()?
        };
        self.all.add_member(key, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(status: &serde_json::Value) -> Status {
        serde_json::from_value::<Map<Status>>(status.clone()).unwrap().0
    }

    #[test]
    fn the_url_is_the_status_s_own_or_the_address_s() {
        let address = json!({"address": {"url": "http://inside"}});
        assert_eq!(read(&address).url(), Some("http://inside"));
        assert_eq!(read(&json!({"url": "http://a", "address": {"url": "http://b"}})).url(), Some("http://a"));
        assert_eq!(read(&json!({"url": "", "address": 5})).url(), None);
    }

    #[test]
    fn readiness_is_the_condition_ready() {
        let with = |status: &str| json!({"conditions": [{"type": "X", "status": "True"}, {"type": "Ready", "status": status}]});
        assert_eq!(read(&with("True")).ready, Readiness::True);
        assert_eq!(read(&with("False")).ready, Readiness::False);
        assert_eq!(read(&with("odd")).ready, Readiness::Unknown);
        assert_eq!(
            read(&json!({"conditions": [7, {"type": "X", "status": "True"}]})).ready,
            Readiness::Unknown
        );
    }

    #[test]
    fn failure_is_told_by_the_transition() {
        for (transition, failed) in
            [("BlockedByFailedLoad", true), ("InvalidSpec", true), ("UpToDate", false)]
        {
            assert_eq!(
                read(&json!({"modelStatus": {"transitionStatus": transition}})).failed,
                failed,
                "{transition}"
            );
        }
    }

    #[test]
    fn a_change_anywhere_in_the_status_shows() {
        let before = read(&json!({"modelStatus": {"states": {"activeModelState": "Loaded"}}}));
        let after = read(&json!({"modelStatus": {"states": {"activeModelState": "Loading"}}}));
        assert!(!before.same_as(&after));
    }
}
