//! A task's configuration in force, by the names of the fields in the file.

use std::borrow::Cow;
use std::fmt::Write as _;

use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::spec::{
    KindSpec, LockSpec, Moves, ProgressSource, QueueSpec, TaskSpec, TurnSpec, ValuePath,
    WantedSource,
};

use super::html::Text;
use super::words::limit;
use crate::text::identity::{escape, list};

/// Maximum number of keys that are named.
const NAMED_MAX: usize = 20;
const NOT_SET: &str = "not set";

pub(super) fn section(view: &TaskView) -> String {
    let mut html = String::from(
        "<section aria-labelledby=\"settings\"><h2 id=\"settings\">Configuration</h2><dl \
         class=\"facts\">",
    );
    for (field, value) in fields(view) {
        // Writing to a `String` cannot fail.
        let _ = write!(
            html,
            "<div><dt><code>{}</code></dt><dd>{}</dd></div>",
            Text(&field),
            Text(&value)
        );
    }
    html.push_str("</dl></section>");
    html
}

/// The name of a field, and its value.
type Field<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Every field and its value. Untrusted text is escaped as by [`escape`].
fn fields(view: &TaskView) -> Vec<Field<'_>> {
    let TaskSpec {
        name,
        store: _,
        kind,
        wanted,
        progress,
        claims,
        hosts,
        paused_until,
        grace_ms,
        settle_ms,
        wind_down_ms,
        blind_after_ms,
        max_hold_ms,
        labels,
        full_metrics,
    } = &*view.spec;
    let mut fields: Vec<Field<'_>> = vec![
        ("name".into(), escape(name.as_bytes())),
        ("redis".into(), escape(view.store.as_bytes())),
    ];
    match kind {
        KindSpec::Lock(lock) => fields.extend(lock_fields(view, lock)),
        KindSpec::Turn(turn) => fields.extend(turn_fields(turn)),
        KindSpec::Queue(queue) => fields.extend(queue_fields(queue)),
    }
    match wanted {
        None => fields.push(("wanted".into(), NOT_SET.into())),
        Some(wanted) => {
            let keys =
                |keys: &[Vec<u8>]| list(keys.iter().map(|key| escape(key)), NAMED_MAX).into();
            fields.push(match &wanted.source {
                WantedSource::Hash(key) => ("wanted.hash".into(), escape(key)),
                WantedSource::Set(key) => ("wanted.set".into(), escape(key)),
                WantedSource::Counter(key) => ("wanted.counter".into(), escape(key)),
                WantedSource::Keys(all) => ("wanted.keys".into(), keys(all)),
                WantedSource::Always => ("wanted".into(), "always".into()),
                WantedSource::Never => ("wanted".into(), "never".into()),
            });
            fields.push(("wanted.codec".into(), wanted.codec.name().into()));
        }
    }
    match progress {
        None => fields.push(("progress".into(), NOT_SET.into())),
        Some(progress) => {
            match &progress.source {
                ProgressSource::HashField { key, field } => {
                    fields.push(("progress.hash".into(), escape(key)));
                    fields.push(("progress.field".into(), escape(field)));
                }
                ProgressSource::Key(key) => fields.push(("progress.key".into(), escape(key))),
                ProgressSource::Length(key) => fields.push(("progress.length".into(), escape(key))),
                ProgressSource::Score { key, member } => {
                    fields.push(("progress.zset".into(), escape(key)));
                    fields.push(("progress.member".into(), escape(member)));
                }
                ProgressSource::Stream(key) => fields.push(("progress.stream".into(), escape(key))),
            }
            let moves = progress.moves.map_or(NOT_SET, Moves::name);
            fields.push(("progress.moves".into(), moves.into()));
            fields.push(("progress.stale_after".into(), limit(progress.stale_after_ms).into()));
        }
    }
    match claims {
        None => fields.push(("claims".into(), NOT_SET.into())),
        Some(claims) => {
            fields.push(("claims.hash".into(), escape(&claims.key)));
            fields.push(("claims.fresh_for".into(), limit(claims.fresh_for_ms).into()));
        }
    }
    let key = |key: &'static str, value: Option<&'_ Vec<u8>>| {
        (key.into(), value.map_or(NOT_SET.into(), |value| Cow::Owned(escape(value).into_owned())))
    };
    fields.push(key("hosts.hash", hosts.as_ref()));
    fields.push(key("paused_until.key", paused_until.as_ref()));
    let limits = [
        ("grace", grace_ms),
        ("settle", settle_ms),
        ("wind_down", wind_down_ms),
        ("blind_after", blind_after_ms),
    ];
    fields.extend(limits.map(|(name, ms)| (name.into(), limit(*ms).into())));
    fields.push(("max_hold".into(), max_hold_ms.map_or(NOT_SET.into(), |ms| limit(ms).into())));
    let metrics = if *full_metrics { "full" } else { "lean" };
    fields.push(("metrics".into(), metrics.into()));
    for (name, value) in labels {
        let value = if value.is_empty() { NOT_SET.into() } else { escape(value.as_bytes()) };
        fields.push((format!("labels.{}", escape(name.as_bytes())).into(), value));
    }
    fields
}

