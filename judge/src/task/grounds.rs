//! Gathers the grounds of a task's problems that all kinds share.

use alloc::vec::Vec;

use crate::grounds::{Problem, follow};
use crate::problems::task_finding;
use crate::shared::Shared;
use crate::shared::clocks::GapClock;
use crate::shared::switches::Switches;
use crate::snapshot::TaskView;
use crate::time::Mono;

/// Updates the grounds as of the newest step, at `at`; `readable`: the newest attempts answered
/// everything that matters.
pub(super) fn update(shared: &mut Shared, held: Option<bool>, readable: bool, at: Mono) {
    let switches = shared.wanting.as_ref().map(|wanting| &wanting.switches);
    let grounds = &mut shared.grounds;
    grounds.switches_kept = switches.is_some_and(Switches::are_kept);
    grounds.answered_ms = shared.blind.answered_ms();
    let mut since = grounds.since();
    match switches {
        Some(switches) if switches.have_key() && !switches.key_seen => {
            if switches.why_unknown().is_none() {
                since.switches_unseen.get_or_insert(at);
            }
        }
        _ => since.switches_unseen = None,
    }
    // What cannot be read at all goes on, and is not shown.
    if let Some(held) = held {
        let is_unread = switches.is_some_and(Switches::are_undecodable);
        follow(&mut since.undecodable, held && is_unread, at);
    }
    grounds.note_since(since);
    grounds.readable = readable && shared.blind.ms() == 0;
    grounds.was_readable |= grounds.readable;
    if grounds.readable && !shared.splits.kinds().is_empty() {
        grounds.rare().split = Some(at);
    }
}

/// Whether alerts wait from now on, or no longer; `None`: that did not change.
pub(super) fn changed_pause(shared: &Shared, at: Mono) -> Option<bool> {
    let paused = shared.pause.until.is_some_and(|until| at < until);
    (paused != shared.grounds.is_paused()).then_some(paused)
}

/// The problems that are positive.
pub(super) fn positive(view: &TaskView, at: Mono) -> Vec<Problem> {
    let is_positive = |problem: &Problem| task_finding(*problem, view, at).is_positive();
    Problem::ALL.into_iter().filter(is_positive).collect()
}

/// Updates until when alerts wait, and what was published. While a short hold lasts, a gap stays
/// `down` only if it was published while the lock was free.
pub(super) fn update_published(shared: &mut Shared, at: Mono) {
    let grounds = &mut shared.grounds;
    let until = shared.pause.until.filter(|until| at < *until);
    if until != grounds.rare.as_ref().and_then(|rare| rare.pause_until) {
        grounds.rare().pause_until = until;
    }
    let is_down = grounds.readable && shared.judged.is_some_and(|it| it.facts.is_down());
    let withheld = grounds.rare.as_ref().is_some_and(|rare| rare.withholds(Problem::Down));
    if let (Some(wanting), true, false) = (&mut shared.wanting, is_down, withheld) {
        wanting.gap.publish();
    }
    let gap = shared.wanting.as_ref().map(|wanting| &wanting.gap);
    let short_holds = gap.map(GapClock::short_holds).unwrap_or_default();
    grounds.published_down = gap.is_some_and(GapClock::is_published);
    if short_holds != grounds.short_holds() {
        grounds.rare().short_holds = short_holds;
    }
}
