//! What was true of each task, as seen by the second witness. Sets contain only what is certain: an
//! instant in neither of two opposite sets may belong to either.

use super::read::{LockSeen, Logs, Look, ServerLog, SwitchSeen};
use super::spans::Spans;
use crate::campaign::clock::{Micros, SECOND};
use crate::campaign::header::Header;

/// Maximum length of a look, and maximum distance of two, in microseconds. Beyond it, the time
/// between them is unknown, unless the server was stopped.
const LONG: Micros = SECOND / 2;
/// How long before and after the majority of Sentinels name a server an agent may take it for the
/// master.
const NAMED_FOR: Micros = 3 * SECOND / 2;

/// What was true of a task.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    pub(super) held: Spans,
    pub(super) free: Spans,
    /// The lock has two holders.
    pub(super) doubled: Spans,
    /// Two servers that both report to be master show two holders.
    pub(super) rival: Spans,
    pub(super) wanted: Spans,
    pub(super) unwanted: Spans,
    /// When its progress changed, on any server.
    pub(super) moved: Vec<Micros>,
    pub(super) has_progress: Spans,
    /// When a switch that was on disappeared.
    pub(super) lost: Vec<Micros>,
    /// When a switch disappeared, whatever its value was.
    pub(super) gone: Vec<Micros>,
}

/// The truth of all tasks, and when it is known which server decides.
pub(super) struct Truths {
    pub(super) tasks: Vec<Truth>,
    /// By Redis: when more than one server, or none, may have been the deciding one.
    pub(super) undecided: Vec<Spans>,
    /// By Redis: when the witness did not look although it could have.
    pub(super) unseen: Vec<Spans>,
}

pub(super) fn truths(logs: &Logs) -> Truths {
    let whole = (logs.begin, logs.end);
    let mut tasks = vec![Truth::default(); logs.header.tasks.len()];
    let (mut undecided, mut unseen) = (Vec::new(), Vec::new());
    for (redis, _) in logs.header.redises.iter().enumerate() {
        let servers: Vec<&ServerLog> =
            logs.servers.iter().filter(|server| server.redis == redis).collect();
        let deciding = deciding(logs, redis, servers.len());
        let doubt =
            twice(&deciding).or(&union(&deciding).within(whole)).and(&Spans::one(whole.0, whole.1));
        let mut not_looked = Spans::default();
        let looked: Vec<Looked> = servers.iter().map(|server| Looked::new(server)).collect();
        for (looked, deciding) in looked.iter().zip(&deciding) {
            not_looked = not_looked.or(&looked.starved.and(deciding));
        }
        unseen.push(not_looked);
        for (index, _) in logs.header.tasks_of(redis) {
            let Some(truth) = tasks.get_mut(index) else { continue };
            truth.rival = rivals(&servers, &looked, index);
            let each: Vec<Truth> = servers
                .iter()
                .zip(&looked)
                .map(|(server, looked)| of_server(server, looked, index, &logs.header))
                .collect();
            let all =
                |part: fn(&Truth) -> &Spans| everywhere(each.iter().map(part), &deciding, whole);
            truth.held = all(|truth| &truth.held);
            truth.free = all(|truth| &truth.free);
            truth.doubled = all(|truth| &truth.doubled);
            truth.wanted = all(|truth| &truth.wanted);
            truth.unwanted = all(|truth| &truth.unwanted).minus(&switched_on(logs, index));
            truth.has_progress = all(|truth| &truth.has_progress);
            let any = |part: fn(&Truth) -> &Vec<Micros>| {
                let parts = each.iter().zip(&deciding);
                let mut instants: Vec<Micros> = parts
                    .flat_map(|(truth, deciding)| {
                        part(truth).iter().copied().filter(|at| deciding.contains(*at))
                    })
                    .collect();
                instants.sort_unstable();
                instants
            };
            truth.moved = any(|truth| &truth.moved);
            truth.gone = any(|truth| &truth.gone);
            // A server that no longer decides, or does not yet, may have lost what the others have.
            truth.lost = any(|truth| &truth.lost);
            truth.lost.retain(|at| !doubt.contains(*at));
        }
        undecided.push(doubt);
    }
    Truths { tasks, undecided, unseen }
}

/// From each "on" that a user wrote to the next write. A server that reads off in between has lost
/// the write: nobody switched it off, and an observer may know that.
fn switched_on(logs: &Logs, task: usize) -> Spans {
    let writes: Vec<_> = logs.switches.iter().filter(|line| line.task == task).collect();
    let ends = writes.iter().skip(1).map(|next| next.at).chain([logs.end]);
    Spans::new(
        writes.iter().zip(ends).filter(|(line, _)| line.on).map(|(line, end)| (line.sent, end)),
    )
}

