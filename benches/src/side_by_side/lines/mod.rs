//! The lines of the table, each group in a file of its own: a scene goes in, lines come out.
//!
//! Within a round ours and the reference take turns, so that whatever else the machine does meets both.

mod apply;
mod create;
mod growth;
mod large;
mod retired;
mod start;
mod syncer;
mod update;

use super::scene::Scene;
use super::table::Line;

/// One group of lines.
pub(crate) struct Group {
    /// To choose it by on the command line.
    pub(crate) name: &'static str,
    pub(crate) measure: fn(&Scene) -> anyhow::Result<Vec<Line>>,
}

/// All groups, in the order of the table.
pub(crate) const GROUPS: [Group; 8] = [
    Group { name: "update", measure: update::measure },
    Group { name: "create", measure: create::measure },
    Group { name: "apply", measure: apply::measure },
    Group { name: "growth", measure: growth::measure },
    Group { name: "syncer", measure: syncer::measure },
    Group { name: "retired", measure: retired::measure },
    Group { name: "start", measure: start::measure },
    Group { name: "large", measure: large::measure },
];
