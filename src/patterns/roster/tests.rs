//! Timelines of what scans see, and what is watched then.

use std::path::Path;

use super::*;
use crate::config::Config;

fn pattern(lock: &str) -> Arc<Pattern> {
    let text = format!(
        "redis: {{main: {{url: 'redis://127.0.0.1'}}}}\ntasks: [{{name: reports, lock: {{{lock}}}}}]\n"
    );
    let config = Config::parse(&text, Path::new("")).unwrap();
    config.patterns.into_iter().next().unwrap()
}

fn roster(lock: &str) -> Roster {
    Roster::new(pattern(lock), BTreeSet::new())
}

fn names(roster: &Roster) -> Vec<String> {
    roster.tasks().map(|task| task.name.to_string()).collect()
}

/// One pass at a minute: which keys it sees, whether it is cut short, what is used all the same;
/// and what is watched and left out then.
struct Row(u64, &'static [&'static str], bool, &'static [&'static str], &'static str, Option<u64>);

const MINUTE: u64 = 60_000;

fn play(lock: &str, rows: &[Row]) {
    let mut roster = roster(lock);
    for Row(minute, keys, whole, used, watched, left_out) in rows {
        let at = Mono::at(minute * MINUTE);
        roster.begin(at);
        for key in *keys {
            roster.see(key.as_bytes(), at);
        }
        let is_used = |task: &TaskSpec| used.contains(&&*String::from_utf8_lossy(task.kind.key()));
        match whole {
            true => drop(roster.end(Mono::at(at.ms() + 1), AgentWall(0), is_used)),
            false => roster.fail("the server is gone".into()),
        }
        let keys: Vec<_> =
            roster.tasks().map(|task| String::from_utf8_lossy(task.kind.key()).into()).collect();
        let keys: Vec<String> = keys;
        assert_eq!(keys.join(" "), *watched, "after {minute} minutes");
        assert_eq!(roster.complete.map(|it| it.left_out), *left_out, "after {minute} minutes");
    }
}

#[test]
fn a_key_is_watched_for_a_quarter_of_an_hour_after_it_was_seen_last() {
    play(
        "match: 'r:*', library: string",
        &[
            Row(0, &[], true, &[], "", Some(0)),
            Row(1, &["r:1", "r:2"], true, &[], "r:1 r:2", Some(0)),
            Row(5, &["r:1"], true, &[], "r:1 r:2", Some(0)),
            Row(15, &["r:1"], true, &[], "r:1 r:2", Some(0)),
            Row(17, &["r:1"], true, &[], "r:1", Some(0)),
            Row(18, &["r:1", "r:2"], true, &[], "r:1 r:2", Some(0)),
            Row(40, &[], true, &["r:2"], "r:2", Some(0)),
            Row(50, &[], true, &[], "r:2", Some(0)),
            Row(56, &[], true, &[], "", Some(0)),
        ],
    );
}

#[test]
fn a_scan_that_was_cut_short_ends_no_series() {
    play(
        "match: 'r:*', library: string",
        &[
            Row(1, &["r:1"], true, &[], "r:1", Some(0)),
            Row(20, &[], false, &[], "r:1", Some(0)),
            Row(40, &["r:2"], false, &[], "r:1 r:2", Some(0)),
            Row(41, &[], true, &[], "r:2", Some(0)),
        ],
    );
}

/// Nothing was seen for an hour because nothing was scanned, and then a pass takes longer than the
/// quarter of an hour: what it saw at its beginning stays.
#[test]
fn a_long_pass_keeps_what_it_saw() {
    let mut roster = roster("match: 'r:*', library: string");
    roster.begin(Mono::at(0));
    roster.see(b"r:1", Mono::at(1));
    let ended = roster.end(Mono::at(60 * MINUTE), AgentWall(0), |_| false);
    assert!(!ended && names(&roster) == ["reports/r:1"]);
    roster.begin(Mono::at(61 * MINUTE));
    assert!(roster.end(Mono::at(62 * MINUTE), AgentWall(0), |_| false));
    assert_eq!(names(&roster), [""; 0]);
}

