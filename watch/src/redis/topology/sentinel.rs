//! Evaluates the answers of Sentinels. A master counts only if more than half of the *configured*
//! Sentinels named it recently. A single Sentinel with a false answer decides nothing, and neither
//! does one half of a partition.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::{Announced, map_field};
use crate::command;
use crate::redis::reply::{Command, Reply};
use crate::remedy::is_mistake;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;

/// Maximum number of replicas taken from one Sentinel's list. It bounds memory.
const REPLICAS_MAX: usize = 100;

/// What one Sentinel answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentinelView {
    /// The master that it names.
    pub master: Announced,
    /// The replicas that it lists, sorted, whatever health it reports for them.
    pub replicas: Vec<Announced>,
}

/// The requests to a Sentinel about the master with the name `master`.
pub fn commands(master: &str) -> Vec<Command> {
    vec![
        command!("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master),
        command!("SENTINEL", "REPLICAS", master),
    ]
}

/// Decodes the replies to [`commands`].
///
/// # Errors
/// `MasterName` when the Sentinel does not know the name; otherwise why it gave no usable answer.
pub fn decode(replies: &[Reply]) -> Result<SentinelView, Unknown> {
    let [master, replicas] = replies else { return Err(Unknown::Protocol) };
    let master = match master {
        Reply::Array(parts) => match parts.as_slice() {
            [host, port] => Announced::from_replies(host, port).ok_or(Unknown::Protocol)?,
            _ => return Err(Unknown::Protocol),
        },
        Reply::Nil => return Err(Unknown::MasterName),
        Reply::Error(error) => return Err(error.into()),
        _ => return Err(Unknown::Protocol),
    };
    let mut replicas = match replicas {
        Reply::Array(replicas) => listed(replicas)?,
        Reply::Error(error) => return Err(error.into()),
        _ => return Err(Unknown::Protocol),
    };
    // Sentinels list replicas in any order. Sorting first makes all of them truncate a long list at
    // the same place.
    replicas.sort_unstable();
    replicas.dedup();
    replicas.truncate(REPLICAS_MAX);
    Ok(SentinelView { master, replicas })
}

/// The replicas of the list that have a usable address.
fn listed(replicas: &[Reply]) -> Result<Vec<Announced>, Unknown> {
    let mut listed = Vec::new();
    for replica in replicas {
        let replica = replica.as_array().ok_or(Unknown::Protocol)?;
        let field = |name| map_field(replica, name).ok_or(Unknown::Protocol);
        listed.extend(Announced::from_replies(field("ip")?, field("port")?));
    }
    Ok(listed)
}

/// The recent answers of the configured Sentinels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    said: Vec<Said>,
    fresh_ms: u64,
}

/// The answers of one Sentinel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    /// When the newest request with a known result was sent.
    asked: Mono,
    /// The result of that request.
    word: Option<Result<Announced, Unknown>>,
    /// Its last answer, and when that was requested. An unreachable Sentinel has not changed its
    /// answer.
    answer: Option<(Mono, SentinelView)>,
}

impl Quorum {
    /// For `sentinels` configured ones. An answer counts for `fresh_ms` from the time of its
    /// request.
    pub fn new(sentinels: usize, fresh_ms: u64) -> Quorum {
        Quorum { said: vec![Said::default(); sentinels], fresh_ms }
    }

    /// Takes in the result of a request to `sentinel`, sent at `asked`. A result older than the
    /// known one is dropped.
    pub fn answered(
        &mut self,
        sentinel: usize,
        asked: Mono,
        answer: Result<SentinelView, Unknown>,
    ) {
        let Some(said) = self.said.get_mut(sentinel) else { return };
        if said.word.is_some() && asked < said.asked {
            return;
        }
        said.asked = asked;
        said.word = Some(answer.as_ref().map(|answer| answer.master.clone()).map_err(|why| *why));
        match answer {
            Ok(answer) => said.answer = Some((asked, answer)),
            // The Sentinel answered that it knows no such master any more.
            Err(Unknown::MasterName) => said.answer = None,
            Err(_) => {}
        }
    }

