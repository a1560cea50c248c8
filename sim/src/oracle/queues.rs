//! Queues of delayed tasks: what waits, what left without having been executed, what was executed
//! twice, and whether nothing moves.

use std::collections::BTreeMap;

use lockwatch_judge::event::{Party, SplitKind};
use lockwatch_judge::problems::{Problem, task_finding};
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::spec::{QueueSpec, TaskSpec};
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::Verdict;

use super::Oracle;
use crate::agent::{Attempt, MONO_MS};
use crate::request::{Members, PartTruth, Says};
use crate::truth::LockState;
use crate::world::{Execution, World};

/// The engine shows with its next tick what follows from a reading, and answers take a while.
const SHOWN_MS: u64 = 1_500;
/// Evidence of a split is at most so old when it is reported, in milliseconds.
const MET_MS: u64 = 60_000;
/// A claim is written each two seconds. To be told from a last one, that of the first worker must
/// change twice, and be seen to.
const CLAIMS_MS: u64 = 8_000;
/// The shortest `blind_after` of any plan, in milliseconds: what was unread for longer may not
/// count.
const BLIND_MS: u64 = 10_000;
/// No member must wait for so long until it is told, in milliseconds.
const UNREAD_KEPT_MS: u64 = 3_600_000;
/// A slot has moved within that time, in milliseconds.
const MOVE_MS: u64 = 5_000;
/// Other clients are served for so long within an answer, in milliseconds.
const BESIDE_MS: i64 = 400;

/// What the readings of one queue showed.
#[derive(Debug)]
pub(super) struct QueueFacts {
    spec: QueueSpec,
    /// The newest attempt was answered.
    is_read: bool,
    newest: Option<Answer>,
    /// Stretches without an answer that may be too long to count: the first instant after each, and
    /// its length.
    unread: Vec<(Mono, u64)>,
    due: BTreeMap<Vec<u8>, Due>,
    /// When a member that was due was last seen to have left; or the first answer.
    moved: Mono,
    /// At most so many members left without their lock having been seen held.
    vanished: u64,
    /// How often another holder may seem to have begun, beyond what happened.
    again: u64,
    wanted_since: Option<Mono>,
}

/// A member that was due.
#[derive(Debug)]
struct Due {
    due: i64,
    /// The agent certainly saw that it was due.
    is_certain: bool,
    was_locked: bool,
    /// When its lock was last seen held.
    locked: Option<Mono>,
    /// The answer before the one that first showed it.
    unseen: Mono,
}

#[derive(Debug)]
struct Answer {
    sent: Mono,
    server: usize,
    members: Members,
    /// The server's clock at its beginning and at its end.
    clock: (i64, i64),
    /// Nothing changed meanwhile.
    is_sure: bool,
}

impl QueueFacts {
    pub(super) fn of(spec: &TaskSpec, now: u64) -> Option<QueueFacts> {
        let queue = spec.queue()?.clone();
        Some(QueueFacts {
            spec: queue,
            is_read: false,
            newest: None,
            unread: Vec::new(),
            due: BTreeMap::new(),
            moved: Mono(MONO_MS + now),
            vanished: 0,
            again: 0,
            wanted_since: None,
        })
    }

