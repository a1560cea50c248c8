//! Servers in trouble: only their own tasks become unknown, with the right reason.

use crate::support::PATIENCE;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use redis::Connection;

use super::locks::{HOLDER, connect, switch, take};
use super::redis_block;
use crate::support::agent::Agent;
use crate::support::free_port;
use crate::support::redis::{Keep, RedisServer};
use crate::support::truth::rule;
use crate::support::view::View;

/// Observation time for each trouble.
const WHILE: Duration = Duration::from_millis(1_200);

/// An agent that watches the task `fine` on a healthy server, and the tasks `sick` and `idle` on
/// another port.
struct Ward {
    agent: Agent,
    _good: RedisServer,
}

impl Ward {
    fn open(test: &str, port: u16, more: &str) -> Option<Ward> {
        let good = RedisServer::start(test)?;
        lay_out(&mut connect(good.port), "fine");
        let config = format!(
            "redis:\n{}{}tasks:\n  - {{name: fine, redis: good, lock: {{key: fine}}, wanted: \
             {{hash: users}}}}\n  \
             - {{name: sick, redis: bad, lock: {{key: sick}}, wanted: {{hash: users}}, \
             blind_after: 2s, settle: 1s}}\n  \
             - {{name: idle, redis: bad, lock: {{key: idle}}, wanted: {{hash: users}}}}\n",
            redis_block("good", good.port, ""),
            redis_block("bad", port, more),
        );
        let agent = Agent::start_with(&config, |command| {
            command.env("PASSWORD", "right");
        });
        agent.until_view(PATIENCE, "the good server was read", |view| {
            view.held("fine") == Some(1.0)
        });
        Some(Ward { agent, _good: good })
    }

    /// Waits until the sick server's tasks are unknown for one of these reasons, and then observes
    /// that for `WHILE`.
    #[track_caller]
    fn expect(&self, reasons: &[&str], remedy: &str) {
        let concerned =
            |view: &View, task| view.reason(task).is_some_and(|reason| reasons.contains(&reason));
        self.agent.until_view(PATIENCE, &format!("unknown: {reasons:?}"), |view| {
            concerned(view, "sick") && concerned(view, "idle")
        });
        self.agent.throughout(WHILE, &format!("unknown: {reasons:?}"), |view| {
            let absent = |task| {
                let unknown = &view.task(task)["switches_unknown"]["reason"];
                view.held(task).is_none() && reasons.iter().any(|reason| unknown == reason)
            };
            // The exposition is a little newer than the JSON.
            self.fine(view) && concerned(view, "sick") && absent("sick") && absent("idle")
        });
        let view = self.agent.view();
        let shown = view.task("sick")["lock"]["unknown"]["remedy"].as_str().unwrap();
        assert!(shown.contains(remedy), "{shown}");
        assert!(
            reasons.iter().any(|reason| view.errors("bad", reason) > 0.0),
            "{reasons:?} are counted"
        );
        assert!(
            reasons.iter().all(|reason| view.errors("good", reason) == 0.0),
            "and not for the other server"
        );
        assert_eq!(view.page.get("lockwatch_store_up", &[("store", "bad")]), Some(0.0));
    }

    /// Waits until the sick server's tasks are read again.
    #[track_caller]
    fn expect_health(&self) -> View {
        self.agent.until_view(PATIENCE, "all is read again", |view| {
            assert!(self.fine(view));
            view.held("sick") == Some(1.0)
                && view.held("idle") == Some(0.0)
                && view.of_task("sick", "blind_seconds") == 0.0
        })
    }

    fn fine(&self, view: &View) -> bool {
        view.held("fine") == Some(1.0)
            && view.verdict("fine") == "running"
            && view.of_task("fine", "blind_seconds") == 0.0
    }
}

fn lay_out(redis: &mut Connection, held: &str) {
    take(redis, held.as_bytes(), HOLDER.as_bytes());
    switch(redis, "users", &[("anna", "1")]);
}

