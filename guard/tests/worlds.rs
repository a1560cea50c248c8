//! Random worlds: guards with their keepers, one store, users, and faults of all of them. At no
//! time do two scripts run, unless guard and keeper of one stood still together; then it is
//! reported and ends at once.

use std::collections::BTreeMap;

use lockwatch_guard::{Action, Guard, Input, Reply, Restart, Terms};
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::Wanted;

const TERMS: Terms = Terms {
    lease_ms: 2_000,
    stop_after_ms: 500,
    backoff_ms: (1_000, 30_000),
    give_up_after: Some(3),
    restart: Restart::Always,
    wait_ms: None,
};
/// The longest a keeper needs to see that its time is over.
const KEEPER_MS: u64 = 20;

struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// The store's lock: who has it until when, and the fencing counter.
#[derive(Default)]
struct Store {
    held: Option<(usize, u64)>,
    counter: u64,
    down_until: u64,
}

impl Store {
    fn ask(&mut self, who: usize, action: Action, now: u64) -> Reply {
        self.held = self.held.filter(|(_, until)| now < *until);
        let is_ours = self.held.is_some_and(|(holder, _)| holder == who);
        match action {
            Action::Take if self.held.is_none() || is_ours => {
                self.held = Some((who, now + TERMS.lease_ms));
                self.counter += 1;
                Reply::Taken { token: self.counter }
            }
            Action::Take => Reply::Busy { left_ms: self.held.map(|(_, until)| until - now) },
            _ if !is_ours => Reply::NotOurs,
            Action::Renew => {
                self.held = Some((who, now + TERMS.lease_ms));
                Reply::Renewed
            }
            Action::Look => Reply::Held,
            Action::Release => {
                self.held = None;
                Reply::Released
            }
            other => panic!("{other:?} is no request"),
        }
    }
}

/// A script and its keeper, on the host of one guard.
struct Work {
    dead_by: u64,
    token: u64,
    /// It ends by itself then, or after it was asked to.
    ends_at: u64,
    code: u8,
    obeys: bool,
}

enum Event {
    /// A request reaches the store.
    Arrives(Action),
    /// The answer reaches the guard.
    Answered(Reply),
}

struct Host {
    guard: Guard,
    /// How many guards ran here before.
    life: u64,
    work: Option<Work>,
    /// Guard, keeper stand still until then.
    still: (u64, u64),
    /// In flight, by the instant at which it arrives; one at a time.
    wire: BTreeMap<u64, Event>,
    queued: Vec<Action>,
    wanted_at: u64,
}

#[derive(Default, Debug)]
struct Seen {
    started: u64,
    killed_by_keeper: u64,
    overruns: u64,
    reported: u64,
    both: u64,
    released: u64,
    tokens: Vec<u64>,
    idle_ms: u64,
}

fn run(seed: u64, faults: bool) -> Seen {
    let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut store = Store::default();
    let mut wanted = true;
    let new = |now, seed| Guard::new(TERMS, Mono(now), seed);
    let mut hosts: Vec<Host> = (0..3)
        .map(|at| Host {
            guard: new(0, seed + at),
            life: 0,
            work: None,
            still: (0, 0),
            wire: BTreeMap::new(),
            queued: Vec::new(),
            wanted_at: 0,
        })
        .collect();
    let mut seen = Seen::default();
    let (mut quiet_since, mut lost_at) = (0, None);
    for now in 0..120_000 {
        if faults && rng.one_in(4_000) {
            wanted = !wanted;
        }
        if faults && rng.one_in(8_000) {
            store.down_until = now + rng.below(6_000);
        }
        if faults && rng.one_in(20_000) {
            // Its data are lost, and it announces that.
            store.held = None;
            lost_at = Some(now);
            hosts.iter_mut().for_each(|host| host.guard.handle(Mono(now), Input::Changed));
        }
        for (who, host) in hosts.iter_mut().enumerate() {
            if faults && rng.one_in(15_000) {
                // Both only rarely, and for any time.
                let still = now + rng.below(5_000);
                host.still = match rng.below(4) {
                    0 => (still, still),
                    1 => (host.still.0, still),
                    _ => (still, host.still.1),
                };
            }
            if faults && rng.one_in(40_000) {
                // The guard is killed; its keeper kills the script, and another guard starts.
                host.life += 1;
                host.guard = new(now, seed + 7 * host.life);
                (host.wire, host.queued) = (BTreeMap::new(), Vec::new());
                if host.still.1 <= now {
                    host.work = None;
                }
            }
            script(host, now, &mut seen, &mut rng);
            turn(host, who + 10 * host.life as usize, now, wanted, &mut store, &mut rng, &mut seen);
        }
        let running: Vec<usize> = (0..3).filter(|at| hosts[*at].work.is_some()).collect();
        if running.len() > 1 {
            // Only who stood still with both may still run.
            let frozen = |at: &&usize| {
                let work = hosts[**at].work.as_ref().unwrap();
                now > work.dead_by && hosts[**at].still.1 + KEEPER_MS >= now
            };
            let excused = running.iter().filter(frozen).count();
            // Who had the lock when the data were lost needs an answer to know that.
            let is_known = lost_at.is_none_or(|lost_at| now - lost_at > TERMS.lease_ms);
            assert!(excused + 1 >= running.len() || !is_known, "seed {seed} at {now}: {running:?}");
            seen.both += 1;
        }
        if running.is_empty() && wanted && !faults {
            quiet_since += 1;
        } else {
            seen.idle_ms = seen.idle_ms.max(quiet_since);
            quiet_since = 0;
        }
    }
    seen
}

