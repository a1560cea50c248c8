//! Malicious servers: each blinds only its own task, with the right reason. It is not dialled too
//! often, and costs neither memory nor time.

use crate::support::PATIENCE;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lockwatch_watch::redis::reply::Reply;

use super::locks::{HOLDER, connect, switch, take};
use super::redis_block;
use crate::support::agent::Agent;
use crate::support::impostor::{Client, Gone, Impostor};
use crate::support::redis::RedisServer;
use crate::support::view::View;
use crate::support::{wait_until, wire};

/// Observation time after each server has acted once.
const WHILE: Duration = Duration::from_secs(4);
/// Timeout for each server to act once, on a machine under load.
const LONG: Duration = Duration::from_secs(90);
/// Maximum dials per second of one server, as the watcher's backoff allows.
const DIALS_PER_SECOND: f64 = 2.0;
/// Maximum growth of resident memory, with all of these servers at once.
const GROWTH_BYTES: f64 = 64e6;
/// Maximum share of one CPU for the agent, unoptimized, with all of these servers at once.
const CPU_SHARE: f64 = 0.8;

/// The password that the agent sends to the servers.
const PASSWORD: &str = "right-PASSWORD-of-nobody";
/// Characters that no log line may have.
const UNRULY: [char; 4] = ['\u{1b}', '\r', '\u{202e}', '\u{7}'];

