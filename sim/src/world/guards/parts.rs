//! What a guard does besides its lock, as `src/commands/guard/side_keys.rs` has it: it reads the
//! switches, claims, writes its progress, and reports an overrun.

use lockwatch_guard::{Input, Run};
use lockwatch_judge::reading::{Ended, GuardRuns};
use lockwatch_judge::spec::{ProgressSource, WantedSource};
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_judge::verdict::Wanted;
use lockwatch_watch::redis::{overrun_claim, runs_claim};

use crate::event::GuardJob;
use crate::request::Says;
use crate::server::Value;
use crate::world::state::{Did, World};

/// The switches are read so often where no change is announced, in milliseconds, and a claim is
/// written so often.
const EVERY_MS: u64 = 1_000;
/// How long the report of an overrun stays at least, in milliseconds.
const REPORTED_FOR_MS: u64 = 10_000;

impl World {
    /// Something may have changed.
    pub(super) fn parts_soon(&mut self, task: usize, host: usize) {
        self.parts_at(task, host, self.now + 1);
    }

    fn parts_at(&mut self, task: usize, host: usize, at: u64) {
        let station = &mut self.tasks[task].stations[host];
        let life = station.life;
        let Some(guard) = &mut station.guard else { return };
        let parts = &mut guard.parts;
        let at = at.max(parts.waits_until);
        if parts.due_at.is_some_and(|due_at| due_at <= at && due_at > self.now) {
            return;
        }
        parts.number += 1;
        parts.due_at = Some(at);
        let number = parts.number;
        self.guard_at(task, host, life, at, GuardJob::Parts { number });
    }

    /// One round of its loop.
    pub(super) fn parts(&mut self, task: usize, host: usize, number: u64) {
        let now = self.now;
        let Some(guard) = &mut self.tasks[task].stations[host].guard else { return };
        if guard.parts.number != number {
            return;
        }
        guard.parts.due_at = None;
        self.listen_for_changes(task, host);
        let server = self.part_homes[task];
        let is_answered = self.guard_reaches(task, host, server) && self.servers[server].writable();
        let wanted = self.read_wanted(task, server, is_answered);
        if !is_answered {
            let timeout_ms = self.guard_timeout_ms(task);
            if let Some(guard) = &mut self.tasks[task].stations[host].guard {
                guard.parts.waits_until = now + timeout_ms;
            }
        }
        let station = &mut self.tasks[task].stations[host];
        let mono = station.mono(now);
        let Some(guard) = &mut station.guard else { return };
        guard.machine.handle(mono, Input::Wanted(wanted));
        let parts = &mut guard.parts;
        match parts.claim_at {
            None if parts.runs => parts.claim_at = Some(now.max(parts.reported_until)),
            Some(_) if !parts.runs => {
                parts.claim_at = None;
                self.write_claim(task, host, None);
            }
            _ => {}
        }
        let Some(guard) = &mut self.tasks[task].stations[host].guard else { return };
        let parts = &mut guard.parts;
        if let Some((token, ms)) = parts.overruns.front().copied().filter(|_| is_answered) {
            parts.overruns.pop_front();
            (parts.claim_at, parts.reported_until) = (None, now + REPORTED_FOR_MS);
            self.report_overrun(task, host, token, ms);
        } else if parts.claim_at.is_some_and(|at| at <= now) {
            parts.claim_at = Some(now + EVERY_MS);
            self.write_claim(task, host, Some(now.to_string().into_bytes()));
            self.write_heartbeat(task, host);
        }
        if is_answered {
            self.write_runs(task, host);
        }
        self.parts_at(task, host, now + EVERY_MS);
    }

    fn read_wanted(&self, task: usize, server: usize, is_answered: bool) -> Wanted {
        match self.plan.spec.tasks[task].wanted.as_ref().map(|wanted| &wanted.source) {
            None | Some(WantedSource::Always) => return Wanted::Yes,
            Some(WantedSource::Never) => return Wanted::No,
            Some(_) if !is_answered => return Wanted::Unknown,
            Some(_) => {}
        }
        match self.says(server, task) {
            Says::Yes => Wanted::Yes,
            Says::No => Wanted::No,
            Says::Unclear | Says::Unset => Wanted::Unknown,
        }
    }

