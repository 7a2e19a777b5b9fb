//! Switches for tests: what is wrong with the registry goes in, what happens to a request comes out.
//!
//! What stays true: whoever sets the switches sets all of them; what is absent or null is back to normal. The
//! switches themselves, and the log of requests, answer whatever is wrong.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

/// Everything that can be wrong with the registry; the default is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Faults {
    /// The versions of the API that there are; the other answers 404 in plain text, as an old registry does.
    #[serde(deserialize_with = "or_default")]
    pub api: Api,
    /// The state of the database behind the registry.
    #[serde(deserialize_with = "or_default")]
    pub database: Database,
    /// How long each answer is held back. The work is done at once, so a caller who gives up has still done it.
    #[serde(deserialize_with = "or_default")]
    pub delay_ms: u64,
    /// Refuse with this status and do nothing: in plain text as a proxy would, or with `message` as the registry.
    pub status: Option<u16>,
    /// The message of a refusal by `status`.
    pub message: Option<String>,
    /// Do the work and close the connection without an answer.
    #[serde(deserialize_with = "or_default")]
    pub drop: bool,
    /// Delay, refuse and drop only requests with this method.
    pub method: Option<String>,
    /// Delay, refuse and drop only requests with this text in their path or query.
    pub path: Option<String>,
    /// Delay, refuse and drop only so many more requests; it counts down to 0.
    pub times: Option<u32>,
}

/// Which versions of the API there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// Both, as since the summer of 2026.
    #[default]
    Both,
    /// Only v1.
    V1,
    /// Only v1alpha3, as before.
    V1alpha3,
}

/// The state of the database behind the registry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Database {
    /// All is well.
    #[default]
    Up,
    /// Lists, finds and most creates answer 500; whatever begins with a look-up by id answers 404.
    Down,
    /// Not connected yet: everything answers 503 in plain text.
    Booting,
}

impl Api {
    /// Whether requests to that version are answered.
    pub(super) fn speaks(self, version: &str) -> bool {
        match version {
            "v1" => self != Self::V1alpha3,
            "v1alpha3" => self != Self::V1,
            _ => false,
        }
    }
}

/// What happens to one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) delay: Option<Duration>,
    pub(super) refusal: Option<(u16, Option<String>)>,
    pub(super) drop: bool,
}

impl Faults {
    /// Decides what happens to a request, and counts it.
    pub(super) fn judge(&mut self, method: &str, target: &str) -> Fate {
        let harmless = self.delay_ms == 0 && self.status.is_none() && !self.drop;
        let spared = self.method.as_deref().is_some_and(|only| only != method)
            || self.path.as_deref().is_some_and(|only| !target.contains(only))
            || self.times == Some(0);
        if harmless || spared {
            return Fate::default();
        }
        if let Some(times) = &mut self.times {
            *times -= 1;
        }
        Fate {
            delay: (self.delay_ms > 0).then(|| Duration::from_millis(self.delay_ms)),
            refusal: self.status.map(|status| (status, self.message.clone())),
            drop: self.drop,
        }
    }
}

/// The switches, shared between the requests and whoever turns them.
#[derive(Debug, Default)]
pub(super) struct Switches(Mutex<Faults>);

impl Switches {
    pub(super) fn get(&self) -> Faults {
        self.lock().clone()
    }

    pub(super) fn set(&self, faults: Faults) {
        *self.lock() = faults;
    }

    pub(super) fn judge(&self, method: &str, target: &str) -> Fate {
        self.lock().judge(method, target)
    }

    pub(super) fn api(&self) -> Api {
        self.lock().api
    }

    pub(super) fn database(&self) -> Database {
        self.lock().database
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Faults> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Null means the same as absent.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(json: &str) -> Faults {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn absent_and_null_are_normal() {
        assert_eq!(faults("{}"), Faults::default());
        assert_eq!(
            faults(
                r#"{"api": null, "database": null, "delayMs": null, "status": null, "drop": null, "times": null}"#
            ),
            Faults::default()
        );
    }

    #[test]
    fn an_unknown_switch_is_refused() {
        assert!(serde_json::from_str::<Faults>(r#"{"databse": "down"}"#).is_err());
    }

    #[test]
    fn a_fault_hits_only_what_it_names_and_only_so_often() {
        let mut faults =
            faults(r#"{"status": 503, "method": "POST", "path": "/inference_services", "times": 2}"#);
        let post = "/api/model_registry/v1/inference_services";
        let refused = Fate { refusal: Some((503, None)), ..Fate::default() };
        assert_eq!(faults.judge("GET", post), Fate::default());
        assert_eq!(faults.judge("POST", "/api/model_registry/v1/registered_models"), Fate::default());
        assert_eq!(faults.judge("POST", post), refused);
        assert_eq!(faults.judge("POST", post), refused);
        assert_eq!(faults.judge("POST", post), Fate::default());
        assert_eq!(faults.times, Some(0));
    }
}
