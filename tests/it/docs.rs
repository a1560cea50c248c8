//! What the documentation takes from the code stands between two marks, and is what the code says:
//! `BLESS=1` rewrites it. Also: every link leads somewhere, and the pages stay short.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use lockwatch::cli::grammar;
use lockwatch::config::schema::BLOCKS;
use lockwatch::outputs::metrics::TABLE as METRICS;
use lockwatch_judge::problems::{Memory, rows};
use lockwatch_judge::reading::Unknown;
use lockwatch_watch::remedy;

use crate::discover::libraries;
use crate::runbooks::pages::Document;

/// The marks around a generated section.
const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- /generated -->";

/// What the code says, by the page and the name of the section.
fn generated() -> BTreeMap<(&'static str, String), String> {
    let mut sections = BTreeMap::from([
        (("docs/libraries.md", "libraries".to_owned()), libraries::table()),
        (("docs/libraries.md", "run".to_owned()), crate::libraries::table()),
        (("docs/metrics.md", "metrics".to_owned()), metrics()),
        (("docs/problems.md", "task problems".to_owned()), problems(true)),
        (("docs/problems.md", "store problems".to_owned()), problems(false)),
        (("docs/operation.md", "reasons".to_owned()), reasons()),
    ]);
    let flags = commands();
    sections.extend(flags.into_iter().map(|(name, text)| (("docs/commands.md", name), text)));
    sections
}

fn metrics() -> String {
    let of = |label: &str, kind: Option<&str>, full: bool| {
        let rows = METRICS.iter().filter(move |metric| {
            let labels = metric.labels();
            let is_of = match label {
                "" => !["store", "pattern", "task"].contains(labels.first().unwrap_or(&"")),
                label => labels.first() == Some(&label),
            };
            let is_ours = metric.name.starts_with("lockwatch_");
            is_ours && is_of && metric.of_kind() == kind && metric.is_full() == full
        });
        rows.map(|metric| {
            let common = ["task", "store", "pattern"];
            let further = metric.labels().into_iter().filter(|label| !common.contains(label));
            let further: Vec<String> = further.map(label_text).collect();
            assert_eq!(metric.name.ends_with("_total"), metric.kind() == "counter");
            let histogram = if metric.kind() == "histogram" { ", a *histogram*" } else { "" };
            let labels = match further.as_slice() {
                [] => String::new(),
                labels => format!(" ({})", labels.join(", ")),
            };
            format!("- `{}`{labels}{histogram}: {}\n", metric.name, metric.help)
        })
        .collect::<String>()
    };
    let full = [None, Some("lock"), Some("turn"), Some("queue")].map(|kind| of("task", kind, true));
    format!(
        "## Of the agent\n\n{}\n## Of a store: with the label `store`\n\n{}\n\
         ## Of a pattern: with the labels `pattern` and `store`\n\n{}\n\
         ## Of a task: with the labels `task` and `store`\n\n{}\n### Of a lock\n\n{}\n\
         ### Of a turn\n\n{}\n### Of a queue\n\n{}\n### With `metrics: full` only\n\n{}",
        of("", None, false),
        of("store", None, false),
        of("pattern", None, false),
        of("task", None, false),
        of("task", Some("lock"), false),
        of("task", Some("turn"), false),
        of("task", Some("queue"), false),
        full.concat()
    )
}

fn label_text(label: &str) -> String {
    if label.starts_with('(') {
        label.trim_matches(['(', ')']).to_owned()
    } else {
        format!("`{label}`")
    }
}

fn problems(of_task: bool) -> String {
    let rows = rows().filter(|row| row.is_of_task() == of_task).map(|row| {
        let against = match (row.negative, row.memory) {
            ("", Memory::Event(ms)) => format!(" *Shown for* {} minutes.", ms / 60_000),
            ("", _) => String::new(),
            (negative, _) => format!(" *Against it:* {negative}"),
        };
        let number = match row.number {
            number if number.starts_with("how long it has been") => String::new(),
            number => format!(" *Number:* {number}."),
        };
        format!(
            "- `{}` ([{}](../alerts/runbooks/{}.md), {}): {}{against}{number}\n",
            row.problem.name(),
            row.alert.trim_start_matches("Lockwatch"),
            row.alert,
            row.alert_severity().label(),
            row.positive
        )
    });
    rows.collect()
}

