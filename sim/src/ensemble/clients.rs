//! Workers that follow the recipes of Curator and Kazoo, and users with their switches. What the
//! tree shows of them is the truth.

use std::collections::BTreeMap;

use super::plan::WORKERS;
use super::servers::{Ensemble, Op, children};
use crate::rng::Rng;

/// What is true of a task from an instant on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Truth {
    pub(crate) at: u64,
    /// The number of the contender that has the lock.
    pub(crate) holder: Option<String>,
    /// Whether users want it; `None`: no switch exists.
    pub(crate) wanted: Option<bool>,
    pub(crate) progress: Vec<u8>,
}

/// A process that contends for the lock of one task.
#[derive(Clone, Debug)]
struct Worker {
    session: i64,
    timeout_ms: u64,
    heard: u64,
    node: Option<String>,
    /// It does nothing before.
    until: u64,
    holds_until: Option<u64>,
    beat: u64,
}

/// All clients.
#[derive(Debug)]
pub(crate) struct Clients {
    names: Vec<(String, String)>,
    workers: Vec<Worker>,
    /// Tasks whose work stands still, or whose lock nobody takes, until then.
    pub(crate) stuck: Vec<u64>,
    pub(crate) idle: Vec<u64>,
    numbers: Vec<u64>,
    sessions: i64,
    pub(crate) truths: Vec<Vec<Truth>>,
    rng: Rng,
    /// Sessions whose clients are gone, and when each was heard of.
    orphans: BTreeMap<i64, u64>,
    renewed_at: u64,
    pub(crate) expired: u64,
}

impl Clients {
    /// Of tasks with these names and recipes.
    pub(crate) fn new(names: Vec<(String, String)>, seed: u64) -> Clients {
        let count = names.len();
        let worker = |number: usize| Worker {
            session: 0,
            timeout_ms: 4_000,
            heard: 0,
            node: None,
            until: 500 + 100 * number as u64,
            holds_until: None,
            beat: 0,
        };
        Clients {
            workers: (0..count * WORKERS).map(worker).collect(),
            stuck: vec![0; count],
            idle: vec![0; count],
            numbers: vec![0; count],
            sessions: 0x1_0000,
            truths: vec![Vec::new(); count],
            names,
            rng: Rng::new(seed, 2),
            orphans: BTreeMap::new(),
            renewed_at: 0,
            expired: 0,
        }
    }

    /// A worker's process is killed, or stopped for so long.
    pub(crate) fn harm(&mut self, worker: usize, ms: Option<u64>, now: u64) {
        let Some(worker) = self.workers.get_mut(worker) else { return };
        worker.until = now + ms.unwrap_or(15_000);
        if ms.is_none() {
            // Its session goes on until it expires, and its next process does not know of it.
            self.orphans.insert(worker.session, worker.heard);
            (worker.session, worker.node, worker.holds_until) = (0, None, None);
        }
    }

    pub(crate) fn switch(
        &mut self,
        task: usize,
        on: bool,
        ensemble: &mut Ensemble,
        now: u64,
    ) -> bool {
        if !ensemble.commits() {
            return false;
        }
        let path = format!("/w/{}/u{}", self.names[task].0, u8::from(self.rng.percent(30)));
        ensemble.commit(Op::Set(path, if on { b"on".to_vec() } else { b"off".to_vec() }), now);
        self.look(ensemble, now);
        true
    }

    /// Sessions of those who are silent end.
    pub(crate) fn expire(&mut self, ensemble: &mut Ensemble, now: u64) {
        if !ensemble.commits() {
            return;
        }
        let is_over = |owner: i64| {
            let own = self.workers.iter().find(|worker| worker.session == owner);
            let orphan = self.orphans.get(&owner).copied().unwrap_or(0);
            let heard = own.map_or(orphan, |worker| worker.heard).max(self.renewed_at);
            now.saturating_sub(heard) > own.map_or(5_000, |worker| worker.timeout_ms)
        };
        let gone: Vec<String> = ensemble
            .tree
            .iter()
            .filter(|(_, node)| node.owner != 0 && is_over(node.owner))
            .map(|(path, _)| path.clone())
            .collect();
        for path in gone {
            self.expired += 1;
            ensemble.commit(Op::Delete(path), now);
        }
        self.look(ensemble, now);
    }

    /// Under a new leader all sessions are as good as heard of just now.
    pub(crate) fn renewed(&mut self, now: u64) {
        self.renewed_at = now;
    }

