//! Reading users' switches, and which results count as an answer.

use super::*;

/// The reading of the switches when their part of the batch is `replies`, and no key has a TTL.
fn switches(source: WantedSource, replies: &[Reply]) -> SwitchesReading {
    let of_a_key = match source {
        WantedSource::Hash(_) | WantedSource::Set(_) => 1,
        _ => 2,
    };
    let mut round = free();
    for values in replies.chunks(of_a_key) {
        round.extend_from_slice(values);
        round.push(Reply::Int(-1));
    }
    let spec = TaskSpec { wanted: wanted(source), ..spec("redisson") };
    read(spec, CAPS, &[round]).parts.switches.expect("switches")
}

pub(super) fn states(reading: &SwitchesReading) -> Vec<(String, Option<bool>)> {
    let SwitchesReading::Read { switches, .. } = reading else { panic!("{reading:?}") };
    let state = |switch: &Switch| match switch {
        Switch::On => Some(true),
        Switch::Off => Some(false),
        Switch::Undecodable { .. } => None,
    };
    switches
        .iter()
        .map(|(user, switch)| (String::from_utf8_lossy(user).into_owned(), state(switch)))
        .collect()
}

#[test]
fn switches_in_a_hash_are_read_one_by_one() {
    let hash = || WantedSource::Hash(b"users".to_vec());
    let reading = switches(hash(), &[scan(&["ben", "off", "anna", "on", "chris", "maybe"])]);
    let expected = [("anna", Some(true)), ("ben", Some(false)), ("chris", None)]
        .map(|(user, on)| (user.to_owned(), on));
    assert_eq!(states(&reading), expected);
    assert_eq!(
        switches(hash(), &[error("WRONGTYPE")]),
        SwitchesReading::Unknown(Unknown::WrongType)
    );
    let absent = SwitchesReading::Read {
        switches: Vec::new(),
        key_exists: false,
        counted: None,
        whole: true,
        ends: Ends { key: Deadline::Never, own: Vec::new() },
    };
    assert_eq!(switches(hash(), &[scan(&[])]), absent);
}

#[test]
fn of_too_many_switches_only_on_is_an_answer() {
    let part = |items: &[&str]| {
        Reply::Array(vec![text("77"), Reply::Array(items.iter().map(|item| text(item)).collect())])
    };
    let hash = || WantedSource::Hash(b"users".to_vec());
    assert_eq!(
        switches(hash(), &[part(&["a", "off"])]),
        SwitchesReading::Unknown(Unknown::TooLarge)
    );
    assert_eq!(states(&switches(hash(), &[part(&["a", "on"])])), [("a".to_owned(), Some(true))]);
    let set = || WantedSource::Set(b"users".to_vec());
    let whole =
        |reading: &SwitchesReading| matches!(reading, SwitchesReading::Read { whole: true, .. });
    assert_eq!(switches(set(), &[part(&[])]), SwitchesReading::Unknown(Unknown::TooLarge));
    let some = switches(set(), &[part(&["a"])]);
    assert_eq!((states(&some), whole(&some)), (vec![("a".to_owned(), Some(true))], false));
    for all in [&[][..], &["a"]] {
        assert!(whole(&switches(set(), &[scan(all)])), "{all:?}");
    }
}

