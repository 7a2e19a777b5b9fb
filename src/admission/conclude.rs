//! From what the registry said to the answer. Pure: the other half of the decision table.

use crate::kserve::LabelKeys;
use crate::registration::{Archived, Invalid, NotRegistered, Registered};
use crate::registry::directory::ChoiceError;

use super::answer::{Answer, Outcome};
use super::decide::{Question, Refusals, speak};
use super::message;
use super::policy::{Mode, Policies, Severity};

/// What came of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The model and the version are there.
    Checked(Option<Archived>),
    /// The object has its entry.
    Registered(Box<Registered>),
    /// It has none.
    NotRegistered(NotRegistered),
    /// Its registry cannot be told.
    NoRegistry(ChoiceError),
}

/// The answer to a question that the registry, or the lack of one, has replied to.
#[must_use]
pub fn conclude(
    question: &Question,
    reply: &Reply,
    registry: &str,
    policies: &Policies,
    keys: &LabelKeys,
) -> Answer {
    let case = Case { question, registry, policies, keys };
    match reply {
        Reply::Checked(archived) => case.archived(case.answer(Outcome::Untouched), *archived),
        Reply::Registered(registered) => case.registered(registered),
        Reply::NotRegistered(NotRegistered::WouldCreate { archived }) => {
            let mut answer = case.archived(case.answer(Outcome::DryRun), *archived);
            if policies.mode == Mode::Observe {
                answer.would.get_or_insert_with(|| "register".to_owned());
            } else {
                answer.warnings.push(message::dry_run(keys, registry));
            }
            answer
        }
        Reply::NotRegistered(NotRegistered::Invalid(invalid)) => {
            let is_of_version =
                matches!(invalid, Invalid::NoSuchVersion(_) | Invalid::VersionOfAnotherModel { .. });
            let message = message::invalid(keys, registry, invalid);
            case.fault(Outcome::Invalid, message, policies.on_invalid, 422, is_of_version)
        }
        Reply::NotRegistered(NotRegistered::Archived(archived)) => {
            let message = message::archived(keys, registry, *archived);
            let is_of_version = matches!(archived, Archived::Version(_));
            case.fault(Outcome::Archived, message, policies.on_archived, 422, is_of_version)
        }
        Reply::NotRegistered(NotRegistered::Unavailable(error)) => {
            let refused = policies.on_unavailable == Severity::Deny
                && question.refusals == Refusals::Any
                && policies.mode == Mode::Enforce;
            let message = message::unavailable(registry, error, refused);
            case.fault(Outcome::Unavailable, message, policies.on_unavailable, 503, false)
        }
        Reply::NoRegistry(error) if error.is_unavailable() => {
            let message = message::no_registry(keys, error);
            case.fault(Outcome::Unavailable, message, policies.on_unavailable, 503, false)
        }
        Reply::NoRegistry(error) => {
            let message = message::no_registry(keys, error);
            case.fault(Outcome::Invalid, message, policies.on_invalid, 422, false)
        }
    }
}

struct Case<'a> {
    question: &'a Question,
    registry: &'a str,
    policies: &'a Policies,
    keys: &'a LabelKeys,
}

