//! Tracks a task's switches: which users want it, and which "on" was lost together with the
//! server's data.

use alloc::vec::Vec;

use crate::continuity::generation::{Delta, Mark};
use crate::evidence::{CONFIRM_AFTER_MS, Seen};
use crate::reading::{self, Deadline, Ends, Switch, SwitchesReading, Unknown, User};
use crate::spec::{Codec, WantedSource, WantedSpec};
use crate::time::{Mono, ServerTime};
use crate::verdict::Wanted;

/// A switch and its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchView {
    /// The user.
    pub user: User,
    /// `Some(true)` on, `Some(false)` off, `None` undecodable.
    pub on: Option<bool>,
    /// The codec that would decode an undecodable value.
    pub fits: Option<Codec>,
}

impl SwitchView {
    pub(crate) fn of((user, switch): &(User, Switch)) -> SwitchView {
        let (on, fits) = match switch {
            Switch::On => (Some(true), None),
            Switch::Off => (Some(false), None),
            Switch::Undecodable { fits, .. } => (None, *fits),
        };
        SwitchView { user: user.clone(), on, fits }
    }
}

/// The state of a task's switches.
#[derive(Clone, Debug)]
pub(crate) struct Switches {
    source: Source,
    /// The switches are a single count of users.
    is_counted: bool,
    /// Each user's switch has a key of its own.
    has_own_keys: bool,
    newest: Result<(), Unknown>,
    /// As of the newest answer.
    last: Option<Answer>,
    /// When this answer was first given in the present history.
    written: Option<Mark>,
    /// The replication offset at the newest answer.
    offset: Option<u64>,
    /// For switches whose turning on was observed: the replication offset at which they certainly
    /// were not on yet, in the present history.
    turned_on: Vec<(User, u64)>,
    pub(crate) key_seen: bool,
    vanished: Option<Vanished>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Fixed(Wanted),
    Keys,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    switches: Vec<(User, Switch)>,
    counted: Option<u64>,
    /// Whether these are all switches.
    whole: bool,
    ends: Ends,
    seen: Seen,
}

/// When a switch ends by itself.
#[derive(Clone, Copy, Debug)]
struct End {
    at: ServerTime,
    /// The same by the clock of the server that reported it. Another server's clock may be behind.
    mono: Mono,
}

impl End {
    fn is_over(self, seen: Seen) -> bool {
        self.at <= seen.last || self.mono <= seen.sent
    }
}

/// Switches that were on and vanished together with a change of generation.
#[derive(Clone, Debug)]
struct Vanished {
    users: Vec<(User, Option<End>)>,
    since: Mono,
    newest: Mono,
    confirmed: bool,
}

/// The difference between an answer and the previous one.
#[derive(Default)]
struct Change {
    /// Users whose switch was on, and may be lost: it is absent, or as it was before.
    gone: Vec<(User, Option<End>)>,
    /// A client wrote a switch, or removed one.
    written: bool,
}

/// The effect of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Switches now count as certainly lost.
    pub(crate) lost: Option<Vec<User>>,
    /// No switch counts as lost any more.
    pub(crate) found: bool,
    /// Switches that became undecodable.
    pub(crate) undecodable: Vec<(User, Switch)>,
    /// The key was requested, and has never existed so far.
    pub(crate) key_missing: bool,
    /// There are switches, unchanged since the previous answer.
    pub(crate) kept: bool,
}

impl Switches {
    pub(crate) fn new(spec: &WantedSpec) -> Switches {
        let source = match spec.source {
            WantedSource::Always => Source::Fixed(Wanted::Yes),
            WantedSource::Never => Source::Fixed(Wanted::No),
            _ => Source::Keys,
        };
        Switches {
            source,
            is_counted: matches!(spec.source, WantedSource::Counter(_)),
            has_own_keys: matches!(spec.source, WantedSource::Keys(_)),
            newest: Err(Unknown::NotReadYet),
            last: None,
            written: None,
            offset: None,
            turned_on: Vec::new(),
            key_seen: false,
            vanished: None,
        }
    }

    /// Whether users want the task, as far as it is known now.
    pub(crate) fn wanted(&self) -> Wanted {
        match (self.source, &self.vanished, &self.newest, &self.last) {
            (Source::Fixed(wanted), ..) => wanted,
            (Source::Keys, Some(_), ..) => Wanted::Yes,
            (Source::Keys, None, Ok(()), Some(answer)) => reading::wanted(&answer.switches),
            (Source::Keys, None, ..) => Wanted::Unknown,
        }
    }

    /// All existing switches, as of the newest attempt. If only some were read, the total is
    /// unknown.
    pub(crate) fn known(&self) -> Option<&[(User, Switch)]> {
        match (&self.newest, &self.last) {
            (Ok(()), Some(answer)) if answer.whole => Some(&answer.switches),
            _ => None,
        }
    }

