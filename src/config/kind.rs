//! What guards a task: exactly one of the blocks `lock`, `turn` and `queue`.

use lockwatch_judge::limit::Limit;
use lockwatch_judge::spec::{
    Claimants, KeyPattern, KindSpec, LockSpec, Name, QueueSpec, RunsSpec, Score, TurnSpec, Unit,
    ValuePath,
};
use lockwatch_watch::redis::libraries::{self, Library};
use lockwatch_watch::redis::value::Finder;
use lockwatch_watch::zookeeper::recipes;
use serde_yaml::Value;

use super::block::{Block, choice};
use super::mistake::Reported;
use super::pattern;
use super::redises::Redises;
use super::roles::{Roles, read_key};
use super::schema::{BlockSpec, HOLDER, HOST, LOCK, MEMBER_ID, QUEUE, RUNS, TURN};
use super::values::{bytes, count, duration_ms, key, text};
use super::{stores, threshold};

/// The fields that only a task with a lock has.
const OF_LOCKS: [&str; 6] = ["settle", "wind_down", "progress", "max_hold", "guard", "runs"];

/// Maximum number of holders of a semaphore.
const LIMIT_MAX: usize = 1_000_000;

/// The library of a queue's locks for which none is configured.
const QUEUE_LIBRARY: &str = "string";

/// Reads what guards a task.
pub(super) fn read(
    task: &Block<'_>,
    redises: Option<&Redises>,
    roles: &mut Roles,
) -> Result<KindSpec, Reported> {
    let remedy = task.called(
        "write `lock: {key: …}`, or `turn`, or `queue`",
        "write `lock: {path: …}`, or `turn`",
    );
    let field = task.exactly_one(&["lock", "turn", "queue"], remedy)?;
    let refuse = |fields: &[&str]| {
        let present = fields.iter().filter(|field| task.value(field).is_some());
        let mistakes = present.map(|other| {
            let message = format!("applies only to `lock` tasks, not to `{field}`");
            task.report(other, message + "; remove it")
        });
        // Each is reported.
        let mistakes: Vec<Reported> = mistakes.collect();
        mistakes.into_iter().next().map_or(Ok(()), Err)
    };
    match field {
        "turn" => {
            // The names in the hash say who it is.
            let fits = refuse(&[&OF_LOCKS[..], &["hosts"]].concat());
            let turn = read_turn(task, roles);
            fits.and(turn).map(KindSpec::Turn)
        }
        // It is refused.
        "queue" if task.is_in_zookeeper() => Err(Reported),
        "queue" => {
            let fits = refuse(&[&OF_LOCKS[..], &["grace"]].concat());
            let queue = read_queue(task, roles);
            fits.and(queue).map(KindSpec::Queue)
        }
        _ => {
            let lock = read_lock(task, redises, roles);
            let runs = read_runs(task);
            Ok(KindSpec::Lock(LockSpec { runs: runs?.map(Box::new), ..lock? }))
        }
    }
}

fn read_lock(
    task: &Block<'_>,
    redises: Option<&Redises>,
    roles: &mut Roles,
) -> Result<LockSpec, Reported> {
    let Some(lock) = task.child("lock", &LOCK)? else { return Err(Reported) };
    if task.is_in_zookeeper() {
        return read_zookeeper_lock(task, &lock, roles);
    }
    let key = match lock.value("match") {
        Some(_) => pattern::glob(&lock),
        None => read_key(&lock, "key", roles),
    };
    let library = lock.either("library", "scheme").and_then(|field| {
        let known = |value: &_| choice(value, "library", &libraries::ALL, |one| one.name());
        Ok(lock.optional(field, known)?.map_or(libraries::DEFAULT, |library| library.name()))
    });
    let lease_ms = threshold::optional(Limit::Lease, &lock);
    let renew_every_ms = threshold::optional(Limit::RenewEvery, &lock);
    if let (Ok(Some(lease_ms)), Ok(Some(renew_every_ms))) = (lease_ms, renew_every_ms)
        && let Some(mistake) = threshold::renew_every_mistake(renew_every_ms, lease_ms)
    {
        lock.report("renew_every", mistake);
    }
    let field = lock.optional("field", bytes);
    let holder = read_path(&lock, "holder", &HOLDER);
    let host = read_path(&lock, "host", &HOST);
    if let Ok(name) = library
        && !libraries::named(name).is_some_and(|library| library.takes_a_path())
    {
        refuse_beside_layout(&lock, name)?;
    }
    refuse_two_hosts(task, &lock)?;
    let scores = read_scores(&lock, library, lease_ms);
    let stores = stores::read_several(&lock, redises);
    let spec = libraries::lock(&key?, library?);
    let (field, holder, host, (score, limit)) = (field?, holder?, host?, scores?);
    let (holder, host) = (holder.map(Box::new), host.map(Box::new));
    let claimants = if holder.is_some() { Claimants::Named } else { spec.claimants };
    let (lease_ms, renew_every_ms) = (lease_ms?, renew_every_ms?);
    let spec = LockSpec { score, limit, claimants, lease_ms, renew_every_ms, ..spec };
    Ok(LockSpec { field, holder, host, stores: stores?.map(Box::new), ..spec })
}

