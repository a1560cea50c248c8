//! The real program records with a real Redis, and replays the recording.

use crate::support::PATIENCE;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::agent::{Agent, program};
use crate::support::redis::{CLIENT, RedisServer};

/// The token of a string lock.
const TOKEN: &str = "9c1b5f0e-SECRET-TOKEN";
/// The thread of a Redisson lock, a secret although it is a number.
const THREAD: &str = "90817263";
const PROGRESS: &str = "PROGRESS-VALUE";
const CLAIM: &str = "CLAIM-VALUE";
const PASSWORD: &str = "hunter2-PASSWORD";

const TASKS: &str = r#"
  - {name: outbound, lock: {key: "outbound:lock"}, wanted: {hash: "outbound:users"}, grace: 1s, settle: 500ms, wind_down: 1s,
     progress: {key: "outbound:progress", stale_after: 1m}}
  - {name: token.task, lock: {key: "token:lock", library: string}, wanted: always, claims: {hash: "token:claims"},
     hosts: {hash: "token:hosts"}}
"#;

/// A recording of a crash, and the agent's reports at the time.
struct Crash {
    folder: TempDir,
    /// The verdicts of `outbound` in the agent's log.
    verdicts: Vec<String>,
    run_id: String,
}

/// A process that holds the lock as Redisson does: it renews until it is killed.
fn holder(server: &RedisServer, client: &str) -> Child {
    let port = server.port;
    let script = format!(
        "while {CLIENT} -p {port} --no-auth-warning hset outbound:lock {client}:{THREAD} 1 \
         >/dev/null && \
         {CLIENT} -p {port} --no-auth-warning pexpire outbound:lock 2000 >/dev/null; do sleep \
         0.4; done"
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .env("REDISCLI_AUTH", PASSWORD)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

fn kill(mut holder: Child) {
    holder.kill().unwrap();
    holder.wait().unwrap();
}

impl Crash {
    /// `None`, with a message, on a machine without Redis.
    fn record(test: &str) -> Option<Crash> {
        let server = RedisServer::start_with_password(test, PASSWORD)?;
        let folder = TempDir::new().unwrap();
        let cli = |arguments: &[&str]| server.cli(arguments);
        cli(&["hset", "outbound:users", "anna", "1", "ben", "PERHAPS-SO"]);
        cli(&["set", "outbound:progress", PROGRESS]);
        cli(&["set", "token:lock", TOKEN, "px", "600000"]);
        cli(&["hset", "token:claims", TOKEN, CLAIM]);
        cli(&["hset", "token:hosts", TOKEN, "host-a"]);
        let first = holder(&server, "first");
        let config = format!(
            "redis:\n  main: {{url: \"redis://{}\", interval: 250ms, timeout: 2s, password_env: \
             LW_TEST_PASSWORD}}\ntasks:{TASKS}",
            server.address()
        );
        let mut agent = Agent::start_with(&config, |command| {
            command
                .env("LW_TEST_PASSWORD", PASSWORD)
                .arg("--record")
                .arg(folder.path().join("made/by/it"));
        });
        agent.until(PATIENCE, "running", |page| page.verdict("outbound") == "running");
        kill(first);
        agent.until(PATIENCE, "down", |page| page.verdict("outbound") == "down");
        std::thread::sleep(Duration::from_millis(800));
        let second = holder(&server, "second");
        agent.until(PATIENCE, "running again", |page| page.verdict("outbound") == "running");
        agent.until(PATIENCE, "handed over", |page| {
            page.of("outbound", "task_handover_seconds_count") == Some(1.0)
        });
        // Of which some inputs are recorded.
        agent.until(PATIENCE, "it goes on", |page| {
            page.of("outbound", "lock_held_seconds") > Some(3.0)
        });
        agent.signal("TERM");
        assert!(agent.ended_within(PATIENCE).success());
        kill(second);
        let changes = agent.log_lines(&["event=verdict", "task=outbound"]);
        let verdict = |line: &String| {
            let message = line.split_once("msg=\"").unwrap().1;
            message.split_once(": ").unwrap().0.rsplit(" -> ").next().unwrap().to_owned()
        };
        let run_id = server.info("run_id").unwrap();
        Some(Crash { folder, verdicts: changes.iter().map(verdict).collect(), run_id })
    }

    fn recordings(&self) -> PathBuf {
        self.folder.path().join("made/by/it")
    }

    fn file(&self) -> PathBuf {
        let mut files: Vec<PathBuf> =
            fs::read_dir(self.recordings()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }

    fn lines(&self) -> String {
        let mut lines = String::new();
        GzDecoder::new(File::open(self.file()).unwrap()).read_to_string(&mut lines).unwrap();
        lines
    }
}

fn replay(path: &Path, arguments: &[&str]) -> Output {
    program().arg("replay").arg(path).args(arguments).stdout(Stdio::piped()).output().unwrap()
}

#[track_caller]
fn replayed(path: &Path, arguments: &[&str]) -> String {
    let output = replay(path, arguments);
    let (out, err) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{out}{err}");
    out
}

#[track_caller]
fn as_json(path: &Path, arguments: &[&str]) -> Value {
    let all: Value =
        serde_json::from_str(&replayed(path, &[arguments, &["--json"]].concat())).unwrap();
    assert_eq!(all["runs"].as_array().unwrap().len(), 1);
    all["runs"][0].clone()
}

/// The task of this name in a pass.
fn task<'a>(pass: &'a Value, name: &str) -> &'a Value {
    pass["tasks"].as_array().unwrap().iter().find(|task| task["task"] == name).unwrap()
}

fn names(spans: &Value) -> Vec<&str> {
    spans.as_array().unwrap().iter().map(|span| span["name"].as_str().unwrap()).collect()
}

fn seconds(spans: &Value, name: &str) -> f64 {
    let span = spans.as_array().unwrap().iter().find(|span| span["name"] == name).unwrap();
    span["seconds"].as_f64().unwrap_or_else(|| panic!("{span}"))
}

#[test]
fn a_crash_is_replayed_as_it_was_seen_and_as_it_would_have_been() {
    let Some(crash) = Crash::record("replay: a crash") else { return };
    let recordings = crash.recordings();

    let run = as_json(&recordings, &[]);
    let outbound = task(&run, "outbound");
    assert_eq!(names(&outbound["verdicts"]), crash.verdicts, "the agent's own log");
    assert_eq!(crash.verdicts, ["running", "pending", "down", "running"]);
    assert_eq!(names(&outbound["pages"]), ["LockwatchLeaseExpired", "LockwatchTaskDown"]);
    let down = seconds(&outbound["pages"], "LockwatchTaskDown");
    assert!((0.5..15.0).contains(&down), "{down}");
    let events: Vec<&str> = outbound["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert!(events.windows(2).any(|pair| pair == ["gap_ended", "outage"]), "{events:?}");
    assert!(events.contains(&"hold_ended") && events.contains(&"gap_began"), "{events:?}");
    assert_eq!(names(&task(&run, "token.task")["verdicts"]), ["running"]);
    assert_eq!(
        (run["begins_in_the_middle"].as_bool(), run["holes"].as_array().unwrap().len()),
        (Some(false), 0)
    );

    // A longer grace: the alert is gone, and so is the stretch of "down".
    let longer = as_json(&recordings, &["--set", "outbound.grace=1m"]);
    assert_eq!(task(&longer, "outbound"), outbound, "what is configured does not change");
    let changed = task(&longer["changed"], "outbound");
    assert_eq!(names(&changed["verdicts"]), ["running", "pending", "running"]);
    assert_eq!(names(&changed["pages"]), ["LockwatchLeaseExpired"]);
    let text = replayed(&recordings, &["--set", "outbound.grace=1m"]);
    for part in
        ["gone: the page LockwatchTaskDown from 20", "gone: down from 20", "pending from 20"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }

    // A shorter one: the alert comes earlier and lasts longer.
    let shorter = as_json(&recordings, &["--set", "*.grace=0s"]);
    let changed = task(&shorter["changed"], "outbound");
    assert!(seconds(&changed["pages"], "LockwatchTaskDown") > down + 0.5, "{shorter:#}");
    let from =
        |pass: &Value| task(pass, "outbound")["pages"][1]["from"].as_str().unwrap().to_owned();
    assert!(from(&shorter["changed"]) < from(&shorter));

    let same = replayed(&recordings, &["--set", "outbound.wind_down=1m"]);
    assert!(same.contains("nothing differs"), "{same}");
    assert_eq!(replayed(&recordings, &["--json"]), replayed(&recordings, &["--json"]));
    assert_eq!(replayed(&recordings, &[]), replayed(&crash.file(), &[]));

    let bytes = crash.lines();
    let secrets =
        [TOKEN, THREAD, PROGRESS, CLAIM, PASSWORD, "PERHAPS-SO", "LW_TEST_PASSWORD", &crash.run_id];
    for secret in secrets {
        assert!(!bytes.contains(secret), "{secret} was recorded");
    }
    assert!(
        bytes.contains("\"anna\"") && bytes.contains("host-a") && bytes.contains("outbound:lock"),
        "{bytes}"
    );

    what_is_wrong_is_said(&crash);
}

/// Invalid arguments and damaged files.
fn what_is_wrong_is_said(crash: &Crash) {
    let fails = |path: &Path, arguments: &[&str], code: i32, parts: &[&str]| {
        let output = replay(path, arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert_eq!(output.stdout, b"", "nothing is reported about what cannot be understood");
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
    };
    let file = crash.file();
    fails(
        &file,
        &["--set", "outbond.grace=1m"],
        2,
        &["no task `outbond`", "did you mean `outbound`?", "`token.task`"],
    );
    fails(&file, &["--set", "outbound.grace=1"], 2, &["has no unit"]);
    fails(
        &file,
        &["--set", "outbound.settle=2m"],
        2,
        &["task outbound", "must be shorter than `blind_after`"],
    );
    fails(&crash.folder.path().join("no-such"), &[], 1, &["cannot read", "no-such"]);
    fails(crash.folder.path(), &[], 1, &["holds no recording"]);

    let damaged = crash.folder.path().join("damaged.jsonl");
    let whole = crash.lines();
    let mut lines: Vec<&str> = whole.lines().collect();
    let write = |lines: &[&str]| fs::write(&damaged, lines.join("\n") + "\n").unwrap();
    lines[4] = r#"[5,{"input":{"sample":{"colour":"red"}}}]"#;
    write(&lines);
    fails(&damaged, &[], 1, &["damaged.jsonl, line 5", "colour"]);
    let former = whole.replacen("\"lockwatch_recording\":8", "\"lockwatch_recording\":7", 1);
    fs::write(&damaged, former).unwrap();
    fails(
        &damaged,
        &[],
        1,
        &["line 1", "format 7", "reads format 8", "with the version that recorded it"],
    );
    fs::write(&damaged, "ts=2026 level=info\n").unwrap();
    fails(&damaged, &[], 1, &["is no recording of lockwatch"]);

    // A crash while a line is written loses that line, and nothing else.
    fs::write(&damaged, &whole[..whole.len() - 7]).unwrap();
    let torn = as_json(&damaged, &[]);
    assert_eq!(torn["torn"], 1);
    assert_eq!(names(&task(&torn, "outbound")["verdicts"]), crash.verdicts);
    // Of a compressed file, its end.
    let packed = fs::read(&file).unwrap();
    fs::write(&damaged, &packed[..packed.len() / 2]).unwrap();
    let torn = as_json(&damaged, &[]);
    let verdicts = task(&torn, "outbound")["verdicts"].clone();
    assert!(
        crash
            .verdicts
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .starts_with(&names(&verdicts)),
        "{verdicts}"
    );
    // Nothing was written before the first crash.
    fs::write(&damaged, "").unwrap();
    let output = replay(&damaged, &[]);
    assert!(
        output.status.success() && String::from_utf8(output.stderr).unwrap().contains("is empty")
    );
}

#[test]
fn a_folder_that_cannot_be_written_is_reported_at_the_start() {
    let Some(server) = RedisServer::start("replay: no folder") else { return };
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let mut command = program();
    command.args(["--redis", &format!("redis://{}", server.address()), "--lock", "a"]);
    command.args(["--web.listen-address", "127.0.0.1:0", "--record"]).arg(file.join("recordings"));
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("cannot record in") && error.contains("file/recordings"), "{error}");
}
