//! The real libraries of `tests/libraries/rows.yml`: each takes, renews and releases its lock, and
//! is killed, while the agent's answer is compared with what the program itself says.
//! `make libraries` runs all of them and writes `results.yml`, from which docs/libraries.md is made;
//! `make test` runs some of each language.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::program::{Program, Word, missing};
use super::{SHOWN, agent_with};
use crate::support::agent::Agent;
use crate::support::redis::RedisServer;
use crate::support::{PATIENCE, skip};

const ROWS: &str = include_str!("../../libraries/rows.yml");
const RESULTS: &str = "tests/libraries/results.yml";
/// How many holds `make libraries` compares, and how many `make test`.
const HOLDS: u32 = 50;
const HOLDS_QUICK: u32 = 3;
/// How many libraries run at the same time.
const AT_ONCE: usize = 4;
/// For how long a state that is shown is looked at.
const STATE: Duration = Duration::from_millis(400);
const PAUSE: Duration = Duration::from_millis(10);
/// A lease is this long, so that a lock that is still held after it stays.
const LEASE: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    library: String,
    #[serde(rename = "as")]
    what: Option<String>,
    language: String,
    program: String,
    lock: String,
    renews: Option<Renews>,
    #[serde(default)]
    dies: Dies,
    #[serde(default)]
    quick: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Renews {
    Asked,
    Itself,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Dies {
    #[default]
    Expires,
    Stays,
    Gone,
}

#[derive(Debug, Deserialize, Serialize)]
struct Results {
    date: String,
    rows: Vec<Outcome>,
}

/// What a run of one library showed.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Outcome {
    library: String,
    language: String,
    version: String,
    lock: String,
    holds: u32,
    samples: u32,
    /// Samples that showed what was not so, and holds that were not counted, or counted twice.
    wrong: u32,
    renewals: u32,
    killed: String,
}

/// A library under an agent.
struct Trial {
    agent: Agent,
    samples: u32,
    wrong: u32,
}

impl Trial {
    /// The state is shown soon, and from then on without a break.
    fn compare(&mut self, is_held: bool) {
        let expected = Some(f64::from(u8::from(is_held)));
        let began = Instant::now();
        let mut shown = None;
        while shown.is_none_or(|shown: Instant| shown.elapsed() < STATE) {
            std::thread::sleep(PAUSE);
            let is_right = self.agent.page().of("t", "lock_held") == expected;
            match (shown, is_right) {
                (None, true) => shown = Some(Instant::now()),
                (None, false) if began.elapsed() < SHOWN => continue,
                (None, false) => {
                    shown = Some(Instant::now());
                    self.wrong += 1;
                }
                (Some(_), is_right) => self.wrong += u32::from(!is_right),
            }
            self.samples += 1;
        }
    }

    fn count(&self, metric: &str) -> u32 {
        let value = self.agent.page().of("t", metric).unwrap_or_default();
        format!("{value:.0}").parse().unwrap()
    }