    /// The guard ends, and takes back what agents read.
    pub(super) fn withdraw(&mut self, task: usize, host: usize) {
        let Some(guard) = &mut self.tasks[task].stations[host].guard else { return };
        if guard.parts.claim_at.take().is_some() {
            self.write_claim(task, host, None);
        }
        let server = self.part_homes[task];
        if self.guard_reaches(task, host, server) && self.servers[server].writable() {
            self.write_runs(task, host);
        }
    }

    /// The newest runs, by the server's clock.
    fn write_runs(&mut self, task: usize, host: usize) {
        let (server, now) = (self.part_homes[task], self.now);
        let Some(key) = self.tasks[task].keys.claims.clone() else { return };
        let clock = ServerTime::at(self.servers[server].clock.at(now));
        let station = &mut self.tasks[task].stations[host];
        let mono = station.mono(now);
        let Some(guard) = &mut station.guard else { return };
        let runs = *guard.machine.runs();
        if std::mem::replace(&mut guard.parts.written, runs) == runs {
            return;
        }
        let at = |at: Mono| {
            let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
            clock.plus_ms(ms(at.since_ms(mono))).plus_ms(-ms(mono.since_ms(at)))
        };
        let ended = runs.ended().map(|Run { from, to, code, asked }| Ended {
            from: at(from),
            to: at(to),
            code,
            asked,
        });
        let (field, written) = runs_claim(&GuardRuns {
            instance: guard.instance.to_vec(),
            host: format!("host-{host}").into_bytes(),
            ended: ended.collect(),
            since: runs.since.map(at),
        });
        self.servers[server].edit(&key, now, Value::Hash(Vec::new()), |value| {
            if let Value::Hash(fields) = value {
                fields.retain(|(other, _)| *other != field);
                fields.push((field, written));
            }
        });
    }

    fn report_overrun(&mut self, task: usize, host: usize, token: u64, ms: u64) {
        let life = self.tasks[task].stations[host].life;
        if self.write_claim(task, host, Some(overrun_claim(token, ms).into_bytes())) {
            self.did(task, host, life, Did::Written { token });
            let guard = self.tasks[task].stations[host].guard.as_ref();
            let instance = guard.map(|guard| guard.instance.to_vec());
            self.tasks[task].overruns.extend(instance);
        }
    }

    /// Writes or removes a guard's field in the hash of claims; returns whether that was done.
    fn write_claim(&mut self, task: usize, host: usize, claim: Option<Vec<u8>>) -> bool {
        let (server, now) = (self.part_homes[task], self.now);
        let Some(key) = self.tasks[task].keys.claims.clone() else { return false };
        if !self.guard_reaches(task, host, server) || !self.servers[server].writable() {
            return false;
        }
        let Some(guard) = &self.tasks[task].stations[host].guard else { return false };
        let instance = guard.instance.to_vec();
        match claim {
            Some(_) => self.note_claim(task, &instance),
            None => self.note_unclaimed(task, &instance),
        }
        self.servers[server].edit(&key, now, Value::Hash(Vec::new()), |value| {
            if let Value::Hash(fields) = value {
                fields.retain(|(field, _)| *field != instance);
                fields.extend(claim.map(|claim| (instance, claim)));
            }
        });
        true
    }

    /// The script runs, which counts as progress.
    fn write_heartbeat(&mut self, task: usize, host: usize) {
        let (server, now) = (self.part_homes[task], self.now);
        let Some(key) = self.tasks[task].keys.progress.clone() else { return };
        if !self.guard_reaches(task, host, server) || !self.servers[server].writable() {
            return;
        }
        self.tasks[task].progress_at = now;
        let text = now.to_string().into_bytes();
        match self.plan.spec.tasks[task].progress.as_ref().map(|progress| progress.source.clone()) {
            Some(ProgressSource::HashField { field, .. }) => {
                self.servers[server].edit(&key, now, Value::Hash(Vec::new()), |value| {
                    *value = Value::Hash(vec![(field, text)]);
                });
            }
            Some(ProgressSource::Key(_)) => {
                let entry = self.beat(task, server, text);
                self.servers[server].put(&key, Some(entry), now);
            }
            Some(_) | None => {}
        }
    }
}
