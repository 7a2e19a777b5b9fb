//! Ids of the registry's entities: one type for each kind, so that no two can be confused.
//!
//! In the registry an id is an int32 that travels as a string. The registry itself takes `03780` for `3780`;
//! here an id has one spelling, `[1-9][0-9]*`, because a label is compared as text.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The registry keeps ids as int32, so none is larger.
const LARGEST_ID: u32 = i32::MAX.unsigned_abs();

/// A text that is no id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an id: write a whole number from 1 to {LARGEST_ID} without sign or leading zero")]
pub struct NotAnId;

/// Reads `[1-9][0-9]*`, at most [`LARGEST_ID`].
fn parse(text: &str) -> Result<NonZeroU32, NotAnId> {
    if text.starts_with('0') || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NotAnId);
    }
    text.parse().ok().filter(|id: &NonZeroU32| id.get() <= LARGEST_ID).ok_or(NotAnId)
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The id as a number.
            #[must_use]
            pub fn get(self) -> u32 {
                self.0.get()
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                parse(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// A registered model.
    RegisteredModelId
);
id!(
    /// A version of a registered model.
    ModelVersionId
);
id!(
    /// A serving environment: here, a Kubernetes Namespace.
    EnvironmentId
);
id!(
    /// An inference service of the registry: the *entry* of one InferenceService object.
    EntryId
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        for good in ["1", "42", "2147483647"] {
            assert_eq!(good.parse::<EntryId>().unwrap().to_string(), good);
        }
        for bad in
            ["", "0", "03780", "-1", "+1", " 1", "1 ", "1.0", "1e3", "abc", "2147483648", "99999999999", "١"]
        {
            assert_eq!(bad.parse::<EntryId>(), Err(NotAnId), "{bad:?} must not be taken for an id");
        }
    }

    #[test]
    fn an_id_travels_as_a_string() {
        let id: EntryId = serde_json::from_str("\"7\"").unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"7\"");
        assert!(serde_json::from_str::<EntryId>("7").is_err(), "the registry never writes a number");
    }
}
