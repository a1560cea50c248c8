//! The addresses of servers: `redis://host:port/db`, with an `s` for TLS, or
//! `redis+unix:///path?db=1` for a Unix socket; or `host:port` where no database applies.

use std::net::{IpAddr, Ipv6Addr};

use lockwatch_watch::redis::store::HostPort;
use percent_encoding::percent_decode_str;

/// The address of one server, its database, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerUrl {
    pub(super) at: HostPort,
    pub(super) db: u32,
    pub(super) transport: Transport,
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// Plain TCP.
    Plain,
    /// TLS over TCP.
    Tls,
    /// A Unix socket.
    Socket,
}

/// Default port of a Redis server.
pub(super) const REDIS_PORT: u16 = 6379;
/// Default port of a Sentinel.
pub(super) const SENTINEL_PORT: u16 = 26_379;

/// The accepted form of a host or network, for messages.
pub(super) const HOST_SHAPE: &str =
    "write a host name, an address or a network like 10.0.0.0/8, without a port";

const SHAPE: &str = "write redis://host:port/db, for example redis://127.0.0.1:6379/0";
const SOCKET_SHAPE: &str =
    "write redis+unix:///path or redis+unix:///path?db=1, for example redis+unix:///run/redis.sock";
/// Maximum length of a Unix socket's path in bytes: that of Linux.
const SOCKET_BYTES_MAX: usize = 107;
const ADDRESS_SHAPE: &str = "write host:port, for example 10.0.0.5:6379";

/// Parses a server's URL. No message repeats the text, because it may contain a password.
pub(super) fn parse(text: &str) -> Result<ServerUrl, String> {
    parse_with_port(text, REDIS_PORT)
}

/// Parses a server that only announces others: `host:port`, which does not say how it is reached,
/// or a URL without a database.
pub(super) fn server(
    text: &str,
    default_port: u16,
) -> Result<(HostPort, Option<Transport>), String> {
    if !text.contains("://") {
        refuse_user(text)?;
        return Ok((host_and_port(text, Some(default_port), ADDRESS_SHAPE)?, None));
    }
    match parse_with_port(text, default_port)? {
        ServerUrl { transport: Transport::Socket, .. } => Err(format!(
            "is a Unix socket, but servers announce each other by TCP; {ADDRESS_SHAPE}"
        )),
        ServerUrl { at, db: 0, transport } => Ok((at, Some(transport))),
        _ => Err("names a database; leave it out, and write `db` next to this block".to_owned()),
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
    let transport = match scheme {
        "redis" | "valkey" => Transport::Plain,
        "rediss" | "valkeys" => Transport::Tls,
        "redis+unix" | "unix" | "valkey+unix" => return socket(rest),
        _ => {
            return Err(format!(
                "does not begin with redis://, rediss:// (TLS) or redis+unix:// (a Unix socket), \
                 nor with valkey:// or valkeys://; {SHAPE}"
            ));
        }
    };
    refuse_user(rest)?;
    if rest.contains(['?', '#']) {
        return Err(format!("has parameters after `?` or `#`, which are not supported; {SHAPE}"));
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let at = host_and_port(authority, Some(default_port), SHAPE)?;
    Ok(ServerUrl { at, db: database(path)?, transport })
}

/// Parses what follows `redis+unix://`.
fn socket(text: &str) -> Result<ServerUrl, String> {
    refuse_user(text)?;
    let (path, parameters) = text.split_once('?').map_or((text, None), |(a, b)| (a, Some(b)));
    let db = match parameters.map(|parameters| parameters.strip_prefix("db=")) {
        None => 0,
        Some(db) => db.and_then(db_number).ok_or_else(|| {
            format!(
                "has something other than `db=` and a number after `?`; the user belongs into \
                 `username`, the password into `password_file`; {SOCKET_SHAPE}"
            )
        })?,
    };
    let path = percent_decode_str(path).decode_utf8().unwrap_or_default();
    if !path.starts_with('/') || path.ends_with('/') || path.contains(char::is_control) {
        return Err(format!("has no absolute path of a socket; {SOCKET_SHAPE}"));
    }
    if path.len() > SOCKET_BYTES_MAX {
        return Err(format!(
            "has a path of {} bytes, and that of a Unix socket has at most {SOCKET_BYTES_MAX}; \
             use a shorter one, perhaps a symbolic link",
            path.len()
        ));
    }
    let at = HostPort { host: path.into_owned(), port: 0 };
    Ok(ServerUrl { at, db, transport: Transport::Socket })
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
    db_number(path)
        .ok_or_else(|| format!("has something other than a database number after the `/`; {SHAPE}"))
}

fn db_number(text: &str) -> Option<u32> {
    whole_number(text).filter(|db| i32::try_from(*db).is_ok())
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
        use Transport::{Plain, Socket, Tls};
        for (text, host, port, db, transport) in [
            ("redis://10.0.0.5:6379/0", "10.0.0.5", 6379, 0, Plain),
            ("valkey://cache_1.shop-a.example", "cache_1.shop-a.example", 6379, 0, Plain),
            ("redis://localhost/", "localhost", 6379, 0, Plain),
            ("redis://[::1]:7000/15", "::1", 7000, 15, Plain),
            ("redis://[::1]", "::1", 6379, 0, Plain),
            ("rediss://cache.example:6380/2", "cache.example", 6380, 2, Tls),
            ("valkeys://10.0.0.5", "10.0.0.5", 6379, 0, Tls),
            ("redis+unix:///run/redis.sock", "/run/redis.sock", 0, 0, Socket),
            ("unix:///run/R%20d%3fs.sock?db=3", "/run/R d?s.sock", 0, 3, Socket),
            ("valkey+unix:///v", "/v", 0, 0, Socket),
        ] {
            let at = HostPort { host: host.to_owned(), port };
            assert_eq!(parse(text), Ok(ServerUrl { at, db, transport }), "{text}");
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
            "rediss://:hunter2@x",
            "rediss://x/hunter2",
            "redis+unix://hunter2",
            "redis+unix:///hunter2/",
            "redis+unix:///x?password=hunter2",
            "redis+unix:///x?db=hunter2",
            "redis+unix://:hunter2@/x",
            "unix:///%00hunter2",
            &format!("unix:///{}hunter2", "x".repeat(107)),
        ] {
            let message = parse(text).unwrap_err();
            assert!(!message.contains("hunter2"), "{text}: {message}");
        }
    }

    #[test]
    fn servers_without_a_database() {
        let read = |text| server(text, SENTINEL_PORT).map(|(at, _)| at.to_string());
        for (text, wanted) in [
            ("10.0.0.5", "10.0.0.5:26379"),
            ("sentinel_a:5000", "sentinel_a:5000"),
            ("[::1]", "[::1]:26379"),
            ("redis://10.0.0.5", "10.0.0.5:26379"),
            ("redis://10.0.0.5:6379/0", "10.0.0.5:6379"),
            ("rediss://a", "a:26379"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(wanted), "{text}");
        }
        for text in [
            "",
            "a/0",
            "redis://a/1",
            "redis+unix:///a",
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
