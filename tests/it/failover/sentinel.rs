//! A master, two replicas, three Sentinels.

use crate::support::PATIENCE;
use std::time::Instant;

use super::*;
use crate::support::network::Options;
use crate::support::redis::Keep;
use crate::support::redisson::Redisson;
use crate::support::sentinels::SentinelOptions;
use crate::support::standstill::Standstills;
use crate::support::truth::rule;

/// Runs `body` on a fresh set whose servers have these additional configuration lines.
fn on_sentinels(test: &str, lines: &[&'static str], body: impl Fn(&mut Sentinels)) {
    let servers = Options { lines: lines.to_vec(), ..Options::default() };
    let options = SentinelOptions { servers, ..SentinelOptions::default() };
    Sentinels::undisturbed(&format!("failover::sentinel::{test}"), &options, body);
}

fn port(sentinels: &Sentinels, server: usize) -> u16 {
    sentinels.server(server).port
}

fn announced(sentinels: &Sentinels, server: usize) -> String {
    sentinels.members[server].announced()
}

/// The task runs through three failovers: an orderly one with a change of holder in the middle, a
/// frozen and thawed master, a killed master.
#[test]
fn failovers_that_lose_nothing_are_calm() {
    on_sentinels("failovers_that_lose_nothing_are_calm", &[], |sentinels| {
        switch_on(sentinels.server(0));
        let lease = Duration::from_secs(12);
        let worker = Worker::take(port(sentinels, 0), LOCK, A, lease);
        sentinels.wait_settled();
        let agent = Agent::start(&sentinel_config(sentinels, "", &one_task("")));
        agent.until(PATIENCE, "running", |page| page.verdict(TASK) == "running");
        let watch = agent.watch();

        // The old master reports itself as master for seconds, and shows the hold that was released
        // on the new one.
        let orderly = sentinels.failover();
        until_read_at(&agent, sentinels, orderly);
        worker.follow(port(sentinels, orderly));
        worker.release();
        let worker = Worker::take(port(sentinels, orderly), LOCK, B, lease);
        assert_eq!(sentinels.server(0).cli(&["hkeys", LOCK]), A, "the leftover");
        let_it_read();
        // The former master becomes a witness at once, although no Sentinel lists it yet, and its
        // connection is kept.
        let dials = agent.log_lines(&[" msg=connected ", &announced(sentinels, 0)]);
        assert_eq!(dials.len(), 1, "{dials:?}");
        wait_demoted(sentinels.server(0));
        sentinels.wait_settled();

        sentinels.server(orderly).pause();
        let frozen = sentinels.wait_switched(orderly);
        worker.follow(port(sentinels, frozen));
        until_read_at(&agent, sentinels, frozen);
        sentinels.server(orderly).go_on();
        wait_demoted(sentinels.server(orderly));
        sentinels.wait_settled();

        sentinels.server_mut(frozen).kill();
        let killed = sentinels.wait_switched(frozen);
        worker.follow(port(sentinels, killed));
        until_read_at(&agent, sentinels, killed);
        let all_reported = |page: &Exposition| fared(page, "kept") >= 3.0;
        agent.until(PATIENCE, "three failovers are reported", all_reported);
        let pages = watch.stop();
        assert_calm(&agent, &pages, "running");
        if sentinels.failovers() > 3 {
            return eprintln!(
                "the Sentinels began a failover of their own, so that these cannot be counted"
            );
        }
        let last = pages.last().unwrap();
        let settled = reported(
            &agent,
            "generation_settled",
            &["1 kept, 0 lost, 0 changed, 0 overlapped", "reason=failover"],
        );
        agent.check(
            last,
            "one summary of each",
            settled.len() == 3 && reported(&agent, "generation_settled", &[]).len() == 3,
        );
        for (line, (from, to)) in
            settled.iter().zip([(0, orderly), (orderly, frozen), (frozen, killed)])
        {
            let who = format!("{} -> {}", announced(sentinels, from), announced(sentinels, to));
            agent.check(last, &format!("{line} names {who}"), line.contains(&who));
            // For a moment in between, the Sentinels may agree on nobody: then the event names only
            // the new master.
            agent.check(
                last,
                &format!("the change to {}", announced(sentinels, to)),
                !reported(&agent, "masters_changed", &[&announced(sentinels, to)]).is_empty(),
            );
        }
        let counted = last.get("lockwatch_store_generation_changes_total", &[]) == Some(3.0);
        agent.check(last, "three changes", counted);
        // What the old master wrote after the promotion, if only a ping to its replicas, is indeed
        // lost.
        let lossy = reported(&agent, "generation_settled", &["never had the last"]).len();
        agent.check(
            last,
            "Redis lost nothing",
            reported(&agent, "generation_changed", &[]).len() == lossy,
        );
        let errors = agent.log_lines(&["level=error"]);
        let expected =
            |line: &String| line.contains("event=redis_down") || line.contains("cannot connect");
        agent.check(last, &format!("errors: {errors:?}"), errors.iter().all(expected));
    });
}

/// The real Redisson follows the Sentinels by itself.
#[test]
fn redisson_keeps_its_lock_through_a_failover() {
    let test = "redisson_keeps_its_lock_through_a_failover";
    on_sentinels(test, &[], |sentinels| {
        let Some(mut redisson) = Redisson::start(test) else { return };
        switch_on(sentinels.server(0));
        let nodes = sentinels.addresses().join(",");
        redisson.connect("c1", &format!("mode=sentinel nodes={nodes} watchdog=6000"));
        redisson.run(&format!("lock c1 t1 {LOCK}"));
        sentinels.wait_settled();
        let agent = Agent::start(&sentinel_config(sentinels, "", &one_task("")));
        let renewals = |page: &Exposition| page.of(TASK, "lock_renewals_total").unwrap();
        agent.until(PATIENCE, "it is renewed", |page| {
            page.verdict(TASK) == "running" && renewals(page) > 0.0
        });
        let watch = agent.watch();
        // Not an orderly failover: Redisson may go on at the old master until its demotion, and
        // lose its lock on the new one.
        sentinels.server_mut(0).kill();
        let new = sentinels.wait_switched(0);
        until_read_at(&agent, sentinels, new);
        let before = renewals(&agent.page());
        agent.until(PATIENCE, "it is renewed there", |page| {
            renewals(page) > before && fared(page, "kept") == 1.0
        });
        let pages = watch.stop();
        assert_calm(&agent, &pages, "running");
        assert_eq!(reported(&agent, "generation_settled", &["1 kept"]).len(), 1, "{}", agent.log());
    });
}

/// An acknowledged lock that no replica has, in two cases: the old master resumes, and the old
/// master is dead.
#[test]
fn locks_that_a_failover_lost_are_split() {
    let _rule = rule("12 two holders");
    on_sentinels("locks_that_a_failover_lost_are_split", &[], |sentinels| {
        switch_on(sentinels.server(0));
        sentinels.wait_settled();
        let agent = Agent::start(&sentinel_config(sentinels, "", &one_task(", grace: 60s")));
        agent.until(PATIENCE, "free", |page| page.of(TASK, "lock_held") == Some(0.0));
        sentinels.cut_replication(0, 1);
        sentinels.cut_replication(0, 2);
        let_it_read();
        let a = Worker::take(port(sentinels, 0), LOCK, A, Duration::from_secs(3));
        agent.until(PATIENCE, "running", |page| page.verdict(TASK) == "running");
        let (truth, watch, standstills) =
            (Truth::watch(sentinels, LOCK), agent.watch(), Standstills::watch());
        let new = sentinels.failover();
        let b = Worker::take(port(sentinels, new), LOCK, B, Duration::from_secs(3));
        agent.until_view(PATIENCE, "split", |view| {
            let kinds = view.task(TASK)["splits"].as_array().unwrap();
            view.verdict(TASK) == "split" && kinds.iter().any(|kind| kind == "masters")
        });
        wait_demoted(sentinels.server(0));
        sentinels.heal();
        drop(a);
        agent.until(PATIENCE, "one holder", |page| page.verdict(TASK) == "running");
        let (doubles, pages) = (truth.stop(), watch.stop_timed());
        check_split(&agent, sentinels, &standstills, &doubles, &pages, [(A, 0), (B, new)]);
        let ended = reported(&agent, "split_ended", &["reason=masters"]);
        let last = agent.page();
        agent.check(
            &last,
            "the split ended, its counter stays",
            ended.len() == 1 && splits(&last, "masters") == 1.0,
        );
        let changed = reported(&agent, "generation_changed", &["reason=failover"]);
        agent.check(&last, "Redis has lost data", changed.len() == 1);
        b.release();
        sentinels.wait_settled();

        // The second time, the only server with the first hold dies: its holder may go on until its
        // lease ends.
        let others = (0..3).filter(|server| *server != new);
        others.for_each(|other| sentinels.cut_replication(new, other));
        let_it_read();
        let a = Worker::take(port(sentinels, new), LOCK, A, Duration::from_secs(15));
        agent.until_view(PATIENCE, "held there", |view| {
            view.task(TASK)["lock"]["hold"]["holders"][0]["holder"] == name(A)
                && view.verdict(TASK) == "running"
        });
        let overlaps = splits(&agent.page(), "overlap");
        let_it_read();
        sentinels.server_mut(new).kill();
        let deadline = a.renewed() + Duration::from_secs(15);
        drop(a);
        let third = sentinels.wait_switched(new);
        let b = Worker::take(port(sentinels, third), LOCK, B, Duration::from_secs(3));
        agent.until(PATIENCE, "split", |page| {
            page.verdict(TASK) == "split" && splits(page, "overlap") == overlaps + 1.0
        });
        let (old_at, new_at) = (announced(sentinels, new), announced(sentinels, third));
        let at_old = format!("{} at {old_at}", name(A));
        let began = reported(
            &agent,
            "split_began",
            &["reason=overlap", &at_old, name(B), &format!("node={new_at}")],
        );
        agent.check(&agent.page(), "both holders and both servers", began.len() == 1);
        // Sentinel may have failed over again meanwhile, and the second holder lost its lock as
        // well.
        agent.until(PATIENCE, "the lost lease is over", |page| page.verdict(TASK) != "split");
        let over = Instant::now();
        assert!(
            over + Duration::from_secs(1) > deadline && over < deadline + Duration::from_secs(2),
            "at its deadline"
        );
        let page = agent.page();
        agent.check(
            &page,
            "it was lost",
            page.ends(TASK, "lost") >= 1.0 && fared(&page, "overlapped") >= 1.0,
        );
        drop(b);
    });
}

/// The split was reported with all names, in time, and for at least as long as it was visible after
/// that.
#[track_caller]
fn check_split(
    agent: &Agent,
    sentinels: &Sentinels,
    standstills: &Standstills,
    doubles: &[truth::Double],
    pages: &[(Instant, Exposition)],
    parties: [(&str, usize); 2],
) {
    let last = &pages.last().unwrap().1;
    let visible = doubles
        .iter()
        .max_by_key(|double| double.lasted())
        .expect("two masters showed two holders");
    let seen = pages.iter().find(|(_, page)| page.verdict(TASK) == "split").expect("a split").0;
    let delay = standstills.ran(visible.from, seen);
    eprintln!("two holders for {:?}, reported after {delay:?}", visible.lasted());
    agent.check(last, &format!("reported after {delay:?}"), delay <= REPORTED_WITHIN);
    let counted_for = last.of(TASK, "task_split_time_seconds_total").unwrap();
    let left = visible.lasted().saturating_sub(delay + INTERVAL).as_secs_f64();
    agent.check(last, &format!("{counted_for} s of {:?}", visible.lasted()), counted_for >= left);
    let at = |(holder, server): (&str, usize)| {
        let instance = holder.split(':').next().unwrap();
        format!("{instance} at {}", announced(sentinels, server))
    };
    let [at_old, at_new] = parties.map(at);
    let began =
        reported(agent, "split_began", &["level=error", "reason=masters", &at_old, &at_new]);
    agent.check(last, &format!("{at_old} and {at_new} are named once"), began.len() == 1);
    // If offsets prove the loss, that is separate evidence.
    let counted = splits(last, "masters") == 1.0 && splits(last, "overlap") <= 1.0;
    agent.check(last, "counted once", counted && all_splits(last) <= 2.0);
}

/// The old master and its worker are cut off from all others; the program reaches both sides.
#[test]
fn a_partition_that_doubles_the_holder_is_split_in_time() {
    let _rule = rule("12 two holders");
    on_sentinels("a_partition_that_doubles_the_holder_is_split_in_time", &[], |sentinels| {
        switch_on(sentinels.server(0));
        let a = Worker::take(port(sentinels, 0), LOCK, A, Duration::from_secs(3));
        sentinels.wait_settled();
        let agent = Agent::start(&sentinel_config(sentinels, "", &one_task("")));
        agent.until(PATIENCE, "running", |page| page.verdict(TASK) == "running");
        let (truth, watch, standstills) =
            (Truth::watch(sentinels, LOCK), agent.watch(), Standstills::watch());
        sentinels.isolate_server(0);
        let new = sentinels.wait_switched(0);
        let b = Worker::take(port(sentinels, new), LOCK, B, Duration::from_secs(3));
        agent.until(PATIENCE, "split", |page| page.verdict(TASK) == "split");
        // For three seconds.
        agent.throughout(Duration::from_secs(3), "it stays a split", |view| {
            view.verdict(TASK) == "split"
        });
        let masters = agent.page().get("lockwatch_store_masters", &[]);
        assert_eq!(masters, Some(2.0), "two masters");
        assert_eq!(
            reported(&agent, "rival_master", &[&announced(sentinels, 0)]).len(),
            1,
            "{}",
            agent.log()
        );
        sentinels.heal();
        wait_demoted(sentinels.server(0));
        agent.until(PATIENCE, "one holder", |page| page.verdict(TASK) == "running");
        let (doubles, pages) = (truth.stop(), watch.stop_timed());
        check_split(&agent, sentinels, &standstills, &doubles, &pages, [(A, 0), (B, new)]);
        drop((a, b));
    });
}

/// The same with Redisson: one instance knows only the old master, as behind the partition, the
/// other one asks Sentinel.
#[test]
fn a_partition_that_doubles_a_redisson_lock_is_split_in_time() {
    let test = "a_partition_that_doubles_a_redisson_lock_is_split_in_time";
    on_sentinels(test, &[], |sentinels| {
        let Some(mut redisson) = Redisson::start(test) else { return };
        switch_on(sentinels.server(0));
        let (nodes, old) = (sentinels.addresses().join(","), port(sentinels, 0));
        let first = redisson.connect("c1", &format!("port={old} watchdog=3000"));
        let second = redisson.connect("c2", &format!("mode=sentinel nodes={nodes} watchdog=3000"));
        redisson.run(&format!("lock c1 t1 {LOCK}"));
        sentinels.wait_settled();
        let agent = Agent::start(&sentinel_config(sentinels, "", &one_task(", grace: 60s")));
        let renewed = |page: &Exposition| page.of(TASK, "lock_renewals_total").unwrap() > 0.0;
        agent.until(PATIENCE, "running", |page| page.verdict(TASK) == "running" && renewed(page));
        let (truth, watch, standstills) =
            (Truth::watch(sentinels, LOCK), agent.watch(), Standstills::watch());
        sentinels.isolate_server(0);
        let new = sentinels.wait_switched(0);
        redisson.run(&format!("lock-async c2 t1 {LOCK}"));
        redisson.event("acquired", LOCK, PATIENCE);
        agent.until(PATIENCE, "split", |page| page.verdict(TASK) == "split");
        sentinels.heal();
        wait_demoted(sentinels.server(0));
        agent.until(PATIENCE, "one holder", |page| page.verdict(TASK) == "running");
        let (doubles, pages) = (truth.stop(), watch.stop_timed());
        check_split(
            &agent,
            sentinels,
            &standstills,
            &doubles,
            &pages,
            [(&first, 0), (&second, new)],
        );
    });
}

/// A hold that no client knows of: a second after a failover on the new master, three on the old
/// one when it thaws.
#[test]
fn phantom_holds_after_a_failover_change_nothing() {
    const IDLE: &str = "idle:lock";
    on_sentinels("phantom_holds_after_a_failover_change_nothing", &[], |sentinels| {
        switch_on(sentinels.server(0));
        let a = Worker::take(port(sentinels, 0), LOCK, A, Duration::from_secs(60));
        sentinels.wait_settled();
        let tasks = one_task(", grace: 1s") + &task("idle", IDLE, ", grace: 60s");
        let agent = Agent::start(&sentinel_config(sentinels, "", &tasks));
        agent.until(PATIENCE, "running", |page| page.verdict(TASK) == "running");
        let late = worker::connect(port(sentinels, 0)).unwrap();
        sentinels.server(0).pause();
        let new = sentinels.wait_switched(0);
        worker::ask_in_vain(late, IDLE, C, Duration::from_secs(9));
        a.follow(port(sentinels, new));
        a.release();
        let idle = Worker::take(port(sentinels, new), IDLE, B, Duration::from_secs(3));
        agent.until(PATIENCE, "down", |page| {
            page.verdict(TASK) == "down" && page.verdict("idle") == "running"
        });
        let down = |page: &Exposition| page.of(TASK, "task_down_seconds").unwrap();
        let (before, watch) = (down(&agent.page()), agent.watch());

        // The old master reports itself as master again, and shows the first holder for another
        // minute.
        sentinels.server(0).go_on();
        let thawed = Instant::now();
        wait_until(PATIENCE, "it does what it was asked for", || {
            sentinels.server(0).cli(&["hkeys", IDLE]) == C
        });
        for _ in 0..2 {
            let phantom = Worker::take(port(sentinels, new), LOCK, C, Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1_050));
            phantom.release();
            std::thread::sleep(Duration::from_millis(300));
        }
        std::thread::sleep(Duration::from_secs(3).saturating_sub(thawed.elapsed()));
        worker::give_back(port(sentinels, 0), IDLE, C);
        wait_demoted(sentinels.server(0));
        agent.until(PATIENCE, "the phantoms are counted", |page| {
            page.of(TASK, "task_phantom_holds_total") == Some(2.0)
        });
        let pages = watch.stop();
        let last = pages.last().unwrap();
        agent.check(
            last,
            "no split",
            all_splits(last) == 0.0 && reported(&agent, "split_began", &[]).is_empty(),
        );
        let open = pages.iter().all(|page| down(page) >= before) && down(last) > before;
        agent.check(
            last,
            "the gap goes on",
            open && reported(&agent, "gap_ended", &["task=outbound"]).is_empty(),
        );
        agent.check(
            last,
            "the other task ran on",
            pages.iter().all(|page| page.verdict("idle") == "running"),
        );
        drop(idle);
    });
}

