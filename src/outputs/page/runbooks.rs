//! The runbooks of the alerts as pages: what alerts/runbooks/*.md and docs/on-call.md say, compiled
//! in. Only the Markdown that these files use is known.

use std::fmt::Write as _;

use super::html::Text;
use crate::paths;

/// The runbooks by name: `build.rs` lists the files.
const RUNBOOKS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/runbooks.rs"));

/// The page that all build on.
const ON_CALL: (&str, &str) = ("on-call", include_str!("../../../docs/on-call.md"));

/// All pages by name.
fn pages() -> impl Iterator<Item = (&'static str, &'static str)> {
    [ON_CALL].into_iter().chain(RUNBOOKS.iter().copied())
}

/// The list of all runbooks.
pub(crate) fn runbooks() -> String {
    let mut html = String::from("<h1>Runbooks</h1><ul>");
    for (name, _) in pages() {
        let _ = write!(html, "<li><a href=\"{}/{name}\">{name}</a></li>", paths::RUNBOOKS);
    }
    html.push_str("</ul>");
    around("Runbooks", &html)
}

/// The runbook of this alert, or the page that all build on.
pub(crate) fn runbook(name: &str) -> Option<String> {
    let (name, text) = pages().find(|(known, _)| *known == name)?;
    Some(around(name, &markdown(text)))
}

fn around(title: &str, main: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <link rel=\"stylesheet\" href=\"{}\">\
         <link rel=\"icon\" type=\"image/svg+xml\" href=\"{}\"></head><body>\
         <header><p class=\"brand\"><a href=\"{}\">lockwatch</a> <small>{}</small></p>\
         <nav aria-label=\"Site\"><a href=\"{}\">All tasks</a> <a href=\"{}\">Runbooks</a></nav>\
         </header><main id=\"main\" class=\"runbook\" tabindex=\"-1\">{main}</main></body></html>",
        paths::STYLE,
        paths::ICON,
        paths::LANDING,
        env!("CARGO_PKG_VERSION"),
        paths::LANDING,
        paths::RUNBOOKS,
    )
}

/// What is open while lines are read.
enum Block {
    Paragraph(String),
    /// The tag of the list, and its last item.
    Items(&'static str, String),
    Code(String),
}

fn markdown(text: &str) -> String {
    let (mut html, mut open) = (String::new(), None);
    for line in text.lines() {
        open = match (open.take(), line) {
            (Some(Block::Code(code)), "```") => {
                let _ = write!(html, "<pre><code>{}</code></pre>", Text(&code));
                None
            }
            (Some(Block::Code(code)), _) => Some(Block::Code(code + line + "\n")),
            (before, "") => {
                close(before, &mut html);
                None
            }
            (before, _) if line.starts_with("```") => {
                close(before, &mut html);
                Some(Block::Code(String::new()))
            }
            (before, _) => match (item(line), heading(line), before) {
                (_, Some((level, title)), before) => {
                    close(before, &mut html);
                    let slug = slug(title);
                    let _ = write!(html, "<h{level} id=\"{slug}\">");
                    inline(title, &mut html);
                    let _ = write!(html, "</h{level}>");
                    None
                }
                (Some((tag, text)), None, Some(Block::Items(of, before))) if of == tag => {
                    close_item(&before, &mut html);
                    Some(Block::Items(of, text.to_owned()))
                }
                (Some((tag, text)), None, before) => {
                    close(before, &mut html);
                    let _ = write!(html, "<{tag}>");
                    Some(Block::Items(tag, text.to_owned()))
                }
                (None, None, Some(Block::Items(tag, before))) => {
                    Some(Block::Items(tag, before + " " + line.trim()))
                }
                (None, None, Some(Block::Paragraph(before))) => {
                    Some(Block::Paragraph(before + " " + line.trim()))
                }
                (None, None, _) => Some(Block::Paragraph(line.trim().to_owned())),
            },
        };
    }
    close(open, &mut html);
    html
}

fn close(open: Option<Block>, html: &mut String) {
    match open {
        Some(Block::Paragraph(text)) => {
            html.push_str("<p>");
            inline(&text, html);
            html.push_str("</p>");
        }
        Some(Block::Items(tag, text)) => {
            close_item(&text, html);
            let _ = write!(html, "</{tag}>");
        }
        Some(Block::Code(_)) | None => {}
    }
}

fn close_item(text: &str, html: &mut String) {
    html.push_str("<li>");
    inline(text, html);
    html.push_str("</li>");
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    Some((level, line.get(level..)?.strip_prefix(' ')?)).filter(|_| (1..=3).contains(&level))
}

fn item(line: &str) -> Option<(&'static str, &str)> {
    if let Some(text) = line.strip_prefix("- ") {
        return Some(("ul", text));
    }
    let (number, text) = line.split_once(". ")?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(("ol", text))
}

/// The anchor of a heading, as code hosts make it.
fn slug(title: &str) -> String {
    let kept = title.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.flat_map(char::to_lowercase)
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// Code, bold text and links; everything else is text.
fn inline(text: &str, html: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '[']) {
        let (before, from) = rest.split_at(at);
        let _ = write!(html, "{}", Text(before));
        rest = match span(from) {
            Some((shown, after)) => {
                html.push_str(&shown);
                after
            }
            None => {
                let mut letters = from.chars();
                // It is none that HTML knows.
                html.extend(letters.next());
                letters.as_str()
            }
        };
    }
    let _ = write!(html, "{}", Text(rest));
}

