//! The capabilities of a terminal: its width, that of a text, its colours, and the escaping of text
//! that must not reach it raw.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use terminal_size::terminal_size_of;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::identity::is_plain;

/// Columns if their number is not known.
const COLUMNS_DEFAULT: usize = 100;
/// Marks the cut end of a text.
const CUT: char = '…';
/// Maximum number of characters per column of a text. It bounds the number of combining marks,
/// which have no width.
const CHARACTERS_PER_COLUMN: usize = 4;

/// The destination of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Its width in columns.
    pub columns: usize,
    /// Maximum lines of a frame; `None` if output is not drawn in place.
    pub lines: Option<usize>,
    /// Whether to use colours.
    pub colours: bool,
}

/// A colour or weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A problem.
    Critical,
    /// A state that needs attention.
    Warning,
    /// Not known.
    Unknown,
    /// In transition.
    Pending,
    /// As expected.
    Good,
    /// Of little interest.
    Dim,
    /// A heading.
    Heading,
}

impl Style {
    /// The parameters of the escape sequence that turns it on.
    fn code(self) -> &'static str {
        match self {
            Style::Critical => "1;31",
            Style::Warning => "33",
            Style::Unknown => "35",
            Style::Pending => "36",
            Style::Good => "32",
            Style::Dim => "2",
            Style::Heading => "1",
        }
    }
}

impl Terminal {
    /// The present state of standard output. Call it again for each frame, as a terminal may have
    /// been resized.
    pub fn now() -> Terminal {
        let stdout = io::stdout();
        let size = terminal_size_of(&stdout)
            .map(|(width, height)| (usize::from(width.0), usize::from(height.0)));
        let variable = |name: &str| std::env::var(name).ok();
        let on_terminal = stdout.is_terminal();
        Terminal {
            columns: columns(size.map(|(columns, _)| columns), variable),
            lines: (on_terminal && can_draw(variable))
                .then(|| size.map_or(0, |(_, lines)| lines))
                .map(lines_or_default),
            colours: wants_colours(on_terminal, variable),
        }
    }

    /// `text` in a style, if colours are used.
    pub fn paint<'a>(&self, style: Style, text: &'a str) -> Cow<'a, str> {
        if self.colours && !text.is_empty() {
            Cow::Owned(format!("\x1b[{}m{text}\x1b[0m", style.code()))
        } else {
            Cow::Borrowed(text)
        }
    }
}

/// Lines of the terminal; 24 if it does not report its size.
fn lines_or_default(lines: usize) -> usize {
    if lines == 0 { 24 } else { lines }
}

fn columns(of_terminal: Option<usize>, variable: impl Fn(&str) -> Option<String>) -> usize {
    let configured = || variable("COLUMNS").and_then(|text| text.parse().ok());
    let known = of_terminal.filter(|columns| *columns > 0);
    known.or_else(configured).filter(|columns| *columns > 0).unwrap_or(COLUMNS_DEFAULT)
}

fn can_draw(variable: impl Fn(&str) -> Option<String>) -> bool {
    variable("TERM").is_none_or(|term| term != "dumb")
}

/// Follows <https://no-color.org> and <https://bixense.com/clicolors>.
fn wants_colours(on_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let is_on = |name: &str| variable(name).is_some_and(|value| !value.is_empty() && value != "0");
    if is_set("NO_COLOR") {
        return false;
    }
    is_on("CLICOLOR_FORCE")
        || on_terminal
            && can_draw(&variable)
            && variable("CLICOLOR").is_none_or(|value| value != "0")
}

/// Escapes every character of `text` that could move the cursor, change the direction of text or
/// hide it, as one `\xNN` per byte.
pub fn safe(text: &str) -> Cow<'_, str> {
    replace_unplain(text, |shown, character| {
        let mut buffer = [0; 4];
        for byte in character.encode_utf8(&mut buffer).bytes() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    })
}

/// Escapes a JSON document, which keeps its meaning. Text that is not JSON does not become
/// harmless.
pub fn safe_json(document: &str) -> Cow<'_, str> {
    replace_unplain(document, |shown, character| match character {
        // In valid JSON these only occur between values, never within a string.
        '\n' | '\r' | '\t' => shown.push(' '),
        _ => {
            let mut buffer = [0; 2];
            for unit in character.encode_utf16(&mut buffer) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        }
    })
}

fn replace_unplain(text: &str, replace: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let may_stay = |character: char| character == CUT || is_plain(character);
    if text.chars().all(may_stay) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match may_stay(character) {
            true => shown.push(character),
            false => replace(&mut shown, character),
        }
    }
    Cow::Owned(shown)
}

/// The width of `text` in columns.
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// As much of `text` as fits into `columns`; a cut text ends in `…`.
pub fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    let characters_max = columns.saturating_mul(CHARACTERS_PER_COLUMN);
    if width(text) <= columns && text.chars().count() <= characters_max {
        return Cow::Borrowed(text);
    }
    let Some(room) = columns.checked_sub(1) else { return Cow::Borrowed("") };
    let mut kept = String::new();
    let mut taken = 0;
    for character in text.chars().take(characters_max) {
        taken += character.width().unwrap_or(0);
        if taken > room {
            break;
        }
        kept.push(character);
    }
    // Together, characters may be wider than alone.
    while width(&kept) > room {
        kept.pop();
    }
    kept.push(CUT);
    Cow::Owned(kept)
}

