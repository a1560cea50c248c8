use std::sync::Arc;

use lockwatch_judge::spec::{
    ClaimsSpec, Codec, LockSpec, ProgressSpec, SchemeKind, StoreIndex, TaskSpec, WantedSource,
    WantedSpec,
};
use lockwatch_watch::redis::accept::{Caps, RoleCheck};
use lockwatch_watch::redis::read::{Round, Scope, TaskRead};
use lockwatch_watch::redis::reply::ServerError;

use super::*;

const CLIENT: &str = "285475da-9152-4c83-822a-67ee2f116a79";
const THREAD: &str = "40917";
const TOKEN: &str = "5e1f0a77c3d94b6e8a21";

/// A command from words of one type or of several.
macro_rules! command {
    ($($word:expr),+) => { Command::new([$(String::from($word)),+]) };
}

fn bytes(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

fn scan(items: &[&str]) -> Reply {
    Reply::Array(vec![bytes("0"), Reply::Array(items.iter().map(|item| bytes(item)).collect())])
}

fn spec(scheme: SchemeKind, source: WantedSource, progress: ProgressSource) -> TaskSpec {
    let lock = LockSpec::new(b"outbound:lock", scheme);
    TaskSpec {
        wanted: Some(WantedSpec { source, codec: Codec::Raw }),
        progress: Some(ProgressSpec { source: progress, stale_after_ms: 1 }),
        claims: Some(ClaimsSpec { key: b"claims".to_vec(), fresh_for_ms: 1 }),
        hosts: Some(b"hosts".to_vec()),
        paused_until: Some(b"pause".to_vec()),
        ..TaskSpec::new("outbound", StoreIndex(0), lock)
    }
}

fn plain_spec(scheme: SchemeKind) -> TaskSpec {
    spec(scheme, WantedSource::Hash(b"users".to_vec()), ProgressSource::Key(b"progress".to_vec()))
}

/// A task of every kind.
fn specs() -> Vec<Arc<TaskSpec>> {
    let key = |name: &str| name.as_bytes().to_vec();
    let sources = [
        WantedSource::Hash(key("users")),
        WantedSource::Set(key("users")),
        WantedSource::Counter(key("users")),
        WantedSource::Keys(vec![key("anna"), key("bert")]),
        WantedSource::Always,
        WantedSource::Never,
    ];
    let progresses = [
        ProgressSource::HashField { key: key("progress"), field: key("last") },
        ProgressSource::Key(key("progress")),
        ProgressSource::Length(key("progress")),
    ];
    let mut specs = Vec::new();
    for scheme in SchemeKind::ALL {
        for source in &sources {
            specs.extend(
                progresses
                    .iter()
                    .map(|progress| Arc::new(spec(scheme, source.clone(), progress.clone()))),
            );
        }
    }
    specs
}

/// Every command that may be sent about `spec` in the first round and, given these readers and this
/// type, in the second.
fn all_commands(spec: &Arc<TaskSpec>) -> Vec<Command> {
    let mut all = Vec::new();
    for (pexpiretime, sharded) in [(true, false), (false, true)] {
        let caps = Caps { pexpiretime, role: RoleCheck::Role, info: true, sharded };
        let read = TaskRead::new(Arc::clone(spec), caps, true, Scope::ALL);
        let mut commands = Vec::new();
        read.commands(&mut commands);
        let reply = |command: &Command| match command.args.first().unwrap().as_slice() {
            b"TIME" => Reply::Array(vec![bytes("1800000000"), bytes("0")]),
            b"PEXPIRETIME" => Reply::Int(1_800_000_030_000),
            b"PTTL" => Reply::Int(30_000),
            b"HSCAN" if command.args[1] == b"outbound:lock" => {
                scan(&["mode", "read", &format!("{CLIENT}:{THREAD}"), "2"])
            }
            b"TYPE" => bytes("list"),
            _ => Reply::Nil,
        };
        let replies: Vec<Reply> = commands.iter().map(reply).collect();
        all.extend(commands);
        if let Round::Again(read) = read.decode(&replies) {
            read.commands(&mut all);
        }
    }
    all
}

#[test]
fn every_command_that_is_sent_is_known() {
    let mut names = std::collections::BTreeSet::new();
    for spec in specs() {
        for command in all_commands(&spec) {
            let words: Vec<&[u8]> = command.args.iter().map(Vec::as_slice).collect();
            assert_ne!(kind(&spec, &words), Kind::Other, "{command:?}");
            names.insert(String::from_utf8(command.args[0].clone()).unwrap());
        }
    }
    let expected = [
        "EXISTS",
        "GETRANGE",
        "HGET",
        "HSCAN",
        "LLEN",
        "PEXPIRETIME",
        "PTTL",
        "PUBSUB",
        "SSCAN",
        "STRLEN",
        "TIME",
        "TYPE",
    ];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected, "a new command needs a look here");
}