    /// A good answer.
    fn answered(&mut self, answer: Answer) {
        let at = answer.sent;
        let unread_ms = self.newest.as_ref().map_or(0, |before| at.since_ms(before.sent));
        self.unread.extend((unread_ms > BLIND_MS).then_some((at, unread_ms)));
        self.unread.retain(|(until, _)| at.since_ms(*until) < UNREAD_KEPT_MS);
        let unseen = self.newest.as_ref().map_or(at, |before| before.sent);
        let is_other = self.newest.as_ref().is_some_and(|before| before.server != answer.server);
        if is_other {
            self.again += self.due.len() as u64;
        }
        let place = |id: &Vec<u8>| answer.members.iter().find(|(other, ..)| other == id);
        let mut moved = false;
        let vanished = &mut self.vanished;
        self.due.retain(|id, was| match place(id) {
            Some((_, due, _)) => {
                moved |= *due != was.due && was.is_certain;
                *due == was.due
            }
            None => {
                moved |= was.is_certain;
                *vanished += u64::from(!was.was_locked);
                false
            }
        });
        // What another server lacks may have been lost, or never have come there.
        if moved && !is_other {
            self.moved = at;
        }
        for (place, (id, due, lock)) in answer.members.iter().enumerate() {
            if *due > answer.clock.1 {
                continue;
            }
            let member = self.due.entry(id.clone()).or_insert(Due {
                due: *due,
                is_certain: false,
                was_locked: false,
                locked: None,
                unseen,
            });
            let is_certain = answer.is_sure && place < QueueSpec::FIRST;
            member.is_certain |= is_certain && *due + BESIDE_MS < answer.clock.0;
            if lock.is_some() {
                member.locked = Some(at);
                member.was_locked |= answer.is_sure;
            }
            // Of a member behind those that are looked at nothing is remembered.
            member.was_locked &= place < QueueSpec::FIRST;
        }
        self.newest = Some(answer);
        self.is_read = true;
    }

    /// These members may have been read, though that is not known.
    fn may_have_read(&mut self, members: &Members, at: Mono, clock: i64) {
        let unseen = self.newest.as_ref().map_or(at, |before| before.sent);
        for (id, due, _) in members.iter().filter(|(_, due, _)| *due <= clock) {
            let new = Due { due: *due, is_certain: false, was_locked: false, locked: None, unseen };
            self.due.entry(id.clone()).or_insert(new);
        }
    }

    /// Whether something may have waited for too long, as the newest answer showed it.
    fn may_be_late(&self, answer: &Answer, task: usize, slack_ms: u64, world: &World) -> bool {
        let limit_ms = self.spec.max_late_ms;
        let still_ms = answer.sent.since_ms(self.moved);
        let server = answer.server;
        let real = world.tasks[task].queues.as_ref();
        // By the clock of the server that decided before it may have been due earlier.
        let ruled_at = world.rulers.last().map_or(0, |(at, _)| *at);
        let stepped_at = world.settled_at.max(ruled_at);
        answer.members.iter().any(|(id, due, _)| {
            let told = self.due.get(id);
            let since_ms = |at| answer.sent.since_ms(at);
            let seen_ms = told.and_then(|told| told.locked).map_or(u64::MAX, since_ms);
            // What a restart or a failover brought back may have been there since it was not seen.
            let unseen_ms = told.map_or(0, |told| since_ms(told.unseen));
            // As long as it is so, the world says for how long it has truly been.
            let truly_ms = |at: usize| {
                let it = real.and_then(|real| real.members[at].get(id))?;
                // A lock that was taken and given back between two readings is not known.
                let since = it.due_since(&world.servers[at].clock, stepped_at, world.now)?;
                let is_back = it.gone.is_some_and(|(_, before)| before == *due);
                let back_ms = if is_back { unseen_ms } else { 0 };
                Some((world.now - since).max(back_ms) + slack_ms)
            };
            // Another server may have decided before: a replica gets late what its master has. And
            // it may have waited on the server from which its slot has moved.
            let has_moved = || {
                let own = real.and_then(|real| real.members[server].get(id));
                own.is_some_and(|it| world.moved_at[task].abs_diff(it.since) < MOVE_MS)
            };
            let truly_ms = truly_ms(server)
                .filter(|_| !has_moved())
                .and_then(|_| (0..world.servers.len()).filter_map(truly_ms).max())
                .unwrap_or(u64::MAX);
            // What was due by the clock before it stepped goes on waiting.
            let is_due = *due <= answer.clock.1 || told.is_some();
            let free_ms = if is_due { seen_ms.min(truly_ms) } else { 0 };
            free_ms > limit_ms && (still_ms > limit_ms || free_ms > 10 * limit_ms)
        })
    }
}

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
    pub(super) fn executed_beside(&self, task: usize, parties: &[Party], world: &World) -> bool {
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

    /// A queue that truly stalls, and a member that two workers execute, must be told in time.
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
        let now = at.0 - MONO_MS;
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
        let says = &real.wanting[world.besides[task]];
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
            let unread = queue.unread.iter().filter(|(until, _)| until.0 - MONO_MS > since);
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
