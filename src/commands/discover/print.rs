//! Prints the configuration. Pure: equal findings give equal text. Keys are quoted or in hex, all
//! other text from Redis is escaped, and values and tokens are never shown.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::groups::Sorted;
use super::name::{Names, yaml, yaml_text};
use crate::config::{
    HostPort, KEY_BYTES_MAX, PasswordSource, RedisConfig, Servers, TlsConfig, TlsFiles,
};
use crate::text::durations::duration_text;
use crate::text::identity::escape;
use lockwatch_watch::redis::libraries::recognise::Laid;

/// Maximum number of listed keys of one kind that are not tasks.
const LISTED_MAX: usize = 50;
/// Maximum length of a comment line.
const WIDTH: usize = 118;

/// A lock that gets a task.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) key: Vec<u8>,
    pub(super) laid: Laid,
    /// What the watch showed, one sentence each.
    pub(super) learned: Vec<String>,
    /// Lines that could be added to the task.
    pub(super) suggested: Vec<String>,
}

/// A possible task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Doubt {
    pub(super) key: Vec<u8>,
    /// The field of the hash `key` that is the lock, if it is one.
    pub(super) field: Option<Vec<u8>>,
    pub(super) laid: Laid,
    pub(super) why: String,
}

/// A task, or a possible one, that no lock guards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Relative {
    /// The key that names it.
    pub(super) key: Vec<u8>,
    /// The line of the configuration that says what guards it.
    pub(super) block: String,
    /// Why it is listed, in sentences.
    pub(super) text: String,
    /// Locks that belong to it, and are no tasks of their own.
    pub(super) locks: Vec<Vec<u8>>,
}

/// Everything to print.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    /// Sentences at the top.
    pub(super) heading: Vec<String>,
    /// Sorted by key.
    pub(super) tasks: Vec<Task>,
    /// Number of locks beyond the limit.
    pub(super) tasks_left_out: usize,
    /// Tasks that take turns. Sorted by key.
    pub(super) turns: Vec<Relative>,
    /// Sorted by key.
    pub(super) doubts: Vec<Doubt>,
    /// Possible tasks that take turns, delayed tasks, and locks without a key.
    pub(super) perhaps: Vec<Relative>,
    /// Locks of jobs and items: the library, and the key or pattern.
    pub(super) items: Vec<(String, Sorted)>,
    /// Locks that cannot be read: why, and the key or pattern.
    pub(super) unreadable: Vec<(String, Sorted)>,
    /// Sentences at the end.
    pub(super) remarks: Vec<String>,
}

impl Report {
    /// Whether it has any task.
    pub(super) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty() || !self.turns.is_empty()
    }
}

/// Only the block `redis` and the tasks: the configuration for the watch.
pub(super) fn configuration(redis: &RedisConfig, tasks: &[Task]) -> String {
    let mut names = Names::default();
    let mut text = redis_block(redis);
    text.push_str("tasks:\n");
    tasks.iter().for_each(|task| {
        text.push_str(&task_lines(&mut names, (&task.key, None), &task.laid, "  ").concat())
    });
    text
}

/// The whole text. Without tasks there is no valid configuration, so all of it is a comment.
pub(super) fn text(redis: &RedisConfig, report: &Report) -> String {
    let mut names = Names::default();
    let mut text = String::new();
    report.heading.iter().for_each(|sentence| comment(&mut text, "", sentence));
    let mut body = redis_block(redis);
    body.push_str("tasks:\n");
    if !report.has_tasks() {
        body.push_str("  - {name: outbound, lock: {key: \"outbound:lock\", library: redisson}}\n");
        comment(&mut text, "", "No task was found. A configuration looks like this:");
        body.lines().for_each(|line| {
            let _always_fits = writeln!(text, "# {line}");
        });
    } else {
        text.push_str(&body);
    }
    for task in &report.tasks {
        comment(&mut text, "  ", &sentences(task.laid.what, &task.learned));
        text.push_str(&task_lines(&mut names, (&task.key, None), &task.laid, "  ").concat());
        task.suggested.iter().for_each(|line| {
            let _always_fits = writeln!(text, "    # {line}");
        });
    }
    if report.tasks_left_out > 0 {
        let sentence = format!(
            "{} more locks are left out; name a part of the keys with --match to see them.",
            report.tasks_left_out
        );
        comment(&mut text, "  ", &sentence);
    }
    for turn in &report.turns {
        comment(&mut text, "  ", &turn.text);
        text.push_str(&relative_lines(&mut names, turn, "  ").concat());
    }
    doubts(&mut text, &mut names, report);
    perhaps(&mut text, &mut names, report);
    let items = "Locks of jobs and items, one for each: no tasks of their own.";
    listed(&mut text, items, &report.items);
    let unreadable = "Locks that are not proposed.";
    listed(&mut text, unreadable, &report.unreadable);
    if !report.remarks.is_empty() {
        text.push('\n');
    }
    report.remarks.iter().for_each(|sentence| comment(&mut text, "", sentence));
    text
}

