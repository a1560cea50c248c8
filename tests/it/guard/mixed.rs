//! The real Redisson and two guards contend for one lock while all of them are released, killed and
//! stopped. Half a minute of it, or ten minutes if `LOCKWATCH_LONG` is set, as
//! `make test ARGS=--long` does.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::*;
use crate::support::redisson::Redisson;

const TEST: &str = "guard::mixed: redisson and guards";
const LEASE: Duration = Duration::from_secs(2);
/// From a crash to the next one who works: a lease and a second. On a quiet machine none of 453 was
/// late, and the latest took 2.03 s. On one that compiled, one in 400 took up to 1.6 s from the start
/// of the keeper to the first line of the script: so one in so many may be late.
const TAKE_OVER: Duration = Duration::from_secs(3);
const LATE_ONE_IN: usize = 20;
/// The death of a keeper is a failure of the script: so long a guard waits before the next start.
const BACKOFF: Duration = Duration::from_millis(1_500);
const SHORT: Duration = Duration::from_secs(24);
const LONG: Duration = Duration::from_secs(600);
/// Every so many holds of Redisson ends with the death of its process.
const JVM_DIES: usize = 3;
/// How often each side has the lock at least.
const WINS: usize = 3;

/// Records when it starts, and each few milliseconds that it runs, from a session of its own.
const SCRIPT: &str = r#"#!/bin/sh
say() { echo "$GUARD_TEST $LOCKWATCH_TOKEN $1 $(date +%s%N)" >> "$LOG"; }
trap 'exit 0' TERM
say start
setsid sh -c 'while :; do echo "$GUARD_TEST $LOCKWATCH_TOKEN alive $(date +%s%N)" >> "$LOG"
    sleep 0.01; done' &
while :; do sleep 0.02; done
"#;

/// What the one who works suffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Release,
    KillGuard,
    KillKeeper,
    StopGuard,
    JvmReleases,
    JvmDies,
}

impl Fault {
    /// When somebody works again, at most.
    fn limit(self) -> Duration {
        TAKE_OVER + if self == Fault::KillKeeper { BACKOFF } else { Duration::ZERO }
    }
}

const OF_GUARDS: [Fault; 4] =
    [Fault::Release, Fault::KillGuard, Fault::KillKeeper, Fault::StopGuard];

/// Nanoseconds of the system's clock, as `date` prints them.
type Nanos = u64;

fn now() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().try_into().unwrap()
}

/// What has happened.
#[derive(Debug, Default)]
struct Record {
    /// When Redisson worked.
    jvm: Vec<(Nanos, Nanos)>,
    faults: Vec<(Fault, Nanos)>,
}

impl Record {
    /// Redisson worked often enough, and after its process died somebody worked again: Redisson
    /// itself did if it has released the lock since.
    fn is_complete(&self) -> bool {
        let died = self.faults.iter().position(|(fault, _)| *fault == Fault::JvmDies);
        let released = |at| self.faults[at..].iter().any(|(fault, _)| *fault == Fault::JvmReleases);
        self.jvm.len() >= WINS && died.is_some_and(released)
    }
}

/// A line that a script wrote.
#[derive(Clone, Debug)]
struct Line {
    mark: String,
    token: u64,
    is_start: bool,
    at: Nanos,
}

/// Reads what scripts write, and remembers it.
struct Lines {
    file: fs::File,
    rest: String,
    all: Vec<Line>,
}

impl Lines {
    fn of(scene: &Scene) -> Lines {
        let file = fs::File::open(scene.path("log")).unwrap();
        Lines { file, rest: String::new(), all: Vec::new() }
    }

