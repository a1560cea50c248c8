//! A network that loses replies: changes are seen a little later, and nothing false is reported.

use std::time::{Duration, Instant};

use super::locks::{HOLDER, connect, release, switch, take};
use super::redis_block;
use crate::support::agent::Agent;
use crate::support::proxy::{Fault, Proxy};
use crate::support::redis::RedisServer;

const GRACE: Duration = Duration::from_secs(10);

#[test]
fn every_second_reply_dropped_delays_a_page_by_half_at_most() {
    let test = "faults::network::every_second_reply_dropped_delays_a_page_by_half_at_most";
    let Some(server) = RedisServer::start(test) else { return };
    let mut redis = connect(server.port);
    take(&mut redis, b"a", HOLDER.as_bytes());
    switch(&mut redis, "users", &[("anna", "1")]);
    let proxy = Proxy::start(server.port);
    let start = |port| {
        let redis = redis_block("main", port, "").replace("200ms", "1s").replace("500ms", "3s");
        let task = "{name: a, lock: {key: a}, wanted: {hash: users}, grace: 10s}";
        let agent = Agent::start(&format!("redis:\n{redis}tasks:\n  - {task}\n"));
        agent.until_view(GRACE, "running", |view| view.verdict("a") == "running");
        agent
    };
    let (undisturbed, disturbed) = (start(server.port), start(proxy.port));

    proxy.set(Fault::DropEverySecondReply);
    release(&mut redis, "a");
    let begin = Instant::now();
    let seen = |agent: &Agent| {
        agent.until_view(GRACE * 3, "down", |view| view.verdict("a") == "down");
        begin.elapsed()
    };
    let (quick, late) = std::thread::scope(|scope| {
        let late = scope.spawn(|| seen(&disturbed));
        (seen(&undisturbed), late.join().unwrap())
    });
    println!("down after {quick:?} undisturbed, after {late:?} with every second reply dropped");
    assert!(quick > GRACE && quick < GRACE + Duration::from_secs(4), "{quick:?}");
    assert!(late > GRACE && late < quick.mul_f64(1.5), "{late:?}, undisturbed {quick:?}");
    let view = disturbed.view();
    assert!(view.errors("main", "timeout") >= 2.0, "replies were dropped");
    let (down, truth) = (view.of_task("a", "down_seconds"), begin.elapsed().as_secs_f64());
    assert!(down <= truth, "down for {down} s, but it was {truth} s at most");
}
