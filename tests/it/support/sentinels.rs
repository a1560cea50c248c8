//! A real master, two replicas and three Sentinels, with automatic failover.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use super::LOOK;
use super::network::{self, Member, Options, Place};
use super::redis::{RedisServer, Setup};
use super::replicas::{self, follows, wait_in_sync};

/// The Sentinels' name for the master.
pub(crate) const MASTER: &str = "mymaster";
/// How long a silent server is not considered down (`down-after-milliseconds`).
pub(crate) const DOWN_AFTER: Duration = Duration::from_secs(1);
const FAILOVER_TIMEOUT_MS: u32 = 3_000;
const SERVERS: usize = 3;
const SENTINELS: usize = 3;
const QUORUM: usize = 2;
/// Timeout for Sentinels to discover each other.
const MEET: Duration = Duration::from_secs(30);
/// Timeout for a failover, including a failed attempt and a Sentinel's 30 s of `TILT` on a busy
/// machine.
const SWITCH: Duration = Duration::from_secs(60);
/// Number of attempts of a test on a machine that stalls now and then.
const ATTEMPTS: usize = 3;
/// Timeout of a Sentinel's reply.
const ANSWER: Duration = Duration::from_millis(500);

/// Options of the Sentinels.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentinelOptions {
    pub(crate) servers: Options,
    /// The Sentinels' password, for clients and for each other.
    pub(crate) password: Option<&'static str>,
    /// Additional lines of each Sentinel's configuration file, such as `user …`.
    pub(crate) lines: Vec<&'static str>,
}

/// The whole set: members 0 to 2 are servers, 0 the first master; 3 to 5 are Sentinels.
pub(crate) struct Sentinels {
    pub(crate) members: Vec<Member>,
}

impl Sentinels {
    /// The whole set, in sync and with all Sentinels discovered; `None`, with a message, on a
    /// machine without Redis.
    pub(crate) fn start(test: &str, options: &SentinelOptions) -> Option<Sentinels> {
        if !RedisServer::can_start(test) {
            return None;
        }
        let mut members = replicas::start_servers(SERVERS, &options.servers);
        wait_in_sync(&members, 0);
        let master = members[0].port;
        for index in SERVERS..SERVERS + SENTINELS {
            let sentinel = Member::start(index, options.servers.wiring, |place| {
                sentinel_setup(place, master, options)
            });
            members.push(sentinel);
        }
        let sentinels = Sentinels { members };
        sentinels.wait_acquainted();
        Some(sentinels)
    }

    /// Runs `body` on a fresh set, and again if it fails while the Sentinels' logs show that the
    /// machine stalled: a failover then takes longer than any lease that a test can wait for.
    pub(crate) fn undisturbed(
        test: &str,
        options: &SentinelOptions,
        body: impl Fn(&mut Sentinels),
    ) {
        for attempt in 1.. {
            let Some(mut sentinels) = Sentinels::start(test, options) else { return };
            let Err(failure) = catch_unwind(AssertUnwindSafe(|| body(&mut sentinels))) else {
                return;
            };
            let disturbances = sentinels.disturbances();
            if disturbances.is_empty() || attempt == ATTEMPTS {
                resume_unwind(failure);
            }
            eprintln!("{test}: once more, for the Sentinels were disturbed:\n{disturbances}");
        }
    }

    /// The lines in which Sentinels report that they were not scheduled, or that an election
    /// failed.
    fn disturbances(&self) -> String {
        let logs = self.members[SERVERS..].iter().map(|member| member.server.log());
        let disturbed = |line: &&str| {
            ["+tilt", "-failover-abort-not-elected"].iter().any(|what| line.contains(what))
        };
        logs.flat_map(|log| {
            log.lines().filter(disturbed).map(|line| format!("{line}\n")).collect::<Vec<_>>()
        })
        .collect()
    }

    /// One of the three servers.
    pub(crate) fn server(&self, index: usize) -> &RedisServer {
        assert!(index < SERVERS);
        &self.members[index].server
    }

    pub(crate) fn server_mut(&mut self, index: usize) -> &mut RedisServer {
        assert!(index < SERVERS);
        &mut self.members[index].server
    }