fn reasons() -> String {
    Unknown::ALL.iter().map(|why| format!("- `{}`: {}\n", why.name(), remedy(*why))).collect()
}

/// The flags of the agent and of each command; those that several share stand once.
fn commands() -> Vec<(String, String)> {
    let program = grammar();
    let all: Vec<&Command> = std::iter::once(&program).chain(program.get_subcommands()).collect();
    let count =
        |line: &str| all.iter().filter(|other| flags(other).any(|one| one.1 == line)).count();
    let after = |of: &Command| of.get_after_help().map(ToString::to_string).unwrap_or_default();
    let general = after(&program);
    let mut common = Vec::new();
    let mut sections = Vec::new();
    for command in &all {
        let (mut own, mut shared) = (String::new(), Vec::new());
        for (argument, line) in flags(command) {
            match argument.get_long() {
                Some(long) if count(&line) > 1 => {
                    shared.push(long);
                    if !common.contains(&line) {
                        common.push(line);
                    }
                }
                _ => own += &line,
            }
        }
        if !shared.is_empty() {
            own += &format!("- [Common flags](#common-flags): {}\n", together(&shared).join(", "));
        }
        let after = after(command);
        let is_own =
            |block: &&str| command.get_name() == program.get_name() || !general.contains(block);
        let blocks: Vec<&str> = after.split("\n\n").map(str::trim).filter(is_own).collect();
        if !after.is_empty() {
            own += &format!("\n```text\n{}\n```\n", blocks.join("\n\n"));
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let name = match command.get_name() {
            "lockwatch" => "lockwatch".to_owned(),
            name => format!("lockwatch {name}"),
        };
        sections.push((name, format!("{about}.\n\n{own}")));
    }
    sections.push(("common".to_owned(), common.concat()));
    sections
}

/// Names of flags, with one `--redis.*` for all that begin so.
fn together(flags: &[&str]) -> Vec<String> {
    let family = |flag: &str| flag.split_once('.').map(|(of, _)| of.to_owned());
    let mut names: Vec<String> = Vec::new();
    for flag in flags {
        let alike = flags.iter().filter(|other| family(other) == family(flag)).count();
        let name = match family(flag) {
            Some(of) if alike > 2 => format!("`--{of}.*`"),
            _ => format!("`--{flag}`"),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The flags and arguments of a command, each with its line.
fn flags(command: &Command) -> impl Iterator<Item = (&Arg, String)> {
    let own = command
        .get_arguments()
        .filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()));
    own.map(|argument| (argument, flag(argument)))
}

fn flag(argument: &Arg) -> String {
    let takes = argument.get_action().takes_values();
    let value = argument.get_value_names().filter(|_| takes).map(|names| names[0].as_str());
    let name = match (argument.get_long(), value) {
        (Some(long), Some(value)) if argument.is_require_equals_set() => {
            format!("--{long}[={value}]")
        }
        (Some(long), Some(value)) => format!("--{long} {value}"),
        (Some(long), None) => format!("--{long}"),
        (None, value) => value.unwrap_or_default().to_owned(),
    };
    let mut text = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let list = |values: Vec<String>| values.join(", ");
    let possible = argument.get_possible_values();
    if takes && !possible.is_empty() {
        let names = possible.iter().map(|value| format!("`{}`", value.get_name())).collect();
        write!(text, ": {}", list(names)).unwrap();
    }
    let default = argument.get_default_values();
    if takes && !default.is_empty() {
        let values = default.iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
        write!(text, " [default: {}]", list(values)).unwrap();
    }
    format!("- `{name}`: {text}\n")
}

/// A page with its generated sections as the code has them, and the names of these sections.
fn filled(page: &str, text: &str) -> (String, Vec<String>) {
    let sections = generated();
    let mut parts = text.split(BEGIN);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    let mut names = Vec::new();
    for part in parts {
        let (name, rest) = part.split_once(" -->\n").expect("a mark with a name");
        let (_, after) = rest.split_once(END).expect("an end of the section");
        let section = sections.iter().find(|((of, called), _)| *of == page && called == name);
        let (_, section) = section.unwrap_or_else(|| panic!("{page}: nothing makes `{name}`"));
        filled += &format!("{BEGIN}{name} -->\n{}\n{END}{after}", section.trim_end());
        names.push(name.to_owned());
    }
    (filled, names)
}

#[test]
fn generated_sections_are_what_the_code_says() {
    let sections = generated();
    let mut pages: Vec<&str> = sections.keys().map(|(page, _)| *page).collect();
    pages.dedup();
    for page in pages {
        let document = Document::read(page);
        let (now, mut names) = filled(page, &document.text);
        if std::env::var_os("BLESS").is_some() {
            fs::write(&document.path, &now).unwrap();
        } else {
            let difference = document.text.lines().zip(now.lines()).find(|(then, now)| then != now);
            assert!(document.text == now, "{page}: {difference:?}; BLESS=1 rewrites it");
        }
        names.sort();
        let made: Vec<&String> =
            sections.keys().filter(|(of, _)| *of == page).map(|(_, name)| name).collect();
        assert_eq!(names.iter().collect::<Vec<_>>(), made, "{page}");
    }
}

/// The fields that each list of docs/configuration.md has, by its mark.
fn listed(text: &str) -> BTreeMap<String, Vec<String>> {
    let lists = text.split("<!-- fields: ").skip(1).map(|part| {
        let (path, rest) = part.split_once("-->\n").expect("a mark with the path of a block");
        let list = rest.lines().take_while(|line| line.starts_with("- ") || line.starts_with("  "));
        let items = list.filter_map(|line| line.strip_prefix("- "));
        // An item is `a`, `b` (the default): what it means.
        let names = items.flat_map(|item| {
            let names = item.split([':', '(']).next().unwrap_or_default();
            names.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
        });
        (path.trim().to_owned(), names.collect())
    });
    lists.collect()
}

#[test]
fn the_lists_of_fields_are_those_of_the_schema() {
    let text = Document::read("docs/configuration.md").text;
    let lists = listed(&text);
    assert!(lists.len() > 12, "{lists:?}");
    for (path, fields) in lists {
        let block = BLOCKS.iter().find(|block| block.path == path).expect("a block of the schema");
        let (mut fields, mut known) = (fields, block.fields.to_vec());
        fields.sort();
        known.sort_unstable();
        assert_eq!(fields, known, "the block `{path}`");
    }
}

/// All pages for people.
pub(crate) fn pages() -> Vec<Document> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in ["", "docs", "alerts", "alerts/runbooks", "dashboards", "lab"] {
        let entries = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        found.extend(entries.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    found.sort();
    found.iter().map(|path| Document::read(path.to_str().unwrap())).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let links = page.links().into_iter().filter(|link| !link.contains("://"));
        for link in links {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let beside = page.path.parent().unwrap().join(file);
            let path = if file.is_empty() { page.path.clone() } else { beside };
            let leads = path.exists()
                && (anchor.is_empty()
                    || Document::read(path.to_str().unwrap())
                        .anchors()
                        .contains(&anchor.to_owned()));
            if !leads {
                broken.push(format!("{}: {link}", page.path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// A page that nobody finishes helps nobody: cut before you add.
#[test]
fn the_documentation_stays_short() {
    let words = |text: &str| text.split_whitespace().count();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let inside = pages().into_iter().filter(|page| page.path.parent() == Some(&folder));
    // The table of libraries is looked up, not read.
    let inside = inside.filter(|page| !page.path.ends_with("libraries.md"));
    let docs: usize = inside.map(|page| words(&page.text)).sum();
    assert!(docs <= 35_000, "docs/ has {docs} words");
    let map = words(&Document::read("ARCHITECTURE.md").text);
    assert!(map <= 2_500, "ARCHITECTURE.md has {map} words");
}

/// Every figure with a unit that the README quotes of what lockwatch costs.
#[test]
fn figures_of_the_readme_are_those_that_were_measured() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |page: &str| fs::read_to_string(root.join(page)).unwrap();
    let (readme, measured) = (read("README.md"), read("docs/cost.md"));
    let (_, rest) = readme.split_once("- **Low cost.**").unwrap();
    let words: Vec<&str> = rest.split("\n\n").next().unwrap().split_whitespace().collect();
    let quoted: Vec<String> = words
        .windows(2)
        .map(|pair| [pair[0], pair[1].trim_end_matches([',', '.'])].join(" "))
        .filter(|pair| ["%", "MB", "ms"].iter().any(|unit| pair.ends_with(&format!(" {unit}"))))
        .collect();
    assert!(quoted.len() >= 3, "{quoted:?}");
    for figure in quoted {
        assert!(measured.contains(&format!(" {figure} ")), "{figure} is not in docs/cost.md");
    }
}
