//! Text as HTML: text from elsewhere is always escaped.

use std::fmt::{self, Write as _};

/// Escapes text for an element or a quoted attribute. The text must be free of control characters.
pub(in crate::outputs) struct Text<'a>(pub(in crate::outputs) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| write_character(out, character))
    }
}

/// Escapes any text for a quoted attribute that the script or a form reads. The parser restores the
/// exact text, but the source contains no characters that a terminal or an editor would interpret.
pub(super) struct Exact<'a>(pub(super) &'a str);

impl fmt::Display for Exact<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            ' '..='~' => write_character(out, character),
            letter if letter.is_alphanumeric() => out.write_char(letter),
            other => write!(out, "&#{};", u32::from(other)),
        })
    }
}

fn write_character(out: &mut fmt::Formatter<'_>, character: char) -> fmt::Result {
    match character {
        '&' => out.write_str("&amp;"),
        '<' => out.write_str("&lt;"),
        '>' => out.write_str("&gt;"),
        '"' => out.write_str("&quot;"),
        '\'' => out.write_str("&#39;"),
        other => out.write_char(other),
    }
}

/// The text in the cells of a row, without markup, as [`Text`] has escaped it. Cells are separated
/// by a blank.
pub(super) fn words(cells: &str) -> String {
    let mut words = String::new();
    for (index, part) in cells.split('<').enumerate() {
        let (tag, text) =
            if index == 0 { ("", part) } else { part.split_once('>').unwrap_or_default() };
        if tag.starts_with('t') {
            words.push(' ');
        }
        words.push_str(text);
    }
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    let words =
        entities.iter().fold(words, |words, (entity, character)| words.replace(entity, character));
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        let _rule = crate::truth::rule("14 hostile bytes");
        assert_eq!(
            Text("<a href=\"x\">'&'</a>").to_string(),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;"
        );
    }

    #[test]
    fn words_come_back() {
        let text = "<b> \"&lt;\" it's";
        assert_eq!(
            words(&format!("<th>a<b>c</b> </th><td class=\"x\">{}</td>", Text(text))),
            format!("ac {text}")
        );
    }

    #[test]
    fn an_attribute_gives_back_every_character_and_shows_none_that_is_obeyed() {
        let _rule = crate::truth::rule("14 hostile bytes");
        assert_eq!(
            Exact("a b<\"出\u{202e}\r\n\u{301}").to_string(),
            "a b&lt;&quot;出&#8238;&#13;&#10;&#769;"
        );
    }
}
