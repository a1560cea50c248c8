//! What a scan of all keys sees of one, and what a library recognises in it.

use alloc::vec::Vec;

use super::shape::Shape;
use crate::redis::reply::Reply;
use lockwatch_judge::spec::Score;
use lockwatch_judge::time::ServerTime;

/// What the scan read of one key.
#[derive(Clone, Debug, PartialEq)]
pub struct ScannedKey {
    /// Its name.
    pub key: Vec<u8>,
    /// Its remaining TTL in milliseconds; `None`: it has none.
    pub ttl_ms: Option<u64>,
    /// The server's clock just before.
    pub now: ServerTime,
    /// Its content.
    pub content: Content,
}

/// The content of a key, as far as it was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A string.
    Text {
        /// Its length in bytes.
        length: u64,
        /// The first bytes.
        start: Vec<u8>,
    },
    /// A hash.
    Hash {
        /// Number of fields.
        length: u64,
        /// Some of the fields' names.
        names: Vec<Vec<u8>>,
        /// The reply to a full scan, if the names may be those of a lock.
        scanned: Option<Reply>,
    },
    /// A sorted set.
    Sorted {
        /// Whether it has the member that symfony/lock gives to an exclusive lock.
        has_writer: bool,
        /// The highest score, if it has a TTL and may be a lock.
        newest: Option<Vec<u8>>,
    },
    /// A list.
    List,
    /// A set.
    Set,
    /// Another type, or the key is gone.
    Other,
}

