//! What is shown of one task.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::grounds::Grounds;
use crate::input::Refusal;
use crate::kinds::kind::{Kind, KindView};
use crate::kinds::lock::view::{HoldView, LockView};
use crate::kinds::queue::view::QueueView;
use crate::kinds::runs::view::RunsView;
use crate::kinds::turn::view::TurnView;
use crate::limit::Limit;
use crate::reading::{Holder, Unknown, User};
use crate::seldom::{Absent, Seldom};
use crate::shared::progress::ProgressView;
use crate::shared::runs::Runs;
use crate::shared::splits::SplitView;
use crate::shared::switches::{SwitchView, Switches};
use crate::shared::{Judged, Shared};
use crate::spec::TaskSpec;
use crate::time::{Mono, ServerTime};
use crate::totals::Totals;
use crate::verdict::{Rule, Verdict, Wanted};

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// Its configuration.
    pub spec: Arc<TaskSpec>,
    /// Name of its store.
    pub store: Arc<str>,
    /// The verdict.
    pub verdict: Verdict,
    /// The rule that gave the verdict.
    pub rule: &'static Rule,
    /// When the present verdict was first given.
    pub verdict_since: Mono,
    /// The facts that the verdict is based on; `None` before the first judgement.
    pub judged: Option<Judged>,
    /// Whether users want the task.
    pub wanted: Wanted,
    /// What its switches show.
    pub wanting: Seldom<WantingView>,
    /// Whether the switches' key was ever seen to exist; `None` when there is no such key to check.
    pub switch_key_seen: Option<bool>,
    /// Why the newest reading of the switches is no answer.
    pub switches_unknown: Option<Unknown>,
    /// Whether its key, the lock's or the queue's, was ever seen to exist by this process.
    pub key_seen: bool,
    /// The newest reading: `Some(true)` somebody has it, `Some(false)` nobody (confirmed or not),
    /// `None` unknown.
    pub held: Option<bool>,
    /// Why the newest reading is no answer.
    pub unknown: Option<Unknown>,
    /// The words that came with that, or else with what is unknown of the switches.
    pub said: Option<Arc<str>>,
    /// The server that the newest accepted reading came from.
    pub node: Option<Arc<str>>,
    /// Why that server refuses writes, if it is known to.
    pub refuses_writes: Option<Refusal>,
    /// When the request of the newest accepted reading was sent.
    pub last_reading: Option<Mono>,
    /// What is specific to the kind of guard.
    pub kind: KindView,
    /// The progress, if one is configured.
    pub progress: Option<Box<ProgressView>>,
    /// Instances whose claim is alive.
    pub live_claims: Seldom<Vec<Holder>>,
    /// Why the newest reading of the claims is no answer. If set, it is unknown which claims are
    /// alive.
    pub claims_unknown: Option<Unknown>,
    /// The runs of its script, as guards state them; `None` without claims, or before they were
    /// read.
    pub runs: Option<Arc<Runs>>,
    /// Why the newest reading of the hosts is no answer.
    pub hosts_unknown: Option<Unknown>,
    /// Splits in force, at most one of each kind, sorted by kind.
    pub splits: Seldom<Vec<SplitView>>,
    /// Alerts of this task shall wait; `None` when no pause is configured or it cannot be read.
    pub paused: Option<bool>,
    /// Current durations.
    pub durations: Seldom<Durations>,
    /// Sums and counts since the task was configured. Views share one copy while it is unchanged.
    pub totals: Arc<Totals>,
    /// What problems are judged by in addition to the other fields.
    pub grounds: Grounds,
}