    /// Number of users that want the task, as of the newest attempt.
    pub(crate) fn wanting(&self) -> Option<u64> {
        let switches = self.known()?;
        if self.is_counted {
            return self.last.as_ref()?.counted;
        }
        u64::try_from(switches.iter().filter(|(_, switch)| *switch == Switch::On).count()).ok()
    }

    /// Whether there is a key that can exist.
    pub(crate) fn have_key(&self) -> bool {
        self.source == Source::Keys
    }

    pub(crate) fn unknown(&mut self, why: Unknown) {
        if self.source == Source::Keys {
            self.newest = Err(why);
        }
    }

    /// Why the newest attempt is no answer.
    pub(crate) fn why_unknown(&self) -> Option<Unknown> {
        if self.source == Source::Keys { self.newest.err() } else { None }
    }

    /// Whether their server answers, and not what was asked, or a switch says neither on nor off.
    pub(crate) fn are_undecodable(&self) -> bool {
        let is_undecodable =
            |(_, switch): &(User, Switch)| matches!(switch, Switch::Undecodable { .. });
        let in_answer = |answer: &Answer| answer.switches.iter().any(is_undecodable);
        self.why_unknown().is_some_and(Unknown::is_of_the_task)
            || self.last.as_ref().is_some_and(in_answer)
    }

    /// Whether the key was seen, and the newest attempt shows that no "on" is missing.
    pub(crate) fn are_kept(&self) -> bool {
        self.newest.is_ok() && self.key_seen && self.vanished.is_none()
    }

    /// Users whose "on" is certainly lost.
    pub(crate) fn lost(&self) -> impl ExactSizeIterator<Item = &User> {
        let users: &[_] = match &self.vanished {
            Some(vanished) if vanished.confirmed => &vanished.users,
            _ => &[],
        };
        users.iter().map(|(user, _)| user)
    }

    /// How long switches have been lost, as of the newest evidence, in milliseconds.
    pub(crate) fn lost_ms(&self) -> u64 {
        match &self.vanished {
            Some(vanished) if vanished.confirmed => vanished.newest.since_ms(vanished.since),
            _ => 0,
        }
    }

    /// Takes in an answer that was read at `seen` and given by `given`. `delta` is how the
    /// generation changed since the previous one.
    pub(crate) fn observe(
        &mut self,
        reading: &SwitchesReading,
        seen: Seen,
        given: Mark,
        delta: Delta,
    ) -> News {
        let (answer, key_exists) = match reading {
            SwitchesReading::Unknown(why) => {
                self.newest = Err(*why);
                return News::default();
            }
            SwitchesReading::Read { switches, key_exists, counted, whole, ends } => {
                let (switches, ends) = (switches.clone(), ends.clone());
                (Answer { switches, counted: *counted, whole: *whole, ends, seen }, *key_exists)
            }
        };
        self.newest = Ok(());
        let first = self.last.is_none();
        self.key_seen |= key_exists;
        let old = self.last.take();
        let old = old.unwrap_or_else(|| Answer::nothing(seen));
        // With many switches, only this comparison runs for each reading; the code below compares
        // each switch with each other one.
        let changed = old.switches != answer.switches;
        let mut news = News {
            key_missing: first && !key_exists,
            kept: !answer.switches.is_empty() && !changed,
            ..News::default()
        };
        // A switch that the new history certainly had on has been switched off since.
        let included = self.written.is_some_and(|written| delta.surely_includes(written));
        let delta = Delta { kept: delta.kept || included, ..delta };
        if changed || delta.new_history() {
            self.written = Some(given);
        }
        let change = if changed {
            news.undecodable = newly_undecodable(&old.switches, &answer.switches);
            self.change(&old, &answer, key_exists, delta)
        } else {
            Change::default()
        };
        if delta.new_history() {
            self.turned_on.clear();
            self.offset = None;
        }
        if changed {
            let before = if old.whole && !first { self.offset } else { None };
            self.note_turned_on(&old.switches, &answer.switches, before);
        }
        self.offset = given.offset;
        self.last = Some(answer);
        self.update_vanished(change, seen, &mut news);
        news
    }

    /// How `new` differs from `old`.
    fn change(&self, old: &Answer, new: &Answer, key_exists: bool, delta: Delta) -> Change {
        // A switch that was not among those read before may be read now.
        let is_new = |entry: &(User, Switch)| !old.switches.contains(entry);
        let mut change =
            Change { gone: Vec::new(), written: old.whole && new.switches.iter().any(is_new) };
        let back = self.turned_back(&old.switches, &new.switches, delta);
        change.gone.extend(back.into_iter().map(|user| (user, None)));
        if !new.whole {
            return change;
        }
        let is_gone =
            |entry: &&(User, Switch)| !new.switches.iter().any(|(other, _)| *other == entry.0);
        for (user, switch) in old.switches.iter().filter(is_gone) {
            let end = old.end_of(user);
            match switch {
                _ if end.is_some_and(|end| end.is_over(new.seen)) => {}
                Switch::On if self.may_be_lost(user, old, new, key_exists, delta) => {
                    change.gone.push((user.clone(), end));
                }
                _ if self.may_be_lost(user, old, new, key_exists, delta) => {}
                _ => change.written |= old.whole,
            }
        }
        change
    }

