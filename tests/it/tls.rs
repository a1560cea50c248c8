//! TLS to real servers: the right word for each way to be wrong about it, and no plaintext byte.

mod files;
mod found;
mod rotation;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockwatch::config::{
    HostPort, Login, PasswordSource, RedisConfig, Servers, TlsConfig, TlsFiles,
};
use lockwatch::io::{self, Connection, Failure};
use lockwatch_judge::reading::Unknown;
use tempfile::TempDir;

use crate::support::agent::Agent;
use crate::support::certificates::{Authority, Life, Pair, arguments, is_tls_alone};
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;
use crate::support::{PATIENCE, wait_until};

const PASSWORD: &str = "c4nary-of-TLS";

/// Certificates in files, and the authority that signed them.
struct Papers {
    folder: TempDir,
    authority: Authority,
    ca: PathBuf,
    other_ca: PathBuf,
    server: (PathBuf, PathBuf),
}

impl Papers {
    fn new() -> Papers {
        let folder = TempDir::new().unwrap();
        let authority = Authority::new("the authority");
        let pem = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let (ca, other_ca) = (
            pem("ca.crt", authority.pem()),
            pem("other-ca.crt", Authority::new("another authority").pem()),
        );
        let server = authority.sign(&["127.0.0.1", "localhost"], Life::Now);
        let server = server.write(folder.path(), "server");
        Papers { folder, authority, ca, other_ca, server }
    }

    fn arguments(&self) -> Vec<String> {
        arguments(&self.ca, (&self.server.0, &self.server.1))
    }

    fn server(&self, test: &str) -> Option<RedisServer> {
        RedisServer::start_with_tls(test, &self.arguments(), &["--requirepass", PASSWORD])
    }

    /// Writes this certificate and its key, and returns where.
    fn put(&self, name: &str, pair: &Pair) -> (PathBuf, PathBuf) {
        pair.write(self.folder.path(), name)
    }

    fn trusting(&self, ca: &Path) -> TlsConfig {
        let files = TlsFiles { ca_file: Some(ca.to_owned()), ..TlsFiles::default() };
        TlsConfig { files, server_name: None }
    }

    fn password(&self) -> PasswordSource {
        let file = self.folder.path().join("password");
        fs::write(&file, PASSWORD).unwrap();
        PasswordSource::File(file)
    }

    /// A redis block for a server on this machine.
    fn config(&self, port: u16, tls: Option<TlsConfig>) -> RedisConfig {
        RedisConfig {
            name: Arc::from("main"),
            servers: Servers::One(HostPort { host: "127.0.0.1".to_owned(), port }),
            db: 0,
            login: Login { password: Some(self.password()), ..Login::default() },
            sentinel_login: Login::default(),
            tls,
            interval: Duration::from_millis(100),
            timeout: Duration::from_secs(3),
            assume_master: false,
            wake_ups: true,
            want: None,
            want_on_page: false,
        }
    }
}

/// Makes a server use another certificate for new connections.
fn certify(server: &RedisServer, (cert, key): &(PathBuf, PathBuf)) {
    let file = |path: &Path| path.display().to_string();
    let set = ["config", "set", "tls-cert-file", &file(cert), "tls-key-file", &file(key)];
    assert_eq!(with_password(server, &set), "OK");
}

fn with_password(server: &RedisServer, words: &[&str]) -> String {
    server.cli(&[&["--no-auth-warning", "-a", PASSWORD][..], words].concat())
}

async fn connect(config: &RedisConfig) -> Result<Connection, Failure> {
    io::connect(&config.endpoint(config.servers.configured()[0].clone())).await
}

async fn refused(config: &RedisConfig) -> Failure {
    match connect(config).await {
        Ok(_) => panic!("connected"),
        Err(failure) => failure,
    }
}

/// Fails if any connection sent anything but TLS through this proxy.
#[track_caller]
fn no_plaintext(all: &[Vec<u8>]) {
    for bytes in all {
        assert!(is_tls_alone(bytes), "{}", bytes.escape_ascii());
        let has = |word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
        assert!(!has(PASSWORD) && !has("AUTH") && !has("PING"), "{}", bytes.escape_ascii());
    }
}

