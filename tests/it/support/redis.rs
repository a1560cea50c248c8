//! A real redis-server for one test: its own port, its own directory, nothing kept unless asked for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::{free_port, send_signal, skip, wait_until};

const PROGRAM: &str = "redis-server";
const CLIENT: &str = "redis-cli";
/// How long a server may take to start.
const START: Duration = Duration::from_secs(20);
/// How often another port is tried: somebody may have taken the free one.
const ATTEMPTS: usize = 5;

/// A server. Dropping it kills it.
pub(crate) struct RedisServer {
    child: Option<Child>,
    pub(crate) port: u16,
    directory: TempDir,
    arguments: Vec<String>,
    /// What `cli` logs in with.
    pub(crate) password: Option<String>,
}

impl RedisServer {
    /// A server without persistence; `None`, with a message, on a machine that has none.
    pub(crate) fn start(test: &str) -> Option<RedisServer> {
        RedisServer::start_with(test, &[])
    }

    /// The same with more arguments, such as `["--maxclients", "1"]`.
    pub(crate) fn start_with(test: &str, arguments: &[&str]) -> Option<RedisServer> {
        skip::has(test, &[PROGRAM, CLIENT]).then(|| RedisServer::launch(arguments))
    }

    /// The same with a password, which `cli` knows.
    pub(crate) fn start_with_password(test: &str, password: &str) -> Option<RedisServer> {
        let mut server = RedisServer::start_with(test, &["--requirepass", password])?;
        server.password = Some(password.to_owned());
        Some(server)
    }

    fn launch(arguments: &[&str]) -> RedisServer {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        for _ in 0..ATTEMPTS {
            let mut server = RedisServer {
                child: None,
                port: free_port(),
                directory: TempDir::new().unwrap(),
                arguments: arguments.clone(),
                password: None,
            };
            if server.spawn() {
                return server;
            }
        }
        panic!("{PROGRAM} {arguments:?} does not start");
    }

    /// Starts the process and waits until it answers; `false` if it ends instead.
    fn spawn(&mut self) -> bool {
        let mut command = Command::new(PROGRAM);
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--dir"]).arg(self.directory.path());
        command.args(["--save", "", "--appendonly", "no", "--unixsocket"]).arg(self.socket());
        command.args(["--enable-debug-command", "yes"]).args(&self.arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (mut ended, port) = (false, self.port);
        wait_until(START, "the server answers", || {
            ended = child.try_wait().unwrap().is_some();
            ended || answers(port)
        });
        self.child = Some(child);
        !ended
    }

    /// The path of its Unix socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// Where it keeps its files.
    pub(crate) fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Runs `redis-cli` over the Unix socket and gives what it prints, without the line end.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        let output = self.cli_in_background(arguments).wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
    }

    /// Starts `redis-cli` and does not wait for it.
    pub(crate) fn cli_in_background(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(CLIENT);
        command.arg("-s").arg(self.socket()).args(arguments);
        if let Some(password) = &self.password {
            command.env("REDISCLI_AUTH", password);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Stops the process in the middle of whatever it does.
    pub(crate) fn pause(&self) {
        send_signal(self.process(), "STOP");
    }

    /// Lets a paused process go on.
    pub(crate) fn go_on(&self) {
        send_signal(self.process(), "CONT");
    }

    /// Kills the process: nothing is saved, clients see the connection break.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ended_before = child.kill();
            child.wait().unwrap();
        }
    }

    /// Starts a killed or running server again on the same port; without its files unless `keep` says so.
    pub(crate) fn restart(&mut self, keep: Keep) {
        self.kill();
        if keep == Keep::Nothing {
            for entry in std::fs::read_dir(self.directory.path()).unwrap() {
                let path = entry.unwrap().path();
                let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
                removed.unwrap();
            }
        }
        assert!(self.spawn(), "{PROGRAM} does not start again");
    }

    /// The process id.
    pub(crate) fn process(&self) -> u32 {
        self.child.as_ref().expect("a running server").id()
    }
}

/// What a server finds when it starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// An empty directory.
    Nothing,
    /// The files that it wrote.
    Files,
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether something answers there as Redis does, if only with an error.
fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut first = [0];
    stream.write_all(b"PING\r\n").is_ok() && stream.read_exact(&mut first).is_ok() && b"+-".contains(&first[0])
}
