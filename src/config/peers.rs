//! Which announced servers to dial, and where. Sentinels and clusters announce servers; the agent
//! sends a password only to those that the configuration allows.

use std::collections::BTreeMap;
use std::net::IpAddr;

use lockwatch_watch::redis::store::{AllowedHost, HostPort, Peers};
use serde_yaml::Value;

use super::block::{At, Block};
use super::mistake::Reported;
use super::url::{self, HOST_SHAPE};
use super::values::{kind, text};

/// Maximum entries of each list; no announced list of servers is that long.
const ENTRIES_MAX: usize = 1000;

const MAP_SHAPE: &str =
    "write announced and reachable addresses: {\"10.0.0.5:6379\": \"203.0.113.7:16379\"}";

/// Reads `announce_map` and `allow_peers` of a block that has both.
pub(super) fn read(block: &Block<'_>) -> Result<Peers, Reported> {
    let announce_map = block.at("announce_map").map(|at| map(&at)).transpose();
    let allowed = block.at("allow_peers").map(|at| hosts(&at)).transpose();
    Ok(Peers { allowed: allowed?, announce_map: announce_map?.unwrap_or_default() })
}

fn map(at: &At<'_>) -> Result<BTreeMap<HostPort, HostPort>, Reported> {
    let Value::Mapping(entries) = at.value else {
        return Err(at.report(format!("is {}; {MAP_SHAPE}", kind(at.value))));
    };
    let (place, mistakes) = (&at.place, at.mistakes);
    if entries.is_empty() || entries.len() > ENTRIES_MAX {
        let message =
            format!("has {} addresses; write 1 to {ENTRIES_MAX}, or leave it out", entries.len());
        return Err(at.report(message));
    }
    let mut addresses: BTreeMap<HostPort, HostPort> = BTreeMap::new();
    let mut wrong = None;
    for (announced, reachable) in entries {
        let Value::String(name) = announced else {
            let message = format!("has {} as an address; put it in quotes", kind(announced));
            wrong = Some(at.report(message));
            continue;
        };
        // A text that is no address may be anything, even a password. So messages only repeat a
        // parsed address.
        let announced = url::address(name).map(|at| at.canonical());
        let entry = if announced.is_ok() { place.name_of_field(name) } else { place.clone() };
        let announced =
            announced.map_err(|message| format!("an announced address {message}")).and_then(|at| {
                let twice = addresses.contains_key(&at);
                if twice { Err("is here twice; keep one of them".to_owned()) } else { Ok(at) }
            });
        let reachable = text(reachable).and_then(|text| url::address(&text)).and_then(|at| {
            let other = addresses.iter().find(|(_, reachable)| reachable.is_same(&at));
            let taken = |announced| {
                format!("is where {announced} is reached already; each server has its own address")
            };
            other.map_or(Ok(at), |(announced, _)| Err(taken(announced)))
        });
        let announced = announced.map_err(|message| mistakes.report(entry.clone(), message));
        let reachable = reachable.map_err(|message| mistakes.report(entry.value(), message));
        match (announced, reachable) {
            (Ok(announced), Ok(reachable)) => drop(addresses.insert(announced, reachable)),
            _ => wrong = Some(Reported),
        }
    }
    wrong.map_or(Ok(addresses), Err)
}

/// An empty list is valid: then no server is dialled that is only announced.
fn hosts(at: &At<'_>) -> Result<Vec<AllowedHost>, Reported> {
    let hosts = at.list(|value| host(&text(value)?))?;
    if hosts.len() > ENTRIES_MAX {
        let message = format!("has {} entries; write at most {ENTRIES_MAX}", hosts.len());
        return Err(at.report(message));
    }
    Ok(hosts)
}

