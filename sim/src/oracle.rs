//! The oracle knows the true state and checks an agent's output: no alert without a reason
//! (safety), and no missing alert for too long (liveness). Of `judge` it uses only the types of
//! instants, specs, snapshots and events, and none of its decisions.
//!
//! There are two kinds of checks: against what the agent's own readings really found
//! ([`reference`]), where the rules are exact; and against the truth, where they allow a tolerance.
//! Each tolerance is documented where it is used.

mod ends;
mod live;
mod overruns;
mod pause;
mod problems;
pub(crate) mod queues;
mod reference;
mod renewals;
mod scripts;
mod soon;
mod splits;
mod turns;
mod unsaid;
mod verdict;

use std::sync::Arc;

use lockwatch_judge::event::{Event, EventKind, Subject};
use lockwatch_judge::input::Standing;
use lockwatch_judge::snapshot::{Snapshot, TaskView};
use lockwatch_judge::spec::TaskSpec;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::RedisKind;

use crate::agent::{Attempt, MONO_MS};
use crate::coverage::Coverage;
use crate::plan::{Plan, TaskPlan};
use crate::serve::PartTruth;
use crate::truth::LockState;
use crate::world::{LostSwitches, Says, World};
use reference::{Asked, Changed, Found, Limits, Lost, Reference};
pub(crate) use scripts::Scripts;

/// A clock that moved by this many milliseconds more than the agent's has certainly stepped. The
/// rule counts more than a second beyond what slow answers explain, two answers take at most 6 s,
/// and no plan draws a step between 150 ms and 12 s.
const STEP_MS: i64 = 8_000;
/// Tolerance in milliseconds of a deadline that is reported as the remaining time.
const NOISE_MS: i64 = 2;

/// A violated check.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Time in milliseconds since the beginning.
    pub at_ms: u64,
    /// The agent concerned.
    pub agent: usize,
    /// The name of the check.
    pub check: &'static str,
    /// The output, and the true state.
    pub what: String,
    /// The true events shortly before, line by line.
    pub truth: Vec<String>,
}

/// What one agent's readings found about one task.
#[derive(Debug)]
pub(super) struct TaskFacts {
    /// Whether the task is in the agent's configuration.
    is_configured: bool,
    /// Since when it has been configured without interruption: the true instant.
    began: u64,
    /// When the configuration was last loaded, so that thresholds may be new.
    configured_at: u64,
    limits: Limits,
    reference: Reference,
    lost: Lost,
    newest: Newest,
    /// The newest answer, and the one before it.
    last: Option<Answer>,
    before: Option<Answer>,
    blind: Option<Mono>,
    /// Since when every attempt was answered: the true instant.
    sees_since: u64,
    good: Mono,
    /// When the newest attempt was sent.
    tried: Mono,
    /// The state of the switches, and what they count as.
    says: Says,
    switches_at: Option<Asked>,
    overlap: splits::Overlap,
    /// A free lock was found beside another master's held one. These answers do not show when a
    /// hold ended.
    contradicted: bool,
    /// The keys beside the lock changed during the read. The result is unknown until the next
    /// answer.
    mixed: bool,
    /// It is uncertain whether an answer counts as sight, until the next one that certainly does.
    hazy: bool,
    said: verdict::Said,
    renewal_said: renewals::Said,
    /// The newest snapshot showed a split.
    is_split: bool,
    /// The keys beside the lock may be on another server.
    apart: bool,
    /// The newest pause that was read.
    pause: Option<pause::Pause>,
    /// Whose turn it was.
    turns: Option<turns::TurnFacts>,
    /// What a queue showed.
    queue: Option<queues::QueueFacts>,
}

/// The result of the newest attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Newest {
    Never,
    Failed,
    Answered,
    /// It is uncertain whether it found anything.
    Open,
}

/// The result of a reading.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) sent: Mono,
    pub(super) server: usize,
    /// The true instants between which the lock was read.
    pub(super) from: u64,
    pub(super) to: u64,
    /// When the batch was answered; at its end the server reports what happened to its data.
    pub(super) whole: u64,
    /// All states of the lock between these instants.
    pub(super) states: Vec<LockState>,
    pub(super) clock: i64,
    /// The server's time when the whole batch was answered. It determines whether a deadline had
    /// passed.
    pub(super) clock_after: i64,
}

