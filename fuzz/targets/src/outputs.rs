//! All displays of a task whose key, holders, users, hosts, claims and progress are the input: they
//! can be parsed, show the right values, and contain no token and nothing that a terminal or
//! browser would execute.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use lockwatch::commands::ask::AgentArguments;
use lockwatch::commands::status::{self, StatusOptions};
use lockwatch::outputs::events::describe;
use lockwatch::outputs::exposition::{self, Variant};
use lockwatch::outputs::history::History;
use lockwatch::outputs::json::{self, TaskFilter, TaskList};
use lockwatch::outputs::metrics::Own;
use lockwatch::outputs::negotiate::{Coding, Format};
use lockwatch::paths::Links;
use lockwatch::published::{Published, ReloadStatus};
use lockwatch::text::identity::{digest, escape};
use lockwatch::trace;
use lockwatch_judge::input::{Attestation, Generation, Input, Outcome, Role, Sample, Standing};
use lockwatch_judge::reading::{
    Beside, ClaimsReading, Deadline, Ended, Ends, Extras, GuardRuns, Held, Holder, LockReading,
    Mode, Overrun, PauseReading, ProgressReading, ProgressValue, RunsReading, Switch,
    SwitchesReading, TaskReading,
};
use lockwatch_judge::spec::{
    Codec, StoreIndex, TaskIndex, TaskSpec, WantedSource, WantedSpec, WatchSpec,
};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{AgentWall, Mono, ServerTime};
use lockwatch_watch::redis::accept::{Caps, RoleCheck};
use lockwatch_watch::redis::ask::{Ask, Class};
use lockwatch_watch::redis::read::all_asks;
use lockwatch_watch::redis::reply::{Command, Reply};
use lockwatch_watch::redis::{RedisKind, libraries};
use serde_json::Value;

use crate::claims::{harmless, harmless_line};
use crate::exposition::Exposition;
use crate::html::Element;
use crate::{honest, http, worlds};

/// The agent's wall clock at its start.
const WALL: i64 = honest::NOW_S * 1_000;
const OWN: Own = Own {
    reload: ReloadStatus {
        successful: true,
        success_at: AgentWall(WALL),
        tasks: 1,
        links: Links::NONE,
    },
    log_lines_lost: 0,
};
/// The names of the two tasks.
const NAMES: [&str; 2] = ["named", "tokened"];

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

/// The token of the second task's lock, which must never be shown.
fn token(data: &[u8]) -> String {
    format!("token-{}-of-nobody", digest(data))
}

/// A snapshot in which two tasks have a history, and the events in it.
pub(crate) fn world(data: &[u8]) -> (Arc<Published>, History) {
    let labels = vec![("team".into(), escape(data).into())];
    let named = TaskSpec { labels, full_metrics: true, ..worlds::task(0) };
    let named = TaskSpec {
        name: NAMES[0].into(),
        kind: lockwatch_judge::spec::KindSpec::Lock(libraries::lock(data, "redisson")),
        ..named
    };
    let tokened = TaskSpec {
        wanted: Some(WantedSpec { source: WantedSource::Always, codec: Codec::Raw }),
        ..TaskSpec::new(NAMES[1], StoreIndex(0), libraries::lock(b"tokened", "string"))
    };
    let redis = RedisKind::Standalone.store("main", &["a:1"]);
    let spec = WatchSpec {
        stores: vec![redis],
        tasks: vec![Arc::new(named), Arc::new(tokened)],
        epoch: 0,
    };
    let (mut state, history) = (State::new(), History::default());
    let mut step = |at: u64, input: Input| {
        for event in state.step(Mono(at), input) {
            let line = describe(&event);
            harmless_line(&line.message);
            line.who.iter().for_each(|who| harmless_line(who));
            history.keep(Mono(at), AgentWall(WALL + at as i64), &event);
        }
    };
    step(0, Input::Config(Arc::new(spec)));
    for turn in 1..=5 {
        let readings = vec![
            (TaskIndex(0), named_reading(turn, data)),
            (TaskIndex(1), tokened_reading(turn, data)),
        ];
        step(turn * 1_000, Input::Sample(sample(turn * 1_000, readings)));
    }
    let snapshot = state.snapshot(Mono(5_500));
    (Arc::new(Published { snapshot, wall: AgentWall(WALL + 5_500), made: Instant::now() }), history)
}

