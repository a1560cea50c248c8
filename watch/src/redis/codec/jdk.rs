//! Java's object serialization of null, `String` and the boxed integers and booleans: what
//! `ObjectOutputStream` writes into a fresh stream, and so what Spring's default serializer stores.

use alloc::vec::Vec;

use super::java_text;
use super::scalar::{Form, Scalar};

const STREAM_HEADER: [u8; 4] = [0xac, 0xed, 0x00, 0x05];
const TC_NULL: u8 = 0x70;
const TC_CLASSDESC: u8 = 0x72;
const TC_OBJECT: u8 = 0x73;
const TC_STRING: u8 = 0x74;
const TC_ENDBLOCKDATA: u8 = 0x78;
const TC_LONGSTRING: u8 = 0x7c;
/// The class is serializable in the default way.
const SC_SERIALIZABLE: u8 = 0x02;

/// A class whose only field is a primitive named `value`.
struct Boxed {
    name: &'static [u8],
    /// The class' `serialVersionUID`.
    version: u64,
    /// The type of `value` in Java's notation.
    field_type: u8,
    /// The size of `value` in bytes.
    width: usize,
}

const BOOLEAN: Boxed = Boxed {
    name: b"java.lang.Boolean",
    version: 0xcd20_7280_d59c_faee,
    field_type: b'Z',
    width: 1,
};

/// The boxed integers; all extend `Number`.
const INTEGERS: [Boxed; 4] = [
    Boxed { name: b"java.lang.Byte", version: 0x9c4e_6084_ee50_f51c, field_type: b'B', width: 1 },
    Boxed { name: b"java.lang.Short", version: 0x684d_3713_3460_da52, field_type: b'S', width: 2 },
    Boxed {
        name: b"java.lang.Integer",
        version: 0x12e2_a0a4_f781_8738,
        field_type: b'I',
        width: 4,
    },
    Boxed { name: b"java.lang.Long", version: 0x3b8b_e490_cc8f_23df, field_type: b'J', width: 8 },
];

const NUMBER_NAME: &[u8] = b"java.lang.Number";
const NUMBER_VERSION: u64 = 0x86ac_951d_0b94_e08b;

pub(super) fn decode(bytes: &[u8]) -> Option<Scalar> {
    let (tag, rest) = bytes.strip_prefix(&STREAM_HEADER)?.split_first()?;
    match *tag {
        TC_NULL => rest.is_empty().then_some(Scalar::Null),
        TC_STRING => text(rest, 2),
        TC_LONGSTRING => text(rest, 8),
        TC_OBJECT => boolean(rest).or_else(|| integer(rest)),
        _ => None,
    }
}

/// A text preceded by its length, which takes `width` bytes.
fn text(bytes: &[u8], width: usize) -> Option<Scalar> {
    let (length, mut rest) = bytes.split_at_checked(width)?;
    let length = length.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    if u64::try_from(rest.len()).ok()? != length {
        return None;
    }
    let mut units = Vec::new();
    while !rest.is_empty() {
        let (unit, after) = java_text::split_unit(rest)?;
        units.push(unit);
        rest = after;
    }
    java_text::text(units).map(Scalar::Text)
}

pub(super) fn encode(form: Form, scalar: &Scalar) -> Option<Vec<u8>> {
    let number = |class: &Boxed, number: i64| {
        let bytes = number.to_be_bytes();
        let value = bytes.get(bytes.len() - class.width..)?;
        let of_number = [
            &[TC_CLASSDESC][..],
            &named(NUMBER_NAME, NUMBER_VERSION)?,
            &[SC_SERIALIZABLE, 0, 0, TC_ENDBLOCKDATA, TC_NULL],
        ];
        // What a narrower class cuts off must be nothing but the sign.
        (signed(value) == number).then_some(())?;
        Some([class.opening()?, of_number.concat(), value.to_vec()].concat())
    };
    let [byte, short, int, long] = &INTEGERS;
    match (form, scalar) {
        (Form::Text, Scalar::Text(text)) => Some(encode_text(text)),
        (Form::Bool, Scalar::Bool(truth)) => {
            Some([BOOLEAN.opening()?, Vec::from([TC_NULL, u8::from(*truth)])].concat())
        }
        (Form::Byte, Scalar::Int(value)) => number(byte, *value),
        (Form::Short, Scalar::Int(value)) => number(short, *value),
        (Form::Int, Scalar::Int(value)) => number(int, *value),
        (Form::Long, Scalar::Int(value)) => number(long, *value),
        _ => None,
    }
}

