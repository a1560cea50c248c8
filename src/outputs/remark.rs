//! What else is worth knowing about a task.

use std::borrow::Cow;

use lockwatch_judge::snapshot::{HoldView, QueueView, TaskView};
use lockwatch_judge::spec::QueueSpec;
use lockwatch_watch::redis::libraries;

use super::queue::executions;
use crate::published::Published;
use crate::text::durations::duration_text;

/// What [`is_past`] says.
const PAST: &str = "The lock's value is a time in the past. If the holder writes when its \
                    lease ends, that is over and the key was left behind; if it writes when \
                    it began, nothing is wrong.";
/// Of a lock whose value identifies nobody.
const CONSTANT: &str = "The lock's value is the same whoever holds it, so holders cannot be told \
                        apart: no take-over and no split can be seen. Let each holder write a \
                        value of its own.";
/// A pause that ends later than this is not meant, in milliseconds: ten years.
const FAR_MS: u64 = 10 * 365 * 86_400_000;
/// Of such a pause.
const FAR_PAUSE: &str = "Alerts are paused for more than ten years. `paused_until` is read as Unix \
                         seconds: were milliseconds written?";
/// From this lease on, it is worth a word that a dead holder looks alive for so long.
const LONG_LEASE_MS: u64 = 3_600_000;
/// So many members that left show that their locks are never seen.
const LEFT_UNSEEN: u64 = 5;

/// The remarks, in sentences.
pub fn remarks(published: &Published, view: &TaskView) -> Vec<Cow<'static, str>> {
    let mut remarks: Vec<Cow<'static, str>> = Vec::new();
    if let Some(hold) = view.hold() {
        if is_past(published, view, hold) {
            remarks.push(PAST.into());
        }
        if !hold.holders.iter().all(|(holder, _)| holder.is_identified()) {
            let library = libraries::of_task(&view.spec);
            remarks.push(library.instead_of_a_name().unwrap_or(CONSTANT).into());
        }
        remarks.extend(long_lease(view, hold).map(Cow::from));
    }
    let until = view.grounds.rare.as_ref().and_then(|rare| rare.pause_until);
    if until.is_some_and(|until| until.since_ms(published.snapshot.at) > FAR_MS) {
        remarks.push(FAR_PAUSE.into());
    }
    let queue = view.queue().zip(view.spec.queue());
    remarks.extend(queue.and_then(|(queue, spec)| unseen_locks(queue, spec)).map(Cow::from));
    remarks
}

/// Whether a holder's value is a time in the past, of a library that does not say what its value
/// means. Which time it is stays secret: the value can release the lock.
pub fn is_past(published: &Published, view: &TaskView, hold: &HoldView) -> bool {
    let library = libraries::of_task(&view.spec);
    let mut instants =
        hold.holders.iter().filter_map(|(holder, _)| library.instant(&holder.client));
    instants.any(|instant| instant.ms() < published.wall.0)
}

/// A holder that crashed looks alive until its lease ends, unless something else shows it.
fn long_lease(view: &TaskView, hold: &HoldView) -> Option<String> {
    let lease_ms = view.lock()?.lease_ms.max(hold.ttl_ms)?;
    let is_watched = view.spec.max_hold_ms.is_some() || view.spec.progress.is_some();
    (lease_ms >= LONG_LEASE_MS && !is_watched).then(|| {
        format!(
            "After a crash of its holder, the lock looks held for up to {}: set `max_hold` or \
             `progress`.",
            duration_text(lease_ms.div_ceil(60_000) * 60_000)
        )
    })
}

/// Members leave, or are messages, and none of their locks was ever seen held: perhaps the pattern
/// of the locks is wrong.
pub fn unseen_locks(queue: &QueueView, spec: &QueueSpec) -> Option<String> {
    let lock = spec.lock.as_ref()?;
    let was_seen = queue.departed_locked > 0 || executions(queue).next().is_some();
    let are_json =
        spec.id.is_none() && queue.first.iter().any(|member| member.id.starts_with(b"{"));
    if was_seen || !(are_json || queue.departed >= LEFT_UNSEEN) {
        return None;
    }
    let remedy = match are_json {
        true => "The members are JSON: name the id in them with `id: {json: /id}`.",
        false => "Executions shorter than `interval` are not seen.",
    };
    let lock = crate::text::identity::escape(&lock.text()).into_owned();
    Some(format!("No lock of a member was ever seen held: is `lock: {lock}` right? {remedy}"))
}