    /// Whether the switch of `user`, which is gone, may have been lost by what happened to the
    /// data.
    fn may_be_lost(
        &self,
        user: &User,
        old: &Answer,
        new: &Answer,
        key_exists: bool,
        delta: Delta,
    ) -> bool {
        // A flush and an eviction remove whole keys. A single missing field was removed by a
        // client.
        let is_flushed = (delta.flushed || delta.slot_flushed) && !key_exists;
        let is_own_key = self.has_own_keys && reading::wanted(&new.switches) != Wanted::Yes;
        let may_evict = delta.may_evict(self.has_ttl(user, &old.ends));
        delta.may_lack() || is_flushed || (may_evict && (!key_exists || is_own_key))
    }

    /// Whether the key of this user's switch had a TTL, or may have had one.
    fn has_ttl(&self, user: &User, ends: &Ends) -> bool {
        let has_own = ends.own.iter().any(|(other, _)| other == user);
        ends.key != Deadline::Never || (self.has_own_keys && has_own)
    }

    /// Users whose "on" the new history certainly never had: it shows their switches as they were
    /// before.
    fn turned_back(
        &self,
        old: &[(User, Switch)],
        new: &[(User, Switch)],
        delta: Delta,
    ) -> Vec<User> {
        let lacked = self.turned_on.iter().filter(|(_, written)| delta.surely_lacks(*written));
        let is = |switches: &[(User, Switch)], user: &User, switch: Switch| {
            switches.contains(&(user.clone(), switch))
        };
        let back =
            lacked.filter(|(user, _)| is(old, user, Switch::On) && is(new, user, Switch::Off));
        back.map(|(user, _)| user.clone()).collect()
    }

    /// `before`: the replication offset at which the switches still had their old values.
    fn note_turned_on(
        &mut self,
        old: &[(User, Switch)],
        new: &[(User, Switch)],
        before: Option<u64>,
    ) {
        let is_on = |switches: &[(User, Switch)], user: &User| {
            switches.contains(&(user.clone(), Switch::On))
        };
        self.turned_on.retain(|(user, _)| is_on(new, user));
        let Some(before) = before else { return };
        let turned = new.iter().filter(|(user, switch)| *switch == Switch::On && !is_on(old, user));
        self.turned_on.extend(turned.map(|(user, _)| (user.clone(), before)));
    }

    fn update_vanished(&mut self, change: Change, seen: Seen, news: &mut News) {
        let Change { gone, written } = change;
        let at = seen.sent;
        if !gone.is_empty() {
            let vanished = self.vanished.get_or_insert(Vanished {
                users: Vec::new(),
                since: at,
                newest: at,
                confirmed: false,
            });
            vanished.users.extend(gone);
            vanished.users.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            vanished.users.dedup_by(|a, b| a.0 == b.0);
            vanished.newest = at;
            if vanished.confirmed {
                news.lost = Some(vanished.names());
            }
            return;
        }
        let Some(vanished) = &mut self.vanished else { return };
        vanished.users.retain(|(_, end)| !end.is_some_and(|end| end.is_over(seen)));
        if written || vanished.users.is_empty() {
            // A client wrote a switch, so from here on the present switches count; or all that were
            // lost would have ended by now.
            news.found = vanished.confirmed;
            self.vanished = None;
            return;
        }
        vanished.newest = at;
        if !vanished.confirmed && at.since_ms(vanished.since) >= CONFIRM_AFTER_MS {
            vanished.confirmed = true;
            news.lost = Some(vanished.names());
        }
    }
}

impl Answer {
    /// The answer that there are no switches.
    fn nothing(seen: Seen) -> Answer {
        Answer { switches: Vec::new(), counted: None, whole: true, ends: Ends::UNKNOWN, seen }
    }

    /// When the switch of `user` ends by itself.
    fn end_of(&self, user: &User) -> Option<End> {
        self.ends.of(user).map(|at| End { at, mono: self.seen.mono_of(at) })
    }
}

impl Vanished {
    fn names(&self) -> Vec<User> {
        self.users.iter().map(|(user, _)| user.clone()).collect()
    }
}

fn newly_undecodable(old: &[(User, Switch)], new: &[(User, Switch)]) -> Vec<(User, Switch)> {
    let undecodable = new.iter().filter(|(_, switch)| matches!(switch, Switch::Undecodable { .. }));
    undecodable.filter(|entry| !old.contains(entry)).cloned().collect()
}
