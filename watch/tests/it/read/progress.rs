//! Progress: whatever bytes change, and when they end.

use super::*;

/// The value before a deadline: of the key, in the first and in later rounds.
const ENDS: i64 = 1_800_000_006_000;

fn task(source: ProgressSource) -> TaskSpec {
    let progress = ProgressSpec { source, moves: None, stale_after_ms: 1 };
    TaskSpec { progress: Some(progress.into()), ..spec("redisson") }
}

/// The reading of the progress for these parts of the rounds. A free lock is before each.
fn with(caps: Caps, source: ProgressSource, parts: &[Vec<Reply>]) -> ProgressReading {
    let mut rounds: Vec<Vec<Reply>> = parts.to_vec();
    let time = || Reply::Array(vec![Reply::Int(1_800_000_000), Reply::Int(0)]);
    let free = || match caps.pexpiretime {
        true => free(),
        false => vec![time(), Reply::Int(-2), scan(&[]), time(), Reply::Int(-2)],
    };
    rounds.iter_mut().for_each(|round| drop(round.splice(0..0, free())));
    read(task(source), caps, &rounds).parts.progress.expect("progress")
}

/// The same of keys that never end.
fn progress(source: ProgressSource, parts: &[Vec<Reply>]) -> ProgressReading {
    let forever = |part: &Vec<Reply>| {
        let at = part.len().min(if matches!(source, ProgressSource::Key(_)) { 2 } else { 1 });
        [&part[..at], &[Reply::Int(-1)], &part[at..]].concat()
    };
    let parts: Vec<_> = parts.iter().map(forever).collect();
    with(CAPS, source, &parts)
}

fn lasting(bytes: &str) -> ProgressReading {
    ProgressReading::Value(ProgressValue::lasting(bytes.as_bytes().to_vec()))
}

fn key() -> ProgressSource {
    ProgressSource::Key(b"p".to_vec())
}

fn field() -> ProgressSource {
    ProgressSource::HashField { key: b"stats".to_vec(), field: b"last_run".to_vec() }
}

fn commands(caps: Caps, source: ProgressSource) -> Vec<Command> {
    let mut commands = Vec::new();
    TaskRead::new(Arc::new(task(source)), caps, false, Scope::BESIDE).commands(&mut commands);
    commands
}

/// A key that was deleted between the rounds has no length, whatever the reply to the command for a
/// list.
#[test]
fn a_queue_that_is_gone_in_the_second_round_is_absent() {
    let _rule = rule("9 stalls");
    let length = || ProgressSource::Length(b"q".to_vec());
    let parts = [vec![text("list")], vec![text("none"), Reply::Int(0)]];
    assert_eq!(progress(length(), &parts), ProgressReading::Absent);
}

/// Redisson's maps write the names of their fields with the map's codec.
#[test]
fn a_field_of_progress_is_found_by_the_name_that_a_serializer_gives_it() {
    let commands = commands(CAPS, field());
    let asked = commands.iter().find(|command| command.args[0] == b"HMGET").expect("a field");
    let names: Vec<&[u8]> = asked.args[2..].iter().map(Vec::as_slice).collect();
    let jdk = b"\xac\xed\x00\x05t\x00\x08last_run";
    assert_eq!(
        names,
        [&b"last_run"[..], b"\"last_run\"", b"\x03last_ru\xee", jdk, b"'last_run'", b"last_run\n"]
    );
    for place in 0..6 {
        let mut values = vec![Reply::Nil; 6];
        values[place] = text("7");
        let reading = progress(field(), &[vec![Reply::Array(values)]]);
        assert_eq!(reading, lasting("7"), "{place}");
    }
}