pub(super) fn encode_text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for unit in text.encode_utf16() {
        match unit {
            0 => bytes.extend([0xc0, 0x80]),
            unit => java_text::push_unit(&mut bytes, unit),
        }
    }
    let head = match u16::try_from(bytes.len()) {
        Ok(length) => [&[TC_STRING][..], &length.to_be_bytes()].concat(),
        Err(_) => [&[TC_LONGSTRING][..], &(bytes.len() as u64).to_be_bytes()].concat(),
    };
    [&STREAM_HEADER[..], &head, &bytes].concat()
}

/// A class' name and version.
fn named(name: &[u8], version: u64) -> Option<Vec<u8>> {
    let length = u16::try_from(name.len()).ok()?;
    Some([&length.to_be_bytes()[..], name, &version.to_be_bytes()].concat())
}

fn boolean(bytes: &[u8]) -> Option<Scalar> {
    match BOOLEAN.after_class(bytes)? {
        [TC_NULL, 0] => Some(Scalar::Bool(false)),
        [TC_NULL, 1] => Some(Scalar::Bool(true)),
        _ => None,
    }
}

fn integer(bytes: &[u8]) -> Option<Scalar> {
    let (class, rest) =
        INTEGERS.iter().find_map(|class| Some((class, class.after_class(bytes)?)))?;
    let rest = after_name(rest, NUMBER_NAME, NUMBER_VERSION)?;
    let value = rest.strip_prefix(&[SC_SERIALIZABLE, 0, 0, TC_ENDBLOCKDATA, TC_NULL])?;
    (value.len() == class.width).then(|| Scalar::Int(signed(value)))
}

impl Boxed {
    /// All that comes before the description of the class that this one extends.
    fn opening(&self) -> Option<Vec<u8>> {
        let head =
            [&STREAM_HEADER[..], &[TC_OBJECT, TC_CLASSDESC], &named(self.name, self.version)?];
        let field =
            [&[SC_SERIALIZABLE, 0, 1, self.field_type, 0, 5][..], b"value", &[TC_ENDBLOCKDATA]];
        Some([head.concat(), field.concat()].concat())
    }

    /// The rest of `bytes` after this class' description.
    fn after_class<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let fields = after_name(bytes, self.name, self.version)?;
        fields
            .strip_prefix(&[SC_SERIALIZABLE, 0, 1, self.field_type, 0, 5])?
            .strip_prefix(b"value")?
            .strip_prefix(&[TC_ENDBLOCKDATA])
    }
}

/// The rest of `bytes` after a class' name and version.
fn after_name<'a>(bytes: &'a [u8], name: &[u8], version: u64) -> Option<&'a [u8]> {
    let length = u16::try_from(name.len()).ok()?;
    let rest = bytes.strip_prefix(&[TC_CLASSDESC])?.strip_prefix(&length.to_be_bytes())?;
    rest.strip_prefix(name)?.strip_prefix(&version.to_be_bytes())
}

/// A big-endian two's complement number of at most eight bytes.
fn signed(bytes: &[u8]) -> i64 {
    let sign = if bytes.first().is_some_and(|first| *first >= 0x80) { -1 } else { 0 };
    bytes.iter().fold(sign, |sum, byte| sum << 8 | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;

    fn stream(parts: &[&[u8]]) -> Vec<u8> {
        [&STREAM_HEADER[..], &parts.concat()].concat()
    }

    #[test]
    fn a_text_of_more_than_65535_bytes_has_its_own_form() {
        let text = [b'x'; 70_000];
        let bytes = stream(&[&[TC_LONGSTRING], &70_000_u64.to_be_bytes(), &text]);
        assert_eq!(decode(&bytes), Some(Scalar::Text("x".repeat(70_000).to_string())));
    }

    #[test]
    fn a_claimed_length_must_be_the_real_one() {
        for claimed in [0_u64, 1, 3, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(
                decode(&stream(&[&[TC_LONGSTRING], &claimed.to_be_bytes(), b"on"])),
                None,
                "{claimed}"
            );
        }
        for claimed in [0_u16, 1, 3, u16::MAX] {
            assert_eq!(
                decode(&stream(&[&[TC_STRING], &claimed.to_be_bytes(), b"on"])),
                None,
                "{claimed}"
            );
        }
    }

    #[test]
    fn a_boolean_is_zero_or_one() {
        let class =
            [&[TC_OBJECT, TC_CLASSDESC, 0, 17][..], BOOLEAN.name, &BOOLEAN.version.to_be_bytes()]
                .concat();
        let fields =
            [&[SC_SERIALIZABLE, 0, 1, b'Z', 0, 5][..], b"value", &[TC_ENDBLOCKDATA, TC_NULL]]
                .concat();
        assert_eq!(decode(&stream(&[&class, &fields, &[1]])), Some(Scalar::Bool(true)));
        assert_eq!(decode(&stream(&[&class, &fields, &[2]])), None);
        assert_eq!(decode(&stream(&[&class, &fields, &[1, 0]])), None);
    }
}