/// A lock in ZooKeeper: its folder, and whose clients queue in it. The holder is a session, and by
/// its id it makes claims.
fn read_zookeeper_lock(
    task: &Block<'_>,
    lock: &Block<'_>,
    roles: &mut Roles,
) -> Result<LockSpec, Reported> {
    let path = read_key(lock, "path", roles);
    let recipe =
        lock.optional("library", |value| choice(value, "library", &recipes::ALL, |one| one.name()));
    let host = read_path(lock, "host", &HOST);
    refuse_two_hosts(task, lock)?;
    let library = recipe?.map_or(recipes::DEFAULT, |recipe| recipe.name());
    Ok(LockSpec {
        never_expires: true,
        claimants: Claimants::Threads,
        host: host?.map(Box::new),
        ..LockSpec::new(&path?, library)
    })
}

fn refuse_two_hosts(task: &Block<'_>, lock: &Block<'_>) -> Result<(), Reported> {
    match (lock.value("host"), task.value("hosts")) {
        (Some(_), Some(_)) => {
            Err(lock.report("host", "cannot be combined with `hosts`; keep one of them"))
        }
        _ => Ok(()),
    }
}

/// The field of its block in which the key, or the path, of what guards a task stands.
pub(super) fn field_of_key(kind: &KindSpec, task: &Block<'_>) -> &'static str {
    match kind {
        KindSpec::Lock(lock) if lock.field.is_some() => "field",
        KindSpec::Lock(_) => task.called("key", "path"),
        KindSpec::Turn(turn) if turn.in_value => "path",
        KindSpec::Turn(_) => task.called("hash", "children"),
        KindSpec::Queue(_) => "zset",
    }
}

/// Refuses what only a plain text can be or have: the layout of this library says the rest.
fn refuse_beside_layout(lock: &Block<'_>, library: &str) -> Result<(), Reported> {
    const WHY: [(&str, &str); 3] = [
        ("field", "whose locks are no fields"),
        ("holder", "whose value is read as that library writes it"),
        ("host", "whose layout names no host, or as its holder"),
    ];
    let refuse = |(field, why): &(&str, &str)| {
        let message = format!(
            "says nothing of a lock of `library: {library}`, {why}; remove it, or write \
             `library: string`"
        );
        lock.value(field).map(|_| lock.report(field, message))
    };
    // Each is reported.
    let mistakes: Vec<Reported> = WHY.iter().filter_map(refuse).collect();
    mistakes.into_iter().next().map_or(Ok(()), Err)
}

/// What the scores of a lock's members mean, and how many may hold it.
fn read_scores(
    lock: &Block<'_>,
    library: Result<&str, Reported>,
    lease_ms: Result<Option<u64>, Reported>,
) -> Result<(Option<Score>, Option<u32>), Reported> {
    let has_scores = libraries::named(library?).is_some_and(|library| library.needs_score());
    if !has_scores {
        let present = ["score", "limit"].into_iter().filter(|field| lock.value(field).is_some());
        let report = |field| lock.report(field, "applies only to `library: zset`; remove it");
        // Each is reported.
        let mistakes: Vec<Reported> = present.map(report).collect();
        return mistakes.into_iter().next().map_or(Ok((None, None)), Err);
    }
    let remedy = "write `score: refreshed` and `lease: 10s` for redis-semaphore, or `score: \
                  deadline` for symfony/lock";
    let known = |value: &_| choice(value, "score", &Score::ALL, Score::name);
    let score = lock.required("score", remedy, known);
    let limit = lock.optional("limit", |value| count(value, LIMIT_MAX))?;
    match (score?, lease_ms?, limit) {
        (Score::Refreshed, None, _) => Err(lock.report(
            "score",
            "needs `lease`; write the `lockTimeout` of the semaphore, `lease: 10s`",
        )),
        (Score::Deadline, _, Some(_)) => {
            Err(lock.report("limit", "applies only to `score: refreshed`; remove it"))
        }
        (score, _, limit) => {
            Ok((Some(score), limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX))))
        }
    }
}

/// How often a periodic task runs. Between two runs its lock is free, and nothing is wrong.
fn read_runs(task: &Block<'_>) -> Result<Option<RunsSpec>, Reported> {
    let Some(runs) = task.child("runs", &RUNS)? else { return Ok(None) };
    let refused = ["wanted", "grace"].into_iter().filter(|field| task.value(field).is_some());
    let refused = refused.map(|field| {
        let message = "does not apply to a task with `runs`, whose lock is free between two runs: \
                       `every` and `late_after` say when a run is missing; remove it, also from \
                       the anchor if it came by `<<`";
        task.report(field, message)
    });
    // Each is reported.
    let refused: Vec<Reported> = refused.collect();
    let every_ms = runs.required(
        "every",
        "write `every: 1h`, from one run's beginning to the \
                                 next one's",
        duration_ms(Limit::Every.min_ms()),
    );
    let late_after_ms = threshold::optional(Limit::LateAfter, &runs);
    let max_ms = threshold::optional(Limit::Max, &runs);
    let default = RunsSpec::new(every_ms?);
    let spec = RunsSpec {
        late_after_ms: late_after_ms?.unwrap_or(default.late_after_ms),
        max_ms: max_ms?,
        ..default
    };
    refused.into_iter().next().map_or(Ok(Some(spec)), Err)
}

