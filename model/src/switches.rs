//! A task's switches over time: who wants it, and which "on" was lost together with the server's
//! data.

use alloc::vec::Vec;

use crate::generation::{Delta, Mark};
use crate::lock::CONFIRM_AFTER_MS;
use crate::reading::{Switch, SwitchesReading, Unknown, User};
use crate::spec::{WantedSource, WantedSpec};
use crate::time::Mono;
use crate::verdict::Wanted;
use crate::wanted;

/// What is known of a task's switches.
#[derive(Clone, Debug)]
pub(crate) struct Switches {
    source: Source,
    /// One number says how many users want it, or nothing does.
    is_counted: bool,
    newest: Result<(), Unknown>,
    /// As of the newest answer.
    last: Option<Answer>,
    /// When this answer was first given in the present history.
    written: Option<Mark>,
    /// Where it stood at the newest answer.
    offset: Option<u64>,
    /// Of switches that were turned on while we were watching: where it stood when they surely were
    /// not on yet, in the present history.
    turned_on: Vec<(User, u64)>,
    pub(crate) key_seen: bool,
    vanished: Option<Vanished>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Unset,
    Fixed(Wanted),
    Keys,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    switches: Vec<(User, Switch)>,
    counted: Option<u64>,
    /// These are all.
    whole: bool,
}

/// Switches that were on and are gone, together with a change of generation.
#[derive(Clone, Debug)]
struct Vanished {
    users: Vec<User>,
    since: Mono,
    newest: Mono,
    confirmed: bool,
}

/// How an answer differs from the one before.
struct Change {
    /// Users whose switch was on, and is there no more, or is as it was before.
    gone: Vec<User>,
    /// A switch is there that was not, or says something else.
    written: bool,
    differs: bool,
    key_exists: bool,
}

/// What one answer changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Switches are lost beyond doubt from now on.
    pub(crate) lost: Option<Vec<User>>,
    /// Nothing is lost any more.
    pub(crate) found: bool,
    /// Switches that became undecodable.
    pub(crate) undecodable: Vec<(User, Switch)>,
    /// The key was looked for, and has never been seen.
    pub(crate) key_missing: bool,
    /// There are switches, the same as before.
    pub(crate) kept: bool,
}

impl Switches {
    pub(crate) fn new(spec: Option<&WantedSpec>) -> Switches {
        let source = match spec.map(|spec| &spec.source) {
            None => Source::Unset,
            Some(WantedSource::Always) => Source::Fixed(Wanted::Yes),
            Some(WantedSource::Never) => Source::Fixed(Wanted::No),
            Some(_) => Source::Keys,
        };
        Switches {
            source,
            is_counted: matches!(spec.map(|spec| &spec.source), Some(WantedSource::Counter(_))),
            newest: Err(Unknown::NotReadYet),
            last: None,
            written: None,
            offset: None,
            turned_on: Vec::new(),
            key_seen: false,
            vanished: None,
        }
    }

    /// Whether users want the task, as far as is known now.
    pub(crate) fn wanted(&self) -> Wanted {
        match (self.source, &self.vanished, &self.newest, &self.last) {
            (Source::Unset, ..) => Wanted::Unset,
            (Source::Fixed(wanted), ..) => wanted,
            (Source::Keys, Some(_), ..) => Wanted::Yes,
            (Source::Keys, None, Ok(()), Some(answer)) => wanted::wanted(&answer.switches),
            (Source::Keys, None, ..) => Wanted::Unknown,
        }
    }

    /// Every switch that exists, as of the newest attempt; of some of them nobody can tell how many
    /// there are.
    pub(crate) fn known(&self) -> Option<&[(User, Switch)]> {
        match (&self.newest, &self.last) {
            (Ok(()), Some(answer)) if answer.whole => Some(&answer.switches),
            _ => None,
        }
    }

    /// How many users want the task, as of the newest attempt.
    pub(crate) fn wanting(&self) -> Option<u64> {
        let switches = self.known()?;
        if self.is_counted {
            return self.last.as_ref()?.counted;
        }
        u64::try_from(switches.iter().filter(|(_, switch)| *switch == Switch::On).count()).ok()
    }

    /// Whether there is a key to be seen at all.
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

    /// Users whose "on" is lost beyond doubt.
    pub(crate) fn lost(&self) -> &[User] {
        match &self.vanished {
            Some(vanished) if vanished.confirmed => &vanished.users,
            _ => &[],
        }
    }