fn redis_block(redis: &RedisConfig) -> String {
    let mut text = "redis:\n  main:\n".to_owned();
    let scheme = if redis.tls.is_some() { "rediss" } else { "redis" };
    match &redis.servers {
        Servers::Cluster(cluster) => {
            let node = |at: &HostPort| match &redis.tls {
                Some(_) => yaml_text(&format!("{scheme}://{at}")),
                None => yaml_text(&at.to_string()),
            };
            let nodes: Vec<String> = cluster.nodes.iter().map(node).collect();
            let _always_fits = writeln!(text, "    cluster: {{nodes: [{}]}}", nodes.join(", "));
            if redis.db != 0 {
                let _always_fits = writeln!(text, "    db: {}", redis.db);
            }
        }
        servers => {
            let url = |at: &HostPort| match at.socket() {
                Some(path) => {
                    let path = utf8_percent_encode(path, PATH);
                    format!("redis+unix://{path}?db={}", redis.db)
                }
                None => format!("{scheme}://{at}/{}", redis.db),
            };
            let url = servers.configured().first().map(url).unwrap_or_default();
            let _always_fits = writeln!(text, "    url: {}", yaml_text(&url));
        }
    }
    if let Some(TlsConfig { files, server_name }) = &redis.tls {
        text.push_str(&tls_block(files, server_name.as_deref()));
    }
    if let Some(username) = &redis.login.username {
        let _always_fits = writeln!(text, "    username: {}", yaml_text(username));
    }
    match &redis.login.password {
        Some(PasswordSource::File(path)) => {
            let _always_fits = writeln!(text, "    password_file: {}", yaml_path(path));
        }
        Some(PasswordSource::Env(variable)) => {
            let _always_fits = writeln!(text, "    password_env: {}", yaml_text(variable));
        }
        Some(PasswordSource::Command(words)) => {
            let words: Vec<String> = words.iter().map(|word| yaml_text(word)).collect();
            let _always_fits = writeln!(text, "    password_command: [{}]", words.join(", "));
        }
        None => {}
    }
    text
}

/// What a path of a socket needs no escape for, in a URL.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

/// The block `tls`, if there is anything to say in it.
fn tls_block(files: &TlsFiles, server_name: Option<&str>) -> String {
    let path = |path: &PathBuf| yaml_path(path);
    let fields = [
        ("ca_file", files.ca_file.as_ref().map(path)),
        ("cert_file", files.cert_file.as_ref().map(path)),
        ("key_file", files.key_file.as_ref().map(path)),
        ("server_name", server_name.map(yaml_text)),
    ];
    let said =
        |(field, value): (&str, Option<String>)| Some(format!("      {field}: {}\n", value?));
    let lines: String = fields.into_iter().filter_map(said).collect();
    if lines.is_empty() { lines } else { format!("    tls:\n{lines}") }
}

/// An absolute path, because the configuration may be stored in another folder.
fn yaml_path(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    yaml_text(&path.to_string_lossy())
}

/// The first two lines of a task whose lock is a key, or a field of one.
fn task_lines(
    names: &mut Names,
    (key, field): (&[u8], Option<&[u8]>),
    laid: &Laid,
    indent: &str,
) -> [String; 2] {
    let name = yaml_text(&names.of(field.unwrap_or(key)));
    let mut lock = format!("{indent}  lock: {{key: {}", yaml(key));
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _always_fits = write!(lock, ", {name}: {value}");
        }
    };
    add("field", field.map(yaml));
    add("library", Some(laid.library.to_owned()));
    add("holder", laid.holder.map(|regex| format!("{{regex: {}}}", yaml_text(regex))));
    add("score", laid.score.map(|score| score.name().to_owned()));
    add("lease", laid.lease_ms.map(duration_text));
    lock.push_str("}\n");
    [format!("{indent}- name: {name}\n"), lock]
}

