//! A hash of any value, whatever its shape, to tell whether two are the same without keeping either.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Levels that are hashed value by value. A reader of JSON that recurses gives up at some depth (`serde_json` at 128),
/// and the API server takes objects that are deeper: what lies below is hashed as text, which recurses nowhere.
/// No field of KServe is half as deep.
const LEVELS: u8 = 64;

/// The hash of one value. Keys of a map may come in any order; items of a list may not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint(pub(super) u64);

impl Fingerprint {
    /// The hash of a text.
    pub(super) fn of(text: &str) -> Self {
        hash('s', text)
    }

    /// Adds a member of a map; the order of members does not matter.
    pub(super) fn add_member(&mut self, key: &str, value: Self) {
        self.0 = self.0.wrapping_add(hash('m', (key, value)).0);
    }
}

/// The first argument keeps apart what hashes alike: the text `1` and the number 1.
fn hash(kind: char, value: impl Hash) -> Fingerprint {
    // Not the seeded state of std: two processes, and two reviews, have to agree.
    let mut hasher = DefaultHasher::new();
    (kind, value).hash(&mut hasher);
    Fingerprint(hasher.finish())
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Hashing { levels: LEVELS }.deserialize(deserializer)
    }
}

/// Hashes a value that has so many levels left.
#[derive(Clone, Copy)]
struct Hashing {
    levels: u8,
}

impl Hashing {
    fn below(self) -> Self {
        Self { levels: self.levels - 1 }
    }
}

impl<'de> DeserializeSeed<'de> for Hashing {
    type Value = Fingerprint;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fingerprint, D::Error> {
        if self.levels == 0 {
            let text = Box::<RawValue>::deserialize(deserializer)?;
            return Ok(hash('r', text.get()));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Hashing {
    type Value = Fingerprint;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Fingerprint, E> {
        Ok(hash('b', value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Fingerprint, E> {
        Ok(hash('n', i128::from(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Fingerprint, E> {
        Ok(hash('n', i128::from(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Fingerprint, E> {
        Ok(hash('f', value.to_bits()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Fingerprint, E> {
        Ok(Fingerprint::of(value))
    }

    fn visit_unit<E>(self) -> Result<Fingerprint, E> {
        Ok(hash('0', ()))
    }

    fn visit_none<E>(self) -> Result<Fingerprint, E> {
        Ok(hash('0', ()))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fingerprint, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Fingerprint, A::Error> {
        let mut all = hash('l', ());
        while let Some(item) = items.next_element_seed(self.below())? {
            all = hash('l', (all, item));
        }
        Ok(all)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Fingerprint, A::Error> {
        let mut all = hash('m', ());
        while let Some(key) = members.next_key::<super::lenient::Key>()? {
            let value = members.next_value_seed(self.below())?;
            all.add_member(&key.0, value);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Fingerprint {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn equal_values_have_equal_fingerprints() {
        assert_eq!(of(r#"{"a": 1, "b": [true, null]}"#), of(r#"{"b":[true,null],"a":1}"#));
    }

    #[test]
    fn different_values_have_different_fingerprints() {
        let values = [
            "null",
            "true",
            "0",
            "1",
            "1.5",
            "\"1\"",
            "\"\"",
            "[]",
            "{}",
            "[1]",
            "[[1]]",
            "[1, 2]",
            "[2, 1]",
            r#"{"a": 1}"#,
            r#"{"a": "1"}"#,
            r#"{"b": 1}"#,
            r#"{"a": {"a": 1}}"#,
            r#"{"a": null}"#,
        ];
        for (at, left) in values.iter().enumerate() {
            for right in &values[at + 1..] {
                assert_ne!(of(left), of(right), "{left} and {right}");
            }
        }
    }

    #[test]
    fn a_value_of_any_depth_has_a_fingerprint() {
        let nested = |depth: usize, inner: &str| {
            of(&format!("{}{inner}{}", r#"{"a":["#.repeat(depth), "]}".repeat(depth)))
        };
        assert_eq!(nested(5_000, "1"), nested(5_000, "1"));
        assert_ne!(nested(5_000, "1"), nested(5_000, "2"));
        assert_ne!(nested(5_000, "1"), nested(4_999, "1"));
    }
}
