//! Every way in which a connection attempt can fail has its own reason.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use lockwatch::config::{HostPort, Login, PasswordSource, RedisConfig, Servers};
use lockwatch::io::{self, Connection, Failure};
use lockwatch_judge::input::Role;
use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::accept::{Caps, RoleCheck};
use lockwatch_watch::redis::reply::{Command, Reply};

use super::config;
use crate::support::redis::{Keep, RedisServer};
use crate::support::truth::rule;
use crate::support::{eventually, send_signal, wait_until};

fn bytes(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
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

fn password_file(text: &str) -> (tempfile::NamedTempFile, Option<PasswordSource>) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let source = PasswordSource::File(file.path().to_path_buf());
    (file, Some(source))
}

#[tokio::test]
async fn a_plain_server_allows_everything() {
    let Some(server) = RedisServer::start("a_plain_server_allows_everything") else { return };
    let connection = connect(&config(server.port)).await.unwrap();
    assert_eq!(
        connection.caps(),
        Caps {
            pexpiretime: true,
            hpexpiretime: false,
            role: RoleCheck::Role,
            info: true,
            sharded: false
        }
    );
    assert_eq!(connection.role(), Some(Role::Master));
    assert!(
        connection
            .version()
            .is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
    );
    assert!(server.cli(&["CLIENT", "LIST"]).contains("name=lockwatch"));
    drop(connection);
    eventually(Duration::from_secs(5), "the connection is closed", || {
        !server.cli(&["CLIENT", "LIST"]).contains("name=lockwatch")
    })
    .await;
}