    /// The master that the majority names.
    ///
    /// # Errors
    /// `Quorum` when there is no majority.
    pub fn master(&self, at: Mono) -> Result<Announced, Unknown> {
        let named = self.fresh(at).map(|answer| &answer.master);
        self.majority(named)
            .next()
            .cloned()
            .ok_or_else(|| self.refusal().unwrap_or(Unknown::Quorum))
    }

    /// The mistake because of which more than half of the Sentinels name no master, if it is the
    /// same for these.
    fn refusal(&self) -> Option<Unknown> {
        let failures = self.said.iter().filter_map(|said| said.word.as_ref()?.as_ref().err());
        let mut counts: BTreeMap<Unknown, usize> = BTreeMap::new();
        failures
            .filter(|why| is_mistake(**why))
            .for_each(|why| *counts.entry(*why).or_default() += 1);
        let is_majority = |count: usize| count > self.said.len() / 2;
        counts.into_iter().find(|(_, count)| is_majority(*count)).map(|(why, _)| why)
    }

    /// The replicas that a majority lists, sorted.
    pub fn peers(&self, at: Mono) -> Vec<Announced> {
        let listed: Vec<BTreeSet<&Announced>> =
            self.fresh(at).map(|answer| answer.replicas.iter().collect()).collect();
        self.majority(listed.into_iter().flatten()).cloned().collect()
    }

    /// The newest result of a Sentinel; `None` before the first.
    pub fn word(&self, sentinel: usize) -> Option<Result<Announced, Unknown>> {
        self.said.get(sentinel)?.word.clone()
    }

    /// The first instant at which the majority for the master is too old, if no further answers
    /// come; `None`: there is no majority.
    pub fn ends(&self) -> Option<Mono> {
        let answers = || self.said.iter().filter_map(|said| said.answer.as_ref());
        let master = self.majority(answers().map(|(_, answer)| &answer.master)).next()?;
        let mut asked: Vec<Mono> =
            answers().filter(|(_, answer)| answer.master == *master).map(|(at, _)| *at).collect();
        asked.sort_unstable_by(|a, b| b.cmp(a));
        // The majority lasts as long as the oldest of the newest answers needed for it.
        asked.get(self.said.len() / 2).map(|oldest| oldest.plus_ms(self.fresh_ms).plus_ms(1))
    }

    /// The answers that count at `at`.
    fn fresh(&self, at: Mono) -> impl Iterator<Item = &SentinelView> {
        let fresh = move |asked: Mono| at.since_ms(asked) <= self.fresh_ms;
        self.said.iter().filter_map(move |said| {
            said.answer.as_ref().filter(|(asked, _)| fresh(*asked)).map(|(_, a)| a)
        })
    }

