//! A guard's requests: their way over its network, and what they do to the data of a server, as
//! `src/hold/scripts.rs` has it.

use std::sync::Arc;

use lockwatch_guard::{Action, Reply};

use crate::event::{GuardJob, GuardRequest};
use crate::server::{Entry, Health, Value};
use crate::world::state::{Did, World, instance};

/// Pause in milliseconds before the next attempt to listen for changes.
const LISTEN_AGAIN_MS: u64 = 2_000;

impl World {
    /// The longest time that a guard waits for an answer, in milliseconds.
    pub(crate) fn guard_timeout_ms(&self, task: usize) -> u64 {
        let of_redis = self.plan.spec.stores.first().map_or(3_000, |store| store.timeout_ms);
        let period_ms = self.plan.tasks[task].guards.map_or(1_000, |it| it.terms.period_ms());
        (period_ms / 2).clamp(1, of_redis)
    }

    /// Whether the network loses this message.
    fn loses(&mut self, task: usize, host: usize) -> bool {
        let now = self.now;
        let task = &mut self.tasks[task];
        let network = task.stations[host].network;
        network.cut_until > now || (network.lags_until > now && task.chance.percent(10))
    }

    /// Sends the next request, if none is in flight.
    pub(super) fn send_next(&mut self, task: usize, host: usize) {
        let (now, home) = (self.now, self.homes[task]);
        let station = &mut self.tasks[task].stations[host];
        let life = station.life;
        let Some(guard) = &mut station.guard else { return };
        let client = &mut guard.client;
        if client.in_flight.is_some() {
            return;
        }
        let Some(action) = client.queue.pop_front() else { return };
        client.number += 1;
        client.in_flight = Some(action);
        let (number, connected) = (client.number, client.server);
        let (hold, floor) = (client.hold, client.newest_token);
        client.hold += u64::from(matches!(action, Action::Release | Action::Leave { .. }));
        let (server, process) = connected.unwrap_or((home, self.lives[home]));
        let mut ms = self.trip_ms(task, host);
        if connected.is_none() {
            if self.servers[server].refuses.is_some() || self.servers[server].health == Health::Down
            {
                return self.fails(task, host, life, number, now + ms);
            }
            // To connect takes two more ways there and back.
            ms += 4 * self.trip_ms(task, host);
        }
        if self.loses(task, host) {
            let at = now + self.guard_timeout_ms(task);
            return self.fails(task, host, life, number, at);
        }
        if let Some(guard) = &mut self.tasks[task].stations[host].guard {
            guard.client.server = Some((server, process));
        }
        let request = GuardRequest {
            number,
            action,
            hold,
            floor,
            server,
            process,
            sent: now,
            is_sent_on: false,
            waits: false,
        };
        self.guard_later(task, host, life, ms, GuardJob::Arrives(request));
        let guard = self.tasks[task].stations[host].guard.as_mut();
        if let Some(ms) = guard.and_then(|guard| guard.pause_ms.take()) {
            self.pause_guard(task, host, ms);
        }
    }

    /// Stops a guard for a while.
    pub(super) fn pause_guard(&mut self, task: usize, host: usize, ms: u64) {
        let until = self.now + ms;
        let Some(station) = self.tasks[task].stations.get_mut(host) else { return };
        let life = station.life;
        if let Some(guard) = &mut station.guard {
            guard.paused_until = guard.paused_until.max(until);
            guard.wake_at = None;
            self.guard_at(task, host, life, until, GuardJob::Wake);
        }
    }

    /// A request has no answer. The next one connects again.
    fn fails(&mut self, task: usize, host: usize, life: u32, number: u64, at: u64) {
        let failed = GuardJob::Answered { number, reply: Reply::Failed, is_refused: false };
        self.guard_at(task, host, life, at.max(self.now + 1), failed);
    }