    /// One of the three Sentinels, counted from 0.
    pub(crate) fn sentinel(&self, index: usize) -> &RedisServer {
        &self.members[SERVERS + index].server
    }

    pub(crate) fn sentinel_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.members[SERVERS + index].server
    }

    /// The announced addresses of the Sentinels, as clients configure them.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.members[SERVERS..].iter().map(Member::announced).collect()
    }

    /// The server that a majority of all Sentinels names as master.
    pub(crate) fn master(&self) -> Option<usize> {
        let mut votes: HashMap<u16, usize> = HashMap::new();
        for port in (0..SENTINELS).filter_map(|index| self.master_port_at(index)) {
            *votes.entry(port).or_default() += 1;
        }
        let (port, _) = votes.into_iter().find(|(_, count)| *count >= QUORUM)?;
        self.members[..SERVERS].iter().position(|server| server.port == port)
    }

    /// The master's port according to one Sentinel.
    pub(crate) fn master_port_at(&self, sentinel: usize) -> Option<u16> {
        let answer = self
            .sentinel(sentinel)
            .try_cli(&["sentinel", "get-master-addr-by-name", MASTER], ANSWER)?;
        answer.lines().nth(1)?.parse().ok()
    }

    /// Sends `SENTINEL FAILOVER` and waits for the new master. The old one does not know and acts
    /// as a master for about ten seconds: writes to it are lost.
    pub(crate) fn failover(&self) -> usize {
        let old = self.master().unwrap();
        self.wait(SWITCH, "a Sentinel begins a failover", || {
            let begin =
                |index| self.sentinel(index).try_cli(&["sentinel", "failover", MASTER], ANSWER);
            begin(0).as_deref() == Some("OK")
        });
        self.wait_switched(old)
    }

    /// Waits until a majority of the Sentinels names a master other than `old`, and that server
    /// acts as one.
    pub(crate) fn wait_switched(&self, old: usize) -> usize {
        let mut new = None;
        self.wait(SWITCH, "another server is the master", || {
            new = self.master().filter(|index| *index != old && says_master(self.server(*index)));
            new.is_some()
        });
        new.unwrap()
    }

    /// Waits until all running servers follow the master, and all Sentinels know it and each other:
    /// ready for the next failover.
    pub(crate) fn wait_settled(&self) {
        self.wait_acquainted();
        self.wait_in_sync();
    }

    /// Waits until all running servers have all the master's writes.
    pub(crate) fn wait_in_sync(&self) {
        wait_in_sync(&self.members[..SERVERS], self.master().unwrap());
    }

    /// Cuts one server off from the other servers and the Sentinels; clients still reach it.
    pub(crate) fn isolate_server(&self, index: usize) {
        assert!(index < SERVERS);
        network::isolate(&self.members, index);
    }

    /// Cuts one Sentinel off from the servers and the other Sentinels; clients still reach it.
    pub(crate) fn isolate_sentinel(&self, index: usize) {
        network::isolate(&self.members, SERVERS + index);
    }

    /// Cuts only the link between two servers: the Sentinels still see both.
    pub(crate) fn cut_replication(&self, one: usize, other: usize) {
        network::cut(&self.members[one], &self.members[other]);
    }

    /// Restores all links.
    pub(crate) fn heal(&self) {
        network::heal_all(&self.members);
    }

    /// Makes the announced ports unreachable for clients until `heal`: they must map them to the
    /// real ones.
    pub(crate) fn hide_announced(&self) {
        network::hide_announced(&self.members);
    }

    /// Makes a single Sentinel report a master at this port, where some Redis must run. It is cut
    /// off from the others, which would correct it.
    pub(crate) fn lie(&self, sentinel: usize, port: u16) {
        self.isolate_sentinel(sentinel);
        let liar = self.sentinel(sentinel);
        assert_eq!(liar.cli(&["sentinel", "remove", MASTER]), "OK");
        assert_eq!(
            liar.cli(&["sentinel", "monitor", MASTER, "127.0.0.1", &port.to_string(), "1"]),
            "OK"
        );
    }

    /// Number of failovers so far. On a very busy machine Sentinels start one by themselves.
    pub(crate) fn failovers(&self) -> usize {
        let answer = self.sentinel(0).cli(&["sentinel", "master", MASTER]);
        let lines: Vec<&str> = answer.lines().collect();
        let epoch = lines.windows(2).find(|pair| pair[0] == "config-epoch");
        epoch.and_then(|pair| pair[1].parse().ok()).unwrap()
    }

    /// Waits until the old master follows the new one, which Sentinel ensures about ten seconds
    /// after it is back. On a busy machine there may have been another failover by then.
    pub(crate) fn wait_follows(&self, old: usize) {
        self.wait(SWITCH, "the old master follows the new one", || {
            self.master()
                .is_some_and(|new| new != old && follows(&self.members[old], &self.members[new]))
        });
    }

    /// `wait_until` that reports the state of all servers if it fails.
    fn wait(&self, timeout: Duration, what: &str, mut condition: impl FnMut() -> bool) {
        let deadline = Instant::now() + timeout;
        while !condition() {
            assert!(
                Instant::now() < deadline,
                "not within {timeout:?}: {what}\n{}",
                self.describe()
            );
            std::thread::sleep(LOOK);
        }
    }

    /// The state that each server reports, one line each.
    fn describe(&self) -> String {
        let ask = |member: &Member, question: &[&str]| match member.server.runs() {
            true => {
                member.server.try_cli(question, ANSWER).unwrap_or_else(|| "no answer".to_owned())
            }
            false => "ended".to_owned(),
        };
        let answers =
            self.members.iter().enumerate().flat_map(|(index, member)| match index < SERVERS {
                true => vec![ask(member, &["role"])],
                false => ["master", "replicas"]
                    .map(|what| ask(member, &["sentinel", what, MASTER]))
                    .to_vec(),
            });
        answers.map(|answer| answer.replace('\n', " ") + "\n").collect()
    }

    fn wait_acquainted(&self) {
        let running = (0..SENTINELS).filter(|index| self.sentinel(*index).runs());
        let running: Vec<usize> = running.collect();
        let replicas =
            self.members[..SERVERS].iter().filter(|member| member.server.runs()).count() - 1;
        for index in &running {
            self.wait(MEET, &format!("Sentinel {index} knows all others"), || {
                knows(self.sentinel(*index), replicas, running.len() - 1)
            });
        }
    }
}

