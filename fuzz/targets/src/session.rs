//! A whole session with a hostile server: the real greeting and batches over an in-memory stream.
//!
//! The first two bytes select the configuration; the rest is the server's script.

use std::sync::Arc;
use std::time::Duration;

use lockwatch::clock::Clock;
use lockwatch::config::{Endpoint, HostPort, Login, Secret};
use lockwatch::io::{Connection, Failure, talk_over};
use lockwatch_judge::input::{Role, Standing};
use lockwatch_judge::reading::LockReading;
use lockwatch_judge::spec::TaskIndex;
use lockwatch_watch::redis::accept::{Caps, RoleCheck, Timing};
use lockwatch_watch::redis::batch::{Decoded, Question};
use lockwatch_watch::redis::driver::{self, Dial, LinkId, Manner};
use lockwatch_watch::redis::handshake::Handshake;
use lockwatch_watch::redis::read::{Scope, TaskRead};
use lockwatch_watch::redis::reply::{Command, Reply};
use tokio::io::duplex;
use tokio::time::Instant;

use crate::claims::{harmless_line, keeps_secret};
use crate::script::{Said, Server};
use crate::wire;
use crate::worlds::{PASSWORD, bare_task, caps, task};

/// Maximum wait for replies.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Number of sweeps in one session.
const SWEEPS: usize = 3;
/// Maximum number of rounds in which a task is read.
const ROUNDS: u8 = 4;
/// Capacity of the stream in bytes: less than a batch, so that both sides sometimes wait for each
/// other.
const STREAM_BYTES: usize = 2_048;

pub(crate) fn run(data: &[u8]) {
    let [options, choice, script @ ..] = data else { return };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(Session::new(*options, *choice).play(script.to_vec()));
}

/// The configuration of one session.
struct Session {
    endpoint: Endpoint,
    password: Option<Secret>,
    standing: Standing,
    /// Whether the first sweep is sent with the greeting.
    opens: bool,
    choice: u8,
    /// Number of batches so far, for the nonces.
    batches: u32,
}

impl Session {
    fn new(options: u8, choice: u8) -> Session {
        let username = (options & 2 != 0).then(|| "watcher".to_owned());
        Session {
            endpoint: Endpoint {
                at: HostPort { host: "redis.example".to_owned(), port: 6_379 },
                db: u32::from(options >> 6),
                login: Login { username, ..Login::default() },
                tls: None,
                timeout: TIMEOUT,
                assume_master: options & 4 != 0,
                readonly: options & 8 != 0,
                is_sentinel: false,
            },
            password: (options & 1 != 0).then(|| Secret::new(PASSWORD)),
            standing: if options & 16 == 0 { Standing::Decides } else { Standing::Witness },
            opens: options & 32 != 0,
            choice,
            batches: 0,
        }
    }

