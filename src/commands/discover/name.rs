//! Makes names of tasks from keys, and writes keys as YAML.

use std::collections::BTreeSet;

use crate::outputs::json;
use crate::text::identity::{digest, escape};
use lockwatch_watch::redis::libraries::shape::is_lock_word;

/// Maximum length of a task's name in characters.
const NAME_CHARS: usize = 60;

/// Makes unique names of tasks.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// A name for the lock `key`: the key's own without the word "lock" at either end.
    pub(super) fn of(&mut self, key: &[u8]) -> String {
        let name = name(key);
        let numbered = (2_u32..).map(|number| format!("{name}-{number}"));
        let mut candidates = std::iter::once(name.clone()).chain(numbered);
        let free = candidates.find(|candidate| !self.taken.contains(candidate)).unwrap_or(name);
        self.taken.insert(free.clone());
        free
    }
}

fn name(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key);
    let usable =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | ':');
    let clean: String =
        text.chars().map(|character| if usable(character) { character } else { '-' }).collect();
    let own = without_lock(&clean).unwrap_or(&clean);
    let mut name: String = own.chars().take(NAME_CHARS).collect();
    while name.contains("--") {
        name = name.replace("--", "-");
    }
    let name = name.trim_matches(|character: char| !character.is_ascii_alphanumeric());
    if name.is_empty() { format!("lock-{}", digest(key)) } else { name.to_owned() }
}

/// The name without the word "lock" at its end, or else at its beginning.
fn without_lock(name: &str) -> Option<&str> {
    const SEPARATORS: [char; 4] = [':', '-', '.', '_'];
    let says_lock = |part: &str| {
        part.len() <= "locks".len() && is_lock_word(part.to_ascii_lowercase().as_bytes())
    };
    let before =
        name.rsplit_once(SEPARATORS).filter(|(_, last)| says_lock(last)).map(|(before, _)| before);
    let after = || {
        name.split_once(SEPARATORS).filter(|(first, _)| says_lock(first)).map(|(_, after)| after)
    };
    before.or_else(after)
}

/// Bytes as a YAML scalar that reads back as the same bytes: quoted text if every character is
/// printable, else `{hex: …}`.
pub(super) fn yaml(bytes: &[u8]) -> String {
    let ascii = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let shown = escape(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) if ascii || shown == text => yaml_text(text),
        _ => format!("{{hex: \"{}\"}}", hex::encode(bytes)),
    }
}

/// Text in double quotes: a JSON string is valid YAML.
pub(super) fn yaml_text(text: &str) -> String {
    json::text(&text)
}

#[cfg(test)]
mod tests {
    use serde_yaml::Value;

    use super::*;

    #[test]
    fn names_come_from_keys() {
        for (key, expected) in [
            (b"outbound:lock".as_slice(), "outbound"),
            (b"lock:outbound", "outbound"),
            (b"job-lock:prod:nightly", "job-lock:prod:nightly"),
            (b"lock", "lock"),
            (b"outboundLock", "outboundLock"),
            (b"{shop}:outbound-lock", "shop-:outbound"),
            (b"a b\n\"c\":lock", "a-b-c"),
            (b"redbeat::lock", "redbeat"),
        ] {
            assert_eq!(name(key), expected, "{}", escape(key));
        }
        assert!(name(b"\xff\xfe").starts_with("lock-"));
        assert!(name("x".repeat(1_000).as_bytes()).len() <= NAME_CHARS);
    }

    #[test]
    fn no_two_tasks_have_one_name() {
        let mut names = Names::default();
        let given: Vec<String> = [b"a:lock".as_slice(), b"lock:a", b"a", b"a-2"]
            .into_iter()
            .map(|key| names.of(key))
            .collect();
        assert_eq!(given, ["a", "a-2", "a-3", "a-2-2"]);
    }

    #[test]
    fn keys_read_back_whatever_their_bytes() {
        let mut random = fastrand::Rng::with_seed(7);
        let pieces: [&[u8]; 14] = [
            b"\"",
            b"\\",
            b"'",
            b"\n",
            b": ",
            b" #",
            b"{{",
            b"\x1b[2J",
            b"\xff",
            "\u{202e}".as_bytes(),
            "\u{85}".as_bytes(),
            "é".as_bytes(),
            b"%",
            b"x",
        ];
        for _ in 0..5_000 {
            let bytes = (0..random.usize(1..9))
                .map(|_| pieces[random.usize(0..pieces.len())])
                .collect::<Vec<_>>()
                .concat();
            let written = yaml(&bytes);
            assert!(!written.chars().any(char::is_control), "{written}");
            let read: Value = serde_yaml::from_str(&format!("key: {written}")).unwrap();
            let read = match &read["key"] {
                Value::String(text) => text.clone().into_bytes(),
                other => {
                    let hex = other["hex"].as_str().unwrap();
                    (0..hex.len() / 2)
                        .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
                        .collect()
                }
            };
            assert_eq!(read, bytes, "{written}");
        }
        let long = "k".repeat(1_024);
        assert_eq!(yaml(long.as_bytes()), format!("\"{long}\""));
    }
}
