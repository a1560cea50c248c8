//! Values of switches: arbitrary bytes are decoded or rejected, and what the serializers write is
//! read back.
//!
//! The first byte selects a codec, and whether the rest is the value in Redis or a scalar to
//! serialize first.

use lockwatch_judge::reading::Switch;
use lockwatch_judge::spec::Codec;
use lockwatch_watch::redis::codec::{Form, Scalar, decode, display_text, form_of, switch};

pub(crate) fn run(data: &[u8]) {
    let [choice, rest @ ..] = data else { return };
    let codec = Codec::ALL[usize::from(choice & 3)];
    any(codec, rest);
    if let Some(scalar) = scalar(choice >> 2, rest) {
        let written = encode(codec, &scalar);
        if let Some(written) = written {
            assert_eq!(
                decode(codec, &written),
                Some(scalar),
                "{codec:?} does not read back {}",
                written.escape_ascii()
            );
            any(codec, &written);
        }
    }
    // What lockwatch itself writes.
    for form in Form::ALL {
        let word = String::from_utf8_lossy(rest);
        let Some(written) = lockwatch_watch::redis::codec::encode(codec, form, &word) else {
            continue;
        };
        let read = match decode(codec, &written) {
            Some(Scalar::Text(text)) => text,
            Some(Scalar::Int(number)) => number.to_string(),
            Some(Scalar::Bool(on)) => on.to_string(),
            Some(Scalar::Null) | None => String::new(),
        };
        assert_eq!(read, word, "{codec:?} {form:?} does not read back");
    }
}

fn any(codec: Codec, bytes: &[u8]) {
    let decoded = decode(codec, bytes);
    if let Some(Scalar::Text(text)) = &decoded {
        assert!(text.len() <= bytes.len() * 2, "{} bytes became {}", bytes.len(), text.len());
    }
    let on = match &decoded {
        Some(Scalar::Bool(true) | Scalar::Int(1)) => Some(true),
        Some(Scalar::Bool(false) | Scalar::Int(0) | Scalar::Null) => Some(false),
        Some(Scalar::Text(text)) => match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "on" | "yes" => Some(true),
            "" | "0" | "false" | "off" | "no" | "null" => Some(false),
            _ => None,
        },
        _ => None,
    };
    match switch(codec, bytes) {
        Switch::On => assert_eq!(on, Some(true)),
        Switch::Off => assert_eq!(on, Some(false)),
        Switch::Undecodable { value, fits } => {
            assert!(on.is_none() && value.len() <= 64 && bytes.starts_with(&value));
            assert!(fits != Some(codec), "a codec fits that does not");
        }
    }
    if let Some((form, word)) = form_of(codec, bytes) {
        let again = lockwatch_watch::redis::codec::encode(codec, form, &word);
        assert_eq!(again.as_deref(), Some(bytes), "{codec:?} {form:?} is another spelling");
    }
    let shown = display_text(codec, bytes);
    if let Some(Scalar::Text(text)) = decoded {
        assert_eq!(shown, text.into_bytes());
    }
}

fn scalar(kind: u8, bytes: &[u8]) -> Option<Scalar> {
    match kind & 3 {
        0 => Some(Scalar::Text(String::from_utf8_lossy(bytes).into_owned())),
        1 => Some(Scalar::Int(i64::from_be_bytes(bytes.get(..8)?.try_into().ok()?))),
        2 => Some(Scalar::Bool(bytes.first()? & 1 == 1)),
        _ => Some(Scalar::Null),
    }
}

/// The bytes that the serializer writes.
fn encode(codec: Codec, scalar: &Scalar) -> Option<Vec<u8>> {
    match codec {
        Codec::Raw => match scalar {
            Scalar::Text(text) => Some(text.clone().into_bytes()),
            _ => None,
        },
        Codec::Json => Some(match scalar {
            Scalar::Null => b"null".to_vec(),
            Scalar::Bool(on) => on.to_string().into_bytes(),
            Scalar::Int(number) => number.to_string().into_bytes(),
            Scalar::Text(text) => serde_json::to_vec(text).ok()?,
        }),
        Codec::Jdk => jdk(scalar),
        Codec::Kryo5 => kryo5(scalar),
    }
}

