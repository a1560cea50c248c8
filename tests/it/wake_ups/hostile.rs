//! Servers that announce changes without end: they cost neither memory nor time, and other locks
//! are read as usual.

use std::fmt::Write as _;
use std::time::Duration;

use super::*;
use crate::support::exposition::Labels;
use crate::support::impostor::{Client, Gone, Impostor};

/// Observation time after each server has been given up once. The next attempts follow quickly, at
/// ever longer pauses, so that only a longer time shows what they cost.
const WHILE: Duration = Duration::from_secs(15);
/// Timeout on a machine under load.
const LONG: Duration = Duration::from_secs(90);
/// Maximum growth of resident memory, with all of these servers at once.
const GROWTH_BYTES: f64 = 16e6;
/// Maximum share of one CPU for the agent, unoptimized.
const CPU_SHARE: f64 = 0.5;

/// The password that the agent sends to the servers.
const PASSWORD: &str = "right-PASSWORD-of-nobody";

/// A server: its name, and what it sends on the tracking connection once tracking is requested.
type Plot = (&'static str, fn(&mut Client) -> Result<(), Gone>);

const PLOTS: [Plot; 10] = [
    ("changes", |client| {
        listened(client)?.flood(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$12\r\nchanges:lock\r\n")
    }),
    ("foreign_changes", |client| {
        listened(client)?.flood(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$2\r\nxx\r\n")
    }),
    ("everything", |client| listened(client)?.flood(b">2\r\n$10\r\ninvalidate\r\n_\r\n")),
    ("signs_of_life", |client| listened(client)?.flood(b"+PONG\r\n")),
    ("replies", |client| listened(client)?.flood(b":1\r\n")),
    ("a_string_without_end", |client| {
        let client = listened(client)?;
        client.say(b"$99999999999999999\r\n")?;
        client.flood(b"x")
    }),
    ("a_list_without_end", |client| {
        let client = listened(client)?;
        client.say(b">2\r\n$10\r\ninvalidate\r\n*999999999999\r\n")?;
        client.flood(b"$1\r\nx\r\n")
    }),
    ("before_it_answers", |client| {
        asked_to_track(client)?.flood(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$2\r\nxx\r\n")
    }),
    ("repeats_the_password", |client| {
        let client = asked_to_track(client)?;
        client
            .instead(format!("-ERR unknown command, beginning with: {PASSWORD}\r\n").as_bytes())?;
        client.answer_but(|_| None)
    }),
    ("no_resp3", |client| listened(client)?.flood(b"HTTP/1.1 200 OK\r\n")),
];

/// Answers all other requests honestly; returns the client that requests tracking, after the reply
/// to it.
fn listened(client: &mut Client) -> Result<&mut Client, Gone> {
    asked_to_track(client)?.say(b"+OK\r\n+PONG\r\n")?;
    Ok(client)
}

/// The same, before the reply.
fn asked_to_track(client: &mut Client) -> Result<&mut Client, Gone> {
    loop {
        let words = client.peek()?;
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match words.as_slice() {
            [b"CLIENT", b"TRACKING", ..] => return Ok(client),
            [b"HELLO", ..] => client.instead(b"%1\r\n$5\r\nproto\r\n:3\r\n")?,
            [b"SUBSCRIBE", _] => client.instead(b">3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n")?,
            _ => drop(client.answer()?),
        }
    }
}

fn configuration(good: u16, impostors: &[Impostor]) -> String {
    let mut redises = format!("  good: {{url: \"redis://127.0.0.1:{good}\", interval: {NEVER}}}\n");
    let mut tasks = format!(
        "  - {{name: fine, redis: good, lock: {{key: \"lock:one\", library: string}}, {BLIND}}}\n"
    );
    for ((name, _), impostor) in PLOTS.iter().zip(impostors) {
        let (port, login) = (impostor.port, "password_env: LW_TELLING_PASSWORD");
        writeln!(
            redises,
            "  {name}: {{url: \"redis://127.0.0.1:{port}\", interval: 300ms, timeout: 1s, {login}}}"
        )
        .unwrap();
        writeln!(tasks, "  - {{name: {name}, redis: {name}, lock: {{key: \"{name}:lock\"}}}}")
            .unwrap();
    }
    format!("redis:\n{redises}tasks:\n{tasks}")
}

#[test]
fn whoever_tells_without_end_is_not_listened_to() {
    let test = "wake_ups::hostile::whoever_tells_without_end_is_not_listened_to";
    let Some(good) = RedisServer::start(test) else { return };
    let impostors: Vec<Impostor> = PLOTS.iter().map(|(_, plot)| Impostor::start(*plot)).collect();
    let agent =
        Agent::start_logging(&configuration(good.port, &impostors), "trace", "logfmt", |command| {
            command.env("LW_TELLING_PASSWORD", PASSWORD);
        });
    let gave_up = |page: &Exposition, name: &str| {
        page.get("lockwatch_store_wake_ups", &[("store", name)]) == Some(0.0)
    };
    let first = agent.until(LONG, "each is given up, and polled", |page| {
        PLOTS.iter().all(|(name, _)| gave_up(page, name) && page.of(name, "lock_held") == Some(1.0))
            && page.of("fine", "lock_held") == Some(0.0)
    });
    // What the agent costs is measured while nobody reads from it.
    std::thread::sleep(WHILE);
    good.cli(&["set", "lock:one", "token", "px", "600000"]);
    let last = until_held(&agent, "fine", true);
    let seconds = WHILE.as_secs_f64();
    for (name, _) in PLOTS {
        // A sweep may be late on a busy machine, and fail for nothing else.
        let errors = |page: &Exposition| -> f64 {
            let all = page.series("lockwatch_store_errors_total", &[("store", name)]);
            let harmless = ["late", "clock_step"];
            let fails = |labels: &Labels| !harmless.contains(&labels["reason"].as_str());
            all.iter().filter(|(labels, _)| fails(labels)).map(|(_, count)| count).sum()
        };
        assert_eq!(errors(&last), errors(&first), "{name} was not polled");
        let blind =
            |page: &Exposition| page.of(name, "task_blind_time_seconds_total").unwrap_or_default();
        let unread = blind(&last) - blind(&first);
        assert!(unread <= seconds / 5.0, "{name} was not polled for {unread} s");
    }
    let grown = |name: &str| last.get(name, &[]).unwrap() - first.get(name, &[]).unwrap();
    let (bytes, cpu) =
        (grown("process_resident_memory_bytes"), grown("process_cpu_seconds_total") / seconds);
    eprintln!("{:.1} MB more, {:.0} % of a core", bytes / 1e6, cpu * 100.0);
    assert!(bytes <= GROWTH_BYTES, "resident memory grew by {bytes} bytes");
    assert!(cpu <= CPU_SHARE, "{cpu} of a processor");
    assert!(!agent.log().contains(PASSWORD), "the password is in the log");
}