    /// For how long switches have been lost, as of the newest evidence.
    pub(crate) fn lost_ms(&self) -> u64 {
        match &self.vanished {
            Some(vanished) if vanished.confirmed => vanished.newest.since_ms(vanished.since),
            _ => 0,
        }
    }

    /// Takes in an answer that was asked for at `at`, and had been given by `given`; `delta` is how
    /// the generation changed since the one before.
    pub(crate) fn observe(
        &mut self,
        reading: &SwitchesReading,
        at: Mono,
        given: Mark,
        delta: Delta,
    ) -> News {
        let (switches, key_exists, counted, whole) = match reading {
            SwitchesReading::Unknown(why) => {
                self.newest = Err(*why);
                return News::default();
            }
            SwitchesReading::Read { switches, key_exists, counted, whole } => {
                (switches, *key_exists, *counted, *whole)
            }
        };
        self.newest = Ok(());
        let first = self.last.is_none();
        self.key_seen |= key_exists;
        let old = self
            .last
            .replace(Answer { switches: switches.clone(), counted, whole })
            .unwrap_or(Answer { switches: Vec::new(), counted: None, whole: true });
        // Of many switches only this is looked at in each reading: what follows compares each with
        // each.
        let changed = old.switches != *switches;
        let mut news = News {
            undecodable: if changed {
                newly_undecodable(&old.switches, switches)
            } else {
                Vec::new()
            },
            key_missing: first && !key_exists,
            kept: !switches.is_empty() && !changed,
            ..News::default()
        };
        // What the new history surely has was on there, and has been switched off since.
        let included = self.written.is_some_and(|written| delta.surely_includes(written));
        let delta = Delta { kept: delta.kept || included, ..delta };
        if changed || delta.new_history() {
            self.written = Some(given);
        }
        let mut gone =
            if changed && whole { gone_while_on(&old.switches, switches) } else { Vec::new() };
        if changed {
            gone.extend(self.turned_back(&old.switches, switches, delta));
        }
        if delta.new_history() {
            self.turned_on.clear();
            self.offset = None;
        }
        if changed {
            let before = self.offset.filter(|_| old.whole && !first);
            self.note_turned_on(&old.switches, switches, before);
        }
        self.offset = given.offset;
        // What was there beside those that were read may be read now.
        let written =
            changed && old.whole && switches.iter().any(|entry| !old.switches.contains(entry));
        let differs = changed && old.whole && whole;
        self.follow_vanished(Change { gone, written, differs, key_exists }, at, delta, &mut news);
        news
    }

    /// Users whose "on" the new history surely never had: what it shows is how their switches were
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

    /// `before`: where the replication stood when the switches were still the old ones.
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

    fn follow_vanished(&mut self, change: Change, at: Mono, delta: Delta, news: &mut News) {
        let Change { gone, written, differs, key_exists } = change;
        // A flush and an eviction take whole keys; a single field that is gone was removed by
        // somebody.
        let other_history = (delta.restarted || delta.replication || delta.failover) && !delta.kept;
        let may_be_lost = other_history || ((delta.flushed || delta.evicted) && !key_exists);
        if !gone.is_empty() && may_be_lost {
            let vanished = self.vanished.get_or_insert(Vanished {
                users: Vec::new(),
                since: at,
                newest: at,
                confirmed: false,
            });
            vanished.users.extend(gone);
            vanished.users.sort_unstable();
            vanished.users.dedup();
            vanished.newest = at;
            if vanished.confirmed {
                news.lost = Some(vanished.users.clone());
            }
            return;
        }
        let Some(vanished) = &mut self.vanished else { return };
        if written || (differs && !may_be_lost) {
            // Somebody wrote a switch: from here on, what is there is what users want.
            news.found = vanished.confirmed;
            self.vanished = None;
            return;
        }
        vanished.newest = at;
        if !vanished.confirmed && at.since_ms(vanished.since) >= CONFIRM_AFTER_MS {
            vanished.confirmed = true;
            news.lost = Some(vanished.users.clone());
        }
    }
}

fn gone_while_on(old: &[(User, Switch)], new: &[(User, Switch)]) -> Vec<User> {
    let on = old.iter().filter(|(_, switch)| *switch == Switch::On);
    on.filter(|(user, _)| !new.iter().any(|(other, _)| other == user))
        .map(|(user, _)| user.clone())
        .collect()
}

fn newly_undecodable(old: &[(User, Switch)], new: &[(User, Switch)]) -> Vec<(User, Switch)> {
    let undecodable = new.iter().filter(|(_, switch)| matches!(switch, Switch::Undecodable { .. }));
    undecodable.filter(|entry| !old.contains(entry)).cloned().collect()
}
