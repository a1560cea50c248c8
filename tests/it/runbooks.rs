//! The runbooks, docs/on-call.md and docs/alerting.md are complete and linked, and every command in
//! them works on real servers.

pub(crate) mod pages;
mod stage;

use std::collections::BTreeMap;
use std::process::Output;

use lockwatch_judge::problems::rows;
use pages::{Command, Document, commands, sh_blocks};
use serde_yaml::Value;
use stage::Stage;

const SECTIONS: [&str; 6] =
    ["Meaning", "Impact", "Diagnosis", "Mitigation", "False alarm", "Prevention"];

/// The forms in which the commands call `redis-cli`.
const CLIENTS: [&str; 4] = ["$REDIS_CLI ", "$OTHER_CLI ", "$SENTINEL_CLI ", "$CLUSTER_CLI "];

/// Read commands that runbooks may send without a warning.
const READS: [&str; 22] = [
    "--scan ",
    "ACL GETUSER ",
    "CLIENT LIST",
    "CLUSTER INFO",
    "CLUSTER KEYSLOT ",
    "CLUSTER NODES",
    "EXISTS ",
    "HGETALL ",
    "HKEYS ",
    "INFO ",
    "LLEN ",
    "MONITOR ",
    "PING",
    "PTTL ",
    "PUBSUB NUMSUB ",
    "ROLE",
    "SENTINEL CKQUORUM ",
    "SENTINEL GET-MASTER-ADDR-BY-NAME ",
    "SLOWLOG GET ",
    "TIME",
    "TYPE ",
    "GET ",
];

/// What commands must print in the situation of their runbook: runbook, part of the command, part
/// of its output.
const REPORTED: [(&str, &str, &str); 43] = [
    ("LockwatchTaskDown", "lockwatch status", "!! down"),
    ("LockwatchTaskDown", "PTTL", "-2"),
    ("LockwatchTaskSplit", "lockwatch status", "holders"),
    ("LockwatchTaskSplit", "HGETALL \"$LOCK_KEY\"", ":57"),
    ("LockwatchTaskSplit", "totals.splits", "{\"name\":\"holders\",\"count\":1}"),
    ("LockwatchTaskSplit", "OTHER_CLI ROLE", "slave"),
    ("LockwatchTaskStalled", "lockwatch status", "wh-app-01"),
    ("LockwatchTaskStalled", "PUBSUB", "redisson_lock__channel:{outbound:lock}\n1"),
    ("LockwatchSwitchesLost", "lockwatch status", "anna"),
    ("LockwatchSwitchesLost", "EXISTS", "0"),
    ("LockwatchSwitchesLost", "commandstats", "1"),
    ("LockwatchLockLost", "totals.ends", "{\"name\":\"lost\",\"count\":1}"),
    ("LockwatchTaskBlind", "lockwatch status", "wrong_type"),
    ("LockwatchTaskBlind", "store_errors_total", "wrong_type"),
    ("LockwatchTaskBlind", "TYPE \"$LOCK_KEY\"", "string"),
    ("LockwatchStoreUnreachable", "lockwatch status", "store main cannot be read"),
    ("LockwatchStoreUnreachable", "/api/v1/tasks", "\"auth\""),
    ("LockwatchStoreUnreachable", "ACL GETUSER", "off"),
    ("LockwatchStoreUnreachable", "/api/v1/tasks", "false"),
    ("LockwatchRivalMaster", "OTHER_CLI ROLE", "master"),
    ("LockwatchRivalMaster", "GET-MASTER-ADDR", "127.0.0.1"),
    ("LockwatchRivalMaster", "CLIENT LIST", "addr="),
    ("LockwatchSentinelMissing", "CKQUORUM", "OK"),
    ("LockwatchReplicaBehind", "OTHER_CLI INFO", "master_link_status:up"),
    ("LockwatchReplicaBehind", "REDIS_CLI INFO", "state=online"),
    ("LockwatchTaskUnwanted", "lockwatch status", "! unwanted"),
    ("LockwatchTaskUnwanted", "HGETALL \"$SWITCHES\"", "anna\n0"),
    ("LockwatchSwitchUndecodable", "lockwatch status", "anna"),
    ("LockwatchSwitchUndecodable", "HGETALL \"$SWITCHES\"", "perhaps"),
    ("LockwatchLeaseExpired", "lock_expired_total", "store=\"main\"} 1"),
    ("LockwatchProgressMissing", "lockwatch status", "absent"),
    ("LockwatchProgressMissing", "TYPE", "hash"),
    ("LockwatchProgressMissing", "HKEYS", "last_runs"),
    ("LockwatchLockPersistent", "lockwatch status", "held for ever"),
    ("LockwatchLockPersistent", "PTTL", "-1"),
    ("LockwatchLockPersistent", "PUBSUB", "\n1"),
    ("LockwatchWatchdog", "amtool", "LockwatchWatchdog"),
    ("on-call", "MONITOR", "EVAL"),
    ("on-call", "HGETALL \"$HOSTS\"", "wh-app-01"),
    ("alerting", "/api/v1/rules", "lockwatch.pages"),
    ("on-call", "locks_after_change", "fate=\"kept\"} "),
    ("on-call", "CLUSTER INFO", "cluster_state:ok"),
    ("on-call", "CLUSTER NODES", "0-16383"),
];