fn host(text: &str) -> Result<AllowedHost, String> {
    if text.contains('/') {
        let network = text.parse().map(AllowedHost::Network);
        return network.map_err(|_| format!("is no network; {HOST_SHAPE}"));
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(AllowedHost::Network(address.into()));
    }
    if text.contains(':') {
        return Err(format!("has a port in it, or is no address; {HOST_SHAPE}"));
    }
    url::host(text, HOST_SHAPE).map(|host| AllowedHost::Name(host.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use lockwatch_watch::redis::topology::Announced;

    use super::*;

    fn at(text: &str) -> HostPort {
        url::address(text).unwrap()
    }

    fn peers(map: &[(&str, &str)], allowed: Option<&[&str]>) -> Peers {
        let allowed =
            allowed.map(|allowed| allowed.iter().map(|text| host(text).unwrap()).collect());
        Peers {
            announce_map: map.iter().map(|(from, to)| (at(from).canonical(), at(to))).collect(),
            allowed,
        }
    }

    #[test]
    fn an_announced_server_is_dialled_where_it_may() {
        let map: &[(&str, &str)] = &[("10.0.0.5:6379", "203.0.113.7:16379")];
        let none: &[&str] = &[];
        // Announcement, map, allow list, and the address to dial. Configured are Redis-A:26379 and
        // [2001:DB8::5]:26379.
        type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a [&'a str]>, Option<&'a str>);
        let table: &[Row<'_>] = &[
            ("10.0.0.5:6379", map, Some(none), Some("203.0.113.7:16379")),
            ("10.0.0.5:6380", map, Some(none), None),
            ("10.0.0.5:6380", map, None, Some("10.0.0.5:6380")),
            // Another port of a configured host, and the configured server itself.
            ("redis-a:6379", &[], Some(none), Some("redis-a:6379")),
            ("redis-a:26379", &[], Some(none), Some("Redis-A:26379")),
            ("[2001:db8::5]:6379", &[], Some(none), Some("[2001:db8::5]:6379")),
            ("[2001:db8:0::5]:26379", &[], Some(none), Some("[2001:DB8::5]:26379")),
            ("redis-a.evil:6379", &[], Some(none), None),
            // Names match by name, addresses by network. A name never matches by what it might
            // resolve to.
            ("redis-b:6379", &[], Some(&["REDIS-B"]), Some("redis-b:6379")),
            ("redis-c:6379", &[], Some(&["REDIS-B", "0.0.0.0/0", "::/0"]), None),
            ("10.255.0.1:6379", &[], Some(&["10.0.0.0/8"]), Some("10.255.0.1:6379")),
            ("11.0.0.1:6379", &[], Some(&["10.0.0.0/8"]), None),
            ("11.0.0.1:6379", &[], Some(&["0.0.0.0/0"]), Some("11.0.0.1:6379")),
            ("10.0.0.6:6379", &[], Some(&["10.0.0.6"]), Some("10.0.0.6:6379")),
            ("10.0.0.7:6379", &[], Some(&["10.0.0.6/32"]), None),
            ("[fd00::1]:6379", &[], Some(&["fd00::/8"]), Some("[fd00::1]:6379")),
            ("[fe00::1]:6379", &[], Some(&["fd00::/8", "0.0.0.0/0"]), None),
            ("[::ffff:10.0.0.6]:6379", &[], Some(&["10.0.0.0/8"]), None),
            // An unspecified address cannot be dialled.
            ("0.0.0.0:6379", &[], None, None),
        ];
        let configured = [at("Redis-A:26379"), at("[2001:DB8::5]:26379")];
        for (announced, map, allowed, wanted) in table {
            let HostPort { host, port } = at_any(announced);
            let announced = Announced::new(&host, port).unwrap();
            let found =
                peers(map, *allowed).resolve(&announced, &configured).map(|at| at.to_string());
            assert_eq!(found.as_deref(), *wanted, "{announced} {map:?} {allowed:?}");
        }
    }

    /// Also accepts addresses that a configuration must not name.
    fn at_any(text: &str) -> HostPort {
        let (host, port) = text.rsplit_once(':').unwrap();
        HostPort { host: host.trim_matches(['[', ']']).to_owned(), port: port.parse().unwrap() }
    }

    #[test]
    fn what_is_no_host_and_no_network_is_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0/8",
            "10.0.0.0/+8",
            "redis-a/8",
            "redis-a:6379",
            "a b",
            "a@b",
            "*",
        ] {
            let message = host(text).unwrap_err();
            assert!(message.contains(HOST_SHAPE), "{text}: {message}");
        }
    }
}