    /// Data have gone back: so have the numbers.
    pub(crate) fn restored(&mut self, ensemble: &Ensemble, now: u64) {
        for (task, (name, _)) in self.names.iter().enumerate() {
            let path = format!("/{name}");
            let newest = children(&ensemble.tree, &path);
            let newest = newest.filter_map(|name| name.get(name.len() - 10..)?.parse().ok()).max();
            self.numbers[task] = newest.map_or(0, |newest: u64| newest + 1);
        }
        for worker in &mut self.workers {
            // Their sessions have ended, and they begin again.
            (worker.session, worker.node, worker.holds_until) = (0, None, None);
            worker.until = worker.until.max(now + 500);
        }
        self.look(ensemble, now);
    }

    /// A worker does what its recipe says. Returns when it does so again.
    pub(crate) fn act(&mut self, number: usize, ensemble: &mut Ensemble, now: u64) -> u64 {
        let task = number / WORKERS;
        let next = now + self.rng.within(60, 350);
        let worker = &mut self.workers[number];
        if worker.until > now {
            return worker.until.min(now + 1_000).max(now + 60);
        }
        if !ensemble.commits() {
            return next;
        }
        let is_there = |node: &String| ensemble.tree.contains_key(node);
        if worker.session != 0 && worker.node.as_ref().is_some_and(|node| !is_there(node)) {
            // Its session has expired, and it learns that only now.
            (worker.session, worker.node, worker.holds_until) = (0, None, None);
        }
        if worker.session == 0 {
            self.sessions += 1;
            (worker.session, worker.timeout_ms) = (self.sessions, self.rng.within(4_000, 10_000));
            worker.heard = now;
            ensemble.commit(Op::Session, now);
            return next;
        }
        worker.heard = now;
        let (name, recipe) = &self.names[task];
        let Some(node) = worker.node.clone() else {
            if self.idle[task] <= now {
                let sequence = self.numbers[task];
                self.numbers[task] += 1;
                let unique = self.rng.next();
                let child = match recipe.as_str() {
                    "kazoo" => format!("{unique:032x}__lock__{sequence:010}"),
                    "curator" => format!("_c_{unique:032x}-lock-{sequence:010}"),
                    _ => format!("n{sequence:010}"),
                };
                let path = format!("/{name}/{child}");
                let host = format!("10.0.{task}.{number}").into_bytes();
                worker.node = Some(path.clone());
                ensemble.commit(Op::Create(path, host, worker.session), now);
                self.look(ensemble, now);
            }
            return next;
        };
        let sequence = &node[node.len() - 10..];
        if holder(ensemble, name).as_deref() != Some(sequence) {
            return next;
        }
        let until = *worker.holds_until.get_or_insert_with(|| {
            let most = self.rng.weighted(&[(2, 3_000), (4, 60_000), (2, 240_000)]).unwrap_or(1);
            now + self.rng.within(300, most)
        });
        if until <= now || self.idle[task] > now {
            (worker.node, worker.holds_until) = (None, None);
            worker.until = now + self.rng.within(100, 20_000);
            ensemble.commit(Op::Delete(node), now);
            self.look(ensemble, now);
        } else if self.stuck[task] <= now && worker.beat <= now {
            worker.beat = now + 1_000;
            let beat = format!("{now}").into_bytes();
            ensemble.commit(Op::Set(format!("/p/{name}"), beat), now);
            self.look(ensemble, now);
        }
        next
    }

    /// Records what is true now.
    pub(crate) fn look(&mut self, ensemble: &Ensemble, now: u64) {
        for ((name, _), truths) in self.names.iter().zip(&mut self.truths) {
            let path = format!("/w/{name}");
            let switches: Vec<&[u8]> = children(&ensemble.tree, &path)
                .filter_map(|user| Some(&*ensemble.tree.get(&format!("{path}/{user}"))?.data))
                .collect();
            let wanted = (!switches.is_empty()).then(|| switches.contains(&&b"on"[..]));
            let progress = ensemble.tree.get(&format!("/p/{name}"));
            let progress = progress.map(|node| node.data.clone()).unwrap_or_default();
            let truth = Truth { at: now, holder: holder(ensemble, name), wanted, progress };
            let same = |last: &Truth| Truth { at: now, ..last.clone() } == truth;
            if !truths.last().is_some_and(same) {
                truths.push(truth);
            }
        }
    }
}

/// The number of the first contender.
fn holder(ensemble: &Ensemble, name: &str) -> Option<String> {
    let path = format!("/{name}");
    let names = children(&ensemble.tree, &path);
    names.filter_map(|name| name.get(name.len() - 10..)).min().map(str::to_owned)
}
