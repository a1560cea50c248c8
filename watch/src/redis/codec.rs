//! Decodes the scalars that applications store through their serializers, to learn which bytes mean
//! on, off, or a user's name.
//!
//! Only the encodings of a plain null, boolean, integer or string are read. Anything else is
//! refused, never guessed. No allocation is sized by a length that the bytes merely claim.

mod java_text;
mod jdk;
mod json;
mod kryo5;
mod scalar;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use lockwatch_judge::reading::Switch;
use lockwatch_judge::spec::Codec;

pub use self::scalar::{Form, Scalar};

/// Maximum size of the part of an undecodable value that is kept for display, in bytes.
const SHOWN_BYTES: usize = 64;

/// Words that mean off, compared without regard to ASCII case. The empty word means off, too.
const OFF_WORDS: [&[u8]; 6] = [b"", b"0", b"false", b"off", b"no", b"null"];

/// Words that mean on, compared without regard to ASCII case.
const ON_WORDS: [&[u8]; 4] = [b"1", b"true", b"on", b"yes"];

/// The bytes that `codec` makes of `word` in this form, exactly as the real serializers write them;
/// `None` when it has no such form, or the word has none.
///
/// Only texts have a form for every word. [`Codec::Raw`] has texts only.
pub fn encode(codec: Codec, form: Form, word: &str) -> Option<Vec<u8>> {
    let scalar = match form {
        Form::Text | Form::MarkedText => Scalar::Text(word.to_string()),
        Form::Bool => Scalar::Bool(word.parse().ok()?),
        Form::Int | Form::Long | Form::Short | Form::Byte => {
            let number: i64 = word.parse().ok()?;
            // A number has one spelling: "007" and "+7" are words of their own.
            (number.to_string() == word).then_some(Scalar::Int(number))?
        }
    };
    match (codec, &scalar) {
        (Codec::Raw, Scalar::Text(text)) if form == Form::Text => Some(text.clone().into_bytes()),
        (Codec::Raw, _) => None,
        (Codec::Json, _) => json::encode(form, &scalar),
        (Codec::Jdk, _) => jdk::encode(form, &scalar),
        (Codec::Kryo5, _) => kryo5::encode(form, &scalar),
    }
}

/// The form and the word of which `codec` makes exactly these bytes; `None` also for bytes that are
/// read, but that no known serializer writes.
pub fn form_of(codec: Codec, bytes: &[u8]) -> Option<(Form, String)> {
    let word = match decode(codec, bytes)? {
        Scalar::Text(text) => text,
        Scalar::Int(number) => number.to_string(),
        Scalar::Bool(truth) => truth.to_string(),
        Scalar::Null => return None,
    };
    let is_it = |form: &Form| encode(codec, *form, &word).is_some_and(|made| made == bytes);
    Form::ALL.into_iter().find(is_it).map(|form| (form, word))
}

/// Decodes the scalar that `codec` encodes as exactly these bytes; `None` when no scalar has this
/// encoding.
///
/// No bytes at all are null for [`Codec::Json`] and [`Codec::Jdk`], because Spring's serializers
/// store null like this.
pub fn decode(codec: Codec, bytes: &[u8]) -> Option<Scalar> {
    match codec {
        Codec::Raw => core::str::from_utf8(bytes).ok().map(|text| Scalar::Text(text.to_string())),
        Codec::Json | Codec::Jdk if bytes.is_empty() => Some(Scalar::Null),
        Codec::Json => json::decode(bytes),
        Codec::Jdk => jdk::decode(bytes),
        Codec::Kryo5 => kryo5::decode(bytes),
    }
}

/// Decodes the value of a switch that `codec` encoded.
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

/// A user's name (a hash field or set member) in readable form: the text or number that `codec`
/// encoded, otherwise the bytes unchanged.
pub fn display_text(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    match decode(codec, bytes) {
        Some(Scalar::Text(text)) => text.into_bytes(),
        Some(Scalar::Int(number)) => number.to_string().into_bytes(),
        Some(Scalar::Null | Scalar::Bool(_)) | None => bytes.to_vec(),
    }
}

/// The text in a value that was stored unchanged or through a serializer whose first bytes no
/// ordinary name begins with.
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

/// Other ways to write a text that needs no escape: as JSON, Kryo 5 and Java's serialization do,
/// with a shell's quotes, and with the line break of a pipe.
pub(crate) fn spellings(text: &[u8]) -> [Vec<u8>; 5] {
    let json = [b"\"", text, b"\""].concat();
    let quoted = [b"'", text, b"'"].concat();
    let line = [text, b"\n"].concat();
    // Bytes that are no text have no other spelling, and the plain one is asked for anyway.
    let by = |encode: fn(&str) -> Vec<u8>| {
        core::str::from_utf8(text).map_or_else(|_| text.to_vec(), encode)
    };
    [json, by(kryo5::encode_text), by(jdk::encode_text), quoted, line]
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

/// Values that come from a pipe or a shell often keep a line break or quotes. Double quotes are
/// JSON's.
fn word_wants(word: &[u8]) -> Option<bool> {
    let word = word.trim_ascii();
    let word = word.strip_prefix(b"'").and_then(|word| word.strip_suffix(b"'")).unwrap_or(word);
    let is_in = |words: &[&[u8]]| words.iter().any(|listed| word.eq_ignore_ascii_case(listed));
    if is_in(&ON_WORDS) {
        Some(true)
    } else if is_in(&OFF_WORDS) {
        Some(false)
    } else {
        None
    }
}

/// The first codec that decodes the bytes as on or off. Empty bytes are evidence for no codec.
fn fitting_codec(bytes: &[u8]) -> Option<Codec> {
    if bytes.is_empty() {
        None
    } else {
        Codec::ALL.into_iter().find(|codec| wants(*codec, bytes).is_some())
    }
}