impl TaskView {
    /// The view for outputs.
    pub(crate) fn of(shared: &Shared, kind: &mut dyn Kind, now: Mono) -> TaskView {
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
            wanting: Seldom::new(switches.map(WantingView::of).unwrap_or_default()),
            switch_key_seen: switches
                .filter(|switches| switches.have_key())
                .map(|switches| switches.key_seen),
            switches_unknown: switches.and_then(Switches::why_unknown),
            // Only the store knows them.
            said: None,
            refuses_writes: None,
            node: shared.origin.as_ref().map(|origin| origin.node.clone()),
            kind: kind.view(shared),
            progress: progress.map(|(clock, spec)| Box::new(clock.view(spec.moves))),
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
            durations: Seldom::new(Durations {
                down_ms: shared.gap().map_or(0, |gap| gap.gap_ms()),
                split_ms: shared.splits.ms(),
                stalled_ms: kind.stalled_ms(shared),
                unwanted_ms: shared.unwanted_ms(),
                blind_ms: shared.blind.ms(),
                switches_lost_ms: switches.map_or(0, Switches::lost_ms),
            }),
            totals: shared.totals.clone(),
            grounds: shared.grounds.clone(),
        }
    }

    /// When the progress was last seen to move, on the server's clock.
    pub fn progress_moved(&self) -> Option<ServerTime> {
        self.progress.as_ref().and_then(|progress| progress.moved)
    }

    /// What has lasted of what `limit` limits, in milliseconds.
    pub fn measured_ms(&self, limit: Limit) -> u64 {
        match limit {
            Limit::Grace => self.durations.down_ms,
            Limit::WindDown => self.durations.unwanted_ms,
            Limit::BlindAfter => self.durations.blind_ms,
            Limit::StaleAfter => self.durations.stalled_ms,
            Limit::MaxLate => match &self.kind {
                KindView::Lock(_) => 0,
                KindView::Turn(turn) => turn.late_ms,
                KindView::Queue(queue) => queue.late_ms,
            },
            Limit::LateAfter => self.periodic().map_or(0, |runs| runs.late_ms),
            Limit::Every => self.periodic().map_or(0, |runs| runs.awaited_ms),
            Limit::FreshFor => 0,
            _ => self.hold().map_or(0, |hold| hold.held_ms),
        }
    }

    /// The lock, if one guards the task.
    pub fn lock(&self) -> Option<&LockView> {
        match &self.kind {
            KindView::Lock(lock) => Some(lock),
            KindView::Turn(_) | KindView::Queue(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn lock_mut(&mut self) -> Option<&mut LockView> {
        match &mut self.kind {
            KindView::Lock(lock) => Some(lock),
            KindView::Turn(_) | KindView::Queue(_) => None,
        }
    }

    /// The present hold of the lock, if it is held by the newest reading.
    pub fn hold(&self) -> Option<&HoldView> {
        self.lock()?.hold.as_ref()
    }

    /// Its runs, if its lock exists only while one lasts.
    pub fn periodic(&self) -> Option<&RunsView> {
        self.lock()?.rare.runs.as_deref()
    }

    /// The runs of its script, if it is seen to fail again and again while it is wanted.
    pub fn failing(&self) -> Option<&Runs> {
        let runs = self.runs.as_deref().filter(|runs| runs.fails == Some(true))?;
        (self.claims_unknown.is_none() && !self.is_known_unwanted()).then_some(runs)
    }

    /// Whether it is known that nobody wants it.
    pub fn is_known_unwanted(&self) -> bool {
        self.wanted == Wanted::No && self.switch_key_seen != Some(false)
    }

    /// The tasks that take turns, if it is of that kind.
    pub fn turn(&self) -> Option<&TurnView> {
        if let KindView::Turn(turn) = &self.kind { Some(turn) } else { None }
    }

    /// The queue, if it is of that kind.
    pub fn queue(&self) -> Option<&QueueView> {
        if let KindView::Queue(queue) = &self.kind { Some(queue) } else { None }
    }

    /// The words that came with what is unknown, if that is because of `why`.
    pub fn words(&self, why: Unknown) -> Option<&str> {
        self.said.as_deref().filter(|_| self.unknown.or(self.switches_unknown) == Some(why))
    }
}

/// What the switches of a task show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantingView {
    /// All existing switches; `None` when unknown or unset, or when there are too many to read.
    pub switches: Option<Box<[SwitchView]>>,
    /// Number of users that want the task; `None` when unknown or unset, or when there are too many
    /// switches to read.
    pub users: Option<u64>,
    /// Users whose "on" was lost.
    pub lost_users: Vec<User>,
}

impl WantingView {
    fn of(switches: &Switches) -> WantingView {
        let known = switches.known();
        WantingView {
            switches: known.map(|switches| switches.iter().map(SwitchView::of).collect()),
            users: switches.wanting(),
            lost_users: switches.lost().cloned().collect(),
        }
    }
}

impl Absent for WantingView {
    const ABSENT: &'static WantingView =
        &WantingView { switches: None, users: None, lost_users: Vec::new() };
}

/// Durations of present conditions, as of the newest evidence. 0 when the condition does not hold;
/// the value is kept while blind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Wanted without a holder.
    pub down_ms: u64,
    /// Two holders.
    pub split_ms: u64,
    /// Held without progress.
    pub stalled_ms: u64,
    /// Held though no user wants it.
    pub unwanted_ms: u64,
    /// No trustworthy reading of the lock, or of "wanted" while it is free.
    pub blind_ms: u64,
    /// Switches lost.
    pub switches_lost_ms: u64,
}

impl Absent for Durations {
    const ABSENT: &'static Durations = &Durations {
        down_ms: 0,
        split_ms: 0,
        stalled_ms: 0,
        unwanted_ms: 0,
        blind_ms: 0,
        switches_lost_ms: 0,
    };
}
