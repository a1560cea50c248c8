//! A task's configuration in force, by the names of the fields in the file.

use std::fmt::Write as _;

use lockwatch_judge::snapshot::TaskView;

use super::html::Text;
use super::words::limit;
use crate::outputs::describe::settings::{Setting, Value, settings};
use crate::published::Published;
use crate::text::identity::{escape, list};

/// Maximum number of keys that are named.
const NAMED_MAX: usize = 20;

pub(super) fn section(published: &Published, view: &TaskView) -> String {
    let mut html = String::from(
        "<section aria-labelledby=\"settings\"><h2 id=\"settings\">Configuration</h2><dl \
         class=\"facts\">",
    );
    for Setting { block, name, value } in settings(published, view) {
        let dot = if block.is_empty() || name.is_empty() { "" } else { "." };
        // Writing to a `String` cannot fail.
        let _ = write!(
            html,
            "<div><dt><code>{block}{dot}{}</code></dt><dd>{}</dd></div>",
            Text(&escape(name.as_bytes())),
            Text(&shown(&value))
        );
    }
    html.push_str("</dl></section>");
    html
}

/// A value in words. Untrusted text is escaped as by [`escape`].
fn shown(value: &Value<'_>) -> String {
    match value {
        Value::NotSet => "not set".to_owned(),
        Value::Learned(None) => "not set, not learned yet".to_owned(),
        Value::Learned(Some(ms)) => format!("{} (learned)", limit(*ms)),
        Value::Word(word) => (*word).to_owned(),
        Value::Name(name) => escape(name).into_owned(),
        Value::Names(names) => list(names.iter().map(|name| escape(name)), NAMED_MAX),
        Value::Path(path) => {
            let (form, path) = path.parts();
            format!("{form}: {}", escape(path.as_bytes()))
        }
        Value::Limit(ms, _) => limit(*ms),
        Value::Count(count) => count.to_string(),
    }
}
