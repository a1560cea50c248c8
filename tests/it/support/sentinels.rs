//! A master, two replicas and three Sentinels, all real, that fail over by themselves.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use super::LOOK;
use super::network::{self, Member, Options, Place};
use super::redis::{RedisServer, Setup};
use super::replicas::{self, follows, wait_in_sync};

/// The name under which the Sentinels know the master.
pub(crate) const MASTER: &str = "mymaster";
/// How long a silent server is not yet down.
pub(crate) const DOWN_AFTER: Duration = Duration::from_secs(1);
const FAILOVER_TIMEOUT_MS: u32 = 3_000;
const SERVERS: usize = 3;
const SENTINELS: usize = 3;
const QUORUM: usize = 2;
/// How long Sentinels may take to know each other.
const MEET: Duration = Duration::from_secs(30);
/// How long a failover may take, a failed attempt and a Sentinel's 30 s of `TILT` on a busy machine
/// included.
const SWITCH: Duration = Duration::from_secs(60);
/// How often a test is tried on a machine that stands still now and then.
const ATTEMPTS: usize = 3;
/// How long a Sentinel may take to answer.
const ANSWER: Duration = Duration::from_millis(500);

/// What the Sentinels differ in.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentinelOptions {
    pub(crate) servers: Options,
    /// What Sentinels ask for, of clients and of each other.
    pub(crate) password: Option<&'static str>,
    /// More lines of each Sentinel's configuration file, such as `user …`.
    pub(crate) lines: Vec<&'static str>,
}

/// The whole set: members 0 to 2 are servers, 0 the first master; 3 to 5 are Sentinels.
pub(crate) struct Sentinels {
    pub(crate) members: Vec<Member>,
}

impl Sentinels {
    /// All of them, in sync and knowing each other; `None`, with a message, on a machine without
    /// Redis.
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

    /// Runs `body` on a fresh set; again if it fails while the Sentinels themselves say that the
    /// machine stood still: a failover then takes longer than any lease that a test can wait for.
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

    /// The lines in which Sentinels say that they did not get to run, or that an election came to
    /// nothing.
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

    /// The announced addresses of the Sentinels, as a client is configured.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.members[SERVERS..].iter().map(Member::announced).collect()
    }

    /// Which server a majority of all Sentinels calls the master.
    pub(crate) fn master(&self) -> Option<usize> {
        let mut votes: HashMap<u16, usize> = HashMap::new();
        for port in (0..SENTINELS).filter_map(|index| self.master_port_at(index)) {
            *votes.entry(port).or_default() += 1;
        }
        let (port, _) = votes.into_iter().find(|(_, count)| *count >= QUORUM)?;
        self.members[..SERVERS].iter().position(|server| server.port == port)
    }

    /// The port at which one Sentinel says the master is.
    pub(crate) fn master_port_at(&self, sentinel: usize) -> Option<u16> {
        let answer = self
            .sentinel(sentinel)
            .try_cli(&["sentinel", "get-master-addr-by-name", MASTER], ANSWER)?;
        answer.lines().nth(1)?.parse().ok()
    }

    /// Says `SENTINEL FAILOVER` and waits for the new master. The old one, which nobody told, goes
    /// on as a master for about ten seconds: what is written there is lost.
    pub(crate) fn failover(&self) -> usize {
        let old = self.master().unwrap();
        self.wait(SWITCH, "a Sentinel begins a failover", || {
            let begin =
                |index| self.sentinel(index).try_cli(&["sentinel", "failover", MASTER], ANSWER);
            begin(0).as_deref() == Some("OK")
        });
        self.wait_switched(old)
    }

    /// Waits until a majority of the Sentinels and the server itself say that another one than
    /// `old` is the master.
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

    /// Waits until all running servers have what the master has.
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

    /// Cuts the link between two servers only: the Sentinels still see both.
    pub(crate) fn cut_replication(&self, one: usize, other: usize) {
        network::cut(&self.members[one], &self.members[other]);
    }

    /// Mends all links.
    pub(crate) fn heal(&self) {
        network::heal_all(&self.members);
    }

    /// Makes the announced ports dead for clients until `heal`: they must map them to the real
    /// ones.
    pub(crate) fn hide_announced(&self) {
        network::hide_announced(&self.members);
    }

    /// Makes one Sentinel, alone, say that the master is at this port, where some Redis must run.
    /// It is cut off from the others, which would correct it.
    pub(crate) fn lie(&self, sentinel: usize, port: u16) {
        self.isolate_sentinel(sentinel);
        let liar = self.sentinel(sentinel);
        assert_eq!(liar.cli(&["sentinel", "remove", MASTER]), "OK");
        assert_eq!(
            liar.cli(&["sentinel", "monitor", MASTER, "127.0.0.1", &port.to_string(), "1"]),
            "OK"
        );
    }

    /// How many failovers there have been. A machine that is very busy makes Sentinels begin one by
    /// themselves.
    pub(crate) fn failovers(&self) -> usize {
        let answer = self.sentinel(0).cli(&["sentinel", "master", MASTER]);
        let lines: Vec<&str> = answer.lines().collect();
        let epoch = lines.windows(2).find(|pair| pair[0] == "config-epoch");
        epoch.and_then(|pair| pair[1].parse().ok()).unwrap()
    }

    /// Waits until the old master follows the new one, which Sentinel sees to some ten seconds
    /// after it is back. On a busy machine there may have been another failover by then.
    pub(crate) fn wait_follows(&self, old: usize) {
        self.wait(SWITCH, "the old master follows the new one", || {
            self.master()
                .is_some_and(|new| new != old && follows(&self.members[old], &self.members[new]))
        });
    }

    /// `wait_until` that says how things stand if it fails.
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

    /// What each party says, one line each.
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

/// Whether this Sentinel sees a healthy master, at least so many healthy replicas, and at least so
/// many other Sentinels.
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

/// Whether this server says that it is a master.
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
    }
}