#[test]
fn no_command_and_no_reply_shows_what_could_release_a_lock() {
    let field = format!("{CLIENT}:{THREAD}");
    let replies = [
        bytes(TOKEN),
        bytes(&field),
        Reply::Array(vec![bytes(TOKEN), bytes(&field)]),
        scan(&["mode", "read", &field, "1", &format!("{field}:write"), "2"]),
        scan(&[&format!("{field}:0123456789abcdef0123456789abcdef"), "1"]),
        scan(&[TOKEN, TOKEN]),
        Reply::Array(vec![scan(&[&field])]),
        Reply::Error(ServerError { code: b"ERR".to_vec(), detail: b"no".to_vec() }),
    ];
    for spec in specs() {
        for command in all_commands(&spec) {
            let words: Vec<&[u8]> = command.args.iter().map(Vec::as_slice).collect();
            let kind = kind(&spec, &words);
            for reply in &replies {
                let shown = said(&spec, &command, Some(reply));
                let text = format!("{} {}", shown.command, shown.reply.join(" "));
                // Text of users in switches, pauses and host names is shown, even if an instance
                // uses another lock's token as its name.
                let own_text = matches!(kind, Kind::Text | Kind::Texts | Kind::Hosts);
                let instance = kind == Kind::Claims && spec.lock().scheme == SchemeKind::Redisson;
                assert!(own_text || !text.contains(THREAD), "{command:?} {reply:?}: {text}");
                assert!(
                    own_text || instance || !text.contains(TOKEN),
                    "{command:?} {reply:?}: {text}"
                );
            }
        }
    }
}

#[test]
fn a_claim_or_host_by_a_secret_name_shows_no_secret() {
    let field = format!("{CLIENT}:{THREAD}");
    let redisson = plain_spec(SchemeKind::Redisson);
    let string = plain_spec(SchemeKind::String);
    for key in ["claims", "hosts"] {
        let command = command!("HSCAN", key, "0", "COUNT", "1000");
        let shown = said(&redisson, &command, Some(&scan(&[&field, "srv-a"]))).reply.join("\n");
        assert!(shown.contains(&format!("{CLIENT}:…")) && !shown.contains(THREAD), "{shown}");
        let shown = said(&string, &command, Some(&scan(&[TOKEN, "srv-a"]))).reply.join("\n");
        assert!(shown.contains(&digest(TOKEN.as_bytes())) && !shown.contains(TOKEN), "{shown}");
    }
}

#[test]
fn a_redisson_lock_reads_like_redis_cli_without_its_threads() {
    let spec = plain_spec(SchemeKind::Redisson);
    let command = command!("HSCAN", "outbound:lock", "0", "COUNT", "128");
    let shown = said(
        &spec,
        &command,
        Some(&scan(&["mode", "write", &format!("{CLIENT}:{THREAD}:write"), "1"])),
    );
    assert_eq!(shown.command, "HSCAN outbound:lock 0 COUNT 128");
    let field = format!("   3) \"{CLIENT}:…:write\"");
    assert_eq!(
        shown.reply,
        ["1) \"0\"", "2) 1) \"mode\"", "   2) \"write\"", &field, "   4) \"1\""]
    );
    let strange = said(&spec, &command, Some(&scan(&["a lock of something else", "x"]))).reply;
    assert_eq!(
        strange[1..],
        ["2) 1) (24 bytes, digest 4b1e4b0a)", "   2) (1 byte, digest 2d711642)"]
            .map(|line| { line.replace("4b1e4b0a", &digest(b"a lock of something else")) })
    );
    let readers =
        command!("EXISTS", format!("{{outbound:lock}}:{CLIENT}:{THREAD}:rwlock_timeout:1"), "odd");
    let shown = said(&spec, &readers, Some(&Reply::Int(1)));
    assert_eq!(
        shown.command,
        format!("EXISTS {{outbound:lock}}:{CLIENT}:…:rwlock_timeout:1 \"(3 bytes)\"")
    );
    assert_eq!(shown.reply, ["(integer) 1"]);
}

