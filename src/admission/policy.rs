//! What an administrator chooses.

use clap::ValueEnum;

/// How far the registrar goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum Mode {
    /// The policies hold
    #[default]
    Enforce,
    /// Every denial is a warning instead
    Warn,
    /// Nothing is changed and nobody is told; the log and the audit annotation say what would have been
    Observe,
}

impl Mode {
    /// The value of the label on a Namespace. `off` keeps reviews away altogether; one that comes all the same,
    /// from before the label was seen, is only observed.
    #[must_use]
    pub fn of_label(value: &str) -> Option<Self> {
        match value {
            "enforce" => Some(Self::Enforce),
            "warn" => Some(Self::Warn),
            "observe" | "off" => Some(Self::Observe),
            _ => None,
        }
    }
}

/// What becomes of an object that names neither a model nor an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum OnMissing {
    /// It goes through
    #[default]
    Allow,
    /// It goes through with a warning
    Warn,
    /// It is refused
    Deny,
}

/// What becomes of an object with which something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Severity {
    /// It goes through with a warning
    Warn,
    /// It is refused
    Deny,
}

/// All of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policies {
    /// How far the registrar goes.
    pub mode: Mode,
    /// Neither a model nor an entry is named.
    pub on_missing: OnMissing,
    /// What is named does not exist, or belongs to somebody else.
    pub on_invalid: Severity,
    /// What is named was put away by its owner.
    pub on_archived: Severity,
    /// The registry cannot be asked.
    pub on_unavailable: Severity,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            on_missing: OnMissing::Allow,
            on_invalid: Severity::Deny,
            on_archived: Severity::Warn,
            on_unavailable: Severity::Warn,
        }
    }
}
