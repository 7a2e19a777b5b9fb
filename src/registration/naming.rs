//! The names an entry may have. Pure.
//!
//! What stays true: a name begins with the object's name, which consumers of the registry match on, and is the
//! same each time it is asked for, so that two replicas and a retry come to the same entry.

use super::identity::{ClusterId, ObjectName};
use crate::registry::{EnvironmentId, RegisteredModelId};

/// The registry keeps `<environment id>:<name>` in a varchar(255) and answers 500 to a longer one.
const LONGEST_STORED_NAME: usize = 255;

/// Names in the order in which they are tried: the first that is free, or belongs and serves the model.
#[must_use]
pub fn candidates(object: &ObjectName, model: RegisteredModelId, cluster: &ClusterId) -> [String; 3] {
    let name = &object.name;
    [name.clone(), format!("{name}/{model}"), format!("{name}/{model}/{}", cluster.short())]
}

/// The name that the Go controller gave: looked for, never made.
#[must_use]
pub fn by_uid(object: &ObjectName, uid: &str) -> String {
    format!("{}/{uid}", object.name)
}

/// Whether the registry can store an entry of this name.
#[must_use]
pub fn fits(environment: EnvironmentId, name: &str) -> bool {
    format!("{environment}:{name}").chars().count() <= LONGEST_STORED_NAME
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_in_the_order_of_the_design() {
        let object = ObjectName::new("team-a", "scorer");
        let cluster = ClusterId::new("0f6b7c1e-1d5c").unwrap();
        let names = candidates(&object, "7".parse().unwrap(), &cluster);
        assert_eq!(names, ["scorer", "scorer/7", "scorer/7/0f6b7c1e"]);
        assert_eq!(by_uid(&object, "u-1"), "scorer/u-1");
    }

    #[test]
    fn a_name_fits_with_its_environment_into_255_characters() {
        let environment = "12".parse().unwrap();
        assert!(fits(environment, &"n".repeat(252)));
        assert!(!fits(environment, &"n".repeat(253)));
    }
}
