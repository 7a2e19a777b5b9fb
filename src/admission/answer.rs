//! The answer to a review, before it is written down.

use crate::registry::EntryId;

use super::decide::Row;

/// The answer to a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The row of the table that decided.
    pub row: Row,
    /// Whether the object goes through.
    pub verdict: Verdict,
    /// The value that the id label gets.
    pub label: Option<String>,
    /// What the user is told.
    pub warnings: Vec<String>,
    /// The object's entry.
    pub entry: Option<EntryId>,
    /// The name of its registry.
    pub registry: Option<String>,
    /// What would have been, in mode observe.
    pub would: Option<String>,
    /// What it comes to, for metrics and the log.
    pub outcome: Outcome,
}

/// Whether the object goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Allow,
    /// It does not.
    Deny {
        /// HTTP status, 400 or above.
        code: u16,
        /// What is wrong and what to do, in one sentence.
        message: String,
    },
}

/// What an answer comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Not the registrar's business.
    Untouched,
    /// It has the entry it should have.
    Registered,
    /// It names neither a model nor an entry.
    Missing,
    /// What it names is wrong.
    Invalid,
    /// What it names was put away.
    Archived,
    /// The registry could not be asked.
    Unavailable,
    /// It will be registered when it is more than a dry run.
    DryRun,
}

impl Outcome {
    /// The outcome in a metric's label and in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Untouched => "untouched",
            Self::Registered => "registered",
            Self::Missing => "missing",
            Self::Invalid => "invalid",
            Self::Archived => "archived",
            Self::Unavailable => "unavailable",
            Self::DryRun => "dry_run",
        }
    }
}

impl Answer {
    /// It goes through as it is.
    #[must_use]
    pub fn untouched(row: Row) -> Self {
        Self {
            row,
            verdict: Verdict::Allow,
            label: None,
            warnings: Vec::new(),
            entry: None,
            registry: None,
            would: None,
            outcome: Outcome::Untouched,
        }
    }

    /// Whether it goes through.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.verdict == Verdict::Allow
    }
}
