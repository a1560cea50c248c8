//! The serialised form of bytes: text if they are valid text, otherwise `{"hex": "…"}`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::de::DeserializeOwned;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::ServerTime;

/// Bytes, or a type that contains some.
pub(crate) trait Bytes: Sized {
    /// The same type in its serialised form.
    type Written: Serialize + for<'de> Deserialize<'de>;

    fn written(&self) -> Self::Written;
    fn read(written: Self::Written) -> Option<Self>;
}

pub(crate) fn serialize<T: Bytes, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    value.written().serialize(to)
}

pub(crate) fn deserialize<'de, T: Bytes, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    T::read(T::Written::deserialize(from)?).ok_or_else(|| D::Error::custom("is no hex"))
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Written {
    Text(String),
    Hex { hex: String },
}

impl Bytes for Vec<u8> {
    type Written = Written;

    fn written(&self) -> Written {
        match core::str::from_utf8(self) {
            Ok(text) => Written::Text(text.into()),
            Err(_) => Written::Hex { hex: self.iter().map(|byte| format!("{byte:02x}")).collect() },
        }
    }

    fn read(written: Written) -> Option<Vec<u8>> {
        let hex = match written {
            Written::Text(text) => return Some(text.into_bytes()),
            Written::Hex { hex } => hex,
        };
        let pair = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok();
        hex.as_bytes().chunks(2).map(pair).collect()
    }
}

impl Bytes for ServerTime {
    type Written = ServerTime;

    fn written(&self) -> ServerTime {
        *self
    }

    fn read(written: ServerTime) -> Option<ServerTime> {
        Some(written)
    }
}

impl<T: Bytes> Bytes for Vec<T> {
    type Written = Vec<T::Written>;

    fn written(&self) -> Self::Written {
        self.iter().map(T::written).collect()
    }

    fn read(written: Self::Written) -> Option<Vec<T>> {
        written.into_iter().map(T::read).collect()
    }
}

impl<T: Bytes> Bytes for Option<T> {
    type Written = Option<T::Written>;

    fn written(&self) -> Self::Written {
        self.as_ref().map(T::written)
    }

    fn read(written: Self::Written) -> Option<Option<T>> {
        written.map_or(Some(None), |written| T::read(written).map(Some))
    }
}

impl<T: Bytes, E: Copy + Serialize + DeserializeOwned> Bytes for Result<T, E> {
    type Written = Result<T::Written, E>;

    fn written(&self) -> Self::Written {
        self.as_ref().map(T::written).map_err(|why| *why)
    }

    fn read(written: Self::Written) -> Option<Result<T, E>> {
        written.map_or_else(|why| Some(Err(why)), |written| T::read(written).map(Ok))
    }
}

impl<A: Bytes, B: Bytes> Bytes for (A, B) {
    type Written = (A::Written, B::Written);

    fn written(&self) -> Self::Written {
        (self.0.written(), self.1.written())
    }

    fn read(written: Self::Written) -> Option<(A, B)> {
        Some((A::read(written.0)?, B::read(written.1)?))
    }
}
