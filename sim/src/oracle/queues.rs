//! Queues of delayed tasks: what waits, what left without having been executed, what was executed
//! twice, and whether nothing moves.

use lockwatch_judge::event::{Party, SplitKind};
use lockwatch_judge::problems::{Problem, task_finding};
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::spec::QueueSpec;
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::Verdict;

use super::queue_facts::{Answer, BESIDE_MS};
use super::state::Oracle;
use crate::agent::{Attempt, MONO_MS};
use crate::request::{PartTruth, Says};
use crate::truth::LockState;
use crate::world::{Execution, World};

/// The engine shows with its next tick what follows from a reading, and answers take a while.
const SHOWN_MS: u64 = 1_500;
/// Evidence of a split is at most so old when it is reported, in milliseconds.
const MET_MS: u64 = 60_000;
/// A claim is written each two seconds. To differ from a last one, that of the first worker must
/// change twice, and be seen to.
const CLAIMS_MS: u64 = 8_000;

impl Oracle {
    /// The agent attempted to read a queue.
    pub(super) fn attempt_queue(
        &mut self,
        task: usize,
        attempt: &Attempt,
        part: Option<&PartTruth>,
        good: bool,
        world: &World,
    ) {
        let first = attempt.before.iter().rfind(|before| before.task == task);
        let main = part.or(first).filter(|_| good);
        let Some((server, main)) = attempt.server.zip(main) else {
            if let Some(queue) = &mut self.tasks[task].queue {
                queue.is_read = false;
            }
            return;
        };
        let began = first.unwrap_or(main);
        self.read_switches(task, main, attempt.sent, server, world);
        let readable = main.members.is_some() && began.members.is_some();
        let wanted = self.tasks[task].wanted();
        let facts = &mut self.tasks[task];
        facts.hazy = main.mixed || began.mixed || main.moved || main.says != began.says;
        let Some(queue) = &mut facts.queue else { return };
        match wanted {
            Says::Yes => _ = queue.wanted_since.get_or_insert(attempt.sent),
            Says::No => queue.wanted_since = None,
            Says::Unclear | Says::Unset => {}
        }
        let whole = attempt.truth.as_ref().map_or(main.clock, |truth| truth.clock_after);
        let clock = (began.clock_began, main.clock.max(whole));
        if main.moved || !readable {
            queue.is_read = false;
            let known = [&began.members, &main.members].into_iter().flatten();
            return known.for_each(|some| queue.may_have_read(some, attempt.sent, clock.1));
        }
        let mut members = main.members.clone().unwrap_or_default();
        let is_sure = began.members.as_ref() == Some(&members) && !facts.hazy;
        // One that left during the read may have been found or not.
        if let Some(after) = &main.members_after {
            queue.may_have_read(&members, attempt.sent, clock.1);
            members.retain(|(id, ..)| after.iter().any(|(other, ..)| other == id));
        }
        let answer = Answer { sent: attempt.sent, server, members, clock, is_sure };
        queue.answered(answer);
    }

    /// Whether the parties executed one member side by side.
    pub(super) fn executed_together(&self, task: usize, parties: &[Party], world: &World) -> bool {
        let Some(real) = &world.tasks[task].queues else { return false };
        let of = |party: &Party| -> Vec<&Execution> {
            let lately = |one: &&Execution| one.to.is_none_or(|to| to + MET_MS > world.now);
            let executions = real.executions.iter().filter(lately);
            executions.filter(|one| one.token == party.holder.client).collect()
        };
        let [one, other, ..] = parties else { return false };
        let others = of(other);
        of(one).iter().any(|one| others.iter().any(|other| overlap(one, other)))
    }

