//! The block `redis`: the named Redis stores.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lockwatch_judge::spec::StoreSpec;
use lockwatch_watch::redis::RedisKind;
use serde_yaml::Value;

use super::block::{At, Block};
use super::login::{self, Login};
use super::mistake::Reported;
use super::resolved::RedisConfig;
use super::schema::{REDIS, WANT};
use super::servers::Found;
use super::values::{duration, flag, kind, name_mistake};
use super::{servers, tls};

pub(crate) const INTERVAL: Duration = Duration::from_millis(StoreSpec::INTERVAL_MS);
pub(crate) const TIMEOUT: Duration = Duration::from_millis(StoreSpec::TIMEOUT_MS);

/// Minimum interval. A sweep must end before the next one begins, and sampling must not load the
/// server.
pub(super) const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Minimum timeout. A healthy server behind a busy network already needs tens of milliseconds.
pub(super) const TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// Maximum number of Redis stores. More are not written by people.
const REDISES_MAX: usize = 1000;

/// The named Redis stores, sorted by name, each as far as it could be read.
pub(super) type Redises = BTreeMap<String, Result<RedisConfig, Reported>>;

/// Reads all Redis stores. `dir` is the base of relative paths.
pub(super) fn read(at: &At<'_>, dir: &Path) -> Result<Redises, Reported> {
    let Value::Mapping(map) = at.value else {
        let kind = kind(at.value);
        let message = format!("is {kind}; name each server: `main: {{url: redis://host:port/db}}`");
        return Err(at.report(message));
    };
    if map.is_empty() || map.len() > REDISES_MAX {
        let message = format!("has {} servers; name 1 to {REDISES_MAX}", map.len());
        return Err(at.report(message));
    }
    let mut redises = Redises::new();
    let mut nameless = None;
    for (key, value) in map {
        let Value::String(redis_name) = key else {
            let message = format!("has a server whose name is {}; put it in quotes", kind(key));
            nameless = Some(at.report(message));
            continue;
        };
        if let Some(mistake) = name_mistake(redis_name) {
            let message = format!("the name of this server {mistake}");
            at.mistakes.report(at.place.name_of_field(redis_name), message);
        }
        let at = At { value, place: at.place.field(redis_name), ..*at };
        redises.insert(redis_name.clone(), read_one(redis_name, at, dir));
    }
    nameless.map_or(Ok(redises), Err)
}

fn read_one(redis_name: &str, at: At<'_>, dir: &Path) -> Result<RedisConfig, Reported> {
    let block = Block::open(at, &REDIS)?;
    let servers = servers::read(&block, dir);
    let login = login::read(&block, dir);
    let interval = block.or("interval", INTERVAL, duration(INTERVAL_MIN));
    let timeout = block.or("timeout", TIMEOUT, duration(TIMEOUT_MIN));
    let assume_master = block.or("assume_master", false, flag);
    let wake_ups = block.or("wake_ups", true, flag);
    let want = read_want(&block, dir);
    let page = block.at("want").map_or(Ok(false), |at| want_on_page(at));
    let Found { servers, db, sentinel_login, transports } = servers?;
    let tls = tls::read(&block, transports, dir);
    let assume_master = assume_master?;
    if assume_master && servers.kind() != RedisKind::Standalone {
        return Err(block.report(
            "assume_master",
            "works with `url` only: of several servers each must tell its role",
        ));
    }
    Ok(RedisConfig {
        name: redis_name.into(),
        servers,
        db,
        login: login?,
        sentinel_login,
        tls: tls?,
        interval: interval?,
        timeout: timeout?,
        assume_master,
        wake_ups: wake_ups?,
        want: want?,
        want_on_page: page?,
    })
}

/// Whether users may flip their switches on the page.
fn want_on_page(at: At<'_>) -> Result<bool, Reported> {
    let Value::Mapping(map) = at.value else { return Ok(false) };
    let Some(value) = map.get("page") else { return Ok(false) };
    At { value, place: at.place.field("page"), ..at }.read(flag)
}

/// The login for switching tasks on and off.
fn read_want(block: &Block<'_>, dir: &Path) -> Result<Option<Login>, Reported> {
    block.child("want", &WANT)?.map(|want| login::read(&want, dir)).transpose()
}
