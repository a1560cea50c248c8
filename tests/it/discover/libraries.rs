//! What discover prints of each lock library's keys is what `libraries.yml` says, and so is
//! docs/libraries.md.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockwatch::config::Config;
use serde::Deserialize;

use super::{discover, harmless, redis_cli};
use crate::support::PATIENCE;
use crate::support::agent::Agent;
use crate::support::child::OwnedChild;
use crate::support::redis::RedisServer;

const DATA: &str = include_str!("libraries.yml");
/// The titles of the lists of what is no task.
const ITEMS: &str = "# Locks of jobs and items";
const UNREAD: &str = "# Locks that are not proposed";
/// What discover says of a token that it knows nothing else of.
const TOKEN: &str = "A token";
/// Maximum number of lines that discover may print of all libraries together.
const LINES_MAX: usize = 400;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    library: String,
    keys: Vec<String>,
    prints: Vec<Print>,
    /// What to write, where discover does not say so.
    write: Option<String>,
    unknown: Option<String>,
    #[serde(default)]
    again: bool,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Print {
    task: Option<String>,
    perhaps: Option<String>,
    item: Option<String>,
    unread: Option<String>,
    nothing: Option<String>,
    #[serde(default)]
    says: String,
}

fn rows() -> Vec<Row> {
    serde_yaml::from_str(DATA).unwrap()
}

impl Row {
    /// Writes its keys, with `rename` applied to each command.
    fn write(&self, server: &RedisServer, rename: impl Fn(&str) -> String) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        for key in &self.keys {
            let lease = now.as_millis() + 30_000;
            let line = rename(key)
                .replace("@lease", &lease.to_string())
                .replace("@later", &(now.as_secs() + 30).to_string())
                .replace("@ms", &now.as_millis().to_string())
                .replace("@simple", "@SIMPLE")
                .replace("@s", &now.as_secs().to_string())
                .replace("@SIMPLE", "@simple");
            let reply = redis_cli(server, &line);
            assert!(!reply.contains("ERR") && !reply.contains("WRONGTYPE"), "{line}: {reply}");
        }
    }
}

impl Print {
    fn renamed(&self, rename: impl Fn(&str) -> String) -> Print {
        let of = |text: &Option<String>| text.as_deref().map(&rename);
        Print {
            task: of(&self.task),
            perhaps: of(&self.perhaps),
            item: of(&self.item),
            unread: of(&self.unread),
            nothing: of(&self.nothing),
            says: self.says.clone(),
        }
    }

    /// The line of a configuration that it is.
    fn line(&self) -> Option<&str> {
        self.task.as_deref().or(self.perhaps.as_deref())
    }

    fn is_in(&self, text: &str) -> bool {
        let lines: Vec<&str> = text.lines().collect();
        let above = |indent: &str, line: &String| {
            let at = lines.iter().position(|other| *other == format!("{indent}{line}"))?;
            let comment = lines[..at.checked_sub(1)?].iter().rev();
            let comment: Vec<&str> = comment
                .take_while(|line| line.starts_with("  # ") && !line.starts_with("  #   "))
                .map(|line| &line[4..])
                .collect();
            Some(comment.into_iter().rev().collect::<Vec<_>>().join(" "))
        };
        let says = |found: Option<String>| found.is_some_and(|found| found.contains(&self.says));
        match self {
            Print { task: Some(line), .. } => says(above("    ", line)),
            Print { perhaps: Some(line), .. } => says(above("  #   ", line)),
            Print { item: Some(key), .. } => says(listed(&lines, ITEMS, key)),
            Print { unread: Some(key), .. } => says(listed(&lines, UNREAD, key)),
            Print { nothing: Some(part), .. } => !text.contains(part.as_str()),
            _ => false,
        }
    }

    /// What people read of it: what it is, and what to write.
    fn cells(&self) -> Option<(String, String)> {
        let line = self.line().map(|line| format!("`{line}`")).unwrap_or_default();
        let seen = match self {
            Print { task: Some(_), .. } if self.says == TOKEN => "a task".to_owned(),
            Print { task: Some(_), .. } => format!("a task: {}", self.says),
            Print { perhaps: Some(line), .. } if line.starts_with("queue") => {
                format!("perhaps a queue: {}", self.says)
            }
            Print { perhaps: Some(_), .. } => format!("perhaps: {}", self.says),
            Print { item: Some(key), .. } => format!("`{key}`: of a job or item, no task"),
            Print { unread: Some(key), .. } => format!("`{key}`: not proposed: {}", self.says),
            _ => return None,
        };
        Some((seen, line))
    }
}