impl Case<'_> {
    fn answer(&self, outcome: Outcome) -> Answer {
        let registry = (!self.registry.is_empty()).then(|| self.registry.to_owned());
        Answer { registry, outcome, ..Answer::untouched(self.question.row) }
    }

    /// The object has its entry: the label says so, now or already.
    fn registered(&self, registered: &Registered) -> Answer {
        let mut answer = self.answer(Outcome::Registered);
        let id = registered.entry.id.to_string();
        answer.entry = Some(registered.entry.id);
        let before = self.question.present.as_ref().or(self.question.dropped.as_ref());
        let replaced = before.filter(|before| **before != id && !self.question.replaces_silently);
        if self.policies.mode == Mode::Observe {
            let would = if self.question.present.as_ref() == Some(&id) { "keep" } else { "set" };
            answer.would = Some(format!("{would} label {} to {id}", self.keys.inference_service_id));
            return self.archived(answer, registered.archived);
        }
        answer.warnings.extend(replaced.map(|before| message::replaced(self.keys, before, &id)));
        if self.question.present.as_ref() != Some(&id) {
            answer.label = Some(id);
        }
        self.archived(answer, registered.archived)
    }

    /// Tells of what was put away. Where that is refused, nothing was registered to begin with.
    fn archived(&self, answer: Answer, archived: Option<Archived>) -> Answer {
        let Some(archived) = archived else { return answer };
        let message = message::archived(self.keys, self.registry, archived);
        speak(answer, message, Severity::Warn, 422, self.question.refusals, self.policies.mode)
    }

    /// The object has no entry. An id that this update drops goes back all the same.
    fn fault(
        &self,
        outcome: Outcome,
        message: String,
        severity: Severity,
        code: u16,
        is_of_version: bool,
    ) -> Answer {
        let refusals =
            if is_of_version { self.question.refusals.for_version() } else { self.question.refusals };
        let mut answer = speak(self.answer(outcome), message, severity, code, refusals, self.policies.mode);
        if answer.allowed() && self.policies.mode != Mode::Observe {
            answer.label.clone_from(&self.question.dropped);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::admission::answer::Verdict;
    use crate::admission::decide::{Action, Row};
    use crate::registration::{Effects, ObjectName, Origin, Wanted, ownership::Tie};
    use crate::registry::Unavailability;

    /// A question about an object that carries `present` and drops `dropped`.
    fn question(
        present: Option<&str>,
        dropped: Option<&str>,
        silently: bool,
        refusals: Refusals,
    ) -> Question {
        Question {
            row: Row::CreateWithId,
            action: Action::Register,
            wanted: Wanted {
                object: ObjectName::new("team-a", "scorer"),
                uid: None,
                model: "7".parse().ok(),
                version: None,
                labelled: None,
                runtime: "custom".into(),
                refuse_archived: false,
            },
            effects: Effects::Create,
            present: present.map(str::to_owned),
            dropped: dropped.map(str::to_owned),
            replaces_silently: silently,
            refusals,
        }
    }

    fn registered(id: &str) -> Reply {
        let entry = json!({"id": id, "registeredModelId": "7", "servingEnvironmentId": "1"});
        let entry = serde_json::from_value(entry).expect("an entry");
        Reply::Registered(Box::new(Registered {
            entry,
            origin: Origin::Found,
            tie: Tie::Ours,
            archived: None,
        }))
    }

    fn invalid() -> Reply {
        Reply::NotRegistered(Invalid::NoSuchModel("7".parse().unwrap()).into())
    }

    fn bad_version() -> Reply {
        Reply::NotRegistered(Invalid::NoSuchVersion("3".parse().unwrap()).into())
    }

    fn unavailable() -> Reply {
        Reply::NotRegistered(Unavailability::Suspended.into())
    }

    fn archived_version() -> Reply {
        Reply::NotRegistered(NotRegistered::Archived(Archived::Version("3".parse().unwrap())))
    }

    fn archived() -> Reply {
        Reply::NotRegistered(NotRegistered::Archived(Archived::Model("7".parse().unwrap())))
    }

    /// An answer in words: `allow`, `deny 422`, then `set=9` for the label, `warned`, `would`.
    fn told(answer: &Answer) -> String {
        let mut words = vec![match &answer.verdict {
            Verdict::Allow => "allow".to_owned(),
            Verdict::Deny { code, .. } => format!("deny {code}"),
        }];
        words.extend(answer.label.as_ref().map(|id| format!("set={id}")));
        words.extend(answer.warnings.iter().map(|_| "warned".to_owned()));
        words.extend(answer.would.as_ref().map(|_| "would".to_owned()));
        words.join(" ")
    }

    fn concluded(question: &Question, reply: &Reply, policies: Policies) -> String {
        told(&conclude(question, reply, "registry", &policies, &LabelKeys::default()))
    }

    #[rstest]
    #[case::new_label(None, None, false, "allow set=9")]
    #[case::present_and_good(Some("9"), None, false, "allow")]
    #[case::present_and_stale(Some("8"), None, false, "allow set=9 warned")]
    #[case::present_and_no_id(Some("x"), None, false, "allow set=9 warned")]
    #[case::present_and_of_the_former_model(Some("8"), None, true, "allow set=9")]
    #[case::dropped_and_good(None, Some("9"), false, "allow set=9")]
    #[case::dropped_and_stale(None, Some("8"), false, "allow set=9 warned")]
    fn an_entry_becomes_the_label(
        #[case] present: Option<&str>,
        #[case] dropped: Option<&str>,
        #[case] silently: bool,
        #[case] want: &str,
    ) {
        let question = question(present, dropped, silently, Refusals::Any);
        assert_eq!(concluded(&question, &registered("9"), Policies::default()), want);
    }

    #[rstest]
    #[case::invalid_deny(&invalid(), Severity::Deny, "deny 422")]
    #[case::invalid_warn(&invalid(), Severity::Warn, "allow warned")]
    #[case::archived_deny(&archived(), Severity::Deny, "deny 422")]
    #[case::unavailable_deny(&unavailable(), Severity::Deny, "deny 503")]
    #[case::unavailable_warn(&unavailable(), Severity::Warn, "allow warned")]
    #[case::no_service(&Reply::NoRegistry(ChoiceError::NoneFound), Severity::Deny, "deny 503")]
    #[case::not_synced(&Reply::NoRegistry(ChoiceError::NotYetKnown), Severity::Warn, "allow warned")]
    #[case::several(&Reply::NoRegistry(ChoiceError::Several("a, b".into())), Severity::Deny, "deny 422")]
    fn each_policy_speaks_for_its_own_fault(
        #[case] reply: &Reply,
        #[case] severity: Severity,
        #[case] want: &str,
    ) {
        let policies = Policies {
            on_invalid: severity,
            on_archived: severity,
            on_unavailable: severity,
            ..Policies::default()
        };
        assert_eq!(concluded(&question(None, None, false, Refusals::Any), reply, policies), want);
    }

    #[rstest]
    #[case::model_gone(&invalid(), "allow set=9 warned")]
    #[case::registry_gone(&unavailable(), "allow set=9 warned")]
    #[case::version_changed(&bad_version(), "deny 422")]
    #[case::version_archived(&archived_version(), "deny 422")]
    #[case::model_archived(&archived(), "allow set=9 warned")]
    fn row_10_an_id_goes_back_unless_the_version_is_at_fault(#[case] reply: &Reply, #[case] want: &str) {
        let policies =
            Policies { on_unavailable: Severity::Deny, on_archived: Severity::Deny, ..Policies::default() };
        assert_eq!(concluded(&question(None, Some("9"), false, Refusals::OfVersion), reply, policies), want);
    }

    #[rstest]
    #[case::invalid(&invalid())]
    #[case::bad_version(&bad_version())]
    #[case::unavailable(&unavailable())]
    fn an_update_that_changes_no_label_of_ours_is_never_refused(#[case] reply: &Reply) {
        let policies = Policies { on_unavailable: Severity::Deny, ..Policies::default() };
        assert_eq!(concluded(&question(None, None, false, Refusals::None), reply, policies), "allow warned");
    }

    #[rstest]
    #[case::registered(&registered("9"), "allow set=9", "allow would")]
    #[case::invalid(&invalid(), "allow warned", "allow would")]
    #[case::unavailable(&unavailable(), "allow warned", "allow would")]
    fn the_modes_that_refuse_nothing(#[case] reply: &Reply, #[case] warn: &str, #[case] observe: &str) {
        let question = question(None, None, false, Refusals::Any);
        let in_mode = |mode| Policies { mode, on_unavailable: Severity::Deny, ..Policies::default() };
        assert_eq!(concluded(&question, reply, in_mode(Mode::Warn)), warn);
        assert_eq!(concluded(&question, reply, in_mode(Mode::Observe)), observe);
    }

    #[rstest]
    #[case::dropped_id_stays_dropped(Some("9"))]
    #[case::nothing_dropped(None)]
    fn a_dry_run_that_finds_nothing_warns_and_changes_nothing(#[case] dropped: Option<&str>) {
        let reply = Reply::NotRegistered(NotRegistered::WouldCreate { archived: None });
        let question = question(None, dropped, false, Refusals::Any);
        assert_eq!(concluded(&question, &reply, Policies::default()), "allow warned");
    }

    #[test]
    fn what_is_archived_is_registered_with_a_warning() {
        let Reply::Registered(mut registered) = registered("9") else { panic!("registered") };
        registered.archived = Some(Archived::Version("3".parse().unwrap()));
        let question = question(None, None, false, Refusals::Any);
        let told = concluded(&question, &Reply::Registered(registered), Policies::default());
        assert_eq!(told, "allow set=9 warned");
    }
}
