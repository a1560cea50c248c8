//! Builds the view of a task that outputs read.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Kind, Watched};
use crate::reading::Switch;
use crate::snapshot::{Durations, SplitView, SwitchView, TaskView};
use crate::switches::Switches;
use crate::time::Mono;
use crate::verdict::{Rule, Verdict};

impl<K: Kind> Watched<K> {
    /// The view for outputs.
    pub(super) fn view(&mut self, now: Mono) -> TaskView {
        let kind = K::view(self);
        let (verdict, rule, verdict_since) =
            self.verdict.unwrap_or((Verdict::Unknown, &Rule::NOTHING_YET, now));
        let claimants = self.spec.kind.claimants();
        let switches = self.wanting.as_ref().map(|wanting| &wanting.switches);
        TaskView {
            spec: self.spec.clone(),
            store: self.store.clone(),
            verdict,
            rule,
            verdict_since,
            judged: self.judged,
            wanted: self.wanted(),
            switches: switches
                .and_then(Switches::known)
                .map(|switches| switches.iter().map(switch_view).collect()),
            wanting_users: switches.and_then(Switches::wanting),
            switch_key_seen: switches
                .filter(|switches| switches.have_key())
                .map(|switches| switches.key_seen),
            lost_users: switches
                .map(|switches| switches.lost().cloned().collect())
                .unwrap_or_default(),
            switches_unknown: switches.and_then(Switches::why_unknown),
            key_seen: self.key_seen,
            held: self.kind.held(),
            unknown: self.kind.newest().err(),
            // Only the store knows them.
            said: None,
            refuses_writes: None,
            node: self.origin.as_ref().map(|origin| origin.node.clone()),
            last_reading: self.kind.last_reading().map(|seen| seen.sent),
            kind,
            progress: self
                .progress
                .as_ref()
                .zip(self.spec.progress.as_ref())
                .map(|(clock, spec)| Box::new(clock.view(spec.moves, self.newest_attempt))),
            live_claims: self
                .claims
                .live(self.fresh_for_ms())
                .iter()
                .flatten()
                .map(|claim| claimants.holder(claim))
                .collect(),
            hosts_unknown: self.hosts_unknown,
            claims_unknown: match self.spec.claims {
                Some(_) => self.claims.why_unknown(),
                None => None,
            },
            runs: self.runs.clone(),
            splits: self.splits_view(),
            paused: (self.spec.paused_until.is_some() && self.pause.known)
                .then(|| self.pause.until.is_some_and(|until| now < until)),
            durations: Durations {
                down_ms: self.gap_ms(),
                split_ms: self.splits.ms(),
                stalled_ms: K::stalled_ms(self),
                unwanted_ms: self.unwanted_ms(),
                blind_ms: self.blind.ms(),
                switches_lost_ms: switches.map_or(0, Switches::lost_ms),
            },
            totals: self.totals.clone(),
            grounds: self.grounds.clone(),
        }
    }

    fn splits_view(&self) -> Box<[SplitView]> {
        let splits = self.splits.view().into_iter();
        splits.map(|split| SplitView { parties: self.with_hosts(split.parties), ..split }).collect()
    }
}

fn switch_view((user, switch): &(Vec<u8>, Switch)) -> SwitchView {
    let (on, fits) = match switch {
        Switch::On => (Some(true), None),
        Switch::Off => (Some(false), None),
        Switch::Undecodable { fits, .. } => (None, *fits),
    };
    SwitchView { user: user.clone(), on, fits }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec;

    use super::*;
    use crate::evidence::Origin;
    use crate::input::{Attestation, Standing};
    use crate::reading::{Beside, Deadline, Extras, Held, Holder, LockReading, Mode, TaskReading};
    use crate::spec::{Authority, LockSpec, StoreIndex, TaskSpec};
    use crate::task::{Accepted, Log, Task};
    use crate::time::ServerTime;

    /// A glance may return the same copy of a reading again, while the names of the hosts have
    /// changed.
    #[test]
    fn a_host_that_is_renamed_is_shown_also_of_a_hold_that_did_not_change() {
        let spec = TaskSpec::new("outbound", StoreIndex(0), LockSpec::new(b"lock", "redisson"));
        let with_hosts = Arc::new(TaskSpec { hosts: Some(b"hosts".to_vec()), ..spec.clone() });
        let mut task = Task::new(with_hosts, "main".into(), Mono(0));
        let holders =
            vec![Holder { client: b"A".to_vec(), thread: None, entries: Some(1), secret: false }];
        let deadline = Deadline::At(ServerTime(60_000));
        let lock = LockReading::from(Held { mode: Mode::Exclusive, holders, ghosts: 0, deadline });
        let origin = Origin {
            node: "a:6379".into(),
            clock_steps: 0,
            generation: None,
            histories: Arc::default(),
            offset: None,
            authority: Authority::ALONE,
        };
        let mut events = Vec::new();
        let mut host_of = |task: &mut Task, at: u64, hosts: Option<&str>| {
            let clock = ServerTime(i64::try_from(at).unwrap());
            let attestation = Attestation::master(clock, clock);
            let (standing, interval_ms, took_ms, continued) = (Standing::Decides, 1_000, 0, None);
            let batch = Accepted {
                sent: Mono(at),
                attestation: &attestation,
                origin: &Arc::new(origin.clone()),
                continued,
                unflushed_since: None,
                standing,
                interval_ms,
                took_ms,
            };
            let hosts = hosts.map(|host| Ok(vec![(b"A".to_vec(), host.as_bytes().to_vec())]));
            let beside = Beside { hosts, ..Beside::default() };
            let reading = TaskReading::of_lock(lock.clone(), Extras::default(), beside);
            let mut log = Log { at: Mono(at), server: Some(clock), events: &mut events };
            task.observe(&reading, batch, &mut log);
            let hold = task.view(Mono(at)).lock().unwrap().hold.clone().unwrap();
            hold.holders.first().unwrap().1.clone()
        };
        assert_eq!(host_of(&mut task, 1_000, None), None);
        assert_eq!(host_of(&mut task, 2_000, Some("one")), Some(b"one".to_vec()));
        assert_eq!(host_of(&mut task, 3_000, None), Some(b"one".to_vec()), "not asked for");
        assert_eq!(host_of(&mut task, 4_000, Some("two")), Some(b"two".to_vec()));
        let mut told = Vec::new();
        let mut log = Log { at: Mono(4_500), server: None, events: &mut told };
        task.configure(Arc::new(spec), "main".into(), &mut log);
        assert_eq!(host_of(&mut task, 5_000, None), None, "configured no more");
    }
}
