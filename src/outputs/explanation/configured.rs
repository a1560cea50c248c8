//! The configuration that matters for a verdict, in the syntax of the file.

use super::Setting;
use super::seen::Seen;
use crate::config::{INTERVAL, TIMEOUT, ms};
use crate::outputs::describe::settings::{self, Value};
use crate::text::durations::duration_text;

/// The blocks and fields that matter, in the order in which they are shown.
const MATTERING: [&str; 13] = [
    "lock",
    "turn",
    "queue",
    "wanted",
    "grace",
    "settle",
    "wind_down",
    "blind_after",
    "progress",
    "claims",
    "hosts",
    "paused_until",
    "max_hold",
];

/// The lines, those of the store first. A value that equals the default is marked, whether it is
/// written in the file or not.
pub(super) fn settings(seen: Seen<'_>) -> Vec<Setting> {
    let mut lines: Vec<Setting> = Vec::new();
    if let Some(store) = seen.redis() {
        let block = if store.spec.authority.ensemble { "zookeeper" } else { "redis" };
        let name = |field: &str| format!("{block}.{}.{field}", store.spec.name);
        lines.push(duration(&name("interval"), store.spec.interval_ms, Some(ms(INTERVAL))));
        lines.push(duration(&name("timeout"), store.spec.timeout_ms, Some(ms(TIMEOUT))));
    }
    let all = settings::settings(seen.published, seen.view);
    for name in MATTERING {
        let field = all.iter().find(|it| it.block.is_empty() && it.name == name);
        lines.extend(match field.map(|field| &field.value) {
            Some(Value::Limit(ms, default_ms)) => Some(duration(name, *ms, *default_ms)),
            Some(_) => None,
            None => block(name, all.iter().filter(|it| it.block == name)),
        });
    }
    lines
}

fn duration(name: &str, ms: u64, default_ms: Option<u64>) -> Setting {
    Setting { line: format!("{name}: {}", duration_text(ms)), default: Some(ms) == default_ms }
}

/// A block on one line; `None` if nothing is written in it.
fn block<'a>(
    block: &str,
    fields: impl Iterator<Item = &'a settings::Setting<'a>>,
) -> Option<Setting> {
    let fields: Vec<_> = fields.collect();
    if let [settings::Setting { name: "", value, .. }, ..] = fields[..] {
        return match value {
            Value::Word(word) => Some(line(format!("{block}: {word}"))),
            _ if block == "wanted" => {
                Some(Setting { line: "wanted: (not configured)".to_owned(), default: true })
            }
            _ => None,
        };
    }
    let written = |field: &&settings::Setting<'_>| {
        let is_default = field.name == "codec" && field.value == Value::Word("raw");
        let value = written(&field.value).filter(|_| !is_default)?;
        Some(format!("{}: {value}", field.name))
    };
    let written: Vec<String> = fields.iter().filter_map(written).collect();
    (!written.is_empty()).then(|| line(format!("{block}: {{{}}}", written.join(", "))))
}

fn line(line: String) -> Setting {
    Setting { line, default: false }
}

/// A value as it would be in the file; `None` if it is not there.
fn written(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::NotSet | Value::Learned(_) => return None,
        Value::Word(word) => (*word).to_owned(),
        Value::Name(name) => text(name),
        Value::Names(names) => {
            let names: Vec<String> = names.iter().map(|name| text(name)).collect();
            format!("[{}]", names.join(", "))
        }
        Value::Path(path) => {
            let (form, path) = path.parts();
            format!("{{{form}: {}}}", text(path.as_bytes()))
        }
        Value::Limit(ms, _) => duration_text(*ms),
        Value::Count(count) => count.to_string(),
    })
}

/// A key in the syntax of the configuration: text, or the hex digits of other bytes.
fn text(key: &[u8]) -> String {
    let plain = |text: &&str| {
        !text
            .chars()
            .any(|it| it.is_control() || !it.escape_debug().eq([it]) && !"\"'".contains(it))
    };
    match std::str::from_utf8(key).ok().filter(plain) {
        Some(text) => format!("\"{}\"", text.replace('"', "\\\"")),
        None => format!("{{hex: {}}}", hex::encode(key)),
    }
}