/// What script and keeper do.
fn script(host: &mut Host, now: u64, seen: &mut Seen, rng: &mut Rng) {
    let Some(work) = &host.work else { return };
    if now >= work.ends_at {
        let code = work.code;
        host.work = None;
        host.guard.handle(Mono(now), Input::Gone { code: Some(code), at: Mono(now) });
    } else if host.still.1 <= now && now >= work.dead_by + rng.below(KEEPER_MS) {
        seen.killed_by_keeper += 1;
        host.work = None;
        host.guard.handle(Mono(now), Input::Gone { code: Some(137), at: Mono(now) });
    }
}

/// What a guard does, and what reaches it.
fn turn(
    host: &mut Host,
    who: usize,
    now: u64,
    wanted: bool,
    store: &mut Store,
    rng: &mut Rng,
    seen: &mut Seen,
) {
    while let Some(entry) = host.wire.first_entry().filter(|entry| *entry.key() <= now) {
        match entry.remove() {
            Event::Arrives(action) => {
                let lost = now < store.down_until || rng.one_in(50);
                let reply = if lost && rng.one_in(2) {
                    Reply::Failed
                } else {
                    let reply = store.ask(who, action, now);
                    if lost { Reply::Failed } else { reply }
                };
                let late_ms = if lost { 300 } else { 1 + rng.below(20) };
                host.wire.insert(now + late_ms, Event::Answered(reply));
            }
            Event::Answered(reply) => {
                host.guard.handle(Mono(now), Input::Told(reply));
                if !host.queued.is_empty() {
                    let action = host.queued.remove(0);
                    host.wire.insert(now + 1 + rng.below(20), Event::Arrives(action));
                }
            }
        }
    }
    if host.still.0 > now {
        return;
    }
    if now >= host.wanted_at {
        host.wanted_at = now + 500;
        let wanted = if wanted { Wanted::Yes } else { Wanted::No };
        host.guard.handle(Mono(now), Input::Wanted(wanted));
    }
    while let Some(action) = host.guard.poll(Mono(now)) {
        match action {
            Action::Take | Action::Renew | Action::Look | Action::Release => {
                seen.released += u64::from(action == Action::Release);
                match host.wire.is_empty() {
                    true => drop(host.wire.insert(now + 1, Event::Arrives(action))),
                    false => host.queued.push(action),
                }
            }
            Action::Start { token, dead_by } => {
                assert!(host.work.is_none(), "one at a time");
                seen.started += 1;
                seen.tokens.push(token);
                let ends_at = now + if rng.one_in(3) { 500 } else { 90_000 };
                let (code, obeys) = (u8::from(rng.one_in(2)), !rng.one_in(4));
                host.work = Some(Work { dead_by: dead_by.0, token, ends_at, code, obeys });
            }
            Action::Extend { dead_by } => {
                if let Some(work) = &mut host.work {
                    assert!(dead_by.0 >= work.dead_by);
                    work.dead_by = dead_by.0;
                }
            }
            Action::Terminate(_) => {
                if let Some(work) = &mut host.work
                    && work.obeys
                {
                    work.ends_at = work.ends_at.min(now + 1 + rng.below(300));
                }
            }
            Action::Kill(_) => {
                if host.work.take().is_some() {
                    host.guard.handle(Mono(now), Input::Gone { code: Some(137), at: Mono(now) });
                }
            }
            Action::Report(overrun) => {
                assert!(overrun.to > overrun.from);
                seen.reported += 1;
            }
            Action::End(end) => panic!("{end:?}"),
        }
    }
    let overdue = |work: &Work| now > work.dead_by + TERMS.margin_ms();
    seen.overruns += u64::from(host.work.as_ref().is_some_and(overdue));
    let _tokens = host.work.as_ref().map(|work| work.token);
}

#[test]
fn two_scripts_never_run_while_one_of_guard_and_keeper_runs() {
    let mut all = Seen::default();
    for seed in 1..=60 {
        let seen = run(seed, true);
        assert!(seen.tokens.len() as u64 == seen.started);
        all.started += seen.started;
        all.killed_by_keeper += seen.killed_by_keeper;
        all.both += seen.both;
        all.reported += seen.reported;
        all.released += seen.released;
    }
    // What the worlds are for has happened.
    assert!(all.started > 500 && all.released > 200, "{all:?}");
    assert!(all.killed_by_keeper > 20 && all.reported > 0, "{all:?}");
}

#[test]
fn without_faults_of_the_machines_somebody_runs_soon() {
    for seed in 1..=20 {
        let seen = run(seed, false);
        // A lease, and the pause of a script that fails.
        assert!(seen.idle_ms <= 35_000 + TERMS.lease_ms, "{seen:?}");
        assert_eq!((seen.both, seen.reported), (0, 0));
    }
}