/// The heading above a key in the list with this title.
fn listed(lines: &[&str], title: &str, key: &str) -> Option<String> {
    let from = lines.iter().position(|line| line.starts_with(title))?;
    let mut heading = String::new();
    for line in lines[from + 1..].iter().take_while(|line| !line.is_empty()) {
        match line.strip_prefix("#   ") {
            Some(listed) if listed == key => return Some(heading),
            Some(_) => {}
            None if heading.ends_with(':') => heading = line[2..].to_owned(),
            None => heading = format!("{heading} {}", line[2..].trim()).trim().to_owned(),
        }
    }
    None
}

/// The table of docs/libraries.md.
pub(crate) fn table() -> String {
    let mut table = "| library | what `discover` makes of it | what to write | what cannot be \
                     known |\n|---|---|---|---|\n"
        .to_owned();
    for row in rows().iter().filter(|row| !row.again) {
        let cells: Vec<(String, String)> = row.prints.iter().filter_map(Print::cells).collect();
        let join = |cells: Vec<&str>| {
            let mut cells: Vec<&str> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
            cells.dedup();
            cells.join("<br>")
        };
        let seen = join(cells.iter().map(|(seen, _)| seen.as_str()).collect());
        let more = row.write.as_ref().map(|line| format!("`{line}`"));
        let lines = cells.iter().map(|(_, line)| line.as_str()).chain(more.as_deref());
        let lines = join(lines.collect());
        let seen = if seen.is_empty() { "nothing" } else { &seen };
        let unknown = row.unknown.as_deref().unwrap_or_default();
        writeln!(table, "| {} | {seen} | {lines} | {unknown} |", row.library).unwrap();
    }
    table
}

/// Rows use the same names, so each gets names of its own.
fn own(row: usize) -> impl Fn(&str) -> String {
    let letter = |n: usize| char::from(b'a' + u8::try_from(n % 26).unwrap());
    let suffix = format!("{}{}", letter(row / 26), letter(row));
    move |text: &str| {
        ["nightly", "weekly", "plain", "forever"]
            .iter()
            .fold(text.to_owned(), |text, name| text.replace(name, &format!("{name}{suffix}")))
    }
}

fn glance(server: &RedisServer) -> String {
    harmless(&discover(server.port, &["--watch", "0s"]).stdout)
}