    async fn play(mut self, script: Vec<u8>) {
        let (near, far) = duplex(STREAM_BYTES);
        let said = Said::default();
        let server = tokio::spawn(Server::new(far, Arc::clone(&said)).play(script, PASSWORD));
        let began = Instant::now();
        // The opening is made for the capabilities of a previous connection.
        let old_caps = caps(self.choice);
        let first = self.opens.then(|| self.question(old_caps, self.reads(old_caps)));
        let Endpoint { db, assume_master, readonly, .. } = self.endpoint;
        let handshake = Handshake::new(db, assume_master, readonly);
        let opening = first.iter().flat_map(|(_, _, commands)| commands.iter().cloned());
        let dial = Dial {
            link: LinkId(1),
            to: self.endpoint.at.clone(),
            login: driver::Login::Store,
            manner: Manner::Talk,
            commands: handshake.commands().into_iter().chain(opening).collect(),
            alone: handshake.alone(),
            attempt: 0,
            timeout_ms: TIMEOUT.as_millis() as u64,
        };
        let (login, password) = (&self.endpoint.login, self.password.as_ref());
        let (mut dialled, wire) = talk_over(near, &dial, login, password, Clock::start()).await;
        assert!(began.elapsed() <= TIMEOUT, "the greeting took {:?}", began.elapsed());
        assert_eq!(wire.is_some(), dialled.ended.is_none(), "a connection, or a reason");
        self.check_errors(dialled.auth.iter().chain(&dialled.replies));
        let took = Duration::from_millis(dialled.received.since_ms(dialled.sent.mono));
        let opened = dialled.replies.split_off(handshake.len().min(dialled.replies.len()));
        let auth = dialled.auth.as_ref();
        match (handshake.judge(auth, &dialled.replies, dialled.ended), wire) {
            (Ok(greeting), Some(wire)) => {
                let connection = Connection::new(wire, greeting, TIMEOUT);
                if let Some((question, nonce, commands)) = first {
                    assert_eq!(opened.len(), commands.len(), "the number of replies is wrong");
                    let batch = Batch {
                        caps: old_caps,
                        standing: self.standing,
                        nonce: &nonce,
                        commands: &commands,
                    };
                    batch.judge_opened(question, (&opened, took), &said);
                }
                self.sweep(&connection, &said).await;
            }
            (Ok(_), None) => panic!("a greeting without a connection"),
            (Err(failure), _) => self.check_failure(&failure),
        }
        server.abort();
    }

    /// Reads the tasks repeatedly until an error.
    async fn sweep(&mut self, connection: &Connection, said: &Said) {
        let caps = connection.caps();
        if let Some(version) = connection.version() {
            harmless_line(version);
        }
        for _ in 0..SWEEPS {
            let mut reads = self.reads(caps);
            let mut round = 1;
            while !reads.is_empty() {
                assert!(round <= ROUNDS, "a task is read in more than {ROUNDS} rounds");
                let (question, nonce, commands) = self.question(caps, reads);
                said.lock().unwrap().clear();
                let began = Instant::now();
                let replies = connection.exec(&commands).await;
                let took = began.elapsed();
                assert!(took <= TIMEOUT, "a batch took {took:?}");
                let replies = match replies {
                    Ok(replies) => replies,
                    Err(failure) => return self.check_failure(&failure),
                };
                let batch =
                    Batch { caps, standing: self.standing, nonce: &nonce, commands: &commands };
                match batch.decode(question, &replies, took) {
                    Ok(answer) => {
                        batch.check_said(&said.lock().unwrap(), &answer, round);
                        reads = answer.again;
                    }
                    Err(_) => return,
                }
                round += 1;
            }
        }
    }

    fn reads(&self, caps: Caps) -> Vec<(TaskIndex, TaskRead)> {
        let read = |spec, scope| TaskRead::new(spec, caps, true, scope);
        let scope = if self.standing == Standing::Decides { Scope::ALL } else { Scope::GUARD };
        let library = if self.choice & 128 == 0 { "redisson" } else { "string" };
        let first = (TaskIndex(0), read(bare_task(library), Scope::GUARD));
        vec![first, (TaskIndex(1), read(Arc::new(task(self.choice)), scope))]
    }

    fn question(
        &mut self,
        caps: Caps,
        reads: Vec<(TaskIndex, TaskRead)>,
    ) -> (Question, Vec<u8>, Vec<Command>) {
        self.batches += 1;
        let nonce = format!("nonce-{:02}", self.batches).into_bytes();
        let (question, commands) = Question::new(reads, caps, self.standing, nonce.clone());
        (question, nonce, commands)
    }

    /// The replies leave the driver, so no error in them may repeat the password.
    fn check_errors<'a>(&self, replies: impl Iterator<Item = &'a Reply>) {
        for reply in replies {
            if let (Reply::Error(error), true) = (reply, self.password.is_some()) {
                let told = [error.code.as_slice(), b" ", &error.detail].concat();
                keeps_secret(PASSWORD, &String::from_utf8_lossy(&told));
            }
        }
    }

    fn check_failure(&self, failure: &Failure) {
        let told = failure.to_string();
        harmless_line(&told);
        if self.password.is_some() {
            keeps_secret(PASSWORD, &told);
        }
    }
}

