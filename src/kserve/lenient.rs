//! Reading that takes what is well-typed and passes over the rest.
//!
//! The schema of a custom resource is checked after mutating admission, so any part of an object may have any
//! type here: `labels: 7`, `model: []`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The rest of a visitor that passes over what has another type than the one looked for.
macro_rules! passes_over {
    (@scalars $value:expr) => {
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($value)
        }
    };
    (@text $value:expr) => {
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok($value)
        }
    };
    (@list $value:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
    (@map $value:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
            while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
    (@null $value:expr) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($value)
        }
    };
}

/// A key of a map, borrowed where it holds no escape.
pub(crate) struct Key<'de>(pub(crate) Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// A value that is built from a map, member by member.
pub(crate) trait Members: Default {
    /// Takes one member; has to read its value, whatever the key.
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, members: &mut A) -> Result<(), A::Error>;

    /// What it is before its first member was read, when there is a map at all.
    fn map() -> Self {
        Self::default()
    }
}

/// A map read into `T`; anything else counts as an empty one.
#[derive(Default)]
pub(crate) struct Map<T>(pub(crate) T);

impl<'de, T: Members> Deserialize<'de> for Map<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Lenient(PhantomData)).map(Map)
    }
}

struct Lenient<T>(PhantomData<T>);

impl<'de, T: Members> Visitor<'de> for Lenient<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map, or anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<T, A::Error> {
        let mut value = T::map();
        while let Some(key) = members.next_key::<Key<'de>>()? {
            value.take(&key.0, &mut members)?;
        }
        Ok(value)
    }

    passes_over!(@null T::default());
    passes_over!(@scalars T::default());
    passes_over!(@text T::default());
    passes_over!(@list T::default());
}

/// A text, borrowed where it holds no escape; anything else counts as absent.
pub(crate) struct Borrowed<'de>(pub(crate) Option<Cow<'de, str>>);

impl<'de> Deserialize<'de> for Borrowed<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyText;

        impl<'de> Visitor<'de> for AnyText {
            type Value = Borrowed<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text, or anything")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Borrowed<'de>, E> {
                Ok(Borrowed(Some(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Borrowed<'de>, E> {
                Ok(Borrowed(Some(Cow::Owned(text.to_owned()))))
            }

            passes_over!(@null Borrowed(None));
            passes_over!(@scalars Borrowed(None));
            passes_over!(@list Borrowed(None));
            passes_over!(@map Borrowed(None));
        }

        deserializer.deserialize_any(AnyText)
    }
}

/// A text of its own; anything else counts as absent.
#[derive(Debug, Default)]
pub(crate) struct Text(pub(crate) Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Borrowed::deserialize(deserializer).map(|text| Self(text.0.map(Cow::into_owned)))
    }
}

/// A list of maps; anything else counts as an empty list.
pub(crate) struct MapList<T>(pub(crate) Vec<T>);

impl<T> Default for MapList<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Members> Deserialize<'de> for MapList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        list(deserializer, |map: Map<T>| Some(map.0)).map(MapList)
    }
}

/// A list of texts; anything else counts as absent.
#[derive(Default)]
pub(crate) struct TextList(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for TextList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        list(deserializer, |text: Text| text.0).map(TextList)
    }
}

/// Reads the items of a list through `I`; anything else than a list has none.
fn list<'de, D, I, T>(deserializer: D, keep: fn(I) -> Option<T>) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    I: Deserialize<'de>,
{
    struct Items<I, T>(fn(I) -> Option<T>);

    impl<'de, I: Deserialize<'de>, T> Visitor<'de> for Items<I, T> {
        type Value = Vec<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list, or anything")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element::<I>()? {
                list.extend((self.0)(item));
            }
            Ok(list)
        }

        passes_over!(@null Vec::new());
        passes_over!(@scalars Vec::new());
        passes_over!(@text Vec::new());
        passes_over!(@map Vec::new());
    }

    deserializer.deserialize_any(Items(keep))
}