    /// A request is at its server, which carries it out even when nobody waits for it any more.
    pub(super) fn request_arrives(
        &mut self,
        task: usize,
        host: usize,
        life: u32,
        mut request: GuardRequest,
    ) {
        let GuardRequest { number, server, process, sent, .. } = request;
        let timeout_at = sent + self.guard_timeout_ms(task);
        let health = self.servers[server].health;
        if health == Health::Down || self.lives[server] != process {
            return self.fails(task, host, life, number, self.now + 1);
        }
        if health == Health::Frozen {
            if !request.waits {
                self.fails(task, host, life, number, timeout_at);
            }
            request.waits = true;
            return self.guard_later(task, host, life, 100, GuardJob::Arrives(request));
        }
        self.catch_up(server);
        let it = &self.servers[server];
        let key = &self.tasks[task].keys.lock;
        let is_elsewhere = health == Health::Loading
            || it.follows.is_some()
            || it.alone
            || it.away.iter().any(|tag| key.starts_with(tag));
        if is_elsewhere {
            let home = self.homes[task];
            if request.is_sent_on || home == server || request.waits {
                return self.fails(task, host, life, number, self.now + 1);
            }
            let sent_on = GuardRequest {
                server: home,
                process: self.lives[home],
                is_sent_on: true,
                ..request
            };
            let station = &mut self.tasks[task].stations[host];
            if let Some(guard) = station.guard.as_mut().filter(|_| station.life == life) {
                guard.client.server = Some((home, sent_on.process));
            }
            let ms = 4 * self.trip_ms(task, host);
            return self.guard_later(task, host, life, ms, GuardJob::Arrives(sent_on));
        }
        let (reply, is_refused) = match health {
            Health::Busy => (Reply::Failed, false),
            _ => match self.execute(task, host, life, request) {
                Some(reply) => (reply, false),
                None => (Reply::Failed, true),
            },
        };
        if self.loses(task, host) {
            return self.fails(task, host, life, number, timeout_at);
        }
        let ms = self.trip_ms(task, host) + self.servers[server].slow_ms;
        if self.now + ms >= timeout_at {
            return self.fails(task, host, life, number, timeout_at);
        }
        self.guard_later(task, host, life, ms, GuardJob::Answered { number, reply, is_refused });
    }

    /// Carries out a request; `None`: the key is no lock.
    fn execute(
        &mut self,
        task: usize,
        host: usize,
        life: u32,
        GuardRequest { server, action, hold, floor, .. }: GuardRequest,
    ) -> Option<Reply> {
        let now = self.now;
        let key = Arc::clone(&self.tasks[task].keys.lock);
        let field = field(task, host, life, hold);
        let mut entry = self.servers[server].get(&key, now).cloned();
        // The release of the hold before this one may not have arrived.
        if let (Action::Take, Some(before)) = (action, hold.checked_sub(1)) {
            let before = self::field(task, host, life, before);
            entry.take_if(|entry| match &mut entry.value {
                Value::Hash(fields) => {
                    fields.retain(|(name, _)| *name != before);
                    fields.is_empty()
                }
                _ => false,
            });
        }
        let (is_there, is_ours) = match entry.as_ref().map(|entry| &entry.value) {
            None => (false, false),
            Some(Value::Hash(fields)) => (true, fields.iter().any(|(name, _)| *name == field)),
            Some(Value::Huge) => (true, false),
            Some(_) => return None,
        };
        let lease_ms = self.plan.tasks[task].lease_ms;
        let deadline = self.servers[server].clock.at(now) + i64::try_from(lease_ms).unwrap_or(0);
        let until = self.servers[server].clock.when(deadline);
        match action {
            Action::Take if is_there && !is_ours => {
                let counter = self.token(task, server);
                self.knows(task, host, life, counter);
                let left = entry.and_then(|entry| entry.deadline);
                let left = left.map(|end| end - self.servers[server].clock.at(now));
                Some(Reply::Busy { left_ms: left.and_then(|left_ms| left_ms.try_into().ok()) })
            }
            Action::Take => {
                let newest = self.token(task, server);
                // The answer to an earlier attempt was lost.
                let is_again = is_ours && newest > floor;
                let token = if is_again { newest } else { newest.max(floor) + 1 };
                let counter = Arc::clone(&self.tasks[task].keys.token);
                let text = Value::Text(token.to_string().into_bytes());
                self.servers[server].put(
                    &counter,
                    Some(Entry { value: text, deadline: None }),
                    now,
                );
                let mut fields = match entry.map(|entry| entry.value) {
                    Some(Value::Hash(fields)) => fields,
                    _ => Vec::new(),
                };
                fields.retain(|(name, _)| *name != field);
                fields.push((field, b"1".to_vec()));
                let lock = Entry { value: Value::Hash(fields), deadline: Some(deadline) };
                self.servers[server].put(&key, Some(lock), now);
                self.knows(task, host, life, token);
                let station = &mut self.tasks[task].stations[host];
                let guard = station.guard.as_mut().filter(|_| station.life == life);
                let got = guard.and_then(|guard| guard.client.got.replace((server, hold)));
                if let Some(got) = got.filter(|got| *got != (server, hold)) {
                    let is_sure = got.0 == server;
                    self.did(task, host, life, Did::HeldAgain { is_sure });
                }
                self.did(task, host, life, Did::Leased { server, until, token: Some(token) });
                Some(Reply::Taken { token })
            }
            _ if !is_ours => Some(Reply::NotOurs),
            Action::Renew => {
                let lock = entry.map(|entry| Entry { deadline: Some(deadline), ..entry });
                self.servers[server].put(&key, lock, now);
                self.did(task, host, life, Did::Leased { server, until, token: None });
                Some(Reply::Renewed)
            }
            Action::Look => Some(Reply::Held),
            Action::Leave { left_ms } => {
                let left_ms = i64::try_from(left_ms).unwrap_or(0);
                let deadline = Some(self.servers[server].clock.at(now) + left_ms);
                let lock = entry.map(|entry| Entry { deadline, ..entry });
                self.servers[server].put(&key, lock, now);
                self.did(task, host, life, Did::Left);
                Some(Reply::Released)
            }
            _ => {
                self.note_given(task, instance_of(&field).to_vec(), server);
                self.did(task, host, life, Did::GaveBack);
                self.servers[server].put(&key, None, now);
                Some(Reply::Released)
            }
        }
    }

