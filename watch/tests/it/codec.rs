//! Tests the codecs with bytes from the real serializers, and with random bytes.

use std::fs;
use std::path::Path;

use lockwatch_judge::reading::Switch;
use lockwatch_judge::spec::Codec;
use lockwatch_watch::redis::codec::{Form, Scalar, decode, display_text, encode, form_of, switch};

/// One value as stored by a real serializer.
struct Fixture {
    /// Name of serializer and value.
    name: String,
    codec: Codec,
    bytes: Vec<u8>,
    /// The expected result; `None`: the bytes must be refused.
    expected: Option<Scalar>,
}

fn fixtures() -> Vec<Fixture> {
    let files = [
        ("kryo5", Codec::Kryo5),
        ("kryo5_references", Codec::Kryo5),
        ("jdk", Codec::Jdk),
        ("json", Codec::Json),
        ("json_plain", Codec::Json),
    ];
    files.into_iter().flat_map(|(file, codec)| read_fixtures(file, codec)).collect()
}

fn read_fixtures(file: &str, codec: Codec) -> Vec<Fixture> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/codec/{file}.txt"));
    let text = fs::read_to_string(path).unwrap();
    let fixtures: Vec<Fixture> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let [name, bytes, expected] = columns[..] else { panic!("{file}: {line}") };
            Fixture {
                name: format!("{file} {name}"),
                codec,
                bytes: from_hex(bytes),
                expected: expected_scalar(expected),
            }
        })
        .collect();
    assert!(fixtures.len() > 40, "{file} holds too little");
    fixtures
}

fn expected_scalar(column: &str) -> Option<Scalar> {
    let (kind, value) = column.split_once(':').unwrap();
    match kind {
        "null" => Some(Scalar::Null),
        "bool" => Some(Scalar::Bool(value.parse().unwrap())),
        "int" => Some(Scalar::Int(value.parse().unwrap())),
        "text" => Some(Scalar::Text(value.to_owned())),
        "text_hex" => Some(Scalar::Text(String::from_utf8(from_hex(value)).unwrap())),
        "refused" => None,
        _ => panic!("no kind {kind}"),
    }
}

fn from_hex(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "{hex}");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// A small pseudo-random generator (xorshift64), so that a failure is reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    fn bytes(&mut self, longest: usize) -> Vec<u8> {
        let length = self.below(longest + 1);
        (0..length).map(|_| self.next().to_le_bytes()[3]).collect()
    }
}

#[test]
fn what_the_real_serializers_write_is_read_right() {
    for fixture in fixtures() {
        assert_eq!(decode(fixture.codec, &fixture.bytes), fixture.expected, "{}", fixture.name);
    }
}

/// Every form except JSON's numbers has a length or an end, so a truncated value is refused.
#[test]
fn only_json_numbers_and_the_empty_value_have_a_readable_prefix() {
    for fixture in fixtures() {
        for length in 0..fixture.bytes.len() {
            let Some(read) = decode(fixture.codec, &fixture.bytes[..length]) else { continue };
            let explained = match (fixture.codec, &read) {
                (Codec::Json | Codec::Jdk, Scalar::Null) => length == 0,
                (Codec::Json, Scalar::Int(_)) => true,
                // The mark of a first occurrence, truncated so that it looks like a complete text.
                (Codec::Kryo5, Scalar::Text(text)) => text.starts_with('\u{1}'),
                // The class id of null is a prefix of an unknown class' name.
                (Codec::Kryo5, Scalar::Null) => length == 1 && fixture.expected.is_none(),
                _ => false,
            };
            assert!(explained, "{} cut to {length} bytes reads as {read:?}", fixture.name);
        }
    }
}

#[test]
fn trailing_bytes_are_refused() {
    for mut fixture in fixtures().into_iter().filter(|fixture| fixture.codec != Codec::Json) {
        fixture.bytes.push(0);
        assert_eq!(decode(fixture.codec, &fixture.bytes), None, "{}", fixture.name);
    }
}

