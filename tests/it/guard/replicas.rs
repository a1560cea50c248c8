//! The server becomes a read-only replica under a guard that holds the lock.

use super::*;
use crate::support::network::Options;
use crate::support::replicas::Replicated;

#[test]
fn a_master_that_became_a_replica_is_named_and_used_again_once_it_is_master() {
    let test = "guard::replicas: one address";
    let (Some(server), Some(other)) = (RedisServer::start(test), RedisServer::start(test)) else {
        return;
    };
    let scene = Scene::new();
    let guard = scene.guard(&server, &[]);
    let token = scene.runs_above(0);
    // With the other one's data the lock and the counter are gone.
    server.cli(&["replicaof", "127.0.0.1", &other.port.to_string()]);
    let since = Instant::now();
    until("the script is dead", || guard.scripts().is_empty().then_some(()));
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    let said = until("it says why", || {
        let said = guard.said();
        said.contains("is a read-only replica").then_some(said)
    });
    assert!(said.contains(&server.address()) && said.contains("Configure the master"), "{said}");
    assert!(!said.contains("switches are written"), "a guard writes a lock: {said}");
    server.cli(&["replicaof", "no", "one"]);
    scene.runs_above(token);
    scene.assert_never_both();
}

#[test]
fn the_new_master_is_found_among_several_servers() {
    let test = "guard::replicas: failover";
    let Some(servers) = Replicated::start(test, 1, &Options::default()) else { return };
    let scene = Scene::new();
    let file = scene.path("lockwatch.yml");
    let nodes: Vec<String> = servers
        .members
        .iter()
        .map(|member| format!("\"redis://{}\"", member.server.address()))
        .collect();
    let text = format!(
        "redis: {{main: {{nodes: [{}]}}}}\ntasks:\n- name: outbound\n  \
         lock: {{key: \"{LOCK}\"}}\n  guard: {{lease: 2s, stop_after: 500ms}}\n",
        nodes.join(", ")
    );
    fs::write(&file, text).unwrap();
    let arguments = ["--config.file", file.to_str().unwrap(), "outbound"];
    let _guards = [(); 2].map(|()| scene.start(&arguments, &scene.script()));
    let token = scene.runs_above(0);
    servers.promote(1);
    servers.follow(0, 1);
    until("the lock is renewed on the new master", || {
        let ttl: i64 = servers.server(1).cli(&["pttl", LOCK]).parse().ok()?;
        (servers.server(0).info("role")? == "slave" && ttl > 1_800).then_some(())
    });
    assert!(scene.runs_above(token - 1) >= token);
    scene.assert_never_both();
}
