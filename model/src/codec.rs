//! Reads the scalars that applications store through their serializers: which bytes mean on, off,
//! or a user's name.
//!
//! Only what a serializer writes for a plain null, boolean, integer or string is read; anything
//! else is refused, never guessed. Nothing here allocates by a length that the bytes merely claim.

mod java_text;
mod jdk;
mod json;
mod kryo5;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::reading::Switch;
use crate::spec::Codec;

/// How many bytes of an undecodable value are kept for people to see.
const SHOWN_BYTES: usize = 64;

/// Words that say off; compared without regard to ASCII case. The empty word says off, too.
const OFF_WORDS: [&[u8]; 6] = [b"", b"0", b"false", b"off", b"no", b"null"];

/// Words that say on; compared without regard to ASCII case.
const ON_WORDS: [&[u8]; 4] = [b"1", b"true", b"on", b"yes"];

/// A plain value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer of any width up to 64 bits.
    Int(i64),
    /// A text.
    Text(String),
}

/// The scalar that `codec` wrote as exactly these bytes; `None` when it writes no scalar so.
///
/// No bytes at all are null for [`Codec::Json`] and [`Codec::Jdk`], because Spring's serializers
/// store null so.
pub fn decode(codec: Codec, bytes: &[u8]) -> Option<Scalar> {
    match codec {
        Codec::Raw => core::str::from_utf8(bytes).ok().map(|text| Scalar::Text(text.to_string())),
        Codec::Json | Codec::Jdk if bytes.is_empty() => Some(Scalar::Null),
        Codec::Json => json::decode(bytes),
        Codec::Jdk => jdk::decode(bytes),
        Codec::Kryo5 => kryo5::decode(bytes),
    }
}

/// What a switch says whose value `codec` wrote.
pub fn switch(codec: Codec, bytes: &[u8]) -> Switch {
    match wants(codec, bytes) {
        Some(true) => Switch::On,
        Some(false) => Switch::Off,
        None => Switch::Undecodable {
            value: bytes.iter().take(SHOWN_BYTES).copied().collect(),
            fits: fitting_codec(bytes),
        },
    }
}

/// A user's name (a hash field or set member) as people know it: the text or number that `codec`
/// wrote, else the bytes as they are.
pub fn display_text(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    match decode(codec, bytes) {
        Some(Scalar::Text(text)) => text.into_bytes(),
        Some(Scalar::Int(number)) => number.to_string().into_bytes(),
        Some(Scalar::Null | Scalar::Bool(_)) | None => bytes.to_vec(),
    }
}

/// The text that somebody wrote, as it is or through a serializer, whose bytes no ordinary name
/// begins with.
pub(crate) fn written_text(bytes: &[u8]) -> Vec<u8> {
    let by = |codec| match decode(codec, bytes) {
        Some(Scalar::Text(text)) => Some(text.into_bytes()),
        _ => None,
    };
    [Codec::Json, Codec::Jdk, Codec::Kryo5]
        .into_iter()
        .find_map(by)
        .unwrap_or_else(|| bytes.to_vec())
}

fn wants(codec: Codec, bytes: &[u8]) -> Option<bool> {
    if codec == Codec::Raw {
        return word_wants(bytes);
    }
    match decode(codec, bytes)? {
        Scalar::Null => Some(false),
        Scalar::Bool(on) => Some(on),
        Scalar::Int(0) => Some(false),
        Scalar::Int(1) => Some(true),
        Scalar::Int(_) => None,
        Scalar::Text(text) => word_wants(text.as_bytes()),
    }
}

fn word_wants(word: &[u8]) -> Option<bool> {
    let is_in = |words: &[&[u8]]| words.iter().any(|listed| word.eq_ignore_ascii_case(listed));
    if is_in(&ON_WORDS) {
        Some(true)
    } else if is_in(&OFF_WORDS) {
        Some(false)
    } else {
        None
    }
}

/// The first codec by which the bytes say on or off. Without bytes there is no evidence for any.
fn fitting_codec(bytes: &[u8]) -> Option<Codec> {
    if bytes.is_empty() {
        None
    } else {
        Codec::ALL.into_iter().find(|codec| wants(*codec, bytes).is_some())
    }
}
