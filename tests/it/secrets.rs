//! Secrets in every place where they may occur are searched in all output of the program, at the
//! most verbose log level.
//!
//! No secret may appear as it is, quoted, percent-encoded, in hex or base64; nor may half of it.

use crate::support::PATIENCE;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::agent::{Agent, program};
use crate::support::free_port;
use crate::support::impostor::Impostor;
use crate::support::redis::RedisServer;
use crate::support::view::View;

/// The password of a Redis, from a file. Each secret has characters that every encoding changes.
const FILE_PASSWORD: &str = "c4nary-FILE/p%+a&s\"s";
/// The password of an ACL user, from the environment.
const ENV_PASSWORD: &str = "c4nary-ENV/p%+a&s\"s";
/// A password that no server accepts.
const WRONG_PASSWORD: &str = "c4nary-WRONG/p%+a&s\"s";
/// The password of Sentinels.
const SENTINEL_PASSWORD: &str = "c4nary-SENTINEL/p%+a&s\"s";
/// A password in invalid places: in URLs, in fields, in values.
const MISPLACED: &str = "c4naryMISPLACEDpassw0rd";
/// The token of a string lock.
const TOKEN: &str = "c4nary-TOKEN/t%+o&k\"en";
/// The thread of a Redisson holder: together with the client id it can release the lock.
const THREAD: &str = "9081726354";
/// A worker's claim and progress value, which are not configured to be shown.
const CLAIM: &str = "c4nary-CLAIM/c%+l&a\"im";
const PROGRESS: &str = "c4nary-PROGRESS/p%+r&o\"g";

const SECRETS: [&str; 9] = [
    FILE_PASSWORD,
    ENV_PASSWORD,
    WRONG_PASSWORD,
    SENTINEL_PASSWORD,
    MISPLACED,
    TOKEN,
    THREAD,
    CLAIM,
    PROGRESS,
];

/// The client id of a Redisson holder, which is meant to be shown.
const CLIENT: &str = "285475da-9152-4c83-822a-67ee2f116a79";

/// Fails if any form of any secret is in this output.
#[track_caller]
fn keeps_secrets(place: &str, said: &[u8]) {
    let said_lower = said.to_ascii_lowercase();
    for secret in SECRETS {
        for form in forms(secret) {
            let form = form.to_ascii_lowercase();
            let at = said_lower.windows(form.len()).position(|window| window == form);
            if let Some(at) = at {
                let around = &said[at.saturating_sub(200)..(at + 200).min(said.len())];
                panic!(
                    "{place} shows {secret} as {}: …{}…",
                    form.escape_ascii(),
                    around.escape_ascii()
                );
            }
        }
    }
}

/// A secret and its halves, in all encodings.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let bytes = secret.as_bytes();
    let (first, second) = bytes.split_at(bytes.len() * 3 / 5);
    let mut forms = vec![bytes.to_vec(), first.to_vec()];
    // Half of a number is not specific enough.
    if secret != THREAD {
        forms.push(second.to_vec());
    }
    forms.push(secret.escape_debug().to_string().into_bytes());
    forms.push(bytes.iter().flat_map(|byte| percent(*byte)).collect());
    forms.push(bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect());
    forms.push(bytes.iter().flat_map(|byte| format!("\\x{byte:02x}").into_bytes()).collect());
    // Base64 has three alignments; characters that depend on the neighbours are cut off.
    for shift in 0..3 {
        let shifted = [&vec![b'x'; shift], bytes].concat();
        let text = base64(&shifted);
        let start = (shift * 8).div_ceil(6);
        forms.push(text[start..text.len() - 4].to_vec());
    }
    forms
}

fn percent(byte: u8) -> Vec<u8> {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => vec![byte],
        _ => format!("%{byte:02x}").into_bytes(),
    }
}

/// Base64 with padding.
fn base64(bytes: &[u8]) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::new();
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { letter } else { b'=' });
        }
    }
    text
}

#[test]
fn the_search_finds_each_form() {
    assert_eq!(base64(b"Man is"), b"TWFuIGlz");
    assert_eq!((base64(b"Ma"), base64(b"M")), (b"TWE=".to_vec(), b"TQ==".to_vec()));
    keeps_secrets("nothing", b"c4nary is not enough");
    let quoted = format!("{TOKEN:?}");
    let in_hex: String = TOKEN.bytes().map(|byte| format!("{byte:02X}")).collect();
    let in_base64 = base64(format!("Basic x:{TOKEN}").as_bytes());
    for said in
        [TOKEN.as_bytes(), quoted.as_bytes(), &in_base64, b"c4nary-TOKEN/", in_hex.as_bytes()]
    {
        let found = std::panic::catch_unwind(|| keeps_secrets("a place", said)).is_err();
        assert!(found, "{}", said.escape_ascii());
    }
}