#[test]
fn above_the_limit_known_keys_keep_their_place() {
    play(
        "match: 'r:*', library: string, max_keys: 2",
        &[
            Row(1, &["r:8", "r:9"], true, &[], "r:8 r:9", Some(0)),
            Row(2, &["r:1", "r:8", "r:2", "r:9", "r:3"], true, &[], "r:8 r:9", Some(3)),
            Row(3, &["r:1", "r:2"], true, &[], "r:8 r:9", Some(2)),
            Row(18, &["r:1", "r:9"], true, &[], "r:9", Some(1)),
            Row(19, &["r:1", "r:2", "r:9"], true, &[], "r:1 r:9", Some(1)),
        ],
    );
}

#[test]
fn what_is_no_lock_of_the_pattern_is_neither_watched_nor_counted() {
    let mut reserved = BTreeSet::new();
    reserved.insert(b"lock:named".to_vec());
    let mut roster = Roster::new(pattern("match: 'lock*', library: string"), reserved);
    roster.begin(Mono::at(0));
    for (key, found) in [
        ("lock:named", Found::NotMeant),
        ("lock-signal:nightly", Found::NotMeant),
        ("lock:nightly", Found::New),
        ("lock:nightly", Found::Known),
        ("", Found::LeftOut),
        (&"lock".repeat(300), Found::LeftOut),
    ] {
        assert_eq!(roster.see(key.as_bytes(), Mono::at(1)), found, "{key}");
    }
    roster.end(Mono::at(2), AgentWall(7), |_| false);
    assert_eq!(roster.complete, Some(Complete { at: AgentWall(7), left_out: 2 }));
    let mut redisson = self::roster("match: '*job*'");
    for (key, found) in [
        ("job:1", Found::New),
        ("redisson_lock_queue:{job:1}", Found::NotMeant),
        ("redisson_lock_timeout:{job:1}", Found::NotMeant),
        ("redisson_lock_token:{job:1}", Found::NotMeant),
    ] {
        assert_eq!(redisson.see(key.as_bytes(), Mono::at(1)), found, "{key}");
    }
}

#[test]
fn names_are_printable_bounded_and_different() {
    let _rule = crate::truth::rule("14 hostile bytes");
    let mut roster = roster("match: '*', library: string");
    let long = [b"x".repeat(1_000), b"1".to_vec()].concat();
    let longer = [b"x".repeat(1_000), b"2".to_vec()].concat();
    let keys: [&[u8]; 7] = [b"r:1", b"a\nb", b"a\x00b", b"\xff", b"\xfe", &long, &longer];
    for key in keys {
        assert_eq!(roster.see(key, Mono::at(1)), Found::New);
    }
    let names = names(&roster);
    let different: BTreeSet<&String> = names.iter().collect();
    assert_eq!(different.len(), keys.len());
    assert!(names.contains(&String::from("reports/r:1")));
    for name in names {
        assert!(name.len() <= TASK_NAME_BYTES_MAX && !name.chars().any(char::is_control), "{name}");
    }
}

#[test]
fn another_configuration_keeps_the_keys_that_it_still_means() {
    let mut before = roster("match: 'r:*', library: string");
    before.begin(Mono::at(0));
    for key in ["r:1", "r:2", "r:3"] {
        before.see(key.as_bytes(), Mono::at(1));
    }
    before.end(Mono::at(2), AgentWall(0), |_| false);
    let first = Arc::clone(before.tasks().next().unwrap());
    let same = before.configured(pattern("match: 'r:*', library: string"), BTreeSet::new());
    assert!(Arc::ptr_eq(&first, same.tasks().next().unwrap()), "one copy of what stays");
    let reserved = BTreeSet::from([b"r:1".to_vec()]);
    let changed = pattern("match: 'r:*', library: string, lease: 10s, max_keys: 1");
    let after = same.configured(changed, reserved);
    assert_eq!(names(&after), ["reports/r:2"]);
    let lease = |task: &Arc<TaskSpec>| task.lock().unwrap().lease_ms;
    assert_eq!(after.tasks().map(lease).collect::<Vec<_>>(), [Some(10_000)]);
    assert_eq!(after.complete, None, "its next pass says what is left out");
}
