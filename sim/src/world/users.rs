//! Users and their switches: their wishes, and the switches in a server's data.

use lockwatch_judge::spec::{Codec, WantedSource};

use super::state::World;
use crate::event::{Event, Heal};

use crate::server::{Entry, Value};

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

impl World {
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
        let server = self.part_homes[task];
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
        let (server, now) = (self.part_homes[task], self.now);
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
        let (server, now) = (self.part_homes[task], self.now);
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

fn text(text: Vec<u8>) -> Entry {
    Entry { value: Value::Text(text), deadline: None }
}