/// The classification of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guess {
    /// A lock with a name of its own: a task.
    Lock(Laid),
    /// A possible lock, and why it is doubtful.
    Doubtful(Laid, &'static str),
    /// Fields of a hash that are possible locks, and why each is doubtful.
    DoubtfulFields(Laid, &'static str, Vec<Vec<u8>>),
    /// A lock that lockwatch cannot read: what it is, and why.
    Unreadable(&'static str),
    /// One of many locks for jobs or items, and which library's.
    PerItem(&'static str),
    /// A key that this library keeps beside a lock, with the possible names of that lock.
    Companion(&'static str, Role, Vec<Vec<u8>>),
    /// A string that may be a token, although its name does not suggest a lock. A bare number is
    /// rarely a token, and a string without a TTL is rarely a lock.
    PossibleToken {
        /// Whether it is a number.
        number: bool,
        /// Whether it has no TTL.
        stays: bool,
    },
    /// A key that a library of such locks keeps for itself: no lock, and nothing else that could be
    /// watched.
    Internal,
    /// Not related to locks.
    Nothing,
}

/// The layout of a lock, and the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Laid {
    /// The library that reads it.
    pub library: &'static str,
    /// The library's name, for display.
    pub what: &'static str,
    /// The pattern of the holder's name, where the value shows it in clear.
    pub holder: Option<&'static str>,
    /// What the scores mean, if it is a sorted set.
    pub score: Option<Score>,
    /// The lease in milliseconds, if it must be configured.
    pub lease_ms: Option<u64>,
}

impl Laid {
    /// A lock whose value is, or holds, nothing but a holder.
    pub const fn new(library: &'static str, what: &'static str) -> Laid {
        Laid { library, what, holder: None, score: None, lease_ms: None }
    }
}

/// The purpose of a key beside a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The queue of a fair lock.
    Queue,
    /// The timeouts of the waiters in the queue.
    Timeouts,
    /// The counter of a fenced lock.
    Token,
    /// The result of an unlock, kept for a retry.
    Latch,
    /// The lease of a single reader.
    Reader,
}

impl ScannedKey {
    /// A string that was read as a whole.
    pub(super) fn text(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Text { length, start } if start.len() as u64 == *length => Some(start),
            _ => None,
        }
    }

    /// When it ends by the server's clock; `None`: it has no TTL.
    pub(super) fn ends(&self) -> Option<ServerTime> {
        let ttl_ms = i64::try_from(self.ttl_ms?).unwrap_or(i64::MAX);
        Some(self.now.plus_ms(ttl_ms))
    }

    /// The shape of a string's value.
    pub(super) fn shape(&self) -> Option<Shape> {
        match &self.content {
            Content::Text { length, start } => Some(Shape::of(start, *length)),
            _ => None,
        }
    }
}

/// Whether a key has `part` in its name.
pub(super) fn contains(key: &[u8], part: &[u8]) -> bool {
    key.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use std::format;
    use std::string::String;

    use lockwatch_judge::spec::ValuePath;

    use super::super::recognise;
    use super::*;

    const UUID: &str = "285475da-9152-4c83-822a-67ee2f116a79";
    const NOW: ServerTime = ServerTime::at(1_796_000_000_000);

    fn seen(key: &str, ttl_ms: Option<u64>, content: Content) -> ScannedKey {
        ScannedKey { key: key.as_bytes().to_vec(), ttl_ms, now: NOW, content }
    }

    fn text(key: &str, ttl_ms: Option<u64>, value: &[u8]) -> Guess {
        let content = Content::Text {
            length: value.len() as u64,
            start: value.iter().take(128).copied().collect(),
        };
        recognise(&seen(key, ttl_ms, content))
    }

    fn hash(key: &str, ttl_ms: Option<u64>, fields: &[(&str, &str)]) -> Guess {
        let bytes = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        let items = fields.iter().flat_map(|(field, value)| [bytes(field), bytes(value)]).collect();
        let names: Vec<Vec<u8>> =
            fields.iter().map(|(field, _)| field.as_bytes().to_vec()).collect();
        let scanned = super::super::names_holders(key.as_bytes(), &names)
            .then(|| Reply::Array(vec![bytes("0"), Reply::Array(items)]));
        let content = Content::Hash { length: fields.len() as u64, names, scanned };
        recognise(&seen(key, ttl_ms, content))
    }

    fn what(guess: &Guess) -> &'static str {
        match guess {
            Guess::Lock(laid) | Guess::Doubtful(laid, _) => laid.what,
            Guess::Unreadable(what) | Guess::PerItem(what) => what,
            _ => "",
        }
    }

    #[test]
    fn locks_of_known_libraries_become_tasks() {
        let ttl = Some(30_000);
        let token = UUID.replace('-', "");
        let php = b"s:16:\"aB3dE5gH7jK9mN1p\";".as_slice();
        let table: [(&str, &[u8], &str); 12] = [
            ("job-lock:prod:nightly", b"ADDED:2026-11-21T10:00:00Z@web-1", "ShedLock"),
            ("nightly", b"WEB01_4711_0b1f6c0e6d6c4d0e9f0a5d3c1f2e4a5b", "DistributedLock"),
            ("redbeat::lock", token.as_bytes(), "redbeat"),
            ("redlock:nightly", UUID.as_bytes(), "redlock:"),
            ("lock:nightly", b"3q2+7wAAAAB4eHh4AAECAw==", "python-redis-lock"),
            (
                "laravel_database_laravel_cache:framework/schedule-da39a3ee5e6b4b0d3255bfef95601890afd80709",
                php,
                "Laravel",
            ),
            ("registry:leader", UUID.as_bytes(), "A token"),
            ("outboundLock", token.as_bytes(), "A token"),
            ("nightly:lock", b"1763721600123", "A token"),
            ("dear-leader", b"web-1:4711:0b1f6c0e6d6c", "Sidekiq Enterprise"),
            ("q:leases:sweep", b"web-1#4711", "docket"),
            ("night-lock", b"web-1:4711", "a host and a process"),
        ];
        for (key, value, expected) in table {
            let guess = text(key, ttl, value);
            assert!(matches!(guess, Guess::Lock(_)), "{key}: {guess:?}");
            assert!(what(&guess).contains(expected), "{key}: {guess:?}");
        }
        let guess = hash("outbound:lock", ttl, &[(&format!("{UUID}:57"), "1")]);
        assert_eq!(what(&guess), "Redisson RLock");
        for mode in ["read", "write"] {
            let holder =
                if mode == "read" { format!("{UUID}:57") } else { format!("{UUID}:57:write") };
            let guess = hash("prices", ttl, &[("mode", mode), (&holder, "1")]);
            assert!(
                matches!(guess, Guess::Lock(_)) && what(&guess).contains("RReadWriteLock"),
                "{guess:?}"
            );
        }
    }

    /// Of the kinds that people lock for one run or one item, no task is made.
    #[test]
    fn a_key_for_each_run_is_one_of_many() {
        let ttl = Some(3_600_000);
        let token = UUID.replace('-', "");
        let php = b"s:16:\"aB3dE5gH7jK9mN1p\";".as_slice();
        let schedule = "app:framework/schedule-da39a3ee5e6b4b0d3255bfef95601890afd80709";
        for (key, value) in [
            (format!("{schedule}1055"), php),
            (format!("{schedule}2359"), php),
            (String::from("lock:report:2026-11-27"), token.as_bytes()),
            (
                String::from("job-lock:prod:import-202611271055"),
                b"ADDED:2026-11-27T10:55:00Z@web-1",
            ),
            (format!("lock:order:{UUID}"), token.as_bytes()),
        ] {
            let guess = text(&key, ttl, value);
            assert!(matches!(guess, Guess::PerItem(_)), "{key}: {guess:?}");
        }
        for key in [String::from(schedule), format!("{schedule}9959")] {
            assert!(matches!(text(&key, ttl, php), Guess::Lock(_)), "{key}");
        }
        let by_hand = hash("import:2026-11-27:lock", ttl, &[(&format!("{UUID}:57"), "1")]);
        assert!(matches!(by_hand, Guess::PerItem(_)), "{by_hand:?}");
    }

    /// A pattern is only proposed that fits the value.
    #[test]
    fn hosts_in_clear_are_proposed() {
        for (key, value, host) in [
            ("dear-leader", "web-1:4711:0b1f6c0e6d6c", Some("web-1:4711")),
            ("a:resque_scheduler_leader_lock", "web-1:4711", Some("web-1:4711")),
            ("q:leases:sweep", "web-1#4711", Some("web-1#4711")),
            ("x", "WEB01_4711_0b1f6c0e6d6c4d0e9f0a5d3c1f2e4a5b", Some("WEB01_4711")),
            ("n8n:main_instance_leader", "main-V1StGXR8_Z5jdHi6B-myT", None),
            ("dear-leader", UUID, None),
        ] {
            let Guess::Lock(laid) = text(key, Some(30_000), value.as_bytes()) else {
                panic!("{key}")
            };
            let named = laid.holder.map(|regex| {
                crate::redis::value::Finder::new(&ValuePath::Regex(regex.into()))
                    .unwrap()
                    .find(value.as_bytes())
                    .unwrap()
            });
            assert_eq!(named.as_deref(), host.map(str::as_bytes), "{key}");
        }
        let of_dhcp = text("dhcp:leases:10.0.0.5", Some(30_000), b"printer");
        assert!(matches!(of_dhcp, Guess::Doubtful(..)), "{of_dhcp:?}");
    }

    #[test]
    fn a_hash_with_one_field_may_be_a_lock_made_by_hand() {
        for (key, owner) in [("hand-lock", UUID), ("order-lock", "node-7"), ("lock:nightly", "a b")]
        {
            let guess = hash(key, Some(30_000), &[(owner, "1")]);
            assert!(
                matches!(&guess, Guess::Doubtful(laid, _) if laid.library == "hash"),
                "{key}: {guess:?}"
            );
            assert_eq!(hash(key, None, &[(owner, "1")]), Guess::Nothing, "it has no TTL");
            assert_eq!(hash(key, Some(30_000), &[(owner, "on")]), Guess::Nothing, "no count");
        }
    }

    #[test]
    fn data_is_no_lock() {
        let ttl = Some(30_000);
        for (key, value) in [
            ("session:3f2a", "{\"user\": 1}"),
            ("cache:page:/block/7", "<html></html>"),
            ("stock:42", "17"),
            ("lock:timeout", "30s"),
            ("config", "value"),
        ] {
            assert_eq!(text(key, None, value.as_bytes()), Guess::Nothing, "{key}");
        }
        for (key, value) in
            [("session:3f2a", "{\"user\": 1}"), ("stock:42", "17"), ("rate:1.2.3.4", "3")]
        {
            assert_eq!(text(key, ttl, value.as_bytes()), Guess::Nothing, "{key}");
        }
        assert_eq!(
            text("session:alice", ttl, UUID.as_bytes()),
            Guess::PossibleToken { number: false, stays: false }
        );
        assert_eq!(
            text("seen:alice", ttl, b"1763721600123"),
            Guess::PossibleToken { number: true, stays: false }
        );
        for fields in [
            &[("name", "anna"), ("mail", "a@b")][..],
            &[("mode", "dark")],
            &[("page:1", "5"), ("page:2", "7")],
            &[(UUID, "1")],
            &[(&*format!("{UUID}:57"), "hello")],
        ] {
            assert_eq!(hash("user:1", ttl, fields), Guess::Nothing, "{fields:?}");
        }
    }

    #[test]
    fn doubts_are_told() {
        let ttl = Some(30_000);
        for (key, ttl_ms, value) in [
            ("report:lock", ttl, "1"),
            ("report:lock", ttl, "web-1"),
            ("report:lock", None, "1"),
            ("printer", ttl, "0b1f6c0e6d6c11ef9f0a5d3c1f2e4a5b"),
            ("prices.writer", ttl, "WEB01_4711_0b1f6c0e6d6c4d0e9f0a5d3c1f2e4a5b"),
        ] {
            let guess = text(key, ttl_ms, value.as_bytes());
            assert!(matches!(guess, Guess::Doubtful(..)), "{key} {value}: {guess:?}");
        }
        let two = [(&*format!("{UUID}:57"), "1"), (&*format!("{UUID}:58"), "1")];
        assert!(matches!(hash("outbound:lock", ttl, &two), Guess::Doubtful(..)));
    }

    #[test]
    fn what_is_no_task_is_named() {
        let ttl = Some(30_000);
        assert!(matches!(
            text("bull:mail:17:lock", ttl, format!("{UUID}:3").as_bytes()),
            Guess::PerItem(_)
        ));
        assert!(matches!(
            text("qo_tasks.mail_id-7", ttl, b"0b1f6c0e6d6c11ef9f0a5d3c1f2e4a5b"),
            Guess::PerItem(_)
        ));
        assert!(matches!(text("uniquejobs:0123456789abcdef", None, b"jid"), Guess::PerItem(_)));
        assert!(matches!(
            text("app:laravel_unique_job:App-Mail:7", ttl, b"aB3dE5gH7jK9mN1p"),
            Guess::PerItem(_)
        ));
        assert!(matches!(text("rueidislock:0:nightly", ttl, &[255; 24]), Guess::Unreadable(_)));
        let faster = format!("bGFi:{UUID}:57:lock_count");
        assert!(matches!(
            hash("group", ttl, &[("bGFi", UUID), (&faster, "1")]),
            Guess::Unreadable(_)
        ));
        let permits = sorted("{pool}:timeout", None, false, None);
        assert!(matches!(permits, Guess::Unreadable(_)));
        let of_file = text("a1b2/lockfiles/5f3c2a1b00112200ff00112233445566", ttl, b"1");
        assert!(matches!(of_file, Guess::PerItem(_)), "{of_file:?}");
    }

    fn sorted(key: &str, ttl_ms: Option<u64>, has_writer: bool, after_ms: Option<i64>) -> Guess {
        let newest = after_ms.map(|ms| format!("{}", NOW.ms() + ms).into_bytes());
        recognise(&seen(key, ttl_ms, Content::Sorted { has_writer, newest }))
    }

    /// What the scores mean is only proposed where they fit the TTL of the key.
    #[test]
    fn what_scores_mean_is_known_by_the_end_of_the_key() {
        let ttl = Some(10_000);
        let proposed = |guess: Guess| match guess {
            Guess::Lock(laid) => Some((true, laid.score, laid.lease_ms)),
            Guess::Doubtful(laid, _) => Some((false, laid.score, laid.lease_ms)),
            other => panic!("{other:?}"),
        };
        let deadline = Some(Score::Deadline);
        let writer = sorted("nightly", ttl, true, Some(9_998));
        assert_eq!(proposed(writer), Some((true, deadline, None)));
        let reader = sorted("nightly:lock", ttl, false, Some(9_998));
        assert_eq!(proposed(reader), Some((false, deadline, None)));
        // Taken two seconds ago for twelve.
        let semaphore = sorted("semaphore:nightly", ttl, false, Some(-2_004));
        assert_eq!(proposed(semaphore), Some((false, Some(Score::Refreshed), Some(12_000))));
        for (ttl, after, lease_ms) in [(7_890, -2_000, 10_000), (990, -210, 1_200)] {
            let semaphore = sorted("semaphore:nightly", Some(ttl), false, Some(after));
            assert_eq!(proposed(semaphore).unwrap().2, Some(lease_ms), "{ttl} {after}");
        }
        for (ttl_ms, has_writer, after_ms) in [
            (None, false, Some(-2_000)),
            (ttl, false, None),
            (ttl, false, Some(5_000)),
            (ttl, false, Some(20_000)),
            (Some(40_000_000), false, Some(-2_000)),
        ] {
            let guess = sorted("semaphore:nightly", ttl_ms, has_writer, after_ms);
            assert_eq!(guess, Guess::Nothing, "{ttl_ms:?} {has_writer} {after_ms:?}");
        }
        let odd = sorted("nightly", ttl, true, Some(-2_000));
        assert!(matches!(odd, Guess::Unreadable(_)), "{odd:?}");
    }

    /// A time that has passed may be when the lock was taken.
    #[test]
    fn a_time_to_come_is_a_deadline_and_a_count_is_a_counter() {
        let at = |ms: i64| format!("{}.25", (NOW.ms() + ms) / 1_000);
        let library = |guess: Guess| match guess {
            Guess::Doubtful(laid, _) => laid.library,
            Guess::Unreadable(_) => "unread",
            other => panic!("{other:?}"),
        };
        let text = |key, ttl_ms, value: &str| text(key, ttl_ms, value.as_bytes());
        assert_eq!(library(text("RedisMutex:nightly", None, &at(30_000))), "deadline");
        assert_eq!(library(text("RedisMutex:nightly", None, &at(-30_000))), "unread");
        assert_eq!(library(text("nightly:lock", None, "1")), "counter");
        assert_eq!(library(text("nightly:mutex", Some(60_000), "2")), "counter");
        assert_eq!(library(text("nightly:mutex", Some(60_000), "0")), "unread");
        assert!(matches!(text("nightly:lock", Some(30_000), &at(30_000)), Guess::Lock(_)));
        assert_eq!(text("stock:42", Some(30_000), "1"), Guess::Nothing);
    }

    #[test]
    fn companions_lead_to_their_lock() {
        let of =
            |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        let both = of(&["out", "{out}"]);
        assert_eq!(
            text("redisson_lock_token:{out}", None, b"7"),
            Guess::Companion("redisson", Role::Token, both.clone())
        );
        assert_eq!(
            text("redisson_lock_token:{a}out", None, b"7"),
            Guess::Companion("redisson", Role::Token, of(&["{a}out"]))
        );
        let latch = format!("redisson_unlock_latch:{{out}}:{}", "0a".repeat(16));
        assert_eq!(
            text(&latch, Some(1), b"1"),
            Guess::Companion("redisson", Role::Latch, both.clone())
        );
        let reader = format!("{{out}}:{UUID}:57:rwlock_timeout:1");
        assert_eq!(
            text(&reader, Some(1), b"1"),
            Guess::Companion("redisson", Role::Reader, both.clone())
        );
        let list = seen("redisson_lock_queue:{out}", None, Content::List);
        assert_eq!(recognise(&list), Guess::Companion("redisson", Role::Queue, both.clone()));
        let timeouts = sorted("redisson_lock_timeout:{out}", None, false, None);
        assert_eq!(timeouts, Guess::Companion("redisson", Role::Timeouts, both));
    }
}
