//! The block `zookeeper`: the named ensembles.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lockwatch_watch::redis::store::HostPort;
use serde_yaml::Value;

use super::block::{At, Block};
use super::login::{Login, PasswordSource};
use super::mistake::Reported;
use super::redises::{INTERVAL, INTERVAL_MIN, TIMEOUT, TIMEOUT_MIN};
use super::resolved::ZooKeeperConfig;
use super::schema::ZOOKEEPER;
use super::servers::Transports;
use super::tls;
use super::url;
use super::values::{duration, kind, name_mistake, text};

/// The port of ZooKeeper's clients.
const PORT: u16 = 2181;
/// Maximum number of servers of an ensemble.
const SERVERS_MAX: usize = 100;
/// Maximum number of ensembles. More are not written by people.
const ENSEMBLES_MAX: usize = 1000;
const SHAPE: &str = "write `servers: [\"zk1:2181\", \"zk2:2181\", \"zk3:2181\"]`";

/// The named ensembles, sorted by name, each as far as it could be read.
pub(super) type ZooKeepers = BTreeMap<String, Result<ZooKeeperConfig, Reported>>;

/// Reads all ensembles. `dir` is the base of relative paths.
pub(super) fn read(at: &At<'_>, dir: &Path) -> Result<ZooKeepers, Reported> {
    let Value::Mapping(map) = at.value else {
        let kind = kind(at.value);
        let message = format!("is {kind}; name each ensemble: `zk: {{servers: [\"host:2181\"]}}`");
        return Err(at.report(message));
    };
    if map.is_empty() || map.len() > ENSEMBLES_MAX {
        let message = format!("has {} ensembles; name 1 to {ENSEMBLES_MAX}", map.len());
        return Err(at.report(message));
    }
    let mut all = ZooKeepers::new();
    let mut nameless = None;
    for (key, value) in map {
        let Value::String(name) = key else {
            let message = format!("has an ensemble whose name is {}; put it in quotes", kind(key));
            nameless = Some(at.report(message));
            continue;
        };
        if let Some(mistake) = name_mistake(name) {
            let message = format!("the name of this ensemble {mistake}");
            at.mistakes.report(at.place.name_of_field(name), message);
        }
        let at = At { value, place: at.place.field(name), ..*at };
        all.insert(name.clone(), read_one(name, at, dir));
    }
    nameless.map_or(Ok(all), Err)
}

fn read_one(name: &str, at: At<'_>, dir: &Path) -> Result<ZooKeeperConfig, Reported> {
    let block = Block::open(at, &ZOOKEEPER)?;
    let same = |a: &HostPort, b: &HostPort| a.is_same(b);
    let servers = match block.value("servers") {
        Some(Value::String(text)) => Err(block.report("servers", connection_string(text))),
        _ => block.required_list("servers", SERVERS_MAX, SHAPE, server, same),
    };
    let secret = block.optional("auth_file", |value| auth_file(value, dir));
    let interval = block.or("interval", INTERVAL, duration(INTERVAL_MIN));
    let timeout = block.or("timeout", TIMEOUT, duration(TIMEOUT_MIN));
    let tls = tls::read(&block, Transports::default(), dir);
    let password = secret?.map(PasswordSource::File);
    Ok(ZooKeeperConfig {
        name: name.into(),
        servers: servers?,
        login: Login { password, ..Login::default() },
        tls: tls?,
        interval: interval?,
        timeout: timeout?,
    })
}

/// What to write instead of the connection string that ZooKeeper's clients take.
fn connection_string(text: &str) -> String {
    let chroot = text.split_once('/').filter(|_| !text.contains("://")).map(|(_, chroot)| chroot);
    let chroot = match chroot.filter(|chroot| !chroot.is_empty() && !text.contains('@')) {
        Some(chroot) => format!(", and `/{chroot}` at the beginning of each path"),
        None => String::new(),
    };
    format!("is text, and is a list here; {SHAPE}{chroot}")
}

fn server(value: &Value) -> Result<HostPort, String> {
    let text = text(value)?;
    let text = text.strip_prefix("zookeeper://").unwrap_or(&text);
    match text {
        _ if text.contains(',') => Err(format!("has several servers in one text; {SHAPE}")),
        _ if text.contains("://") => Err(format!("is no server of ZooKeeper; {SHAPE}")),
        _ if text.contains('/') => Err(format!(
            "has a path after the server; begin the path of each node with it, and {SHAPE}"
        )),
        _ if text.contains('@') => Err("has a user or password in it; write `user:password` into \
                                        a file, and name that with `auth_file`"
            .to_owned()),
        _ => url::server(text, PORT).map(|(at, _)| at),
    }
}

/// It may be the secret itself, so no message repeats it.
fn auth_file(value: &Value, dir: &Path) -> Result<PathBuf, String> {
    let path = text(value)?;
    if path.is_empty() || path.contains(['\0', '\n']) {
        return Err("is not a path; write the path of a file whose first line is `user:password`"
            .to_owned());
    }
    if path.contains(':') && !path.contains('/') {
        return Err("looks like the login itself; write it into a file, and name that".to_owned());
    }
    Ok(dir.join(path))
}