/// Servers that hold secrets, and a folder with the password files.
struct Scene {
    locked: RedisServer,
    users: RedisServer,
    folder: TempDir,
    config: String,
}

impl Scene {
    fn open(test: &str) -> Option<Scene> {
        let locked = RedisServer::start_with_password(test, FILE_PASSWORD)?;
        let users = RedisServer::start(test)?;
        locked.cli(&["SET", "token:lock", TOKEN, "PX", "600000"]);
        locked.cli(&["HSET", "outbound:lock", &format!("{CLIENT}:{THREAD}"), "1"]);
        locked.cli(&["PEXPIRE", "outbound:lock", "600000"]);
        locked.cli(&["HSET", "users", "anna", "1"]);
        locked.cli(&["HSET", "claims", &format!("{CLIENT}:{THREAD}"), CLAIM]);
        locked.cli(&["HSET", "token:claims", TOKEN, CLAIM]);
        locked.cli(&["HSET", "token:hosts", TOKEN, "host-a"]);
        locked.cli(&["SET", "progress", PROGRESS]);
        users.cli(&[
            "ACL",
            "SETUSER",
            "watcher",
            "on",
            &format!(">{ENV_PASSWORD}"),
            "~*",
            "+@read",
            "+role",
            "+info",
            "+time",
            "+echo",
        ]);
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("password"), format!("{FILE_PASSWORD}\n")).unwrap();
        fs::write(folder.path().join("wrong"), format!("{WRONG_PASSWORD}\n")).unwrap();
        let config = config(&locked, &users, folder.path());
        fs::write(folder.path().join("lockwatch.yml"), &config).unwrap();
        Some(Scene { locked, users, folder, config })
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    /// Runs a command to its end, and searches its output for secrets.
    #[track_caller]
    fn run(&self, arguments: &[&str]) -> Output {
        let output =
            passwords(&mut program()).args(arguments).stdout(Stdio::piped()).output().unwrap();
        let place = format!("lockwatch {}", arguments.join(" "));
        keeps_secrets(&place, &output.stdout);
        keeps_secrets(&place, &output.stderr);
        output
    }
}

fn passwords(command: &mut Command) -> &mut Command {
    command
        .env("LW_ENV", ENV_PASSWORD)
        .env("LW_SENTINEL", SENTINEL_PASSWORD)
        .env("LW_WRONG", WRONG_PASSWORD)
}

/// A redis for each way in which a password can be right or wrong.
fn config(locked: &RedisServer, users: &RedisServer, folder: &Path) -> String {
    let echo = Impostor::start(|client| {
        let words = client.next()?;
        client.say(
            &[
                b"-ERR unknown command 'AUTH', with args beginning with: ",
                words.concat().as_slice(),
                b"\r\n",
            ]
            .concat(),
        )
    });
    let (file, wrong) = (folder.join("password"), folder.join("wrong"));
    let (file, wrong, nobody) = (file.display(), wrong.display(), free_port());
    let (locked, users, echo) = (locked.port, users.port, echo.port);
    let pace = "interval: 300ms, timeout: 1s";
    format!(
        r#"redis:
  main: {{url: "redis://127.0.0.1:{locked}", password_file: "{file}", {pace}}}
  user: {{url: "redis://127.0.0.1:{users}", username: watcher, password_env: LW_ENV, {pace}}}
  wrong: {{url: "redis://127.0.0.1:{locked}", password_file: "{wrong}", {pace}}}
  wrong_user: {{url: "redis://127.0.0.1:{users}", username: watcher, password_env: LW_WRONG, {pace}}}
  unwanted: {{url: "redis://127.0.0.1:{users}", password_env: LW_WRONG, {pace}}}
  unset: {{url: "redis://127.0.0.1:{users}", password_env: LW_NOT_SET, {pace}}}
  echo: {{url: "redis://127.0.0.1:{echo}", password_env: LW_ENV, {pace}}}
  nobody: {{url: "redis://127.0.0.1:{nobody}", password_env: LW_ENV, {pace}}}
  nowhere: {{url: "redis://no-such-host.invalid", password_env: LW_ENV, {pace}}}
  sentinel: {{sentinel: {{master: m, nodes: ["127.0.0.1:{users}", "127.0.0.1:{echo}"], password_env: LW_SENTINEL}}, password_env: LW_ENV, {pace}}}
tasks:
  - {{name: outbound, redis: main, lock: {{key: "outbound:lock"}}, wanted: {{hash: users}}, claims: {{hash: claims, fresh_for: 5s}},
     progress: {{key: progress, stale_after: 1m}}}}
  - {{name: token, redis: main, lock: {{key: "token:lock", library: string}}, wanted: always, claims: {{hash: "token:claims", fresh_for: 5s}},
     hosts: {{hash: "token:hosts"}}}}
  - {{name: user, redis: user, lock: {{key: l}}}}
  - {{name: wrong, redis: wrong, lock: {{key: w}}}}
  - {{name: wrong_user, redis: wrong_user, lock: {{key: l2}}}}
  - {{name: unwanted, redis: unwanted, lock: {{key: l3}}}}
  - {{name: unset, redis: unset, lock: {{key: l4}}}}
  - {{name: echo, redis: echo, lock: {{key: l}}}}
  - {{name: nobody, redis: nobody, lock: {{key: l}}}}
  - {{name: nowhere, redis: nowhere, lock: {{key: l}}}}
  - {{name: sentinel, redis: sentinel, lock: {{key: l}}}}
"#
    )
}

