//! Reading one task: torn brackets, keys that are no locks, dead readers.

use std::sync::Arc;

use lockwatch_judge::reading::{
    ClaimsReading, Deadline, Ends, LockReading, Mode, PauseReading, ProgressReading, ProgressValue,
    Switch, SwitchesReading, TaskReading, Unknown,
};
use lockwatch_judge::spec::{
    ClaimsSpec, Codec, KindSpec, LockSpec, ProgressSource, ProgressSpec, StoreIndex, TaskSpec,
    ValuePath, WantedSource, WantedSpec,
};
use lockwatch_judge::time::ServerTime;
use lockwatch_watch::redis::accept::{Caps, RoleCheck};
use lockwatch_watch::redis::libraries;
use lockwatch_watch::redis::read::{Round, Scope, TaskRead, keys_beside, known_owner};
use lockwatch_watch::redis::reply::{Command, Reply, ServerError};
use lockwatch_watch::redis::wake_ups::watched_keys;

use crate::truth::rule;

mod field;
mod progress;
mod switches;

const A: &str = "285475da-9152-4c83-822a-67ee2f116a79:42";
const CAPS: Caps = Caps {
    pexpiretime: true,
    hpexpiretime: false,
    role: RoleCheck::Role,
    info: true,
    sharded: false,
};
const OLD: Caps = Caps { pexpiretime: false, ..CAPS };

fn spec(library: &str) -> TaskSpec {
    TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"job", library))
}

fn wanted(source: WantedSource) -> Option<WantedSpec> {
    Some(WantedSpec { source, codec: Codec::Raw })
}

