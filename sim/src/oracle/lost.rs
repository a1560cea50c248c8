//! Which switches were lost together with the server's data, as the readings found it.

use lockwatch_judge::spec::{TaskSpec, WantedSource};
use lockwatch_judge::time::Mono;

use super::reference::CONFIRM_MS;
use crate::plan::Keeps;
use crate::request::{Says, Switches};
use crate::truth::What;
use crate::world::World;

/// Lost switches, as found by the readings.
#[derive(Clone, Debug, Default)]
pub(super) struct Lost {
    /// Each switch has a key of its own.
    own_keys: bool,
    last: Option<Switches>,
    since: Option<Mono>,
    newest: Mono,
    confirmed: bool,
    /// When the loss last ended.
    over: Option<Mono>,
    /// The newest reading may have found something else.
    mixed: bool,
    /// A user removed a switch at the same moment, so the result is unknown.
    pub(super) unsure: bool,
}

/// What may have happened to a server's data between two readings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    /// Another process, or another server that may lack data.
    pub(super) began_anew: bool,
    /// A process started with data.
    pub(super) loaded: bool,
    /// A flush or an eviction.
    pub(super) emptied: bool,
    /// An eviction.
    pub(super) evicted: bool,
    /// A flush of another database: readings of locks may prove that it was none of this one.
    pub(super) emptied_elsewhere: bool,
    /// It is uncertain whether data were lost.
    pub(super) unsure: bool,
}

/// When switches were read, and from which server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) server: usize,
    pub(super) from: u64,
    pub(super) to: u64,
    /// When the whole batch was answered.
    pub(super) whole: u64,
}

impl Changed {
    /// What may have happened to the data from one reading to another.
    pub(super) fn between(before: Asked, now: Asked, world: &World) -> Changed {
        let mut changed = Changed::default();
        if before.server != now.server
            || world.rulers.iter().any(|(at, _)| (before.from..=now.to).contains(at))
        {
            // The proof after a failover depends on offsets; another check covers it.
            return Changed { unsure: true, ..changed };
        }
        let here = world.generations.iter().filter(|it| it.server == now.server);
        for generation in here.filter(|it| (before.from..=now.to).contains(&it.at)) {
            match generation.what {
                What::Restart(keeps) => {
                    changed.began_anew = true;
                    changed.loaded |= keeps != Keeps::Nothing;
                }
                What::Flush => changed.emptied = true,
                What::Eviction => (changed.emptied, changed.evicted) = (true, true),
                What::OtherFlush => changed.emptied_elsewhere = true,
                What::Promotion => changed.unsure = true,
            }
            // If it happened during the read, the order matters, and a batch that reports it at its
            // end may have read the switches before it.
            changed.unsure |= generation.at <= before.whole || generation.at >= now.from;
        }
        changed
    }
}

impl Lost {
    pub(super) fn of(spec: &TaskSpec) -> Lost {
        let source = spec.wanted.as_ref().map(|wanted| &wanted.source);
        let own_keys = matches!(source, Some(WantedSource::Keys(_)));
        Lost { own_keys, ..Lost::default() }
    }

    /// Whether any switch that was on is lost, or seems to be.
    pub(super) fn any(&self) -> bool {
        self.since.is_some()
    }

    pub(super) fn ms(&self) -> u64 {
        if self.confirmed { self.since.map_or(0, |since| self.newest.since_ms(since)) } else { 0 }
    }

    /// When lost switches last ceased to be in force.
    pub(super) fn over(&self) -> Option<Mono> {
        self.over
    }

    /// A reading requested at `at`. `mixed`: it may have found something else. `lost`: whose "on"
    /// the server has really lost since the previous one.
    pub(super) fn read(
        &mut self,
        at: Mono,
        switches: &Switches,
        changed: Changed,
        mixed: bool,
        lost: impl Fn(&[u8]) -> bool,
    ) {
        let was_mixed = std::mem::replace(&mut self.mixed, mixed);
        let Some(old) = self.last.replace(switches.clone()) else { return };
        let is_gone = |user: &Vec<u8>| !switches.iter().any(|(other, _)| other == user);
        let was_on = old.iter().filter(|(_, on)| *on == Some(true)).map(|(user, _)| user);
        let gone_users: Vec<_> = was_on.filter(|user| is_gone(user)).collect();
        let gone = !gone_users.is_empty();
        // A switch removed while the server was down looks lost, unless the data are proven to be
        // complete.
        self.unsure |= changed.loaded && !gone_users.iter().all(|user| lost(user));
        let key_gone = switches.is_empty();
        self.unsure |= changed.emptied_elsewhere && gone && key_gone;
        let emptied = changed.emptied || changed.emptied_elsewhere;
        // A new master that never received the change shows the previous value.
        let turned = |(user, on): &(Vec<u8>, Option<bool>)| {
            *on == Some(true) && !switches.contains(&(user.clone(), *on))
        };
        let perhaps = changed.unsure && old.iter().any(turned);
        if perhaps {
            self.unsure = true;
        }
        // Where each switch has a key of its own, an eviction takes one of them.
        let is_evicted = changed.evicted && self.own_keys && Says::of(switches) != Says::Yes;
        let may_be_lost = changed.began_anew || (emptied && key_gone) || is_evicted;
        if gone && may_be_lost {
            self.since.get_or_insert(at);
            self.newest = at;
            return;
        }
        // A user wrote or removed a switch.
        let written =
            switches.iter().any(|entry| !old.contains(entry)) || (old != *switches && !may_be_lost);
        if self.since.is_some() {
            if written {
                // A write that appears new now may have been found before.
                (self.since, self.confirmed, self.unsure, self.over) =
                    (None, false, was_mixed, Some(at));
            } else {
                self.newest = at;
                self.confirmed |= self.since.is_some_and(|since| at.since_ms(since) >= CONFIRM_MS);
            }
        } else if written && !perhaps {
            // Until now an agent may have had them in force.
            self.over = if self.unsure { Some(at) } else { self.over };
            self.unsure = false;
        }
    }
}