/// No end of the hold and no gap was reported.
#[track_caller]
fn assert_nothing_happened(view: &View) {
    for counter in ["ends_total", "acquisitions_total"] {
        assert_eq!(view.of_lock("sick", counter), 0.0, "{counter}");
    }
    assert_eq!(view.page.time("sick", "down").unwrap(), 0.0);
}

#[test]
fn a_wrong_password() {
    let Some(server) =
        RedisServer::start_with_password("faults::servers::a_wrong_password", "other")
    else {
        return;
    };
    let Some(ward) =
        Ward::open("faults::servers::a_wrong_password", server.port, ", password_env: PASSWORD")
    else {
        return;
    };
    ward.expect(&["auth"], "password_file");
    assert!(!ward.agent.log().contains("right"), "the password is in the log");
    server.cli(&["CONFIG", "SET", "requirepass", "right"]);
    let mut redis = redis::Client::open(format!("redis://:right@127.0.0.1:{}", server.port))
        .unwrap()
        .get_connection()
        .unwrap();
    lay_out(&mut redis, "sick");
    ward.expect_health();
}

#[test]
fn a_server_that_is_down_at_the_start_and_later_and_loading() {
    let test = "faults::servers::a_server_that_is_down_at_the_start_and_later_and_loading";
    // While loading, it serves its clients often and loads slowly.
    let slowly = ["--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"];
    let Some(mut server) = RedisServer::start_with(test, &slowly) else { return };
    server.kill();
    let Some(ward) = Ward::open(test, server.port, "") else { return };
    ward.expect(&["connect"], "Check that a server runs");
    let view = ward.agent.until_view(PATIENCE, "unknown", |view| view.verdict("sick") == "unknown");
    assert!(view.of_task("sick", "blind_seconds") > 0.0);
    server.restart(Keep::Files);
    lay_out(&mut connect(server.port), "sick");
    ward.expect_health();

    server.cli(&["DEBUG", "POPULATE", "2000", "filler", "100"]);
    assert_eq!(server.cli(&["SAVE"]), "OK");
    server.kill();
    ward.expect(&["connect", "closed"], "server");
    server.restart(Keep::Files);
    ward.expect(&["loading"], "wait");
    let view = ward.expect_health();
    assert_nothing_happened(&view);
    assert!(view.page.get("lockwatch_store_reconnects_total", &[("store", "bad")]) >= Some(1.0));
    assert_eq!(view.of_task("sick", "switches_lost_seconds"), 0.0, "everything was kept");
}

#[test]
fn a_busy_server() {
    let test = "faults::servers::a_busy_server";
    let Some(server) = RedisServer::start_with(test, &["--busy-reply-threshold", "50"]) else {
        return;
    };
    lay_out(&mut connect(server.port), "sick");
    let Some(ward) = Ward::open(test, server.port, "") else { return };
    ward.expect_health();
    let mut looping = server.cli_in_background(&["EVAL", "while true do end", "0"]);
    ward.expect(&["busy"], "SCRIPT KILL");
    assert_eq!(server.cli(&["SCRIPT", "KILL"]), "OK");
    looping.wait().unwrap();
    assert_nothing_happened(&ward.expect_health());
}

#[test]
fn a_paused_server() {
    let _rule = rule("1 evidence");
    let Some(server) = RedisServer::start("faults::servers::a_paused_server") else { return };
    lay_out(&mut connect(server.port), "sick");
    let Some(ward) = Ward::open("faults::servers::a_paused_server", server.port, "") else {
        return;
    };
    ward.expect_health();
    server.cli(&["CLIENT", "PAUSE", "4000", "ALL"]);
    ward.expect(&["timeout"], "paused");
    assert_nothing_happened(&ward.expect_health());
}