fn jdk(scalar: &Scalar) -> Option<Vec<u8>> {
    let mut bytes = vec![0xac, 0xed, 0, 5];
    match scalar {
        Scalar::Null => bytes.push(0x70),
        Scalar::Text(text) => {
            let text = java_text(text);
            bytes.push(0x74);
            bytes.extend(u16::try_from(text.len()).ok()?.to_be_bytes());
            bytes.extend(text);
        }
        Scalar::Bool(on) => {
            boxed(&mut bytes, "java.lang.Boolean", 0xcd20_7280_d59c_faee, b'Z');
            bytes.extend([0x70, u8::from(*on)]);
        }
        Scalar::Int(number) => {
            boxed(&mut bytes, "java.lang.Long", 0x3b8b_e490_cc8f_23df, b'J');
            class(&mut bytes, "java.lang.Number", 0x86ac_951d_0b94_e08b);
            bytes.extend([0, 0, 0x78, 0x70]);
            bytes.extend(number.to_be_bytes());
        }
    }
    Some(bytes)
}

/// An object of a class whose only field is a primitive named `value`, up to its superclass.
fn boxed(bytes: &mut Vec<u8>, name: &str, version: u64, kind: u8) {
    bytes.push(0x73);
    class(bytes, name, version);
    bytes.extend([0, 1, kind, 0, 5]);
    bytes.extend(b"value\x78");
}

fn class(bytes: &mut Vec<u8>, name: &str, version: u64) {
    bytes.push(0x72);
    bytes.extend((name.len() as u16).to_be_bytes());
    bytes.extend(name.as_bytes());
    bytes.extend(version.to_be_bytes());
    bytes.push(2);
}

fn kryo5(scalar: &Scalar) -> Option<Vec<u8>> {
    Some(match scalar {
        Scalar::Null => vec![0],
        Scalar::Bool(on) => vec![5, u8::from(*on)],
        Scalar::Int(number) => {
            let mut bytes = vec![9];
            let mut rest = (number << 1 ^ number >> 63).cast_unsigned();
            for _ in 0..8 {
                if rest < 0x80 {
                    break;
                }
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
            bytes
        }
        Scalar::Text(text) => {
            let mut bytes = vec![3];
            // Without reference tracking, text that begins with U+0001 cannot be told from the mark
            // of a reference.
            if text.starts_with('\u{1}') {
                return None;
            }
            if text.is_ascii() && text.len() > 1 && text.len() < 64 && !text.contains('\0') {
                bytes.extend(text.as_bytes());
                *bytes.last_mut()? |= 0x80;
                return Some(bytes);
            }
            let mut length = text.encode_utf16().count() as u64 + 1;
            let first = (length & 0x3f) as u8 | 0x80;
            length >>= 6;
            bytes.push(if length > 0 { first | 0x40 } else { first });
            while length > 0 {
                let byte = (length & 0x7f) as u8;
                length >>= 7;
                bytes.push(if length > 0 { byte | 0x80 } else { byte });
            }
            // Kryo writes NUL as one byte.
            text.encode_utf16().for_each(|unit| push_unit(&mut bytes, unit, false));
            bytes
        }
    })
}

fn java_text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    text.encode_utf16().for_each(|unit| push_unit(&mut bytes, unit, true));
    bytes
}

fn push_unit(bytes: &mut Vec<u8>, unit: u16, long_nul: bool) {
    match unit {
        0 if long_nul => bytes.extend([0xc0, 0x80]),
        0..0x80 => bytes.push(unit as u8),
        0x80..0x800 => bytes.extend([0xc0 | (unit >> 6) as u8, 0x80 | (unit & 0x3f) as u8]),
        _ => bytes.extend([
            0xe0 | (unit >> 12) as u8,
            0x80 | (unit >> 6 & 0x3f) as u8,
            0x80 | (unit & 0x3f) as u8,
        ]),
    }
}