/// Checks one process of one agent.
#[derive(Debug)]
pub(crate) struct Oracle {
    agent: usize,
    tasks: Vec<TaskFacts>,
    /// The lead of each server's clock at its newest good answer.
    clocks: Vec<Option<i64>>,
    ticked: Mono,
    /// When the instants at which the agent reads tasks last changed.
    pub(crate) rhythm_at: Mono,
    kind: RedisKind,
    interval_ms: u64,
    timeout_ms: u64,
    exact: bool,
    /// When a server other than the deciding one was last seen as a master.
    rivals_at: Option<u64>,
    told: soon::Told,
    /// The overruns that must be counted.
    overruns: Vec<overruns::Owed>,
    pub(crate) violations: Vec<Violation>,
}

impl TaskFacts {
    /// For a task that an agent begins to watch at `now`.
    fn new(spec: &TaskSpec, shape: &TaskPlan, now: u64) -> TaskFacts {
        TaskFacts {
            is_configured: true,
            began: now,
            configured_at: now,
            limits: Limits::of(spec),
            reference: Reference::default(),
            lost: Lost::default(),
            newest: Newest::Never,
            last: None,
            before: None,
            blind: Some(Mono(MONO_MS + now)),
            sees_since: now,
            good: Mono(MONO_MS + now),
            tried: Mono(MONO_MS + now),
            says: Says::Unclear,
            switches_at: None,
            overlap: splits::Overlap::default(),
            contradicted: false,
            mixed: false,
            hazy: false,
            said: verdict::Said::default(),
            renewal_said: renewals::Said::default(),
            is_split: false,
            apart: shape.apart,
            pause: None,
            turns: turns::TurnFacts::of(spec, now),
            queue: queues::QueueFacts::of(spec, now),
        }
    }
}

impl Oracle {
    pub(crate) fn new(plan: &Plan, agent: usize, now: u64) -> Oracle {
        let redis = plan.spec.stores.first();
        Oracle {
            agent,
            tasks: plan
                .spec
                .tasks
                .iter()
                .zip(&plan.tasks)
                .map(|(spec, shape)| TaskFacts::new(spec, shape, now))
                .collect(),
            clocks: vec![None; plan.servers],
            ticked: Mono(MONO_MS + now),
            rhythm_at: Mono(MONO_MS + now),
            kind: plan.kind(),
            interval_ms: redis.map_or(1_000, |redis| redis.interval_ms),
            timeout_ms: redis.map_or(3_000, |redis| redis.timeout_ms),
            exact: plan.has_pexpiretime,
            rivals_at: None,
            told: soon::Told::default(),
            overruns: Vec::new(),
            violations: Vec::new(),
        }
    }