    /// What is shown of a queue must be what was read.
    pub(super) fn check_queue(&mut self, task: usize, view: &TaskView, at: Mono, world: &World) {
        let facts = &self.tasks[task];
        let (Some(queue), Some(shown)) = (&facts.queue, view.queue()) else { return };
        let name = &view.spec.name;
        let mut wrong = Vec::new();
        if shown.vanished > queue.vanished {
            let what = format!(
                "{name}: {} members are said to have vanished, the readings allow {}",
                shown.vanished, queue.vanished
            );
            wrong.push(("vanished", what));
        }
        let again = world.tasks[task].queues.as_ref().map_or(0, |real| real.again) + queue.again;
        if shown.executed_again > again {
            let what = format!(
                "{name}: {} executions are said to be second ones, there were {again}",
                shown.executed_again
            );
            wrong.push(("executed again", what));
        }
        if matches!(view.verdict, Verdict::Down | Verdict::Pending | Verdict::Unwanted) {
            wrong.push(("verdict", format!("{name}: a queue is {}", view.verdict.name())));
        }
        let answer = queue.newest.as_ref().filter(|_| queue.is_read && !facts.hazy);
        if let (Some(answer), false) = (answer, facts.lost.unsure) {
            // After a step of the clock it may have become due at any time since the last reading.
            let slack_ms = 2 * self.interval_ms + self.timeout_ms;
            let late = task_finding(Problem::Stalled, view, at).is_positive();
            let wanted_ms = queue.wanted_since.map_or(0, |since| answer.sent.since_ms(since));
            let wanted = match facts.wanted() {
                Says::Yes => wanted_ms > queue.spec.max_late_ms,
                Says::Unset | Says::Unclear => true,
                Says::No => false,
            };
            if late && !(wanted && queue.may_be_late(answer, task, slack_ms, world)) {
                let what = format!(
                    "{name}: late by {} ms is said, wanted {} ({:?} for {wanted_ms} ms), last moved \
                     {:?}, {:?}",
                    shown.late_ms,
                    view.wanted.name(),
                    facts.wanted(),
                    queue.moved,
                    answer
                );
                wrong.push(("stalled", what));
            }
            if let (Some(oldest_ms), true) = (shown.oldest_due_ms, answer.is_sure) {
                let first = answer.members.iter().take(QueueSpec::FIRST);
                let free = first.filter(|(_, due, lock)| lock.is_none() && *due <= answer.clock.1);
                let oldest = free.map(|(_, due, _)| *due).min();
                let bounds = oldest.map_or((0, 0), |due| {
                    (answer.clock.0 - due - BESIDE_MS, answer.clock.1 - due + BESIDE_MS)
                });
                let is_so =
                    i64::try_from(oldest_ms).is_ok_and(|ms| (bounds.0..=bounds.1).contains(&ms));
                if !is_so {
                    let what = format!(
                        "{name}: {oldest_ms} ms is said of the oldest due, it was {bounds:?}: \
                         {answer:?}"
                    );
                    wrong.push(("oldest due", what));
                }
            }
        }
        for (check, what) in wrong {
            self.blame(world, check, what);
        }
    }