#[test]
fn damaged_and_random_bytes_never_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let fixtures = fixtures();
    for _ in 0..200 {
        for fixture in &fixtures {
            let mut bytes = fixture.bytes.clone();
            let at = random.below(bytes.len());
            bytes[at] = random.next().to_le_bytes()[5];
            bytes.truncate(random.below(bytes.len() + 8));
            read_in_every_way(&bytes);
        }
    }
    for _ in 0..100_000 {
        read_in_every_way(&random.bytes(24));
    }
}

/// Random bytes after each valid prefix.
#[test]
fn random_values_behind_real_openings_never_panic() {
    let mut random = Random(42);
    let openings: [&[u8]; 9] = [
        b"\x02",
        b"\x03",
        b"\x03\x01",
        b"\x03\xff",
        b"\x09",
        b"\xac\xed\x00\x05\x74",
        b"\xac\xed\x00\x05\x7c",
        b"\"",
        b"[\"java.lang.Long\",",
    ];
    for _ in 0..20_000 {
        for opening in openings {
            read_in_every_way(&[opening, &random.bytes(16)].concat());
        }
    }
}

fn read_in_every_way(bytes: &[u8]) {
    for codec in Codec::ALL {
        let read = decode(codec, bytes);
        if let Switch::Undecodable { value, fits } = switch(codec, bytes) {
            assert!(value.len() <= 64 && bytes.starts_with(&value), "{bytes:02x?}");
            assert!(fits != Some(codec), "{bytes:02x?}");
        }
        let shown = display_text(codec, bytes);
        assert!(read.is_some() || shown == bytes, "{bytes:02x?}");
    }
}

#[test]
fn the_two_lists_are_closed() {
    // What comes from a pipe or a file keeps its line break.
    for on in
        ["1", "true", "on", "yes", "ON", "True", "yEs", "1\n", "on\r\n", " on", "'on'", "'1'\n"]
    {
        assert_eq!(switch(Codec::Raw, on.as_bytes()), Switch::On, "{on}");
    }
    for off in ["", "0", "false", "off", "no", "null", "FALSE", "Off", "NULL", "0\n", "\n"] {
        assert_eq!(switch(Codec::Raw, off.as_bytes()), Switch::Off, "{off}");
    }
    for neither in ["2", "-1", "00", "o n", "on\0", "y", "enabled", "Ον", "\0", "\u{fffd}"] {
        let value = neither.as_bytes().to_vec();
        let Switch::Undecodable { value: shown, .. } = switch(Codec::Raw, &value) else {
            panic!("{neither:?}")
        };
        assert_eq!(shown, value);
    }
}

#[test]
fn a_switch_is_read_by_what_its_value_means() {
    let expected = |scalar: &Option<Scalar>| match scalar {
        Some(Scalar::Bool(true) | Scalar::Int(1)) => Some(Switch::On),
        Some(Scalar::Null | Scalar::Bool(false) | Scalar::Int(0)) => Some(Switch::Off),
        Some(Scalar::Text(text)) => match text.as_str() {
            "on" | "true" | "1" => Some(Switch::On),
            "off" | "false" | "NO" | "null" | "" => Some(Switch::Off),
            _ => None,
        },
        _ => None,
    };
    for fixture in fixtures() {
        match (switch(fixture.codec, &fixture.bytes), expected(&fixture.expected)) {
            (read, Some(expected)) => assert_eq!(read, expected, "{}", fixture.name),
            (Switch::Undecodable { fits, .. }, None) => assert_eq!(fits, None, "{}", fixture.name),
            (read, None) => panic!("{} reads as {read:?}", fixture.name),
        }
    }
}

/// The decoder names the codec that fits a value written with another codec than configured.
#[test]
fn a_wrong_codec_is_named() {
    let true_by = |file, codec| {
        let fixture =
            read_fixtures(file, codec).into_iter().find(|fixture| fixture.name.ends_with(" true"));
        (codec, fixture.unwrap().bytes)
    };
    let written = [
        (Codec::Raw, b"on".to_vec()),
        (Codec::Json, b"\"on\"".to_vec()),
        true_by("kryo5", Codec::Kryo5),
        true_by("jdk", Codec::Jdk),
    ];
    for (writer, bytes) in written {
        for reader in Codec::ALL {
            let expected = if reader == writer {
                Switch::On
            } else {
                Switch::Undecodable { value: bytes.clone(), fits: Some(writer) }
            };
            assert_eq!(switch(reader, &bytes), expected, "{writer:?} read as {reader:?}");
        }
    }
}

