//! Starts and stops all parts of a run: servers, Sentinels, cables, agents, worker processes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use super::clock::{SECOND, now, wall_ahead};
use super::header::{Header, Library, RedisEntry, ServerEntry, TaskEntry, Times};
use super::master::MASTER;
use super::server::{PASSWORD, Server, Start, USER, breathe};
use crate::stack::{Agent, Cable, Machines, Program, Signal, free_address, has_own_network};

/// Number of agents.
pub(super) const AGENTS: usize = 2;
/// Number of worker processes.
pub(super) const HOSTS: usize = 3;
/// The Redis setups. Where network namespaces are available, each server of the set with Sentinels
/// has a machine of its own, shared with one Sentinel.
const REDISES: [Cast; 3] = [
    Cast { name: "alpha", servers: 1, sentinels: 0, tenths: 4, quiet: QUIET },
    Cast { name: "beta", servers: 1, sentinels: 0, tenths: 3, quiet: 0 },
    Cast { name: "gamma", servers: 3, sentinels: 3, tenths: 3, quiet: QUIET },
];
/// Number of locks that are never taken: enough that an agent with wake-ups only glances at the
/// other locks of this Redis in two of three sweeps.
const QUIET: usize = 500;
/// Number of machines that the largest setup needs.
const MACHINES: u8 = 3;
/// Maximum time until servers and Sentinels know each other.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);

/// The setup of one Redis.
#[derive(Debug)]
struct Cast {
    name: &'static str,
    servers: usize,
    sentinels: usize,
    /// Its share of the tasks, in tenths.
    tenths: usize,
    /// Number of additional tasks whose lock is never taken; they are not judged.
    quiet: usize,
}

/// The parts of a run. All end when this is dropped.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) header: Arc<Header>,
    /// Servers and Sentinels by name.
    pub(super) servers: BTreeMap<String, Mutex<Server>>,
    pub(super) agents: Vec<Mutex<Agent>>,
    /// The addresses of the agents, which no fault changes.
    pub(super) agent_addresses: Vec<SocketAddr>,
    /// By agent and server.
    pub(super) cables: BTreeMap<(usize, String), Cable>,
    pub(super) hosts: Vec<Mutex<Host>>,
    /// The machines of the servers of the Redis with Sentinels, in their order.
    pub(super) machines: Option<Machines>,
    _sockets: TempDir,
}

/// A worker process.
#[derive(Debug)]
pub(super) struct Host {
    index: usize,
    folder: PathBuf,
    child: Option<Child>,
}

impl Host {
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(Program::Lab.find()?);
        command.args(["host", "--index", &self.index.to_string(), "--dir"]).arg(&self.folder);
        command.stdin(std::process::Stdio::piped()).process_group(0).kill_on_drop(true);
        self.child = Some(command.spawn().context("cannot start a worker process")?);
        Ok(())
    }

    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await.context("cannot kill a worker process")?;
        }
        Ok(())
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    pub(super) async fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        crate::stack::send_signal(self.id().context("the worker process has ended")?, signal).await
    }
}

impl Stage {
    /// Starts everything except the workers.
    pub(super) async fn start(
        folder: &Path,
        seed: u64,
        tasks: usize,
        times: Times,
        redisson: bool,
    ) -> anyhow::Result<Stage> {
        let sockets = TempDir::with_prefix("lw")?;
        let machines =
            if has_own_network() { Some(Machines::start(MACHINES).await?) } else { None };
        let entry = |redis| redis_entry(redis, sockets.path(), machines.as_ref());
        let redises = REDISES.iter().map(entry).collect::<anyhow::Result<Vec<_>>>()?;
        let header = Header {
            seed,
            began_us: now() + 15 * SECOND,
            wall_ahead_us: wall_ahead(),
            times,
            tasks: task_entries(tasks, redisson),
            redises,
            agents: AGENTS,
            hosts: HOSTS,
        };
        let servers = start_servers(folder, &header, machines.as_ref()).await?;
        let mut cables = BTreeMap::new();
        for agent in 0..AGENTS {
            for entry in servers.values() {
                let entry = entry.lock().await.entry.clone();
                cables.insert((agent, entry.name.clone()), Cable::start(entry.address).await?);
            }
        }
        let (mut agents, mut agent_addresses) = (Vec::new(), Vec::new());
        for index in 0..AGENTS {
            let agent = Agent::start(&agent_config(folder, &header, index, &cables)?).await?;
            agent_addresses.push(agent.address());
            agents.push(Mutex::new(agent));
        }
        let hosts = (0..HOSTS)
            .map(|index| Mutex::new(Host { index, folder: folder.to_owned(), child: None }))
            .collect();
        let header = Header { began_us: now() + 3 * SECOND, ..header };
        header.write(folder)?;
        let header = Arc::new(header);
        Ok(Stage {
            header,
            servers,
            agents,
            agent_addresses,
            cables,
            hosts,
            machines,
            _sockets: sockets,
        })
    }

