//! What is wrong with a connection, as far as the server's own words prove it. A wrong remedy is
//! worse than none, so each conclusion needs a word that only one cause explains.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use lockwatch_judge::reading::Unknown;

use super::accept;
use super::driver::{Failure, printable};
use super::reply::{Reply, ServerError};
use crate::remedy::is_mistake;

/// Maximum length of words that are kept, in bytes.
const WORDS_MAX: usize = 300;
/// Maximum number of masters' names that are listed.
const NAMES_MAX: usize = 20;

/// Who a server says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// A Redis server, with the name of its role.
    Server(String),
    /// An active replica of KeyDB.
    ActiveReplica,
    /// A Sentinel, and the names of the masters that it watches, if it reports them.
    Sentinel(Option<Vec<String>>),
    /// A proxy that passes on the answers of several servers, as Envoy does.
    Proxy,
    /// A proxy that was not asked to select a database, and its name.
    SharedProxy(String),
}

impl Identity {
    /// From the replies to `ROLE` and to `INFO server`, if they are no refusals.
    pub(super) fn of(role: Option<&Reply>, info: Option<&Reply>) -> Option<Identity> {
        let role = role.and_then(Reply::as_array);
        if role.is_some_and(|items| matches!(items.first(), Some(Reply::Array(_)))) {
            return Some(Identity::Proxy);
        }
        let name = role.and_then(|items| items.first()?.as_bytes());
        let mode = info.and_then(Reply::as_bytes);
        let mode = mode.and_then(|text| accept::info_field(text, "redis_mode"));
        match (name, mode) {
            (Some(b"sentinel"), _) => {
                let names = role.and_then(|items| items.get(1)?.as_array());
                let name = |name: &Reply| Some(printable(&text_of(name.as_bytes()?)));
                Some(Identity::Sentinel(
                    names.map(|names| names.iter().take(NAMES_MAX).filter_map(name).collect()),
                ))
            }
            (_, Some(b"sentinel")) => Some(Identity::Sentinel(None)),
            (Some(b"active-replica"), _) => Some(Identity::ActiveReplica),
            (Some(name), _) if accept::role_named(name).is_some() => {
                Some(Identity::Server(text_of(name)))
            }
            _ => None,
        }
    }

    /// Why a server with this identity is useless, if it is.
    pub(super) fn refuses(&self, sentinel_is_expected: bool) -> Option<Failure> {
        let (why, words) = match (self, sentinel_is_expected) {
            (Identity::Sentinel(_), true) | (Identity::Server(_), false) => return None,
            (Identity::Sentinel(None), false) => (Unknown::Sentinel, "it is a Sentinel".to_owned()),
            (Identity::Sentinel(Some(names)), false) => (
                Unknown::Sentinel,
                format!("it is a Sentinel; its masters are called {}", self::names(names)),
            ),
            (Identity::Server(role), true) => (
                Unknown::NoSentinel,
                format!("it is no Sentinel, but a server: its role is {role}"),
            ),
            (Identity::Proxy, _) => (
                Unknown::Protocol,
                "it is a proxy: it answers ROLE with the answers of several servers. Give the \
                 address of the server behind it"
                    .to_owned(),
            ),
            (Identity::SharedProxy(name), _) => (
                Unknown::Protocol,
                format!(
                    "it is a proxy ({}): selecting a database through it could move all its \
                     clients there. Give the address of the server behind it",
                    printable(name)
                ),
            ),
            (Identity::ActiveReplica, true) => {
                (Unknown::NoSentinel, "it is no Sentinel, but an active replica".to_owned())
            }
            (Identity::ActiveReplica, false) => {
                (Unknown::ActiveReplica, "its role is active-replica".to_owned())
            }
        };
        Some(Failure::new_printable(why, words))
    }
}

/// The names of masters for a sentence.
pub(super) fn names(names: &[String]) -> String {
    if names.is_empty() { "(none)".to_owned() } else { names.join(", ") }
}

/// Why a server refused a command of the greeting. A login can be refused in many more ways than
/// other commands. `logged_in`: a name or a password was sent.
pub(super) fn refusal(error: &ServerError, logged_in: bool) -> Unknown {
    let says = |part: &str| {
        error.detail.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
    };
    match error.code.as_slice() {
        b"DENIED" => Unknown::Protected,
        b"NOAUTH" if !logged_in => Unknown::NoPassword,
        // Before 6.0, and since.
        b"ERR" if says("no password is set") || says("without any password configured") => {
            Unknown::NeedlessPassword
        }
        // How servers before 6.0 refuse a password, and want one.
        b"ERR" if says("invalid password") || says("sent AUTH") => Unknown::Auth,
        b"ERR" if says("operation not permitted") => {
            if logged_in {
                Unknown::Auth
            } else {
                Unknown::NoPassword
            }
        }
        b"ERR" if says("DB index is out of range") || says("invalid DB index") => Unknown::Database,
        b"ERR" if says("not allowed in cluster mode") => Unknown::Cluster,
        b"ERR" if says("cluster support disabled") || says("cluster is disabled") => {
            Unknown::NoCluster
        }
        _ => Unknown::from(error),
    }
}