/// A server: its name, the acceptable reasons, and its behaviour towards each client.
type Plot = (&'static str, &'static [&'static str], fn(&mut Client) -> Result<(), Gone>);

const PLOTS: [Plot; 27] = [
    ("endless_string", &["too_large"], |client| {
        client.greet()?;
        client.next()?;
        client.say(b"$999999999999\r\n")?;
        client.flood(b"x")
    }),
    ("endless_string_at_once", &["too_large"], |client| {
        client.say(b"$999999999999\r\n").and_then(|()| client.hang())
    }),
    ("deep_nesting", &["too_large"], |client| {
        client.greet()?;
        client.next()?;
        client.flood(b"*1\r\n")
    }),
    ("huge_list", &["too_large"], |client| {
        client.greet()?;
        client.next()?;
        client.say(b"*2147483647\r\n")?;
        client.flood(b":1\r\n")
    }),
    ("many_lists", &["too_large"], |client| {
        client.greet()?;
        client.next()?;
        client.flood(b"*60000\r\n$4\r\nabcd\r\n*0\r\n")
    }),
    ("endless_line", &["too_large"], |client| {
        client.greet()?;
        client.next()?;
        client.say(b"+")?;
        client.flood(b"x")
    }),
    ("error_of_a_megabyte", &["too_large"], |client| {
        client.greet()?;
        client.next()?;
        client.say(&[b"-ERR ", vec![b'x'; 1 << 20].as_slice(), b"\r\n"].concat())?;
        client.hang()
    }),
    ("slow_drip", &["timeout"], |client| {
        client.greet()?;
        client.next()?;
        client.drip(b"*2\r\n$10\r\n1800000000\r\n$6\r\n345678\r\n", Duration::from_secs(1))
    }),
    ("slow_drip_at_once", &["timeout"], |client| {
        client.drip(b"+OK\r\n+OK\r\n", Duration::from_secs(1))
    }),
    ("a_line_that_never_ends", &["timeout"], |client| {
        client.greet()?;
        client.next()?;
        client.say(b":12345")?;
        client.hang()
    }),
    ("never_answers", &["timeout"], Client::hang),
    ("fewer_than_asked", &["timeout"], |client| {
        client.greet()?;
        client.next()?;
        client.answer_but(|_| None)
    }),
    ("pushes", &["protocol"], |client| {
        client.greet()?;
        client.say(b">2\r\n$10\r\ninvalidate\r\n*0\r\n")?;
        client.answer_but(|_| None)
    }),
    ("a_push_between", &["protocol"], |client| {
        client.greet()?;
        client.answer_some(3)?;
        client.say(b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n")?;
        client.answer_but(|_| None)
    }),
    ("more_than_asked", &["protocol"], |client| {
        client.greet()?;
        client.answer_some(3)?;
        client.say(b":1\r\n")?;
        client.answer_but(|_| None)
    }),
    ("before_the_question", &["protocol"], |client| {
        client.greet()?;
        client.say(b"*2\r\n$10\r\n1800000000\r\n$6\r\n345678\r\n:-2\r\n")?;
        client.answer_but(|_| None)
    }),
    ("nonce_of_another_batch", &["protocol"], |client| {
        client.greet()?;
        client.answer_but(|words| {
            words.first().is_some_and(|name| name == b"ECHO").then(|| b"$4\r\nlate\r\n".to_vec())
        })
    }),
    ("negative_length", &["protocol"], |client| {
        client.greet()?;
        client.say(b"$-7\r\n")?;
        client.hang()
    }),
    ("http", &["protocol"], |client| {
        client.say(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
        client.hang()
    }),
    ("tls", &["needs_tls"], |client| {
        client.say(b"\x15\x03\x03\x00\x02\x02\x46").and_then(|()| client.hang())
    }),
    ("moved", &["cluster"], |client| redirect(client, "MOVED")),
    ("ask", &["cluster"], |client| redirect(client, "ASK")),
    ("closes_within_a_batch", &["closed"], |client| {
        client.greet()?;
        client.answer_some(4)?;
        client.say(b"*2\r\n$1")
    }),
    ("closes_at_once", &["closed"], |_| Ok(())),
    ("tells_the_password", &["auth"], |client| {
        client.answer_but(|words| {
            let login = words.first().is_some_and(|name| name == b"AUTH");
            login.then(|| echo("ERR unknown command `AUTH`, with args beginning with:", words))
        })
    }),
    ("tells_the_password_later", &["server_error", "auth"], |client| {
        let login = client.answer()?;
        client.answer_but(move |words| {
            let spared = ["CLIENT", "ROLE", "INFO", "ECHO", "TIME"];
            let name = words
                .first()
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .unwrap_or_default();
            (!spared.contains(&name.as_str())).then(|| echo("ERR \x1b[31m\u{202e}what?", &login))
        })
    }),
    ("is_a_sentinel", &["sentinel"], |client| {
        client.answer_but(|words| {
            (words == [&b"ROLE"[..]]).then(|| b"*2\r\n$8\r\nsentinel\r\n*0\r\n".to_vec())
        })
    }),
];

/// An error line that repeats the request.
fn echo(error: &str, words: &[Vec<u8>]) -> Vec<u8> {
    [format!("-{error} ").as_bytes(), &words.concat(), b"\x07\r\n"].concat()
}

/// Connections to the target of the redirects. There must be none.
static TRAP: AtomicUsize = AtomicUsize::new(0);

/// Redirects every command on the lock: to a cloud metadata address, and to a trap.
fn redirect(client: &mut Client, word: &str) -> Result<(), Gone> {
    client.greet()?;
    let port = TRAP.load(Ordering::SeqCst);
    client.answer_but(move |words| {
        let about_the_lock = words.get(1).is_some_and(|key| key.ends_with(b"lock"));
        let to = if words.first().is_some_and(|name| name == b"HSCAN") {
            "127.0.0.1"
        } else {
            "169.254.169.254"
        };
        about_the_lock.then(|| format!("-{word} 3999 {to}:{port}\r\n").into_bytes())
    })
}

/// The configuration: a good server with a held and a free lock, and each of the others with one
/// lock.
fn config(good: u16, impostors: &[Impostor]) -> String {
    let mut redises = redis_block("good", good, "");
    let mut tasks = "  - {name: fine, redis: good, lock: {key: fine}, wanted: {hash: users}}\n  \
                     - {name: free, redis: good, lock: {key: free}}\n"
        .to_owned();
    for ((name, ..), impostor) in PLOTS.iter().zip(impostors) {
        redises.push_str(&redis_block(name, impostor.port, ", password_env: LW_HOSTILE_PASSWORD"));
        writeln!(
            tasks,
            "  - {{name: {name}, redis: {name}, lock: {{key: \"{name}:lock\"}}, wanted: always}}"
        )
        .unwrap();
    }
    format!("redis:\n{redises}tasks:\n{tasks}")
}

/// The tasks on the good server are reported exactly, whatever the others do.
fn fine(view: &View) -> bool {
    view.held("fine") == Some(1.0)
        && view.verdict("fine") == "running"
        && view.held("free") == Some(0.0)
        && view.of_task("fine", "blind_seconds") == 0.0
        && view.of_lock("fine", "acquisitions_total") == 0.0
}

#[test]
fn each_hostile_server_blinds_its_own_task_and_costs_little() {
    let test = "faults::hostile::each_hostile_server_blinds_its_own_task_and_costs_little";
    let Some(good) = RedisServer::start(test) else { return };
    let mut redis = connect(good.port);
    take(&mut redis, b"fine", HOLDER.as_bytes());
    switch(&mut redis, "users", &[("anna", "1")]);
    let trap = Impostor::start(Client::hang);
    TRAP.store(usize::from(trap.port), Ordering::SeqCst);
    let impostors: Vec<Impostor> =
        PLOTS.iter().map(|(_, _, plot)| Impostor::start(*plot)).collect();
    let agent =
        Agent::start_logging(&config(good.port, &impostors), "trace", "logfmt", |command| {
            command.env("LW_HOSTILE_PASSWORD", PASSWORD);
        });
    let mut last_left = Vec::new();
    // On a loaded machine a server may also be slow, so the right reason is searched among all that
    // occurred.
    let blind =
        |view: &View, (name, ..): &Plot| view.held(name).is_none() && view.reason(name).is_some();
    let had_its_way = |view: &View, (name, reasons, _): &Plot| {
        reasons.iter().any(|why| view.errors(name, why) > 0.0)
    };
    let first = agent.until_view(LONG, "each server has had its way", |view| {
        let left: Vec<&str> =
            PLOTS.iter().filter(|plot| !had_its_way(view, plot)).map(|plot| plot.0).collect();
        if last_left.len() != left.len() {
            eprintln!("not yet: {left:?}");
            last_left = left;
        }
        fine(view) && last_left.is_empty() && PLOTS.iter().all(|plot| blind(view, plot))
    });
    let (began, dials) =
        (Instant::now(), impostors.iter().map(Impostor::clients).collect::<Vec<_>>());
    agent.throughout(WHILE, "each blinds its own task, and no other", |view| {
        assert!(agent.get("/-/healthy").status == 200);
        fine(view) && PLOTS.iter().all(|plot| blind(view, plot))
    });
    let (last, seconds) = (agent.view(), began.elapsed().as_secs_f64());
    for ((impostor, before), (name, ..)) in impostors.iter().zip(dials).zip(&PLOTS) {
        let made = impostor.clients() - before;
        assert!(
            made as f64 <= DIALS_PER_SECOND * (seconds + 1.0),
            "{name} was dialled {made} times in {seconds} s"
        );
    }
    let grown = |name: &str| last.page.get(name, &[]).unwrap() - first.page.get(name, &[]).unwrap();
    let (bytes, cpu) =
        (grown("process_resident_memory_bytes"), grown("process_cpu_seconds_total") / seconds);
    eprintln!(
        "{} hostile servers for {seconds:.1} s: {:.1} MB more, {:.0} % of a core",
        PLOTS.len(),
        bytes / 1e6,
        cpu * 100.0
    );
    assert!(bytes <= GROWTH_BYTES, "resident memory grew by {bytes} bytes");
    assert!(cpu <= CPU_SHARE, "{cpu} of a processor");
    assert_eq!(trap.clients(), 0, "a redirection was followed");
    let log = agent.log();
    assert!(!log.contains(PASSWORD), "the password is in the log");
    assert!(!log.contains(UNRULY), "the log would move a cursor");
    let pages = ["/api/v1/tasks", "/api/v1/events?limit=1000", "/metrics", "/"]
        .map(|path| agent.text(path))
        .concat();
    assert!(!pages.contains(PASSWORD), "the password is on a page");
}

/// Number of times that Sentinels were asked for the master.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// A Sentinel that names an honest master, counts requests, and announces a new master
/// continuously.
fn shouting(client: &mut Client) -> Result<(), Gone> {
    loop {
        let words = client.next()?;
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match words.as_slice() {
            [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", _] => {
                ASKED.fetch_add(1, Ordering::SeqCst);
                client.say(b"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n")?;
            }
            [b"SENTINEL", ..] => client.say(b"*0\r\n")?,
            [b"SUBSCRIBE", _] => {
                client.say(b"*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n")?;
                return client.drip(&[b'x'; 1 << 20], Duration::from_millis(1));
            }
            [b"ROLE"] => client.say(b"*2\r\n$8\r\nsentinel\r\n*0\r\n")?,
            _ => client.say(b"+OK\r\n")?,
        }
    }
}

/// Each announcement of a new master triggers a request at once, but must not starve other work.
#[test]
fn a_sentinel_that_shouts_is_not_asked_without_end() {
    let sentinels = [shouting; 3].map(|plot| Impostor::start(plot).port);
    let nodes = sentinels.map(|port| format!("\"127.0.0.1:{port}\"")).join(", ");
    let config = format!(
        "redis:\n  main: {{sentinel: {{master: m, nodes: [{nodes}]}}, interval: 1s, timeout: \
         500ms}}\ntasks:\n  \
         - {{name: sick, lock: {{key: \"sick:lock\"}}}}\n"
    );
    let _agent = Agent::start(&config);
    wait_until(PATIENCE, "they are asked", || ASKED.load(Ordering::SeqCst) > 0);
    let (began, before) = (Instant::now(), ASKED.load(Ordering::SeqCst));
    std::thread::sleep(WHILE);
    let seconds = began.elapsed().as_secs_f64();
    let asked = ASKED.load(Ordering::SeqCst) - before;
    // Ten per interval at most.
    assert!(asked as f64 <= 30.0 * (seconds + 1.0), "asked {asked} times in {seconds} s");
    assert!(asked >= 3, "asked {asked} times in {seconds} s");
}

#[test]
fn the_honest_server_of_these_tests_is_believed() {
    let honest = Impostor::start(|client| client.answer_but(|_| None));
    let config = format!(
        "redis:\n{}tasks:\n  - {{name: held, lock: {{key: \"held:lock\"}}}}\n",
        redis_block("main", honest.port, "")
    );
    let agent = Agent::start(&config);
    agent.until_view(PATIENCE, "the lock is held", |view| view.held("held") == Some(1.0));
    assert_eq!(
        wire::strict(b"*2\r\n:1\r\n$-1\r\n"),
        Some((Reply::Array(vec![Reply::Int(1), Reply::Nil]), &b""[..]))
    );
}
