//! The configuration that matters for a verdict, in the syntax of the file.

use lockwatch_judge::spec::{
    Codec, Key, KindSpec, LockSpec, ProgressSource, QueueSpec, TaskSpec, TurnSpec, ValuePath,
    WantedSource,
};

use super::Setting;
use super::seen::Seen;
use crate::config::{INTERVAL, TIMEOUT, ms};
use crate::text::durations::duration_text;

/// The lines, those of the Redis store first. A value that equals the default is marked, whether it
/// is written in the file or not.
pub(super) fn settings(seen: Seen<'_>) -> Vec<Setting> {
    let spec = &*seen.view.spec;
    let mut lines: Vec<Setting> = Vec::new();
    if let Some(redis) = seen.redis() {
        let of_redis = |name, ms, default_ms| {
            duration_line(&format!("redis.{}.{name}", redis.spec.name), ms, default_ms)
        };
        lines.push(of_redis("interval", redis.spec.interval_ms, ms(INTERVAL)));
        lines.push(of_redis("timeout", redis.spec.timeout_ms, ms(TIMEOUT)));
    }
    lines.push(match &spec.kind {
        KindSpec::Lock(spec) => written(format!("lock: {}", lock(spec))),
        KindSpec::Turn(spec) => written(format!("turn: {}", turn(spec))),
        KindSpec::Queue(spec) => written(format!("queue: {}", queue(spec))),
    });
    lines.push(match &spec.wanted {
        None => Setting { line: "wanted: (not configured)".to_owned(), default: true },
        Some(wanted) => written(format!("wanted: {}", source(&wanted.source, wanted.codec))),
    });
    lines.push(duration_line("grace", spec.grace_ms, TaskSpec::GRACE_MS));
    lines.push(duration_line("settle", spec.settle_ms, TaskSpec::SETTLE_MS));
    lines.push(duration_line("wind_down", spec.wind_down_ms, TaskSpec::WIND_DOWN_MS));
    lines.push(duration_line("blind_after", spec.blind_after_ms, TaskSpec::BLIND_AFTER_MS));
    lines.extend(spec.progress.as_ref().map(|progress| {
        let stale_after = duration_text(progress.stale_after_ms);
        let source = match &progress.source {
            ProgressSource::HashField { key, field } => {
                format!("hash: {}, field: {}", text(key), text(field))
            }
            ProgressSource::Key(key) => format!("key: {}", text(key)),
            ProgressSource::Length(key) => format!("length: {}", text(key)),
            ProgressSource::Score { key, member } => {
                format!("zset: {}, member: {}", text(key), text(member))
            }
            ProgressSource::Stream(key) => format!("stream: {}", text(key)),
        };
        let moves = progress.moves.map(|moves| format!(", moves: {}", moves.name()));
        let moves = moves.unwrap_or_default();
        written(format!("progress: {{{source}{moves}, stale_after: {stale_after}}}"))
    }));
    lines.extend(spec.claims.as_ref().map(|claims| {
        let fresh_for = duration_text(claims.fresh_for_ms);
        written(format!("claims: {{hash: {}, fresh_for: {fresh_for}}}", text(&claims.key)))
    }));
    lines.extend(spec.hosts.as_ref().map(|key| written(format!("hosts: {{hash: {}}}", text(key)))));
    lines.extend(
        spec.paused_until
            .as_ref()
            .map(|key| written(format!("paused_until: {{key: {}}}", text(key)))),
    );
    lines.extend(spec.max_hold_ms.map(|ms| written(format!("max_hold: {}", duration_text(ms)))));
    lines
}

fn written(line: String) -> Setting {
    Setting { line, default: false }
}

fn duration_line(name: &str, ms: u64, default_ms: u64) -> Setting {
    Setting { line: format!("{name}: {}", duration_text(ms)), default: ms == default_ms }
}

fn turn(turn: &TurnSpec) -> String {
    let tasks: Vec<String> = turn.tasks.iter().map(|task| text(&task.0)).collect();
    let (hash, unit, tasks) = (text(&turn.hash), turn.unit.name(), tasks.join(", "));
    let mut text = format!("{{hash: {hash}, unit: {unit}, tasks: [{tasks}]");
    let limits = [
        ("max_late", Some(turn.max_late_ms)),
        ("handover", Some(turn.handover_ms)),
        ("min_turn", turn.min_turn_ms),
    ];
    for (name, ms) in limits {
        text.extend(ms.map(|ms| format!(", {name}: {}", duration_text(ms))));
    }
    text + "}"
}

fn queue(queue: &QueueSpec) -> String {
    let mut shown = format!("{{zset: {}, unit: {}", text(&queue.zset), queue.unit.name());
    shown.extend(queue.id.as_ref().map(|id| format!(", id: {}", path(id))));
    shown.extend(queue.lock.as_ref().map(|lock| {
        format!(", lock: {}, library: {}", text(&lock.text()), queue.library.as_str())
    }));
    shown + &format!(", max_late: {}}}", duration_text(queue.max_late_ms))
}

fn path(path: &ValuePath) -> String {
    let (form, path) = path.parts();
    format!("{{{form}: {}}}", text(&path.as_bytes().to_vec()))
}

fn lock(lock: &LockSpec) -> String {
    let mut text = format!("{{key: {}, library: {}", text(&lock.key), lock.library.as_str());
    text.extend(lock.holder.as_ref().map(|holder| format!(", holder: {}", path(holder))));
    for (name, ms) in [("lease", lock.lease_ms), ("renew_every", lock.renew_every_ms)] {
        text.extend(ms.map(|ms| format!(", {name}: {}", duration_text(ms))));
    }
    text + "}"
}

fn source(source: &WantedSource, codec: Codec) -> String {
    let codec =
        if codec == Codec::Raw { String::new() } else { format!(", codec: {}", codec.name()) };
    match source {
        WantedSource::Hash(key) => format!("{{hash: {}{codec}}}", text(key)),
        WantedSource::Set(key) => format!("{{set: {}{codec}}}", text(key)),
        WantedSource::Counter(key) => format!("{{counter: {}{codec}}}", text(key)),
        WantedSource::Keys(keys) => {
            let keys: Vec<String> = keys.iter().map(text).collect();
            format!("{{keys: [{}]{codec}}}", keys.join(", "))
        }
        WantedSource::Always => "always".to_owned(),
        WantedSource::Never => "never".to_owned(),
    }
}

/// A key in the syntax of the configuration: text, or the hex digits of other bytes.
fn text(key: &Key) -> String {
    let plain = |text: &&str| {
        !text
            .chars()
            .any(|it| it.is_control() || !it.escape_debug().eq([it]) && !"\"'".contains(it))
    };
    match std::str::from_utf8(key).ok().filter(plain) {
        Some(text) => format!("\"{}\"", text.replace('"', "\\\"")),
        None => format!("{{hex: {}}}", hex::encode(key)),
    }
}
