//! The marks with which editors of Windows begin a text file.

/// U+FEFF in UTF-8.
const UTF_8: &[u8] = b"\xef\xbb\xbf";
/// The same in both orders of UTF-16.
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// What is wrong with a file in UTF-16.
pub const IS_UTF_16: &str = "is UTF-16 text; save it as UTF-8";

/// The text after a mark of UTF-8, or all of it; `None`: it is UTF-16.
pub fn after_mark(bytes: &[u8]) -> Option<&[u8]> {
    if UTF_16.iter().any(|mark| bytes.starts_with(mark)) {
        return None;
    }
    Some(bytes.strip_prefix(UTF_8).unwrap_or(bytes))
}
