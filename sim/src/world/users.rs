//! Users and their switches: their wishes, and the switches in a server's data.

use std::sync::Arc;

use lockwatch_judge::spec::{Codec, WantedSource};

use super::World;
use crate::event::{Event, Heal};
use crate::request::{Says, Switches};

use crate::server::{Entry, Value};

/// The switches in one server's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanting {
    pub(crate) says: Says,
    /// All existing switches; `None` when there are none to read.
    pub(crate) switches: Option<Arc<Switches>>,
    /// Since when they are so.
    pub(crate) since: u64,
    /// When any switch was last written.
    pub(crate) written: u64,
}

/// The users whose "on" a server lost in a restart.
#[derive(Clone, Debug)]
pub(crate) struct LostSwitches {
    pub(crate) at: u64,
    pub(crate) server: usize,
    pub(crate) users: Vec<Vec<u8>>,
}

/// A user's name.
pub(crate) fn user(user: usize) -> Vec<u8> {
    format!("user-{user}").into_bytes()
}

/// The stored form of a switch.
pub(crate) fn switch_text(codec: Codec, on: bool) -> Vec<u8> {
    match (codec, on) {
        (Codec::Json, true) => b"true".to_vec(),
        (Codec::Json, false) => b"false".to_vec(),
        (_, true) => b"1".to_vec(),
        (_, false) => b"off".to_vec(),
    }
}

/// The oracle's own decoding of a switch.
fn reads(codec: Codec, text: &[u8]) -> Option<bool> {
    match (codec, text) {
        (Codec::Json, b"true") | (Codec::Raw, b"1") => Some(true),
        (Codec::Json, b"false") | (Codec::Raw, b"off") => Some(false),
        _ => None,
    }
}

impl World {
    /// The switches of a task in a server's data; `None` when there are none to read.
    fn switches(&self, server: usize, task: usize) -> Option<Switches> {
        let wanted = self.plan.spec.tasks[task].wanted.as_ref()?;
        let get = |key: &[u8]| self.servers[server].get(key, self.now).map(|entry| &entry.value);
        let mut found = Switches::new();
        match &wanted.source {
            WantedSource::Hash(key) => {
                if let Some(Value::Hash(fields)) = get(key) {
                    found.extend(
                        fields.iter().map(|(user, text)| (user.clone(), reads(wanted.codec, text))),
                    );
                }
            }
            WantedSource::Set(key) => {
                if let Some(Value::Set(members)) = get(key) {
                    found.extend(members.iter().map(|user| (user.clone(), Some(true))));
                }
            }
            WantedSource::Counter(key) => {
                if let Some(Value::Text(text)) = get(key) {
                    let count: Option<i64> =
                        std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                    found.push((key.clone(), count.map(|count| count > 0)));
                }
            }
            WantedSource::Keys(keys) => {
                for key in keys {
                    if let Some(Value::Text(text)) = get(key) {
                        found.push((key.clone(), reads(wanted.codec, text)));
                    }
                }
            }
            WantedSource::Always | WantedSource::Never => return None,
        }
        found.sort();
        Some(found)
    }

    /// The combined state of the switches.
    pub(crate) fn says(&self, server: usize, task: usize) -> Says {
        self.tasks[task].wanting[server].says
    }

    pub(super) fn note_wanting(&mut self, server: usize, task: usize) {
        let now = self.now;
        let switches = self.switches(server, task).map(Arc::new);
        let says = match self.plan.spec.tasks[task].wanted.as_ref().map(|wanted| &wanted.source) {
            None => Says::Unset,
            Some(WantedSource::Always) => Says::Yes,
            Some(WantedSource::Never) => Says::No,
            Some(_) => says(switches.as_ref().map_or(&[], |switches| switches.as_slice())),
        };
        let wanting = &mut self.tasks[task].wanting[server];
        let since = if wanting.says == says { wanting.since } else { now };
        *wanting = Wanting { says, switches, since, written: now };
    }

    /// Records whose "on" a server has lost in a restart. `before`: its switches when it stopped.
    pub(super) fn note_lost_switches(
        &mut self,
        server: usize,
        task: usize,
        before: Option<&Switches>,
    ) {
        let after = self.tasks[task].wanting[server].switches.as_deref();
        let is_there = |user: &Vec<u8>| {
            after.is_some_and(|after| after.iter().any(|(other, _)| other == user))
        };
        let was_on = before.into_iter().flatten().filter(|(_, on)| *on == Some(true));
        let users: Vec<_> =
            was_on.map(|(user, _)| user.clone()).filter(|user| !is_there(user)).collect();
        if !users.is_empty() {
            let lost = LostSwitches { at: self.now, server, users };
            self.tasks[task].lost_switches.push(lost);
        }
    }

