//! The blocks of the web file that are not about TLS.

use std::collections::BTreeMap;
use std::time::Duration;

use bcrypt::HashParts;
use serde_yaml::Value;

use super::Secret;
use super::values::{child, count, duration, flag, optional, set, text};
use crate::config::block::Block;
use crate::config::mistake::{Reported, quoted};
use crate::config::schema::BlockSpec;
use crate::config::values::kind;

pub(super) const HTTP_SERVER: BlockSpec =
    BlockSpec { path: "http_server_config", fields: &["http2", "headers"], otherwise: &[] };

pub(super) const HEADERS: BlockSpec = BlockSpec {
    path: "http_server_config.headers",
    fields: &[
        "Content-Security-Policy",
        "X-Frame-Options",
        "X-Content-Type-Options",
        "X-XSS-Protection",
        "Strict-Transport-Security",
    ],
    otherwise: &[],
};

pub(super) const RATE_LIMIT: BlockSpec =
    BlockSpec { path: "rate_limit", fields: &["interval", "burst"], otherwise: &[] };

/// Maximum cost of a hash. A check of this cost takes some seconds, and each step doubles that.
const COST_MAX: u32 = 18;
/// Minimum cost of a hash.
const COST_MIN: u32 = 4;
const NEW_HASH: &str = "make one with `htpasswd -nBC 10 \"\" | tr -d ':\\n'`";

/// How many requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// After this time one more request may come.
    pub interval: Duration,
    /// How many may come at once.
    pub burst: u32,
}

/// Headers of every response.
pub(super) type Headers = Vec<(&'static str, String)>;

/// What a block says, and what can hardly be meant.
type Warned<T> = (T, Vec<String>);

/// The headers, and whether HTTP/2 is asked for.
pub(super) fn read(top: &Block<'_>, nothing: &Value) -> Result<(Headers, bool), Reported> {
    let block = child(top, "http_server_config", &HTTP_SERVER, nothing)?;
    let http_2 = optional(&block, "http2", flag);
    let headers = child(&block, "headers", &HEADERS, nothing)?;
    let header = |name: &&'static str| {
        let value = optional(&headers, name, |value| header_value(name, value));
        value.map(|value| value.filter(|value| !value.is_empty()).map(|value| (*name, value)))
    };
    let all: Vec<_> = HEADERS.fields.iter().map(header).collect();
    let all: Result<Vec<_>, Reported> = all.into_iter().collect();
    Ok((all?.into_iter().flatten().collect(), http_2?.unwrap_or(true)))
}

fn header_value(name: &str, value: &Value) -> Result<String, String> {
    let value = text(value)?;
    let allowed: &[&str] = match name {
        "X-Frame-Options" => &["deny", "sameorigin"],
        "X-Content-Type-Options" => &["nosniff"],
        _ => &[],
    };
    if !allowed.is_empty() && !allowed.contains(&value.as_str()) {
        return Err(format!("is {}; write {}", quoted(&value), allowed.join(" or ")));
    }
    let plain = |byte: u8| byte == b'\t' || (0x20..0x7f).contains(&byte);
    if value.bytes().all(plain) {
        Ok(value)
    } else {
        Err("has characters that no header may have; use one line of ASCII".to_owned())
    }
}

/// The users with the hashes of their passwords.
pub(super) fn users(top: &Block<'_>) -> Result<Warned<BTreeMap<String, Secret>>, Reported> {
    let Some(at) = set(top, "basic_auth_users") else { return Ok(Default::default()) };
    let Value::Mapping(map) = at.value else {
        let message = format!("is {}; write a block: `user: hash of the password`", kind(at.value));
        return Err(at.report(message));
    };
    let mut users = BTreeMap::new();
    let mut warnings = Vec::new();
    let mut wrong = None;
    for (name, value) in map {
        let Ok(name) = text(name) else {
            wrong = Some(at.report(format!("has a user whose name is {}; use text", kind(name))));
            continue;
        };
        if name.contains(':') {
            let quoted = quoted(&name);
            warnings.push(format!(
                "`basic_auth_users`: nobody can log in as {quoted}: no name \
                                   that a client sends has a colon"
            ));
        }
        match hash(value) {
            Ok(hash) => drop(users.insert(name, hash)),
            Err(message) => {
                wrong = Some(at.mistakes.report(at.place.field(&name), message));
            }
        }
    }
    wrong.map_or(Ok((users, warnings)), Err)
}

/// A hash as bcrypt writes it. No message repeats it: it may be the password itself.
fn hash(value: &Value) -> Result<Secret, String> {
    let wrong = || format!("is not a bcrypt hash ($2y$10$ and 53 letters and digits); {NEW_HASH}");
    let hash = text(value).map_err(|_| wrong())?;
    let cost = hash.parse::<HashParts>().map_err(|_| wrong())?.get_cost();
    if (COST_MIN..=COST_MAX).contains(&cost) {
        Ok(Secret::new(hash))
    } else {
        Err(format!(
            "is a hash of cost {cost}; {COST_MIN} to {COST_MAX} are accepted, and 10 is usual: \
             {NEW_HASH}"
        ))
    }
}

/// The rate limit; an interval of 0 is none.
pub(super) fn rate_limit(
    top: &Block<'_>,
    nothing: &Value,
) -> Result<Warned<Option<RateLimit>>, Reported> {
    let block = child(top, "rate_limit", &RATE_LIMIT, nothing)?;
    let (interval, burst) =
        (optional(&block, "interval", duration), optional(&block, "burst", count));
    let (interval, burst) = (interval?.unwrap_or_default(), burst?.unwrap_or(0));
    if interval.is_zero() {
        return Ok((None, Vec::new()));
    }
    let warning = "`rate_limit` with `burst: 0` (the default) refuses every request; write how \
                   many may come at once, like `burst: 20`";
    let warnings = if burst == 0 { vec![warning.to_owned()] } else { Vec::new() };
    Ok((Some(RateLimit { interval, burst }), warnings))
}
