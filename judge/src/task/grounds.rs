//! Gathers the grounds of a task's problems.

use alloc::vec::Vec;

use super::{Kind, Watched};
use crate::clocks::GapClock;
use crate::grounds::{Problem, follow};
use crate::problems::task_finding;
use crate::switches::Switches;
use crate::time::Mono;

impl<K: Kind> Watched<K> {
    /// Follows the grounds as of the newest step, at `at`.
    pub(super) fn follow_grounds(&mut self, at: Mono) {
        K::follow_grounds(self, at);
        let switches = self.wanting.as_ref().map(|wanting| &wanting.switches);
        let grounds = &mut self.grounds;
        grounds.switches_kept = switches.is_some_and(Switches::are_kept);
        grounds.answered_ms = self.blind.answered_ms();
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
        if let Some(held) = self.kind.held() {
            let is_unread = switches.is_some_and(Switches::are_undecodable);
            follow(&mut since.undecodable, held && is_unread, at);
        }
        grounds.note_since(since);
        self.grounds.sighted = self.has_sight() && self.blind.ms() == 0;
        self.grounds.was_sighted |= self.grounds.sighted;
        if self.grounds.sighted && !self.splits.kinds().is_empty() {
            self.grounds.rare().split = Some(at);
        }
        let paused = self.pause.until.is_some_and(|until| at < until);
        if paused != self.grounds.is_paused() {
            let shown = if paused { self.positive(at) } else { Vec::new() };
            self.grounds.paused(paused, at, shown);
        }
        let until = self.pause.until.filter(|_| paused);
        if until != self.grounds.rare.as_ref().and_then(|rare| rare.pause_until) {
            self.grounds.rare().pause_until = until;
        }
        self.follow_published();
    }

    /// While a short hold lasts, a gap stays `down` only if it was published while the lock was
    /// free.
    fn follow_published(&mut self) {
        let is_down = self.grounds.sighted && self.judged.is_some_and(|it| it.facts.is_down());
        let withheld = self.grounds.rare.as_ref().is_some_and(|rare| rare.withholds(Problem::Down));
        if let (Some(wanting), true, false) = (&mut self.wanting, is_down, withheld) {
            wanting.gap.publish();
        }
        let gap = self.gap();
        let short_holds = gap.map(GapClock::short_holds).unwrap_or_default();
        self.grounds.published_down = gap.is_some_and(GapClock::is_published);
        if short_holds != self.grounds.short_holds() {
            self.grounds.rare().short_holds = short_holds;
        }
    }

    /// The problems that are positive.
    fn positive(&mut self, at: Mono) -> Vec<Problem> {
        let view = self.view(at);
        let is_so = |problem: &Problem| task_finding(*problem, &view, at).is_positive();
        Problem::ALL.into_iter().filter(is_so).collect()
    }
}
