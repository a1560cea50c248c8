//! Records what the switches in a server's data say.

use std::sync::Arc;

use lockwatch_judge::spec::{Codec, WantedSource};

use crate::request::{Says, Switches};
use crate::server::Value;
use crate::world::state::{LostSwitches, Wanting, World};

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

    pub(in crate::world) fn note_wanting(&mut self, server: usize, task: usize) {
        let now = self.now;
        let switches = self.switches(server, task).map(Arc::new);
        let says = match self.plan.spec.tasks[task].wanted.as_ref().map(|wanted| &wanted.source) {
            None => Says::Unset,
            Some(WantedSource::Always) => Says::Yes,
            Some(WantedSource::Never) => Says::No,
            Some(_) => Says::of(switches.as_ref().map_or(&[], |switches| switches.as_slice())),
        };
        let wanting = &mut self.tasks[task].wanting[server];
        let since = if wanting.says == says { wanting.since } else { now };
        *wanting = Wanting { says, switches, since, written: now };
    }

    /// Records whose "on" a server has lost in a restart. `before`: its switches when it stopped.
    pub(in crate::world) fn note_lost_switches(
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
}