    /// The counter of tokens in a server's data.
    fn token(&self, task: usize, server: usize) -> u64 {
        let entry = self.servers[server].get(&self.tasks[task].keys.token, self.now);
        match entry.map(|entry| &entry.value) {
            Some(Value::Text(text)) => {
                std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
            }
            _ => 0,
        }
    }

    fn knows(&mut self, task: usize, host: usize, life: u32, token: u64) {
        let station = &mut self.tasks[task].stations[host];
        if let Some(guard) = station.guard.as_mut().filter(|_| station.life == life) {
            guard.client.newest_token = guard.client.newest_token.max(token);
        }
    }

    /// Whether this server answers a guard's next request soon.
    pub(crate) fn guard_reaches(&self, task: usize, host: usize, server: usize) -> bool {
        let it = &self.servers[server];
        self.tasks[task].stations[host].network.is_good(self.now)
            && it.health == Health::Up
            && it.slow_ms == 0
            && it.refuses.is_none()
            && !it.alone
    }

    /// The server to which a guard's next request goes.
    pub(crate) fn guard_server(&self, task: usize, host: usize) -> Option<usize> {
        let guard = self.tasks[task].stations[host].guard.as_ref()?;
        Some(guard.client.server.map_or(self.homes[task], |(server, _)| server))
    }

    /// After a failover some of the guards without the lock find the new master at once.
    pub(in crate::world) fn some_guards_reconnect(&mut self) {
        for task in &mut self.tasks {
            for station in &mut task.stations {
                if let Some(guard) = &mut station.guard
                    && !guard.machine.holds()
                    && task.chance.percent(50)
                {
                    (guard.client.server, guard.client.hears) = (None, None);
                }
            }
        }
    }

    /// Connects again to hear of changes, if that is due. What happened before nobody heard.
    pub(super) fn listen_for_changes(&mut self, task: usize, host: usize) {
        let (now, home) = (self.now, self.homes[task]);
        let is_reached = self.guard_reaches(task, host, home);
        let process = self.lives[home];
        let station = &mut self.tasks[task].stations[host];
        let (life, is_cut) = (station.life, station.network.cut_until > now);
        let Some(guard) = &mut station.guard else { return };
        let client = &mut guard.client;
        let is_broken = |(server, process)| is_cut || self.lives[server] != process;
        if client.hears.is_some_and(is_broken) {
            (client.hears, client.deaf_since) = (None, now);
        }
        if client.hears.is_none() && is_reached && now >= client.deaf_since + LISTEN_AGAIN_MS {
            client.hears = Some((home, process));
            self.guard_later(task, host, life, 1, GuardJob::Changed);
        }
    }
}

/// The field of a hold of a guard process in the hash of its lock.
fn field(task: usize, host: usize, life: u32, hold: u64) -> Vec<u8> {
    format!("{}:{hold}", instance(task, host, life)).into_bytes()
}

fn instance_of(field: &[u8]) -> &[u8] {
    let end = field.iter().rposition(|byte| *byte == b':').unwrap_or(field.len());
    &field[..end]
}