/// When two of these servers, both masters by their own report, showed different holders of a lock.
fn rivals(servers: &[&ServerLog], looked: &[Looked], task: usize) -> Spans {
    let shown = |server: &ServerLog, looked: &Looked| -> Vec<(Micros, Micros, String)> {
        let none = Vec::new();
        let locks = timeline(&looked.ok, server.locks.get(&task).unwrap_or(&none));
        let mut holds: Vec<(Micros, Micros, String)> = Vec::new();
        for pair in between(server, &locks).filter(|pair| pair.before.master) {
            let Some(holder) = pair.was.holder.clone() else { continue };
            match holds
                .last_mut()
                .filter(|(_, to, last)| *to == pair.before.sent && *last == holder)
            {
                Some((_, to, _)) => *to = pair.after.sent,
                None => holds.push((pair.before.sent, pair.after.sent, holder)),
            }
        }
        holds
    };
    let all: Vec<_> =
        servers.iter().zip(looked).map(|(server, looked)| shown(server, looked)).collect();
    let mut both = Vec::new();
    for (at, one) in all.iter().enumerate() {
        for other in all.iter().skip(at + 1) {
            for (from, to, holder) in one {
                let beside = other
                    .iter()
                    .filter(|(begin, end, who)| who != holder && begin < to && from < end);
                both.extend(beside.map(|(begin, end, _)| (*from.max(begin), *to.min(end))));
            }
        }
    }
    Spans::new(both)
}

/// By server: when it may have been the deciding one.
fn deciding(logs: &Logs, redis: usize, servers: usize) -> Vec<Spans> {
    let Some(named) = logs.named.get(&redis) else {
        return vec![Spans::one(logs.begin, logs.end); servers];
    };
    let mut stretches: Vec<Vec<(Micros, Micros)>> = vec![Vec::new(); servers];
    let mut now: Option<(usize, Micros)> = None;
    for (at, name) in named.iter().chain([&(logs.end, None)]) {
        if let Some((server, since)) = now
            && let Some(of) = stretches.get_mut(server)
        {
            of.push((since.saturating_sub(NAMED_FOR), at + NAMED_FOR));
        }
        // The last named server remains named until another one is.
        now = name.or(now.map(|(server, _)| server)).map(|server| (server, *at));
    }
    stretches.into_iter().map(Spans::new).collect()
}

fn union(sets: &[Spans]) -> Spans {
    Spans::new(sets.iter().flat_map(Spans::iter))
}

/// Instants that are in at least two of the sets.
fn twice(sets: &[Spans]) -> Spans {
    let mut both = Spans::default();
    for (at, one) in sets.iter().enumerate() {
        for other in sets.iter().skip(at + 1) {
            both = both.or(&one.and(other));
        }
    }
    both
}

/// Instants at which all servers that may decide show it, and at least one may.
fn everywhere<'a>(
    parts: impl Iterator<Item = &'a Spans>,
    deciding: &[Spans],
    whole: (Micros, Micros),
) -> Spans {
    let mut all = union(deciding).and(&Spans::one(whole.0, whole.1));
    for (part, deciding) in parts.zip(deciding) {
        all = all.and(&part.or(&deciding.within(whole)));
    }
    all
}

/// The looks that were answered, and the periods between them.
struct Looked {
    ok: Vec<usize>,
    slow: Vec<usize>,
    /// When the witness did not look, for reasons other than the server.
    starved: Spans,
}

impl Looked {
    fn new(server: &ServerLog) -> Looked {
        let indices = |wanted: fn(&Look) -> bool| -> Vec<usize> {
            server
                .looks
                .iter()
                .enumerate()
                .filter(|(_, look)| wanted(look))
                .map(|(at, _)| at)
                .collect()
        };
        let pairs = server.looks.windows(2);
        let pauses = pairs.filter_map(|pair| match pair {
            [before, after] if after.sent > before.received + LONG => {
                Some((before.received, after.sent))
            }
            _ => None,
        });
        Looked {
            ok: indices(|look| look.ok),
            slow: indices(|look| look.ok && look.slow),
            starved: Spans::new(pauses),
        }
    }
}

