//! The decision table. Pure: a request in; an answer, or a question to the registry, out.
//!
//! One function for each group of rows, in the order of the table in `docs/design.md`; the first row that fits
//! decides. What stays true: a request that changes nothing of ours asks no registry; an UPDATE that does not
//! change our labels is never refused; deletion is never in the way.

mod labels;
mod row;
#[cfg(test)]
mod tests;

use crate::dns_name::{is_label, is_subdomain};
use crate::kserve::{InferenceService, KSERVE_FINALIZER, LabelKeys};
use crate::registration::{Effects, ObjectName, Wanted};

use super::answer::{Answer, Outcome, Verdict};
use super::message;
use super::policy::{Mode, OnMissing, Policies, Severity};
use super::review::{Operation, Request};

pub use labels::OurLabels;
pub use row::Row;

/// What a request comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It is answered already.
    Answer(Answer),
    /// The registry has to be asked first.
    Ask(Box<Question>),
}

/// What to ask the registry, and what the answer will depend on.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The row that asks.
    pub row: Row,
    /// What to do.
    pub action: Action,
    /// What the object asks for.
    pub wanted: Wanted,
    /// Whether anything may be created.
    pub effects: Effects,
    /// The id label as the object would be stored without us.
    pub present: Option<String>,
    /// The id label that this update drops, to be put back unless something better is found.
    pub dropped: Option<String>,
    /// Whether a present id gives way without a warning.
    pub replaces_silently: bool,
    /// For which faults the request may be refused.
    pub refusals: Refusals,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Check the model and the version, register nothing.
    Check,
    /// Find the entry, or create it.
    Register,
}

/// For which faults a request may be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusals {
    /// For all of them.
    Any,
    /// Only for a version that does not exist or is another model's.
    OfVersion,
    /// For none: the user is warned.
    None,
}

impl Refusals {
    /// The same, for a fault of the version.
    pub(super) fn for_version(self) -> Self {
        if self == Self::OfVersion { Self::Any } else { self }
    }
}

/// What the table says of a request.
#[must_use]
pub fn decide(request: &Request, policies: &Policies, keys: &LabelKeys) -> Decision {
    let untouched = |row| Decision::Answer(Answer::untouched(row));
    // Row 1: another kind or version, a subresource, DELETE, CONNECT.
    if !request.is_for_inference_service()
        || !matches!(request.operation, Operation::Create | Operation::Update)
    {
        return untouched(Row::NotOurs);
    }
    let (Some(new), namespace) = (&request.object, request.namespace()) else {
        return untouched(Row::NotOurs);
    };
    // The API server checks names after mutating admission. What it is about to refuse gets no entry.
    if !is_label(namespace) || request.object_name().is_some_and(|name| !is_subdomain(name)) {
        return untouched(Row::NotOurs);
    }
    // Row 2: it is being deleted.
    if new.metadata.being_deleted || request.old_object.as_ref().is_some_and(|old| old.metadata.being_deleted)
    {
        return untouched(Row::BeingDeleted);
    }
    let table = Table { request, policies, keys, new, ours: OurLabels::of(new, keys) };
    match (request.operation, &request.old_object) {
        (Operation::Update, Some(old)) => table.update(old, &OurLabels::of(old, keys)),
        // The API server sends the old object with every update; without it nothing can be told to have changed.
        (Operation::Update, None) => untouched(Row::Else),
        _ => table.create(),
    }
}

/// Whether our labels decide: in rows 2, 7 and 8 and for what never was our business, where nearly all updates end.
/// Nothing else of an object needs to be read then.
pub(super) fn our_labels_decide(request: &Request, keys: &LabelKeys) -> bool {
    let (Some(new), Some(old)) = (&request.object, &request.old_object) else { return false };
    let (now, before) = (OurLabels::of(new, keys), OurLabels::of(old, keys));
    let is_deleted = new.metadata.being_deleted || old.metadata.being_deleted;
    let is_settled = !now.opted_in() || (now.id.is_some() && now == before);
    request.operation == Operation::Update && (is_deleted || is_settled)
}

