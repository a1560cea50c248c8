//! The addresses of servers: `redis://host:port/db`, or `host:port` where no database applies.

use std::net::{IpAddr, Ipv6Addr};

use super::HostPort;

/// The address of one server, and its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerUrl {
    pub(super) at: HostPort,
    pub(super) db: u32,
}

/// Default port of a Redis server.
pub(super) const REDIS_PORT: u16 = 6379;
/// Default port of a Sentinel.
pub(super) const SENTINEL_PORT: u16 = 26_379;

/// The accepted form of a host or network, for messages.
pub(super) const HOST_SHAPE: &str =
    "write a host name, an address or a network like 10.0.0.0/8, without a port";

const SHAPE: &str = "write redis://host:port/db, for example redis://127.0.0.1:6379/0";
const ADDRESS_SHAPE: &str = "write host:port, for example 10.0.0.5:6379";

/// Parses a server's URL. No message repeats the text, because it may contain a password.
pub(super) fn parse(text: &str) -> Result<ServerUrl, String> {
    parse_with_port(text, REDIS_PORT)
}

/// Parses a server that only announces others: `host:port`, or a URL without a database.
pub(super) fn server(text: &str, default_port: u16) -> Result<HostPort, String> {
    if !text.contains("://") {
        refuse_user(text)?;
        return host_and_port(text, Some(default_port), ADDRESS_SHAPE);
    }
    match parse_with_port(text, default_port)? {
        ServerUrl { at, db: 0 } => Ok(at),
        _ => Err("names a database; there is only database 0 here, so leave it out".to_owned()),
    }
}

/// Parses `host:port`.
pub(super) fn address(text: &str) -> Result<HostPort, String> {
    if text.contains("://") {
        return Err(format!("is a URL; {ADDRESS_SHAPE}"));
    }
    refuse_user(text)?;
    host_and_port(text, None, ADDRESS_SHAPE)
}

fn parse_with_port(text: &str, default_port: u16) -> Result<ServerUrl, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(format!("is not a URL; {SHAPE}"));
    };
    match scheme {
        "redis" | "valkey" => {}
        "rediss" | "valkeys" => return Err(not_yet("rediss:// (TLS)")),
        "redis+unix" | "unix" | "valkey+unix" => {
            return Err(not_yet("redis+unix:// (a Unix socket)"));
        }
        _ => return Err(format!("does not begin with redis:// or valkey://; {SHAPE}")),
    }
    refuse_user(rest)?;
    if rest.contains(['?', '#']) {
        return Err(format!("has parameters after `?` or `#`, which are not supported; {SHAPE}"));
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    Ok(ServerUrl { at: host_and_port(authority, Some(default_port), SHAPE)?, db: database(path)? })
}

fn refuse_user(text: &str) -> Result<(), String> {
    if text.contains('@') {
        return Err(
            "has a user or password in it; move the user to `username` and the password to \
            `password_file` \
                    or `password_env`, so that no log can show it"
                .to_owned(),
        );
    }
    Ok(())
}

fn not_yet(what: &str) -> String {
    format!("{what} is not supported yet; use redis://host:port/db (plain TCP)")
}

fn host_and_port(
    authority: &str,
    default_port: Option<u16>,
    shape: &str,
) -> Result<HostPort, String> {
    let (found, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, after))
            if host.parse::<Ipv6Addr>().is_ok() && (after.is_empty() || after.starts_with(':')) =>
        {
            (host, after.strip_prefix(':'))
        }
        Some(_) => return Err(format!("has no valid IPv6 address in its brackets; {shape}")),
        None => match authority.split_once(':') {
            Some((name, port)) => (host(name, shape)?, Some(port)),
            None => (host(authority, shape)?, None),
        },
    };
    if found.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified()) {
        return Err("names all addresses (0.0.0.0 or ::), which is nowhere to connect to; use \
            127.0.0.1 or ::1 for \
                    this machine"
            .to_owned());
    }
    let port = match port {
        None => default_port.ok_or_else(|| format!("has no port; {shape}"))?,
        Some(port) => whole_number(port)
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port != 0)
            .ok_or_else(|| format!("has no valid port (1 to 65535); {shape}"))?,
    };
    Ok(HostPort { host: found.to_owned(), port })
}

/// A host name or IPv4 address.
pub(super) fn host<'a>(text: &'a str, shape: &str) -> Result<&'a str, String> {
    let name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || !text.chars().all(name_char) {
        return Err(format!("has no valid host; {shape}"));
    }
    Ok(text)
}

fn database(path: &str) -> Result<u32, String> {
    if path.is_empty() {
        return Ok(0);
    }
    whole_number(path)
        .filter(|db| i32::try_from(*db).is_ok())
        .ok_or_else(|| format!("has something other than a database number after the `/`; {SHAPE}"))
}

/// Parses digits only, and not too many.
pub(super) fn whole_number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_urls() {
        for (text, host, port, db) in [
            ("redis://10.0.0.5:6379/0", "10.0.0.5", 6379, 0),
            ("valkey://cache_1.shop-a.example", "cache_1.shop-a.example", 6379, 0),
            ("redis://localhost/", "localhost", 6379, 0),
            ("redis://[::1]:7000/15", "::1", 7000, 15),
            ("redis://[::1]", "::1", 6379, 0),
        ] {
            assert_eq!(
                parse(text),
                Ok(ServerUrl { at: HostPort { host: host.to_owned(), port }, db }),
                "{text}"
            );
        }
    }

    #[test]
    fn bad_urls_are_refused_without_repeating_them() {
        for text in [
            "hunter2",
            "hunter2://x",
            "redis://:hunter2@x",
            "redis://user:hun/ter2@x",
            "redis://hunter2?x",
            "redis://x:hunter2",
            "redis://x/hunter2",
            "redis://hunter2 x",
            "redis://[hunter2]:1",
            "redis://[::1]hunter2",
            "redis://",
            "redis://:6379",
            "redis://x:0",
            "redis://x:+1",
            "redis://x:65536",
            "redis://x:",
            "redis://x/0/1",
            "redis://x/4294967296",
            "redis://0.0.0.0",
            "redis://[::]:6379",
            "redis://::1",
            "rediss://hunter2",
            "redis+unix:///hunter2",
        ] {
            let message = parse(text).unwrap_err();
            assert!(!message.contains("hunter2"), "{text}: {message}");
        }
    }

    #[test]
    fn servers_without_a_database() {
        let read = |text| server(text, SENTINEL_PORT).map(|at| at.to_string());
        for (text, wanted) in [
            ("10.0.0.5", "10.0.0.5:26379"),
            ("sentinel_a:5000", "sentinel_a:5000"),
            ("[::1]", "[::1]:26379"),
            ("redis://10.0.0.5", "10.0.0.5:26379"),
            ("redis://10.0.0.5:6379/0", "10.0.0.5:6379"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(wanted), "{text}");
        }
        for text in [
            "",
            "a/0",
            "redis://a/1",
            "rediss://a",
            "hunter2@a",
            "a:hunter2",
            "a b",
            "::1",
            "[::1",
            "0.0.0.0:1",
            "a:0",
        ] {
            let message = read(text).unwrap_err();
            assert!(!message.contains("hunter2"), "{text}: {message}");
        }
        for text in ["", "10.0.0.5", "10.0.0.5:0", "redis://10.0.0.5:6379", "[::1]", "a:b@c:1"] {
            assert!(address(text).is_err(), "{text}");
        }
        assert_eq!(address("[::1]:1").map(|at| at.to_string()).as_deref(), Ok("[::1]:1"));
    }
}
