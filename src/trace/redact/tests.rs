use std::sync::Arc;

use lockwatch_judge::spec::{
    Claimants, ClaimsSpec, Codec, ProgressSource, ProgressSpec, StoreIndex, TaskSpec, WantedSource,
    WantedSpec,
};
use lockwatch_watch::redis::accept::{Caps, RoleCheck};
use lockwatch_watch::redis::libraries;
use lockwatch_watch::redis::read::{Round, Scope, TaskRead};
use lockwatch_watch::redis::reply::ServerError;

use super::*;

const CLIENT: &str = "285475da-9152-4c83-822a-67ee2f116a79";
const THREAD: &str = "40917";
const TOKEN: &str = "5e1f0a77c3d94b6e8a21";

fn bytes(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

fn scan(items: &[&str]) -> Reply {
    Reply::Array(vec![bytes("0"), Reply::Array(items.iter().map(|item| bytes(item)).collect())])
}

fn spec(library: &str, source: WantedSource, progress: ProgressSource) -> TaskSpec {
    let lock = libraries::lock(b"outbound:lock", library);
    TaskSpec {
        wanted: Some(WantedSpec { source, codec: Codec::Raw }),
        progress: Some(ProgressSpec { source: progress, moves: None, stale_after_ms: 1 }.into()),
        claims: Some(ClaimsSpec { key: b"claims".to_vec(), fresh_for_ms: 1 }.into()),
        hosts: Some(b"hosts".to_vec()),
        paused_until: Some(b"pause".to_vec()),
        ..TaskSpec::new("outbound", StoreIndex(0), lock)
    }
}

fn plain_spec(library: &str) -> TaskSpec {
    spec(library, WantedSource::Hash(b"users".to_vec()), ProgressSource::Key(b"progress".to_vec()))
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
    for library in libraries::names() {
        for source in &sources {
            specs.extend(
                progresses
                    .iter()
                    .map(|progress| Arc::new(spec(library, source.clone(), progress.clone()))),
            );
        }
    }
    specs
}

/// Everything that may be asked about `spec` in the first round and, given these readers and this
/// type, in the second.
fn all_asks(spec: &Arc<TaskSpec>) -> Vec<Ask> {
    let mut all = Vec::new();
    for (pexpiretime, sharded) in [(true, false), (false, true)] {
        let caps =
            Caps { pexpiretime, hpexpiretime: false, role: RoleCheck::Role, info: true, sharded };
        let read = TaskRead::new(Arc::clone(spec), caps, true, Scope::ALL);
        let asks = read.asks();
        let reply = |ask: &Ask| match ask.command.args[0].as_slice() {
            b"TIME" => Reply::Array(vec![bytes("1800000000"), bytes("0")]),
            b"PEXPIRETIME" => Reply::Int(1_800_000_030_000),
            b"PTTL" => Reply::Int(30_000),
            b"HSCAN" if ask.class == Class::Holders => {
                scan(&["mode", "read", &format!("{CLIENT}:{THREAD}"), "2"])
            }
            b"TYPE" => bytes("list"),
            _ => Reply::Nil,
        };
        let replies: Vec<Reply> = asks.iter().map(reply).collect();
        all.extend(asks);
        if let Round::Again(read) = read.decode(&replies) {
            all.extend(read.asks());
        }
    }
    all
}

/// The question about `spec` whose command begins like this.
fn ask(spec: &TaskSpec, begins: &[&str]) -> Ask {
    let is_it = |ask: &Ask| {
        begins.iter().zip(&ask.command.args).all(|(begin, word)| begin.as_bytes() == word)
    };
    all_asks(&Arc::new(spec.clone())).into_iter().find(is_it).unwrap()
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
        for ask in all_asks(&spec) {
            for reply in &replies {
                let shown = said(&spec, &ask, Some(reply));
                let text = format!("{} {}", shown.command, shown.reply.join(" "));
                // Text of users in switches, pauses and host names is shown, even if an instance
                // uses another lock's token as its name.
                let own_text = matches!(ask.class, Class::Text | Class::Texts | Class::Hosts);
                let instance = ask.class == Class::Claims
                    && spec.lock().unwrap().claimants == Claimants::Threads;
                assert!(own_text || !text.contains(THREAD), "{ask:?} {reply:?}: {text}");
                assert!(own_text || instance || !text.contains(TOKEN), "{ask:?} {reply:?}: {text}");
            }
        }
    }
}

#[test]
fn a_claim_or_host_by_a_secret_name_shows_no_secret() {
    let field = format!("{CLIENT}:{THREAD}");
    let redisson = plain_spec("redisson");
    let string = plain_spec("string");
    for key in ["claims", "hosts"] {
        let asked = |spec| ask(spec, &["HSCAN", key]);
        let shown =
            said(&redisson, &asked(&redisson), Some(&scan(&[&field, "srv-a"]))).reply.join("\n");
        assert!(shown.contains(&format!("{CLIENT}:…")) && !shown.contains(THREAD), "{shown}");
        let shown = said(&string, &asked(&string), Some(&scan(&[TOKEN, "srv-a"]))).reply.join("\n");
        assert!(shown.contains(&digest(TOKEN.as_bytes())) && !shown.contains(TOKEN), "{shown}");
    }
}