    /// The agent has loaded its configuration again. A task that was not in the previous one starts
    /// without any state.
    pub(crate) fn configured<'a>(
        &mut self,
        spec: impl Fn(usize) -> Option<&'a TaskSpec>,
        world: &World,
    ) {
        for (task, (facts, shape)) in self.tasks.iter_mut().zip(&world.plan.tasks).enumerate() {
            let was_configured = std::mem::replace(&mut facts.is_configured, spec(task).is_some());
            let Some(spec) = spec(task) else { continue };
            if !was_configured {
                *facts = TaskFacts::new(spec, shape, world.now);
            }
            facts.configured_at = world.now;
            facts.limits = Limits::of(spec);
        }
    }

    fn blame(&mut self, world: &World, check: &'static str, what: String) {
        let names = world.plan.spec.tasks.iter();
        let task = names.enumerate().find(|(_, spec)| what.starts_with(&format!("{}:", spec.name)));
        let truth = world.tell(task.map(|(task, _)| task));
        self.violations.push(Violation { at_ms: world.now, agent: self.agent, check, what, truth });
    }

    /// The agent attempted a read.
    pub(crate) fn attempt(&mut self, attempt: &Attempt, world: &World) {
        let good = self.believable(attempt);
        if attempt.standing == Standing::Witness {
            if good
                && self.kind == RedisKind::Replicated
                && attempt.truth.as_ref().is_some_and(|truth| truth.master)
            {
                self.rivals_at = Some(world.now);
            }
            return;
        }
        if !attempt.beside {
            self.asked(attempt);
        }
        if good && let Some(server) = attempt.server {
            self.check_ruler(server, world);
        }
        for task in &attempt.tasks {
            if !self.tasks[*task].is_configured {
                continue;
            }
            let part = attempt
                .truth
                .as_ref()
                .and_then(|truth| truth.parts.iter().find(|part| part.task == *task));
            if self.tasks[*task].queue.is_some() {
                if let (true, Some(part)) = (good, part) {
                    self.read_pause(*task, part, attempt);
                }
                self.attempt_queue(*task, attempt, part, good, world);
                continue;
            }
            if attempt.beside {
                let believed = if good { part } else { None };
                if let Some(part) = believed {
                    self.read_pause(*task, part, attempt);
                }
                self.answered_beside(*task, believed, attempt, world);
                self.tasks[*task].follow_verdict();
                continue;
            }
            if let (true, Some(part)) = (good, part) {
                self.read_pause(*task, part, attempt);
            }
            match (good, part, attempt.server) {
                (true, Some(part), Some(server)) => {
                    self.answered(*task, part, attempt, server, world)
                }
                _ => self.failed(*task, attempt),
            }
            self.tasks[*task].tried = attempt.sent;
            self.tasks[*task].follow_verdict();
        }
    }

    /// Whether its answers may be believed: complete, in time, from a master if needed, and not in
    /// or before the round in which the server's clock stepped.
    fn believable(&mut self, attempt: &Attempt) -> bool {
        let (Some(server), Some(truth)) = (attempt.server, &attempt.truth) else { return false };
        let decides = attempt.standing == Standing::Decides;
        if !truth.whole || attempt.took_ms > self.timeout_ms || (decides && !truth.master) {
            return false;
        }
        let ahead_after_ms = truth.clock_ahead_after_ms;
        let before_ms = self.clocks[server].replace(ahead_after_ms).unwrap_or(truth.clock_ahead_ms);
        [before_ms, ahead_after_ms]
            .into_iter()
            .all(|other_ms| (truth.clock_ahead_ms - other_ms).abs() <= STEP_MS)
    }

    fn failed(&mut self, task: usize, attempt: &Attempt) {
        let facts = &mut self.tasks[task];
        // A late answer of a server that decided before is outdated.
        let elsewhere = facts.last.as_ref().is_some_and(|last| {
            attempt.server.is_some_and(|server| server != last.server) && last.sent > attempt.sent
        });
        if elsewhere {
            return;
        }
        facts.newest = Newest::Failed;
        facts.unasked();
        facts.blind.get_or_insert(facts.good);
    }

    /// The keys beside a lock were requested on another server; without `part`, unsuccessfully.
    fn answered_beside(
        &mut self,
        task: usize,
        part: Option<&PartTruth>,
        attempt: &Attempt,
        world: &World,
    ) {
        if let (Some(part), Some(server)) = (part, attempt.server) {
            self.read_switches(task, part, attempt.sent, server, world);
        }
        let facts = &mut self.tasks[task];
        let limits = facts.limits;
        match part {
            Some(part) => {
                let open = part.mixed || part.moved;
                facts.lost.unsure |= open;
                facts.hazy |= open;
                facts.reference.unsure |= facts.lost.unsure;
                facts.reference.progress.unsure |= facts.lost.unsure;
                facts.reference.read_beside(attempt.sent, facts.wanted(), limits);
            }
            None => facts.unasked(),
        }
        if limits.stale_after_ms.is_some() {
            facts
                .reference
                .read_progress(attempt.sent, part.and_then(|part| part.progress.as_ref()));
        }
        let is_free =
            facts.last.as_ref().is_some_and(|last| last.states.contains(&LockState::Free));
        if facts.newest != Newest::Answered || (is_free && facts.wanted() == Says::Unclear) {
            facts.hazy |= facts.lost.unsure;
            facts.blind.get_or_insert(facts.good);
        } else {
            facts.hazy |= facts.lost.unsure && facts.says == Says::Unclear;
            // It completes the reading of the lock, at that reading's instant.
            if let (Some(_), Some(last)) = (part, &facts.last) {
                facts.blind = None;
                facts.good = facts.good.max(last.sent);
            }
        }
    }

    fn answered(
        &mut self,
        task: usize,
        part: &PartTruth,
        attempt: &Attempt,
        server: usize,
        world: &World,
    ) {
        if part.moved {
            return self.open(task);
        }
        let earlier = match part.has_lock {
            true => None,
            false => attempt.before.iter().find(|before| before.task == task),
        };
        let sent = earlier.and_then(|before| before.sent).unwrap_or(attempt.sent);
        let main = earlier.unwrap_or(part);
        // The key became malformed, or ceased to be, during the read.
        let odd = |states: &Vec<LockState>| {
            states.len() > 1 && states.iter().any(|it| Found::of(it) == Found::Nothing)
        };
        if main.lock.as_ref().is_some_and(odd) {
            return self.open(task);
        }
        let facts = &mut self.tasks[task];
        if facts.last.as_ref().is_some_and(|last| last.server != server && last.sent > sent) {
            return;
        }
        if main.has_beside || world.tasks[task].keys.switches.is_empty() {
            self.read_switches(task, main, sent, server, world);
        }
        let facts = &mut self.tasks[task];
        if facts.limits.stale_after_ms.is_some() && main.has_beside {
            facts.reference.read_progress(attempt.sent, part.progress.as_ref());
            facts.reference.progress.unsure |= part.mixed;
        }
        let says = if facts.lost.any() { Says::Yes } else { facts.says };
        let found = match main.lock.as_deref() {
            Some([state]) => Found::of(state),
            Some(states @ [.., last]) => {
                // It found one of these states; the next readings show which.
                facts.reference.perhaps_over(states);
                Found::of(last)
            }
            Some([]) | None => Found::Nothing,
        };
        if let (Some(last), Found::Held { holders, .. }) = (&facts.last, &found)
            && !world.tasks[task].stations.is_empty()
        {
            let anew = |who: &[u8]| world.held_anew(task, who, last.from, main.ended_at);
            match holders.iter().find_map(|(who, _)| anew(who)) {
                Some(true) => facts.reference.held_anew(),
                Some(false) => {
                    (facts.reference.unsure, facts.reference.progress.unsure) = (true, true);
                }
                None => {}
            }
        }
        facts.reference.unsure |= main.mixed;
        facts.lost.unsure |= main.mixed;
        facts.mixed = main.mixed;
        if self.kind == RedisKind::Replicated && splits::rivals(world, server) {
            self.rivals_at = Some(world.now);
        }
        // The other server's reading counts for two intervals and a second, and may have been in
        // flight for as long as the timeout.
        let lately_ms = 2 * self.interval_ms + 1_000 + self.timeout_ms;
        // Where nobody but the servers says who is master, a free lock beside another master's held
        // one says nothing. The one that was read before may have gone meanwhile: what it showed
        // does not go with it.
        let other = facts
            .last
            .as_ref()
            .filter(|last| self.kind == RedisKind::Replicated && last.server != server);
        let mut rivals = self.rivals_at.into_iter().chain(other.map(|last| last.to));
        let contradicts = found == Found::Free && rivals.any(|at| world.now <= at + lately_ms);
        facts.reference.unsure |= contradicts;
        facts.contradicted |= contradicts;
        // A remaining time read before and after other clients were served gives two different
        // deadlines.
        let found = match found {
            Found::Held { holders, .. } if !self.exact && main.began_at != main.ended_at => {
                facts.reference.unsure = true;
                Found::Held { holders, deadline: None }
            }
            other => other,
        };
        let changing = main.lock.as_ref().is_some_and(|states| states.len() > 1);
        let sure = !changing && !main.mixed && !contradicts && !facts.lost.unsure;
        let stepped =
            facts.last.as_ref().filter(|last| last.server == server).is_some_and(|last| {
                let true_ms =
                    i64::try_from(main.ended_at).unwrap_or(0) - i64::try_from(last.to).unwrap_or(0);
                (main.clock - last.clock - true_ms).abs() > STEP_MS
            });
        if stepped {
            facts.reference.clock_stepped(main.clock);
        }
        (facts.reference.server, facts.reference.clock) = (server, main.clock);
        facts.reference.read(sent, &found, says, sure, facts.limits);
        // Uncertainty at the time of the read remains afterwards, because a lost "on" would stay in
        // force.
        facts.reference.unsure |= facts.lost.unsure || main.mixed || changing;
        // Since when it is wanted counts here, too; and since when it is held, which goes on for an
        // agent that does not believe a "free".
        facts.reference.progress.unsure |= part.mixed || facts.lost.unsure || contradicts;
        facts.hazy |= main.mixed || changing;
        if found == Found::Nothing {
            facts.newest = Newest::Failed;
            facts.blind.get_or_insert(facts.good);
            return;
        }
        let was_held = facts
            .last
            .as_ref()
            .is_some_and(|last| matches!(last.states[..], [LockState::Held { .. }]));
        if was_held && !contradicts && !facts.reference.unsure {
            facts.contradicted = false;
        }
        facts.newest = Newest::Answered;
        facts.before = facts.last.take();
        facts.last = Some(Answer {
            sent,
            server,
            from: main.began_at,
            to: main.ended_at,
            whole: main.answered_at.max(main.ended_at),
            states: main.lock.clone().unwrap_or_default(),
            clock: main.clock,
            clock_after: attempt.truth.as_ref().map_or(main.clock, |truth| truth.clock_after),
        });
        if found == Found::Free && says == Says::Unclear {
            // A lost "on" would stay in force, and then the answer counts as sight.
            facts.hazy |= facts.lost.unsure;
            facts.blind.get_or_insert(facts.good);
        } else {
            if facts.blind.take().is_some() {
                facts.sees_since = main.began_at;
            }
            facts.good = facts.good.max(attempt.sent);
            facts.hazy =
                main.mixed || changing || (facts.lost.unsure && facts.says == Says::Unclear);
        }
        self.follow_overlap(task, world);
        self.follow_turns(task);
    }

    /// The keys moved to another server, or became malformed, during the read. It is unknown what
    /// was found before that.
    fn open(&mut self, task: usize) {
        let facts = &mut self.tasks[task];
        facts.newest = Newest::Open;
        (facts.reference.unsure, facts.reference.unwanted_unsure) = (true, true);
        (facts.lost.unsure, facts.mixed, facts.hazy) = (true, true, true);
    }

    fn read_switches(
        &mut self,
        task: usize,
        part: &PartTruth,
        sent: Mono,
        server: usize,
        world: &World,
    ) {
        let facts = &mut self.tasks[task];
        let now = Asked {
            server,
            from: part.began_at,
            to: part.ended_at,
            whole: part.answered_at.max(part.ended_at),
        };
        match &part.switches {
            // There are no switches, or they are constant.
            Some(None) => facts.says = part.says,
            None => facts.says = Says::Unclear,
            Some(Some(switches)) => {
                facts.says = part.says;
                let changed = match facts.switches_at {
                    Some(before) => Changed::between(before, now, world),
                    None => Changed::default(),
                };
                let since = facts.switches_at.map_or(0, |before| before.from);
                let lately = |lost: &&LostSwitches| {
                    lost.server == server && (since..=now.to).contains(&lost.at)
                };
                let lost = world.tasks[task]
                    .lost_switches
                    .iter()
                    .filter(lately)
                    .flat_map(|lost| &lost.users);
                facts.lost.read(sent, switches, changed, part.mixed, |user| {
                    lost.clone().any(|other| other == user)
                });
                facts.switches_at = Some(now);
            }
        }
    }

    /// Checks an event of the agent's state.
    pub(crate) fn event(&mut self, event: &Event, world: &World, coverage: &mut Coverage) {
        coverage.event(event);
        let Subject::Task(spec) = &event.subject else { return };
        let Some(task) = position(spec, world) else { return };
        match &event.kind {
            EventKind::HoldEnded { holders, reason, .. } => {
                self.check_end(task, holders, *reason, world)
            }
            EventKind::LockLost { holders, sign } => self.check_lost(task, holders, *sign, world),
            EventKind::GapEnded { gap_ms } => self.check_handover(task, *gap_ms, world),
            EventKind::SplitBegan { kind, parties, .. } => {
                self.count_overrun(task, *kind, parties, coverage);
                self.check_split(task, *kind, parties, world)
            }
            _ => {}
        }
    }

    /// The agent's engine ticked at `at`.
    ///
    /// Without any attempt for two intervals and two timeouts, the newest answer is outdated.
    pub(crate) fn tick(&mut self, at: Mono) {
        self.ticked = at;
        let stale_ms = 2 * (self.interval_ms + self.timeout_ms);
        for facts in &mut self.tasks {
            let newest = match facts.newest {
                Newest::Answered => facts.last.as_ref().map(|last| last.sent),
                // It may have found something.
                Newest::Open => facts.last.as_ref().map(|last| last.sent.max(facts.tried)),
                Newest::Never | Newest::Failed => None,
            };
            if newest.is_some_and(|newest| at.since_ms(newest) > stale_ms) {
                facts.newest = Newest::Failed;
                facts.unasked();
                facts.blind.get_or_insert(facts.good);
            }
        }
    }

    /// Checks the agent's present snapshot.
    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot, world: &World, coverage: &mut Coverage) {
        self.check_soon(world);
        self.check_overruns(world, coverage);
        for view in &snapshot.tasks {
            let Some(task) = position(&view.spec, world) else { continue };
            coverage.view(view, snapshot.at);
            if view.queue().is_some() {
                self.check_queue(task, view, snapshot.at, world);
                self.check_queue_live(task, view, snapshot.at, world);
                self.check_pause(task, view, snapshot.at, world);
                continue;
            }
            if view.lock().is_some() {
                self.check_reading(task, view, world);
                self.check_renewals(task, view, world);
            }
            self.check_turns(task, view, snapshot.at, world);
            self.check_durations(task, view, snapshot.at, world);
            self.check_verdict(task, view, world);
            self.check_live(task, view, snapshot.at, world);
            self.check_pause(task, view, snapshot.at, world);
            self.check_problems(task, view, snapshot.at, world);
        }
    }

    /// The shown lock must be what the newest answer found, holder and deadline together, or
    /// nothing.
    fn check_reading(&mut self, task: usize, view: &TaskView, world: &World) {
        let facts = &self.tasks[task];
        let shown = match (view.held, &view.lock().unwrap().hold) {
            (None, _) => None,
            (Some(false), _) => Some(Found::Free),
            (Some(true), Some(hold)) => {
                let holders = hold
                    .holders
                    .iter()
                    .map(|(holder, _)| (holder.client.clone(), holder.entries.unwrap_or(1)));
                Some(Found::Held {
                    holders: holders.collect(),
                    deadline: hold.deadline.map(|deadline| deadline.0),
                })
            }
            (Some(true), None) => Some(Found::Nothing),
        };
        let is_answered = facts.newest == Newest::Answered;
        let fits = match (&shown, &facts.last) {
            _ if facts.newest == Newest::Open => true,
            (None, _) if !is_answered => true,
            // A free lock beside another master's held one.
            (None, Some(last)) => {
                self.kind == RedisKind::Replicated && last.states.contains(&LockState::Free)
            }
            (Some(shown), Some(last)) if is_answered => {
                last.states.iter().any(|state| self.shows(shown, &Found::of(state), last))
            }
            _ => false,
        };
        if !fits {
            let what = format!(
                "{}: shows {}, but the newest attempt {:?} found {}",
                view.spec.name,
                told(shown.as_ref()),
                facts.newest,
                facts.last.as_ref().map_or(String::new(), |last| format!(
                    "{:?} on server {}",
                    last.states
                        .iter()
                        .map(|state| told(Some(&Found::of(state))))
                        .collect::<Vec<_>>(),
                    last.server
                )),
            );
            self.blame(world, "reading", what);
        }
    }

    fn shows(&self, shown: &Found, found: &Found, last: &Answer) -> bool {
        match (shown, found) {
            (Found::Free, Found::Free) => true,
            (Found::Held { holders, deadline }, Found::Held { holders: real, deadline: truly }) => {
                // A server that reports only the remaining time reads its clock one command
                // earlier. The deadline is too early by that, up to twice the noise.
                let tolerance = if self.exact {
                    NOISE_MS
                } else {
                    2 * NOISE_MS + i64::try_from(last.to - last.from).unwrap_or(0)
                };
                let same = match (deadline, truly) {
                    (Some(shown), Some(real)) => (shown - real).abs() <= tolerance,
                    (None, None) => true,
                    // It moved during the read, or has none. On a server that reports only the
                    // remaining time, also when other clients were served between reading the clock
                    // and that time.
                    (None, Some(_)) => {
                        last.states.len() > 1 || (!self.exact && last.from != last.to)
                    }
                    (Some(_), None) => false,
                };
                holders.len() == real.len()
                    && real.iter().all(|holder| holders.contains(holder))
                    && same
            }
            _ => false,
        }
    }

    /// Durations must match the readings to the millisecond; the rules define which instants count.
    fn check_durations(&mut self, task: usize, view: &TaskView, at: Mono, world: &World) {
        let facts = &self.tasks[task];
        let (shown, name) = (&view.durations, &view.spec.name);
        let mut wrong = Vec::new();
        let mut same = |check: &'static str, shown: u64, real: u64| {
            if shown != real {
                wrong.push((
                    check,
                    format!("{name}: {check} is shown as {shown} ms, the readings prove {real} ms"),
                ));
            }
        };
        if !facts.reference.unsure && !facts.lost.unsure {
            same("down", shown.down_ms, facts.reference.gap_ms());
            let is_lock = view.lock().is_some();
            if !facts.reference.unwanted_unsure && is_lock {
                same("unwanted", shown.unwanted_ms, facts.reference.unwanted_ms());
            }
            if !facts.reference.progress.unsure && is_lock {
                same("stalled", shown.stalled_ms, facts.reference.stalled_ms());
            }
        }
        if !facts.lost.unsure {
            same("switches_lost", shown.switches_lost_ms, facts.lost.ms());
        }
        let blind_ms = facts.blind.map_or(0, |_| at.since_ms(facts.good));
        // Between two ticks it is what the newest attempt or tick showed. An attempt counts from
        // the instant at which it was sent.
        let least_ms = facts.blind.map_or(0, |_| self.ticked.min(facts.tried).since_ms(facts.good));
        if !facts.hazy
            && self.kind != RedisKind::Replicated
            && !(least_ms..=blind_ms).contains(&shown.blind_ms)
        {
            wrong.push((
                "blind",
                format!(
                    "{name}: blind is shown as {} ms, the last answer is {blind_ms} ms old",
                    shown.blind_ms
                ),
            ));
        }
        for (check, what) in wrong {
            self.blame(world, check, what);
        }
    }
}

/// The position of a task in the plan.
fn position(spec: &Arc<TaskSpec>, world: &World) -> Option<usize> {
    world.plan.spec.tasks.iter().position(|other| other.name == spec.name)
}

/// A state of a lock as text.
fn told(found: Option<&Found>) -> String {
    match found {
        None => "unknown".to_owned(),
        Some(Found::Free) => "free".to_owned(),
        Some(Found::Nothing) => "nothing".to_owned(),
        Some(Found::Held { holders, deadline }) => {
            let who: Vec<String> = holders
                .iter()
                .map(|(who, count)| format!("{}x{count}", String::from_utf8_lossy(who)))
                .collect();
            format!("held by {} until {deadline:?}", who.join(" and "))
        }
    }
}
