//! Assertions on all displayed text.

use crate::html::Element;

/// Whether a character moves a cursor, changes a colour or turns the direction of text.
fn is_unruly(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// `text` contains no control characters except line ends.
#[track_caller]
pub(crate) fn harmless(text: &str) {
    if let Some(character) =
        text.chars().find(|character| *character != '\n' && is_unruly(*character))
    {
        panic!("{character:?} would be shown in {text:?}");
    }
}

/// Like [`harmless`], but without line ends.
#[track_caller]
pub(crate) fn harmless_line(text: &str) {
    harmless(text);
    assert!(!text.contains('\n'), "a line end in {text:?}");
}

/// `text` does not contain the password.
#[track_caller]
pub(crate) fn keeps_secret(secret: &str, text: &str) {
    assert!(!text.contains(secret), "the password would be shown: {text:?}");
}

/// A page or picture is well-formed, so that all parsers read it alike.
#[track_caller]
pub(crate) fn check_html(text: &str) {
    let _root = Element::parse(text);
}