fn sentences(what: &str, learned: &[String]) -> String {
    std::iter::once(what)
        .chain(learned.iter().map(String::as_str))
        .map(|part| format!("{part}."))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Possible tasks, as comments that become tasks when the leading `# ` is removed.
fn doubts(text: &mut String, names: &mut Names, report: &Report) {
    if report.doubts.is_empty() {
        return;
    }
    text.push('\n');
    comment(
        text,
        "  ",
        "Perhaps locks. To watch one, take the number sign and the blank away from its two lines.",
    );
    for doubt in report.doubts.iter().take(LISTED_MAX) {
        comment(text, "  ", &format!("{}: {}.", doubt.laid.what, doubt.why));
        let too_long = |name: &[u8]| name.is_empty() || name.len() > KEY_BYTES_MAX;
        if too_long(&doubt.key) || doubt.field.as_deref().is_some_and(too_long) {
            comment(text, "  ", &shown(&doubt.key));
            continue;
        }
        let place = (doubt.key.as_slice(), doubt.field.as_deref());
        for line in task_lines(names, place, &doubt.laid, "") {
            let _always_fits = write!(text, "  # {line}");
        }
    }
    more(text, "  ", report.doubts.len());
}

/// The lines of a task that no lock guards.
fn relative_lines(names: &mut Names, relative: &Relative, indent: &str) -> [String; 2] {
    let name = yaml_text(&names.of(&relative.key));
    [format!("{indent}- name: {name}\n"), format!("{indent}  {}\n", relative.block)]
}

/// Possible turns and queues, as comments like those of [`doubts`].
fn perhaps(text: &mut String, names: &mut Names, report: &Report) {
    if report.perhaps.is_empty() {
        return;
    }
    text.push('\n');
    let sentence = "Perhaps tasks that take turns, delayed tasks, or locks without a key. To watch \
                    one, take the number sign and the blank away from its two lines.";
    comment(text, "  ", sentence);
    for relative in report.perhaps.iter().take(LISTED_MAX) {
        comment(text, "  ", &relative.text);
        for line in relative_lines(names, relative, "") {
            let _always_fits = write!(text, "  # {line}");
        }
    }
    more(text, "  ", report.perhaps.len());
}

/// A key in a comment, with an empty one made visible.
fn shown(key: &[u8]) -> Cow<'_, str> {
    if key.is_empty() { Cow::Borrowed("\"\"") } else { escape(key) }
}

fn listed(text: &mut String, title: &str, all: &[(String, Sorted)]) {
    if all.is_empty() {
        return;
    }
    text.push('\n');
    comment(text, "", title);
    let mut before = "";
    for (what, sorted) in all.iter().take(LISTED_MAX) {
        if what != before {
            comment(text, "", &format!("{what}:"));
            before = what;
        }
        match sorted {
            Sorted::Single(key) => comment(text, "", &format!("  {}", shown(key))),
            Sorted::Pattern { pattern, count } => {
                comment(text, "", &format!("  {count} like {}", escape(pattern)))
            }
        }
    }
    more(text, "", all.len());
}

fn more(text: &mut String, indent: &str, count: usize) {
    if count > LISTED_MAX {
        comment(text, indent, &format!("and {} more", count - LISTED_MAX));
    }
}

