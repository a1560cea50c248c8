//! Keys in the notation of WebDriver.

use serde_json::{Value, json};

/// A key that a visitor presses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Moves to the next link, button or field.
    Tab,
    /// Follows a link or submits a form.
    Enter,
    /// Presses a button.
    Space,
    /// A letter, a digit or a punctuation mark.
    Letter(char),
}

impl Key {
    fn code(self) -> char {
        match self {
            Key::Tab => '\u{E004}',
            Key::Enter => '\u{E007}',
            Key::Space => ' ',
            Key::Letter(letter) => letter,
        }
    }
}

/// The WebDriver actions that press and release the keys in turn.
pub(super) fn actions(keys: &[Key]) -> Value {
    let both = |key: &Key| {
        ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.code().to_string()}))
    };
    let strokes: Vec<Value> = keys.iter().flat_map(both).collect();
    json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})
}
