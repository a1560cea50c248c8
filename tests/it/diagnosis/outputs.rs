//! What each output says about a store and its task.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::thread;

use crate::support::agent::{Agent, program};

pub(super) struct Outputs {
    /// By the name of the output: all that it says.
    whole: BTreeMap<&'static str, String>,
    /// By the name of the task.
    explanations: BTreeMap<&'static str, String>,
}

impl Outputs {
    pub(super) fn take(agent: &Agent, names: impl Iterator<Item = &'static str>) -> Outputs {
        let url = format!("http://127.0.0.1:{}", agent.port);
        let explain = |name: &'static str| {
            let url = url.clone();
            thread::spawn(move || (name, reported(&["explain", "--agent.url", &url, name]).1))
        };
        let running: Vec<_> = names.map(explain).collect();
        let status = reported(&["status", "--agent.url", &url]).1;
        let whole = BTreeMap::from([
            ("the page", plain(&agent.text("/"))),
            ("the API", plain(&agent.text("/api/v1/tasks"))),
            ("status", status),
            ("check-config --connect", check(agent).1),
            ("the log", plain(&agent.log())),
        ]);
        let explanations = running.into_iter().map(|task| task.join().unwrap()).collect();
        Outputs { whole, explanations }
    }

    /// Each output says all of this of the store `name`.
    #[track_caller]
    pub(super) fn say(&self, name: &str, parts: &[&str]) {
        for (output, text) in &self.whole {
            for part in parts.iter().filter(|part| !part.is_empty()) {
                let says = about(output, text, name);
                assert!(!says.is_empty(), "{output} does not mention {name}:\n{text}");
                assert!(says.contains(&plain(part)), "{output} of {name} lacks {part:?}:\n{says}");
            }
        }
        let text = &self.explanations[name];
        for part in parts {
            assert!(text.contains(&plain(part)), "explain {name} lacks {part:?}:\n{text}");
        }
    }

    #[track_caller]
    pub(super) fn have_none_of(&self, secrets: &[&str]) {
        for text in self.whole.values().chain(self.explanations.values()) {
            assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
        }
    }
}

/// The part of an output that is about one store or its task.
fn about(output: &str, text: &str, name: &str) -> String {
    let piece = |from: &str, to: &str| -> String {
        let pieces = text.split(from).skip(1).filter_map(|rest| rest.split(to).next());
        pieces.map(|piece| format!("{from}{piece}\n")).collect()
    };
    match output {
        "the page" => {
            let rows = text.split("<tr").filter(|row| row.contains(&format!(">{name}<")));
            rows.collect::<Vec<_>>().join("\n")
        }
        "the API" => piece(&format!("{{\"name\":\"{name}\""), "\"verdict_since\""),
        "status" => text.to_owned(),
        "check-config --connect" => piece(&format!("store {name} ("), " store "),
        _ => piece(&format!(" store={name} "), " level="),
    }
}

/// `check-config --connect` with the agent's configuration.
pub(super) fn check(agent: &Agent) -> (Option<i32>, String) {
    let file = agent.path("lockwatch.yml");
    reported(&["check-config", "--connect", "--config.file", file.to_str().unwrap()])
}

fn reported(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = program();
    command.args(arguments).envs([
        ("RIGHT", super::servers::PASSWORD),
        ("WRONG", "wr0ng-c4nary"),
        ("COLUMNS", "10000"),
    ]);
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), plain(&String::from_utf8(text).unwrap()))
}

/// The text without the escapes of HTML, JSON and logfmt, on one line.
fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    for (escaped, plain) in [
        ("&#39;", "'"),
        ("&quot;", "\""),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
        ("\\\"", "\""),
    ] {
        text = text.replace(escaped, plain);
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