#[test]
fn progress_is_whatever_bytes_change() {
    let found = |value: Reply| vec![Reply::Array(vec![value, Reply::Nil, Reply::Nil, Reply::Nil])];
    assert_eq!(progress(field(), &[found(text("7"))]), lasting("7"));
    assert_eq!(progress(field(), &[found(Reply::Nil)]), ProgressReading::Absent);
    assert_eq!(
        progress(field(), &[vec![error("WRONGTYPE")]]),
        ProgressReading::Unknown(Unknown::WrongType)
    );
    let long =
        |last: &str| progress(field(), &[found(text(&format!("{}{last}", "x".repeat(5_000))))]);
    assert_ne!(long("a"), long("b"));
    let string = |length: i64, beginning: &str| {
        progress(key(), &[vec![Reply::Int(length), text(beginning)]])
    };
    for [length, beginning] in [[error("NOPERM"), text("")], [Reply::Int(3), error("NOPERM")]] {
        let reading = progress(key(), &[vec![length, beginning]]);
        assert_eq!(
            reading,
            ProgressReading::Unknown(Unknown::NoPermission),
            "one of both is refused"
        );
    }
    assert_ne!(string(300, "same beginning"), string(301, "same beginning"));
    // A status document: the change may be anywhere, and the length stays the same.
    let document = |count: u32| format!("{}{count:08}{}", "x".repeat(700), "y".repeat(700));
    let (before, after) = (document(1), document(2));
    assert_ne!(
        progress(field(), &[found(text(&before))]),
        progress(field(), &[found(text(&after))])
    );
    assert_ne!(string(1_408, &before), string(1_408, &after));
    assert_eq!(string(1_408, &before), string(1_408, &before));
    let length = |parts: &[Vec<Reply>]| progress(ProgressSource::Length(b"q".to_vec()), parts);
    for kind in ["list", "set", "zset"] {
        let told = length(&[vec![text(kind)], vec![text(kind), Reply::Int(9)]]);
        assert_eq!(told, lasting("9"), "{kind}");
    }
    assert_eq!(length(&[vec![error("NOPERM")]]), ProgressReading::Unknown(Unknown::NoPermission));
    assert_eq!(length(&[vec![text("none")]]), ProgressReading::Absent);
    assert_eq!(length(&[vec![text("string")]]), ProgressReading::Unknown(Unknown::WrongType));
    assert_eq!(
        length(&[vec![text("stream")], vec![text("stream"), error("NOPERM")]]),
        ProgressReading::Unknown(Unknown::NoPermission)
    );
}

/// The reply to `XINFO STREAM` of a stream kept at 100 entries.
fn stream(added: &str) -> Reply {
    Reply::Array(vec![
        text("length"),
        Reply::Int(100),
        text("last-generated-id"),
        text("1800000000000-0"),
        text(added),
        Reply::Int(7_300),
        text("first-entry"),
        Reply::Array(vec![text("1-0"), Reply::Array(vec![text("entries-added"), text("1")])]),
    ])
}

/// One that is kept at a length never changes it.
#[test]
fn a_stream_counts_what_was_added_however_it_is_configured() {
    let of_stream = |reply: Reply| progress(ProgressSource::Stream(b"q".to_vec()), &[vec![reply]]);
    assert_eq!(of_stream(stream("entries-added")), lasting("7300"));
    assert_eq!(of_stream(stream("entries")), lasting("1800000000000-0"), "before Redis 7.0");
    let length = |reply| {
        let parts = [vec![text("stream")], vec![text("stream"), reply]];
        progress(ProgressSource::Length(b"q".to_vec()), &parts)
    };
    assert_eq!(length(stream("entries-added")), lasting("7300"));
    let missing = ServerError { code: b"ERR".to_vec(), detail: b"no such key".to_vec() };
    assert_eq!(of_stream(Reply::Error(missing)), ProgressReading::Absent);
    assert_eq!(of_stream(error("WRONGTYPE")), ProgressReading::Unknown(Unknown::WrongType));
    let odd = Reply::Array(vec![text("length"), Reply::Int(3)]);
    assert_eq!(of_stream(odd), ProgressReading::Unknown(Unknown::Protocol));
}

#[test]
fn a_member_counts_by_its_score() {
    let score = |reply| {
        let source = ProgressSource::Score { key: b"beats".to_vec(), member: b"w-1".to_vec() };
        progress(source, &[vec![reply]])
    };
    assert_eq!(score(text("1800000000.25")), lasting("1800000000.25"));
    assert_eq!(score(Reply::Nil), ProgressReading::Absent);
    assert_eq!(score(error("WRONGTYPE")), ProgressReading::Unknown(Unknown::WrongType));
}

fn ends(reading: &ProgressReading) -> (Result<Deadline, Unknown>, Deadline) {
    match reading {
        ProgressReading::Value(value) => (value.own, value.whole),
        other => panic!("{other:?}"),
    }
}

