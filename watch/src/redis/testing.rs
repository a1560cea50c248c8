//! What the tests of several modules need: a store without a network, and a server that answers.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use lockwatch_judge::input::{Input, NodeNews, Sample};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::{StoreIndex, TaskIndex, TaskSpec};
use lockwatch_judge::time::{AgentWall, Mono};

use super::driver::{Action, Dial, Dialled, Event, Failure, LinkId, Now};
use super::libraries;
use super::out::Out;
use super::reply::{Command, Reply, ServerError};
use super::store::{HostPort, Servers, Store};
use super::tasks::Tasks;

pub(super) fn at(host: &str) -> HostPort {
    HostPort { host: String::from(host), port: 6379 }
}

/// A store that is read each minute, and has three seconds to answer.
pub(super) fn store(servers: Servers) -> Store {
    Store {
        name: "main".into(),
        servers,
        db: 0,
        interval_ms: 60_000,
        timeout_ms: 3_000,
        assume_master: false,
        wake_ups: false,
    }
}

/// Tasks with the locks `lock-0`, …, each a token in a string.
pub(super) fn tasks(numbers: Range<usize>) -> Tasks {
    let task = |number: usize| {
        let lock = libraries::lock(format!("lock-{number}").as_bytes(), "string");
        let spec = TaskSpec::new(&format!("task-{number}"), StoreIndex(0), lock);
        (TaskIndex(u32::try_from(number).unwrap()), Arc::new(spec))
    };
    Arc::new(numbers.map(task).collect())
}

pub(super) fn now(ms: u64) -> Now {
    Now { mono: Mono::at(ms), wall: AgentWall(1_800_000_000_000) }
}

pub(super) fn out() -> Out {
    Out::new(0, StoreIndex(0), 1)
}

/// Everything that the driver would have been asked for since the last call.
pub(super) fn actions(out: &mut Out) -> Vec<Action> {
    out.actions.drain(..).collect()
}

pub(super) fn dials(actions: &[Action]) -> Vec<&Dial> {
    let mut found = Vec::new();
    for action in actions {
        if let Action::Dial(dial) = action {
            found.push(dial);
        }
    }
    found
}

pub(super) fn sends(actions: &[Action]) -> Vec<(LinkId, &[Command])> {
    let mut found = Vec::new();
    for action in actions {
        if let Action::Send { link, commands } = action {
            found.push((*link, commands.as_slice()));
        }
    }
    found
}

pub(super) fn heard(actions: &[Action]) -> Vec<LinkId> {
    let hear = |action: &Action| if let Action::Hear(link) = action { Some(*link) } else { None };
    actions.iter().filter_map(hear).collect()
}

pub(super) fn closed(actions: &[Action]) -> Vec<LinkId> {
    let close = |action: &Action| if let Action::Close(link) = action { Some(*link) } else { None };
    actions.iter().filter_map(close).collect()
}

pub(super) fn samples(actions: &[Action]) -> Vec<&Sample> {
    let mut found = Vec::new();
    for action in actions {
        if let Action::Evidence(Input::Sample(sample)) = action {
            found.push(sample);
        }
    }
    found
}

pub(super) fn news(actions: &[Action]) -> Vec<&NodeNews> {
    let mut found = Vec::new();
    for action in actions {
        if let Action::Evidence(Input::Node(news)) = action {
            found.push(news);
        }
    }
    found
}

pub(super) fn bytes(text: &str) -> Reply {
    Reply::Bytes(text.into())
}

pub(super) fn list(texts: &[&str]) -> Reply {
    Reply::Array(texts.iter().map(|text| bytes(text)).collect())
}

pub(super) fn error(code: &str, detail: &str) -> Reply {
    Reply::Error(ServerError { code: code.into(), detail: detail.into() })
}

/// What a server of this role answers: it knows nothing of Redis 6 and `INFO`, no key exists, and
/// it serves all slots of its cluster.
pub(super) fn answers(commands: &[Command], role: &str) -> Vec<Reply> {
    let answer = |command: &Command| {
        let words: Vec<&[u8]> = command.args.iter().map(Vec::as_slice).collect();
        match words.as_slice() {
            [b"TIME"] => list(&["1800000000", "0"]),
            [b"ROLE"] if role == "slave" => Reply::Array(vec![
                bytes("slave"),
                bytes("two"),
                Reply::Int(6379),
                bytes("connected"),
                Reply::Int(0),
            ]),
            [b"ROLE"] => Reply::Array(vec![bytes(role), Reply::Int(0), Reply::Array(Vec::new())]),
            [b"ECHO", said] => Reply::Bytes(said.to_vec()),
            [b"GETRANGE", ..] => bytes(""),
            [b"PEXPIRETIME", ..] => Reply::Int(-2),
            [b"INFO", ..] => error("NOPERM", "this user has no permissions"),
            [b"SUBSCRIBE", ..] => list(&["subscribe"]),
            [b"PING"] => bytes("PONG"),
            _ => bytes("OK"),
        }
    };
    commands.iter().map(answer).collect()
}

/// The server at the other end of the dial answers everything that was sent with it.
pub(super) fn dialled(dial: &Dial, role: &str, sent: u64, received: u64) -> Event {
    let replies = answers(&dial.commands, role);
    greeted(replies, None, sent, received)
}

pub(super) fn greeted(
    replies: Vec<Reply>,
    ended: Option<Failure>,
    sent: u64,
    received: u64,
) -> Event {
    let (sent, received) = (now(sent), Mono::at(received));
    Event::Dialled(Box::new(Dialled { sent, received, auth: None, replies, ended }))
}

pub(super) fn replied(replies: Vec<Reply>, received: u64) -> Event {
    Event::Replied { received: Mono::at(received), replies }
}

pub(super) fn failed(why: Unknown) -> Event {
    Event::Failed(Failure::new(why, "gone"))
}