    /// One of the servers or Sentinels.
    pub(super) fn server(&self, name: &str) -> anyhow::Result<&Mutex<Server>> {
        self.servers.get(name).with_context(|| format!("there is no server {name}"))
    }

    pub(super) fn redis(&self, index: usize) -> anyhow::Result<&RedisEntry> {
        self.header.redises.get(index).context("there is no such redis")
    }

    /// All cables between an agent and the servers and Sentinels of a Redis.
    pub(super) fn cables_of(&self, agent: usize, redis: &RedisEntry) -> Vec<&Cable> {
        let names =
            redis.servers.iter().chain(&redis.sentinels).map(|entry| (agent, entry.name.clone()));
        names.filter_map(|key| self.cables.get(&key)).collect()
    }

    /// Stops everything, so that nothing is left behind.
    pub(super) async fn end(&self) -> anyhow::Result<()> {
        for host in &self.hosts {
            host.lock().await.kill().await?;
        }
        for agent in &self.agents {
            agent.lock().await.kill().await?;
        }
        for server in self.servers.values() {
            server.lock().await.kill().await?;
        }
        Ok(())
    }
}

fn redis_entry(
    cast: &Cast,
    sockets: &Path,
    machines: Option<&Machines>,
) -> anyhow::Result<RedisEntry> {
    let Cast { name, servers, sentinels, .. } = cast;
    let machines = if *sentinels > 0 { machines } else { None };
    let entry = |at: usize, kind: &str, port: u16| {
        let name = format!("{name}{kind}{}", at + 1);
        let socket = sockets.join(format!("{name}.sock"));
        let address = match machines.and_then(|machines| machines.get(at)) {
            Some(machine) => SocketAddr::from((machine.address, port)),
            None => free_address()?,
        };
        anyhow::Ok(ServerEntry { name, address, socket })
    };
    Ok(RedisEntry {
        servers: (0..*servers).map(|at| entry(at, "", 6379)).collect::<anyhow::Result<_>>()?,
        sentinels: (0..*sentinels)
            .map(|at| entry(at, "-sentinel", 26379))
            .collect::<anyhow::Result<_>>()?,
        name: (*name).to_owned(),
    })
}

/// The tasks, distributed over the Redis setups by their shares. A fifth are plain strings, a
/// quarter write progress and claims, and a twentieth are also held by the real Redisson client.
fn task_entries(count: usize, redisson: bool) -> Vec<TaskEntry> {
    let turns: Vec<usize> = REDISES
        .iter()
        .enumerate()
        .flat_map(|(at, redis)| std::iter::repeat_n(at, redis.tenths))
        .collect();
    let entry = |index: usize| {
        let library = if index % 5 == 4 { Library::String } else { Library::Redisson };
        let redisson = redisson && index % 19 == 1 && library == Library::Redisson;
        TaskEntry {
            name: format!("task{index}"),
            redis: turns.get(index * 7 % turns.len().max(1)).copied().unwrap_or_default(),
            library,
            // Redisson's threads hold the lock without working.
            progress: index.is_multiple_of(4) && !redisson,
            redisson,
        }
    };
    (0..count).map(entry).collect()
}

async fn start_servers(
    folder: &Path,
    header: &Header,
    machines: Option<&Machines>,
) -> anyhow::Result<BTreeMap<String, Mutex<Server>>> {
    let mut all = BTreeMap::new();
    for redis in &header.redises {
        let first = redis.servers.first().context("a redis without servers")?.address;
        let machines = if redis.sentinels.is_empty() { None } else { machines };
        let door = |at: usize| Some(machines?.get(at)?.door);
        for (at, entry) in redis.servers.iter().enumerate() {
            let mut server = Server::data(folder, entry, door(at), (at > 0).then_some(first))?;
            server.start(Start::Empty).await?;
            all.insert(entry.name.clone(), Mutex::new(server));
        }
        for (at, entry) in redis.sentinels.iter().enumerate() {
            let mut sentinel = Server::sentinel(folder, entry, door(at), first)?;
            sentinel.start(Start::Empty).await?;
            all.insert(entry.name.clone(), Mutex::new(sentinel));
        }
        crate::stack::until(SETTLES_WITHIN, "servers and Sentinels know each other", async || {
            breathe().await;
            is_settled(redis, &all).await
        })
        .await?;
    }
    Ok(all)
}

