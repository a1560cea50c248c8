//! The address of one server: `redis://host:port/db`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where one server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerUrl {
    /// Host name or address; an IPv6 address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) db: u32,
}

const DEFAULT_PORT: u16 = 6379;
const SHAPE: &str = "write redis://host:port/db, for example redis://127.0.0.1:6379/0";

/// Reads a server's URL. No message ever repeats the text: there may be a password in it.
pub(super) fn parse(text: &str) -> Result<ServerUrl, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(format!("is not a URL; {SHAPE}"));
    };
    match scheme {
        "redis" | "valkey" => {}
        "rediss" | "valkeys" => return Err(not_yet("rediss:// (TLS)")),
        "redis+unix" | "unix" | "valkey+unix" => return Err(not_yet("redis+unix:// (a Unix socket)")),
        _ => return Err(format!("does not begin with redis:// or valkey://; {SHAPE}")),
    }
    if rest.contains('@') {
        return Err("has a user or password in it; move the user to `username` and the password to `password_file` \
                    or `password_env`, so that no log can show it"
            .to_owned());
    }
    if rest.contains(['?', '#']) {
        return Err(format!("has parameters after `?` or `#`, which are not supported; {SHAPE}"));
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = host_and_port(authority)?;
    Ok(ServerUrl { host, port, db: database(path)? })
}

fn not_yet(what: &str) -> String {
    format!("{what} is not supported yet; use redis://host:port/db (plain TCP)")
}

fn host_and_port(authority: &str) -> Result<(String, u16), String> {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, after)) if host.parse::<Ipv6Addr>().is_ok() && (after.is_empty() || after.starts_with(':')) => {
            (host, after.strip_prefix(':'))
        }
        Some(_) => return Err(format!("has no valid IPv6 address in its brackets; {SHAPE}")),
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let in_brackets = authority.starts_with('[');
    let name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if host.is_empty() || (!in_brackets && !host.chars().all(name_char)) {
        return Err(format!("has no valid host; {SHAPE}"));
    }
    let ip = host.parse::<IpAddr>();
    if ip == Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) || ip == Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) {
        return Err("names all addresses (0.0.0.0 or ::), which is nowhere to connect to; use 127.0.0.1 or ::1 for \
                    this machine"
            .to_owned());
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => whole_number(port)
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port != 0)
            .ok_or_else(|| format!("has no valid port (1 to 65535); {SHAPE}"))?,
    };
    Ok((host.to_owned(), port))
}

fn database(path: &str) -> Result<u32, String> {
    if path.is_empty() {
        return Ok(0);
    }
    whole_number(path)
        .filter(|db| i32::try_from(*db).is_ok())
        .ok_or_else(|| format!("has something other than a database number after the `/`; {SHAPE}"))
}

fn whole_number(text: &str) -> Option<u32> {
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
            assert_eq!(parse(text), Ok(ServerUrl { host: host.to_owned(), port, db }), "{text}");
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
}
