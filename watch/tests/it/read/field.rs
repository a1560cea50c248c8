//! A lock that is a field of a hash.

use super::*;

const WITH_TTLS: Caps = Caps { hpexpiretime: true, ..CAPS };

fn of(holder: Option<ValuePath>, host: Option<ValuePath>) -> TaskSpec {
    let lock = LockSpec {
        field: Some(b"h.lock.nightly".to_vec()),
        holder: holder.map(Box::new),
        host: host.map(Box::new),
        ..libraries::lock(b"huey.results.h", "string")
    };
    TaskSpec::new("outbound", StoreIndex(0), lock)
}

fn size(exists: i64, length: i64) -> Vec<Reply> {
    vec![Reply::Int(exists), Reply::Int(length)]
}

/// The second round: the value between two readings of the hash's deadline.
fn value(ends: i64, value: Reply) -> Vec<Reply> {
    vec![Reply::Int(ends), value, Reply::Int(ends)]
}

/// The same, with the deadline of the field.
fn value_with_ttl(hash: i64, field: i64, value: Reply) -> Vec<Reply> {
    let ends = || [Reply::Int(hash), Reply::Array(vec![Reply::Int(field)])];
    ends().into_iter().chain([value]).chain(ends()).collect()
}

fn unknown(why: Unknown) -> LockReading {
    LockReading::Unknown(why)
}

#[track_caller]
fn lock_of(caps: Caps, rounds: &[Vec<Reply>]) -> LockReading {
    read(of(None, None), caps, rounds).lock().unwrap().clone()
}

/// The hash stays when the lock is released: it has the results of tasks, too.
#[test]
fn an_absent_field_is_free_whatever_becomes_of_the_hash() {
    let _rule = rule("1 evidence");
    assert_eq!(lock_of(CAPS, &[size(0, 0)]), LockReading::Free);
    for ends in [-1, 30_000] {
        let rounds = [size(1, 16), value(ends, Reply::Nil)];
        assert_eq!(lock_of(CAPS, &rounds), LockReading::Free, "it went between the rounds");
    }
}

#[test]
fn an_empty_field_is_held() {
    let rounds = [size(1, 0), value(-1, text(""))];
    let LockReading::Held(held) = lock_of(CAPS, &rounds) else { panic!("it is held") };
    assert!(!held.holders[0].is_identified());
}

/// As the real huey writes it.
#[test]
fn hueys_value_identifies_nobody() {
    let line = include_str!("../../fixtures/huey.txt").lines().find(|line| !line.starts_with('#'));
    let columns: Vec<&str> = line.unwrap().split('\t').collect();
    let [_, ttl, field, hex] = columns.as_slice() else { panic!("{columns:?}") };
    assert_eq!((*ttl, *field), ("-1", "huey.lock.nightly"));
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let rounds = [size(1, 16), value(-1, Reply::Bytes(bytes))];
    let LockReading::Held(held) = lock_of(CAPS, &rounds) else { panic!("it is held") };
    assert!(!held.holders[0].is_identified(), "{held:?}");
    assert_eq!(held.deadline, Deadline::Never);
}

/// What ends a hold is the end of its field, and that of the hash only if it comes earlier.
#[test]
fn the_earlier_deadline_of_field_and_hash_counts() {
    let at = |ms| Deadline::At(ServerTime::at(ms));
    for (hash, field, expected) in [
        (-1, -1, Deadline::Never),
        (-1, 30_000, at(30_000)),
        (90_000, -1, at(90_000)),
        (90_000, 30_000, at(30_000)),
        (30_000, 90_000, at(30_000)),
    ] {
        let rounds = [size(1, 5), value_with_ttl(hash, field, text("web-1"))];
        let LockReading::Held(held) = lock_of(WITH_TTLS, &rounds) else { panic!("it is held") };
        assert_eq!(held.deadline, expected, "{hash} {field}");
    }
    // It was set between the readings of its deadline: once more.
    let mut torn = value_with_ttl(-1, 30_000, text("web-1"));
    torn[1] = Reply::Array(vec![Reply::Int(-2)]);
    let whole = value_with_ttl(-1, 30_000, text("web-1"));
    let LockReading::Held(held) = lock_of(WITH_TTLS, &[size(1, 5), torn, whole]) else {
        panic!("it is held")
    };
    assert_eq!(held.deadline, at(30_000));
}

/// A server has no command for the beginning of a field, so a huge one is never asked for.
#[test]
fn a_huge_value_is_not_read() {
    let _rule = rule("14 hostile bytes");
    assert_eq!(lock_of(CAPS, &[size(1, 16_385)]), unknown(Unknown::TooLarge));
    let long = "x".repeat(16_384);
    let rounds = [size(1, 16_384), value(-1, text(&long))];
    let LockReading::Held(held) = lock_of(CAPS, &rounds) else { panic!("it is held") };
    assert_eq!(held.holders[0].client.len(), 512, "its beginning identifies it");
}

#[test]
fn what_is_no_field_is_unknown() {
    let _rule = rule("1 evidence");
    let wrong = || error("WRONGTYPE");
    assert_eq!(lock_of(CAPS, &[vec![wrong(), wrong()]]), unknown(Unknown::WrongType));
    assert_eq!(
        lock_of(CAPS, &[vec![Reply::Int(1), error("NOPERM")]]),
        unknown(Unknown::NoPermission)
    );
    for odd in [vec![Reply::Nil, Reply::Nil], size(2, 5), size(1, -5)] {
        let reading = lock_of(CAPS, core::slice::from_ref(&odd));
        assert!(matches!(reading, LockReading::Unknown(_)), "{odd:?}: {reading:?}");
    }
    let changed = [size(1, 5), vec![Reply::Int(-1), wrong(), Reply::Int(-1)]];
    assert_eq!(lock_of(CAPS, &changed), unknown(Unknown::WrongType));
    let refused = vec![Reply::Int(-1), error("NOPERM"), text("web-1"), Reply::Int(-1), Reply::Nil];
    assert_eq!(lock_of(WITH_TTLS, &[size(1, 5), refused]), unknown(Unknown::NoPermission));
}