/// That of a string is its value's own. A hash, list, set or stream may have one that says nothing
/// of the single value.
#[test]
fn the_deadline_is_read_with_the_value() {
    let at = Deadline::At(ServerTime::at(ENDS));
    let string = |caps, rest: &[Reply]| {
        let round = [vec![Reply::Int(1), text("1")], rest.to_vec()].concat();
        ends(&with(caps, key(), &[round]))
    };
    assert_eq!(string(CAPS, &[Reply::Int(ENDS)]), (Ok(at), Deadline::Never));
    assert_eq!(string(CAPS, &[Reply::Int(-1)]), (Ok(Deadline::Never), Deadline::Never));
    assert_eq!(string(CAPS, &[error("NOPERM")]).0, Err(Unknown::NoPermission));
    // It ended while it was read.
    assert_eq!(string(CAPS, &[Reply::Int(-2)]).0, Ok(Deadline::Torn));
    let time = |ms: i64| Reply::Array(vec![Reply::Int(1_800_000_000), Reply::Int(ms * 1_000)]);
    assert_eq!(string(OLD, &[time(0), Reply::Int(6_000), time(1)]).0, Ok(at));
    assert_eq!(string(OLD, &[time(0), Reply::Int(6_000), time(3)]).0, Ok(Deadline::Torn));
    assert_eq!(string(OLD, &[time(0), Reply::Int(-1), time(9)]).0, Ok(Deadline::Never));
    let parts =
        [vec![text("list"), Reply::Int(ENDS)], vec![text("list"), Reply::Int(ENDS), Reply::Int(9)]];
    let list = with(CAPS, ProgressSource::Length(b"q".to_vec()), &parts);
    assert_eq!(ends(&list), (Ok(Deadline::Never), at));
}

/// An empty string has no bytes. Its deadline shows that it is there.
#[test]
fn an_empty_heartbeat_is_one() {
    let string = |deadline: Reply| with(CAPS, key(), &[vec![Reply::Int(0), text(""), deadline]]);
    assert_eq!(string(Reply::Int(-2)), ProgressReading::Absent);
    assert_eq!(string(error("NOPERM")), ProgressReading::Absent);
    let (own, _) = ends(&string(Reply::Int(ENDS)));
    assert_eq!(own, Ok(Deadline::At(ServerTime::at(ENDS))));
    assert_eq!(string(Reply::Int(-1)), lasting(""));
}

/// Redis 7.4 and Valkey 9 have them; other servers are not asked.
#[test]
fn a_field_may_have_a_deadline_of_its_own() {
    let new = Caps { hpexpiretime: true, ..CAPS };
    let name = |commands: Vec<Command>| -> Vec<Vec<u8>> {
        commands.into_iter().map(|command| command.args[0].clone()).collect()
    };
    assert_eq!(name(commands(CAPS, field())), [&b"HMGET"[..], b"PEXPIRETIME"]);
    let asked = commands(new, field());
    assert_eq!(asked[1].args[..5], [&b"HPEXPIRETIME"[..], b"stats", b"FIELDS", b"6", b"last_run"]);
    let value = |deadline: Reply| {
        let values = Reply::Array(vec![Reply::Nil, text("1"), Reply::Nil]);
        with(new, field(), &[vec![values, deadline, Reply::Int(-1)]])
    };
    let of = |all: [i64; 3]| Reply::Array(all.map(Reply::Int).to_vec());
    let at = Deadline::At(ServerTime::at(ENDS));
    assert_eq!(ends(&value(of([-2, ENDS, -2]))), (Ok(at), Deadline::Never));
    assert_eq!(ends(&value(of([-2, -1, -2]))).0, Ok(Deadline::Never));
    assert_eq!(ends(&value(error("NOPERM"))).0, Err(Unknown::NoPermission));
    assert_eq!(ends(&value(Reply::Array(Vec::new()))).0, Err(Unknown::Protocol));
}

/// The read covers as many bytes of a string as are compared.
#[test]
fn a_status_document_in_a_string_is_read_whole() {
    let asked = commands(CAPS, key());
    assert!(asked.contains(&Command::new(["GETRANGE", "p", "0", "16383"])), "{asked:?}");
}
