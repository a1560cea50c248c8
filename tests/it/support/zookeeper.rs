//! Real ZooKeeper servers of Debian's package for one test, alone or as an ensemble, each with its
//! own ports and folder, and real clients of two lock libraries (`tests/zookeeper`).

use std::collections::{HashSet, VecDeque};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::child::OwnedChild;
use super::{PATIENCE, maven, send_signal, skip, wait_until};

const JAR: &str = "/usr/share/java/zookeeper.jar";
/// What the log is written by, to standard output; and what Debian's ZooKeeper needs for TLS, but does
/// not load by itself.
const MORE_JARS: [&str; 4] = [
    "/usr/share/java/slf4j-log4j12.jar",
    "/usr/share/java/log4j-1.2.jar",
    "/usr/share/java/netty-codec.jar",
    "/usr/share/java/netty-resolver.jar",
];
/// A small process that starts fast.
const JVM_FLAGS: [&str; 6] = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Xmx96m",
    "-XX:-UsePerfData",
    // Nothing here outlives the machine.
    "-Dzookeeper.forceSync=no",
];
/// The unit of ZooKeeper's times: sessions last from two of them to twenty.
pub(crate) const TICK_MS: u64 = 500;
/// A server answers `srvr` within this time, or does not serve.
const ANSWER: Duration = Duration::from_millis(500);
/// Below the range of ephemeral ports: an outgoing connection could take the port of a server that is
/// down.
const PORTS: Range<u16> = 15_000..32_000;

/// A free port that no other test of this process gets.
fn own_port() -> u16 {
    static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports = std::iter::repeat_with(|| fastrand::u16(PORTS)).filter(is_free);
    ports.find(|port| given.insert(*port)).unwrap()
}

/// How the servers are started.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Number of servers.
    pub(crate) servers: usize,
    /// Further lines of their configuration.
    pub(crate) lines: Vec<String>,
    /// Further arguments of the JVM.
    pub(crate) jvm: Vec<String>,
    /// Whether it is the version of `tests/zookeeper/pom.xml` instead of Debian's.
    pub(crate) is_newer: bool,
    /// The certificate and key, and the authority, with which they speak TLS on a second port.
    pub(crate) tls: Option<PathBuf>,
}

impl Setup {
    pub(crate) fn of(servers: usize) -> Setup {
        Setup { servers, lines: Vec::new(), jvm: Vec::new(), is_newer: false, tls: None }
    }
}

/// Servers that are one ensemble. Dropping it kills them.
pub(crate) struct Ensemble {
    setup: Setup,
    members: Vec<Member>,
    folder: TempDir,
}

struct Member {
    port: u16,
    tls_port: u16,
    child: Option<OwnedChild>,
}

impl Ensemble {
    /// Servers without data, once all of them serve; `None`, with a message, on a machine without
    /// ZooKeeper or Java.
    pub(crate) fn start(test: &str, setup: Setup) -> Option<Ensemble> {
        if !skip::has(test, if setup.is_newer { &["java", "mvn"] } else { &["java"] }) {
            return None;
        }
        if !Path::new(JAR).is_file() {
            skip::say(test, "zookeeper (scripts/setup test)");
            return None;
        }
        let folder = TempDir::new().unwrap();
        let members = || Member { port: own_port(), tls_port: own_port(), child: None };
        let mut ensemble = Ensemble {
            members: std::iter::repeat_with(members).take(setup.servers).collect(),
            setup,
            folder,
        };
        ensemble.configure();
        ensemble.start_all();
        Some(ensemble)
    }

