//! Java's encoding of text: each UTF-16 unit separately as one to three bytes. A character beyond
//! the basic plane takes two units of three bytes each.

use alloc::string::String;
use alloc::vec::Vec;

/// Splits the first unit off `bytes`. NUL may be one byte or Java's two; other overlong forms are
/// refused.
pub(super) fn split_unit(bytes: &[u8]) -> Option<(u16, &[u8])> {
    match *bytes {
        [first @ 0x00..=0x7f, ref rest @ ..] => Some((u16::from(first), rest)),
        [first @ 0xc0..=0xdf, second @ 0x80..=0xbf, ref rest @ ..] => {
            let unit = low_bits(first, 0x1f) << 6 | low_bits(second, 0x3f);
            (unit == 0 || unit >= 0x80).then_some((unit, rest))
        }
        [first @ 0xe0..=0xef, second @ 0x80..=0xbf, third @ 0x80..=0xbf, ref rest @ ..] => {
            let unit =
                low_bits(first, 0x0f) << 12 | low_bits(second, 0x3f) << 6 | low_bits(third, 0x3f);
            (unit >= 0x800).then_some((unit, rest))
        }
        _ => None,
    }
}

/// Appends the bytes of a unit. NUL is one byte: whoever writes two for it does so itself.
pub(super) fn push_unit(bytes: &mut Vec<u8>, unit: u16) {
    let low = |shift: u16, mask: u16| u8::try_from(unit >> shift & mask).unwrap_or_default();
    match unit {
        0..=0x7f => bytes.push(low(0, 0x7f)),
        0x80..=0x7ff => bytes.extend([0xc0 | low(6, 0x1f), 0x80 | low(0, 0x3f)]),
        _ => bytes.extend([0xe0 | low(12, 0x0f), 0x80 | low(6, 0x3f), 0x80 | low(0, 0x3f)]),
    }
}

/// Decodes UTF-16 units; `None` when a surrogate stands alone.
pub(super) fn text(units: Vec<u16>) -> Option<String> {
    char::decode_utf16(units).collect::<Result<String, _>>().ok()
}

fn low_bits(byte: u8, mask: u8) -> u16 {
    u16::from(byte & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_its_shortest_form_but_for_nul() {
        assert_eq!(split_unit(b"\x00"), Some((0, &[][..])));
        assert_eq!(split_unit(b"\xc0\x80"), Some((0, &[][..])));
        assert_eq!(split_unit(b"\xc2\x80x"), Some((0x80, &b"x"[..])));
        assert_eq!(split_unit(b"\xe0\xa0\x80"), Some((0x800, &[][..])));
        assert_eq!(split_unit(b"\xef\xbf\xbf"), Some((0xffff, &[][..])));
        let refused: [&[u8]; 8] = [
            b"",
            b"\x80",
            b"\xc2",
            b"\xc1\xbf",
            b"\xe0\x9f\xbf",
            b"\xe0\xa0",
            b"\xe0\xa0\x00",
            b"\xf0\x9f\x94\x92",
        ];
        for bytes in refused {
            assert_eq!(split_unit(bytes), None, "{bytes:02x?}");
        }
    }
}