/// Whoever removes the field does not move the deadline of the hash, so a glance at that would not
/// see it.
#[test]
fn a_field_is_never_glanced_at() {
    let _rule = rule("1 evidence");
    let known = lock_of(CAPS, &[size(1, 5), value(90_000, text("web-1"))]);
    let LockReading::Held(known) = known else { panic!("it is held") };
    let read = TaskRead::new(Arc::new(of(None, None)), CAPS, false, Scope::ALL);
    assert!(!read.glancing_at(&known).is_glance());
}

#[test]
fn paths_lead_into_the_field() {
    let spec =
        of(Some(ValuePath::Regex("^(.*)$".into())), Some(ValuePath::Regex("^(.*):[0-9]+$".into())));
    let rounds = [size(1, 10), value(-1, text("web-1:4711"))];
    let reading = read(spec, CAPS, &rounds);
    let LockReading::Held(held) = reading.lock().unwrap() else { panic!("it is held") };
    assert_eq!((&*held.holders[0].client, held.holders[0].secret), (&b"web-1:4711"[..], false));
    let host = (b"web-1:4711".to_vec(), b"web-1".to_vec());
    assert_eq!(reading.parts.hosts, Some(Ok(vec![host])));
}

/// The token stays secret, and a value without a host is held all the same.
#[test]
fn a_host_lies_beside_a_secret() {
    let mut spec = spec("string");
    let KindSpec::Lock(lock) = &mut spec.kind else { panic!("a lock") };
    lock.host = Some(ValuePath::Regex("^(.+)_[0-9]+_[0-9a-f]{32}$".into()).into());
    let of = |value: &str, deadline: i64| {
        let replies = vec![Reply::Int(deadline), text(value), Reply::Int(deadline)];
        read(spec.clone(), CAPS, &[replies])
    };
    let token = "WEB01_4711_0b1f6c0e6d6c4d0e9f0a5d3c1f2e4a5b";
    let reading = of(token, 30_000);
    let LockReading::Held(held) = reading.lock().unwrap() else { panic!("it is held") };
    assert!(held.holders[0].secret);
    let host = (token.as_bytes().to_vec(), b"WEB01".to_vec());
    assert_eq!(reading.parts.hosts, Some(Ok(vec![host])));
    let reading = of("5e1f0a77c3d94b6e8a21", 30_000);
    assert!(matches!(reading.lock(), Some(LockReading::Held(_))));
    assert_eq!(reading.parts.hosts, Some(Err(Unknown::ValuePath)));
    assert_eq!(of("", -2).parts.hosts, None);
}

/// There is no key, so no deadline is asked for.
#[test]
fn a_channel_is_held_while_somebody_listens() {
    let of = |listeners: i64| {
        let reply = Reply::Array(vec![text("job"), Reply::Int(listeners)]);
        read(spec("channel"), CAPS, &[vec![reply]]).lock().unwrap().clone()
    };
    assert_eq!(of(0), LockReading::Free);
    let LockReading::Held(held) = of(2) else { panic!("it is held") };
    assert_eq!((held.holders.len(), held.deadline), (1, Deadline::Never));
    let refused = read(spec("channel"), CAPS, &[vec![error("NOPERM")]]);
    assert_eq!(refused.lock(), Some(&unknown(Unknown::NoPermission)));
    assert_eq!(watched_keys(&spec("channel")), Vec::<Vec<u8>>::new());
}

/// A thread that is a UUID, as the real node-redisson writes it.
#[test]
fn the_thread_of_node_redisson_is_a_text() {
    let fixture = include_str!("../../fixtures/node-redisson.txt");
    let line = fixture.lines().find(|line| !line.starts_with('#')).unwrap();
    let columns: Vec<&str> = line.split('\t').collect();
    let [field, count, _] = columns.as_slice() else { panic!("{columns:?}") };
    let reading = read(spec("redisson"), CAPS, &[lock(30_000, &[field, count])]);
    let LockReading::Held(held) = reading.lock().unwrap() else { panic!("{reading:?}") };
    let holder = &held.holders[0];
    let thread = holder.thread.clone().unwrap();
    let whole = [&holder.client, &b":"[..], &thread].concat();
    assert_eq!(
        (whole, holder.client.len(), holder.entries),
        (field.as_bytes().to_vec(), 36, Some(1))
    );
    // Whoever knows both can release the lock.
    let library = libraries::named("redisson").unwrap();
    let open = format!("{}:", &field[..36]);
    assert_eq!(
        library.shown(field.as_bytes(), true),
        libraries::Disclosure::Around(open.as_bytes(), b"")
    );
    for odd in
        ["web-1:82d55c1d-b9bc-4930-a10b-f6116bd39265", "82d55c1d-b9bc-4930-a10b-f6116bd39265"]
    {
        let reading = read(spec("redisson"), CAPS, &[lock(30_000, &[odd, "1"])]);
        assert_eq!(reading.lock(), Some(&unknown(Unknown::Layout)), "{odd}");
    }
}