    /// Reads on. Returns what was known before.
    fn read(&mut self) -> usize {
        let known = self.all.len();
        self.file.read_to_string(&mut self.rest).unwrap();
        let end = self.rest.rfind('\n').map_or(0, |at| at + 1);
        for line in self.rest.drain(..end).collect::<String>().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [mark, token, kind, at] = words[..] else { panic!("a script wrote {line}") };
            let (mark, is_start) = (mark.to_owned(), kind == "start");
            let (token, at) = (token.parse().unwrap(), at.parse().unwrap());
            self.all.push(Line { mark, token, is_start, at });
        }
        known
    }

    /// Waits until a script shows that it runs after this instant. Returns the mark of its guard.
    fn runs_after(&mut self, at: Nanos, what: &str) -> String {
        until(what, || {
            let known = self.read();
            let new = self.all[known..].iter().rev().find(|line| line.at > at);
            new.map(|line| line.mark.clone())
        })
    }

    fn starts(&self) -> impl Iterator<Item = &Line> {
        self.all.iter().filter(|line| line.is_start)
    }

    /// When scripts ran, by the token of their hold.
    fn runs(&self) -> BTreeMap<u64, (Nanos, Nanos)> {
        let mut runs = BTreeMap::new();
        for line in &self.all {
            let run = runs.entry(line.token).or_insert((line.at, line.at));
            *run = (run.0.min(line.at), run.1.max(line.at));
        }
        runs
    }
}

/// Up to `longest`.
fn pause(longest: Duration) {
    thread::sleep(longest.mul_f64(fastrand::f64()));
}

#[test]
fn redisson_and_guards_never_work_together_whoever_crashes() {
    let (Some(redisson), Some(server)) = (Redisson::start(TEST), RedisServer::start(TEST)) else {
        return;
    };
    let stretch = if std::env::var_os("LOCKWATCH_LONG").is_some() { LONG } else { SHORT };
    let scene = Scene::new();
    fs::write(scene.path("script"), SCRIPT).unwrap();
    let (record, done) = (Mutex::new(Record::default()), AtomicBool::new(false));
    let lines = thread::scope(|scope| {
        let jvm = scope.spawn(|| contend(redisson, &server, &record, &done));
        let lines = scope.spawn(|| {
            let lines = hurt(&scene, &server, &record, stretch, &done);
            done.store(true, Ordering::Relaxed);
            lines
        });
        let lines = lines.join();
        // Also after a failure, so that the other one ends.
        done.store(true, Ordering::Relaxed);
        jvm.join().unwrap();
        lines.unwrap()
    });
    let record = record.into_inner().unwrap();
    assert_never_together(&lines, &record);
    let (of_jvm, of_guards) = (record.jvm.len(), lines.runs().len());
    assert!(of_guards >= WINS, "guards worked {of_guards} times only");
    println!("{stretch:?}: Redisson worked {of_jvm} times, guards {of_guards} times");
    assert_taken_over(&lines, &record);
}

/// Redisson takes the lock again and again. Now and then its process dies while it has it.
fn contend(first: Redisson, server: &RedisServer, record: &Mutex<Record>, done: &AtomicBool) {
    let connect = |redisson: &mut Redisson| {
        redisson.connect("c", &format!("port={} watchdog={}", server.port, LEASE.as_millis()));
        // So that it has loaded its classes before others wait for it.
        redisson.run("lock c t another");
        redisson.run("unlock c t another");
    };
    let (mut redisson, mut holds) = (first, 0);
    connect(&mut redisson);
    while !done.load(Ordering::Relaxed) {
        let locked = redisson.run(&format!("lock c t {LOCK}"));
        // As Redisson's own process saw it; the answer came later.
        let began = locked["at_ms"].as_u64().unwrap() * 1_000_000;
        pause(Duration::from_millis(400));
        holds += 1;
        let fault = if holds % JVM_DIES == 0 { Fault::JvmDies } else { Fault::JvmReleases };
        let at = now();
        let ended = match fault {
            Fault::JvmDies => {
                redisson.kill();
                now()
            }
            _ => {
                redisson.send(&format!("unlock c t {LOCK}"));
                at
            }
        };
        {
            let mut record = record.lock().unwrap();
            record.jvm.push((began, ended));
            record.faults.push((fault, at));
        }
        if fault == Fault::JvmDies {
            redisson = Redisson::start(TEST).unwrap();
            connect(&mut redisson);
        } else {
            redisson.answer(PATIENCE).unwrap();
        }
        pause(Duration::from_millis(600));
    }
}

