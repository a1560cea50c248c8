//! Keys, as WebDriver writes them.

use serde_json::{Value, json};

/// A key that a visitor presses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// To the next link, button or field.
    Tab,
    /// Follow the link, send the form.
    Enter,
    /// Press the button.
    Space,
    /// A letter, a digit or a sign.
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

/// Pressed and released in turn.
pub(super) fn actions(keys: &[Key]) -> Value {
    let both = |key: &Key| {
        ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.code().to_string()}))
    };
    let strokes: Vec<Value> = keys.iter().flat_map(both).collect();
    json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})
}