#[test]
fn each_alert_has_a_runbook_and_a_line_in_a_list() {
    let alerts = alerts();
    let runbooks = Document::runbooks();
    let names: Vec<&str> = runbooks.iter().map(Document::name).collect();
    assert_eq!(names, alerts.keys().map(String::as_str).collect::<Vec<_>>());
    let overview = Document::read("alerts/README.md");
    let guide = Document::read("docs/alerting.md");
    for (alert, rule) in &alerts {
        let problem = rows().find(|row| row.alert == alert);
        let severity = rule["labels"]["severity"].as_str();
        // What is true and what ends it is in docs/problems.md, or here.
        let critical = if severity == Some("critical") { " (critical)" } else { "" };
        let row = format!("\n| {}{critical} | ", alert.trim_start_matches("Lockwatch"));
        assert!(problem.is_some() || guide.section("The alerts").contains(&row), "{alert}");
        let url = rule["annotations"]["runbook_url"].as_str().unwrap();
        assert!(url.contains(&format!("/{alert}{{{{ end }}}}")), "{alert}: {url}");
        // Without one of the rule it is that of the problem's series.
        if let (Some(problem), Some(severity)) = (problem, severity) {
            assert_eq!(severity, problem.alert_severity().label(), "{alert}");
        }
        // docs/problems.md links those of problems.
        let link = format!("[{alert}](runbooks/{alert}.md)");
        assert!(problem.is_some() || overview.text.contains(&link), "{alert}");
    }
}

#[test]
fn every_runbook_has_the_same_sections_with_something_in_each() {
    for page in Document::runbooks() {
        assert!(page.text.starts_with(&format!("# {}\n", page.name())), "{}", page.name());
        let sections = page.sections();
        assert_eq!(
            sections.iter().map(|(title, _)| *title).collect::<Vec<_>>(),
            SECTIONS,
            "{}",
            page.name()
        );
        assert!(sections.iter().all(|(_, text)| !text.trim().is_empty()), "{}", page.name());
        let diagnosis = page.section("Diagnosis");
        assert!(!commands(diagnosis).is_empty(), "{}", page.name());
        assert!(
            diagnosis.contains("on-call.md#before-you-start"),
            "{}: where its variables come from",
            page.name()
        );
    }
}

#[test]
fn a_command_that_changes_redis_says_what_to_check_before() {
    for page in pages() {
        for command in commands(&page.text) {
            let asked = CLIENTS.iter().find_map(|client| Some(command.text.split_once(client)?.1));
            let writes = asked
                .is_some_and(|asked| !READS.iter().any(|read| asked.starts_with(read.trim_end())));
            assert_eq!(
                writes,
                command.comment.starts_with("WRITES"),
                "{}: {command:?}",
                page.name()
            );
        }
    }
}

#[test]
fn every_series_that_is_named_exists() {
    let metrics = Document::read("docs/metrics.md").text;
    let rules = Document::read("alerts/lockwatch.rules.yml").text;
    let exists = |name: &str| match name.split_once(':') {
        Some(_) => rules.contains(&format!("record: {name}")),
        None => {
            let family =
                ["_sum", "_count", "_bucket"].iter().find_map(|part| name.strip_suffix(part));
            [Some(name), family]
                .into_iter()
                .flatten()
                .any(|name| metrics.contains(&format!("\n- `{name}`")))
        }
    };
    for page in crate::docs::pages() {
        if page.path.ends_with("CHANGELOG.md") {
            continue;
        }
        let names = series(&page.text);
        let missing: Vec<_> = names.iter().filter(|name| !exists(name)).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", page.name());
    }
    assert_eq!(
        series("grep -E \"lockwatch_(a|b_c)_total.*\""),
        ["lockwatch_a_total", "lockwatch_b_c_total"]
    );
}