#[test]
fn members_counters_and_named_keys_are_switches_too() {
    let set = switches(WantedSource::Set(b"users".to_vec()), &[scan(&["anna"])]);
    assert_eq!(states(&set), [("anna".to_owned(), Some(true))]);
    let counter = |exists: i64, value: &str| match switches(
        WantedSource::Counter(b"n".to_vec()),
        &[Reply::Int(exists), text(value)],
    ) {
        SwitchesReading::Read { switches, counted, key_exists, .. } => {
            (switches.len(), counted, key_exists)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(counter(1, "3"), (1, Some(3), true));
    assert_eq!(counter(1, "0"), (1, Some(0), true));
    assert_eq!(counter(0, ""), (0, Some(0), false));
    assert_eq!(counter(1, "-1"), (1, None, true));
    assert_eq!(counter(1, "many"), (1, None, true));
    let fits = |value: Reply| match switches(
        WantedSource::Counter(b"n".to_vec()),
        &[Reply::Int(1), value],
    ) {
        SwitchesReading::Read { switches, .. } => match &switches[..] {
            [(_, Switch::Undecodable { fits, .. })] => *fits,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    assert_eq!(fits(text("many")), None);
    assert_eq!(fits(Reply::Bytes(vec![2, 6])), Some(Codec::Kryo5), "an Integer of 3");
    // A serializer's number, too.
    let spec = |codec| TaskSpec {
        wanted: wanted(WantedSource::Counter(b"n".to_vec()))
            .map(|wanted| WantedSpec { codec, ..wanted }),
        ..spec("redisson")
    };
    let round = [free(), vec![Reply::Int(1), text("-2"), Reply::Int(-1)]].concat();
    let negative = read(spec(Codec::Json), CAPS, &[round]).parts.switches;
    assert!(matches!(negative, Some(SwitchesReading::Read { counted: None, .. })), "{negative:?}");
    let keys = WantedSource::Keys(vec![b"k1".to_vec(), b"k2".to_vec(), b"k3".to_vec()]);
    let one = Reply::Int(1);
    let replies = [one.clone(), text("1"), Reply::Int(0), text(""), one, error("WRONGTYPE")];
    assert_eq!(
        states(&switches(keys, &replies)),
        [("k1".to_owned(), Some(true)), ("k3".to_owned(), None)]
    );
}

/// `GETRANGE` gives the same reply for both.
#[test]
fn an_empty_value_is_a_switch_and_no_key_is_none() {
    let keys = WantedSource::Keys(vec![b"k1".to_vec(), b"k2".to_vec()]);
    let replies = [Reply::Int(1), text(""), Reply::Int(0), text("")];
    assert_eq!(states(&switches(keys, &replies)), [("k1".to_owned(), Some(false))]);
    let counter = switches(WantedSource::Counter(b"n".to_vec()), &replies[..2]);
    assert_eq!(states(&counter), [("n".to_owned(), None)]);
    let written_between = [Reply::Int(0), text("1"), Reply::Int(0), text("")];
    let keys = WantedSource::Keys(vec![b"k1".to_vec(), b"k2".to_vec()]);
    assert_eq!(states(&switches(keys, &written_between)), [("k1".to_owned(), Some(true))]);
}

/// The slot is moving, or the server cannot answer. No key was written, so a lost switch is not
/// found again.
#[test]
fn an_error_that_is_no_ones_own_says_nothing_about_named_keys() {
    let keys = || WantedSource::Keys(vec![b"k1".to_vec(), b"k2".to_vec()]);
    let on = [Reply::Int(1), text("1")];
    let cases = [("MOVED", Unknown::Moved), ("CLUSTERDOWN", Unknown::ClusterDown)];
    for (refusal, why) in cases.map(|(refusal, why)| ([error(refusal), error(refusal)], why)) {
        for replies in [
            [on.clone(), refusal.clone()],
            [refusal.clone(), on.clone()],
            [refusal.clone(), refusal],
        ] {
            assert_eq!(switches(keys(), &replies.concat()), SwitchesReading::Unknown(why));
        }
    }
    // A key with another type affects one user only.
    let other = [Reply::Int(1), error("WRONGTYPE")];
    assert_eq!(
        states(&switches(keys(), &[on, other].concat())),
        [("k1".to_owned(), Some(true)), ("k2".to_owned(), None)]
    );
}

/// A changed permission is no write by a user, and an unreadable key is no evidence that it
/// survived a flush.
#[test]
fn a_named_key_that_may_not_be_read_leaves_only_on_as_an_answer() {
    let keys = || WantedSource::Keys(vec![b"k1".to_vec(), b"k2".to_vec()]);
    let denied = [error("NOPERM"), error("NOPERM")];
    let on_and_more = SwitchesReading::Read {
        switches: vec![(b"k1".to_vec(), Switch::On)],
        key_exists: true,
        counted: None,
        whole: false,
        ends: Ends { key: Deadline::Never, own: Vec::new() },
    };
    assert_eq!(
        switches(keys(), &[[Reply::Int(1), text("1")], denied.clone()].concat()),
        on_and_more
    );
    for other in [[Reply::Int(1), text("0")], [Reply::Int(0), text("")], denied.clone()] {
        let reading = switches(keys(), &[other, denied.clone()].concat());
        assert_eq!(reading, SwitchesReading::Unknown(Unknown::NoPermission));
    }
}

fn ends(reading: &SwitchesReading) -> &Ends {
    let SwitchesReading::Read { ends, .. } = reading else { panic!("{reading:?}") };
    ends
}

fn time(seconds: i64) -> Reply {
    Reply::Array(vec![Reply::Int(seconds), Reply::Int(0)])
}

fn own(users: &[(&str, i64)]) -> Vec<(Vec<u8>, ServerTime)> {
    users.iter().map(|(user, at)| (user.as_bytes().to_vec(), ServerTime::at(*at))).collect()
}

/// Of the key that holds all, or of each user's own key.
#[test]
fn when_the_keys_of_switches_end_is_read_with_them() {
    let read_ends = |source: WantedSource, caps: Caps, replies: &[Reply]| {
        let old = [time(50), Reply::Int(-2), scan(&[]), time(50), Reply::Int(-2)];
        let locks = if caps.pexpiretime { free() } else { old.to_vec() };
        let spec = TaskSpec { wanted: wanted(source), ..spec("redisson") };
        let reading = read(spec, caps, &[[locks, replies.to_vec()].concat()]);
        ends(&reading.parts.switches.unwrap()).clone()
    };
    let hash = || WantedSource::Hash(b"users".to_vec());
    let on = || scan(&["anna", "on"]);
    let at = |at| Deadline::At(ServerTime::at(at));
    for (end, expected) in [
        (Reply::Int(90_000), at(90_000)),
        (Reply::Int(-1), Deadline::Never),
        (Reply::Int(-2), Deadline::Torn),
        (error("NOPERM"), Deadline::Torn),
    ] {
        assert_eq!(read_ends(hash(), CAPS, &[on(), end]).key, expected);
    }
    let left = read_ends(hash(), OLD, &[on(), time(50), Reply::Int(8_000)]);
    assert_eq!(left.key, at(58_000));
    let keys = WantedSource::Keys(vec![b"k2".to_vec(), b"k1".to_vec(), b"k3".to_vec()]);
    let key = |end| [Reply::Int(1), text("1"), end];
    let replies = [key(Reply::Int(90_000)), key(Reply::Int(80_000)), key(Reply::Int(-1))];
    let of_keys = read_ends(keys, CAPS, &replies.concat());
    assert_eq!(of_keys, Ends { key: Deadline::Never, own: own(&[("k1", 80_000), ("k2", 90_000)]) });
}

/// Only the fields that the reading before showed as on, and only where the server has deadlines
/// of fields.
#[test]
fn when_the_fields_of_switches_end_is_read_where_the_server_knows_it() {
    let spec =
        TaskSpec { wanted: wanted(WantedSource::Hash(b"users".to_vec())), ..spec("redisson") };
    let followed: Arc<[Vec<u8>]> = Arc::new([b"anna".to_vec(), b"bert".to_vec()]);
    let newer = Caps { hpexpiretime: true, ..CAPS };
    let asking =
        |caps| TaskRead::new(Arc::new(spec.clone()), caps, false, Scope::ALL).asking_of(&followed);
    let asked = |caps| {
        let mut commands = Vec::new();
        asking(caps).commands(&mut commands);
        commands.into_iter().filter(|it| it.args[0] == b"HPEXPIRETIME").collect::<Vec<_>>()
    };
    assert_eq!(asked(CAPS), []);
    let command = lockwatch_watch::command!("HPEXPIRETIME", "users", "FIELDS", "2", "anna", "bert");
    assert_eq!(asked(newer), [command]);
    for (reply, expected) in [
        (Reply::Array(vec![Reply::Int(90_000), Reply::Int(-1)]), own(&[("anna", 90_000)])),
        (Reply::Array(vec![Reply::Int(-2), Reply::Int(70_000)]), own(&[("bert", 70_000)])),
        (error("NOPERM"), own(&[])),
        (Reply::Nil, own(&[])),
    ] {
        let shown = [scan(&["anna", "on", "bert", "on"]), Reply::Int(-1), reply];
        let Round::Done(reading) = asking(newer).decode(&[free(), shown.to_vec()].concat()) else {
            panic!("one round is enough")
        };
        assert_eq!(ends(&reading.parts.switches.unwrap()).own, expected);
    }
}
