//! Calls to registries.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// In seconds: from a read on loopback (0.5 ms) to the limit of a call.
const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 3.0];

/// Counts and times calls to registries.
#[derive(Debug, Clone)]
pub struct RegistryMetrics {
    calls: Family<Call, Counter>,
    seconds: Family<Method, Histogram>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallOutcome {
    /// With an entity or a list.
    Ok,
    /// No such entity.
    Missing,
    /// There is one already.
    Conflict,
    /// The registry refuses the request.
    Refused,
    /// No usable answer.
    Unavailable,
    /// No answer in time.
    TimedOut,
    /// Not sent: the registry has stopped answering.
    Suspended,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    method: MethodValue,
    outcome: CallOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: MethodValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum MethodValue {
    Get,
    Post,
    Patch,
}

impl EncodeLabelValue for CallOutcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed_out",
            Self::Suspended => "suspended",
        };
        EncodeLabelValue::encode(&name, encoder)
    }
}

impl EncodeLabelValue for MethodValue {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
        };
        EncodeLabelValue::encode(&name, encoder)
    }
}

impl Default for RegistryMetrics {
    fn default() -> Self {
        Self { calls: Family::default(), seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)) }
    }
}

impl RegistryMetrics {
    /// Notes a call.
    pub fn called(&self, method: &http::Method, outcome: CallOutcome, took: Duration) {
        let method = match *method {
            http::Method::POST => MethodValue::Post,
            http::Method::PATCH => MethodValue::Patch,
            _ => MethodValue::Get,
        };
        self.calls.get_or_create(&Call { method, outcome }).inc();
        self.seconds.get_or_create(&Method { method }).observe(took.as_secs_f64());
    }

    pub(super) fn register(&self, all: &mut Registry) {
        let calls = self.calls.clone();
        all.register("registry_calls", "Calls to registries, by method and outcome", calls);
        let seconds = self.seconds.clone();
        all.register("registry_call_duration_seconds", "Time of a call to a registry, by method", seconds);
    }
}
