//! The checker with synthetic runs: what it must find, what it must accept, and what it must refuse
//! to judge.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::judged;
use super::read::{
    AgentLog, FaultLog, HostLine, LockSeen, Logs, Look, Scrape, ServerLog, SwitchLine, SwitchSeen,
};
use super::report::Report;
use super::spans::Spans;
use crate::campaign::clock::{Micros, SECOND};
use crate::campaign::fault::Kind;
use crate::campaign::header::{Header, Library, RedisEntry, ServerEntry, TaskEntry, Times};

const LOOK: Micros = 20_000;
const SCRAPE: Micros = 250_000;
const MINUTE: Micros = 60 * SECOND;

/// A run of one minute with one lock, held and wanted all the time, and one agent that reports
/// that.
#[derive(Clone)]
struct Story {
    logs: Logs,
    /// The holder from each instant on.
    lock: Vec<(Micros, Option<&'static str>)>,
    switch: Vec<(Micros, SwitchSeen)>,
    /// What the agent shows: measure, from, to.
    shown: Vec<(char, Micros, Micros)>,
    /// When the agent shows the lock as held, whatever is true.
    shown_held: Spans,
    /// When the server is stopped: a request waits until the end.
    stopped: Spans,
    /// When neither the witness nor the collector was looking.
    unseen: Spans,
    unasked: Spans,
}

impl Story {
    fn new() -> Story {
        let entry = |name: &str| ServerEntry {
            name: name.to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            socket: "/nowhere".into(),
        };
        let task = TaskEntry {
            name: "t".to_owned(),
            redis: 0,
            library: Library::Redisson,
            progress: true,
            redisson: false,
        };
        let header = Header {
            seed: 1,
            began_us: 0,
            wall_ahead_us: 0,
            times: Times::COMPRESSED,
            redises: vec![RedisEntry {
                name: "alpha".to_owned(),
                servers: vec![entry("alpha1")],
                sentinels: Vec::new(),
            }],
            tasks: vec![task],
            agents: 1,
            hosts: 1,
        };
        let logs = Logs {
            header,
            begin: 0,
            end: MINUTE,
            wall_drift: 0,
            late: Spans::default(),
            faults: Vec::new(),
            servers: Vec::new(),
            named: BTreeMap::new(),
            agents: Vec::new(),
            holds: Vec::new(),
            switches: Vec::new(),
        };
        Story {
            logs,
            lock: vec![(0, Some("a"))],
            switch: vec![(0, SwitchSeen::On)],
            shown: Vec::new(),
            shown_held: Spans::default(),
            stopped: Spans::default(),
            unseen: Spans::default(),
            unasked: Spans::default(),
        }
    }

    /// The lock is free from `from` to `to`, and the agent shows it.
    fn free(mut self, from: Micros, to: Micros) -> Story {
        self.lock.extend([(from, None), (to, Some("b"))]);
        self
    }

    /// The agent raises an alert.
    fn pages(mut self, measure: char, from: Micros, to: Micros) -> Story {
        self.shown.push((measure, from, to));
        self
    }

    fn fault(mut self, kind: Kind, from: Micros, lasts: Micros) -> Story {
        self.logs.faults.push(FaultLog {
            id: 1,
            kind,
            redis: Some(0),
            agent: None,
            target: None,
            meant: from,
            lasts,
            verified: Some(from + 10_000),
            healed: from + lasts + 20_000,
            why_not: None,
        });
        self
    }