/// Without it a label of a target takes the place of lockwatch's own.
#[test]
fn the_examples_honor_the_labels_of_agents() {
    for path in ["README.md", "alerts/prometheus-example.yml"] {
        let text = Document::read(path).text;
        let (_, job) = text.split_once("- job_name: lockwatch\n").expect(path);
        let job = job.split("\n  - job_name:").next().unwrap();
        assert!(job.contains("\n    honor_labels: true"), "{path}");
    }
}

#[test]
fn every_command_works() {
    let Some(mut stage) = Stage::open("runbooks::every_command_works") else { return };
    let mut failures = Vec::new();
    // The output found in place of the expected one; `None` once the expected one was found.
    let mut missing: Vec<Option<String>> = vec![Some(String::new()); REPORTED.len()];
    for page in pages() {
        stage.arrange(page.name());
        for command in commands_to_run(&page) {
            let output = stage.run(&command.text);
            let said = String::from_utf8_lossy(&output.stdout);
            let nothing = said.trim().is_empty() || said.lines().any(|line| line == "null");
            if !has_worked(&command, &output) || nothing {
                failures.push(format!("{}: {}\n{output:?}", page.name(), command.text));
            }
            for ((about, part, answer), instead) in REPORTED.iter().zip(&mut missing) {
                if *about == page.name() && command.text.contains(part) {
                    if said.contains(answer) {
                        *instead = None;
                    } else if let Some(before) = instead {
                        before.push_str(&said);
                    }
                }
            }
            stage.after(page.name(), &command.text);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let missing =
        REPORTED.iter().zip(missing).filter_map(|(expected, instead)| Some((expected, instead?)));
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The exit code of `status` depends on the state of the task, so it is no failure.
fn has_worked(command: &Command, output: &Output) -> bool {
    let most = if command.text.starts_with("lockwatch status ") { 3 } else { 0 };
    output.status.code().is_some_and(|code| (0..=most).contains(&code))
        && (most == 0 || output.stderr.is_empty())
}

/// The first step is lockwatch's own status and explanation.
#[test]
fn the_runbook_of_a_task_begins_with_status_and_explain() {
    for page in Document::runbooks() {
        let diagnosis = commands(page.section("Diagnosis"));
        let is_of_task = diagnosis.iter().any(|command| command.text.contains("$TASK"));
        let begins: Vec<bool> = ["lockwatch status \"$TASK\" ", "lockwatch explain \"$TASK\" "]
            .iter()
            .zip(&diagnosis)
            .map(|(beginning, command)| {
                command.text.starts_with(beginning) && !command.comment.is_empty()
            })
            .collect();
        assert!(!is_of_task || begins == [true, true], "{}", page.name());
    }
}

/// The runbooks and their common document.
fn pages() -> Vec<Document> {
    let shared = ["docs/alerting.md", "docs/on-call.md", "alerts/README.md"].map(Document::read);
    shared.into_iter().chain(Document::runbooks()).collect()
}

/// All commands except the block that sets the variables.
fn commands_to_run(page: &Document) -> Vec<Command> {
    let text = match page.sections().first() {
        Some(("Before you start", variables)) => page.text.replace(sh_blocks(variables)[0], ""),
        _ => page.text.clone(),
    };
    commands(&text)
}

/// The series of lockwatch and of its rules that a text names, also within a pattern for `grep`.
fn series(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_:(|)".contains(c)));
    let names = words.filter(|word| word.contains("lockwatch_")).flat_map(|word| {
        let start = if word.contains(':') { None } else { word.find("lockwatch_") };
        let word = &word[start.unwrap_or(0)..];
        match word.split_once('(').and_then(|(head, rest)| Some((head, rest.split_once(')')?))) {
            Some((head, (choices, tail))) => {
                choices.split('|').map(|choice| format!("{head}{choice}{tail}")).collect()
            }
            None => vec![word.trim_matches(|c| "(|):".contains(c)).to_owned()],
        }
    });
    names.collect()
}

/// The alerting rules by name.
fn alerts() -> BTreeMap<String, Value> {
    let files = ["alerts/lockwatch.rules.yml", "alerts/lockwatch-watchdog.rules.yml"];
    let read = |file: &str| serde_yaml::from_str::<Value>(&Document::read(file).text).unwrap();
    let files = files.map(read);
    let groups = files.iter().flat_map(|file| file["groups"].as_sequence().unwrap());
    let rules = groups.flat_map(|group| group["rules"].as_sequence().unwrap());
    rules.filter_map(|rule| Some((rule["alert"].as_str()?.to_owned(), rule.clone()))).collect()
}
