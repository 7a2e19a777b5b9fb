//! Admission: a review in, an answer out.
//!
//! `body` takes a review in, `reading` finds a thread to read it on, and `review` knows the wire; `decide` holds the
//! table and says what to ask the registry, `conclude` turns what came of it into an answer, `respond` writes the
//! wire; `handler` runs them in that order. What stays true: a review that is answered at all is answered before its
//! deadline, with its own uid; a patch touches the id label and nothing else; nothing that is broken elsewhere keeps
//! an object from being deleted, finalized or scaled.

mod answer;
mod body;
mod conclude;
mod deadline;
mod decide;
mod handler;
mod message;
mod policy;
mod reading;
mod respond;
mod review;

pub use answer::{Answer, Outcome, Verdict};
pub use conclude::{Reply, conclude};
pub use decide::{Action, Decision, OurLabels, Question, Refusals, Row, decide};
pub use handler::{PATH, Webhook, router};
pub use policy::{Mode, OnMissing, Policies, Severity};
pub use respond::respond;
pub use review::{Operation, Request, ReviewError};