    /// Writes all files of configuration.
    fn configure(&self) {
        let quorum: String = (1..)
            .zip(&self.members)
            .map(|(number, _)| format!("server.{number}=127.0.0.1:{}:{}\n", own_port(), own_port()))
            .collect();
        let logging = "log4j.rootLogger=INFO, OUT\nlog4j.appender.OUT=org.apache.log4j.ConsoleAppender\n\
                       log4j.appender.OUT.layout=org.apache.log4j.PatternLayout\n\
                       log4j.appender.OUT.layout.ConversionPattern=%d{ISO8601} %-5p %m%n\n";
        fs::write(self.folder.path().join("log4j.properties"), logging).unwrap();
        for (at, member) in self.members.iter().enumerate() {
            let folder = self.folder_of(at);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("myid"), (at + 1).to_string()).unwrap();
            let mut text = format!(
                "tickTime={TICK_MS}\ninitLimit=20\nsyncLimit=6\ndataDir={}\nclientPort={}\n\
                 clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n",
                folder.display(),
                member.port
            );
            if self.members.len() > 1 {
                text += &quorum;
            }
            if let Some(pem) = &self.setup.tls {
                let pem = pem.display();
                text += &format!(
                    "secureClientPort={}\nsecureClientPortAddress=127.0.0.1\n\
                     serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
                     ssl.keyStore.location={pem}\nssl.keyStore.type=PEM\n\
                     ssl.trustStore.location={pem}\nssl.trustStore.type=PEM\nssl.clientAuth=none\n",
                    member.tls_port
                );
            }
            text.extend(self.setup.lines.iter().flat_map(|line| [line, "\n"]));
            fs::write(folder.join("zoo.cfg"), text).unwrap();
        }
    }

    fn folder_of(&self, at: usize) -> PathBuf {
        self.folder.path().join(at.to_string())
    }

    /// Starts those that do not run, and waits until all serve.
    pub(crate) fn start_all(&mut self) {
        for at in 0..self.members.len() {
            if !self.runs(at) {
                self.spawn(at);
            }
        }
        for at in 0..self.members.len() {
            self.until_serving(at);
        }
    }

    /// Starts a server, without waiting for it.
    pub(crate) fn spawn(&mut self, at: usize) {
        let folder = self.folder_of(at);
        let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
        let mut command = Command::new("java");
        let debian = format!("{}:{JAR}:{}", self.folder.path().display(), MORE_JARS.join(":"));
        let newer = || format!("{}/*", maven::libraries("zookeeper").display());
        let classes = if self.setup.is_newer { newer() } else { debian };
        command.args(JVM_FLAGS).args(&self.setup.jvm).args(["-cp", &classes]);
        command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg("zoo.cfg");
        command.current_dir(folder).stdin(Stdio::null()).stderr(log.try_clone().unwrap());
        command.stdout(log);
        self.members[at].child = Some(OwnedChild::spawn(&mut command));
    }

    #[track_caller]
    pub(crate) fn until_serving(&mut self, at: usize) {
        wait_until(PATIENCE, "the server serves", || {
            let ended = self.members[at].child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the server ended:\n{}", self.log(at));
            self.mode(at).is_some()
        });
    }

    /// What `srvr` says that it is: `standalone`, `leader` or `follower`; `None`: it does not serve.
    pub(crate) fn mode(&self, at: usize) -> Option<String> {
        let said = self.four_letters(at, "srvr")?;
        Some(said.lines().find_map(|line| line.strip_prefix("Mode: "))?.to_owned())
    }

    /// What a server says to one of its words of four letters.
    pub(crate) fn four_letters(&self, at: usize, word: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.members[at].port)).ok()?;
        stream.set_read_timeout(Some(ANSWER)).ok()?;
        stream.write_all(word.as_bytes()).ok()?;
        let mut said = String::new();
        stream.read_to_string(&mut said).ok()?;
        Some(said)
    }

    /// Which of those that run leads.
    #[track_caller]
    pub(crate) fn leader(&self) -> usize {
        let mut leader = None;
        wait_until(PATIENCE, "a leader", || {
            let leads = |at: &usize| self.mode(*at).as_deref() == Some("leader");
            leader = (0..self.members.len()).filter(|at| self.runs(*at)).find(leads);
            leader.is_some()
        });
        leader.unwrap()
    }

    /// The server with this address.
    #[track_caller]
    pub(crate) fn at(&self, address: &str) -> usize {
        let is_it = |at: &usize| address == format!("127.0.0.1:{}", self.members[*at].port);
        (0..self.members.len()).find(is_it).expect("a server of the ensemble")
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn port(&self, at: usize) -> u16 {
        self.members[at].port
    }

    /// The addresses for clients, `host:port,…`.
    pub(crate) fn addresses(&self) -> String {
        let at = |member: &Member| format!("127.0.0.1:{}", member.port);
        self.members.iter().map(at).collect::<Vec<_>>().join(",")
    }

    /// The block `zookeeper` of a configuration, with the name `zk`; `more` are further fields.
    pub(crate) fn config(&self, more: &str) -> String {
        let tls = self.setup.tls.is_some();
        let at = |member: &Member| {
            format!("\"127.0.0.1:{}\"", if tls { member.tls_port } else { member.port })
        };
        let servers: Vec<String> = self.members.iter().map(at).collect();
        format!("zookeeper:\n  zk: {{servers: [{}]{more}}}\n", servers.join(", "))
    }

    /// The same with one of the servers alone.
    pub(crate) fn config_of(&self, at: usize, more: &str) -> String {
        format!("zookeeper:\n  zk: {{servers: [\"127.0.0.1:{}\"]{more}}}\n", self.port(at))
    }

    pub(crate) fn runs(&self, at: usize) -> bool {
        self.members[at].child.is_some()
    }

    pub(crate) fn process(&self, at: usize) -> u32 {
        self.members[at].child.as_ref().expect("a running server").id()
    }

    /// Kills it as a crash does.
    pub(crate) fn kill(&mut self, at: usize) {
        // Dropping it kills it.
        self.members[at].child = None;
    }

    /// Ends it in order.
    pub(crate) fn stop(&mut self, at: usize) {
        let Some(mut child) = self.members[at].child.take() else { return };
        send_signal(child.id(), "TERM");
        child.wait().unwrap();
    }

    /// Freezes it: connections stay open, but nothing is answered.
    pub(crate) fn freeze(&self, at: usize) {
        send_signal(self.process(at), "STOP");
    }

    pub(crate) fn thaw(&self, at: usize) {
        send_signal(self.process(at), "CONT");
    }

    /// Starts a server again and waits until it serves.
    #[track_caller]
    pub(crate) fn start_again(&mut self, at: usize) {
        self.spawn(at);
        self.until_serving(at);
    }

    /// Stops all servers and keeps a copy of their data.
    pub(crate) fn back_up(&mut self) {
        self.stop_all();
        for at in 0..self.members.len() {
            let (data, copy) = self.data_of(at);
            copy_files(&data, &copy);
        }
    }

    /// Stops all servers and puts that copy back; without one, they lose all data.
    pub(crate) fn restore(&mut self) {
        self.stop_all();
        for at in 0..self.members.len() {
            let (data, copy) = self.data_of(at);
            fs::remove_dir_all(&data).unwrap();
            if copy.exists() {
                copy_files(&copy, &data);
            }
        }
    }

    fn stop_all(&mut self) {
        for at in 0..self.members.len() {
            self.stop(at);
        }
    }

    /// The folder of a server's data, and of their copy.
    fn data_of(&self, at: usize) -> (PathBuf, PathBuf) {
        (self.folder_of(at).join("version-2"), self.folder_of(at).join("copy"))
    }

    pub(crate) fn log(&self, at: usize) -> String {
        let bytes = fs::read(self.folder_of(at).join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// A program with real clients: Kazoo's or Curator's. Dropping it kills it.
pub(crate) struct Clients {
    child: OwnedChild,
    stdin: ChildStdin,
    lines: Receiver<Value>,
    events: VecDeque<Value>,
}

impl Clients {
    /// Kazoo; `None`, with a message, on a machine without it.
    pub(crate) fn kazoo(test: &str, ensemble: &Ensemble) -> Option<Clients> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let libraries = root.join("target/libraries/python");
        if !libraries.join("kazoo").is_dir() {
            skip::say(test, "kazoo (scripts/setup test)");
            return None;
        }
        let mut command = Command::new(root.join("target/dashboards/bin/python"));
        command.arg(root.join("tests/zookeeper/kazoo_locks.py")).env("PYTHONPATH", libraries);
        Some(Clients::run(command, ensemble))
    }

    /// Curator; `None`, with a message, on a machine without Maven.
    pub(crate) fn curator(test: &str, ensemble: &Ensemble) -> Option<Clients> {
        if !skip::has(test, &["java", "mvn"]) {
            return None;
        }
        Some(Clients::run(maven::java("zookeeper", "Locks"), ensemble))
    }

    fn run(mut command: Command, ensemble: &Ensemble) -> Clients {
        command.arg(ensemble.addresses()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = OwnedChild::spawn(command.stderr(Stdio::null()));
        let stdin = child.stdin.take().unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let said = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
                if sender.send(said).is_err() {
                    return;
                }
            }
        });
        let mut clients = Clients { child, stdin, lines, events: VecDeque::new() };
        clients.answer("ready");
        clients
    }

    /// Obeys a command of `tests/zookeeper/README.md`.
    #[track_caller]
    pub(crate) fn run_command(&mut self, command: &str) -> Value {
        writeln!(self.stdin, "{command}").unwrap();
        self.answer(command)
    }

    #[track_caller]
    fn answer(&mut self, command: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = self.line(deadline).unwrap_or_else(|| panic!("no answer to {command}"));
            if line.get("event").is_some() {
                self.events.push_back(line);
            } else {
                assert!(line.get("ok").is_some(), "{command}: {line}");
                return line;
            }
        }
    }

    /// A session with this timeout; returns its id as the agent shows it.
    #[track_caller]
    pub(crate) fn session(&mut self, name: &str, timeout_ms: u64) -> String {
        let answer = self.run_command(&format!("session {name} {timeout_ms}"));
        answer["id"].as_str().unwrap().to_owned()
    }

    /// The next event of this name about this lock, which may have come already.
    #[track_caller]
    pub(crate) fn event(&mut self, name: &str, lock: &str) -> Value {
        let is_it = |line: &Value| line["event"] == name && line["lock"] == lock;
        if let Some(event) =
            self.events.iter().position(is_it).and_then(|at| self.events.remove(at))
        {
            return event;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = self.line(deadline).unwrap_or_else(|| panic!("no {name} of {lock}"));
            assert!(line["event"] != "failed", "{line}");
            if is_it(&line) {
                return line;
            }
            self.events.push_back(line);
        }
    }

    /// The events of this lock until it says that it is done.
    #[track_caller]
    pub(crate) fn events_until_done(&mut self, lock: &str) -> Vec<Value> {
        let mut events = Vec::new();
        self.event("done", lock);
        self.events.retain(|event| {
            let is_it = event["lock"] == lock;
            events.extend(is_it.then(|| event.clone()));
            !is_it
        });
        events
    }

    fn line(&mut self, deadline: Instant) -> Option<Value> {
        self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    }

    /// Kills the program: the sessions of all its clients run out.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }
}