#[test]
fn a_master_that_becomes_a_replica() {
    let _rule = rule("1 evidence");
    let test = "faults::servers::a_master_that_becomes_a_replica";
    let (Some(server), Some(master)) = (RedisServer::start(test), RedisServer::start(test)) else {
        return;
    };
    lay_out(&mut connect(server.port), "sick");
    let Some(ward) = Ward::open(test, server.port, "") else { return };
    ward.expect_health();
    // The new master is empty: a replica that was trusted would show the lock as free.
    server.cli(&["REPLICAOF", "127.0.0.1", &master.port.to_string()]);
    ward.expect(&["not_master"], "replica");
    let view = ward.agent.view();
    assert_eq!(
        view.page.get("lockwatch_store_up", &[("store", "bad"), ("role", "replica")]),
        Some(0.0)
    );
    assert_nothing_happened(&view);
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    lay_out(&mut connect(server.port), "sick");
    ward.expect_health();
}

#[test]
fn a_server_that_allows_less_after_a_reconnect() {
    let test = "faults::servers::a_server_that_allows_less_after_a_reconnect";
    let Some(server) = RedisServer::start(test) else { return };
    lay_out(&mut connect(server.port), "sick");
    let Some(ward) = Ward::open(test, server.port, "") else { return };
    ward.expect_health();
    // Both at once: nothing may be asked in between.
    redis::pipe()
        .atomic()
        .add_command(redis::cmd("ACL").arg(&["SETUSER", "default", "-pexpiretime"]).to_owned())
        .add_command(redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).to_owned())
        .exec(&mut connect(server.port))
        .unwrap();
    ward.agent.until_view(PATIENCE, "reconnected", |view| {
        view.page.get("lockwatch_store_reconnects_total", &[("store", "bad")]) == Some(1.0)
    });
    let view = ward.expect_health();
    assert_eq!(
        view.errors("bad", "no_permission"),
        0.0,
        "it was asked in the old way, and that was believed"
    );
    assert_nothing_happened(&view);
}

#[test]
fn peers_that_are_not_redis() {
    let test = "faults::servers::peers_that_are_not_redis";
    fn http(mut client: TcpStream) {
        let _read = client.read(&mut [0; 4096]);
        let _gone = client.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    }
    fn garbage(mut client: TcpStream) {
        let _gone = client.write_all(b"\xff\x00\x80 this is not Redis \r\n*-7\r\n$x\r\n");
        let _read = client.read(&mut [0; 4096]);
    }
    fn silent(mut client: TcpStream) {
        while client.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
    }
    fn deaf(client: TcpStream) {
        drop(client);
    }
    let try_out = |peer: fn(TcpStream), reason, remedy| {
        let Some(ward) = Ward::open(test, listen(peer), "") else { return };
        ward.expect(&[reason], remedy);
        assert!(ward.agent.view().task("sick")["verdict"] == "unknown");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| try_out(http, "protocol", "really a Redis (or ZooKeeper) server"));
        scope.spawn(|| try_out(garbage, "protocol", "really a Redis (or ZooKeeper) server"));
        scope.spawn(|| try_out(silent, "timeout", "did not answer in time"));
        scope.spawn(|| try_out(deaf, "closed", "closed the connection"));
    });
}

/// A server on a port of its own, for the lifetime of the test binary.
fn listen(peer: fn(TcpStream)) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || peer(client));
        }
    });
    port
}

#[test]
fn a_name_without_an_address() {
    let test = "faults::servers::a_name_without_an_address";
    let Some(good) = RedisServer::start(test) else { return };
    take(&mut connect(good.port), b"fine", HOLDER.as_bytes());
    let config = format!(
        "redis:\n{}{}tasks:\n  - {{name: fine, redis: good, lock: {{key: fine}}}}\n  \
         - {{name: sick, redis: bad, lock: {{key: sick}}}}\n",
        redis_block("good", good.port, ""),
        redis_block("bad", free_port(), "").replace("127.0.0.1", "no-such-host.invalid"),
    );
    let agent = Agent::start(&config);
    let view = agent.until_view(PATIENCE, "both were tried", |view| {
        view.held("fine") == Some(1.0) && view.reason("sick") == Some("dns")
    });
    assert_eq!(view.held("sick"), None);
    assert!(view.task("sick")["lock"]["unknown"]["remedy"].as_str().unwrap().contains("host name"));
}