#[tokio::test]
async fn a_batch_is_answered_in_order_and_refusals_are_data() {
    let Some(server) = RedisServer::start("a_batch_is_answered_in_order_and_refusals_are_data")
    else {
        return;
    };
    let mut config = config(server.port);
    config.db = 3;
    server.cli(&["-n", "3", "SET", "k", "in db 3"]);
    let connection = connect(&config).await.unwrap();
    let commands =
        [&["GET", "k"][..], &["LLEN", "k"], &["NO-SUCH-COMMAND"], &["GET", "none"], &["INCR", "n"]];
    let replies = connection.exec(&commands.map(Command::new)).await.unwrap();
    let code = |reply: &Reply| match reply {
        Reply::Error(error) => String::from_utf8(error.code.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(replies[0], bytes("in db 3"));
    assert_eq!((code(&replies[1]), code(&replies[2])), ("WRONGTYPE".into(), "ERR".into()));
    assert_eq!(replies[3..], [Reply::Nil, Reply::Int(1)]);
}

#[tokio::test]
async fn batches_under_way_together_get_their_own_replies() {
    let _rule = rule("3 connection");
    let Some(server) = RedisServer::start("batches_under_way_together_get_their_own_replies")
    else {
        return;
    };
    let connection = connect(&config(server.port)).await.unwrap();
    let ask = async |connection: &Connection, who: usize| {
        for round in 0..50 {
            let words: Vec<String> = (0..500).map(|item| format!("{who}-{round}-{item}")).collect();
            let commands: Vec<Command> =
                words.iter().map(|word| Command::new(["ECHO", word])).collect();
            let replies = connection.exec(&commands).await.unwrap();
            assert!(replies.iter().zip(&words).all(|(reply, word)| *reply == bytes(word)));
        }
    };
    tokio::join!(
        ask(&connection, 1),
        ask(&connection, 2),
        ask(&connection, 3),
        ask(&connection, 4)
    );
}

#[tokio::test]
async fn passwords() {
    let Some(server) = RedisServer::start_with_password("passwords", "hunter2") else { return };
    let mut config = config(server.port);
    assert_eq!(refused(&config).await.why, Unknown::NoPassword);
    let (_wrong, source) = password_file("hunter3\n");
    config.login.password = source;
    let failure = refused(&config).await;
    assert_eq!(failure.why, Unknown::Auth);
    assert!(failure.detail.starts_with("WRONGPASS"), "{failure}");
    let (_right, source) = password_file("hunter2\nsecond line\n");
    config.login.password = source;
    connect(&config).await.unwrap();
    config.login.password = Some(PasswordSource::File("/no/such/file".into()));
    let failure = refused(&config).await;
    assert_eq!(failure.why, Unknown::Auth);
    assert!(failure.detail.contains("/no/such/file"), "{failure}");
}

#[tokio::test]
async fn a_password_that_the_server_does_not_want_is_a_mistake() {
    let Some(server) = RedisServer::start("a_password_that_the_server_does_not_want_is_a_mistake")
    else {
        return;
    };
    let (_file, source) = password_file("hunter2");
    let failure = refused(&RedisConfig {
        login: Login { password: source, ..Login::default() },
        ..config(server.port)
    })
    .await;
    assert_eq!(failure.why, Unknown::NeedlessPassword);
    assert!(!failure.detail.contains("hunter2"));
}

#[tokio::test]
async fn acl_users_get_what_they_may_do() {
    let Some(server) = RedisServer::start("acl_users_get_what_they_may_do") else { return };
    let caps = async |rules: &[&str], assume_master| {
        server.cli(
            &[
                &["ACL", "SETUSER", "watch", "reset", "on", ">pw", "resetchannels", "~lock:*"],
                rules,
            ]
            .concat(),
        );
        let (_file, source) = password_file("pw");
        let username = Some("watch".to_owned());
        let config = RedisConfig {
            login: Login { username, password: source, max_age: None },
            assume_master,
            ..config(server.port)
        };
        connect(&config).await.map(|connection| connection.caps()).map_err(|failure| failure.why)
    };
    let full = Caps {
        pexpiretime: true,
        hpexpiretime: false,
        role: RoleCheck::Role,
        info: true,
        sharded: false,
    };
    assert_eq!(caps(&["+role", "+info", "+pexpiretime", "+echo", "+time"], false).await, Ok(full));
    let old = Caps { pexpiretime: false, ..full };
    assert_eq!(
        caps(&["+role", "+info", "+pttl"], false).await,
        Ok(old),
        "the command is refused, not only the key"
    );
    let by_info = Caps { role: RoleCheck::Info, ..full };
    assert_eq!(caps(&["+info", "+pexpiretime"], false).await, Ok(by_info));
    assert_eq!(caps(&["+pexpiretime"], false).await, Err(Unknown::RoleRefused));
    let assumed = Caps {
        pexpiretime: true,
        hpexpiretime: false,
        role: RoleCheck::Assumed,
        info: false,
        sharded: false,
    };
    assert_eq!(caps(&["+pexpiretime"], true).await, Ok(assumed));
    let (_file, source) = password_file("pw");
    let other_db = RedisConfig {
        login: Login { username: Some("watch".into()), password: source, max_age: None },
        db: 1,
        ..config(server.port)
    };
    assert_eq!(refused(&other_db).await.why, Unknown::NoPermission, "SELECT is refused");
}

#[tokio::test]
async fn a_database_that_does_not_exist() {
    let Some(server) = RedisServer::start("a_database_that_does_not_exist") else { return };
    let failure = refused(&RedisConfig { db: 99, ..config(server.port) }).await;
    assert_eq!(failure.why, Unknown::Database);
    assert!(failure.detail.contains("out of range"), "{failure}");
}

#[tokio::test]
async fn a_full_server_says_so() {
    let Some(server) = RedisServer::start_with("a_full_server_says_so", &["--maxclients", "1"])
    else {
        return;
    };
    let config = config(server.port);
    let only = loop {
        // The test's own connection may still occupy the only place.
        if let Ok(connection) = connect(&config).await {
            break connection;
        }
    };
    for _ in 0..20 {
        assert_eq!(refused(&config).await.why, Unknown::MaxClients);
    }
    assert_eq!(only.exec(&[Command::new(["ECHO", "x"])]).await.unwrap(), [bytes("x")]);
}

#[tokio::test]
async fn a_replica_says_so() {
    let Some(master) = RedisServer::start("a_replica_says_so") else { return };
    let Some(replica) = RedisServer::start("a_replica_says_so") else { return };
    replica.cli(&["REPLICAOF", "127.0.0.1", &master.port.to_string()]);
    let connection = connect(&config(replica.port)).await.unwrap();
    assert_eq!(connection.role(), Some(Role::Replica));
}

#[tokio::test]
async fn a_busy_server_says_so() {
    let Some(server) =
        RedisServer::start_with("a_busy_server_says_so", &["--busy-reply-threshold", "1"])
    else {
        return;
    };
    let mut script = server.cli_in_background(&["EVAL", "while true do end", "0"]);
    wait_until(Duration::from_secs(5), "the script blocks", || {
        server.cli(&["GET", "k"]).contains("BUSY")
    });
    assert_eq!(refused(&config(server.port)).await.why, Unknown::Busy);
    assert_eq!(server.cli(&["SCRIPT", "KILL"]), "OK");
    script.wait().unwrap();
}

#[tokio::test]
async fn a_loading_server_says_so() {
    let test = "a_loading_server_says_so";
    // While loading, it serves its clients often and loads slowly.
    let slowly = ["--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"];
    let Some(mut server) = RedisServer::start_with(test, &slowly) else { return };
    server.cli(&["DEBUG", "POPULATE", "2000", "key", "100"]);
    assert_eq!(server.cli(&["SAVE"]), "OK");
    server.restart(Keep::Files);
    assert_eq!(refused(&config(server.port)).await.why, Unknown::Loading);
}

#[tokio::test]
async fn nobody_there() {
    // Bound, so that the port stays taken, but not listening.
    let bound = tokio::net::TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let failure = refused(&config(bound.local_addr().unwrap().port())).await;
    assert_eq!(failure.why, Unknown::Connect, "{failure}");
    let nowhere = RedisConfig {
        servers: Servers::One(HostPort { host: "no-such-host.invalid".into(), port: 6379 }),
        ..config(6379)
    };
    let failure = refused(&nowhere).await;
    assert_eq!(failure.why, Unknown::Dns, "{failure}");
}

#[tokio::test]
async fn a_stopped_server_times_out() {
    let Some(server) = RedisServer::start("a_stopped_server_times_out") else { return };
    let connection = connect(&config(server.port)).await.unwrap();
    server.pause();
    let before = Instant::now();
    let failure = connection.exec(&[Command::new(["TIME"])]).await.unwrap_err();
    assert_eq!(failure.why, Unknown::Timeout, "{failure}");
    let failure = refused(&config(server.port)).await;
    assert_eq!(failure.why, Unknown::Timeout, "{failure}");
    assert!(before.elapsed() < Duration::from_secs(4));
    server.go_on();
}

#[tokio::test]
async fn a_server_that_is_killed_closes() {
    let Some(mut server) = RedisServer::start("a_server_that_is_killed_closes") else { return };
    let connection = connect(&config(server.port)).await.unwrap();
    send_signal(server.process(), "KILL");
    server.kill();
    let failure = connection.exec(&[Command::new(["TIME"])]).await.unwrap_err();
    assert_eq!(failure.why, Unknown::Closed, "{failure}");
}

/// A server that is not Redis: takes one connection, reads a little, and answers with `script`.
fn impostor(script: impl FnOnce(std::net::TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _some = stream.read(&mut [0; 1_024]);
        script(stream);
    });
    port
}

#[tokio::test]
async fn what_is_not_redis_is_found_out() {
    let _rule = rule("3 connection");
    let says = |text: &'static [u8]| {
        impostor(move |mut stream| {
            let _hung_up = stream.write_all(text);
            let _until_closed = stream.read_to_end(&mut Vec::new());
        })
    };
    let cases: [(&str, u16, Unknown); 6] = [
        (
            "an HTTP server",
            says(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
            Unknown::Protocol,
        ),
        ("a TLS server", says(b"\x15\x03\x03\x00\x02\x02\x46"), Unknown::NeedsTls),
        ("an SSH server", says(b"SSH-2.0-OpenSSH_9.2p1\r\n"), Unknown::Protocol),
        ("a silent server", says(b""), Unknown::Timeout),
        ("a string of 8 exbibytes", says(b"$9223372036854775807\r\n"), Unknown::TooLarge),
        ("too many replies", says(b"+a\r\n".repeat(200).leak()), Unknown::Protocol),
    ];
    for (who, port, why) in cases {
        let failure = refused(&config(port)).await;
        assert_eq!(failure.why, why, "{who}: {failure}");
    }
}

#[tokio::test]
async fn endless_bytes_end_soon() {
    let endless = |first: &'static [u8], rest: &'static [u8]| {
        impostor(move |mut stream| {
            let block = rest.repeat(4_096);
            let mut sent = stream.write_all(first);
            while sent.is_ok() {
                sent = stream.write_all(&block);
            }
        })
    };
    for (first, rest) in [
        (&b"+"[..], &b"xxxxxxxx"[..]),
        (b"*60000\r\n", b"*60000\r\n"),
        (b"*60000\r\n", b"$4\r\nabcd\r\n"),
    ] {
        let before = Instant::now();
        let failure = refused(&config(endless(first, rest))).await;
        let expected = [Unknown::TooLarge, Unknown::Protocol];
        assert!(expected.contains(&failure.why), "{failure}");
        assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
    }
}
