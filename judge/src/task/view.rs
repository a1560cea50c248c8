//! Builds the view of a task that outputs read.

use alloc::boxed::Box;

use crate::kinds::kind::Kind;
use crate::shared::Shared;
use crate::shared::switches::Switches;
use crate::snapshot::{Durations, SplitView, SwitchView, TaskView};
use crate::time::Mono;
use crate::verdict::{Rule, Verdict};

pub(super) fn of(shared: &Shared, kind: &mut dyn Kind, now: Mono) -> TaskView {
    let spec = &shared.spec;
    let claimants = spec.kind.claimants();
    let switches = shared.wanting.as_ref().map(|wanting| &wanting.switches);
    let progress = shared.progress.as_ref().zip(spec.progress.as_ref());
    let (verdict, rule, verdict_since) =
        shared.verdict.unwrap_or((Verdict::Unknown, &Rule::NOTHING_YET, now));
    TaskView {
        spec: spec.clone(),
        store: shared.store.clone(),
        verdict,
        rule,
        verdict_since,
        judged: shared.judged,
        key_seen: shared.key_seen,
        held: kind.held(),
        unknown: kind.attempts().newest.err(),
        last_reading: kind.attempts().last.map(|seen| seen.sent),
        wanted: shared.wanted(),
        switches: switches
            .and_then(Switches::known)
            .map(|switches| switches.iter().map(SwitchView::of).collect()),
        wanting_users: switches.and_then(Switches::wanting),
        switch_key_seen: switches
            .filter(|switches| switches.have_key())
            .map(|switches| switches.key_seen),
        lost_users: switches.map(|switches| switches.lost().cloned().collect()).unwrap_or_default(),
        switches_unknown: switches.and_then(Switches::why_unknown),
        // Only the store knows them.
        said: None,
        refuses_writes: None,
        node: shared.origin.as_ref().map(|origin| origin.node.clone()),
        kind: kind.view(shared),
        progress: progress
            .map(|(clock, spec)| Box::new(clock.view(spec.moves, shared.newest_attempt))),
        live_claims: shared
            .claims
            .live(spec.fresh_for_ms())
            .iter()
            .flatten()
            .map(|claim| claimants.holder(claim))
            .collect(),
        hosts_unknown: shared.hosts.unknown,
        claims_unknown: spec.claims.as_ref().and_then(|_| shared.claims.why_unknown()),
        runs: shared.runs.clone(),
        splits: shared
            .splits
            .view()
            .into_iter()
            .map(|split| SplitView { parties: shared.hosts.name(split.parties), ..split })
            .collect(),
        paused: (spec.paused_until.is_some() && shared.pause.known)
            .then(|| shared.pause.until.is_some_and(|until| now < until)),
        durations: Durations {
            down_ms: shared.gap().map_or(0, |gap| gap.gap_ms()),
            split_ms: shared.splits.ms(),
            stalled_ms: kind.stalled_ms(shared),
            unwanted_ms: shared.unwanted_ms(),
            blind_ms: shared.blind.ms(),
            switches_lost_ms: switches.map_or(0, Switches::lost_ms),
        },
        totals: shared.totals.clone(),
        grounds: shared.grounds.clone(),
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec;

    use crate::evidence::Origin;
    use crate::input::{Attestation, Standing};
    use crate::reading::{Deadline, Extras, Held, Holder, LockReading, Mode, Parts, TaskReading};
    use crate::spec::{Authority, LockSpec, StoreIndex, TaskSpec};
    use crate::step::{Accepted, Log};
    use crate::task::Task;
    use crate::time::{Mono, ServerTime};

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
        let host_of = |task: &mut Task, at: u64, hosts: Option<&str>| {
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
            let parts = Parts { hosts, ..Parts::default() };
            let reading = TaskReading::of_lock(lock.clone(), Extras::default(), parts);
            task.observe(&reading, batch, &mut Log::new(Mono(at), Some(clock)));
            let hold = task.view(Mono(at)).lock().unwrap().hold.clone().unwrap();
            hold.holders.first().unwrap().1.clone()
        };
        assert_eq!(host_of(&mut task, 1_000, None), None);
        assert_eq!(host_of(&mut task, 2_000, Some("one")), Some(b"one".to_vec()));
        assert_eq!(host_of(&mut task, 3_000, None), Some(b"one".to_vec()), "not asked for");
        assert_eq!(host_of(&mut task, 4_000, Some("two")), Some(b"two".to_vec()));
        task.configure(Arc::new(spec), "main".into(), &mut Log::new(Mono(4_500), None));
        assert_eq!(host_of(&mut task, 5_000, None), None, "configured no more");
    }
}
