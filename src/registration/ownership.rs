//! Whose entry is it? Pure: an entry and an object in, an answer out.
//!
//! What stays true: an entry that does not belong to an object is never written, nor used for it, by anything in
//! this program. The rules are those of "Whose entry" in `docs/design.md`.

use super::identity::{ClusterId, ObjectName};
use crate::registry::{CustomProperties, EntryId, EnvironmentId, InferenceService};

/// Value of [`MANAGED_BY`] on our entries.
pub const MANAGER: &str = "isvc-registrar";
/// Property: which program keeps the entry.
pub const MANAGED_BY: &str = "managedBy";
/// Property: the object's cluster.
pub const CLUSTER: &str = "cluster";
/// Property: the object's Namespace.
pub const NAMESPACE: &str = "namespace";
/// Property: the object's name.
pub const NAME: &str = "name";
/// Property: the object's uid, once it is stored.
pub const UID: &str = "uid";

/// What ties an entry to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tie {
    /// Our properties say so.
    Ours,
    /// It is not ours and of no cluster, is in the object's environment, and its name is the object's or begins
    /// with `<object name>/`, as the Go controller wrote it.
    ByName,
    /// It was made by hand in the object's environment, and the object's id label names it.
    ByHand,
}

/// The object that an entry may belong to.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    /// Its cluster.
    pub cluster: &'a ClusterId,
    /// Its place.
    pub object: &'a ObjectName,
    /// The serving environment named as its Namespace, where the registry has one.
    pub environment: Option<EnvironmentId>,
    /// What its id label names.
    pub labelled: Option<EntryId>,
}

/// Whether an entry is ours, of whatever cluster and object.
#[must_use]
pub fn is_ours(entry: &InferenceService) -> bool {
    entry.custom_properties.string(MANAGED_BY) == Some(MANAGER)
}

/// The cluster and the object that one of our entries was made for; `None` when it is not ours.
#[must_use]
pub fn made_for(entry: &InferenceService) -> Option<(&str, ObjectName)> {
    let text = |key| entry.custom_properties.string(key);
    let object = ObjectName::new(text(NAMESPACE)?, text(NAME)?);
    is_ours(entry).then_some((text(CLUSTER)?, object))
}

/// What ties the entry to the object; `None` when it belongs to somebody else, or to nobody.
#[must_use]
pub fn tie(entry: &InferenceService, claimant: &Claimant<'_>) -> Option<Tie> {
    let property = |key| entry.custom_properties.string(key);
    let object = claimant.object;
    if is_ours(entry) {
        let same = property(CLUSTER) == Some(claimant.cluster.as_str())
            && property(NAMESPACE) == Some(&object.namespace)
            && property(NAME) == Some(&object.name);
        return same.then_some(Tie::Ours);
    }
    if property(CLUSTER).is_some() || claimant.environment != Some(entry.serving_environment_id) {
        return None;
    }
    let rest = entry.name.strip_prefix(object.name.as_str());
    if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Some(Tie::ByName);
    }
    let by_hand =
        property(MANAGED_BY).is_none() && !entry.name.contains('/') && claimant.labelled == Some(entry.id);
    by_hand.then_some(Tie::ByHand)
}

/// The properties of a new entry. The uid is not known before the object is stored.
#[must_use]
pub fn properties(cluster: &ClusterId, object: &ObjectName, uid: Option<&str>) -> CustomProperties {
    let place = [
        (MANAGED_BY, MANAGER),
        (CLUSTER, cluster.as_str()),
        (NAMESPACE, &object.namespace),
        (NAME, &object.name),
    ];
    place.into_iter().chain(uid.map(|uid| (UID, uid))).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const ENVIRONMENT: &str = "3";

    /// An entry with this name, environment and string properties.
    fn entry(name: &str, environment: &str, properties: &[(&str, &str)]) -> InferenceService {
        let properties: CustomProperties = properties.iter().copied().collect();
        let entry: Value = json!({
            "id": "9", "name": name, "registeredModelId": "1", "servingEnvironmentId": environment,
            "customProperties": properties,
        });
        serde_json::from_value(entry).unwrap()
    }

    /// Our properties, with one of them set to another value.
    fn ours_but(key: &str, value: &str) -> InferenceService {
        let mut entry = entry("scorer", ENVIRONMENT, &[]);
        entry.custom_properties = properties(&cluster(), &object(), None);
        entry.custom_properties.set_string(key, value);
        entry
    }

    fn cluster() -> ClusterId {
        ClusterId::new("east").unwrap()
    }

    fn object() -> ObjectName {
        ObjectName::new("team-a", "scorer")
    }

    #[rstest]
    #[case::ours(ours_but(NAME, "scorer"), Some(Tie::Ours))]
    #[case::ours_of_another_cluster(ours_but(CLUSTER, "west"), None)]
    #[case::ours_of_another_namespace(ours_but(NAMESPACE, "team-b"), None)]
    #[case::ours_of_another_object(ours_but(NAME, "other"), None)]
    #[case::go_controller(entry("scorer/0a1b", ENVIRONMENT, &[]), Some(Tie::ByName))]
    #[case::same_name_by_another_tool(entry("scorer", ENVIRONMENT, &[(MANAGED_BY, "tool")]), Some(Tie::ByName))]
    #[case::same_name_in_another_environment(entry("scorer", "4", &[]), None)]
    #[case::a_name_that_only_begins_alike(entry("scorer-2", ENVIRONMENT, &[(MANAGED_BY, "tool")]), None)]
    #[case::of_a_cluster_by_another_tool(entry("scorer", ENVIRONMENT, &[(MANAGED_BY, "tool"), (CLUSTER, "east")]), None)]
    #[case::half_of_our_properties(entry("scorer", ENVIRONMENT, &[(CLUSTER, "east")]), None)]
    #[case::by_hand_and_labelled(entry("fraud in production", ENVIRONMENT, &[]), Some(Tie::ByHand))]
    #[case::labelled_but_of_another_object(entry("other/0a1b", ENVIRONMENT, &[]), None)]
    #[case::labelled_but_of_another_tool(entry("fraud", ENVIRONMENT, &[(MANAGED_BY, "tool")]), None)]
    #[case::labelled_in_another_environment(entry("fraud", "4", &[]), None)]
    fn an_entry_belongs_to_an_object(#[case] entry: InferenceService, #[case] want: Option<Tie>) {
        let claimant = Claimant {
            cluster: &cluster(),
            object: &object(),
            environment: ENVIRONMENT.parse().ok(),
            labelled: Some(entry.id),
        };
        assert_eq!(tie(&entry, &claimant), want);
    }

    #[test]
    fn an_entry_made_by_hand_belongs_only_to_the_object_that_names_it() {
        let entry = entry("fraud", ENVIRONMENT, &[]);
        let claimant = Claimant {
            cluster: &cluster(),
            object: &object(),
            environment: ENVIRONMENT.parse().ok(),
            labelled: None,
        };
        assert_eq!(tie(&entry, &claimant), None);
    }

    #[test]
    fn our_entry_tells_whom_it_was_made_for() {
        assert_eq!(made_for(&ours_but(UID, "u")), Some(("east", object())));
        assert_eq!(made_for(&entry("scorer", ENVIRONMENT, &[])), None);
    }
}
