//! The rows of the decision table, by name.

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Row {
    /// Another kind or version, a subresource, DELETE, CONNECT.
    NotOurs = 1,
    /// deletionTimestamp set.
    BeingDeleted,
    /// CREATE, neither model nor id label.
    CreateWithout,
    /// CREATE, no name yet.
    CreateUnnamed,
    /// CREATE, model label, no id label.
    CreateWithModel,
    /// CREATE, id label.
    CreateWithId,
    /// UPDATE, none of our labels changed, id there.
    UpdateUnchanged,
    /// UPDATE, last of model and id label dropped.
    UpdateDropped,
    /// UPDATE, id added or set to another value, or model or registry changed.
    UpdateChanged,
    /// UPDATE, id dropped and model kept; or, with an id, the version changed.
    UpdateIdDropped,
    /// UPDATE, model label, never had an id.
    UpdateLate,
    /// Anything else.
    Else,
}

impl Row {
    /// Its number in the table.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}
