//! The same on Sentinel and Cluster, over failovers and moves.

use super::*;
use crate::support::cluster::Cluster;
use crate::support::network::Options;
use crate::support::redisson::Redisson;
use crate::support::sentinels::{MASTER, SentinelOptions, Sentinels};

fn guards(scene: &Scene, redis: &str, more: &str) -> [Guard; 2] {
    let file = scene.path("lockwatch.yml");
    let text = format!(
        "redis: {{main: {redis}}}\ntasks:\n- name: outbound\n  lock: {{key: \"{LOCK}\"}}\n  \
         guard: {{lease: 2s, stop_after: 500ms{more}}}\n"
    );
    fs::write(&file, text).unwrap();
    let arguments = ["--config.file", file.to_str().unwrap(), "outbound"];
    [(); 2].map(|()| scene.start(&arguments, &scene.script()))
}

#[test]
fn a_failover_of_sentinel_is_followed() {
    Sentinels::undisturbed(
        "guard::topologies: sentinel",
        &SentinelOptions::default(),
        |sentinels| {
            let scene = Scene::new();
            let nodes = quoted(&sentinels.addresses());
            let redis = format!("{{sentinel: {{master: {MASTER}, nodes: [{nodes}]}}}}");
            let _guards = guards(&scene, &redis, "");
            let token = scene.runs_above(0);
            sentinels.failover();
            // The lock was replicated, so the script may go on, or start again.
            until("it runs on the new master", || {
                let new = sentinels.master()?;
                let ttl: i64 = sentinels.server(new).cli(&["pttl", LOCK]).parse().ok()?;
                (ttl > 1_400).then_some(())
            });
            let runs = scene.assert_never_both();
            assert!(runs >= 1 && scene.runs_above(token - 1) >= token);
        },
    );
}

#[test]
fn a_cluster_is_followed_when_its_slot_moves_and_redisson_hears_the_release() {
    let test = "guard::topologies: cluster";
    let Some(mut redisson) = Redisson::start(test) else { return };
    let Some(cluster) = Cluster::start(test, 0, &Options::default()) else { return };
    let scene = Scene::new();
    let nodes = quoted(&cluster.addresses());
    let mut guards = guards(&scene, &format!("{{cluster: {{nodes: [{nodes}]}}}}"), "");
    let token = scene.runs_above(0);
    let (slot, from) = (cluster.slot(LOCK), cluster.owner(LOCK));
    cluster.move_slot(slot, (from + 1) % 3);
    until("it is renewed where it is now", || {
        let ttl: i64 = cluster.cli(LOCK, &["pttl", LOCK]).parse().ok()?;
        (ttl > 1_700).then_some(())
    });
    scene.runs_above(token - 1);
    // The other guard ends first, so that Redisson is the only one who waits.
    let waits = usize::from(!guards[0].scripts().is_empty());
    guards[waits].signal("TERM");
    guards[waits].ended();
    redisson
        .connect("c1", &format!("mode=cluster nodes={} watchdog=2000", cluster.node(0).address()));
    redisson.send(&format!("lock c1 t1 {LOCK}"));
    let channel = format!("redisson_lock__channel:{{{LOCK}}}");
    until("Redisson waits", || {
        let reported = cluster.cli(LOCK, &["pubsub", "shardnumsub", &channel]);
        reported.lines().last().filter(|count| *count != "0").map(drop)
    });
    let runs = 1 - waits;
    assert!(!guards[runs].scripts().is_empty(), "the guard has it");
    guards[runs].signal("TERM");
    guards[runs].ended();
    let released = Instant::now();
    redisson.answer(PATIENCE).unwrap();
    assert!(released.elapsed() < Duration::from_millis(500), "{:?}", released.elapsed());
    scene.assert_never_both();
}

/// Also not to one that would take it: its lock is nobody else's.
#[test]
fn a_replica_is_not_written_to() {
    let test = "guard::topologies: replica";
    let Some(master) = RedisServer::start(test) else { return };
    let port = master.port.to_string();
    let replica = ["--replicaof", "127.0.0.1", &port, "--replica-read-only", "no"];
    let replica = RedisServer::start_with(test, &replica).unwrap();
    until("it follows", || {
        replica.cli(&["info", "replication"]).contains("master_link_status:up").then_some(())
    });
    let (scene, redis) = (Scene::new(), format!("redis://{}", replica.address()));
    let arguments = ["--redis", &redis, "--lock", LOCK, "--wait", "1s"];
    let (code, said) = output(scene.start(&arguments, &["true".to_owned()]));
    assert!(code == Some(69) && said.contains("read-only replica"), "{code:?}: {said}");
    assert_eq!(replica.cli(&["keys", "*"]), "");
}

/// A list in YAML.
fn quoted(all: &[String]) -> String {
    all.iter().map(|at| format!("\"{at}\"")).collect::<Vec<_>>().join(", ")
}