/// A value path, if there is one.
fn read_path(
    block: &Block<'_>,
    field: &str,
    spec: &BlockSpec,
) -> Result<Option<ValuePath>, Reported> {
    const REMEDY: &str = "write `json: /owner`, or `regex: \"^[0-9]+:(.*)$\"` with one group";
    let Some(path) = block.child(field, spec)? else { return Ok(None) };
    let form = path.exactly_one(&["json", "regex"], REMEDY)?;
    path.optional(form, |value| {
        let text = text(value)?.into();
        let path = if form == "json" { ValuePath::Json(text) } else { ValuePath::Regex(text) };
        Finder::new(&path).map(|_| path)
    })
}

fn read_turn(task: &Block<'_>, roles: &mut Roles) -> Result<TurnSpec, Reported> {
    let Some(turn) = task.child("turn", &TURN)? else { return Err(Reported) };
    const NODES: &str = "write `children: …`: a node whose child's name is the task, or `path: …` \
                         of a node with a JSON object";
    let field = match turn.is_in_zookeeper() {
        true => turn.exactly_one(&["children", "path"], NODES),
        false => Ok("hash"),
    };
    let hash = field.and_then(|field| read_key(&turn, field, roles));
    let unit = read_unit(&turn, Unit::Milliseconds);
    let remedy = "write `tasks: [a, b]`, the names that take turns, in their order";
    let names =
        turn.required_list("tasks", TurnSpec::TASKS_MAX, remedy, key, |one, other| one == other);
    let max_late_ms = threshold::or(Limit::MaxLate, &turn, TurnSpec::MAX_LATE_MS);
    let handover_ms = turn.optional("handover", duration_ms(1));
    let min_turn_ms = turn.optional("min_turn", duration_ms(1));
    let least_ms = match unit {
        Ok(Unit::Seconds) => TurnSpec::HANDOVER_OF_SECONDS_MS,
        Ok(Unit::Milliseconds) | Err(_) => 1,
    };
    if let Ok(Some(handover_ms)) = handover_ms
        && handover_ms < least_ms
    {
        return Err(turn.report(
            "handover",
            "is too short for `unit: s`: within a second the same values may come again; use at \
             least 1250ms",
        ));
    }
    Ok(TurnSpec {
        hash: hash?,
        in_value: field? == "path",
        unit: unit?,
        tasks: names?.into_iter().map(Name).collect(),
        max_late_ms: max_late_ms?,
        handover_ms: handover_ms?.unwrap_or(TurnSpec::HANDOVER_MS.max(least_ms)),
        min_turn_ms: min_turn_ms?,
    })
}

fn read_queue(task: &Block<'_>, roles: &mut Roles) -> Result<QueueSpec, Reported> {
    let Some(queue) = task.child("queue", &QUEUE)? else { return Err(Reported) };
    let zset = read_key(&queue, "zset", roles);
    let unit = read_unit(&queue, Unit::Seconds);
    let id = read_path(&queue, "id", &MEMBER_ID);
    let pattern = queue.optional("lock", |value| {
        KeyPattern::parse(&bytes(value)?)
            .ok_or_else(|| "does not have `{id}` in it just once; write \"lock_{id}\"".to_owned())
    });
    let library = queue
        .optional("library", queue_library)
        .map(|library| library.or_else(|| libraries::named(QUEUE_LIBRARY)));
    if let (None, Some(_)) = (queue.value("lock"), queue.value("library")) {
        let message = "is the layout of the locks, and there is no `lock`; remove it, or write \
                       `lock: \"lock_{id}\"`";
        queue.report("library", message);
    }
    if let Ok(Some(library)) = library
        && !library.is_key()
    {
        let name = library.name();
        queue.report("library", format!("cannot be `{name}`: the locks of a queue are keys"));
    }
    let max_late_ms = threshold::or(Limit::MaxLate, &queue, QueueSpec::MAX_LATE_MS);
    let library = library?.ok_or(Reported)?;
    Ok(QueueSpec {
        unit: unit?,
        id: id?,
        renewals_per_lease: library.renewals_per_lease(),
        claimants: library.claimants(),
        max_late_ms: max_late_ms?,
        ..QueueSpec::new(&zset?, pattern?, library.name())
    })
}

/// The library of a queue's locks, which are configured by nothing else.
fn queue_library(value: &Value) -> Result<&'static dyn Library, String> {
    let library = choice(value, "library", &libraries::ALL, |one| one.name())?;
    match library.needs_score() {
        true => {
            Err("cannot be `zset` here: a queue has no `score` for its locks; watch each lock \
                     as a task"
                .to_owned())
        }
        false => Ok(library),
    }
}

fn read_unit(block: &Block<'_>, default: Unit) -> Result<Unit, Reported> {
    block.or("unit", default, |value| choice(value, "unit", &Unit::ALL, Unit::name))
}
