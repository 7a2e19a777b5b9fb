//! What users are told: one sentence that says what is wrong, which label, and what to do.
//!
//! At most [`LONGEST`] characters each: the API server cuts warnings there once they pass 4,096 together.

use crate::kserve::LabelKeys;
use crate::registration::{Archived, Invalid};
use crate::registry::Unavailability;
use crate::registry::directory::ChoiceError;

/// Characters of a message.
pub(super) const LONGEST: usize = 256;

/// Cuts a message to its length and makes it one line: the API server drops a warning with a control character, and
/// what is quoted from a label or a registry may hold one.
fn sentence(mut text: String) -> String {
    if text.contains(char::is_control) {
        text = text.replace(char::is_control, " ");
    }
    if text.chars().count() <= LONGEST {
        return text;
    }
    let mut cut: String = text.chars().take(LONGEST - 1).collect();
    cut.push('…');
    cut
}

/// Characters that are quoted of what a user or an administrator wrote, so that the advice behind it is not cut.
const QUOTED: usize = 60;

/// A text that is quoted inside a message.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A label that should be an id.
pub(super) fn not_an_id(key: &str) -> String {
    sentence(format!("label {key} is no id: set it to a whole number from 1 to 2147483647, or remove it"))
}

/// An id label on an object that has no name yet.
pub(super) fn id_before_name(keys: &LabelKeys) -> String {
    let id = &keys.inference_service_id;
    sentence(format!(
        "label {id} is set on an object that has no name yet, so no entry can belong to it: remove the label"
    ))
}

/// Neither a model nor an entry is named.
pub(super) fn nothing_named(keys: &LabelKeys) -> String {
    let model = &keys.registered_model_id;
    sentence(format!("no registered model is named: set label {model} to the id of a registered model"))
}

/// The id label was replaced.
pub(super) fn replaced(keys: &LabelKeys, old: &str, new: &str) -> String {
    let id = &keys.inference_service_id;
    let old: String = old.chars().take(20).collect();
    sentence(format!(
        "label {id} was `{old}`, which names no entry of this object, and is now {new}: correct the manifest"
    ))
}

/// The object's registry cannot be told.
pub(super) fn no_registry(keys: &LabelKeys, error: &ChoiceError) -> String {
    sentence(match error {
        ChoiceError::NoSuchUrl => {
            format!("{error} {}: set it to the URL of a configured registry, or remove it", keys.url)
        }
        ChoiceError::NoSuchName(name) => {
            format!(
                "no configured registry is called {}: set labels {} and {} to those of one",
                quoted(name),
                keys.name,
                keys.namespace
            )
        }
        ChoiceError::NotAllowed { .. } => {
            format!("{error}: set label {} to one that may be used, or remove it", keys.name)
        }
        ChoiceError::Several(names) => format!(
            "several registries are configured ({}) and none is named: set label {} to the name of one",
            quoted(names),
            keys.name
        ),
        ChoiceError::NoService(_) | ChoiceError::NoneFound | ChoiceError::NotYetKnown => {
            format!("{error}: the object is not registered now, ask your administrator if this lasts")
        }
    })
}

/// The registry could not be asked. Only what goes through is registered later.
pub(super) fn unavailable(registry: &str, error: &Unavailability, refused: bool) -> String {
    let consequence =
        if refused { "cannot be registered now, try again" } else { "not registered now, it will be later" };
    sentence(format!("{consequence}: {registry} {error}"))
}

/// What is wrong with what an object asks for.
pub(super) fn invalid(keys: &LabelKeys, registry: &str, invalid: &Invalid) -> String {
    let (model, version, id) =
        (&keys.registered_model_id, &keys.model_version_id, &keys.inference_service_id);
    sentence(match invalid {
        Invalid::NoSuchModel(_) => {
            format!("{invalid} in {registry}: set label {model} to the id of a registered model")
        }
        Invalid::NoSuchVersion(_) | Invalid::VersionOfAnotherModel { .. } => {
            format!("{invalid}: set label {version} to the id of a version of the model")
        }
        Invalid::NoSuchEntry(_) | Invalid::EntryOfAnother(_) => {
            format!(
                "{invalid} in {registry}: remove label {id} and set label {model} to the id of a registered model"
            )
        }
        Invalid::NothingNamed => nothing_named(keys),
        Invalid::NoNameLeft(name) => format!(
            "the names {} and those with the model behind it are taken in {registry}: give the object another name",
            quoted(name)
        ),
        Invalid::NameTooLong(name) => format!(
            "the name {} is too long for {registry}, which stores 255 characters: give the object a shorter name",
            quoted(name)
        ),
        Invalid::RefusedByRegistry(said) => format!("{registry} refuses the request: {said}"),
    })
}

/// What an object asks for was put away by its owner.
pub(super) fn archived(keys: &LabelKeys, registry: &str, archived: Archived) -> String {
    sentence(match archived {
        Archived::Model(id) => format!(
            "registered model {id} is archived in {registry}: restore it, or set label {} to another",
            keys.registered_model_id
        ),
        Archived::Version(id) => format!(
            "model version {id} is archived in {registry}: restore it, or set label {} to another",
            keys.model_version_id
        ),
    })
}

/// A dry run found nothing that exists.
pub(super) fn dry_run(keys: &LabelKeys, registry: &str) -> String {
    sentence(format!(
        "no entry exists yet in {registry}: when this is more than a dry run, one is created and label {} is set",
        keys.inference_service_id
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_the_design() {
        let message = invalid(
            &LabelKeys::default(),
            "model-registry-service",
            &Invalid::NoSuchModel("42".parse().unwrap()),
        );
        assert_eq!(
            message,
            "registered model 42 does not exist in model-registry-service: set label \
             modelregistry.kubeflow.org/registered-model-id to the id of a registered model"
        );
    }

    #[test]
    fn a_message_is_one_line() {
        let said = Invalid::RefusedByRegistry("first\r\nsecond\u{7f}".into());
        let message = invalid(&LabelKeys::default(), "r", &said);
        assert_eq!(message, "r refuses the request: first  second ");
    }

    #[test]
    fn a_message_is_never_longer_than_the_api_server_keeps() {
        let said = Invalid::RefusedByRegistry("ä".repeat(500));
        assert_eq!(invalid(&LabelKeys::default(), "r", &said).chars().count(), LONGEST);
    }
}