/// `text`, filled with spaces up to `columns`.
pub fn pad(text: &str, columns: usize) -> String {
    let spaces = columns.saturating_sub(width(text));
    format!("{text}{:spaces$}", "")
}

/// `text` in lines of at most `columns`, broken between words; a longer word is cut.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(cut(word, columns).into_owned()),
        }
    }
    lines
}

/// Prints to standard output. Returns `false` if the reader has closed it, which is no error of
/// this program.
///
/// # Errors
/// It cannot be written for another reason.
pub fn print(bytes: impl AsRef<[u8]>) -> io::Result<bool> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes.as_ref()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Prints what a command says, which then has succeeded.
///
/// # Errors
/// It cannot be printed.
pub fn show(text: impl AsRef<[u8]>) -> anyhow::Result<ExitCode> {
    print(text).context("cannot print it")?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment<'a>(
        set: &'a [(&'a str, &'a str)],
    ) -> impl Fn(&str) -> Option<String> + Copy + 'a {
        |name| set.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn colours_are_for_terminals_unless_somebody_says_otherwise() {
        let has = |on_terminal, set: &[(&str, &str)]| wants_colours(on_terminal, environment(set));
        assert!(has(true, &[]));
        assert!(has(true, &[("NO_COLOR", "")]));
        assert!(has(true, &[("TERM", "xterm")]));
        assert!(has(false, &[("CLICOLOR_FORCE", "1")]));
        assert!(has(true, &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")]));
        assert!(!has(false, &[]));
        assert!(!has(true, &[("NO_COLOR", "1")]));
        assert!(!has(true, &[("TERM", "dumb")]));
        assert!(!has(true, &[("CLICOLOR", "0")]));
        assert!(!has(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!has(true, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    }

    #[test]
    fn the_terminals_width_comes_before_the_variable() {
        assert_eq!(columns(Some(80), environment(&[("COLUMNS", "40")])), 80);
        assert_eq!(columns(Some(0), environment(&[("COLUMNS", "40")])), 40);
        for nonsense in ["", "0", "-3", "wide"] {
            assert_eq!(
                columns(None, environment(&[("COLUMNS", nonsense)])),
                COLUMNS_DEFAULT,
                "{nonsense}"
            );
        }
    }

    #[test]
    fn nothing_that_steers_a_terminal_stays() {
        let hostile = "a\x1b[2J\u{9b}31m\u{202e}b\u{2066}\r\n\t\u{200d}\u{7f}ü出…";
        let shown = safe(hostile);
        assert_eq!(
            shown,
            r"a\x1b[2J\xc2\x9b31m\xe2\x80\xaeb\xe2\x81\xa6\x0d\x0a\x09\xe2\x80\x8d\x7fü出…"
        );
        assert!(
            matches!(safe(r"lager-süd \x0a"), Cow::Borrowed(r"lager-süd \x0a")),
            "escapes of the agent's stay"
        );
    }

    #[test]
    fn harmless_json_is_the_same_json() {
        let value = serde_json::json!({"a": "\u{202e}x\u{9b}\u{7f}\u{e0041}", "b": [1, "ü…"]});
        let mut document = serde_json::to_string_pretty(&value).unwrap();
        document.push('\n');
        let shown = safe_json(&document);
        assert!(shown.chars().all(|character| character == CUT || is_plain(character)), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        assert!(matches!(safe_json(r#"{"a":"b"}"#), Cow::Borrowed(_)));
    }

    #[test]
    fn wide_and_combining_characters_count_as_what_they_take() {
        assert_eq!(width("出荷"), 4);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(cut("出荷出荷", 5), "出荷…");
        assert_eq!(cut("出荷出荷", 4), "出…");
        assert_eq!(cut("e\u{301}e\u{301}e\u{301}", 3), "e\u{301}e\u{301}e\u{301}");
        assert_eq!(cut("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
        assert_eq!([cut("abc", 0), cut("abc", 1), cut("abc", 3)], ["", "…", "abc"]);
        assert_eq!(pad("出", 4), "出  ");
    }

    #[test]
    fn marks_without_width_do_not_go_on_for_ever() {
        let marks = format!("a{}", "\u{301}".repeat(10_000));
        assert!(cut(&marks, 10).chars().count() <= 41);
    }

    #[test]
    fn whatever_is_cut_fits() {
        let mut random = fastrand::Rng::with_seed(7);
        let alphabet: Vec<char> = "ab 出🚚é\u{301}\u{fe0f}❤कि👍🏽ﻻ…".chars().collect();
        for _ in 0..20_000 {
            let text: String = (0..random.usize(0..30))
                .map(|_| alphabet[random.usize(0..alphabet.len())])
                .collect();
            let columns = random.usize(0..20);
            let kept = cut(&text, columns);
            assert!(width(&kept) <= columns, "{text:?} in {columns}: {kept:?}");
            assert!(
                wrap(&text, columns).iter().all(|line| width(line) <= columns),
                "{text:?} in {columns}"
            );
        }
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 5), ["unbr…"]);
        assert!(wrap("", 5).is_empty());
    }
}
