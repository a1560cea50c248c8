//! The servers to be wrong about: real ones, and answers of such as no registry has.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Child;
use std::thread;

use tempfile::TempDir;

use crate::support::certificates::{Authority, Life, arguments};
use crate::support::cluster::Cluster;
use crate::support::impostor::{Client, Gone, Impostor};
use crate::support::network::Options;
use crate::support::redis::RedisServer;
use crate::support::sentinels::{MASTER, SentinelOptions, Sentinels};
use crate::support::{PATIENCE, wait_until};

pub(super) const PASSWORD: &str = "c4nary-of-DIAGNOSIS";
const TOKEN: &str = "1c9f4a52-token";

pub(super) struct Servers {
    /// Without a password.
    pub(super) plain: RedisServer,
    /// With a password and several users.
    pub(super) locked: RedisServer,
    /// Its replica.
    pub(super) follower: RedisServer,
    /// At its limit of clients, of which this is one.
    pub(super) full: RedisServer,
    holding: Option<TcpStream>,
    /// Busy running a script, until it is killed.
    pub(super) busy: RedisServer,
    script: Option<Child>,
    sentinels: Sentinels,
    cluster: Cluster,
    by_tls: RedisServer,
    pub(super) ca: PathBuf,
    _papers: TempDir,
    guarded: Impostor,
    closer: Impostor,
    active_replica: Impostor,
    loading: Impostor,
    alerting: Impostor,
    http: u16,
    silent: TcpListener,
}

impl Servers {
    pub(super) fn start(test: &str) -> Option<Servers> {
        let plain = RedisServer::start(test)?;
        let locked = RedisServer::start_with_password(test, PASSWORD)?;
        let follower =
            RedisServer::start_with(test, &["--requirepass", PASSWORD, "--masterauth", PASSWORD])?;
        let secret = format!(">{PASSWORD}");
        for (user, rights) in [
            ("watcher", &["~*", "&*", "+@all"][..]),
            ("narrow", &["~*", "&*", "+@all", "-getrange"][..]),
            ("keyless", &["~other", "&*", "+@all"][..]),
        ] {
            locked.cli(&[&["acl", "setuser", user, "on", &secret][..], rights].concat());
        }
        follower.cli(&["-a", PASSWORD, "replicaof", "127.0.0.1", &locked.port.to_string()]);
        let full = RedisServer::start_with(test, &["--maxclients", "32"])?;
        let busy = RedisServer::start_with(test, &["--busy-reply-threshold", "10"])?;
        let sentinels = Sentinels::start(test, &SentinelOptions::default())?;
        let cluster = Cluster::start(test, 0, &Options::default())?;
        let papers = TempDir::new().unwrap();
        let authority = Authority::new("the authority");
        let ca = papers.path().join("ca.crt");
        std::fs::write(&ca, authority.pem()).unwrap();
        let pair = authority.sign(&["127.0.0.1"], Life::Now).write(papers.path(), "server");
        let by_tls = RedisServer::start_with_tls(test, &arguments(&ca, (&pair.0, &pair.1)), &[])?;

        Some(Servers {
            plain,
            locked,
            follower,
            full,
            holding: None,
            busy,
            script: None,
            sentinels,
            cluster,
            by_tls,
            ca,
            _papers: papers,
            guarded: Impostor::start(guarded),
            closer: Impostor::start(closer),
            active_replica: Impostor::start(active_replica),
            loading: Impostor::start(loading),
            alerting: Impostor::start(alerting),
            http: http(),
            silent: TcpListener::bind("127.0.0.1:0").unwrap(),
        })
    }

    /// Somebody holds the lock of each of these tasks, on each server. Then one of them becomes
    /// busy, and one full.
    pub(super) fn prepare(&mut self, names: &[&str]) {
        let master = self.sentinels.server(self.sentinels.master().unwrap());
        for name in names {
            let set = ["set", &format!("{{job}}:{name}"), TOKEN];
            let alone = [&self.plain, &self.locked, &self.full, &self.busy, &self.by_tls, master];
            for server in alone {
                assert_eq!(server.cli(&set), "OK");
            }
            assert_eq!(self.cluster.cli("{job}", &set), "OK");
        }
        self.full.cli(&["config", "set", "maxclients", "1"]);
        self.holding = Some(TcpStream::connect(self.full.address()).unwrap());
        self.script = Some(self.busy.cli_in_background(&["eval", "while true do end", "0"]));
        wait_until(PATIENCE, "the script runs", || self.busy.cli(&["ping"]).starts_with("BUSY"));
    }