    fn report(mut self) -> Report {
        let mut server = ServerLog::default();
        let mut at = 0;
        while at < MINUTE {
            if let Some((_, to)) = self.stopped.iter().find(|(from, to)| *from < at && at < *to) {
                let slow = server.looks.last_mut().map(|look| look.received = to);
                assert!(slow.is_some());
            } else if !self.unseen.contains(at) {
                let look = server.looks.len();
                server.looks.push(Look {
                    sent: at,
                    received: at + 500,
                    ok: true,
                    master: true,
                    slow: look % 5 == 0,
                });
                note(server.locks.entry(0).or_default(), look, at, &self.lock, |holder| LockSeen {
                    holder: holder.map(str::to_owned),
                    deadline_ms: holder.map_or(-2, |_| 1_000_000),
                });
                if look % 5 == 0 {
                    note(server.switches.entry(0).or_default(), look, at, &self.switch, |seen| {
                        seen
                    });
                    server.progress.entry(0).or_default().push((look, true));
                }
            }
            at += LOOK;
        }
        self.logs.servers = vec![server];
        let mut agent = AgentLog::default();
        let mut shown: BTreeMap<char, char> = BTreeMap::new();
        let mut at = 100;
        while at < MINUTE {
            if !self.unasked.contains(at) {
                agent.scrapes.push(Scrape { sent: at - 100, received: at, waited: 0 });
                let free = self
                    .lock
                    .iter()
                    .rev()
                    .find(|(from, _)| from + SECOND / 2 <= at)
                    .is_some_and(|(_, who)| who.is_none());
                let held = if free && !self.shown_held.contains(at) { '0' } else { '1' };
                let pages = ['d', 'u', 't', 'b', 'x', 'o'].map(|measure| {
                    let on = self
                        .shown
                        .iter()
                        .any(|(of, from, to)| *of == measure && *from <= at && at < *to);
                    (measure, if on { '1' } else { '0' })
                });
                for (measure, now) in pages.into_iter().chain([('h', held)]) {
                    if shown.insert(measure, now) != Some(now) {
                        agent.shown.entry((measure, 0)).or_default().push((at, now, String::new()));
                    }
                }
            }
            at += SCRAPE;
        }
        self.logs.agents = vec![agent];
        judged(&self.logs)
    }
}

fn note<T: Copy + PartialEq, S>(
    into: &mut Vec<(usize, S)>,
    look: usize,
    at: Micros,
    story: &[(Micros, T)],
    seen: impl Fn(T) -> S,
) {
    let was = |at: Micros| story.iter().rev().find(|(from, _)| *from <= at).map(|(_, what)| *what);
    let now = was(at);
    if at == 0 || (look > 0 && into.is_empty()) || now != at.checked_sub(LOOK).and_then(was) {
        into.extend(now.map(|now| (look, seen(now))));
    }
}

/// The numbers of missed and of false alerts.
fn found(story: Story) -> (usize, usize) {
    let report = story.report();
    assert!(report.refused.is_empty(), "{report}");
    let found = (report.missed, report.false_pages);
    assert_eq!(report.exit_code() != 0, found != (0, 0), "{report}");
    found
}

const S: Micros = SECOND;

#[test]
fn a_calm_run_is_right() {
    assert_eq!(found(Story::new()), (0, 0));
}

#[test]
fn a_gap_that_pages_in_time_is_right() {
    assert_eq!(
        found(Story::new().free(20 * S, 32 * S).pages('d', 26 * S + 200_000, 33 * S)),
        (0, 0)
    );
}

#[test]
fn a_missed_page_is_found() {
    assert_eq!(found(Story::new().free(20 * S, 32 * S)), (1, 0));
    let late = Story::new().free(20 * S, 32 * S).pages('d', 30 * S, 33 * S);
    assert_eq!(found(late), (1, 0));
}

#[test]
fn a_false_page_is_found() {
    assert_eq!(found(Story::new().pages('d', 30 * S, 31 * S)), (0, 1));
    let short = Story::new().free(20 * S, 25 * S).pages('d', 25 * S, 26 * S);
    assert_eq!(found(short), (0, 1));
}

#[test]
fn a_gap_near_the_threshold_may_page_or_not() {
    assert_eq!(found(Story::new().free(20 * S, 27 * S)), (0, 0));
    assert_eq!(
        found(Story::new().free(20 * S, 27 * S).pages('d', 26 * S + 300_000, 27 * S)),
        (0, 0)
    );
}

#[test]
fn a_page_that_stays_is_found() {
    assert_eq!(
        found(Story::new().free(20 * S, 32 * S).pages('d', 26 * S + 200_000, 50 * S)),
        (0, 1)
    );
}

#[test]
fn a_hold_that_is_too_short_ends_no_gap() {
    let mut story = Story::new().pages('d', 28 * S, 33 * S);
    story.lock.extend([(20 * S, None), (24 * S, Some("b")), (25 * S, None), (32 * S, Some("c"))]);
    assert_eq!(found(story), (0, 0));
}

#[test]
fn nobody_pages_for_what_nobody_wants() {
    let off = |mut story: Story| {
        story.switch.push((10 * S, SwitchSeen::Off));
        story.logs.switches.push(SwitchLine { at: 10 * S, task: 0, on: false, sent: 10 * S });
        story
    };
    let stays = || off(Story::new()).pages('u', 14 * S + 500_000, MINUTE);
    assert_eq!(found(stays()), (0, 0));
    assert_eq!(found(off(Story::new())), (1, 0), "it is held though nobody wants it");
    let mut gone = off(Story::new()).pages('d', 40 * S, 41 * S);
    gone.lock.push((11 * S, None));
    assert_eq!(found(gone), (0, 1));
}

/// As after a failover that lost the write: the new master shows the previous state, and an agent
/// that saw the "on" may still call it wanted.
#[test]
fn what_reads_off_though_nobody_switched_it_off_may_be_called_wanted() {
    let undone = |on_at: u64, off_at: Option<u64>| {
        let mut story = Story::new();
        story.switch = vec![(0, SwitchSeen::On), (30 * S, SwitchSeen::Off)];
        story.logs.switches.push(SwitchLine { at: on_at, task: 0, on: true, sent: on_at });
        story.logs.switches.extend(off_at.map(|at| SwitchLine {
            at,
            task: 0,
            on: false,
            sent: at,
        }));
        story
    };
    assert_eq!(found(undone(29 * S, None)), (0, 0));
    assert_eq!(found(undone(29 * S, None).pages('u', 34 * S + 500_000, MINUTE)), (0, 0));
    assert_eq!(found(undone(20 * S, Some(30 * S))), (1, 0));
}

#[test]
fn a_lock_that_is_shown_wrongly_is_found() {
    let mut story = Story::new();
    story.lock.push((10 * S, Some("b")));
    let mut logs = story;
    // The agent shows a hold for ten seconds after its end.
    logs = logs.free(20 * S, 31 * S).pages('d', 26 * S + 200_000, 32 * S);
    let right = logs.report();
    assert_eq!((right.missed, right.false_pages), (0, 0), "{right}");
    let mut blind = Story::new().free(20 * S, 31 * S).pages('d', 26 * S + 200_000, 32 * S);
    blind.lock.insert(1, (15 * S, None));
    blind.lock.insert(2, (15 * S + 1, Some("a")));
    assert_eq!(found(blind), (0, 0));
}

/// After a flush, the worker has the lock again before the witness looks.
#[test]
fn a_lock_may_be_free_between_two_looks() {
    let mut story = Story::new();
    story.lock.extend([(20 * S + 100, None), (20 * S + LOOK / 2, Some("a"))]);
    assert_eq!(found(story.clone()), (0, 1));
    story.logs.holds = vec![line(20 * S + LOOK / 2, "0", "acquired")];
    assert_eq!(found(story), (0, 0));
}

#[test]
fn blindness_must_page_and_only_if_it_lasts() {
    let frozen = |lasts| Story::new().fault(Kind::Freeze, 20 * S, lasts);
    let stopped = |story: Story, lasts: Micros| {
        let mut story = story;
        story.stopped = Spans::one(20 * S, 20 * S + lasts);
        story
    };
    let long = || stopped(frozen(12 * S), 12 * S);
    assert_eq!(found(long().pages('b', 26 * S + 200_000, 33 * S)), (0, 0));
    assert_eq!(found(long()), (1, 0));
    let short = || stopped(frozen(2 * S), 2 * S);
    assert_eq!(found(short()), (0, 0));
    assert_eq!(found(short().pages('b', 22 * S, 23 * S)), (0, 1));
    assert_eq!(found(Story::new().pages('b', 22 * S, 23 * S)), (0, 1));
    assert_eq!(
        found(long().pages('b', 26 * S + 200_000, 58 * S)),
        (0, 1),
        "it stays though all is well"
    );
}

/// The last look of the witness was just before the lock was taken; at its next look the lease is
/// over.
#[test]
fn a_lock_may_be_taken_just_before_a_server_stops_for_longer_than_its_lease() {
    let stopped = |lasts: Micros| {
        let mut story = Story::new().free(10 * S, 40 * S).pages('d', 16 * S + 200_000, 41 * S);
        story.stopped = Spans::one(20 * S, 20 * S + lasts);
        story.shown_held = Spans::one(20 * S + 100_000, 20 * S + lasts);
        story
    };
    let lease = Times::COMPRESSED.lease * 1_000;
    let report = stopped(lease + S).report();
    assert_eq!((report.missed, report.false_pages), (0, 0), "{report}");
    // An earlier end of the lease would still be visible.
    let mut short = stopped(lease - S / 2);
    short.shown_held = Spans::one(20 * S + 100_000, 20 * S + lease + S);
    assert_eq!(found(short), (0, 1));
}

#[test]
fn a_fault_that_takes_no_sight_is_no_excuse() {
    let held_back = Story::new().fault(Kind::PauseWrite, 20 * S, 12 * S).pages('b', 27 * S, 28 * S);
    assert_eq!(found(held_back), (0, 1));
}

fn line(at: Micros, worker: &str, event: &str) -> HostLine {
    HostLine { at, task: 0, worker: worker.to_owned(), event: event.to_owned(), sent: at }
}

/// A stopped agent reports what it saw before only when it continues.
#[test]
fn a_split_may_have_begun_after_the_newest_answer() {
    let mut story = Story::new().pages('x', 50 * S, 51 * S);
    story.logs.holds = vec![line(20 * S, "0", "acquired"), line(21 * S, "1", "acquired")];
    story.unasked = Spans::one(22 * S, 50 * S);
    let false_pages = |story: &Story| story.clone().report().false_pages;
    assert_eq!(false_pages(&story), 0);
    story.unasked = Spans::one(50 * S - S / 2, 50 * S);
    assert_eq!(false_pages(&story), 1);
}

#[test]
fn a_split_needs_two_who_believe_it() {
    assert_eq!(found(Story::new().pages('x', 30 * S, 31 * S)), (0, 1));
    let mut two = Story::new().pages('x', 30 * S, 31 * S);
    two.logs.holds = vec![line(28 * S, "0", "acquired"), line(29 * S, "1", "acquired")];
    assert_eq!(found(two), (0, 0));
    let mut handover = Story::new().pages('x', 55 * S, 56 * S);
    handover.logs.holds = vec![
        line(28 * S, "0", "acquired"),
        line(29 * S, "0", "released"),
        line(30 * S, "1", "acquired"),
    ];
    assert_eq!(found(handover), (0, 1));
    // A restarted worker is not the process that was killed while it held the lock.
    let mut again = Story::new().fault(Kind::HostKill, 29 * S, S).pages('x', 30 * S, 31 * S);
    again.logs.holds = vec![line(28 * S, "0", "acquired"), line(30 * S, "0", "acquired")];
    assert_eq!(found_again(&mut again, "1"), (0, 1));
    assert_eq!(found_again(&mut again, "0"), (0, 0));
    let mut doubled = Story::new();
    doubled.lock.extend([(20 * S, Some("a,b")), (26 * S, Some("a"))]);
    assert_eq!(found(doubled), (1, 0), "two in one lock, and nothing was said");
}

/// The result if that worker was killed.
fn found_again(story: &mut Story, killed: &str) -> (usize, usize) {
    story.logs.faults.iter_mut().for_each(|fault| fault.target = Some(killed.to_owned()));
    found(story.clone())
}

/// The agent is stopped right after the loss, and reports it when it continues.
#[test]
fn an_agent_that_was_stopped_meanwhile_tells_of_lost_switches_later() {
    let stopped = |told: Micros| {
        let mut story = Story::new().fault(Kind::Flush, 20 * S, 10_000).fault(
            Kind::AgentFreeze,
            20 * S + S / 5,
            5 * S,
        );
        story.switch.push((20 * S, SwitchSeen::Absent));
        story.unasked = Spans::one(20 * S + S / 5, 25 * S);
        story.pages('o', told, MINUTE)
    };
    assert_eq!(found(stopped(28 * S)), (0, 0));
    assert_eq!(found(stopped(50 * S)), (1, 0));
}

#[test]
fn lost_switches_are_told_and_nothing_else_is() {
    let lost = || {
        let mut story = Story::new().fault(Kind::Flush, 20 * S, 10_000);
        story.switch.push((20 * S, SwitchSeen::Absent));
        story
    };
    assert_eq!(found(lost()), (1, 0));
    assert_eq!(found(lost().pages('o', 21 * S, MINUTE)), (0, 0));
    assert_eq!(found(Story::new().pages('o', 21 * S, 22 * S)), (0, 1));
    // Switched on just before: the agent may or may not have seen that.
    let just = |told: bool| {
        let mut story = Story::new().fault(Kind::Flush, 20 * S, 10_000);
        story.switch = vec![
            (0, SwitchSeen::Off),
            (20 * S - 30_000, SwitchSeen::On),
            (20 * S, SwitchSeen::Absent),
        ];
        story.lock = vec![(0, None)];
        story.logs.switches.push(SwitchLine {
            at: 20 * S - 30_000,
            task: 0,
            on: true,
            sent: 20 * S - 31_000,
        });
        if told { story.pages('o', 21 * S, MINUTE) } else { story }
    };
    assert_eq!((found(just(false)), found(just(true))), ((0, 0), (0, 0)));
}

#[test]
fn a_new_process_owes_nothing_of_what_the_one_before_knew() {
    let killed = |at, lasts| {
        let mut story = Story::new().fault(Kind::AgentKill, at, lasts);
        story.unasked = Spans::one(at, at + lasts + 20_000);
        story
    };
    let mut lost = killed(20 * S + 700_000, 3 * S).fault(Kind::KillEmpty, 20 * S - 10_000, 5_000);
    lost.switch.push((20 * S, SwitchSeen::Absent));
    assert_eq!(found(lost), (0, 0), "killed before it had to say that switches are lost");
    // It is back before it was missed: the last scrape is of the old process until the new one is
    // scraped.
    let back = |until| {
        killed(30 * S + 20_000, S / 2).free(20 * S, 40 * S).pages('d', 26 * S + 200_000, until)
    };
    assert_eq!(found(back(30 * S + 600_000)), (0, 0));
    assert_eq!(found(back(32 * S)), (0, 1), "the new one cannot know for how long");
}

#[test]
fn a_run_that_nobody_could_judge_is_refused() {
    let mut unseen = Story::new();
    unseen.unseen = Spans::one(10 * S, 20 * S);
    assert_eq!(unseen.report().exit_code(), 3);
    let mut unasked = Story::new();
    unasked.unasked = Spans::one(10 * S, 20 * S);
    assert_eq!(unasked.report().exit_code(), 3);
    let mut late = Story::new();
    late.logs.late = Spans::one(10 * S, 20 * S);
    assert_eq!(late.report().exit_code(), 3);
    let mut unverified = Story::new().fault(Kind::Cut, 10 * S, 2 * S);
    unverified.logs.faults.iter_mut().for_each(|fault| fault.verified = None);
    assert_eq!(unverified.report().exit_code(), 3);
    let mut stepped = Story::new();
    stepped.logs.wall_drift = SECOND;
    assert_eq!(stepped.report().exit_code(), 3);
}

#[test]
fn the_first_violation_is_told_with_the_seed_and_what_led_to_it() {
    let report =
        Story::new().free(20 * S, 32 * S).fault(Kind::Flush, 19 * S, 10_000).report().to_string();
    for word in
        ["seed 1", "MISSED down: t of redis alpha", "flush", "witness: surely free from here"]
    {
        assert!(report.contains(word), "{word}:\n{report}");
    }
}
