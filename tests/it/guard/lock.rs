//! The lock while a real guard has it, or waits for it: deadlines, renewals, and other holders.

use super::*;
use lockwatch::keeper::boot;

const OTHER: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586:1";

fn deadline(server: &RedisServer) -> i64 {
    server.cli(&["pexpiretime", LOCK]).parse().unwrap()
}

#[test]
fn it_is_renewed_every_third_of_the_lease_until_it_is_given_back() {
    let Some(server) = RedisServer::start("guard::lock: renewals") else { return };
    let scene = Scene::new();
    let mut guard = scene.guard(&server, &[]);
    let token = scene.runs_above(0);
    let mut deadlines = vec![deadline(&server)];
    until("three leases have passed", || {
        let deadline = deadline(&server);
        assert!(deadline > 0, "the lock was lost: {deadlines:?}");
        if deadlines.last() != Some(&deadline) {
            deadlines.push(deadline);
        }
        (deadlines.len() == 10).then_some(())
    });
    // Each renewal came one period after the previous one; a busy machine may add to that.
    for pair in deadlines.windows(2) {
        assert!((660..1_900).contains(&(pair[1] - pair[0])), "{deadlines:?}");
    }
    assert_eq!(server.cli(&["hvals", LOCK]), "1");
    guard.signal("TERM");
    guard.ended();
    assert_eq!(server.cli(&["exists", LOCK]), "0");
    assert_eq!(scene.runs_above(token - 1), token, "it was never lost");
}

#[test]
fn a_thiefs_lock_stays_as_it_is_and_the_script_ends_at_once() {
    let Some(server) = RedisServer::start("guard::lock: thief") else { return };
    let scene = Scene::new();
    let mut guard = scene.guard(&server, &[]);
    scene.runs_above(0);
    let theft = format!(
        "redis.call('del', KEYS[1]) redis.call('hset', KEYS[1], '{OTHER}', 1) \
         redis.call('pexpire', KEYS[1], 60000)"
    );
    server.cli(&["eval", &theft, "1", LOCK]);
    let (stolen, theirs) = (Instant::now(), deadline(&server));
    until("the script is gone", || guard.scripts().is_empty().then_some(()));
    assert!(stolen.elapsed() < Duration::from_millis(500), "{:?}", stolen.elapsed());
    let tried = || calls(&server, "eval");
    let before = tried();
    until("it has tried to get it back", || (tried() > before + 1).then_some(()));
    guard.signal("TERM");
    guard.ended();
    assert_eq!(deadline(&server), theirs);
    assert_eq!(server.cli(&["hgetall", LOCK]), format!("{OTHER}\n1"));
}

/// A holder that died tells nobody.
#[test]
fn the_lock_of_a_dead_holder_is_taken_when_its_lease_has_run_out() {
    let Some(server) = RedisServer::start("guard::lock: dead holder") else { return };
    let scene = Scene::new();
    server.cli(&["hset", LOCK, OTHER, "1"]);
    server.cli(&["pexpire", LOCK, "1500"]);
    let (began, ends_ms) = (Instant::now(), deadline(&server));
    let _guard = scene.guard(&server, &[]);
    let token = scene.runs_above(0);
    let waited = began.elapsed();
    let (start_ns, _) = scene.runs()[&token];
    assert!(start_ns / 1_000_000 >= u64::try_from(ends_ms).unwrap(), "it came too early");
    assert!(waited < Duration::from_millis(2_500), "{waited:?}");
}

/// Redis starts the lease when it carries the request out, however long the reply takes. The guard
/// cannot know when that was.
#[test]
fn a_deadline_counts_from_before_the_lock_was_asked_for() {
    let Some(server) = RedisServer::start("guard::lock: slow answer") else { return };
    let scene = Scene::new();
    server.cli(&["hset", LOCK, OTHER, "1"]);
    let text = "echo $LOCKWATCH_DEADLINE_BOOT_MS > $LOG.part; mv $LOG.part $LOG.deadline; sleep 9";
    let redis = format!("redis://{}", server.address());
    let arguments = ["--redis", &redis, "--lock", LOCK, "--lease", "20s"];
    let _guard = scene.start(&arguments, &["sh", "-c", text].map(str::to_owned));
    until("the guard waits", || server.cli(&["pubsub", "channels"]).contains(LOCK).then_some(()));
    // It asks when the other hold ends, and is answered when the pause is over.
    server.cli(&["pexpire", LOCK, "1500"]);
    let pause_ms = 2_200;
    let answered_ms = boot::now().ms() + pause_ms;
    server.cli(&["client", "pause", &pause_ms.to_string(), "write"]);
    let dead_by_ms: u64 = until("the script knows its deadline", || {
        fs::read_to_string(scene.path("log.deadline")).ok()?.trim().parse().ok()
    });
    // The margin is a tenth of the lease.
    let counts_from_ms = dead_by_ms - 18_000;
    assert!(counts_from_ms < answered_ms, "{} ms too late", counts_from_ms - answered_ms);
}
