//! Parses YAML, that of lockwatch and of other programs. Errors of the YAML library may quote the
//! file, so they are sanitized here.

use serde_yaml::Value;

use super::locate::Position;
use super::mistake::ConfigErrors;
use crate::text::identity::{is_plain, without_login};

/// Maximum length of an error message in characters. A longer one loses its beginning, which is the
/// path: the cause stands at the end.
const CHARS_MAX: usize = 300;

/// Parses `text`, which came from `source`, and resolves its merge keys (`<<`).
///
/// # Errors
/// What is not valid YAML, with its line where the library reports one.
pub(crate) fn parse(text: &str, source: &str) -> Result<Value, ConfigErrors> {
    let refused = |error: serde_yaml::Error| {
        let (position, message) = (Position::of(&error), error.to_string());
        let place = position.map(|at| format!(" at line {} column {}", at.line, at.column));
        let message = place.and_then(|place| message.strip_suffix(&place)).unwrap_or(&message);
        ConfigErrors::whole(source, format!("is not valid YAML: {}", harmless(message)), position)
    };
    let mut document: Value = serde_yaml::from_str(text).map_err(refused)?;
    document.apply_merge().map_err(refused)?;
    Ok(document)
}

/// `message` without credentials and without characters that a terminal would interpret, and
/// bounded in length.
fn harmless(message: &str) -> String {
    let mut plain = String::new();
    for character in without_login(message).chars() {
        if is_plain(character) || character == '…' {
            plain.push(character);
        } else {
            plain.extend(character.escape_default());
        }
    }
    match plain.char_indices().rev().nth(CHARS_MAX) {
        Some((at, left_out)) => format!("…{}", plain.get(at + left_out.len_utf8()..).unwrap_or("")),
        None => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse(text, "x.yml").unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_place() {
        assert_eq!(
            refused("a: {b: 1, b: 2}"),
            "x.yml:1:4: is not valid YAML: a: duplicate entry with key \"b\""
        );
        assert_eq!(refused("a: *b"), "x.yml:1:4: is not valid YAML: unknown anchor");
    }

    #[test]
    fn names_in_the_message_cannot_fool_a_terminal_or_tell_a_password() {
        let message = refused("\"a\\tb\\e[31m\\u202e é\": {c: 1, c: 2}");
        assert!(
            message.ends_with("YAML: a\\tb\\u{1b}[31m\\u{202e} é: duplicate entry with key \"c\""),
            "{message}"
        );
        let message = refused("'redis://:secret@host': {c: 1, c: 2}");
        assert!(
            message.ends_with("YAML: redis://…@host: duplicate entry with key \"c\""),
            "{message}"
        );
        let message = refused("{'redis://:secret@host': 1, 'redis://:secret@host': 2}");
        assert!(message.contains("redis://…@host") && !message.contains("secret"), "{message}");
    }

    #[test]
    fn of_a_long_message_the_reason_stays() {
        let message = refused(&format!("{}: {{c: 1, c: 2}}", "é".repeat(400)));
        assert!(message.chars().count() < 350, "{message}");
        assert!(
            message.contains("YAML: …éé")
                && message.ends_with("éé: duplicate entry with key \"c\""),
            "{message}"
        );
    }
}