/// Whether a Redis is ready for the next fault: all servers run, all replicas follow the master
/// that most Sentinels name, and all Sentinels know all others.
pub(super) async fn is_settled(
    redis: &RedisEntry,
    servers: &BTreeMap<String, Mutex<Server>>,
) -> bool {
    let Some(named) = settled_master(redis, servers).await else { return false };
    for sentinel in &redis.sentinels {
        let Some(server) = servers.get(&sentinel.name) else { return false };
        let Ok(answer) = server.lock().await.ask(&["SENTINEL", "MASTER", MASTER]).await else {
            return false;
        };
        let field = |wanted: &str| {
            let pairs = answer.list().chunks(2);
            let found =
                pairs.filter_map(|pair| Some((pair.first()?.text()?, pair.get(1)?.text()?)));
            let mut values = found
                .filter(|(name, _)| *name == wanted.as_bytes())
                .map(|(_, value)| value.to_vec());
            values.next().unwrap_or_default()
        };
        let knows = field("ip") == named.address.ip().to_string().as_bytes()
            && field("port") == named.address.port().to_string().as_bytes()
            && field("flags") == b"master"
            && field("num-other-sentinels") == (redis.sentinels.len() - 1).to_string().as_bytes()
            && field("num-slaves") == (redis.servers.len() - 1).to_string().as_bytes();
        if !knows {
            return false;
        }
    }
    true
}

/// The only server of a Redis that reports to be master, if all others follow it.
async fn settled_master<'a>(
    redis: &'a RedisEntry,
    servers: &BTreeMap<String, Mutex<Server>>,
) -> Option<&'a ServerEntry> {
    let mut master = None;
    for entry in &redis.servers {
        let server = servers.get(&entry.name)?.lock().await;
        let role = server.ask(&["ROLE"]).await.ok()?;
        let words = role.list();
        match words.first()?.text()? {
            b"master" if master.is_none() => master = Some(entry),
            b"slave" if words.get(3)?.text()? == b"connected" => {}
            _ => return None,
        }
    }
    master
}

/// The configuration of one agent, which reaches everything over its own cables.
fn agent_config(
    folder: &Path,
    header: &Header,
    agent: usize,
    cables: &BTreeMap<(usize, String), Cable>,
) -> anyhow::Result<String> {
    let secret = folder.join("password");
    std::fs::write(&secret, PASSWORD)?;
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let over = |entry: &ServerEntry| {
        let cable = cables.get(&(agent, entry.name.clone())).context("a server without a cable")?;
        anyhow::Ok(cable.address())
    };
    let times = header.times;
    let mut text = "redis:\n".to_owned();
    for redis in &header.redises {
        let first = redis.servers.first().context("a redis without servers")?;
        let servers = if redis.sentinels.is_empty() {
            format!("url: \"redis://{}/0\"", over(first)?)
        } else {
            let nodes = redis.sentinels.iter().map(|entry| Ok(format!("\"{}\"", over(entry)?)));
            let nodes = nodes.collect::<anyhow::Result<Vec<_>>>()?.join(", ");
            let map = redis
                .servers
                .iter()
                .map(|entry| Ok(format!("\"{}\": \"{}\"", entry.address, over(entry)?)));
            let map = map.collect::<anyhow::Result<Vec<_>>>()?.join(", ");
            format!("sentinel: {{master: {MASTER}, nodes: [{nodes}], announce_map: {{{map}}}}}")
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {}: {{{servers}, username: {USER}, password_file: \"{}\", interval: {}ms, timeout: \
             {}ms}}",
            redis.name,
            secret.display(),
            times.interval,
            times.timeout
        );
    }
    text.push_str("tasks:\n");
    for task in &header.tasks {
        let redis = header.redises.get(task.redis).context("a task of no redis")?;
        let library = match task.library {
            Library::Redisson => "redisson",
            Library::String => "string",
        };
        let _ = write!(
            text,
            "  - {{name: {}, redis: {}, lock: {{key: \"{}\", library: {library}}}, wanted: {{hash: \
             \"{}\"}}, grace: {}ms, \
             settle: {}ms, wind_down: {}ms, blind_after: {}ms",
            task.name,
            redis.name,
            task.lock(),
            task.switches(),
            times.grace,
            times.settle,
            times.wind_down,
            times.blind_after
        );
        if task.progress {
            let _ = write!(
                text,
                ", progress: {{key: \"{}\", stale_after: {}ms}}, claims: {{hash: \"{}\", \
                 fresh_for: 3s}}",
                task.progress_key(),
                times.stale_after,
                task.claims()
            );
        }
        text.push_str("}\n");
    }
    for redis in &REDISES {
        for index in 0..redis.quiet {
            let name = format!("quiet-{}-{index}", redis.name);
            let _ = writeln!(
                text,
                "  - {{name: {name}, redis: {}, lock: {{key: \"{name}:lock\"}}}}",
                redis.name
            );
        }
    }
    Ok(text)
}
