//! Bytes and words, and what of them may be left out.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use lockwatch_model::input::{Role, Standing, WakeUpState};
use lockwatch_model::reading::{Mode, Unknown};
use lockwatch_model::spec::{Codec, RedisKind, SchemeKind};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};

/// Bytes: text where they are text, else `{"hex": "…"}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blob(pub(crate) Vec<u8>);

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(&self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("hex", &hex::encode(&self.0))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Blob, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Blob;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("text or {\"hex\": …}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Blob, E> {
                Ok(Blob(text.as_bytes().to_vec()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Blob, A::Error> {
                let (Some((name, hex)), None) =
                    (map.next_entry::<String, String>()?, map.next_key::<String>()?)
                else {
                    return Err(de::Error::custom("bytes have one field, `hex`"));
                };
                if name != "hex" {
                    return Err(de::Error::unknown_field(&name, &["hex"]));
                }
                hex::decode(&hex).map(Blob).map_err(|_| de::Error::custom("is no hex"))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

pub(super) fn blob(bytes: &[u8]) -> Blob {
    Blob(bytes.to_vec())
}

/// A word of a closed list.
pub(crate) trait Named: Copy + Sized {
    fn name(self) -> &'static str;
    fn named(name: &str) -> Option<Self>;
}

/// [`Named`] for the enums of the model that have names.
macro_rules! by_list {
    ($($name:ident),*) => { $(impl Named for $name {
        fn name(self) -> &'static str {
            $name::name(self)
        }

        fn named(name: &str) -> Option<$name> {
            $name::ALL.iter().copied().find(|each| each.name() == name)
        }
    })* };
}

by_list!(Unknown, Codec, SchemeKind, WakeUpState, RedisKind, Role, Standing, Mode);

/// A [`Named`] value, written by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word<T>(pub(crate) T);

impl<T: Named> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de, T: Named> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Word<T>, D::Error> {
        struct Reader<T>(PhantomData<T>);
        impl<T: Named> Visitor<'_> for Reader<T> {
            type Value = Word<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a known word")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Word<T>, E> {
                T::named(name).map(Word).ok_or_else(|| E::custom(format!("`{name}` is not known")))
            }
        }
        deserializer.deserialize_str(Reader(PhantomData))
    }
}

/// A field that is absent (`None`) while it is as before, and `null` (`Some(None)`) when there is
/// no value any more.
pub(super) fn change<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

pub(super) fn decides() -> Word<Standing> {
    Word(Standing::Decides)
}

pub(super) fn is_decides(standing: &Word<Standing>) -> bool {
    standing.0 == Standing::Decides
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(super) fn texts(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

pub(super) fn arcs(names: Vec<String>) -> Vec<Arc<str>> {
    names.into_iter().map(Arc::from).collect()
}
