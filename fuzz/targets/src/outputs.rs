//! All displays of a task whose key, holders, users, hosts, claims and progress are the input: they
//! can be parsed, show the right values, and contain no token and nothing that a terminal or
//! browser would execute.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockwatch::commands::ask::AgentArguments;
use lockwatch::commands::status::{self, StatusOptions};
use lockwatch::outputs::exposition::{self, Variant};
use lockwatch::outputs::history::History;
use lockwatch::outputs::json::{self, TaskFilter, TaskList};
use lockwatch::outputs::metrics::Own;
use lockwatch::outputs::negotiate::{Coding, Format};
use lockwatch::paths::Links;
use lockwatch::published::{Published, ReloadStatus};
use lockwatch::text::identity::{digest, escape};
use lockwatch::trace;
use lockwatch_judge::spec::{StoreIndex, TaskSpec};
use lockwatch_judge::time::AgentWall;
use lockwatch_watch::redis::accept::{Caps, RoleCheck};
use lockwatch_watch::redis::ask::{Ask, Class};
use lockwatch_watch::redis::libraries;
use lockwatch_watch::redis::read::all_asks;
use lockwatch_watch::redis::reply::{Command, Reply};
use serde_json::Value;

use crate::claims::{harmless, harmless_line};
use crate::exposition::Exposition;
use crate::snapshot::{NAMES, WALL, token, world};
use crate::{http, worlds};

const OWN: Own = Own {
    reload: ReloadStatus {
        successful: true,
        success_at: AgentWall(WALL),
        tasks: 1,
        links: Links::NONE,
    },
    log_lines_lost: 0,
};

pub(crate) fn run(data: &[u8]) {
    let (published, history) = world(data);
    let token = token(data);
    let metrics = check_metrics(&published, data);
    let list = TaskList::new(Arc::clone(&published), TaskFilter::default()).collect::<String>();
    check_list(&list, data);
    let events = events(&history);
    let mut all = vec![metrics, list, events];
    for (task, name) in [
        (None, NAMES[0]),
        (Some(NAMES[0].to_owned()), NAMES[0]),
        (Some(NAMES[1].to_owned()), NAMES[1]),
    ] {
        let body = match &task {
            None => all[1].clone(),
            Some(_) => {
                serde_json::to_string(&json::task(&published, name).expect("the task is there"))
                    .unwrap()
            }
        };
        for json in [false, true] {
            let options = StatusOptions {
                task: task.clone(),
                agent: AgentArguments::at("http://127.0.0.1:9898"),
                json,
                plugin: !json && task.is_none(),
                watch_ms: None,
            };
            let shown = status::printed_for(body.clone().into_bytes(), &options)
                .expect("the agent's own answer");
            harmless(&shown);
            all.push(shown);
        }
        all.push(body);
    }
    all.push(check_said(data, &token));
    for path in ["/", "/tasks/named", "/tasks/tokened", "/badge/named.svg", "/api/v1/events"] {
        all.push(http::get(Arc::clone(&published), history.clone(), path));
    }
    for text in &all {
        assert!(!text.contains(&token), "the token is shown: {text}");
    }
}

/// Reads both formats back; they contain the escaped key and holder.
fn check_metrics(published: &Arc<Published>, data: &[u8]) -> String {
    let variant = |format| Variant { format, coding: Coding::Identity };
    let page = |format| exposition::make(published, OWN, variant(format));
    let text = String::from_utf8(page(Format::Classic)).expect("a page of text");
    let read = Exposition::parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    let shown = Some(escape(data).into_owned());
    assert_eq!(read.label(NAMES[0], "task_info", "key"), shown);
    // Configured text is escaped like any other.
    let team = shown.as_ref().map(|text| escape(text.as_bytes()).into_owned());
    assert_eq!(read.label(NAMES[0], "task_info", "team"), team);
    // An empty id identifies nobody.
    let holder = shown.filter(|text| !text.is_empty());
    assert_eq!(read.label(NAMES[0], "lock_holder", "holder"), holder);
    assert_eq!(read.label(NAMES[1], "lock_holder", "holder"), Some(digest(token(data).as_bytes())));
    let open = String::from_utf8(page(Format::OpenMetrics)).expect("a page of text");
    assert!(open.ends_with("# EOF\n"));
    text + &open
}

fn check_list(list: &str, data: &[u8]) {
    harmless_line(list);
    let value: Value = serde_json::from_str(list).expect("JSON");
    let tasks = value["tasks"].as_array().expect("tasks");
    let named = tasks.iter().find(|task| task["name"] == NAMES[0]).expect("the task");
    assert_eq!(named["lock"]["key"], *escape(data));
    assert_eq!(named["lock"]["hold"]["holders"][0]["holder"], *escape(data));
}

fn events(history: &History) -> String {
    let excerpt = history.excerpt(&BTreeSet::new(), Some(0), usize::MAX, |_| true);
    excerpt.events.iter().map(|kept| json::event(history.boot(), kept)).collect()
}

/// The commands and replies that `explain` shows.
fn check_said(data: &[u8], token: &str) -> String {
    let mut shown = String::new();
    let bytes = Reply::Bytes(data.to_vec());
    let secret = Reply::Bytes(token.as_bytes().to_vec());
    let tokened = TaskSpec::new(NAMES[1], StoreIndex(0), libraries::lock(b"tokened", "string"));
    let caps = Caps {
        pexpiretime: true,
        hpexpiretime: false,
        role: RoleCheck::Role,
        info: true,
        sharded: true,
    };
    for spec in [worlds::task(0), worlds::task(2), worlds::task(15)] {
        let hostile = Ask::new(Class::Named, Command::new([data, data]));
        for ask in all_asks(&spec, caps).iter().chain([&hostile]) {
            let items = vec![bytes.clone(); 4];
            let scan = Reply::Array(vec![Reply::Bytes(b"0".to_vec()), Reply::Array(items)]);
            for reply in [&bytes, &scan] {
                let said = trace::said(&spec, ask, Some(reply));
                harmless_line(&said.command);
                said.reply.iter().for_each(|line| harmless_line(line));
                shown.push_str(&said.reply.join("\n"));
            }
        }
    }
    for ask in all_asks(&tokened, caps) {
        shown.push_str(&trace::said(&tokened, &ask, Some(&secret)).reply.join("\n"));
    }
    shown
}