/// What one server shows of one task.
fn of_server(server: &ServerLog, looked: &Looked, task: usize, header: &Header) -> Truth {
    let lease_ms = header.times.lease;
    let mut truth = Truth::default();
    let none = Vec::new();
    let locks = timeline(&looked.ok, server.locks.get(&task).unwrap_or(&none));
    let (mut held, mut free, mut doubled) = (Vec::new(), Vec::new(), Vec::new());
    // A slow answer may reflect the start or the end of its duration.
    let mut blurred = Vec::new();
    for pair in between(server, &locks) {
        let (from, to, long) = (pair.before.received, pair.after.sent, pair.is_unseen());
        let (was, is) = (pair.was, pair.is);
        if was.holder != is.holder {
            let looks = [pair.before, pair.after]
                .into_iter()
                .filter(|look| look.received <= look.sent + LONG);
            blurred.extend(looks.map(|look| (look.sent, look.received)));
        }
        // A lock that was taken just before the server stopped, and expired before it continued,
        // was never visible.
        let outlasts = |since: Micros, until: Micros| until >= since + lease_ms * 1_000;
        let free_from =
            if outlasts(pair.before.sent, pair.before.received) { from } else { pair.before.sent };
        match (was.holder.as_ref(), is.holder.as_ref()) {
            (Some(one), Some(other))
                if one == other && renewed_in_time(pair.was, pair.is, lease_ms) =>
            {
                held.push((pair.before.sent, pair.after.received));
                if one.contains(',') {
                    doubled.push((pair.before.sent, pair.after.received));
                }
            }
            // It may have been released at once, also just before the server stopped.
            (Some(_), _) => held.push((pair.before.sent, from)),
            // A lock that was taken just before the server refused all clients has expired
            // meanwhile, or was lost with the data.
            (None, None) if pair.refused.is_some() => {
                let over = pair.refused.unwrap_or_default() + lease_ms * 1_000;
                free.extend([(free_from, from), (over, pair.after.received)]);
            }
            (None, None)
                if !long
                    || (pair.is_stopped()
                        && !outlasts(pair.before.received, pair.after.received)) =>
            {
                free.push((free_from, pair.after.received));
            }
            (None, _) => free.push((free_from, if long { from } else { from.min(to) })),
        }
    }
    let blurred = Spans::new(blurred);
    (truth.held, truth.free) = (Spans::new(held).minus(&blurred), Spans::new(free).minus(&blurred));
    truth.doubled = Spans::new(doubled);

    let none = Vec::new();
    let switches = timeline(&looked.slow, server.switches.get(&task).unwrap_or(&none));
    let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
    for pair in between(server, &switches) {
        let stretch = (pair.before.sent, pair.after.received);
        match (*pair.was, *pair.is) {
            (SwitchSeen::On, SwitchSeen::On) => wanted.push(stretch),
            (SwitchSeen::Off, SwitchSeen::Off) => unwanted.push(stretch),
            (SwitchSeen::On, SwitchSeen::Absent) => {
                truth.lost.push(pair.after.sent);
                truth.gone.push(pair.after.sent);
            }
            (SwitchSeen::Off, SwitchSeen::Absent) => truth.gone.push(pair.after.sent),
            _ => {}
        }
    }
    (truth.wanted, truth.unwanted) = (Spans::new(wanted), Spans::new(unwanted));

    let none = Vec::new();
    let changes = server.progress.get(&task).unwrap_or(&none);
    truth.moved =
        changes.iter().filter_map(|(look, _)| Some(server.looks.get(*look)?.sent)).collect();
    let progress = timeline(&looked.slow, changes);
    let present = between(server, &progress).filter(|pair| *pair.was && *pair.is);
    truth.has_progress = Spans::new(present.map(|pair| (pair.before.sent, pair.after.received)));
    truth
}

/// Whether the same holder had the lock from one look to the other: it was renewed before its lease
/// was over.
fn renewed_in_time(was: &LockSeen, is: &LockSeen, lease_ms: u64) -> bool {
    let Ok(lease_ms) = i64::try_from(lease_ms) else { return false };
    was.deadline_ms == is.deadline_ms || is.deadline_ms - lease_ms <= was.deadline_ms
}

/// The state at each of these looks; none before the first one known.
fn timeline<'a, T>(looks: &[usize], changes: &'a [(usize, T)]) -> Vec<(usize, &'a T)> {
    let mut known = changes.iter().peekable();
    let mut now = None;
    let mut states = Vec::with_capacity(looks.len());
    for look in looks {
        while let Some((_, state)) = known.next_if(|(at, _)| at <= look) {
            now = Some(state);
        }
        states.extend(now.map(|state| (*look, state)));
    }
    states
}

/// Two successive known looks, and what lies between them.
struct Pair<'a, T> {
    before: Look,
    after: Look,
    was: &'a T,
    is: &'a T,
    /// When the first refused look between them was sent: from then on no client could change
    /// anything.
    refused: Option<Micros>,
}

impl<T> Pair<'_, T> {
    /// Whether something may have happened unseen between them.
    fn is_unseen(&self) -> bool {
        self.after.received > self.before.received + LONG
    }

    /// Whether the server served nobody: the witness waited for its answer, or was refused.
    fn is_stopped(&self) -> bool {
        self.refused.is_some() || self.after.received > self.after.sent + LONG
    }
}

fn between<'a, T>(
    server: &'a ServerLog,
    states: &'a [(usize, &'a T)],
) -> impl Iterator<Item = Pair<'a, T>> {
    states.windows(2).filter_map(|two| match two {
        &[(a, was), (b, is)] => {
            let (before, after) = (*server.looks.get(a)?, *server.looks.get(b)?);
            let refused =
                server.looks.get(a + 1..b)?.iter().find(|look| !look.ok).map(|look| look.sent);
            Some(Pair { before, after, was, is, refused })
        }
        _ => None,
    })
}
