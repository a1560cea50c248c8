//! Many failovers of each kind, and how well they were reported. `FAILOVERS=20` sets how many;
//! without it none run.

use crate::support::PATIENCE;
use std::time::Instant;

use super::*;
use crate::support::sentinels::SentinelOptions;
use truth::Double;

/// Two holders visible for less than this may be an artifact of two reads at different times.
const VISIBLE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kill,
    FreezeAndThaw,
    LostWrite,
    Partition,
    Orderly,
}

impl Kind {
    const ALL: [Kind; 5] =
        [Kind::Kill, Kind::FreezeAndThaw, Kind::LostWrite, Kind::Partition, Kind::Orderly];

    /// Whether the new master may lack a hold.
    fn loses(self) -> bool {
        matches!(self, Kind::LostWrite | Kind::Partition)
    }
}

/// Measurements of one failover.
struct Run {
    /// From the fault until the Sentinels named another master and it acted as one.
    switch: Duration,
    /// From the fault until the program read the new master.
    followed: Duration,
    /// Total time in which the master could not be read.
    blind: Duration,
    /// The longest time during which two masters showed two holders. Without a loss, one of them is
    /// stale.
    double: Option<Duration>,
    /// Delay until it was reported.
    delay: Option<Duration>,
    splits: f64,
    verdicts: Vec<String>,
}

#[test]
fn a_campaign() {
    let runs = std::env::var("FAILOVERS")
        .map_or(0, |text| text.parse::<usize>().expect("FAILOVERS is a number"));
    for kind in Kind::ALL {
        let Some(mut sentinels) = (runs > 0)
            .then(|| Sentinels::start("failover::campaign", &SentinelOptions::default()))
            .flatten()
        else {
            return;
        };
        switch_on(sentinels.server(0));
        // With the default interval.
        let config = sentinel_config(&sentinels, "", &one_task(", grace: 5m"));
        let agent = Agent::start(
            &config.replace(&format!("interval: {}ms", INTERVAL.as_millis()), "interval: 1s"),
        );
        let all: Vec<Run> = (0..runs).map(|_| run(kind, &mut sentinels, &agent)).collect();
        tell(kind, &all);
        let page = agent.page();
        let wrong = |run: &Run| !kind.loses() && run.splits > 0.0;
        agent.check(&page, &format!("false splits of {kind:?}"), !all.iter().any(wrong));
        let missed = |run: &Run| kind.loses() && run.double.is_some() && run.delay.is_none();
        agent.check(&page, &format!("missed holders of {kind:?}"), !all.iter().any(missed));
    }
}

fn run(kind: Kind, sentinels: &mut Sentinels, agent: &Agent) -> Run {
    let old = sentinels.master().unwrap();
    let port = |sentinels: &Sentinels, server: usize| sentinels.server(server).port;
    let lease =
        if kind == Kind::Partition { Duration::from_secs(6) } else { Duration::from_secs(12) };
    if kind == Kind::LostWrite {
        (0..3)
            .filter(|other| *other != old)
            .for_each(|other| sentinels.cut_replication(old, other));
        // Until a hold that began in the same interval is renewed, nothing shows whether it was
        // replicated.
        std::thread::sleep(Duration::from_millis(1_500));
    }
    let a = Worker::take(port(sentinels, old), LOCK, A, lease);
    if kind != Kind::LostWrite {
        sentinels.wait_settled();
    }
    let old_at = sentinels.members[old].announced();
    agent.until_view(PATIENCE, "the first holder is seen", |view| {
        let task = view.task(TASK);
        task["node"] == *old_at && task["lock"]["hold"]["holders"][0]["holder"] == name(A)
    });
    // Again, so that the server's write position is known.
    std::thread::sleep(Duration::from_secs(2));
    let before = all_splits(&agent.page());
    let (watch, truth) = (agent.watch(), Truth::watch(sentinels, LOCK));
    let began = Instant::now();
    let new = match kind {
        Kind::Kill => {
            sentinels.server_mut(old).kill();
            sentinels.wait_switched(old)
        }
        Kind::FreezeAndThaw => {
            sentinels.server(old).pause();
            sentinels.wait_switched(old)
        }
        Kind::Partition => {
            sentinels.isolate_server(old);
            sentinels.wait_switched(old)
        }
        Kind::LostWrite | Kind::Orderly => sentinels.failover(),
    };
    let switch = began.elapsed();
    let b = match kind {
        Kind::LostWrite | Kind::Partition => Worker::take(port(sentinels, new), LOCK, B, lease),
        // The lock changes hands while the old master may show the first holder.
        Kind::Kill | Kind::FreezeAndThaw | Kind::Orderly => {
            a.follow(port(sentinels, new));
            until_read_at(agent, sentinels, new);
            a.release();
            Worker::take(port(sentinels, new), LOCK, B, lease)
        }
    };
    if kind == Kind::FreezeAndThaw {
        sentinels.server(old).go_on();
    }
    if kind == Kind::Kill {
        sentinels.server_mut(old).restart(crate::support::redis::Keep::Files);
    }
    if kind == Kind::Partition {
        std::thread::sleep(Duration::from_secs(3));
        sentinels.heal();
    }
    wait_demoted(sentinels.server(old));
    sentinels.heal();
    agent.until(PATIENCE, "one holder", |page| page.verdict(TASK) == "running");
    let (doubles, pages) = (truth.stop(), watch.stop_timed());
    b.release();
    sentinels.wait_settled();
    let new_at = sentinels.members[new].announced();
    let followed = pages.iter().find(|(_, page)| {
        page.get("lockwatch_store_decides", &[("server", &new_at)]) == Some(1.0) && readable(page)
    });
    let double = doubles
        .iter()
        .filter(|double| double.lasted() > VISIBLE)
        .max_by_key(|double| double.lasted());
    let shown = |double: &Double| {
        let (at, _) =
            pages.iter().find(|(at, page)| *at >= double.from && page.verdict(TASK) == "split")?;
        Some(*at - double.from)
    };
    let mut verdicts: Vec<String> =
        pages.iter().map(|(_, page)| page.verdict(TASK).to_owned()).collect();
    verdicts.dedup();
    Run {
        switch,
        followed: followed.map_or(Duration::MAX, |(at, _)| *at - began),
        blind: pages
            .windows(2)
            .filter(|pair| !readable(&pair[0].1))
            .map(|pair| pair[1].0 - pair[0].0)
            .sum(),
        double: double.map(Double::lasted),
        delay: double.and_then(shown),
        splits: all_splits(&agent.page()) - before,
        verdicts,
    }
}

fn readable(page: &Exposition) -> bool {
    page.get("lockwatch_store_readable", &[]) == Some(1.0)
}

fn tell(kind: Kind, runs: &[Run]) {
    let doubles = runs.iter().filter(|run| run.double.is_some()).count();
    let reported = runs.iter().filter(|run| run.delay.is_some()).count();
    let latest = runs.iter().filter_map(|run| run.delay).max();
    let wrong = runs.iter().filter(|run| !kind.loses() && run.splits > 0.0).count();
    let what = if kind.loses() { "double holders" } else { "leftovers" };
    eprintln!(
        "{kind:?}: {} failovers, {doubles} {what} visible, {reported} reported, the latest after \
         {latest:?}, \
         {wrong} false splits",
        runs.len()
    );
    for run in runs {
        eprintln!(
            "  switched {:?} followed {:?} blind {:?} double {:?} reported after {:?} splits {} \
             verdicts {}",
            run.switch,
            run.followed,
            run.blind,
            run.double,
            run.delay,
            run.splits,
            run.verdicts.join(" ")
        );
    }
}