    /// Waits until more renewals than `before` are counted.
    fn expect_renewal(&mut self, before: u32) {
        let began = Instant::now();
        while began.elapsed() < LEASE {
            if self.count("lock_renewals_total") > before {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        self.wrong += 1;
    }

    /// Kills the holder, and compares what becomes of its lock.
    fn kill(&mut self, mut program: Program, dies: Dies) -> &'static str {
        program.run(Word::Take);
        self.compare(true);
        program.kill();
        match dies {
            Dies::Gone => {
                self.compare(false);
                "free at once"
            }
            Dies::Stays => {
                let began = Instant::now();
                while began.elapsed() < LEASE {
                    self.compare(true);
                }
                "held on"
            }
            Dies::Expires => {
                self.compare(true);
                let free = |page: &crate::support::exposition::Exposition| {
                    page.of("t", "lock_held") == Some(0.0)
                };
                self.agent.until(PATIENCE, "expired", free);
                self.compare(false);
                let expired = self.count("lock_expired_total");
                self.wrong += u32::from(expired != 1);
                "expired"
            }
        }
    }
}

fn rows() -> Vec<Row> {
    serde_yaml::from_str(ROWS).unwrap()
}

/// Runs one library; `None` if something for it is not installed.
fn tried(test: &str, row: &Row, holds: u32) -> Option<Outcome> {
    if let Some(missing) = missing(&row.program) {
        skip::say(test, &format!("{} (make libraries installs it)", missing.display()));
        return None;
    }
    let server = RedisServer::start(test)?;
    let several = ["locks.py", "locks.mjs", "locks.php", "go"].contains(&&*row.program);
    let program = (&*row.program, Some(&*row.library).filter(|_| several));
    let (mut program, version) = Program::start(test, program, server.port, "nightly")?;
    let mut trial = Trial { agent: agent_with(&server, &row.lock), samples: 0, wrong: 0 };
    for hold in 0..holds {
        program.run(Word::Take);
        trial.compare(true);
        if row.renews == Some(Renews::Asked) && hold % 5 == 0 {
            let before = trial.count("lock_renewals_total");
            program.run(Word::Renew);
            trial.expect_renewal(before);
            trial.compare(true);
        }
        if row.renews == Some(Renews::Itself) && hold % 10 == 0 {
            trial.expect_renewal(trial.count("lock_renewals_total"));
        }
        program.run(Word::Release);
        trial.compare(false);
    }
    trial.wrong += trial.count("lock_acquisitions_total").abs_diff(holds);
    let killed = trial.kill(program, row.dies);
    let name = row.what.as_ref().map(|what| format!("{} {what}", row.library));
    Some(Outcome {
        library: name.unwrap_or_else(|| row.library.clone()),
        language: row.language.clone(),
        version,
        lock: row.lock.clone(),
        holds,
        samples: trial.samples,
        wrong: trial.wrong,
        renewals: trial.count("lock_renewals_total"),
        killed: killed.to_owned(),
    })
}

/// Runs several at a time; in the order of the rows. One that fails is none, and stops no other.
fn all_tried(test: &str, rows: &[Row], holds: u32) -> Vec<Option<Outcome>> {
    let next = Mutex::new(0..rows.len());
    let done = Mutex::new(vec![None; rows.len()]);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(at) = next.lock().unwrap().next() else { return };
                    let row = &rows[at];
                    let trial =
                        std::thread::scope(|scope| scope.spawn(|| tried(test, row, holds)).join());
                    let outcome = trial.ok().flatten();
                    eprintln!("{}: {outcome:?}", row.library);
                    done.lock().unwrap()[at] = outcome;
                }
            });
        }
    });
    done.into_inner().unwrap()
}

#[track_caller]
fn expect_right(outcomes: &[Option<Outcome>]) {
    let wrong: Vec<&Outcome> = outcomes.iter().flatten().filter(|one| one.wrong > 0).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn some_of_each_language_are_shown_as_they_say() {
    let test = "libraries::all::some_of_each_language_are_shown_as_they_say";
    let quick: Vec<Row> = rows().into_iter().filter(|row| row.quick).collect();
    let languages: std::collections::BTreeSet<&str> =
        quick.iter().map(|row| &*row.language).collect();
    assert!(quick.len() >= 6 && languages.len() >= 3, "{quick:?}");
    expect_right(&all_tried(test, &quick, HOLDS_QUICK));
}

/// For `make libraries`: it takes ten minutes, and writes its results.
#[test]
fn all_are_shown_as_they_say() {
    if std::env::var_os("LOCKWATCH_LIBRARIES").is_none() {
        return;
    }
    let test = "libraries::all::all_are_shown_as_they_say";
    let outcomes = all_tried(test, &rows(), HOLDS);
    let rows = outcomes.iter().flatten().cloned().collect();
    let date = std::process::Command::new("date").arg("+%Y-%m-%d").output().unwrap().stdout;
    let date = String::from_utf8(date).unwrap().trim().to_owned();
    let text = serde_yaml::to_string(&Results { date, rows }).unwrap();
    let head = "# What `make libraries` showed when it was run last. Written by it.\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RESULTS);
    std::fs::write(path, format!("{head}{text}")).unwrap();
    assert!(outcomes.iter().all(Option::is_some), "some could not be run");
    expect_right(&outcomes);
}

/// The table of docs/libraries.md about the run of all.
pub(crate) fn table() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RESULTS);
    let results: Results = serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let of = |count: fn(&Outcome) -> u32| results.rows.iter().map(count).sum::<u32>();
    let mut text = format!(
        "Run on {}: {} libraries, {} holds, {} samples, {} wrong.\n\n| library | version | language \
         | holds | samples | wrong | renewals | killed |\n|---|---|---|---|---|---|---|---|\n",
        results.date,
        results.rows.len(),
        of(|row| row.holds),
        of(|row| row.samples),
        of(|row| row.wrong)
    );
    for row in &results.rows {
        let Outcome { library, version, language, holds, samples, wrong, renewals, killed, .. } =
            row;
        writeln!(
            text,
            "| {library} | {version} | {language} | {holds} | {samples} | {wrong} | {renewals} | \
             {killed} |"
        )
        .unwrap();
    }
    text
}