fn text(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

fn error(code: &str) -> Reply {
    Reply::Error(ServerError { code: code.as_bytes().to_vec(), detail: Vec::new() })
}

fn scan(items: &[&str]) -> Reply {
    Reply::Array(vec![text("0"), Reply::Array(items.iter().map(|item| text(item)).collect())])
}

fn lock(deadline: i64, fields: &[&str]) -> Vec<Reply> {
    vec![Reply::Int(deadline), scan(fields), Reply::Int(deadline)]
}

fn free() -> Vec<Reply> {
    lock(-2, &[])
}

/// Answers the rounds in order, checks that there is a reply for each command, and returns the
/// reading.
fn read(spec: TaskSpec, caps: Caps, rounds: &[Vec<Reply>]) -> TaskReading {
    let mut read = TaskRead::new(Arc::new(spec), caps, false, Scope::ALL);
    for (position, replies) in rounds.iter().enumerate() {
        let mut commands: Vec<Command> = Vec::new();
        read.commands(&mut commands);
        assert_eq!(commands.len(), replies.len(), "round {position}: {commands:?}");
        match read.decode(replies) {
            Round::Done(reading) => {
                assert_eq!(position + 1, rounds.len(), "done before all rounds");
                return reading;
            }
            Round::Again(again) => read = again,
        }
    }
    panic!("not done after {} rounds", rounds.len());
}

/// A glance at a lock known as `known`, with these replies; `None`: it must be read whole in the
/// next round.
fn glance(caps: Caps, known: &TaskReading, replies: &[Reply]) -> Option<TaskReading> {
    let LockReading::Held(held) = known.lock().unwrap() else { panic!("{known:?}") };
    let read = TaskRead::new(Arc::new(spec("redisson")), caps, false, Scope::ALL);
    let read = read.glancing_at(held);
    let mut commands: Vec<Command> = Vec::new();
    read.commands(&mut commands);
    assert_eq!(commands.len(), replies.len(), "{commands:?}");
    match read.decode(replies) {
        Round::Done(reading) => Some(reading),
        Round::Again(again) => {
            let mut whole: Vec<Command> = Vec::new();
            again.commands(&mut whole);
            assert_eq!(whole.len(), 3, "{whole:?}");
            None
        }
    }
}

fn held(reading: &TaskReading) -> (Mode, usize, u32, Deadline) {
    match reading.lock().unwrap() {
        LockReading::Held(held) => (held.mode, held.holders.len(), held.ghosts, held.deadline),
        other => panic!("{other:?}"),
    }
}

/// What is written anew with each renewal changes nothing about who holds the lock.
#[test]
fn a_value_path_names_the_holder_and_says_nothing_else() {
    let _rule = rule("1 evidence");
    let path = ValuePath::Json("/owner".into());
    let mut spec = spec("string");
    let KindSpec::Lock(lock) = &mut spec.kind else { panic!("a lock") };
    lock.holder = Some(path.into());
    let of = |deadline, value: &str| {
        let replies = vec![Reply::Int(deadline), text(value), Reply::Int(deadline)];
        read(spec.clone(), CAPS, &[replies]).lock().unwrap().clone()
    };
    for beat in [1, 2] {
        let value = format!(r#"{{"owner":"web-1","beat":{beat}}}"#);
        let LockReading::Held(held) = of(30_000, &value) else { panic!("it is held") };
        assert_eq!((&*held.holders[0].client, held.holders[0].secret), (&b"web-1"[..], false));
    }
    let LockReading::Held(held) = of(-1, r#"{"owner":"jbd14nbLFQS1FR2o"}"#) else { panic!() };
    assert!(held.holders[0].secret, "it may be a token");
    for value in ["", "web-1", r#"{"owner":null}"#, r#"{"Owner":"web-1"}"#] {
        let reading = of(30_000, value);
        assert_eq!(reading, LockReading::Unknown(Unknown::ValuePath), "{value}");
    }
    assert_eq!(of(-2, ""), LockReading::Free);
}

#[test]
fn a_constant_identifies_nobody() {
    let _rule = rule("12 two holders");
    for (value, is_identified) in [("1", false), ("locked", false), ("job", false), ("w-7", true)] {
        let replies = vec![Reply::Int(30_000), text(value), Reply::Int(30_000)];
        let reading = read(spec("string"), CAPS, &[replies]);
        let Some(LockReading::Held(held)) = reading.lock() else { panic!("{value} is held") };
        assert_eq!(held.holders[0].is_identified(), is_identified, "{value}");
    }
}

#[test]
fn value_and_deadline_that_agree_are_one_reading() {
    let _rule = rule("4 bracket");
    let reading = read(spec("redisson"), CAPS, &[lock(30_000, &[A, "1"])]);
    assert_eq!(held(&reading), (Mode::Exclusive, 1, 0, Deadline::At(ServerTime::at(30_000))));
    assert_eq!(read(spec("redisson"), CAPS, &[free()]).lock().unwrap(), &LockReading::Free);
    let reading = read(spec("redisson"), CAPS, &[lock(-1, &[A, "1"])]);
    assert_eq!(held(&reading).3, Deadline::Never);
}

#[test]
fn a_torn_bracket_is_read_again_once_and_then_lacks_only_the_deadline() {
    let _rule = rule("4 bracket");
    let torn = vec![Reply::Int(30_000), scan(&[A, "1"]), Reply::Int(31_000)];
    let calm = lock(31_000, &[A, "1"]);
    let reading = read(spec("redisson"), CAPS, &[torn.clone(), calm]);
    assert_eq!(held(&reading).3, Deadline::At(ServerTime::at(31_000)));
    let reading = read(spec("redisson"), CAPS, &[torn.clone(), torn]);
    assert_eq!(held(&reading), (Mode::Exclusive, 1, 0, Deadline::Torn));
    let released_within = vec![Reply::Int(30_000), scan(&[]), Reply::Int(-2)];
    let reading = read(spec("redisson"), CAPS, &[released_within.clone(), released_within]);
    assert_eq!(reading.lock().unwrap(), &LockReading::Free);
    let taken_within = vec![Reply::Int(-2), scan(&[A, "1"]), Reply::Int(30_000)];
    let reading = read(spec("redisson"), CAPS, &[taken_within.clone(), taken_within]);
    assert_eq!(held(&reading).3, Deadline::Torn);
    // A deadline may belong to the holder before, which has none, or vice versa.
    for (before, after) in [(30_000, -1), (-1, 30_000), (-2, -1)] {
        let within = vec![Reply::Int(before), scan(&[A, "1"]), Reply::Int(after)];
        let reading = read(spec("redisson"), CAPS, &[within.clone(), within]);
        assert_eq!(held(&reading).3, Deadline::Torn, "{before}, then {after}");
    }
}

#[test]
fn a_deadline_that_did_not_move_is_the_same_hold_and_any_other_answer_is_read_whole() {
    let _rule = rule("4 bracket");
    let known = read(spec("redisson"), CAPS, &[lock(30_000, &[A, "1"])]);
    assert_eq!(glance(CAPS, &known, &[Reply::Int(30_000)]).as_ref(), Some(&known));
    for other in [
        Reply::Int(30_001),
        Reply::Int(29_999),
        Reply::Int(-1),
        Reply::Int(-2),
        Reply::Nil,
        error("MOVED"),
    ] {
        assert_eq!(glance(CAPS, &known, std::slice::from_ref(&other)), None, "{other:?}");
    }
}

/// Computed deadlines differ by the time between two commands; "never" is the same for every
/// holder.
#[test]
fn where_a_deadline_tells_no_holder_everything_is_read() {
    let _rule = rule("4 bracket");
    let old = [Reply::Array(vec![Reply::Int(100), Reply::Int(0)]), Reply::Int(30_000)];
    let known = read(spec("redisson"), CAPS, &[lock(130_000, &[A, "1"])]);
    let whole = [&old[..], &[scan(&[A, "1"])], &old].concat();
    assert_eq!(glance(OLD, &known, &whole).as_ref(), Some(&known));
    let persistent = read(spec("redisson"), CAPS, &[lock(-1, &[A, "1"])]);
    assert_eq!(glance(CAPS, &persistent, &lock(-1, &[A, "1"])), Some(persistent.clone()));
}

#[test]
fn waiters_are_asked_for_beside_a_glance_too() {
    let known = read(spec("redisson"), CAPS, &[lock(30_000, &[A, "1"])]);
    let LockReading::Held(held) = known.lock().unwrap() else { panic!("{known:?}") };
    let task = TaskRead::new(Arc::new(spec("redisson")), CAPS, true, Scope::ALL).glancing_at(held);
    let mut commands: Vec<Command> = Vec::new();
    task.commands(&mut commands);
    let names: Vec<&[u8]> = commands.iter().map(|command| &*command.args[0]).collect();
    assert_eq!(names, [&b"PEXPIRETIME"[..], b"PUBSUB", b"LLEN", b"GETRANGE"]);
    let waiters = [Reply::Array(vec![text("channel"), Reply::Int(2)]), Reply::Int(0), Reply::Nil];
    let Round::Done(reading) = task.clone().decode(&[&[Reply::Int(30_000)], &waiters[..]].concat())
    else {
        panic!("asks again")
    };
    assert_eq!((reading.lock(), reading.extras().waiters), (known.lock(), Some(2)));
    let Round::Again(task) = task.decode(&[&[Reply::Int(30_001)], &waiters[..]].concat()) else {
        panic!("believes the holder")
    };
    let whole = [lock(30_001, &[A, "1"]), waiters.to_vec()].concat();
    let Round::Done(reading) = task.decode(&whole) else { panic!("asks once more") };
    assert_eq!(
        (self::held(&reading).3, reading.extras().waiters),
        (Deadline::At(ServerTime::at(30_001)), Some(2))
    );
}

/// Servers that end fields may end the owner's before the key, or never.
const NEWER: Caps = Caps { hpexpiretime: true, ..CAPS };

#[test]
fn a_lock_ends_with_its_key_or_its_owners_field() {
    let _rule = rule("4 bracket");
    let at = |at| Deadline::At(ServerTime::at(at));
    let ends = |end: i64| Reply::Array(vec![Reply::Int(end)]);
    for (key, field, expected) in [
        (-1, ends(40_000), at(40_000)),
        (-1, ends(-1), Deadline::Never),
        (-1, ends(-2), Deadline::Torn),
        (30_000, ends(40_000), at(30_000)),
        (50_000, ends(40_000), at(40_000)),
        (50_000, ends(-1), at(50_000)),
        (50_000, ends(-2), at(50_000)),
        // This user may not ask; then the key alone counts.
        (50_000, error("NOPERM"), at(50_000)),
        (-1, error("NOPERM"), Deadline::Never),
    ] {
        let whole = lock(key, &["owner", "1"]);
        let rounds = [whole.clone(), [whole, vec![field]].concat()];
        let reading = read(spec("hash"), NEWER, &rounds);
        assert_eq!(held(&reading).3, expected, "{key}: {rounds:?}");
    }
}

/// From the second reading of a holder on, one round is enough.
#[test]
fn the_field_of_a_known_owner_is_asked_about_at_once() {
    let whole = |deadline, owner: &str, field: i64| {
        let field = Reply::Array(vec![Reply::Int(field)]);
        [lock(deadline, &[owner, "1"]), vec![field]].concat()
    };
    let first = [lock(50_000, &["a", "1"]), whole(50_000, "a", 40_000)];
    let reading = read(spec("hash"), NEWER, &first);
    let known = known_owner(&spec("hash"), NEWER, &reading).unwrap();
    assert_eq!(known_owner(&spec("hash"), CAPS, &reading), None);
    assert_eq!(known_owner(&spec("string"), NEWER, &reading), None);
    let task = TaskRead::new(Arc::new(spec("hash")), NEWER, false, Scope::ALL);
    let task = task.asking_of_owner(known);
    let Round::Done(reading) = task.clone().decode(&whole(60_000, "a", 55_000)) else {
        panic!("asks again")
    };
    assert_eq!(held(&reading).3, Deadline::At(ServerTime::at(55_000)));
    // What is said of the field of another one says nothing of the new owner's.
    let Round::Again(task) = task.decode(&whole(60_000, "b", -2)) else { panic!("is content") };
    let Round::Done(reading) = task.decode(&whole(60_000, "b", 20_000)) else { panic!("again") };
    assert_eq!(held(&reading).3, Deadline::At(ServerTime::at(20_000)));
}

/// A glance confirms a key that ends first. A field that ends first needs a whole reading.
#[test]
fn a_glance_is_enough_where_the_key_ends_first() {
    for (field, is_enough) in [(70_000, true), (40_000, false)] {
        let whole = lock(50_000, &["a", "1"]);
        let field = Reply::Array(vec![Reply::Int(field)]);
        let asked = [whole, vec![field]].concat();
        let reading = read(spec("hash"), NEWER, &[lock(50_000, &["a", "1"]), asked.clone()]);
        let known = known_owner(&spec("hash"), NEWER, &reading).unwrap();
        let task = TaskRead::new(Arc::new(spec("hash")), NEWER, false, Scope::ALL);
        match task.glancing_at(known).decode(&[Reply::Int(50_000)]) {
            Round::Done(again) => assert!(is_enough && again.lock() == reading.lock()),
            Round::Again(task) => {
                assert!(!is_enough);
                let Round::Done(again) = task.decode(&asked) else { panic!("asks again") };
                assert_eq!(again.lock(), reading.lock());
            }
        }
    }
}

/// Further details take another round as before, and the lock is read again with them.
#[test]
fn a_glance_beside_a_length_is_followed_by_a_whole_reading() {
    let progress = ProgressSpec {
        source: ProgressSource::Length(b"queue".to_vec()),
        moves: None,
        stale_after_ms: 60_000,
    };
    let spec = Arc::new(TaskSpec { progress: Some(progress.into()), ..spec("redisson") });
    let known = read(self::spec("redisson"), CAPS, &[lock(30_000, &[A, "1"])]);
    let LockReading::Held(held) = known.lock().unwrap() else { panic!("{known:?}") };
    let task = TaskRead::new(spec, CAPS, false, Scope::ALL).glancing_at(held);
    let Round::Again(task) = task.decode(&[Reply::Int(30_000), text("list"), Reply::Int(-1)])
    else {
        panic!("the length is not known")
    };
    let mut commands: Vec<Command> = Vec::new();
    task.commands(&mut commands);
    let names: Vec<&[u8]> = commands.iter().map(|command| &*command.args[0]).collect();
    let ends = &b"PEXPIRETIME"[..];
    assert_eq!(names, [ends, b"HSCAN", ends, b"TYPE", ends, b"LLEN"]);
    let replies =
        [lock(40_000, &[A, "1"]), vec![text("list"), Reply::Int(-1), Reply::Int(7)]].concat();
    let Round::Done(reading) = task.decode(&replies) else { panic!("asks again") };
    assert_eq!(self::held(&reading).3, Deadline::At(ServerTime::at(40_000)));
    assert_eq!(
        reading.parts.progress,
        Some(ProgressReading::Value(ProgressValue::lasting(b"7".to_vec())))
    );
}

#[test]
fn without_pexpiretime_two_milliseconds_of_difference_are_one_deadline() {
    let _rule = rule("4 bracket");
    let at =
        |seconds: i64, micros: i64| Reply::Array(vec![Reply::Int(seconds), Reply::Int(micros)]);
    let bracket = |first_left: i64, second_at: i64, second_left: i64| {
        vec![
            at(100, 0),
            Reply::Int(first_left),
            scan(&[A, "1"]),
            at(100, second_at),
            Reply::Int(second_left),
        ]
    };
    let reading = read(spec("redisson"), OLD, &[bracket(30_000, 1_000, 30_001)]);
    assert_eq!(held(&reading).3, Deadline::At(ServerTime::at(130_002)));
    let reading = read(spec("redisson"), OLD, &[bracket(30_002, 2_000, 29_998)]);
    assert_eq!(
        held(&reading).3,
        Deadline::At(ServerTime::at(130_002)),
        "the later one is less wrong"
    );
    let torn = [bracket(30_000, 1_000, 30_002), bracket(30_000, 1_000, 29_999)];
    assert_eq!(held(&read(spec("redisson"), OLD, &torn)).3, Deadline::At(ServerTime::at(130_000)));
    // 27 ms per command: the remaining time is always read that much later than the clock, so the
    // computed deadline is too early.
    let slow = || bracket(29_973, 54_000, 29_919);
    let reading = read(spec("redisson"), OLD, &[slow(), slow()]);
    assert_eq!(held(&reading).3, Deadline::Torn, "nobody can tell by how much");
}

#[test]
fn a_refusal_concerns_this_task_only_and_keeps_its_reason() {
    let _rule = rule("1 evidence");
    for (code, why) in [
        ("NOPERM", Unknown::NoPermission),
        ("WRONGTYPE", Unknown::WrongType),
        ("LOADING", Unknown::Loading),
    ] {
        let replies = vec![Reply::Int(30_000), error(code), Reply::Int(30_000)];
        assert_eq!(
            read(spec("redisson"), CAPS, &[replies]).lock().unwrap(),
            &LockReading::Unknown(why)
        );
        let replies = vec![error(code), scan(&[]), error(code)];
        assert_eq!(
            read(spec("redisson"), CAPS, &[replies]).lock().unwrap(),
            &LockReading::Unknown(why)
        );
    }
}

#[test]
fn a_missing_reply_is_never_a_free_lock() {
    let _rule = rule("1 evidence");
    let task = TaskRead::new(Arc::new(spec("redisson")), CAPS, false, Scope::ALL);
    match task.decode(&[]) {
        Round::Done(reading) => {
            assert_eq!(reading.lock().unwrap(), &LockReading::Unknown(Unknown::Protocol))
        }
        Round::Again(_) => panic!("asks again"),
    }
}

#[test]
fn a_token_may_be_empty_but_not_absent() {
    let bracket =
        |deadline: i64, token: &str| vec![Reply::Int(deadline), text(token), Reply::Int(deadline)];
    assert_eq!(read(spec("string"), CAPS, &[bracket(-2, "")]).lock().unwrap(), &LockReading::Free);
    assert_eq!(held(&read(spec("string"), CAPS, &[bracket(9_000, "")])).1, 1);
    assert_eq!(held(&read(spec("string"), CAPS, &[bracket(9_000, "t")])).1, 1);
}

/// `GETRANGE` gives the same reply for an absent key and an empty value. A lock taken or handed
/// over during the read must not get a holder with an empty name.
#[test]
fn a_token_that_was_read_between_two_holds_is_nobodys() {
    let _rule = rule("4 bracket");
    let taken_within = vec![Reply::Int(-2), text(""), Reply::Int(30_000)];
    let handed_over_within = vec![Reply::Int(20_000), text(""), Reply::Int(30_000)];
    for torn in [taken_within, handed_over_within] {
        let reading = read(spec("string"), CAPS, &[torn.clone(), torn]);
        assert_eq!(reading.lock().unwrap(), &LockReading::Free);
    }
}

#[test]
fn dead_readers_are_ghosts() {
    let main = lock(30_000, &["mode", "read", "a:1", "1", "b:2", "2"]);
    // Everything is read again together with the requests that needed the first answers.
    let with = |answers: [Reply; 2]| [main.clone(), answers.to_vec()].concat();
    let living = with([Reply::Int(1), Reply::Int(0)]);
    let reading = read(spec("redisson"), CAPS, &[main.clone(), living]);
    assert_eq!(held(&reading), (Mode::Read, 1, 1, Deadline::At(ServerTime::at(30_000))));
    // A refusal is no evidence against a reader.
    let refused = with([error("NOPERM"), error("NOPERM")]);
    let reading = read(spec("redisson"), CAPS, &[main.clone(), refused]);
    assert_eq!(held(&reading), (Mode::Read, 2, 0, Deadline::At(ServerTime::at(30_000))));
}

/// A reading counts from the instant at which its batch was sent, so parts of an earlier batch must
/// not be combined with a later one.
#[test]
fn a_second_round_reads_the_lock_again() {
    let source = ProgressSource::Length(b"q".to_vec());
    let spec = TaskSpec {
        progress: Some(ProgressSpec { source, moves: None, stale_after_ms: 1 }.into()),
        ..spec("redisson")
    };
    let first = [lock(30_000, &["a:1", "1"]), vec![text("list"), Reply::Int(-1)]].concat();
    let second = [free(), vec![text("list"), Reply::Int(-1), Reply::Int(3)]].concat();
    let reading = read(spec, CAPS, &[first, second]);
    assert_eq!(reading.lock().unwrap(), &LockReading::Free);
    assert_eq!(
        reading.parts.progress,
        Some(ProgressReading::Value(ProgressValue::lasting(b"3".to_vec())))
    );
}

/// They are requested only in the first round, and reported with the second.
#[test]
fn waiters_and_hosts_of_a_read_lock_are_told() {
    let spec = TaskSpec { hosts: Some(b"hosts".to_vec()), ..spec("redisson") };
    let main = lock(30_000, &["mode", "read", "a:1", "1"]);
    let read = TaskRead::new(Arc::new(spec), CAPS, true, Scope::ALL);
    let mut commands = Vec::new();
    read.commands(&mut commands);
    let extras = commands.iter().skip(main.len()).map(|command| match command.args[0].as_slice() {
        b"HSCAN" => scan(&["a", "wms-1"]),
        b"PUBSUB" => Reply::Array(vec![text("channel"), Reply::Int(2)]),
        _ => Reply::Nil,
    });
    let replies: Vec<Reply> = main.iter().cloned().chain(extras).collect();
    let Round::Again(again) = read.decode(&replies) else { panic!("no second round") };
    let Round::Done(reading) = again.decode(&[main, vec![Reply::Int(1)]].concat()) else {
        panic!("a third round")
    };
    assert_eq!(reading.extras().waiters, Some(2));
    assert_eq!(reading.parts.hosts, Some(Ok(vec![(b"a".to_vec(), b"wms-1".to_vec())])));
}

#[test]
fn deadlines_beyond_all_reason_do_not_overflow() {
    for deadline in [i64::MAX, 1_000_000_000_000_000] {
        let reading = read(spec("redisson"), CAPS, &[lock(deadline, &[A, "1"])]);
        let Deadline::At(at) = held(&reading).3 else { panic!() };
        assert!(at.ms() >= 1_000_000_000_000_000);
    }
    let at = Reply::Array(vec![Reply::Int(i64::MAX / 1_000), Reply::Int(0)]);
    let replies = vec![at.clone(), Reply::Int(i64::MAX), scan(&[A, "1"]), at, Reply::Int(i64::MAX)];
    assert!(matches!(held(&read(spec("redisson"), OLD, &[replies])).3, Deadline::At(_)));
}

#[test]
fn a_claim_lives_whichever_of_its_bytes_change() {
    let claim = |count: u32| {
        let spec = TaskSpec {
            claims: Some(ClaimsSpec { key: b"claims".to_vec(), fresh_for_ms: 10_000 }.into()),
            ..spec("redisson")
        };
        let value = format!("{}{count:08}{}", "x".repeat(700), "y".repeat(700));
        read(spec, CAPS, &[[free(), vec![scan(&["a", &value])]].concat()]).parts.claims
    };
    assert_ne!(claim(1), claim(2));
    assert_eq!(claim(1), claim(1));
}

#[test]
fn hosts_are_read_or_it_is_known_why_not() {
    let spec = Arc::new(TaskSpec { hosts: Some(b"hosts".to_vec()), ..spec("string") });
    let hosts = |reply: Reply| {
        let read = TaskRead::new(Arc::clone(&spec), CAPS, true, Scope::BESIDE);
        match read.decode(&[reply]) {
            Round::Done(reading) => reading.parts.hosts,
            Round::Again(_) => panic!("not done"),
        }
    };
    assert_eq!(hosts(scan(&["a", "wms-1"])), Some(Ok(vec![(b"a".to_vec(), b"wms-1".to_vec())])));
    assert_eq!(hosts(error("NOPERM")), Some(Err(Unknown::NoPermission)));
    assert_eq!(hosts(error("WRONGTYPE")), Some(Err(Unknown::WrongType)));
}

/// Redisson's maps encode their fields with a codec by default. The token of a string lock may be
/// any bytes.
#[test]
fn an_instance_of_redisson_is_known_by_its_id_whatever_codec_wrote_it() {
    const ID: &str = "94490502-0a74-42da-9539-90365a8e5c0b";
    let bytes = |parts: [&[u8]; 2]| Reply::Bytes(parts.concat());
    let kryo5 = bytes([&[3, 0x80 | 37], ID.as_bytes()]);
    let jdk = bytes([b"\xac\xed\x00\x05t\x00\x24", ID.as_bytes()]);
    let json = text(&format!("\"{ID}\""));
    for id in [text(ID), kryo5, jdk, json] {
        let hash =
            |value: Reply| Reply::Array(vec![text("0"), Reply::Array(vec![id.clone(), value])]);
        let spec = TaskSpec {
            claims: Some(ClaimsSpec { key: b"claims".to_vec(), fresh_for_ms: 10_000 }.into()),
            hosts: Some(b"hosts".to_vec()),
            ..spec("redisson")
        };
        let claims =
            read(spec.clone(), CAPS, &[[free(), vec![hash(text("7"))]].concat()]).parts.claims;
        assert_eq!(claims, Some(ClaimsReading::Read(vec![(ID.into(), b"7".to_vec())])), "{id:?}");
        let hosts =
            TaskRead::new(Arc::new(TaskSpec { claims: None, ..spec }), CAPS, true, Scope::BESIDE);
        let Round::Done(reading) = hosts.decode(&[hash(Reply::Bytes(b"\x03wms-\xb1".to_vec()))])
        else {
            panic!("not done")
        };
        assert_eq!(reading.parts.hosts, Some(Ok(vec![(ID.into(), b"wms-1".to_vec())])), "{id:?}");
    }
    let spec = TaskSpec {
        claims: Some(ClaimsSpec { key: b"claims".to_vec(), fresh_for_ms: 10_000 }.into()),
        ..spec("string")
    };
    let claims =
        read(spec, CAPS, &[[free(), vec![scan(&["\"token\"", "7"])]].concat()]).parts.claims;
    assert_eq!(claims, Some(ClaimsReading::Read(vec![(b"\"token\"".to_vec(), b"7".to_vec())])));
}

#[test]
fn claims_and_pause_come_in_the_same_batch() {
    let spec = TaskSpec {
        claims: Some(ClaimsSpec { key: b"claims".to_vec(), fresh_for_ms: 10_000 }.into()),
        paused_until: Some(b"pause".to_vec()),
        ..spec("redisson")
    };
    let mut round = free();
    round.extend([scan(&["b", "2", "a", "1"]), text("1970-01-01T00:00:09Z")]);
    let reading = read(spec, CAPS, &[round]);
    let claims = vec![(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())];
    assert_eq!(reading.parts.claims, Some(ClaimsReading::Read(claims)));
    assert_eq!(reading.parts.pause, Some(PauseReading::Until(ServerTime::at(9_000))));
}

/// Parts are on different servers in a cluster, so any of them may be requested without the others.
#[test]
fn each_part_that_is_asked_for_gets_its_own_answer() {
    let spec = Arc::new(TaskSpec {
        wanted: wanted(WantedSource::Hash(b"users".to_vec())),
        progress: Some(
            ProgressSpec {
                source: ProgressSource::Key(b"progress".to_vec()),
                moves: None,
                stale_after_ms: 1_000,
            }
            .into(),
        ),
        claims: Some(ClaimsSpec { key: b"claims".to_vec(), fresh_for_ms: 10_000 }.into()),
        paused_until: Some(b"pause".to_vec()),
        hosts: Some(b"hosts".to_vec()),
        ..spec("redisson")
    });
    let answer = |command: &Command| match command
        .args
        .iter()
        .map(Vec::as_slice)
        .take(2)
        .collect::<Vec<_>>()[..]
    {
        [b"PEXPIRETIME", b"job"] => Reply::Int(30_000),
        [b"PEXPIRETIME", b"users"] => Reply::Int(-1),
        [b"HSCAN", b"job"] => scan(&["a:1", "1"]),
        [b"HSCAN", b"users"] => scan(&["anna", "1"]),
        [b"HSCAN", b"claims"] => scan(&["b:2", "7"]),
        [b"HSCAN", b"hosts"] => scan(&["a", "wms-1"]),
        [b"STRLEN", b"progress"] => Reply::Int(3),
        [b"GETRANGE", b"progress"] => text("two"),
        [b"PEXPIRETIME", b"progress"] => Reply::Int(-1),
        [b"GETRANGE", b"pause"] => text("1970-01-01T00:00:09Z"),
        [b"PUBSUB", _] => Reply::Array(vec![text("channel"), Reply::Int(2)]),
        [b"LLEN", _] => Reply::Int(0),
        [b"GETRANGE", _] => text("5"),
        _ => panic!("{command:?}"),
    };
    let told = |scope: Scope, with_extras: bool| {
        let read = TaskRead::new(Arc::clone(&spec), CAPS, with_extras, scope);
        let mut commands = Vec::new();
        read.commands(&mut commands);
        let replies: Vec<Reply> = commands.iter().map(answer).collect();
        let Round::Done(reading) = read.decode(&replies) else {
            panic!("a second round of {scope:?}")
        };
        let parts = &reading.parts;
        assert!(
            parts
                .switches
                .as_ref()
                .is_none_or(|read| switches::states(read) == [("anna".to_owned(), Some(true))])
        );
        assert!(matches!(&parts.progress, None | Some(ProgressReading::Value(_))), "{parts:?}");
        assert!(
            parts.claims.as_ref().is_none_or(|read| matches!(read, ClaimsReading::Read(_))),
            "{parts:?}"
        );
        assert!(
            parts
                .pause
                .as_ref()
                .is_none_or(|read| *read == PauseReading::Until(ServerTime::at(9_000)))
        );
        assert!(
            parts
                .hosts
                .as_ref()
                .is_none_or(|read| *read == Ok(vec![(b"a".to_vec(), b"wms-1".to_vec())]))
        );
        let held = match reading.lock().unwrap() {
            LockReading::Held(_) => true,
            LockReading::Unknown(Unknown::NotReadYet) => false,
            other => panic!("{other:?}"),
        };
        let parts = [
            held,
            parts.switches.is_some(),
            parts.progress.is_some(),
            parts.claims.is_some(),
            parts.pause.is_some(),
            parts.hosts.is_some(),
        ];
        (parts, reading.extras().waiters, reading.extras().fencing_token)
    };
    let [lock, hosts] = [0, 5];
    let alone = scopes(&spec).into_iter().zip(1..);
    let alone = alone.map(|((_, scope), part)| (scope, [part].to_vec()));
    let several = [
        (Scope::ALL, vec![0, 1, 2, 3, 4, 5]),
        (Scope::BESIDE, vec![1, 2, 3, 4, 5]),
        (Scope::GUARD, vec![0]),
    ];
    for (scope, parts) in alone.chain(several) {
        let extras = if parts.contains(&lock) { (Some(2), Some(5)) } else { (None, None) };
        let mut expected = [0, 1, 2, 3, 4, 5].map(|part| parts.contains(&part));
        assert_eq!(told(scope, true), (expected, extras.0, extras.1));
        expected[hosts] = false;
        assert_eq!(told(scope, false), (expected, None, None));
    }
}

/// Each key besides the lock's, with the scope of its part.
fn scopes(spec: &TaskSpec) -> Vec<(String, Scope)> {
    let text = |(key, scope)| (String::from_utf8(key).unwrap(), scope);
    keys_beside(spec).into_iter().map(text).collect()
}

/// The keys on another server than the lock can fail separately. Then each configured part there is
/// unknown, and no other one.
#[test]
fn what_cannot_be_read_where_it_lives_is_unknown() {
    let _rule = rule("1 evidence");
    let why = Unknown::Timeout;
    let full = TaskSpec {
        wanted: wanted(WantedSource::Hash(b"users".to_vec())),
        progress: Some(
            ProgressSpec {
                source: ProgressSource::Length(b"progress".to_vec()),
                moves: None,
                stale_after_ms: 1_000,
            }
            .into(),
        ),
        claims: Some(ClaimsSpec { key: b"claims".to_vec(), fresh_for_ms: 10_000 }.into()),
        paused_until: Some(b"pause".to_vec()),
        ..spec("redisson")
    };
    let unreadable = |scope: Scope, spec: &TaskSpec| {
        let parts = scope.unreadable(spec, why);
        assert_eq!(parts.hosts, None, "host names are for people: nothing is unknown without them");
        (parts.switches, parts.progress, parts.claims, parts.pause)
    };
    let switches = || Some(SwitchesReading::Unknown(why));
    let progress = || Some(ProgressReading::Unknown(why));
    let claims = || Some(ClaimsReading::Unknown(why));
    let pause = || Some(PauseReading::Unknown(why));
    assert_eq!(unreadable(Scope::ALL, &full), (switches(), progress(), claims(), pause()));
    assert_eq!(unreadable(Scope::BESIDE, &full), unreadable(Scope::ALL, &full));
    assert_eq!(unreadable(Scope::GUARD, &full), (None, None, None, None));
    let alone = |scope: Scope| unreadable(scope, &full);
    let scopes = scopes(&full);
    let keys: Vec<&str> = scopes.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["users", "progress", "claims", "pause"]);
    assert_eq!(alone(scopes[0].1), (switches(), None, None, None));
    assert_eq!(alone(scopes[1].1), (None, progress(), None, None));
    assert_eq!(alone(scopes[2].1), (None, None, claims(), None));
    assert_eq!(alone(scopes[3].1), (None, None, None, pause()));
    assert_eq!(
        unreadable(Scope::ALL, &spec("redisson")),
        (None, None, None, None),
        "nothing is configured"
    );
    for always in [WantedSource::Always, WantedSource::Never] {
        let spec = TaskSpec { wanted: wanted(always), ..spec("redisson") };
        assert_eq!(unreadable(Scope::ALL, &spec).0, None, "no switch is read for that");
    }
}
