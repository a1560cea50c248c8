//! Mistakes in a configuration: collected while reading, then reported all at once, each with its
//! place and its remedy.

use std::cell::RefCell;
use std::fmt;

use super::locate::{self, Position};
use super::place::{Place, Step};
use crate::text::identity::without_login;

/// Maximum number of reported mistakes. In a file with more, many have the same cause.
const TOLD_MAX: usize = 100;

/// Maximum bytes of text to parse in order to find line numbers. Each line number costs one pass,
/// so in a large file only the first mistakes get one.
const LOCATE_BYTES_MAX: usize = 8 << 20;

/// Everything that is wrong with a configuration, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    source: String,
    mistakes: Vec<Mistake>,
    left_out: usize,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The field, for example `tasks.outbound.lock.lease`; empty if the mistake concerns the whole
    /// file.
    pub field: String,
    /// The position in the text, if there is one.
    pub position: Option<Position>,
    /// What is wrong and how to fix it.
    pub message: String,
}

impl ConfigErrors {
    /// A mistake that concerns the whole file.
    pub(super) fn whole(source: &str, message: String, position: Option<Position>) -> ConfigErrors {
        let mistake = Mistake { field: String::new(), position, message };
        ConfigErrors { source: source.to_owned(), mistakes: vec![mistake], left_out: 0 }
    }

    /// The same mistake in each of these fields; none without fields.
    pub(super) fn of_fields(
        source: &str,
        fields: Vec<String>,
        message: &str,
    ) -> Option<ConfigErrors> {
        let mistake = |field| Mistake { field, position: None, message: message.to_owned() };
        let mistakes: Vec<Mistake> = fields.into_iter().map(mistake).collect();
        (!mistakes.is_empty()).then(|| ConfigErrors {
            source: source.to_owned(),
            mistakes,
            left_out: 0,
        })
    }

    /// The reported mistakes, in the order of the file; never empty.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }
}

impl std::error::Error for ConfigErrors {}

/// One line for each mistake: `file:line:column: field: what is wrong; what to do`.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, mistake) in self.mistakes.iter().enumerate() {
            if nth > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", self.source)?;
            if let Some(Position { line, column }) = mistake.position {
                write!(f, ":{line}:{column}")?;
            }
            if !mistake.field.is_empty() {
                write!(f, ": {}", mistake.field)?;
            }
            write!(f, ": {}", mistake.message)?;
        }
        if self.left_out > 0 {
            write!(f, "\n{}: and {} more mistakes", self.source, self.left_out)?;
        }
        Ok(())
    }
}

/// Marks a value that could not be read and whose mistake is already reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported;

/// Collects mistakes. Shared by all parsers of one document.
#[derive(Debug, Default)]
pub(super) struct Mistakes {
    found: RefCell<Vec<(Place, String)>>,
}

impl Mistakes {
    pub(super) fn report(&self, place: Place, message: impl Into<String>) -> Reported {
        self.found.borrow_mut().push((place, message.into()));
        Reported
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// All mistakes of the document `text`, which messages call `source`. `task_names` are the
    /// names of the tasks in messages.
    pub(super) fn into_errors(
        self,
        source: &str,
        text: &str,
        task_names: &[Option<String>],
    ) -> ConfigErrors {
        let found = self.found.into_inner();
        let located_max = LOCATE_BYTES_MAX / text.len().max(1);
        let left_out = found.len().saturating_sub(TOLD_MAX);
        let mut mistakes: Vec<Mistake> = found
            .into_iter()
            .take(TOLD_MAX)
            .enumerate()
            .map(|(nth, (place, message))| {
                let position =
                    if nth <= located_max { locate::position(text, &place) } else { None };
                Mistake { field: field_text(&place, task_names), position, message }
            })
            .collect();
        mistakes.sort_by_key(|mistake| {
            mistake.position.map_or((1, 0, 0), |at| (0, at.line, at.column))
        });
        ConfigErrors { source: source.to_owned(), mistakes, left_out }
    }

    /// All mistakes of a configuration from flags. `flag_of` gives the flag that a place was made
    /// from.
    pub(super) fn into_flag_errors(self, flag_of: impl Fn(&Place) -> &'static str) -> ConfigErrors {
        let mistakes = self
            .found
            .into_inner()
            .into_iter()
            .map(|(place, message)| Mistake {
                field: flag_of(&place).to_owned(),
                position: None,
                message,
            })
            .collect();
        ConfigErrors { source: "command line".to_owned(), mistakes, left_out: 0 }
    }
}

/// A path like `tasks.outbound.wanted.keys[1]`. A task without a valid name of its own is shown by
/// its index.
pub(super) fn field_text(place: &Place, task_names: &[Option<String>]) -> String {
    let mut text = String::new();
    for (depth, step) in place.steps.iter().enumerate() {
        let in_tasks = depth == 1 && place.steps.first() == Some(&Step::Field("tasks".to_owned()));
        match step {
            Step::Item(index) => match task_names.get(*index).and_then(Option::as_ref) {
                Some(name) if in_tasks => push_field(&mut text, name),
                _ => text.push_str(&format!("[{index}]")),
            },
            Step::Field(name) => push_field(&mut text, name),
        }
    }
    text
}

fn push_field(text: &mut String, name: &str) {
    if !text.is_empty() {
        text.push('.');
    }
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '/');
    if !name.is_empty() && name.chars().all(plain) {
        text.push_str(name);
    } else {
        text.push_str(&quoted(name));
    }
}

/// User text in a message: quoted, escaped, and bounded in length.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    // The text may be a URL with a password, in a field that expects a name.
    let text = &*without_login(text);
    if text.chars().nth(SHOWN_CHARS).is_none() {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(SHOWN_CHARS).collect();
    format!("{start:?}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_goes_by_its_name() {
        let place = Place::default().field("tasks").item(1).field("wanted").field("keys").item(1);
        let names = [None, Some("outbound".to_owned())];
        assert_eq!(field_text(&place, &names), "tasks.outbound.wanted.keys[1]");
        assert_eq!(field_text(&place, &[]), "tasks[1].wanted.keys[1]");
        assert_eq!(
            field_text(&place, &[None, Some("a.b\n".to_owned())]),
            r#"tasks."a.b\n".wanted.keys[1]"#
        );
    }

    #[test]
    fn long_and_hostile_text_is_cut_and_escaped() {
        assert_eq!(quoted("a\"\u{7}b"), r#""a\"\u{7}b""#);
        assert_eq!(quoted(&"x".repeat(1000)).chars().count(), 63);
        assert_eq!(quoted("redis://:secret@host"), r#""redis://…@host""#);
    }
}