#[test]
fn each_library_is_what_the_table_says() {
    let test = "discover::libraries::each_library_is_what_the_table_says";
    let Some(server) = RedisServer::start(test) else { return };
    let mut wrong = Vec::new();
    for row in rows() {
        server.cli(&["flushall"]);
        row.write(&server, str::to_owned);
        let text = glance(&server);
        let missing: Vec<String> = row
            .prints
            .iter()
            .filter(|print| !print.is_in(&text))
            .map(|print| {
                format!("{:?} {}", print.cells(), print.nothing.clone().unwrap_or_default())
            })
            .collect();
        if !missing.is_empty() {
            wrong.push(format!("{}: {}\n{text}", row.library, missing.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn all_libraries_in_one_redis_do_not_hide_each_other() {
    let test = "discover::libraries::all_libraries_in_one_redis_do_not_hide_each_other";
    let Some(server) = RedisServer::start(test) else { return };
    let rows = rows();
    for (at, row) in rows.iter().enumerate() {
        row.write(&server, own(at));
    }
    let text = glance(&server);
    assert!(text.lines().count() <= LINES_MAX, "{text}");
    let config = Config::parse(&text, Path::new("x.yml"));
    config.unwrap_or_else(|why| panic!("{why}\n{text}"));
    // A library's other states would be another answer for the same keys.
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| !row.again) {
        // Of many tokens whose names do not say lock, only some are listed; all are counted.
        let named = |print: &&Print| !print.says.starts_with("nothing in its name says");
        for print in row.prints.iter().filter(named) {
            let print = print.renamed(own(at));
            assert!(print.is_in(&text), "{}: {:?}\n{text}", row.library, print.cells());
        }
    }
}

/// The configuration with all proposed locks, also those that are comments.
fn pasted(text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for at in 1..lines.len() {
        let [name, lock] = [&lines[at - 1], &lines[at]].map(|line| line.strip_prefix("  # "));
        if let (Some(name), Some(lock)) = (name, lock)
            && name.starts_with("- name: ")
            && lock.starts_with("  lock: ")
        {
            (lines[at - 1], lines[at]) = (format!("  {name}"), format!("  {lock}"));
        }
    }
    lines.join("\n") + "\n"
}

/// Each lock that discover finds is shown as held by an agent with what it prints, and as free once
/// it is gone.
#[test]
fn what_it_proposes_is_right_when_pasted() {
    let test = "discover::libraries::what_it_proposes_is_right_when_pasted";
    let Some(server) = RedisServer::start(test) else { return };
    let rows = rows();
    let write = || {
        let held = rows.iter().enumerate().filter(|(_, row)| !row.again);
        held.for_each(|(at, row)| row.write(&server, own(at)));
    };
    write();
    let text = pasted(&glance(&server));
    // Some leases are short.
    write();
    let agent = Agent::start(&text);
    let config = Config::parse(&text, Path::new("x.yml")).unwrap();
    let locks = config.tasks.iter().filter(|task| task.lock().is_some());
    let names: Vec<&str> = locks.map(|task| &*task.name).collect();
    for library in ["redisson", "string", "hash", "shedlock", "single-beat", "counter", "deadline"]
    {
        assert!(text.contains(&format!("library: {library}")), "{library}\n{text}");
    }
    for layout in ["score: refreshed", "score: deadline", "field: "] {
        assert!(text.contains(layout), "{layout}\n{text}");
    }
    assert!(names.len() >= 60, "{names:?}");
    // The first lease may be over before the last lock is read.
    let was_held = RefCell::new(BTreeSet::new());
    agent.until(PATIENCE, "each was held", |page| {
        let held = names.iter().copied().filter(|name| page.of(name, "lock_held") == Some(1.0));
        was_held.borrow_mut().extend(held);
        was_held.borrow().len() == names.len()
    });
    server.cli(&["flushall"]);
    agent.until(PATIENCE, "all are free", |page| {
        names.iter().all(|name| page.of(name, "lock_held") == Some(0.0))
    });
}

/// A subscription is no key, and only its name says that it may be a lock.
#[test]
fn a_subscription_that_is_named_like_a_lock_is_proposed() {
    let test = "discover::libraries::a_subscription_that_is_named_like_a_lock_is_proposed";
    let Some(server) = RedisServer::start(test) else { return };
    server.cli(&["set", "weekly-lock", "0b1f6c0e-6d6c-4d0e-9f0a-5d3c1f2e4a5b", "px", "60000"]);
    let address = server.address();
    let (host, port) = address.split_once(':').unwrap();
    let mut listener = Command::new("redis-cli");
    listener.args(["-h", host, "-p", port, "subscribe", "nightly-lock", "chat", "weekly-lock"]);
    let listener = OwnedChild::spawn(listener.stdout(Stdio::null()));
    let until = Instant::now() + PATIENCE;
    while !server.cli(&["pubsub", "channels"]).contains("weekly-lock") && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = glance(&server);
    assert_eq!(text.matches("library: channel").count(), 1, "{text}");
    let agent = Agent::start(&pasted(&text));
    agent.until(PATIENCE, "held", |page| page.of("nightly", "lock_held") == Some(1.0));
    drop(listener);
    agent.until(PATIENCE, "free", |page| page.of("nightly", "lock_held") == Some(0.0));
}

#[test]
fn what_the_table_says_to_write_is_a_configuration() {
    for row in rows() {
        for line in row.prints.iter().filter_map(Print::line).chain(row.write.as_deref()) {
            let text = format!(
                "redis:\n  r1: {{url: \"redis://10.0.0.1\"}}\n  r2: {{url: \"redis://10.0.0.2\"}}\n  \
                 r3: {{url: \"redis://10.0.0.3\"}}\ntasks:\n  - name: x\n    redis: r1\n    {line}\n"
            );
            Config::parse(&text, Path::new("x.yml"))
                .unwrap_or_else(|why| panic!("{}: {why}", row.library));
        }
    }
}

#[test]
fn it_says_once_that_it_works_if_that_takes_long() {
    let test = "discover::libraries::it_says_once_that_it_works_if_that_takes_long";
    let Some(server) = RedisServer::start(test) else { return };
    server.cli(&["eval", "for i = 1, 260 do redis.call('set', 'k' .. i, i) end", "0"]);
    let slow = discover(server.port, &["--watch", "0s", "--keys-per-second", "100"]);
    let (text, errors) = (harmless(&slow.stdout), harmless(&slow.stderr));
    let line = "discover is at work: ";
    assert!(errors.matches(line).count() == 1 && errors.contains("of about 260"), "{errors}");
    assert!(!text.contains(line) && text.contains(": 260 keys, "), "{text}");
    let quick = discover(server.port, &["--watch", "0s"]);
    assert!(quick.stderr.is_empty());
}