    /// A queue that truly stalls, and a member that two workers execute, must be reported in time.
    pub(super) fn check_queue_live(
        &mut self,
        task: usize,
        view: &TaskView,
        at: Mono,
        world: &World,
    ) {
        let Some(queue) = &self.tasks[task].queue else { return };
        let Some(visible) = self.visible_since(task, world) else { return };
        let real = &world.tasks[task];
        let Some(queues) = &real.queues else { return };
        let known_by =
            (visible + self.recovery_ms()).max(real.odd_at + 2 * self.interval_ms + 1_100);
        let now = at.ms() - MONO_MS;
        let server = world.homes[task];
        // A replica keeps malformed data that were removed from its master after a failover.
        let is_odd = real.past[server].newest().is_some_and(|it| it.state == LockState::Other);
        if now < known_by || real.odd.is_some() || is_odd {
            return;
        }
        let clock = &world.servers[server].clock;
        let name = &view.spec.name;
        let later_ms = 2 * self.interval_ms + SHOWN_MS;
        let limit_ms = queue.spec.max_late_ms;
        let says = &real.wanting[world.part_homes[task]];
        let wanted_since = if says.says == Says::Yes { says.since } else { 0 };
        let moved = queues.left[server].last().map_or(0, |left| left.at);
        let mut due: Vec<_> = queues.members[server]
            .values()
            .filter(|member| member.due.is_some_and(|due| due <= clock.at(now)))
            .collect();
        due.sort_by_key(|member| member.due);
        // The order of members with the same score does not matter, as long as all are looked at.
        let looked_at = if due.len() <= QueueSpec::FIRST { due.len() } else { 50 };
        let clock_changed_at = self.clock_changed_at(task, world);
        let waits = due.iter().take(looked_at).filter_map(|member| {
            let since = member.free_since(clock, 0, now)?;
            // By the clock of the server that decided before it may have been due later.
            let by = |due| world.servers.iter().map(move |server| server.clock.when(due)).max();
            let latest = member.due.and_then(by).unwrap_or(since);
            Some(since.max(latest.min(clock_changed_at)))
        });
        let oldest = waits.min();
        let is_late = oldest.is_some_and(|since| {
            let still = since.max(moved).max(known_by).max(wanted_since);
            // A new process does not know since when it was wanted before.
            let wanted = if says.says == Says::Yes { wanted_since.max(known_by) } else { 0 };
            let since = since.max(wanted);
            let unread = queue.unread.iter().filter(|(until, _)| until.ms() - MONO_MS > since);
            let unread_ms: u64 = unread.map(|(_, ms)| ms).sum();
            let passed_over = (since + 10 * limit_ms + unread_ms).max(known_by + limit_ms);
            now > still + limit_ms + later_ms || now > passed_over + later_ms
        });
        let counts = matches!(says.says, Says::Yes | Says::Unset);
        let mut missing = Vec::new();
        if is_late && counts && !task_finding(Problem::Stalled, view, at).is_positive() {
            let what = format!(
                "{name}: a member has waited for {} ms, none has left for {} ms, late is {} ms",
                now - oldest.unwrap_or(now),
                now - moved,
                view.durations.stalled_ms
            );
            missing.push(("missed stalled", what));
        }
        if view.held.is_none() {
            missing.push(("known", format!("{name}: all is in order, and it is unknown")));
        }
        let needed_ms = CLAIMS_MS + 5 * self.interval_ms + SHOWN_MS;
        let lives = |one: &&Execution| one.to.is_none() && one.claimed + 3_000 > now;
        let holds = |one: &&Execution| {
            let lock = queues.members[server].get(&one.id).and_then(|member| member.lock.newest());
            lock.is_some_and(|lock| {
                let is_over = lock.state.deadline().is_some_and(|end| end <= clock.at(now));
                lock.state.held_by(&one.token) && !is_over
            })
        };
        let twice = queues.executions.iter().filter(lives).filter(holds).find(|one| {
            let began = one.from.max(known_by);
            let others = queues.executions.iter().filter(lives);
            // The first one was seen with the lock, and the other one after it.
            let mut beside = others.filter(|other| {
                other.id == one.id && other.from < one.from && known_by + 3_000 < other.from
            });
            now > began + needed_ms && beside.next().is_some()
        });
        let is_said = view.splits.iter().any(|split| split.kind == SplitKind::Executions);
        if let (Some(one), false, true) = (twice, is_said, view.spec.claims.is_some()) {
            let id = String::from_utf8_lossy(&one.id).into_owned();
            missing.push((
                "missed split",
                format!(
                    "{name}: two workers execute {id}, and no split is said; claims {:?}, {} alive, \
                     began {}, {:?}",
                    view.claims_unknown,
                    view.live_claims.len(),
                    one.from,
                    view.queue().map(|queue| (queue.executed_again, queue.expired)),
                ),
            ));
        }
        for (check, what) in missing {
            self.blame(world, check, what);
        }
    }
}

fn overlap(one: &Execution, other: &Execution) -> bool {
    let end = |one: &Execution| one.to.unwrap_or(u64::MAX);
    one.id == other.id && one.from < end(other) && other.from < end(one)
}
