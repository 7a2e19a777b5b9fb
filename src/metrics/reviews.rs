//! Admission reviews.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::admission::{Operation, Outcome};

/// In seconds: from a review that asks nobody (50 µs) to the API server's limit.
const BUCKETS: [f64; 13] =
    [0.00005, 0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];

/// Counts and times reviews.
#[derive(Debug, Clone)]
pub struct ReviewMetrics {
    reviews: Family<Review, Counter>,
    seconds: Family<ByOperation, Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Review {
    operation: OperationValue,
    outcome: OutcomeValue,
    allowed: AllowedValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOperation {
    operation: OperationValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct OperationValue(Operation);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct OutcomeValue(Outcome);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct AllowedValue(bool);

impl EncodeLabelValue for OperationValue {
    fn encode(&self, encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>) -> std::fmt::Result {
        let name = match self.0 {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
            Operation::Other => "other",
        };
        EncodeLabelValue::encode(&name, encoder)
    }
}

impl EncodeLabelValue for OutcomeValue {
    fn encode(&self, encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>) -> std::fmt::Result {
        EncodeLabelValue::encode(&self.0.as_str(), encoder)
    }
}

impl EncodeLabelValue for AllowedValue {
    fn encode(&self, encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>) -> std::fmt::Result {
        EncodeLabelValue::encode(&if self.0 { "true" } else { "false" }, encoder)
    }
}

impl Default for ReviewMetrics {
    fn default() -> Self {
        Self { reviews: Family::default(), seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)) }
    }
}

impl ReviewMetrics {
    /// Notes a review that was answered.
    pub fn answered(&self, operation: Operation, outcome: Outcome, allowed: bool, took: Duration) {
        let operation = OperationValue(operation);
        let review = Review { operation, outcome: OutcomeValue(outcome), allowed: AllowedValue(allowed) };
        self.reviews.get_or_create(&review).inc();
        self.seconds.get_or_create(&ByOperation { operation }).observe(took.as_secs_f64());
    }

    pub(super) fn register(&self, all: &mut Registry) {
        all.register("reviews", "Admission reviews, by operation, outcome and verdict", self.reviews.clone());
        let seconds = self.seconds.clone();
        all.register("review_duration_seconds", "Time to answer an admission review, by operation", seconds);
    }
}