#[test]
fn an_empty_value_is_no_evidence_for_a_codec() {
    assert_eq!(switch(Codec::Kryo5, b""), Switch::Undecodable { value: Vec::new(), fits: None });
    for codec in [Codec::Raw, Codec::Json, Codec::Jdk] {
        assert_eq!(switch(codec, b""), Switch::Off, "{codec:?}");
    }
}

#[test]
fn an_undecodable_value_is_cut() {
    let value = vec![b'x'; 65];
    assert_eq!(
        switch(Codec::Raw, &value),
        Switch::Undecodable { value: value[..64].to_vec(), fits: None }
    );
}

#[test]
fn a_user_is_shown_as_people_know_them() {
    for fixture in fixtures() {
        let expected = match &fixture.expected {
            Some(Scalar::Text(text)) => text.clone().into_bytes(),
            Some(Scalar::Int(number)) => number.to_string().into_bytes(),
            _ => fixture.bytes.clone(),
        };
        assert_eq!(display_text(fixture.codec, &fixture.bytes), expected, "{}", fixture.name);
    }
    for codec in [Codec::Json, Codec::Jdk, Codec::Kryo5] {
        assert_eq!(display_text(codec, b"alice\xff"), b"alice\xff", "{codec:?}");
    }
}

/// A name or a value that is written must be the one that the program knows, to the byte: else the
/// user would have two switches.
#[test]
fn what_is_written_is_what_the_real_serializers_write() {
    let mut count = 0;
    for fixture in fixtures() {
        let (serializer, value) = fixture.name.split_once(' ').unwrap();
        let (kind, _) = value.split_once('_').unwrap_or(("bool", ""));
        let form = match kind {
            "string" if serializer == "kryo5_references" => Form::MarkedText,
            "string" => Form::Text,
            "bool" => Form::Bool,
            "int" => Form::Int,
            // Plain JSON has one kind of number.
            "long" | "short" | "byte" if serializer == "json_plain" => Form::Int,
            "short" | "byte" if serializer == "json" => Form::Int,
            "long" => Form::Long,
            "short" => Form::Short,
            "byte" => Form::Byte,
            _ => continue,
        };
        let word = match &fixture.expected {
            Some(Scalar::Text(text)) => text.clone(),
            Some(Scalar::Bool(truth)) => truth.to_string(),
            Some(Scalar::Int(number)) => number.to_string(),
            Some(Scalar::Null) | None => continue,
        };
        assert_eq!(
            encode(fixture.codec, form, &word),
            Some(fixture.bytes.clone()),
            "{}",
            fixture.name
        );
        let (found, read) = form_of(fixture.codec, &fixture.bytes).unwrap();
        assert_eq!((encode(fixture.codec, found, &read), read), (Some(fixture.bytes), word));
        count += 1;
    }
    assert!(count > 150, "{count}");
}

#[test]
fn what_is_written_is_read_again() {
    let long = "ä".repeat(40_000);
    let words = ["anna", "a", "", "Käthe 🔒", "a\"b\\c\u{1}", "42", "-1", "true", &long];
    for codec in Codec::ALL {
        for word in words {
            for form in Form::ALL {
                let Some(bytes) = encode(codec, form, word) else { continue };
                let shown = match decode(codec, &bytes) {
                    Some(Scalar::Bool(truth)) => truth.to_string().into_bytes(),
                    // Java's serializers keep null, not the empty text, as nothing.
                    Some(Scalar::Null) => Vec::new(),
                    _ => display_text(codec, &bytes),
                };
                assert_eq!(shown, word.as_bytes(), "{codec:?} {form:?} {word:.9}");
            }
        }
    }
    assert_eq!(encode(Codec::Jdk, Form::Byte, "128"), None);
    assert_eq!(encode(Codec::Kryo5, Form::Int, "2147483648"), None);
    assert_eq!(encode(Codec::Json, Form::Int, "007"), None);
    assert_eq!(encode(Codec::Raw, Form::Bool, "true"), None);
}
