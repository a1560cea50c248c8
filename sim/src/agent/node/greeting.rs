//! The dial of a server: its duration, its result, and the batch sent with the greeting.

use lockwatch_judge::input::{NodeNewsKind, Role};
use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::accept::{Caps, RoleCheck};
use lockwatch_watch::redis::reply::Reply;

use super::super::Out;
use super::{Heard, Node, What};
use crate::queue::Event;
use crate::server::Health;
use crate::world::{Cut, World};

/// Maximum time for connecting, in milliseconds.
const DIAL_MS: u64 = 1_000;

impl Node {
    pub(super) fn dial(&mut self, world: &mut World, out: &mut Out) {
        let dial = world.id();
        let opening = match self.caps {
            Some(caps) if self.lost == Some(Unknown::Timeout) => {
                self.schedule.due(out.now).map(|batch| (self.reads(&batch, caps), batch, caps))
            }
            _ => None,
        };
        let opening = opening.map(|(reads, batch, caps)| {
            self.flight(What::Scheduled(batch), reads, caps, 1, world, out)
        });
        self.link.dial(dial, out.now);
        let (server, agent, life) = (self.server, out.agent, out.life);
        let (now, delay) = (world.now, world.links[agent][server].each_way_ms);
        let ended =
            |outcome| Event::Dialled { agent, life, server, dial, outcome, opened: Vec::new() };
        let health = world.servers[server].health;
        let (after, outcome) = match (world.links[agent][server].cut, health) {
            _ if delay * 2 > DIAL_MS.min(self.timeout_ms) => {
                (DIAL_MS.min(self.timeout_ms), Err(Unknown::Connect))
            }
            (Some(Cut::Silently), _) => (DIAL_MS.min(self.timeout_ms), Err(Unknown::Connect)),
            (Some(Cut::Loudly), _) | (_, Health::Down) => (delay * 2, Err(Unknown::Connect)),
            (_, Health::Frozen) => (self.timeout_ms, Err(Unknown::Timeout)),
            (_, Health::Loading) => (delay * 4 + 1, Err(Unknown::Loading)),
            (_, Health::Busy) => (delay * 4 + 1, Err(Unknown::Busy)),
            _ if world.servers[server].refuses == Some("noauth") => {
                (delay * 4 + 1, Err(Unknown::Auth))
            }
            _ if world.servers[server].refuses.is_some() => {
                (delay * 4 + 1, Err(Unknown::MaxClients))
            }
            _ => (delay * 4 + 1, Ok(())),
        };
        // A greeting is delivered like any batch of replies.
        let link = &mut world.links[agent][server];
        let (after, outcome) = match outcome {
            Ok(()) if link.tears && world.rng.percent(50) => (after, Err(Unknown::Closed)),
            Ok(()) if link.drops => {
                link.dropped = !link.dropped;
                if link.dropped {
                    (self.timeout_ms, Err(Unknown::Timeout))
                } else {
                    (after, Ok(()))
                }
            }
            other => (after, other),
        };
        match (opening, outcome) {
            // The greeting and the first batch arrive or fail together.
            (Some((flight, mut request)), Ok(())) => {
                request.connection = u64::MAX;
                request.dial = Some(dial);
                self.opening = Some(flight);
                world.queue.push(now + delay * 3 + 1, Event::Request(request));
                // The result is a timeout, whatever the server does.
                world.queue.push(now + self.timeout_ms, ended(Err(Unknown::Timeout)));
            }
            (Some((flight, _)), outcome) => {
                self.opening = Some(flight);
                world.queue.push(now + after, ended(outcome));
            }
            (None, outcome) => world.queue.push(now + after, ended(outcome)),
        }
    }

    /// A dial has ended.
    pub(in crate::agent) fn greeted(
        &mut self,
        dial: u64,
        outcome: Result<(), Unknown>,
        opened: Vec<(u64, Reply)>,
        world: &mut World,
        out: &mut Out,
    ) -> Heard {
        if !self.link.dialling(dial) {
            return Heard::default();
        }
        let opening = self.opening.take();
        if let Err(why) = outcome {
            out.news(&self.address, NodeNewsKind::Failed { why });
            return self.lose(opening, why, world, out);
        }
        let server = &world.servers[self.server];
        let caps = Caps {
            pexpiretime: server.has_pexpiretime,
            role: RoleCheck::Role,
            info: true,
            sharded: false,
        };
        let role = Some(if server.follows.is_none() { Role::Master } else { Role::Replica });
        self.lost = None;
        let connection = world.id();
        self.link.made(connection, out.now);
        self.process = world.lives[self.server];
        self.inbound.clear();
        self.stale.clear();
        out.news(&self.address, NodeNewsKind::Connected { version: Some("7.0.15".into()), role });
        let as_before = self.caps.replace(caps) == Some(caps);
        match opening {
            Some(flight) if as_before && !opened.is_empty() => {
                let replies = opened.into_iter().map(|(_, reply)| reply).collect();
                self.landed(flight, replies, true, world, out)
            }
            Some(flight) => {
                self.broken(&flight.what);
                Heard { role, ..Heard::default() }
            }
            None => Heard { role, ..Heard::default() },
        }
    }
}