#[test]
fn a_token_is_its_digest_and_so_is_whatever_is_not_known() {
    let spec = plain_spec(SchemeKind::String);
    let shown =
        said(&spec, &command!("GETRANGE", "outbound:lock", "0", "511"), Some(&bytes(TOKEN)));
    assert_eq!(shown.command, "GETRANGE outbound:lock 0 511");
    assert_eq!(shown.reply, [format!("(20 bytes, digest {})", digest(TOKEN.as_bytes()))]);
    let new = command!("NEWCOMMAND", "secret argument");
    let shown =
        said(&spec, &new, Some(&Reply::Array(vec![bytes("secret"), Reply::Int(7), Reply::Nil])));
    assert_eq!(
        shown.command,
        format!("NEWCOMMAND (15 bytes, digest {})", digest(b"secret argument"))
    );
    let digested = format!("1) (6 bytes, digest {})", digest(b"secret"));
    assert_eq!(shown.reply, [&digested, "2) (an integer)", "3) (nil)"]);
    let refused = Reply::Error(ServerError {
        code: b"ERR".to_vec(),
        detail: b"unknown command with secret".to_vec(),
    });
    assert_eq!(said(&spec, &new, Some(&refused)).reply, ["(error) ERR"]);
    assert!(said(&spec, &new, None).reply.is_empty());
}

#[test]
fn progress_and_claims_show_their_length_and_digest_only() {
    let spec = plain_spec(SchemeKind::Redisson);
    let progress =
        said(&spec, &command!("GETRANGE", "progress", "0", "255"), Some(&bytes("card 4929 1234")));
    assert_eq!(progress.reply, [format!("(14 bytes, digest {})", digest(b"card 4929 1234"))]);
    let claims = said(
        &spec,
        &command!("HSCAN", "claims", "0", "COUNT", "1000"),
        Some(&scan(&["srv-a", "private"])),
    );
    assert_eq!(
        claims.reply[1..],
        ["2) 1) \"srv-a\"".to_owned(), format!("   2) (7 bytes, digest {})", digest(b"private"))]
    );
    let empty = said(&spec, &command!("GETRANGE", "progress", "0", "255"), Some(&bytes("")));
    assert_eq!(empty.reply, ["\"\""]);
}

#[test]
fn the_key_of_the_lock_is_a_secret_whatever_else_it_is_configured_for() {
    let keys = WantedSource::Keys(vec![b"outbound:lock".to_vec()]);
    let mut spec = spec(SchemeKind::String, keys, ProgressSource::Key(b"progress".to_vec()));
    spec.paused_until = Some(b"outbound:lock".to_vec());
    spec.hosts = Some(b"outbound:lock".to_vec());
    let token = said(&spec, &command!("GETRANGE", "outbound:lock", "0", "63"), Some(&bytes(TOKEN)));
    let pair = said(
        &spec,
        &command!("HSCAN", "outbound:lock", "0", "COUNT", "1000"),
        Some(&scan(&[TOKEN, TOKEN])),
    );
    assert!(!format!("{token:?} {pair:?}").contains(TOKEN));
}

#[test]
fn switches_are_shown_escaped_and_cut() {
    let spec = plain_spec(SchemeKind::Redisson);
    let long = "x".repeat(5_000);
    let reply = scan(&["anna \x1b[2J", "o\"n", "\u{202e}bert", &long]);
    let shown = said(&spec, &command!("HSCAN", "users", "0", "COUNT", "1000"), Some(&reply)).reply;
    assert_eq!(shown[..3], [r#"1) "0""#, r#"2) 1) "anna \x1b[2J""#, r#"   2) "o\"n""#]);
    assert_eq!(shown[3], r#"   3) "\xe2\x80\xaebert""#);
    assert!(shown[4].len() < 220, "{}", shown[4].len());
    let many: Vec<String> = (0..1000).map(|user| format!("user {user}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let shown =
        said(&spec, &command!("HSCAN", "users", "0", "COUNT", "1000"), Some(&scan(&many))).reply;
    assert_eq!(shown.len(), 1 + ITEMS_MAX + 1);
    assert_eq!(shown.last().unwrap(), "   … 960 more");
}