/// The final state of each task.
fn settled(view: &View) -> bool {
    let reason = |task| view.reason(task);
    view.held("outbound") == Some(1.0)
        && view.held("token") == Some(1.0)
        && view.held("user") == Some(0.0)
        && ["wrong", "wrong_user", "unset", "echo"].iter().all(|task| reason(task) == Some("auth"))
        && reason("nobody") == Some("connect")
        && reason("nowhere") == Some("dns")
        && reason("sentinel").is_some()
}

/// What a stream sends within a second.
fn streamed(port: u16, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n").unwrap();
    let (mut said, end) = (Vec::new(), Instant::now() + Duration::from_secs(1));
    while Instant::now() < end {
        let mut bytes = [0; 65_536];
        // Most of the time the stream is silent.
        if let Ok(count) = stream.read(&mut bytes) {
            said.extend_from_slice(&bytes[..count]);
        }
    }
    assert!(said.starts_with(b"HTTP/1.1 200"), "{}", said.escape_ascii());
    said
}

/// Every path that the server has.
fn paths() -> Vec<String> {
    let tasks = ["outbound", "token", "user", "wrong", "echo", "nobody", "sentinel"];
    let of_task = |task: &&str| {
        ["/tasks/", "/api/v1/tasks/", "/badge/"].map(|path| match path {
            "/badge/" => format!("{path}{task}.svg"),
            _ => format!("{path}{task}"),
        })
    };
    let common = [
        "/",
        "/?q=x",
        "/metrics",
        "/api/v1/tasks",
        "/api/v1/events?limit=1000",
        "/api/v1/openapi.json",
        "/app.js",
    ];
    let health = ["/style.css", "/icon.svg", "/-/healthy", "/-/ready", "/no-such-path"];
    let explain = tasks.iter().map(|task| format!("/api/v1/tasks/{task}/explain"));
    let all = common.iter().chain(&health).map(|path| (*path).to_owned());
    all.chain(tasks.iter().flat_map(of_task)).chain(explain).collect()
}