#[test]
fn a_redisson_lock_reads_like_redis_cli_without_its_threads() {
    let spec = plain_spec("redisson");
    let lock = ask(&spec, &["HSCAN", "outbound:lock"]);
    let shown = said(
        &spec,
        &lock,
        Some(&scan(&["mode", "write", &format!("{CLIENT}:{THREAD}:write"), "1"])),
    );
    assert_eq!(shown.command, "HSCAN outbound:lock 0 COUNT 128");
    let field = format!("   3) \"{CLIENT}:…:write\"");
    assert_eq!(
        shown.reply,
        ["1) \"0\"", "2) 1) \"mode\"", "   2) \"write\"", &field, "   4) \"1\""]
    );
    let strange = said(&spec, &lock, Some(&scan(&["a lock of something else", "x"]))).reply;
    assert_eq!(
        strange[1..],
        ["2) 1) (24 bytes, digest 4b1e4b0a)", "   2) (1 byte, digest 2d711642)"]
            .map(|line| { line.replace("4b1e4b0a", &digest(b"a lock of something else")) })
    );
    let mut readers = ask(&spec, &["EXISTS"]);
    readers.command.args[2] = b"odd".to_vec();
    let shown = said(&spec, &readers, Some(&Reply::Int(1)));
    let odd = format!("(3 bytes, digest {})", digest(b"odd"));
    assert_eq!(
        shown.command,
        format!("EXISTS {{outbound:lock}}:{CLIENT}:…:rwlock_timeout:1 \"{odd}\"")
    );
    assert_eq!(shown.reply, ["(integer) 1"]);
}

#[test]
fn a_token_is_its_digest() {
    let spec = plain_spec("string");
    let token = ask(&spec, &["GETRANGE", "outbound:lock"]);
    let shown = said(&spec, &token, Some(&bytes(TOKEN)));
    assert_eq!(shown.command, "GETRANGE outbound:lock 0 511");
    assert_eq!(shown.reply, [format!("(20 bytes, digest {})", digest(TOKEN.as_bytes()))]);
    let odd = Reply::Array(vec![bytes("secret"), Reply::Int(7), Reply::Nil]);
    let digested = format!("1) (6 bytes, digest {})", digest(b"secret"));
    let shown = said(&spec, &token, Some(&odd)).reply;
    assert_eq!(shown, [&digested, "2) (an integer)", "3) (nil)"]);
    assert!(said(&spec, &token, None).reply.is_empty());
}

#[test]
fn progress_and_claims_show_their_length_and_digest_only() {
    let spec = plain_spec("redisson");
    let progress = ask(&spec, &["GETRANGE", "progress"]);
    let empty = said(&spec, &progress, Some(&bytes("")));
    let progress = said(&spec, &progress, Some(&bytes("card 4929 1234")));
    assert_eq!(progress.reply, [format!("(14 bytes, digest {})", digest(b"card 4929 1234"))]);
    let claims = said(&spec, &ask(&spec, &["HSCAN", "claims"]), Some(&scan(&["srv-a", "private"])));
    assert_eq!(
        claims.reply[1..],
        ["2) 1) \"srv-a\"".to_owned(), format!("   2) (7 bytes, digest {})", digest(b"private"))]
    );
    assert_eq!(empty.reply, ["\"\""]);
}

#[test]
fn the_key_of_the_lock_is_a_secret_whatever_else_it_is_configured_for() {
    let keys = WantedSource::Keys(vec![b"outbound:lock".to_vec()]);
    let mut spec = spec("string", keys, ProgressSource::Key(b"progress".to_vec()));
    spec.paused_until = Some(b"outbound:lock".to_vec());
    spec.hosts = Some(b"outbound:lock".to_vec());
    for ask in all_asks(&Arc::new(spec.clone())) {
        for reply in [bytes(TOKEN), scan(&[TOKEN, TOKEN])] {
            let shown = format!("{:?}", said(&spec, &ask, Some(&reply)));
            assert!(!shown.contains(TOKEN), "{shown}");
        }
    }
}

#[test]
fn switches_are_shown_escaped_and_cut() {
    let spec = plain_spec("redisson");
    let long = "x".repeat(5_000);
    let reply = scan(&["anna \x1b[2J", "o\"n", "\u{202e}bert", &long]);
    let users = ask(&spec, &["HSCAN", "users"]);
    let shown = said(&spec, &users, Some(&reply)).reply;
    assert_eq!(shown[..3], [r#"1) "0""#, r#"2) 1) "anna \x1b[2J""#, r#"   2) "o\"n""#]);
    assert_eq!(shown[3], r#"   3) "\xe2\x80\xaebert""#);
    assert!(shown[4].len() < 220, "{}", shown[4].len());
    let many: Vec<String> = (0..1000).map(|user| format!("user {user}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let shown = said(&spec, &users, Some(&scan(&many))).reply;
    assert_eq!(shown.len(), 1 + ITEMS_MAX + 1);
    assert_eq!(shown.last().unwrap(), "   … 960 more");
}