fn lock_fields<'a>(view: &TaskView, lock: &'a LockSpec) -> Vec<Field<'a>> {
    let lease_ms = view.lock().and_then(|lock| lock.lease_ms);
    let period_ms = view.lock().and_then(|lock| lock.renewal_period_ms);
    let holder = lock.holder.as_ref().map(|path| ("lock.holder".into(), written_path(path)));
    let learned = [
        ("lock.lease".into(), or_learned(lock.lease_ms, lease_ms)),
        ("lock.renew_every".into(), or_learned(lock.renew_every_ms, period_ms)),
    ];
    let named = [
        ("lock.key".into(), escape(&lock.key)),
        ("lock.library".into(), lock.library.as_str().into()),
    ];
    named.into_iter().chain(holder).chain(learned).collect()
}

fn written_path(path: &ValuePath) -> Cow<'_, str> {
    let (form, path) = path.parts();
    format!("{form}: {}", escape(path.as_bytes())).into()
}

fn turn_fields(turn: &TurnSpec) -> [Field<'_>; 6] {
    let min_turn = turn.min_turn_ms.map_or(NOT_SET.into(), |ms| limit(ms).into());
    [
        ("turn.hash".into(), escape(&turn.hash)),
        ("turn.unit".into(), turn.unit.name().into()),
        (
            "turn.tasks".into(),
            list(turn.tasks.iter().map(|task| escape(&task.0)), NAMED_MAX).into(),
        ),
        ("turn.max_late".into(), limit(turn.max_late_ms).into()),
        ("turn.handover".into(), limit(turn.handover_ms).into()),
        ("turn.min_turn".into(), min_turn),
    ]
}

fn queue_fields(queue: &QueueSpec) -> Vec<Field<'_>> {
    let set = [
        ("queue.zset".into(), escape(&queue.zset)),
        ("queue.unit".into(), queue.unit.name().into()),
    ];
    let id = queue.id.as_ref().map(|path| ("queue.id".into(), written_path(path)));
    let lock = match &queue.lock {
        Some(lock) => Cow::Owned(escape(&lock.text()).into_owned()),
        None => NOT_SET.into(),
    };
    let library = queue.lock.as_ref().map(|_| queue.library.as_str());
    let library = library.map(|library| ("queue.library".into(), library.into()));
    let max_late = ("queue.max_late".into(), limit(queue.max_late_ms).into());
    let fields = set.into_iter().chain(id).chain([("queue.lock".into(), lock)]).chain(library);
    fields.chain([max_late]).collect()
}

/// The configured value, or else the one learned from the lock itself.
fn or_learned(configured: Option<u64>, learned: Option<u64>) -> Cow<'static, str> {
    match (configured, learned) {
        (Some(ms), _) => limit(ms).into(),
        (None, Some(ms)) => format!("{} (learned)", limit(ms)).into(),
        (None, None) => "not set, not learned yet".into(),
    }
}