    /// The values that more than half of the configured Sentinels named, sorted. Each Sentinel
    /// names a value once.
    fn majority<'a>(
        &self,
        said: impl Iterator<Item = &'a Announced>,
    ) -> impl Iterator<Item = &'a Announced> {
        let mut voices: BTreeMap<&'a Announced, usize> = BTreeMap::new();
        said.for_each(|address| *voices.entry(address).or_default() += 1);
        let sentinels = self.said.len();
        voices
            .into_iter()
            .filter(move |(_, voices)| *voices > sentinels / 2)
            .map(|(address, _)| address)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use super::*;
    use crate::redis::reply::ServerError;

    fn text(text: &str) -> Reply {
        Reply::Bytes(text.as_bytes().to_vec())
    }

    fn list(items: &[Reply]) -> Reply {
        Reply::Array(items.to_vec())
    }

    fn error(code: &str) -> Reply {
        Reply::Error(ServerError {
            code: code.as_bytes().to_vec(),
            detail: b"No such master with that name".to_vec(),
        })
    }

    fn at(host: &str, port: &str) -> Reply {
        list(&[text(host), text(port)])
    }

    /// As a Sentinel lists a replica, reduced to the relevant fields.
    fn replica(host: &str, port: &str, flags: &str) -> Reply {
        let fields = [
            "name",
            "x",
            "ip",
            host,
            "port",
            port,
            "runid",
            "40ff",
            "flags",
            flags,
            "master-port",
            "1",
        ];
        Reply::Array(fields.iter().map(|field| text(field)).collect())
    }

    fn shown(
        decoded: Result<SentinelView, Unknown>,
    ) -> Result<(alloc::string::String, Vec<alloc::string::String>), Unknown> {
        let replicas =
            |answer: &SentinelView| answer.replicas.iter().map(ToString::to_string).collect();
        decoded.map(|answer| (answer.master.to_string(), replicas(&answer)))
    }

    #[test]
    fn asks_for_the_master_and_its_replicas() {
        let words = |command: &Command| command.args.join(&b' ');
        let asked: Vec<Vec<u8>> = commands("my master").iter().map(words).collect();
        assert_eq!(
            asked,
            [&b"SENTINEL GET-MASTER-ADDR-BY-NAME my master"[..], b"SENTINEL REPLICAS my master"]
        );
        assert_eq!(commands("my master")[1].args.len(), 3);
    }

    #[test]
    fn reads_what_a_sentinel_says() {
        let good = at("10.0.0.5", "6379");
        let deep = (0..50).fold(Reply::Nil, |inner, _| list(&[inner]));
        let odd = |host: &[u8]| list(&[Reply::Bytes(host.to_vec()), text("6379")]);
        let ok = |master: &str, replicas: &[&str]| {
            Ok((master.to_string(), replicas.iter().map(ToString::to_string).collect::<Vec<_>>()))
        };
        let table = [
            (
                "one replica",
                vec![good.clone(), list(&[replica("10.0.0.6", "6379", "slave")])],
                ok("10.0.0.5:6379", &["10.0.0.6:6379"]),
            ),
            (
                "sorted, each once, those that are down too",
                vec![
                    at("Redis-A.example", "6379"),
                    list(&[
                        replica("fd00::7", "6379", "s_down,slave,disconnected"),
                        replica("10.0.0.6", "6379", "slave"),
                        replica("10.0.0.6", "6379", "slave"),
                    ]),
                ],
                ok("redis-a.example:6379", &["10.0.0.6:6379", "[fd00::7]:6379"]),
            ),
            ("no replicas", vec![good.clone(), list(&[])], ok("10.0.0.5:6379", &[])),
            (
                "replicas without a usable address are left out",
                vec![
                    good.clone(),
                    list(&[
                        replica("", "6379", "slave"),
                        replica("10.0.0.6", "0", "slave"),
                        replica("10.0.0.6", "-1", "slave"),
                        replica("10.0.0.6", "65536", "slave"),
                        replica("10.0.0.6", "six", "slave"),
                        replica("a b", "6379", "slave"),
                        replica("redis://evil", "6379", "slave"),
                        replica("user@evil", "6379", "slave"),
                        replica("evil\r\n", "6379", "slave"),
                        replica(&"a".repeat(254), "6379", "slave"),
                    ]),
                ],
                ok("10.0.0.5:6379", &[]),
            ),
            ("an unknown name", vec![Reply::Nil, error("ERR")], Err(Unknown::MasterName)),
            ("a password is wanted", vec![error("NOAUTH"), error("NOAUTH")], Err(Unknown::Auth)),
            (
                "a permission is missing",
                vec![good.clone(), error("NOPERM")],
                Err(Unknown::NoPermission),
            ),
            ("no Sentinel", vec![error("ERR"), error("ERR")], Err(Unknown::ServerError)),
            ("nothing", vec![], Err(Unknown::Protocol)),
            ("half", vec![good.clone()], Err(Unknown::Protocol)),
            ("too much", vec![good.clone(), list(&[]), list(&[])], Err(Unknown::Protocol)),
            ("port 0", vec![at("10.0.0.5", "0"), list(&[])], Err(Unknown::Protocol)),
            ("negative port", vec![at("10.0.0.5", "-6379"), list(&[])], Err(Unknown::Protocol)),
            (
                "huge port",
                vec![list(&[text("10.0.0.5"), Reply::Int(i64::MAX)]), list(&[])],
                Err(Unknown::Protocol),
            ),
            ("no host", vec![at("", "6379"), list(&[])], Err(Unknown::Protocol)),
            ("control characters", vec![odd(b"10.0.0.5\n"), list(&[])], Err(Unknown::Protocol)),
            ("no UTF-8", vec![odd(b"\xff\xfe"), list(&[])], Err(Unknown::Protocol)),
            (
                "three parts",
                vec![list(&[text("a"), text("1"), text("2")]), list(&[])],
                Err(Unknown::Protocol),
            ),
            ("a number", vec![Reply::Int(7), list(&[])], Err(Unknown::Protocol)),
            ("deep", vec![deep.clone(), deep.clone()], Err(Unknown::Protocol)),
            ("deep replicas", vec![good.clone(), deep], Err(Unknown::Protocol)),
            (
                "replicas of another shape",
                vec![good.clone(), list(&[text("10.0.0.6:6379")])],
                Err(Unknown::Protocol),
            ),
            (
                "a replica without port",
                vec![good.clone(), list(&[list(&[text("ip"), text("a")])])],
                Err(Unknown::Protocol),
            ),
            ("replicas are text", vec![good, text("")], Err(Unknown::Protocol)),
        ];
        for (what, replies, wanted) in table {
            assert_eq!(shown(decode(&replies)), wanted, "{what}");
        }
    }

    #[test]
    fn long_lists_are_cut_at_the_same_place() {
        let list = |numbers: &mut dyn Iterator<Item = u32>| {
            Reply::Array(
                numbers.map(|number| replica(&format!("r{number:05}"), "6379", "slave")).collect(),
            )
        };
        let there = decode(&[at("m", "1"), list(&mut (0..5_000))]).unwrap();
        let back = decode(&[at("m", "1"), list(&mut (0..5_000).rev())]).unwrap();
        assert_eq!(there, back);
        assert_eq!(there.replicas.len(), REPLICAS_MAX);
    }

    fn server(name: &str) -> Announced {
        Announced::new(name, 6379).unwrap()
    }

    /// `m:a,b`: names the master m, and lists a and b.
    fn answer(said: &str) -> Result<SentinelView, Unknown> {
        let (master, replicas) = said.split_once(':').unwrap_or((said, ""));
        let replicas = replicas.split(',').filter(|name| !name.is_empty()).map(server).collect();
        Ok(SentinelView { master: server(master), replicas })
    }

    #[test]
    fn more_than_half_of_the_configured_ones_decide() {
        type Said = (usize, u64, Result<SentinelView, Unknown>);
        let lost = Err(Unknown::Timeout);
        // Configured; answers; instant; master; peers; end of the majority.
        type Row = (
            &'static str,
            usize,
            Vec<Said>,
            u64,
            Option<&'static str>,
            &'static [&'static str],
            Option<u64>,
        );
        let table: Vec<Row> = vec![
            ("nobody said a word", 3, vec![], 5, None, &[], None),
            ("no Sentinel is configured", 0, vec![(0, 5, answer("m"))], 5, None, &[], None),
            ("one of one", 1, vec![(0, 5, answer("m:a"))], 5, Some("m"), &["a"], Some(2_006)),
            ("one of two", 2, vec![(0, 5, answer("m:a"))], 5, None, &[], None),
            (
                "two of two",
                2,
                vec![(0, 5, answer("m")), (1, 9, answer("m"))],
                9,
                Some("m"),
                &[],
                Some(2_006),
            ),
            ("one of three", 3, vec![(0, 5, answer("m:a"))], 5, None, &[], None),
            (
                "a liar's twice-told tale",
                3,
                vec![(0, 5, answer("m:a,a")), (0, 6, answer("m:a,a"))],
                6,
                None,
                &[],
                None,
            ),
            (
                "two of three against a liar",
                3,
                vec![(0, 5, answer("evil:x,a")), (1, 6, answer("m:b,a")), (2, 7, answer("m:b"))],
                7,
                Some("m"),
                &["a", "b"],
                Some(2_007),
            ),
            (
                "the third answer lengthens the majority",
                3,
                vec![(0, 500, answer("m")), (1, 6, answer("m")), (2, 700, answer("m"))],
                2_500,
                Some("m"),
                &[],
                Some(2_501),
            ),
            (
                "too old by a millisecond",
                3,
                vec![(0, 500, answer("m:a")), (1, 6, answer("m:a")), (2, 700, answer("m"))],
                2_501,
                None,
                &[],
                Some(2_501),
            ),
            ("two of four", 4, vec![(0, 5, answer("m")), (1, 5, answer("m"))], 5, None, &[], None),
            (
                "each another",
                3,
                vec![(0, 5, answer("a:x")), (1, 5, answer("b:x")), (2, 5, answer("c:y"))],
                5,
                None,
                &["x"],
                None,
            ),
            (
                "one that cannot be reached has not changed its mind",
                3,
                vec![
                    (0, 5, answer("m")),
                    (1, 5, answer("m")),
                    (0, 1_005, lost.clone()),
                    (1, 1_005, lost),
                ],
                1_500,
                Some("m"),
                &[],
                Some(2_006),
            ),
            (
                "one that forgot the master has",
                3,
                vec![(0, 5, answer("m")), (1, 5, answer("m")), (1, 9, Err(Unknown::MasterName))],
                10,
                None,
                &[],
                None,
            ),
            (
                "an overtaken answer comes late",
                3,
                vec![
                    (0, 9, answer("n")),
                    (1, 9, answer("n")),
                    (0, 5, answer("m")),
                    (1, 8, Err(Unknown::MasterName)),
                ],
                10,
                Some("n"),
                &[],
                Some(2_010),
            ),
            (
                "a Sentinel that nobody configured",
                3,
                vec![(0, 5, answer("m")), (3, 5, answer("m"))],
                5,
                None,
                &[],
                None,
            ),
        ];
        for (what, sentinels, said, at, master, peers, ends) in table {
            let mut quorum = Quorum::new(sentinels, 2_000);
            for (sentinel, asked, answer) in said {
                quorum.answered(sentinel, Mono::at(asked), answer);
            }
            assert_eq!(
                quorum.master(Mono::at(at)),
                master.map(server).ok_or(Unknown::Quorum),
                "{what}: master"
            );
            assert_eq!(
                quorum.peers(Mono::at(at)),
                peers.iter().map(|name| server(name)).collect::<Vec<_>>(),
                "{what}: peers"
            );
            assert_eq!(quorum.ends(), ends.map(Mono::at), "{what}: end");
            if let (Some(end), Some(_)) = (quorum.ends(), master) {
                assert_eq!(quorum.master(end), Err(Unknown::Quorum), "{what}: at its end");
                assert!(quorum.master(end.minus_ms(1)).is_ok(), "{what}: just before");
            }
        }
    }

    #[test]
    fn sentinels_that_fail_the_same_check_give_its_reason() {
        let of = |words: [Unknown; 3]| {
            let mut quorum = Quorum::new(3, 2_000);
            for (number, why) in words.into_iter().enumerate() {
                quorum.answered(number, Mono::at(0), Err(why));
            }
            quorum.master(Mono::at(0)).unwrap_err()
        };
        use Unknown::{Auth, Connect, Quorum as NoQuorum, TlsExpired, TlsName};
        assert_eq!(of([TlsName, Connect, TlsName]), TlsName);
        assert_eq!(of([TlsName, TlsExpired, Connect]), NoQuorum);
        assert_eq!(of([Auth, Auth, Auth]), Auth);
        assert_eq!(of([Connect, Connect, Connect]), NoQuorum);
    }

    #[test]
    fn the_last_word_is_kept_for_people() {
        let mut quorum = Quorum::new(2, 2_000);
        quorum.answered(0, Mono::at(0), answer("m"));
        assert_eq!(
            (quorum.word(0), quorum.word(1), quorum.word(2)),
            (Some(Ok(server("m"))), None, None)
        );
        quorum.answered(0, Mono::at(5), Err(Unknown::Connect));
        quorum.answered(0, Mono::at(4), answer("n"));
        assert_eq!(quorum.word(0), Some(Err(Unknown::Connect)));
    }
}