#[tokio::test]
async fn each_way_to_be_wrong_has_its_word_and_no_password_is_sent() {
    let papers = Papers::new();
    let Some(server) = papers.server("tls::each_way_to_be_wrong_has_its_word") else { return };
    let proxy = Proxy::start(server.port);
    let right = || papers.trusting(&papers.ca);
    let of = |tls| papers.config(proxy.port, Some(tls));
    let named = |name: &str| TlsConfig { server_name: Some(name.to_owned()), ..right() };
    let sign = |names: &[&str], life| papers.authority.sign(names, life);
    let local: &[&str] = &["127.0.0.1"];
    let namesake = |authority: Authority| authority.sign(local, Life::Now);
    let cases: [(&str, Pair, TlsConfig, Unknown, &str); 10] = [
        (
            "wrong CA",
            sign(local, Life::Now),
            papers.trusting(&papers.other_ca),
            Unknown::TlsUntrusted,
            "other-ca.crt; put the authority that signed it into `tls.ca_file`",
        ),
        (
            "another authority of the same name",
            namesake(Authority::new("the authority")),
            right(),
            Unknown::TlsUntrusted,
            "signed by another authority of the same name than the one among those in `tls.ca_file`",
        ),
        (
            "one with a key of another type",
            namesake(Authority::of_ed25519("the authority")),
            right(),
            Unknown::TlsUntrusted,
            "signed by another authority of the same name",
        ),
        (
            "self-signed",
            Pair::self_signed(local, false),
            right(),
            Unknown::TlsUntrusted,
            "is signed by itself",
        ),
        (
            "self-signed as openssl does it",
            Pair::self_signed(local, true),
            right(),
            Unknown::TlsUntrusted,
            "probably signed by itself",
        ),
        (
            "wrong address",
            sign(&["cache.example"], Life::Now),
            right(),
            Unknown::TlsName,
            "not for 127.0.0.1",
        ),
        (
            "wrong name",
            sign(local, Life::Now),
            named("cache.example"),
            Unknown::TlsName,
            "not for cache.example",
        ),
        (
            "version 1",
            papers.authority.sign_version_1(),
            right(),
            Unknown::TlsUntrusted,
            "make one of version 3 with a subjectAltName",
        ),
        ("expired", sign(local, Life::Over), right(), Unknown::TlsExpired, "2021-01-01"),
        ("not yet valid", sign(local, Life::Later), right(), Unknown::TlsExpired, "2098-01-01"),
    ];
    for (what, pair, tls, why, words) in cases {
        certify(&server, &papers.put("changing", &pair));
        let failure = refused(&of(tls)).await;
        assert_eq!(failure.why, why, "{what}: {failure}");
        assert!(failure.detail.contains(words), "{what}: {failure}");
    }
    // The self-signed certificate is accepted where it is the authority.
    let own = Pair::self_signed(local, false);
    let files = papers.put("own", &own);
    certify(&server, &files);
    connect(&of(papers.trusting(&files.0))).await.unwrap();
    certify(&server, &papers.server);
    connect(&of(right())).await.unwrap();
    connect(&of(named("localhost"))).await.unwrap();
    assert!(proxy.connections() >= 10);
    no_plaintext(&proxy.requests());
    let logins = with_password(&server, &["info", "commandstats"]);
    // Those of redis-cli, which came by the socket, and three of ours.
    let ours = with_password(&server, &["acl", "log"]);
    assert!(logins.contains("cmdstat_auth:") && ours.is_empty(), "{logins}\n{ours}");
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_gets_one_or_says_so() {
    let papers = Papers::new();
    let test = "tls::a_server_that_wants_a_certificate_gets_one_or_says_so";
    let Some(server) = papers.server(test) else { return };
    assert_eq!(with_password(&server, &["config", "set", "tls-auth-clients", "yes"]), "OK");
    let proxy = Proxy::start(server.port);
    let of = |pair: Option<&Pair>| {
        let mut tls = papers.trusting(&papers.ca);
        if let Some(pair) = pair {
            let (cert, key) = papers.put("client", pair);
            (tls.files.cert_file, tls.files.key_file) = (Some(cert), Some(key));
        }
        papers.config(proxy.port, Some(tls))
    };
    // In TLS 1.3 the refusal comes after the handshake, together with the first commands.
    for version in ["TLSv1.2", "TLSv1.3"] {
        assert_eq!(with_password(&server, &["config", "set", "tls-protocols", version]), "OK");
        for _ in 0..10 {
            let failure = refused(&of(None)).await;
            assert_eq!(failure.why, Unknown::TlsClient, "{version}: {failure}");
            let words = "set `tls.cert_file` and `tls.key_file`";
            assert!(failure.detail.contains(words), "{version}: {failure}");
        }
    }
    let foreign = Authority::new("another").sign(&["agent"], Life::Now);
    let old = papers.authority.sign(&["agent"], Life::Over);
    for (pair, words) in [(foreign, "its authority is unknown there"), (old, "it has expired")] {
        let failure = refused(&of(Some(&pair))).await;
        assert_eq!(failure.why, Unknown::TlsClient, "{failure}");
        assert!(failure.detail.contains("client.crt"), "{failure}");
        assert!(failure.detail.contains(words), "{failure}");
    }
    connect(&of(Some(&papers.authority.sign(&["agent"], Life::Now)))).await.unwrap();
    // What openssl makes of a request without an extension, and servers take.
    connect(&of(Some(&papers.authority.sign_version_1()))).await.unwrap();
    no_plaintext(&proxy.requests());
}

#[tokio::test]
async fn who_speaks_tls_to_plain_ports_or_the_other_way_round_is_reported() {
    let papers = Papers::new();
    let test = "tls::who_speaks_tls_to_plain_ports_or_the_other_way_round_is_reported";
    let Some(server) = papers.server(test) else { return };
    let failure = refused(&papers.config(server.port, None)).await;
    assert_eq!(failure.why, Unknown::Closed, "{failure}");
    let remedy = lockwatch_watch::remedy(failure.why);
    assert!(remedy.contains("perhaps this port speaks TLS: use `rediss://`"), "{remedy}");
    let Some(plain) = RedisServer::start_with_password(test, PASSWORD) else { return };
    // Redis may wait for the end of a line, or answer that what it got is no command.
    for _ in 0..5 {
        let short = Duration::from_millis(300);
        let tls = Some(papers.trusting(&papers.ca));
        let failure =
            refused(&RedisConfig { timeout: short, ..papers.config(plain.port, tls) }).await;
        assert!(
            [Unknown::Tls, Unknown::Timeout, Unknown::Closed].contains(&failure.why),
            "{failure}"
        );
        assert!(failure.detail.contains("use `redis://`"), "{failure}");
    }
}

/// The system's authorities are those of `SSL_CERT_FILE`, where that is set.
#[test]
fn without_a_ca_file_the_systems_authorities_count() {
    let papers = Papers::new();
    let test = "tls::without_a_ca_file_the_systems_authorities_count";
    let Some(server) = papers.server(test) else { return };
    with_password(&server, &["hset", "outbound:lock", "c0ffee:1", "1"]);
    papers.password();
    let config = format!(
        "redis:\n  main: {{url: \"rediss://127.0.0.1:{}\", password_file: {:?}}}\n\
         tasks: [{{name: outbound, lock: {{key: \"outbound:lock\"}}}}]\n",
        server.port,
        papers.folder.path().join("password"),
    );
    let agent = Agent::start_with(&config, |command| {
        command.env("SSL_CERT_FILE", &papers.ca);
    });
    agent.until_view(PATIENCE, "the lock is read", |view| view.held("outbound") == Some(1.0));
    let agent = Agent::start_with(&config, |command| {
        command.env("SSL_CERT_FILE", &papers.other_ca);
    });
    agent.until_view(PATIENCE, "the certificate is refused", |view| {
        view.task("outbound")["lock"]["unknown"]["reason"] == "tls_untrusted"
    });
    assert!(!agent.log_lines(&["the authorities of this machine"]).is_empty(), "{}", agent.log());
}

/// Each store has its own, and what people read says which.
#[test]
fn only_the_tasks_concerned_are_unknown_and_every_output_has_the_remedy() {
    let papers = Papers::new();
    let test = "tls::only_the_tasks_concerned_are_unknown_and_every_output_has_the_remedy";
    let Some(server) = papers.server(test) else { return };
    papers.password();
    let store = |name: &str, ca: &Path| {
        format!(
            "  {name}: {{url: \"rediss://127.0.0.1:{}\", tls: {{ca_file: {ca:?}}}, password_file: \
             {:?}}}\n",
            server.port,
            papers.folder.path().join("password"),
        )
    };
    let config = format!(
        "redis:\n{}{}tasks:\n  - {{name: seen, redis: right, lock: {{key: a}}, blind_after: 5s, \
         settle: 1s}}\n  - {{name: unseen, redis: wrong, lock: {{key: b}}, blind_after: 5s, \
         settle: 1s}}\n",
        store("right", &papers.ca),
        store("wrong", &papers.other_ca),
    );
    let agent = Agent::start(&config);
    agent.until_view(PATIENCE, "one is read and the other is not", |view| {
        view.held("seen") == Some(0.0)
            && view.task("unseen")["lock"]["unknown"]["reason"] == "tls_untrusted"
            && view.verdict("unseen") == "unknown"
    });
    let remedy = lockwatch_watch::remedy(Unknown::TlsUntrusted);
    let task = agent.task("unseen").to_string();
    assert!(task.contains("tls_untrusted"), "{task}");
    let page = agent.text("/tasks/unseen");
    assert!(page.contains("tls_untrusted") && page.contains("tls.ca_file"), "{page}");
    let explained = agent.text("/api/v1/tasks/unseen/explain");
    assert!(explained.contains(remedy), "{explained}");
    let warned = agent.log_lines(&["store=wrong", "cannot connect", "other-ca.crt"]);
    assert_eq!(warned.len(), 1, "{}", agent.log());
    wait_until(PATIENCE, "errors are counted", || {
        let errors = [("store", "wrong"), ("reason", "tls_untrusted")];
        agent.page().get("lockwatch_store_errors_total", &errors).is_some_and(|count| count > 0.0)
    });
    let none = [("store", "right"), ("reason", "tls_untrusted")];
    assert_eq!(agent.page().get("lockwatch_store_errors_total", &none), Some(0.0));
}