#[test]
fn no_output_of_an_agent_shows_a_secret() {
    let test = "secrets::no_output_of_an_agent_shows_a_secret";
    let Some(scene) = Scene::open(test) else { return };
    for format in ["logfmt", "json", "text"] {
        let record = scene.path(&format!("record-{format}"));
        let mut agent = Agent::start_logging(&scene.config, "trace", format, |command| {
            passwords(command)
                .args(["--record", &record, "--web.enable-lifecycle"])
                .env("RUST_LOG", "trace");
        });
        agent.until_view(PATIENCE, "all is as far as it gets", settled);
        // Every secret is changed or used once.
        scene.locked.cli(&["HSET", "claims", &format!("{CLIENT}:{THREAD}"), &format!("{CLAIM}-2")]);
        scene.locked.cli(&["HSET", "token:claims", TOKEN, &format!("{CLAIM}-2")]);
        scene.locked.cli(&["SET", "progress", &format!("{PROGRESS}-2")]);
        scene.locked.cli(&["SET", "token:lock", &format!("{TOKEN}-2"), "PX", "600000"]);
        scene.locked.cli(&["HSET", "outbound:lock", &format!("another:{THREAD}"), "1"]);
        agent.until_view(PATIENCE, "two holders", |view| view.verdict("outbound") == "split");
        for path in paths() {
            keeps_secrets(&path, &agent.get(&path).body);
        }
        keeps_secrets("/live", &streamed(agent.port, "/live"));
        let url = format!("http://127.0.0.1:{}", agent.port);
        for task in [None, Some("outbound"), Some("token"), Some("wrong")] {
            for json in [&[][..], &["--json"]] {
                scene.run(&[&["status", "--agent.url", &url], json, task.as_slice()].concat());
                if let Some(task) = task {
                    scene.run(&[&["explain", "--agent.url", &url], json, &[task]].concat());
                }
            }
        }
        agent.write_config(&scene.config.replace(
            "url: \"redis://",
            &format!("password: \"{MISPLACED}\", url: \"redis://:{MISPLACED}@"),
        ));
        keeps_secrets("/-/reload", &agent.post("/-/reload").body);
        for file in ["cmdline", "status"] {
            keeps_secrets(file, &fs::read(format!("/proc/{}/{file}", agent.process())).unwrap());
        }
        agent.signal("TERM");
        assert!(agent.ended_within(PATIENCE).success());
        let log = agent.log();
        assert!(log.to_lowercase().contains("reload"), "the log says what was done");
        keeps_secrets(&format!("the {format} log"), log.as_bytes());
        let mut files = 0;
        for entry in fs::read_dir(&record).unwrap() {
            keeps_secrets("a recording", &fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
        assert!(files > 0, "nothing was recorded");
        for more in [&[][..], &["--json"]] {
            scene.run(&[&["replay", &record], more].concat());
        }
        scene.locked.cli(&["HDEL", "outbound:lock", &format!("another:{THREAD}")]);
        scene.locked.cli(&["SET", "token:lock", TOKEN, "PX", "600000"]);
    }
}

#[test]
fn no_command_without_an_agent_shows_a_secret() {
    let test = "secrets::no_command_without_an_agent_shows_a_secret";
    let Some(scene) = Scene::open(test) else { return };
    let config = scene.path("lockwatch.yml");
    assert!(scene.run(&["check-config", "--config.file", &config]).status.success());
    assert!(scene.run(&["acl", "--config.file", &config]).status.success());
    scene.run(&["--config.check", "--config.file", &config]);
    for task in
        ["outbound", "token", "user", "wrong", "wrong_user", "unset", "echo", "nobody", "sentinel"]
    {
        for json in [&[][..], &["--json"]] {
            let output = scene
                .run(&[&["explain", "--once", "--config.file", &config], json, &[task]].concat());
            assert!(
                !output.stdout.is_empty() || !output.stderr.is_empty(),
                "nothing was said about {task}"
            );
        }
    }
    let (locked, users) = (
        format!("redis://{}", scene.locked.address()),
        format!("redis://{}", scene.users.address()),
    );
    let (right, wrong) = (scene.path("password"), scene.path("wrong"));
    for file in [&right, &wrong] {
        scene.run(&[
            "discover",
            "--redis",
            &locked,
            "--redis.password-file",
            file,
            "--watch",
            "500ms",
        ]);
        scene.run(&[
            "explain",
            "--once",
            "--redis",
            &locked,
            "--redis.password-file",
            file,
            "--lock",
            "token:lock",
            "--scheme",
            "string",
            "token:lock",
        ]);
    }
    scene.run(&[
        "discover",
        "--redis",
        &users,
        "--redis.username",
        "watcher",
        "--redis.password-env",
        "LW_ENV",
        "--watch",
        "0s",
    ]);
}

#[test]
fn no_mistake_in_a_configuration_shows_a_secret() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("lockwatch.yml");
    let redis = |fields: &str| {
        format!("redis:\n  main: {{{fields}}}\ntasks:\n  - {{name: a, lock: {{key: k}}}}\n")
    };
    let wrong = [
        redis(&format!("url: \"redis://user:{MISPLACED}@host\"")),
        redis(&format!("url: \"redis://:{MISPLACED}@host:99999/x?y\"")),
        redis(&format!("url: \"rediss://user:{MISPLACED}@host\"")),
        redis(&format!("url: \"redis+unix:///run/x.sock?password={MISPLACED}\"")),
        redis(&format!("url: \"http://user:{MISPLACED}@host\"")),
        redis(&format!("url: \"user:{MISPLACED}@host\"")),
        redis(&format!("url: [\"redis://:{MISPLACED}@host\"]")),
        redis(&format!("url: \"redis://host\", password: {MISPLACED}")),
        redis(&format!("url: \"redis://host\", password: [{MISPLACED}]")),
        redis(&format!("url: \"redis://host\", pasword: {MISPLACED}")),
        redis(&format!("url: \"redis://host\", password_env: \"{MISPLACED}/+\"")),
        redis(&format!("url: \"redis://host\", password_env: [{MISPLACED}]")),
        redis(&format!("url: \"redis://host\", password_file: {{value: {MISPLACED}}}")),
        redis(&format!("url: \"redis://host\", password_command: \"token {MISPLACED}\"")),
        redis(&format!("url: \"redis://host\", password_command: [{{value: {MISPLACED}}}]")),
        redis(&format!("url: \"rediss://host\", tls: {{key_file: \"-----BEGIN\\n{MISPLACED}\"}}")),
        redis(&format!("url: \"rediss://host\", tls: {{key: {MISPLACED}}}")),
        redis(&format!("url: \"rediss://host\", tls: \"{MISPLACED}\"")),
        redis(&format!("nodes: [\"redis://:{MISPLACED}@a\", \"redis://:{MISPLACED}@b\"]")),
        redis(&format!(
            "sentinel: {{master: m, nodes: [\"redis://:{MISPLACED}@a:1\"], password: {MISPLACED}}}"
        )),
        redis(&format!("cluster: {{nodes: [\"redis://:{MISPLACED}@a:1\"]}}")),
        redis(&format!("sentinel: \"redis://:{MISPLACED}@a:1\"")),
        redis(&format!("\"redis://:{MISPLACED}@a:1\"")),
        format!("redis: \"redis://:{MISPLACED}@host\"\ntasks: [{{name: a, lock: {{key: k}}}}]\n"),
        format!(
            "redis:\n  main:\n    url: redis://host\n    password: {MISPLACED}: x\ntasks: []\n"
        ),
        format!("redis:\n  main:\n    password: \"{MISPLACED}\n"),
        format!("redis:\n  main:\n    password: !{MISPLACED} x\n    url: redis://host\ntasks: 3\n"),
        format!("redis:\n  main:\n    password: *{MISPLACED}\n"),
        format!(
            "redis:\n  main: {{url: \"redis://host\"}}\n\
             tasks:\n  - {{name: a, lock: {{key: k}}, password: {MISPLACED}}}\n"
        ),
    ];
    let mut reported = String::new();
    for text in wrong {
        fs::write(&file, &text).unwrap();
        for arguments in
            [&["check-config"][..], &["acl"], &["--config.check"], &["explain", "--once", "a"]]
        {
            let output = said_by(program().args(arguments).arg("--config.file").arg(&file));
            assert!(!output.status.success(), "{arguments:?} takes\n{text}");
            let said = [output.stdout, output.stderr].concat();
            if contains(&said, MISPLACED.as_bytes()) {
                reported.push_str(&format!(
                    "--- {arguments:?} of\n{text}says\n{}",
                    String::from_utf8_lossy(&said)
                ));
            }
            keeps_secrets(
                "a mistake in a configuration",
                if reported.is_empty() { &said } else { b"" },
            );
        }
    }
    for arguments in [
        &["--redis", &format!("redis://u:{MISPLACED}@host"), "--lock", "l"][..],
        &["discover", "--redis", &format!("redis://u:{MISPLACED}@host")],
        &[
            "explain",
            "--once",
            "--redis",
            &format!("redis://u:{MISPLACED}@host"),
            "--lock",
            "l",
            "l",
        ],
        &["check-config", "--redis", &format!("host:{MISPLACED}@x"), "--lock", "l"],
        &["discover", "--redis", "redis://host", "--redis.password", MISPLACED],
        &["status", "--agent.url", &format!("http://u:{MISPLACED}@127.0.0.1:1")],
    ] {
        let output = said_by(program().args(arguments));
        assert!(!output.status.success(), "{arguments:?}");
        let said = [output.stdout, output.stderr].concat();
        if contains(&said, MISPLACED.as_bytes()) {
            reported
                .push_str(&format!("--- {arguments:?} says\n{}", String::from_utf8_lossy(&said)));
        }
    }
    assert!(reported.is_empty(), "{reported}");
}

fn said_by(command: &mut Command) -> Output {
    command.stdout(Stdio::piped()).output().unwrap()
}

fn contains(said: &[u8], part: &[u8]) -> bool {
    said.windows(part.len()).any(|window| window == part)
}