/// What `text` begins with, and what follows it.
fn span(text: &str) -> Option<(String, &str)> {
    if let Some(code) = text.strip_prefix('`') {
        let (code, after) = code.split_once('`')?;
        return Some((format!("<code>{}</code>", Text(code)), after));
    }
    if let Some(bold) = text.strip_prefix("**") {
        let (bold, after) = bold.split_once("**")?;
        let mut html = String::from("<strong>");
        inline(bold, &mut html);
        return Some((html + "</strong>", after));
    }
    let (words, after) = text.strip_prefix('[')?.split_once("](")?;
    let (target, after) = after.split_once(')')?;
    let mut html = String::new();
    inline(words, &mut html);
    let html = match address(target) {
        Some(address) => format!("<a href=\"{}\">{html}</a>", Text(&address)),
        None => html,
    };
    Some((html, after))
}

/// Where a link of these files leads on the agent; `None`: to what it does not show.
fn address(target: &str) -> Option<String> {
    let file = target.rsplit('/').next()?;
    let (name, anchor) = file.split_once(".md")?;
    let known = pages().any(|(known, _)| known == name);
    known.then(|| format!("{}/{name}{anchor}", paths::RUNBOOKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_whole() {
        for (name, text) in pages() {
            let html = runbook(name).unwrap();
            for (tag, mark) in [("pre", "```sh"), ("h2", "\n## ")] {
                let opened = html.matches(&format!("<{tag}")).count();
                assert_eq!(opened, text.matches(mark).count(), "{name}: {tag}");
                assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{name}: {tag}");
            }
            for tag in ["ul", "ol", "li", "p", "code", "strong", "a"] {
                let opened = html.matches(&format!("<{tag}>")).count()
                    + html.matches(&format!("<{tag} ")).count();
                assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{name}: {tag}");
            }
            assert!(!html.contains("**") && !html.contains("]("), "{name}");
        }
        assert_eq!(runbook("LockwatchNothing"), None);
        assert!(runbooks().contains("/runbooks/LockwatchTaskDown\""));
    }

    #[test]
    fn text_is_escaped_and_links_lead_to_what_there_is() {
        let html = markdown(
            "# A & B\n\nOne `<b>` **two\nthree** [four](../../docs/on-call.md#who-holds-the-lock)\n\
             [five](../../docs/tls.md) 2 * 3 [six.\n\n- a\n  b\n- c\n\n1. d\n\n```sh\nx < \"y\"\n```\n",
        );
        let expected = "<h1 id=\"a--b\">A &amp; B</h1><p>One <code>&lt;b&gt;</code> <strong>two \
             three</strong> <a href=\"/runbooks/on-call#who-holds-the-lock\">four</a> five 2 * 3 [six.</p>\
             <ul><li>a b</li><li>c</li></ul><ol><li>d</li></ol>\
             <pre><code>x &lt; &quot;y&quot;\n</code></pre>";
        assert_eq!(html, expected);
    }
}