/// Lets two guards contend, and hurts the one that works. Returns what the scripts wrote.
fn hurt(
    scene: &Scene,
    server: &RedisServer,
    record: &Mutex<Record>,
    stretch: Duration,
    done: &AtomicBool,
) -> Lines {
    let (began, mut lines) = (Instant::now(), Lines::of(scene));
    let mut guards = vec![scene.guard(server, &[]), scene.guard(server, &[])];
    let mut due = Vec::new();
    let is_enough = || began.elapsed() >= stretch && record.lock().unwrap().is_complete();
    while !is_enough() && !done.load(Ordering::Relaxed) {
        assert!(
            began.elapsed() < stretch + PATIENCE * 2,
            "Redisson does not get the lock often enough"
        );
        let mark = lines.runs_after(now(), "a script runs");
        pause(Duration::from_millis(300));
        let at = guards.iter().position(|guard| guard.mark == mark).unwrap();
        let mut guard = guards.swap_remove(at);
        if due.is_empty() {
            due = OF_GUARDS.to_vec();
            fastrand::shuffle(&mut due);
        }
        let fault = due.pop().unwrap();
        let hit = |fault, at| record.lock().unwrap().faults.push((fault, at));
        let at = now();
        match fault {
            Fault::KillGuard => guard.signal("KILL"),
            Fault::StopGuard => {
                guard.signal("STOP");
                // The fault itself: a pause that is longer than the lease.
                thread::sleep(LEASE + Duration::from_millis(500));
                guard.signal("CONT");
                hit(fault, at);
                guards.push(guard);
                continue;
            }
            Fault::KillKeeper => {
                signal("KILL", &[guard.keeper()]);
                lines.runs_after(now() + 100_000_000, "a script runs after its keeper died");
                // Not once more: it would wait longer after each failure.
                guard.signal("TERM");
            }
            _ => guard.signal("TERM"),
        }
        hit(fault, at);
        guards.push(scene.guard(server, &[]));
        guard.ended();
    }
    for guard in &mut guards {
        guard.signal("TERM");
        guard.ended();
    }
    lines.read();
    lines
}

fn assert_never_together(lines: &Lines, record: &Record) {
    let guards = lines.runs().into_iter().map(|(token, run)| (run, format!("token {token}")));
    let jvm = record.jvm.iter().map(|run| (*run, "Redisson".to_owned()));
    let mut runs: Vec<_> = guards.chain(jvm).collect();
    runs.sort_unstable();
    for pair in runs.windows(2) {
        let [((_, ended), one), ((began, _), other)] = pair else { continue };
        assert!(ended < began, "{one} and {other} worked together: {pair:?}");
    }
}

/// After each fault somebody works again in time. Prints how long it took.
fn assert_taken_over(lines: &Lines, record: &Record) {
    let of_guards = lines.starts().map(|line| line.at);
    let of_jvm = record.jvm.iter().map(|(began, _)| *began);
    let mut starts: Vec<Nanos> = of_guards.chain(of_jvm).collect();
    starts.sort_unstable();
    let mut took: BTreeMap<Fault, Vec<Duration>> = BTreeMap::new();
    for (fault, at) in &record.faults {
        // Nobody may be left after the last ones.
        let Some(next) = starts.iter().find(|start| *start > at) else { continue };
        took.entry(*fault).or_default().push(Duration::from_nanos(next - at));
    }
    let suffered: Vec<Fault> = took.keys().copied().collect();
    assert_eq!(suffered, [&OF_GUARDS[..], &[Fault::JvmReleases, Fault::JvmDies]].concat());
    let all = took.values().map(Vec::len).sum::<usize>();
    let late = took.iter().flat_map(|(fault, took)| {
        took.iter().filter(|took| **took > fault.limit()).map(|took| (*fault, *took))
    });
    let late: Vec<_> = late.collect();
    assert!(late.len() <= all / LATE_ONE_IN + 1, "late {late:?} of {all}: {took:?}");
    println!("{} of {all} took longer than a lease and a second: {late:?}", late.len());
    for (fault, mut all) in took {
        all.sort_unstable();
        let (middle, longest) = (all[all.len() / 2], all[all.len() - 1]);
        println!(
            "{fault:?}: {} times, taken over after {middle:?}, at most {longest:?}",
            all.len()
        );
    }
}