/// The reason that all failures have in common, if it is a mistake; else the last one.
pub(super) fn common(failures: &[Failure]) -> Option<&Failure> {
    let last = failures.last()?;
    let differs = |failure: &&Failure| failure.why != last.why;
    match failures.iter().find(differs) {
        Some(other) if is_mistake(last.why) => Some(other),
        _ => Some(last),
    }
}

/// The words of an error.
pub(super) fn words_of(error: &ServerError) -> String {
    let said = [error.code.as_slice(), b" ", &error.detail].concat();
    printable(String::from_utf8_lossy(&said).trim_end())
}

/// The words of the first error among `replies` that led to `why`.
pub(super) fn words_for<'a>(
    why: Unknown,
    replies: impl IntoIterator<Item = &'a Reply>,
) -> Option<String> {
    replies.into_iter().find_map(|reply| match reply {
        Reply::Error(error) if refusal(error, true) == why => Some(words_of(error)),
        Reply::Array(items) if why == Unknown::NotMaster => follows(items),
        _ => None,
    })
}

/// The failure of a Sentinel that gave no usable answer, in its words. `masters`: the names that it
/// knows.
pub fn names_no_master(
    why: Unknown,
    replies: &[Reply],
    name: &str,
    masters: Option<&[String]>,
) -> Failure {
    let words = match (why, masters) {
        (Unknown::MasterName, Some(masters)) => {
            format!("it knows no master called {}; it knows: {}", printable(name), names(masters))
        }
        (Unknown::MasterName, None) => format!("it knows no master called {}", printable(name)),
        _ => words_for(why, replies).unwrap_or_else(|| "it says no address".into()),
    };
    Failure::new_printable(why, words)
}

/// Whom a replica follows, from its reply to `ROLE`.
fn follows(role: &[Reply]) -> Option<String> {
    let [name, host, port, _state, _offset] = role else { return None };
    let is_replica = matches!(name.as_bytes(), Some(b"slave" | b"replica"));
    let host = host.as_bytes().filter(|_| is_replica)?;
    Some(format!("it is a replica of {}:{}", printable(&text_of(host)), port.as_int()?))
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// At most so much of the words as is kept.
pub(super) fn bounded(words: &str) -> String {
    if words.len() <= WORDS_MAX {
        return words.to_string();
    }
    let mut end = WORDS_MAX;
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", words.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::redis::testing::{bytes, error, list};

    #[test]
    fn who_a_server_is_needs_its_own_word() {
        let sentinel = Reply::Array(vec![bytes("sentinel"), list(&["main", "o\n"])]);
        let noperm = error("NOPERM", "no");
        let mode = |mode: &str| bytes(&format!("# Server\r\nredis_mode:{mode}\r\n"));
        let named = Identity::Sentinel(Some(vec!["main".to_owned(), "o\\n".to_owned()]));
        let table = [
            (Some(&sentinel), None, Some(named)),
            (Some(&noperm), Some(mode("sentinel")), Some(Identity::Sentinel(None))),
            (Some(&noperm), Some(mode("standalone")), None),
            (None, Some(bytes("whatever")), None),
            (Some(&list(&["active-replica"])), None, Some(Identity::ActiveReplica)),
            (Some(&list(&["slave"])), None, Some(Identity::Server("slave".to_owned()))),
            (Some(&list(&["queen"])), None, None),
        ];
        for (role, info, expected) in table {
            assert_eq!(Identity::of(role, info.as_ref()), expected, "{role:?}");
        }
    }

    #[test]
    fn only_a_reason_that_all_share_is_called_a_mistake() {
        let fail = |why: Unknown| Failure::new(why, "");
        let common = |whys: &[Unknown]| {
            let all: Vec<Failure> = whys.iter().copied().map(fail).collect();
            common(&all).map(|failure| failure.why)
        };
        let (no, down) = (Unknown::NoCluster, Unknown::Connect);
        assert_eq!(common(&[]), None);
        assert_eq!(common(&[no, no]), Some(no));
        assert_eq!(common(&[no, down]), Some(down));
        assert_eq!(common(&[down, no]), Some(down));
    }

    #[test]
    fn words_are_bounded_and_printable() {
        assert_eq!(printable("a 'b' \"c\" \\ \n\u{202e}"), "a 'b' \"c\" \\\\ \\n\\u{202e}");
        assert_eq!(bounded("short"), "short");
        let long = bounded(&"é".repeat(400));
        assert!(long.ends_with('…') && long.len() <= WORDS_MAX + 3, "{long}");
    }

    #[test]
    fn a_replica_names_its_master() {
        let role = Reply::Array(vec![
            bytes("slave"),
            bytes("10.0.0.5"),
            Reply::Int(6379),
            bytes("x"),
            Reply::Int(1),
        ]);
        let words = words_for(Unknown::NotMaster, [&bytes("x"), &role]);
        assert_eq!(words.as_deref(), Some("it is a replica of 10.0.0.5:6379"));
        assert_eq!(words_for(Unknown::NotMaster, [&list(&["slave"])]), None);
        let refused = error("NOPERM", "this user has no permissions to run the 'time' command");
        let words = words_for(Unknown::NoPermission, [&bytes("x"), &refused]);
        assert!(words.unwrap().ends_with("the 'time' command"));
    }
}
