//! The block `redis`: the named servers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_yaml::Value;

use super::block::Block;
use super::mistake::{Mistakes, Place, Reported};
use super::schema::REDIS;
use super::url::{self, ServerUrl};
use super::values::{duration, flag, kind, name, name_mistake, text};
use super::{HostPort, Login, PasswordSource, RedisConfig, Servers};

const INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(3);

/// A sweep must be over before the next one, and a server must not be busy with being watched.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// A healthy server behind a busy network already needs tens of milliseconds.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// More connections than this are no longer a configuration written by people.
const REDISES_MAX: usize = 1000;

/// The named servers in the order of their names, each as far as it could be read.
pub(super) type Redises = BTreeMap<String, Result<RedisConfig, Reported>>;

/// Reads all servers. `dir` is where relative paths start.
pub(super) fn read(value: &Value, place: &Place, dir: &Path, mistakes: &Mistakes) -> Result<Redises, Reported> {
    let Value::Mapping(map) = value else {
        let message = format!("is {}; name each server: `main: {{url: redis://host:port/db}}`", kind(value));
        return Err(mistakes.report(place.clone(), message));
    };
    if map.is_empty() || map.len() > REDISES_MAX {
        let message = format!("has {} servers; name 1 to {REDISES_MAX}", map.len());
        return Err(mistakes.report(place.clone(), message));
    }
    let mut redises = Redises::new();
    let mut nameless = None;
    for (key, value) in map {
        let Value::String(redis_name) = key else {
            let message = format!("has a server whose name is {}; put it in quotes", kind(key));
            nameless = Some(mistakes.report(place.clone(), message));
            continue;
        };
        if let Some(mistake) = name_mistake(redis_name) {
            mistakes.report(place.name_of_field(redis_name), format!("the name of this server {mistake}"));
        }
        redises.insert(redis_name.clone(), read_one(redis_name, value, place.field(redis_name), dir, mistakes));
    }
    nameless.map_or(Ok(redises), Err)
}

fn read_one(
    redis_name: &str,
    value: &Value,
    place: Place,
    dir: &Path,
    mistakes: &Mistakes,
) -> Result<RedisConfig, Reported> {
    let block = Block::open(value, place, &REDIS, mistakes)?;
    let server = block.required("url", "write `url: redis://host:port/db`", |value| url::parse(&text(value)?));
    let username = block.optional("username", username);
    let password = read_password(&block, dir);
    let interval = block.or("interval", INTERVAL, duration(INTERVAL_MIN));
    let timeout = block.or("timeout", TIMEOUT, duration(TIMEOUT_MIN));
    let assume_master = block.or("assume_master", false, flag);
    let ServerUrl { host, port, db } = server?;
    Ok(RedisConfig {
        name: redis_name.into(),
        servers: Servers::One(HostPort { host, port }),
        db,
        login: Login { username: username?, password: password? },
        interval: interval?,
        timeout: timeout?,
        assume_master: assume_master?,
    })
}

fn read_password(block: &Block<'_>, dir: &Path) -> Result<Option<PasswordSource>, Reported> {
    let file = block.optional("password_file", |value| path(value, dir));
    let variable = block.optional("password_env", variable);
    match (file?, variable?) {
        (Some(_), Some(_)) => Err(block.report(
            "password_env",
            "cannot stand beside `password_file`; keep the one that the password is read from",
        )),
        (Some(file), None) => Ok(Some(PasswordSource::File(file))),
        (None, Some(variable)) => Ok(Some(PasswordSource::Env(variable))),
        (None, None) => Ok(None),
    }
}

/// Redis takes no user name with white space in it.
fn username(value: &Value) -> Result<String, String> {
    let user = name(value)?;
    let spaced = user.contains(char::is_whitespace);
    if spaced { Err("has white space in it; use the ACL user's name".to_owned()) } else { Ok(user) }
}

fn path(value: &Value, dir: &Path) -> Result<PathBuf, String> {
    let path = text(value)?;
    if path.is_empty() || path.contains('\0') {
        return Err("is not a path; write the path of a file whose first line is the password".to_owned());
    }
    Ok(dir.join(path))
}

fn variable(value: &Value) -> Result<String, String> {
    let variable = text(value)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if variable.is_empty() || !variable.bytes().all(plain) {
        // What stands here may be the password itself, so it is not repeated.
        return Err("is not the name of an environment variable; write its name, letters, digits and _, \
                    not the password"
            .to_owned());
    }
    Ok(variable)
}