    /// Follows the remedies that concern servers.
    pub(super) fn mend(&mut self) {
        // Nobody else is let in to do that.
        let mut holding = self.holding.take().unwrap();
        holding.write_all(b"CONFIG SET maxclients 32\r\n").unwrap();
        holding.read_exact(&mut [0; 5]).unwrap();
        assert_eq!(self.busy.cli(&["script", "kill"]), "OK");
        self.script.take().unwrap().wait().unwrap();
    }

    pub(super) fn sentinel(&self) -> String {
        self.sentinels.sentinel(0).address()
    }

    pub(super) fn master_name(&self) -> String {
        MASTER.to_owned()
    }

    pub(super) fn master(&self) -> String {
        self.sentinels.server(self.sentinels.master().unwrap()).address()
    }

    pub(super) fn replica(&self) -> String {
        let master = self.sentinels.master().unwrap();
        self.sentinels.server((master + 1) % 3).address()
    }

    /// A server of the cluster that does not have the task's key.
    pub(super) fn cluster_node(&self) -> String {
        self.cluster.node((self.cluster.owner("{job}") + 1) % 3).address()
    }

    pub(super) fn other_cluster_node(&self) -> String {
        self.cluster.node((self.cluster.owner("{job}") + 2) % 3).address()
    }

    pub(super) fn protected_by_tls(&self) -> String {
        self.by_tls.address()
    }

    pub(super) fn guarded(&self) -> String {
        local(self.guarded.port)
    }

    pub(super) fn closer(&self) -> String {
        local(self.closer.port)
    }

    pub(super) fn active_replica(&self) -> String {
        local(self.active_replica.port)
    }

    pub(super) fn loading(&self) -> String {
        local(self.loading.port)
    }

    pub(super) fn alerting(&self) -> String {
        local(self.alerting.port)
    }

    pub(super) fn http(&self) -> String {
        local(self.http)
    }

    /// A port that accepts connections and says nothing.
    pub(super) fn silent(&self) -> String {
        self.silent.local_addr().unwrap().to_string()
    }
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// As Redis in protected mode answers a client from elsewhere.
fn guarded(client: &mut Client) -> Result<(), Gone> {
    client.say(
        b"-DENIED Redis is running in protected mode because protected mode is enabled and no \
          password is set for the default user. In this mode connections are only accepted from \
          the loopback interface.\r\n",
    )
}

/// As twemproxy: an unknown command ends the connection.
fn closer(client: &mut Client) -> Result<(), Gone> {
    let command = client.peek()?;
    if [&b"CLIENT"[..], b"ROLE", b"INFO"].contains(&command[0].as_slice()) {
        return Err(Gone);
    }
    client.answer().map(drop)
}

/// As KeyDB with `active-replica yes` and a master.
fn active_replica(client: &mut Client) -> Result<(), Gone> {
    client.answer_but(|words| match words[0].as_slice() {
        b"ROLE" => Some(
            b"*5\r\n$14\r\nactive-replica\r\n$8\r\n10.0.0.6\r\n:6379\r\n$9\r\nconnected\r\n:42\r\n"
                .to_vec(),
        ),
        _ => None,
    })
}

/// As Redis while it reads its data.
fn loading(client: &mut Client) -> Result<(), Gone> {
    client.answer_but(|_| Some(b"-LOADING Redis is loading the dataset in memory\r\n".to_vec()))
}

/// As other servers of TLS than Redis answer what is no handshake.
fn alerting(client: &mut Client) -> Result<(), Gone> {
    client.instead(b"\x15\x03\x03\x00\x02\x02\x46")
}

/// A server of web pages, which answers what it does not understand.
fn http() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut bytes = [0; 1024];
            if stream.read(&mut bytes).is_ok_and(|count| count > 0) {
                let _ = stream.write_all(
                    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                );
            }
        }
    });
    port
}
