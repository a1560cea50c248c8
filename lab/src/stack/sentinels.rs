//! A master, two replicas and three Sentinels. Where network namespaces are available, each server
//! has a machine of its own, shared with one Sentinel.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use redis::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::access::connect;
use super::machine::{Machines, has_own_network};
use super::port::free_address;
use super::process::until;
use super::redis::Redis;

/// The name of the master in the Sentinels' configuration.
const MASTER: &str = "cell";
const SIZE: u8 = 3;
/// Maximum time until servers and Sentinels know each other.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);
const VOTES_WITHIN: Duration = Duration::from_millis(300);

/// The servers and Sentinels, which may be stopped one by one.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) servers: Vec<Mutex<Redis>>,
    pub(crate) sentinels: Vec<Mutex<Redis>>,
    /// The machines of the servers, in their order.
    pub(crate) machines: Option<Machines>,
    addresses: Vec<SocketAddr>,
    sentinel_addresses: Vec<SocketAddr>,
}

impl Set {
    /// Starts all of it. The servers get these further lines of configuration.
    pub(crate) async fn start(lines: &[String]) -> anyhow::Result<Set> {
        let machines = if has_own_network() { Some(Machines::start(SIZE).await?) } else { None };
        let place = |at: usize, port: u16| {
            let machine = machines.as_ref().and_then(|machines| machines.get(at));
            anyhow::Ok(match machine {
                Some(machine) => (SocketAddr::from((machine.address, port)), Some(machine.door)),
                None => (free_address()?, None),
            })
        };
        let (mut servers, mut addresses) = (Vec::new(), Vec::new());
        let (mut sentinels, mut sentinel_addresses) = (Vec::new(), Vec::new());
        for at in 0..usize::from(SIZE) {
            let (address, door) = place(at, 6379)?;
            let mut lines = lines.to_vec();
            let first: Option<&SocketAddr> = addresses.first();
            lines.extend(first.map(|first| format!("replicaof {} {}", first.ip(), first.port())));
            servers.push(Mutex::new(Redis::start_with(address, door, false, &lines).await?));
            addresses.push(address);
        }
        let first = addresses.first().context("no server")?;
        let lines = [
            format!("sentinel monitor {MASTER} {} {} 2", first.ip(), first.port()),
            format!("sentinel down-after-milliseconds {MASTER} 1500"),
            format!("sentinel failover-timeout {MASTER} 4000"),
            format!("sentinel parallel-syncs {MASTER} 3"),
        ];
        for at in 0..usize::from(SIZE) {
            let (address, door) = place(at, 26_379)?;
            sentinels.push(Mutex::new(Redis::start_with(address, door, true, &lines).await?));
            sentinel_addresses.push(address);
        }
        let set = Set { servers, sentinels, machines, addresses, sentinel_addresses };
        until(SETTLES_WITHIN, "servers and Sentinels know each other", async || {
            set.is_settled().await
        })
        .await?;
        Ok(set)
    }

    /// The addresses of the servers, and those of the Sentinels.
    pub(crate) fn addresses(&self) -> (&[SocketAddr], &[SocketAddr]) {
        (&self.addresses, &self.sentinel_addresses)
    }

    /// The servers' part of an agent's configuration. It reaches each of them at another address.
    pub(crate) fn config(&self, reached_at: impl Fn(SocketAddr) -> Option<SocketAddr>) -> String {
        let over = |address: &SocketAddr| reached_at(*address).unwrap_or(*address);
        let nodes: Vec<String> =
            self.sentinel_addresses.iter().map(|node| format!("\"{}\"", over(node))).collect();
        let map: Vec<String> = self
            .addresses
            .iter()
            .map(|server| format!("\"{server}\": \"{}\"", over(server)))
            .collect();
        format!(
            "sentinel: {{master: {MASTER}, nodes: [{}], announce_map: {{{}}}}}",
            nodes.join(", "),
            map.join(", ")
        )
    }

    /// The position of the server that most Sentinels name, if it says that it is the master.
    pub(crate) async fn master(&self) -> Option<usize> {
        let named = majority(&self.sentinel_addresses).await?;
        let at = self.addresses.iter().position(|address| *address == named)?;
        (self.role(at).await.ok()?.first()? == "master").then_some(at)
    }

    /// Makes the Sentinels appoint another master.
    pub(crate) async fn fail_over(&self) -> anyhow::Result<()> {
        let sentinel = self.sentinels.first().context("no Sentinel")?.lock().await;
        sentinel.command(&["SENTINEL", "FAILOVER", MASTER]).await.map(drop)
    }

    /// Whether it is ready for a fault: one master, which all Sentinels name, and replicas that
    /// follow it.
    pub(crate) async fn is_settled(&self) -> bool {
        let Some(master) = self.master().await else { return false };
        for at in 0..self.addresses.len() {
            let Ok(role) = self.role(at).await else { return false };
            let word = |at: usize| role.get(at).map(String::as_str);
            let follows = word(0) == Some("slave") && word(3) == Some("connected");
            if at != master && !follows {
                return false;
            }
        }
        let Some(named) = self.addresses.get(master) else { return false };
        for sentinel in &self.sentinels {
            let Ok(known) = sentinel.lock().await.command(&["SENTINEL", "MASTER", MASTER]).await
            else {
                return false;
            };
            let words = words(&known);
            let known: BTreeMap<&str, &str> = words
                .chunks(2)
                .filter_map(|pair| Some((pair.first()?.as_str(), pair.get(1)?.as_str())))
                .collect();
            let (ip, port) = (named.ip().to_string(), named.port().to_string());
            let others = (SIZE - 1).to_string();
            let wanted = [
                ("ip", ip.as_str()),
                ("port", &port),
                ("flags", "master"),
                ("num-other-sentinels", &others),
                ("num-slaves", &others),
            ];
            if wanted.iter().any(|(name, value)| known.get(name) != Some(value)) {
                return false;
            }
        }
        true
    }

    async fn role(&self, at: usize) -> anyhow::Result<Vec<String>> {
        let server = self.servers.get(at).context("no such server")?;
        // A server that is being stopped says nothing now.
        let Ok(server) = server.try_lock() else { bail!("it is busy") };
        Ok(words(&server.command(&["ROLE"]).await?))
    }
}

/// The texts and numbers of a flat list.
fn words(value: &Value) -> Vec<String> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        _ => &[],
    };
    let word = |item: &Value| match item {
        Value::Int(number) => number.to_string(),
        other => redis::from_redis_value_ref(other).unwrap_or_default(),
    };
    items.iter().map(word).collect()
}

/// The server that more than half of these Sentinels name.
pub(crate) async fn majority(sentinels: &[SocketAddr]) -> Option<SocketAddr> {
    let mut votes: BTreeMap<SocketAddr, usize> = BTreeMap::new();
    for sentinel in sentinels {
        if let Ok(Some(named)) = timeout(VOTES_WITHIN, vote(*sentinel)).await {
            *votes.entry(named).or_default() += 1;
        }
    }
    votes.into_iter().find(|(_, count)| *count * 2 > sentinels.len()).map(|(named, _)| named)
}

async fn vote(sentinel: SocketAddr) -> Option<SocketAddr> {
    let mut connection = connect(sentinel, VOTES_WITHIN).await.ok()?;
    let mut ask = redis::cmd("SENTINEL");
    ask.arg("GET-MASTER-ADDR-BY-NAME").arg(MASTER);
    let (host, port): (String, u16) = ask.query_async(&mut connection).await.ok()?;
    format!("{host}:{port}").parse().ok()
}