/// Two hundred tasks on a master that cannot be replaced: it comes back empty, then it freezes.
#[test]
fn a_master_that_cannot_be_replaced() {
    /// Lease of the locks held when it freezes. The steps before that use up a part of it.
    const LEASE: Duration = Duration::from_secs(14);
    on_sentinels("a_master_that_cannot_be_replaced", &["replica-priority 0"], |sentinels| {
        let names: Vec<String> = (0..200).map(|number| format!("t{number:03}")).collect();
        let lay_out = |sentinels: &Sentinels, lease: Duration| {
            let mut redis = worker::connect(port(sentinels, 0)).unwrap();
            let mut pipeline = redis::pipe();
            for name in &names {
                pipeline
                    .cmd("DEL")
                    .arg(name)
                    .cmd("HSET")
                    .arg(name)
                    .arg(A)
                    .arg(1)
                    .cmd("PEXPIRE")
                    .arg(name)
                    .arg(lease.as_millis() as u64);
            }
            pipeline.cmd("HSET").arg(USERS).arg("anna").arg("1").exec(&mut redis).unwrap();
            sentinels.wait_in_sync();
        };
        lay_out(sentinels, Duration::from_secs(60));
        let tasks: String = names
            .iter()
            .map(|name| task(name, name, ", blind_after: 3s, settle: 1s, grace: 1m"))
            .collect();
        let agent = Agent::start(&sentinel_config(sentinels, "", &tasks));
        let verdicts = |page: &Exposition, verdict: &str| {
            page.series("lockwatch_task_state_rank", &[("state", verdict)]).len()
        };
        agent.until(PATIENCE, "all run", |page| verdicts(page, "running") == 200);
        sentinels.server_mut(0).restart(Keep::Nothing);
        let lost = |page: &Exposition| {
            page.series("lockwatch_lock_ends_total", &[("reason", "lost")])
                .into_values()
                .sum::<f64>()
        };
        let page = agent.until(PATIENCE, "all are lost", |page| {
            lost(page) == 200.0 && fared(page, "lost") == 200.0
        });
        let switches = page.series("lockwatch_task_switches_lost_seconds", &[]);
        let page = agent.until(PATIENCE, "and the switches", |page| {
            page.series("lockwatch_task_switches_lost_seconds", &[])
                .values()
                .all(|seconds| *seconds > 0.0)
        });
        assert_eq!(switches.len(), 200);
        agent.check(&page, "wanted still", verdicts(&page, "pending") == 200);
        let settled = reported(
            &agent,
            "generation_settled",
            &["0 kept, 200 lost", "level=warn", "reason=restarted"],
        );
        agent.check(
            &page,
            "one summary",
            settled.len() == 1 && reported(&agent, "generation_settled", &[]).len() == 1,
        );
        agent.check(&page, "no split", all_splits(&page) == 0.0);

        // Before the leases begin: a Sentinel may need ten seconds before it considers a restarted
        // server healthy.
        sentinels.wait_settled();
        lay_out(sentinels, LEASE);
        agent.until(PATIENCE, "all run again", |page| verdicts(page, "running") == 200);
        let lines_before = agent.log().lines().count();
        let (down_before, held_before) =
            (reported(&agent, "redis_down", &["level=error"]).len(), lost(&agent.page()));
        let watch = agent.watch();
        sentinels.server(0).pause();
        let frozen = Instant::now();
        agent.until(PATIENCE, "blind", |page| verdicts(page, "unknown") == 200);
        let blind = frozen.elapsed();
        assert!(
            blind > Duration::from_secs(3) && blind < Duration::from_secs(8),
            "unknown after {blind:?}"
        );
        // After the deadlines, which the replicas know.
        let blind_for = |page: &Exposition| page.get("lockwatch_store_blind_seconds", &[]).unwrap();
        agent.until(PATIENCE, "blind for longer than any lease", |page| {
            blind_for(page) > LEASE.as_secs_f64() + 1.0
        });
        let (pages, frozen_s) = (watch.stop(), frozen.elapsed().as_secs_f64());
        for page in &pages {
            let free =
                page.series("lockwatch_lock_held", &[]).into_values().any(|held| held == 0.0);
            agent.check(page, "never free", !free);
            let kept = verdicts(page, "running") + verdicts(page, "unknown") == 200;
            agent.check(page, "running or unknown", kept);
        }
        let last = pages.last().unwrap();
        let readable: Vec<Option<f64>> =
            pages.iter().map(|page| page.get("lockwatch_store_readable", &[])).collect();
        agent.check(last, "not readable", readable.last() == Some(&Some(0.0)));
        let as_long = frozen_s - 3.0..frozen_s + 1.5;
        agent.check(last, "blind for as long as it is", as_long.contains(&blind_for(last)));
        agent.check(last, "nothing lost by it", lost(last) == held_before);
        let down = reported(&agent, "redis_down", &["level=error"]);
        agent.check(last, &format!("down once: {down:?}"), down.len() == down_before + 1);
        let lines = agent.log().lines().count() - lines_before;
        agent.check(last, &format!("{lines} lines"), lines < 60);

        sentinels.server(0).go_on();
        agent.until(PATIENCE, "read again", |page| {
            page.get("lockwatch_store_readable", &[]) == Some(1.0)
                && page.get("lockwatch_store_blind_seconds", &[]) == Some(0.0)
                && page
                    .series("lockwatch_lock_held", &[])
                    .into_values()
                    .filter(|held| *held == 0.0)
                    .count()
                    == 200
        });
    });
}

