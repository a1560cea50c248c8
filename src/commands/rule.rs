//! The words of an ACL rule: the patterns of keys, and how `redis-cli` reads them.

/// The pattern that matches `key`, and whether it matches others, too. White space and NUL become
/// `?`, since Redis accepts no pattern that contains them; nothing else matches more than the key.
pub(super) fn pattern(key: &[u8]) -> (Vec<u8>, bool) {
    let mut pattern = Vec::with_capacity(key.len());
    let mut widened = false;
    for byte in key {
        match byte {
            b' ' | b'\t'..=b'\r' | 0 => {
                widened = true;
                pattern.push(b'?');
            }
            b'*' | b'?' | b'[' | b']' | b'\\' => pattern.extend([b'\\', *byte]),
            _ => pattern.push(*byte),
        }
    }
    (pattern, widened)
}

/// The pattern for the keys that match a glob, and whether it matches others, too: a glob is a pattern
/// already, but for the bytes that Redis does not accept in one.
pub(super) fn rule_of_glob(glob: &[u8]) -> (Vec<u8>, bool) {
    let is_refused = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r' | 0);
    let pattern = glob.iter().map(|byte| if is_refused(byte) { b'?' } else { *byte }).collect();
    (pattern, glob.iter().any(is_refused))
}

/// The words as one line for `redis-cli`.
pub(super) fn line(words: &[Vec<u8>]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as `redis-cli` reads it: quoted unless it contains only safe characters.
pub(super) fn quoted(word: &[u8]) -> String {
    let harmless = |byte: &u8| byte.is_ascii_alphanumeric() || b"_:.,@%~+-|/{}*?>=".contains(byte);
    if !word.is_empty() && word.iter().all(harmless) {
        return String::from_utf8_lossy(word).into_owned();
    }
    let mut text = String::from("\"");
    for byte in word {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_where_needed() {
        assert_eq!(
            quoted(b"%R~{outbound:lock}:*:rwlock_timeout:*"),
            "%R~{outbound:lock}:*:rwlock_timeout:*"
        );
        assert_eq!(quoted(b"a'b\"\\\xff\n"), r#""a'b\"\\\xff\x0a""#);
        assert_eq!(quoted(b""), "\"\"");
    }
}