/// The rows for one object.
struct Table<'a> {
    request: &'a Request,
    policies: &'a Policies,
    keys: &'a LabelKeys,
    new: &'a InferenceService,
    ours: OurLabels<'a>,
}

impl Table<'_> {
    /// Rows 3 to 6.
    fn create(&self) -> Decision {
        // Row 3: neither model nor id label.
        if !self.ours.opted_in() {
            return self.missing(Row::CreateWithout, Refusals::Any);
        }
        let Some(name) = self.request.object_name() else {
            // Row 4: no name yet.
            if self.ours.id.is_some() {
                let message = message::id_before_name(self.keys);
                return self.invalid(Row::CreateUnnamed, message, Refusals::Any);
            }
            return self.ask(Row::CreateUnnamed, Action::Check, "", &Ask::default());
        };
        let row = if self.ours.id.is_none() {
            // Row 5: model label, no id label.
            Row::CreateWithModel
        } else {
            // Row 6: id label.
            Row::CreateWithId
        };
        self.ask(row, Action::Register, name, &Ask { labelled: self.ours.id, ..Ask::default() })
    }

    /// Rows 7 to 12.
    fn update(&self, old: &InferenceService, before: &OurLabels<'_>) -> Decision {
        let untouched = |row| Decision::Answer(Answer::untouched(row));
        let now = &self.ours;
        let changed = now != before;
        // Row 7: none of our labels changed, id there.
        if !changed && now.id.is_some() {
            return untouched(Row::UpdateUnchanged);
        }
        let Some(name) = self.request.object_name() else { return untouched(Row::Else) };
        if !now.opted_in() {
            // Row 8: last of model and id label dropped.
            return if before.opted_in() {
                self.missing(Row::UpdateDropped, Refusals::Any)
            } else {
                untouched(Row::Else)
            };
        }
        let model_changed = now.model != before.model;
        let id_set = now.id.is_some() && now.id != before.id;
        // Row 9: id added or set to another value, or model or registry changed.
        if id_set || model_changed || now.selector() != before.selector() {
            let ask = Ask {
                labelled: now.id.or(before.id),
                replaces_silently: model_changed || now.id.is_none(),
                ..Ask::default()
            };
            return self.ask(Row::UpdateChanged, Action::Register, name, &ask);
        }
        let version_changed = now.version != before.version;
        // Row 10: id dropped and model kept; or, with an id, the version changed.
        if let Some(id) = before.id {
            let dropped = now.id.is_none();
            if dropped || version_changed {
                let ask = Ask {
                    labelled: Some(id),
                    dropped: dropped.then_some(id),
                    refusals: if version_changed { Refusals::OfVersion } else { Refusals::None },
                    ..Ask::default()
                };
                return self.ask(Row::UpdateIdDropped, Action::Register, name, &ask);
            }
        }
        // Row 11: model label, never had an id.
        if now.model.is_some() && now.id.is_none() {
            if self.pods_start_anew(old) {
                let refusals = if changed { Refusals::Any } else { Refusals::None };
                return self.ask(
                    Row::UpdateLate,
                    Action::Register,
                    name,
                    &Ask { refusals, ..Ask::default() },
                );
            }
            return untouched(Row::UpdateLate);
        }
        // Row 12: anything else.
        untouched(Row::Else)
    }

    /// Whether KServe will start the pods anew, or for the first time, after this update in any case.
    fn pods_start_anew(&self, old: &InferenceService) -> bool {
        let has_finalizer =
            |object: &InferenceService| object.metadata.finalizers.iter().any(|key| key == KSERVE_FINALIZER);
        !self.new.metadata.labels.same_as(&old.metadata.labels)
            || !self.new.predictor.same_model_as(&old.predictor)
            || (has_finalizer(self.new) && !has_finalizer(old))
    }

    /// The policy for an object that names neither a model nor an entry.
    fn missing(&self, row: Row, refusals: Refusals) -> Decision {
        let mut answer = Answer::untouched(row);
        answer.outcome = Outcome::Missing;
        let severity = match self.policies.on_missing {
            OnMissing::Allow => return Decision::Answer(answer),
            OnMissing::Warn => Severity::Warn,
            OnMissing::Deny => Severity::Deny,
        };
        Decision::Answer(speak(
            answer,
            message::nothing_named(self.keys),
            severity,
            403,
            refusals,
            self.policies.mode,
        ))
    }

    /// The policy for an object with which something is wrong.
    fn invalid(&self, row: Row, message: String, refusals: Refusals) -> Decision {
        let answer = Answer { outcome: Outcome::Invalid, ..Answer::untouched(row) };
        let severity = self.policies.on_invalid;
        Decision::Answer(speak(answer, message, severity, 422, refusals, self.policies.mode))
    }

    /// Asks the registry, once the labels themselves are in order.
    fn ask(&self, row: Row, action: Action, name: &str, ask: &Ask<'_>) -> Decision {
        let Ok(model) = self.ours.model.map(str::parse).transpose() else {
            let message = message::not_an_id(&self.keys.registered_model_id);
            return self.put_back(self.invalid(row, message, ask.refusals), ask);
        };
        let Ok(version) = self.ours.version.map(str::parse).transpose() else {
            let message = message::not_an_id(&self.keys.model_version_id);
            return self.put_back(self.invalid(row, message, ask.refusals.for_version()), ask);
        };
        let labelled = ask.labelled.map(str::parse).transpose();
        if labelled.is_err() && model.is_none() {
            let message = message::not_an_id(&self.keys.inference_service_id);
            return self.invalid(row, message, ask.refusals);
        }
        let dry = self.request.dry_run || self.policies.mode == Mode::Observe;
        // Observe says what enforce would have done.
        let refuses = self.policies.mode != Mode::Warn && ask.refusals != Refusals::None;
        Decision::Ask(Box::new(Question {
            row,
            action,
            wanted: Wanted {
                object: ObjectName::new(self.request.namespace(), name),
                uid: self.new.metadata.uid.clone(),
                model,
                version,
                labelled: labelled.unwrap_or_default(),
                runtime: self.new.predictor.runtime().to_owned(),
                refuse_archived: refuses && self.policies.on_archived == Severity::Deny,
            },
            effects: if dry { Effects::ReadOnly } else { Effects::Create },
            present: self.ours.id.map(str::to_owned),
            dropped: ask.dropped.map(str::to_owned),
            replaces_silently: ask.replaces_silently,
            refusals: ask.refusals,
        }))
    }

    /// Adds the id that this update drops to an answer that was given without the registry.
    fn put_back(&self, decision: Decision, ask: &Ask<'_>) -> Decision {
        match decision {
            Decision::Answer(mut answer) if answer.allowed() && self.policies.mode != Mode::Observe => {
                answer.label = ask.dropped.map(str::to_owned);
                Decision::Answer(answer)
            }
            decision => decision,
        }
    }
}

/// What differs from one asking row to the next.
struct Ask<'a> {
    labelled: Option<&'a str>,
    dropped: Option<&'a str>,
    replaces_silently: bool,
    refusals: Refusals,
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Self { labelled: None, dropped: None, replaces_silently: false, refusals: Refusals::Any }
    }
}

/// Refuses, warns or only notes, as severity, row and mode say.
pub(super) fn speak(
    mut answer: Answer,
    message: String,
    severity: Severity,
    code: u16,
    refusals: Refusals,
    mode: Mode,
) -> Answer {
    let denies = severity == Severity::Deny && refusals == Refusals::Any;
    match mode {
        Mode::Observe => {
            let verb = if denies { "deny" } else { "warn" };
            let before = answer.would.take().map(|would| format!("{would}; ")).unwrap_or_default();
            answer.would = Some(format!("{before}{verb}: {message}"));
        }
        Mode::Enforce if denies => answer.verdict = Verdict::Deny { code, message },
        Mode::Enforce | Mode::Warn => answer.warnings.push(message),
    }
    answer
}