/// Whether this Sentinel sees a healthy master, at least this many healthy replicas and other
/// Sentinels.
fn knows(sentinel: &RedisServer, replicas: usize, sentinels: usize) -> bool {
    let healthy = |command: &str, flag: &str| {
        let answer = sentinel.try_cli(&["sentinel", command, MASTER], ANSWER).unwrap_or_default();
        let lines: Vec<&str> = answer.lines().collect();
        lines.windows(2).filter(|pair| *pair == ["flags", flag]).count()
    };
    healthy("master", "master") == 1
        && healthy("replicas", "slave") >= replicas
        && healthy("sentinels", "sentinel") >= sentinels
}

/// Whether this server reports itself as master.
pub(crate) fn says_master(server: &RedisServer) -> bool {
    server.try_cli(&["role"], ANSWER).is_some_and(|role| role.starts_with("master"))
}

fn sentinel_setup(place: Place, master: u16, options: &SentinelOptions) -> Setup {
    let mut lines = vec![
        place.source_line(),
        "sentinel announce-ip 127.0.0.1".to_owned(),
        format!("sentinel announce-port {}", place.port),
        format!("sentinel monitor {MASTER} 127.0.0.1 {master} {QUORUM}"),
        format!("sentinel down-after-milliseconds {MASTER} {}", DOWN_AFTER.as_millis()),
        format!("sentinel failover-timeout {MASTER} {FAILOVER_TIMEOUT_MS}"),
        format!("sentinel parallel-syncs {MASTER} {SERVERS}"),
    ];
    lines.extend(
        options.servers.password.map(|password| format!("sentinel auth-pass {MASTER} {password}")),
    );
    if let Some(password) = options.password {
        lines.extend([
            format!("requirepass {password}"),
            format!("sentinel sentinel-pass {password}"),
        ]);
    }
    lines.extend(options.lines.iter().map(|line| (*line).to_owned()));
    Setup {
        arguments: vec!["--sentinel".to_owned()],
        lines: Some(lines),
        password: options.password.map(str::to_owned),
        program: None,
        tls: options.servers.tls.clone(),
    }
}
