//! Names of keys that look like patterns or templates.

use lockwatch_judge::spec::{ProgressSource, TaskSpec};
use lockwatch_watch::redis::read::keys_beside;

use crate::commands::rule::quoted;
use crate::text::identity::escape;

/// Keys of a task that look like a pattern or a template. They are taken as they are.
pub(super) fn literal_names(task: &TaskSpec) -> Vec<String> {
    let mut names = vec![task.kind.key().clone()];
    names.extend(task.lock().and_then(|lock| lock.field.clone()));
    names.extend(keys_beside(task).into_iter().map(|(key, _)| key));
    if let Some(
        ProgressSource::HashField { field, .. } | ProgressSource::Score { member: field, .. },
    ) = task.progress.as_ref().map(|progress| &progress.source)
    {
        names.push(field.clone());
    }
    names.sort_unstable();
    names.dedup();
    let signs = names.iter().filter_map(|name| Some((name, template_sign(name)?)));
    let found = signs.map(|(name, sign)| {
        format!(
            "tasks.{}: {} has {sign} in it, which is taken literally: neither patterns nor \
             variables are replaced; write the name of one key, or of a lock a glob as \
             `match: …`",
            escape(task.name.as_bytes()),
            quoted(name),
        )
    });
    found.collect()
}

/// The first sign of a pattern or a template in a name. A hash tag, `{…}`, is none.
fn template_sign(name: &[u8]) -> Option<&'static str> {
    let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    // What stands behind each of these, and before it.
    let around = |sign: u8, is: fn(Option<&u8>, &[u8]) -> bool| {
        (0..name.len()).any(|at| {
            let before = at.checked_sub(1).and_then(|before| name.get(before));
            name.get(at) == Some(&sign) && is(before, name.get(at + 1..).unwrap_or_default())
        })
    };
    let is_class = |_: Option<&u8>, rest: &[u8]| {
        let inside = rest.split(|byte| *byte == b']').next().unwrap_or_default();
        inside.len() > 1 && inside.len() < rest.len() && !inside.iter().all(u8::is_ascii_digit)
    };
    let is_variable = |_: Option<&u8>, rest: &[u8]| {
        rest.first().is_some_and(|byte| b"{(_".contains(byte) || byte.is_ascii_alphabetic())
    };
    let is_format = |before: Option<&u8>, rest: &[u8]| {
        let flags = |byte: &&u8| byte.is_ascii_digit() || b"-+#.$_^(".contains(byte);
        !before.is_some_and(u8::is_ascii_digit)
            && rest.iter().find(|byte| !flags(byte)).is_some_and(u8::is_ascii_alphabetic)
    };
    let is_placeholder = |_: Option<&u8>, rest: &[u8]| {
        let word = rest.split(|byte| *byte == b'>').next().unwrap_or_default();
        let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_ %=".contains(byte);
        !word.is_empty() && word.len() < rest.len() && word.iter().all(is_of_word)
    };
    [
        (has(b"*"), "a `*`"),
        (has(b"?"), "a `?`"),
        (around(b'[', is_class), "a `[…]`"),
        (around(b'$', is_variable), "a `$`"),
        (has(b"#{"), "a `#{…}`"),
        (has(b"@{"), "a `@{…}`"),
        (has(b"{{"), "a `{{…}}`"),
        (has(b"{%"), "a `{%…%}`"),
        (has(b"{}"), "a `{}`"),
        (around(b'<', is_placeholder), "a `<…>`"),
        (around(b'%', is_format), "a `%…`"),
    ]
    .into_iter()
    .find_map(|(is_there, sign)| is_there.then_some(sign))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_pattern_or_a_variable_in_a_name_is_told_wherever_it_stands() {
        let text = |key: &str| {
            format!(
                "redis: {{main: {{url: \"redis://a:1\"}}}}\ntasks:\n  - {{name: t, lock: {{key: \
                 \"{{outbound}}:lock\"}}, {key}}}\n"
            )
        };
        let found = |key: &str| {
            let config = Config::parse(&text(key), Path::new("lockwatch.yml")).unwrap();
            config.tasks.iter().flat_map(|task| literal_names(task)).collect::<Vec<_>>().join("\n")
        };
        for (key, sign) in [
            ("wanted: {hash: \"users:*\"}", "a `*`"),
            ("wanted: {set: \"users:?\"}", "a `?`"),
            ("wanted: {counter: \"users:[0-9]\"}", "a `[…]`"),
            ("wanted: {keys: [\"a\", \"b:${USER}\"]}", "a `$`"),
            ("wanted: {keys: [\"a:$ENV\"]}", "a `$`"),
            ("wanted: {keys: [\"a:$(hostname)\"]}", "a `$`"),
            ("wanted: {hash: \"{% users %}\"}", "a `{%…%}`"),
            ("wanted: {hash: \"<%= users %>\"}", "a `<…>`"),
            ("wanted: {hash: \"users:<id>\"}", "a `<…>`"),
            ("wanted: {hash: \"users:{}\"}", "a `{}`"),
            ("wanted: {hash: \"users:[abc]\"}", "a `[…]`"),
            ("wanted: {hash: \"%ENV%:users\"}", "a `%…`"),
            ("wanted: {hash: \"users-%02d\"}", "a `%…`"),
            ("wanted: {hash: \"users-%1$s\"}", "a `$`"),
            ("progress: {key: \"{{ task }}:run\", stale_after: 1m}", "a `{{…}}`"),
            ("progress: {hash: \"h\", field: \"run_%s\", stale_after: 1m}", "a `%…`"),
            ("claims: {hash: \"claims-%Y-%m\"}", "a `%…`"),
            ("hosts: {hash: \"#{hosts}\"}", "a `#{…}`"),
            ("paused_until: {key: \"deploy:*\"}", "a `*`"),
        ] {
            let found = found(key);
            assert!(found.contains(sign) && found.contains("tasks.t"), "{key}: {found}");
        }
        for fine in [
            "wanted: {hash: \"users\"}",
            "wanted: {hash: \"100%data\"}",
            "wanted: {hash: \"queue[10]\"}",
            "wanted: {hash: \"price$\"}",
            "wanted: {hash: \"{0}:a->b\"}",
            "paused_until: {key: \"{a}:100%\"}",
            "grace: 5s",
        ] {
            assert_eq!(found(fine), "", "{fine}");
        }
    }
}