/// A batch that was sent, for the oracle.
struct Batch<'a> {
    caps: Caps,
    standing: Standing,
    nonce: &'a [u8],
    commands: &'a [Command],
}

impl Batch<'_> {
    fn decode(
        &self,
        question: Question,
        replies: &[Reply],
        took: Duration,
    ) -> Result<Decoded, lockwatch_judge::reading::Unknown> {
        let clock = Clock::start();
        let sent = clock.now();
        let timing = Timing {
            sent,
            received: sent.plus_ms(took.as_millis() as u64),
            sent_wall: clock.wall(),
            timeout_ms: TIMEOUT.as_millis() as u64,
        };
        question.decode(timing, replies)
    }

    /// Judges the replies that came with the greeting like any others.
    fn judge_opened(&self, question: Question, (replies, took): (&[Reply], Duration), said: &Said) {
        let _not_believed = self.decode(question, replies, took).map(|_| {
            let said = said.lock().unwrap();
            assert!(
                said.windows(self.nonce.len()).any(|window| window == self.nonce),
                "believed without its nonce"
            );
        });
    }

    /// Checks an accepted answer against the bytes that were sent, parsed strictly.
    fn check_said(&self, said: &[u8], answer: &Decoded, round: u8) {
        // The product sees error lines as ASCII; their text is not compared here.
        let mut rest = said;
        let mut replies = Vec::new();
        while replies.len() < self.commands.len() {
            let (reply, after) =
                wire::strict(rest).expect("believed, though the replies are not whole");
            replies.push(reply);
            rest = after;
        }
        assert_eq!(
            replies.last().and_then(Reply::as_bytes),
            Some(self.nonce),
            "believed without its nonce"
        );
        if self.caps.role == RoleCheck::Role {
            let role = replies[replies.len() - 2]
                .as_array()
                .and_then(|items| items.first())
                .and_then(Reply::as_bytes);
            let master = role == Some(b"master");
            assert_eq!(answer.attestation.role == Role::Master, master, "the role is another one");
            assert!(master || self.standing == Standing::Witness, "a replica decides");
        }
        let first = answer.done.iter().find(|(task, _)| *task == TaskIndex(0));
        if let (1, Some((_, reading))) = (round, first) {
            let at = if self.caps.pexpiretime { 2 } else { 3 };
            self.check_lock(reading.lock().unwrap(), &self.commands[at], &replies[at]);
        }
    }

    /// Checks the first task's lock against the reply that lists its holders.
    fn check_lock(&self, lock: &LockReading, command: &Command, reply: &Reply) {
        let scanned = command.args.first().is_some_and(|name| name == b"HSCAN");
        let items = match reply.as_array() {
            Some([cursor, items]) if scanned && cursor.as_bytes() == Some(b"0") => items.as_array(),
            _ => None,
        };
        match lock {
            LockReading::Free if scanned => {
                assert_eq!(items, Some(&[][..]), "free without an empty hash")
            }
            LockReading::Free => {
                assert!(
                    matches!(reply, Reply::Nil) || reply.as_bytes() == Some(b""),
                    "free by {reply:?}"
                );
            }
            LockReading::Held(held) => {
                for holder in &held.holders {
                    let told = |reply: &Reply| {
                        reply.as_bytes().is_some_and(|bytes| bytes.starts_with(&holder.client))
                    };
                    let borne_out = if scanned {
                        items.unwrap_or_default().iter().any(told)
                    } else {
                        told(reply)
                    };
                    assert!(borne_out, "a holder that nobody named: {holder:?} by {reply:?}");
                }
            }
            LockReading::Unknown(_) => {}
        }
    }
}