    /// Sets the initial switches.
    pub(super) fn first_switches(&mut self, task: usize) {
        for user in 0..self.tasks[task].wishes.len() {
            self.write_switch(task, user);
        }
        for server in 0..self.servers.len() {
            self.note_wanting(server, task);
        }
    }

    /// Writes a user's wish, if the server accepts writes.
    pub(super) fn write_switch(&mut self, task: usize, number: usize) {
        let server = self.besides[task];
        let (now, on) = (self.now, self.tasks[task].wishes[number]);
        let Some(wanted) = self.plan.spec.tasks[task].wanted.clone() else { return };
        if !self.servers[server].writable() {
            self.queue.push(now + 5_000, Event::Heal(Heal::Switch { task, user: number }));
            return;
        }
        let keys = self.tasks[task].keys.switches.clone();
        let Some(key) = keys.get(number).or(keys.first()) else { return };
        let data = &mut self.servers[server];
        match &wanted.source {
            WantedSource::Hash(_) => data.edit(key, now, Value::Hash(Vec::new()), |value| {
                if let Value::Hash(fields) = value {
                    fields.retain(|(field, _)| *field != user(number));
                    fields.push((user(number), switch_text(wanted.codec, on)));
                }
            }),
            WantedSource::Set(_) => data.edit(key, now, Value::Set(Vec::new()), |value| {
                if let Value::Set(members) = value {
                    members.retain(|member| *member != user(number));
                    members.extend(on.then(|| user(number)));
                }
            }),
            WantedSource::Counter(_) => {
                let count = self.tasks[task].wishes.iter().filter(|on| **on).count();
                data.put(key, Some(text(count.to_string().into_bytes())), now);
            }
            WantedSource::Keys(_) => data.put(key, Some(text(switch_text(wanted.codec, on))), now),
            WantedSource::Always | WantedSource::Never => {}
        }
        self.note_changes();
        self.look_soon(task);
    }

    /// Removes a user's switch.
    pub(super) fn remove_switch(&mut self, task: usize, number: usize) {
        let (server, now) = (self.besides[task], self.now);
        if !self.servers[server].writable() {
            return;
        }
        self.tasks[task].wishes[number] = false;
        let Some(wanted) = self.plan.spec.tasks[task].wanted.clone() else { return };
        let keys = self.tasks[task].keys.switches.clone();
        let Some(key) = keys.get(number).or(keys.first()) else { return };
        match &wanted.source {
            WantedSource::Hash(_) => {
                self.servers[server].edit(key, now, Value::Hash(Vec::new()), |value| {
                    if let Value::Hash(fields) = value {
                        fields.retain(|(field, _)| *field != user(number));
                    }
                })
            }
            WantedSource::Keys(_) => self.servers[server].put(key, None, now),
            _ => self.write_switch(task, number),
        }
        self.note_changes();
        self.look_soon(task);
    }

    /// Writes a value that is neither on nor off.
    pub(super) fn garble_switch(&mut self, task: usize, number: usize) {
        let (server, now) = (self.besides[task], self.now);
        if !self.servers[server].writable() {
            return;
        }
        let Some(wanted) = self.plan.spec.tasks[task].wanted.clone() else { return };
        let keys = self.tasks[task].keys.switches.clone();
        let Some(key) = keys.get(number).or(keys.first()) else { return };
        match &wanted.source {
            WantedSource::Hash(_) => {
                self.servers[server].edit(key, now, Value::Hash(Vec::new()), |value| {
                    if let Value::Hash(fields) = value {
                        fields.retain(|(field, _)| *field != user(number));
                        fields.push((user(number), b"perhaps".to_vec()));
                    }
                })
            }
            WantedSource::Counter(_) | WantedSource::Keys(_) => {
                self.servers[server].put(key, Some(text(b"perhaps".to_vec())), now);
            }
            WantedSource::Set(_) | WantedSource::Always | WantedSource::Never => {}
        }
        self.note_changes();
        self.look_soon(task);
    }

    /// A user notices that the switches are gone, and sets them by hand.
    pub(super) fn rewrite_later(&mut self, least_ms: u64, most_ms: u64) {
        for task in 0..self.tasks.len() {
            for user in 0..self.tasks[task].wishes.len() {
                let ms = self.tasks[task].rng.within(least_ms, most_ms);
                self.queue.push(self.now + ms, Event::Heal(Heal::Switch { task, user }));
            }
        }
    }
}

/// Combines switches: one that is on is enough; otherwise one that is unclear makes the result
/// unclear.
pub(crate) fn says(switches: &[(Vec<u8>, Option<bool>)]) -> Says {
    if switches.iter().any(|(_, on)| *on == Some(true)) {
        Says::Yes
    } else if switches.iter().any(|(_, on)| on.is_none()) {
        Says::Unclear
    } else {
        Says::No
    }
}

fn text(text: Vec<u8>) -> Entry {
    Entry { value: Value::Text(text), deadline: None }
}