/// A master that is cut off soon refuses writes. A lock that it granted before stays until its
/// lease ends. Only a lock that it alone granted gets a second holder.
#[test]
fn a_master_that_needs_replicas_doubles_only_what_it_took_alone() {
    const KEPT: &str = "kept:lock";
    const LEASE: Duration = Duration::from_secs(24);
    let test = "a_master_that_needs_replicas_doubles_only_what_it_took_alone";
    on_sentinels(test, &["min-replicas-to-write 1", "min-replicas-max-lag 3"], |sentinels| {
        switch_on(sentinels.server(0));
        let kept = Worker::take(port(sentinels, 0), KEPT, A, Duration::from_secs(12));
        sentinels.wait_settled();
        let tasks = one_task(", grace: 60s") + &task("kept", KEPT, ", grace: 60s");
        let agent = Agent::start(&sentinel_config(sentinels, "", &tasks));
        agent.until(PATIENCE, "running", |page| {
            page.verdict("kept") == "running" && page.of(TASK, "lock_held") == Some(0.0)
        });
        let watch = agent.watch();
        sentinels.isolate_server(0);
        let a = Worker::take(port(sentinels, 0), LOCK, A, LEASE);
        let taken = Instant::now();
        let new = sentinels.wait_switched(0);
        wait_until(PATIENCE, "it refuses", || {
            sentinels.server(0).cli(&["set", "x", "1"]).starts_with("NOREPLICAS")
        });
        kept.follow(port(sentinels, new));
        kept.release();
        let successor = Worker::take(port(sentinels, new), KEPT, B, Duration::from_secs(3));
        let b = Worker::take(port(sentinels, new), LOCK, B, Duration::from_secs(3));
        agent.until(PATIENCE, "split", |page| page.verdict(TASK) == "split");
        // It cannot be renewed, so it ends with the lease.
        agent.until(PATIENCE, "the lease is over", |page| page.verdict(TASK) == "running");
        let over = Instant::now();
        let end = a.renewed() + LEASE;
        let page = agent.page();
        let in_time = over > taken
            && over + Duration::from_secs(1) > end
            && over < end + Duration::from_secs(2);
        agent.check(&page, "it ends with the lease", in_time);
        let pages = watch.stop();
        let last = pages.last().unwrap();
        let one = splits(last, "masters") == 1.0
            && splits(last, "overlap") == 1.0
            && all_splits(last) == 2.0;
        agent.check(last, "a split of the lock that it alone had, by both kinds of evidence", one);
        agent.check(
            last,
            "the other task ran on",
            pages.iter().all(|page| page.verdict("kept") == "running"),
        );
        drop((a, b, successor));
    });
}