/// A lock that is held by the input, by the input and another holder, by nobody, and by the input
/// again.
fn named_reading(turn: u64, data: &[u8]) -> TaskReading {
    let holder = |client: &[u8]| Holder {
        client: client.to_vec(),
        thread: None,
        entries: Some(1),
        secret: false,
    };
    let mut holders = vec![holder(data)];
    if turn == 2 {
        holders.push(holder(b"another"));
    }
    holders.sort_unstable();
    let server_now = ServerTime(WALL + turn as i64 * 1_000);
    let beside = Beside {
        overruns: vec![Overrun { instance: data.to_vec(), token: 1, ms: u64::MAX }],
        runs: RunsReading {
            guards: vec![GuardRuns {
                instance: data.to_vec(),
                host: data.to_vec(),
                ended: vec![Ended { from: server_now, to: server_now, code: 1, asked: false }; 3],
                since: Some(server_now),
            }],
            unreadable: 1,
        },
        switches: Some(SwitchesReading::Read {
            switches: vec![
                (data.to_vec(), Switch::On),
                (
                    [data, b"2"].concat(),
                    Switch::Undecodable {
                        value: data.iter().take(64).copied().collect(),
                        fits: None,
                    },
                ),
            ],
            key_exists: true,
            counted: None,
            whole: true,
            ends: Ends::UNKNOWN,
        }),
        progress: Some(ProgressReading::Value(ProgressValue::lasting(
            [data, turn.to_string().as_bytes()].concat(),
        ))),
        claims: Some(ClaimsReading::Read(vec![(data.to_vec(), turn.to_string().into_bytes())])),
        hosts: Some(Ok(vec![(data.to_vec(), data.to_vec())])),
        pause: Some(PauseReading::Undecodable),
    };
    let extras = Extras { waiters: Some(2), fencing_token: Some(7) };
    TaskReading::of_lock(lock(turn, holders), extras, beside)
}

fn tokened_reading(turn: u64, data: &[u8]) -> TaskReading {
    let holder =
        Holder { client: token(data).into_bytes(), thread: None, entries: None, secret: true };
    TaskReading::of_lock(lock(turn, vec![holder]), Extras::default(), Beside::default())
}

fn lock(turn: u64, holders: Vec<Holder>) -> LockReading {
    let deadline = Deadline::At(ServerTime(WALL + 30_000 + turn as i64 * 1_000));
    match turn {
        4 => LockReading::Free,
        _ => LockReading::from(Held { mode: Mode::Exclusive, holders, ghosts: 0, deadline }),
    }
}

fn sample(at: u64, readings: Vec<(TaskIndex, TaskReading)>) -> Sample {
    let clock = ServerTime(WALL + at as i64);
    let attestation = Attestation {
        first: clock,
        last: clock,
        role: Role::Master,
        role_verified: true,
        offset: Some(at),
        refuses_writes: None,
        replicas: Vec::new(),
        generation: Some(Generation::default()),
        clock_offset_ms: 0,
    };
    Sample {
        epoch: 0,
        store: StoreIndex(0),
        node: Some("a:1".into()),
        standing: Standing::Decides,
        sent: Mono(at),
        took_ms: 3,
        outcome: Outcome::Read { attestation, readings },
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

/// A page or picture is well-formed, so that all parsers read it alike.
#[track_caller]
pub(crate) fn check_html(text: &str) {
    let _root = Element::parse(text);
}