/// A sentence as comment lines, wrapped at [`WIDTH`].
pub(super) fn comment(text: &mut String, indent: &str, sentence: &str) {
    let inner = sentence.len() - sentence.trim_start().len();
    let mut line = format!("{indent}# {}", sentence.get(..inner).unwrap_or_default());
    let empty = line.chars().count();
    for word in sentence.split(' ').filter(|word| !word.is_empty()) {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line.chars().count() > empty {
            text.push_str(line.trim_end());
            text.push('\n');
            line.truncate(0);
            let _always_fits = write!(line, "{indent}# {}", " ".repeat(inner));
        }
        if line.chars().count() > empty {
            line.push(' ');
        }
        line.push_str(word);
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Config, SingleLock};

    fn redis() -> RedisConfig {
        let lock = SingleLock {
            redis_url: "redis://127.0.0.1:7000/3".to_owned(),
            key: b"x".to_vec(),
            library: "redisson",
            name: None,
            username: Some("watcher".to_owned()),
            password: Some(PasswordSource::Env("PW".to_owned())),
            tls: None,
        };
        Config::single_lock(&lock).unwrap().redises.remove(0)
    }

    fn task(key: &[u8]) -> Task {
        let suggested = vec!["wanted: {hash: \"a\"}".to_owned()];
        let learned = vec!["Held by somebody".to_owned()];
        Task {
            key: key.to_vec(),
            laid: Laid { holder: Some("^(.+)_\\d$"), ..Laid::new("string", "a token") },
            learned,
            suggested,
        }
    }

    #[test]
    fn what_is_printed_is_a_configuration_whatever_the_keys() {
        let keys: [&[u8]; 7] = [
            b"a:lock",
            b"a: #\"'\\lock",
            b"new\nline:lock",
            b"\xff\xfe:lock",
            b"- {x}: lock",
            b"\x1b[2J",
            b"%lock",
        ];
        let doubt = |key: &[u8]| Doubt {
            key: [key, b"2"].concat(),
            field: None,
            laid: Laid::new("redisson", "a string"),
            why: "no TTL".to_owned(),
        };
        let relative = |key: &[u8], suffix: &[u8], block: &str| {
            let key = [key, suffix].concat();
            let block = block.replace("KEY", &yaml(&key));
            Relative { key, block, text: "Perhaps.".to_owned(), locks: Vec::new() }
        };
        let turn = |key: &&[u8]| relative(key, b"3", "turn: {hash: KEY, unit: ms, tasks: [KEY]}");
        let queue = |key: &&[u8]| relative(key, b"4", "queue: {zset: KEY, lock: \"lock_{id}\"}");
        let report = Report {
            heading: vec!["word ".repeat(60)],
            turns: keys.iter().map(turn).collect(),
            perhaps: keys.iter().map(queue).collect(),
            tasks: keys.iter().map(|key| task(key)).collect(),
            doubts: keys.iter().map(|key| doubt(key)).collect(),
            items: keys
                .iter()
                .map(|key| ("items".to_owned(), Sorted::Single(key.to_vec())))
                .collect(),
            ..Report::default()
        };
        let printed = text(&redis(), &report);
        assert!(
            !printed.chars().any(|character| character.is_control() && character != '\n'),
            "{printed}"
        );
        let config = Config::parse(&printed, Path::new("x.yml"))
            .unwrap_or_else(|why| panic!("{why}\n{printed}"));
        let turns = keys.iter().map(|key| [key, &b"3"[..]].concat());
        let expected: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).chain(turns).collect();
        let read: Vec<Vec<u8>> = config.tasks.iter().map(|task| task.kind.key().clone()).collect();
        assert_eq!(read, expected);
        assert_eq!(config.redises[0], RedisConfig { name: "main".into(), ..redis() });
        let bare =
            Config::parse(&configuration(&redis(), &report.tasks), Path::new("x.yml")).unwrap();
        assert_eq!(bare.tasks, config.tasks.iter().take(keys.len()).cloned().collect::<Vec<_>>());
        // Removing the comment marks turns what is doubtful into tasks.
        let opened = printed.replace("  # - name", "  - name").replace("  #   lock:", "    lock:");
        let opened = opened.replace("  #   queue:", "    queue:");
        let opened = opened
            .replace("    # wanted", "    wanted")
            .replace("wanted: {hash: \"a\"}", "wanted: always");
        let config = Config::parse(&opened, Path::new("x.yml"))
            .unwrap_or_else(|why| panic!("{why}\n{opened}"));
        assert_eq!(config.tasks.len(), 4 * keys.len());
    }

    #[test]
    fn without_a_task_all_is_a_comment() {
        let printed = text(&redis(), &Report::default());
        assert!(printed.lines().all(|line| line.starts_with('#') || line.is_empty()), "{printed}");
        let skeleton = printed
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .skip(1)
            .collect::<Vec<_>>()
            .join("\n");
        assert!(Config::parse(&skeleton, Path::new("x.yml")).is_ok(), "{skeleton}");
    }
}
