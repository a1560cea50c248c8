//! The path of a batch: through the network to its server, there command by command, and back. The
//! true data at each command are recorded for the oracle.

use std::collections::VecDeque;
use std::sync::Arc;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::driver::{Dialled, Event as LinkEvent, Failure, Push};
use lockwatch_watch::redis::reply::{Command, Reply};

use crate::event::Event;
use crate::peers;
use crate::replies::{error, is_too_large};
use crate::request::{BatchTruth, Line, PartTruth, Pause, Request};
use crate::rng::Rng;
use crate::server::{Health, Value};
use crate::truth::LockState;
use crate::world::{Cut, World};

impl Request {
    pub(crate) fn new(
        line: Line,
        server: usize,
        process: u64,
        number: u64,
        commands: Vec<Command>,
    ) -> Request {
        Request {
            line,
            server,
            number,
            process,
            greeting: None,
            listens: false,
            is_first: false,
            places: places(&commands),
            replies: Vec::with_capacity(commands.len()),
            commands,
            cursor: 0,
            truth: BatchTruth { number, server, ..BatchTruth::default() },
            pause: None,
        }
    }

    /// Number of tasks that it reads.
    pub(crate) fn tasks(&self) -> usize {
        self.places.len()
    }

    fn draw_pause(&mut self, rng: &mut Rng) {
        if !self.places.is_empty() && rng.percent(4) {
            let (_, from, to) = self.places[rng.index(self.places.len())];
            let within = u64::try_from(to - from).unwrap_or(1).min(4);
            let at = from + usize::try_from(rng.below(within)).unwrap_or(0);
            self.pause = Some((at, rng.within(1, 60)));
        }
    }

    /// What the agent notices if the connection is gone.
    fn breaks(&self) -> Event {
        self.comes(LinkEvent::Failed(Failure::new(Unknown::Closed, "simulated")), None)
    }

    fn comes(&self, event: LinkEvent, number: Option<u64>) -> Event {
        let (agent, life, link) = self.line;
        Event::Link { agent, life, link, event: Box::new(event), number }
    }
}

/// The tasks that the commands are about, each with the positions of its commands. A server sees
/// only keys: those of a task have its name in them.
fn places(commands: &[Command]) -> Vec<(usize, usize, usize)> {
    let mut places: Vec<(usize, usize, usize)> = Vec::new();
    let named: Vec<Option<usize>> = commands.iter().map(task_of).collect();
    for (at, task) in named.iter().enumerate() {
        // The time is asked for before each remaining time where a server knows no deadlines.
        let is_own_time = is_time(&commands[at]) && at > 0;
        let task = match task {
            None if is_own_time => named.get(at + 1).copied().flatten(),
            task => *task,
        };
        let Some(task) = task else { continue };
        match places.last_mut() {
            Some((same, _, to)) if *same == task && *to == at => *to = at + 1,
            _ => places.push((task, at, at + 1)),
        }
    }
    places
}

fn is_time(command: &Command) -> bool {
    command.args.first().is_some_and(|name| name == b"TIME")
}

/// The task whose name is in an argument.
fn task_of(command: &Command) -> Option<usize> {
    const STEM: &[u8] = b"task-";
    command.args.iter().skip(1).find_map(|word| {
        let at = word.windows(STEM.len()).position(|part| part == STEM)? + STEM.len();
        let digits = word[at..].iter().take_while(|byte| byte.is_ascii_digit());
        let digits: String = digits.map(|byte| char::from(*byte)).collect();
        digits.parse().ok()
    })
}

/// Sends a batch.
pub(crate) fn send(request: Box<Request>, world: &mut World) {
    let (agent, ..) = request.line;
    if let Some(ms) = world.pauses[agent].take() {
        world.paused_until[agent] = world.now + ms;
    }
    let link = &world.links[agent][request.server];
    match link.cut {
        Some(Cut::Silently) => {}
        Some(Cut::Loudly) => world.queue.push(world.now, request.breaks()),
        None => {
            let ms = delay(link.each_way_ms, &mut world.rng) + world.rng.below(2);
            let link = &mut world.links[agent][request.server];
            link.there_at = link.there_at.max(world.now + ms);
            let at = link.there_at;
            world.queue.push(at, Event::Request(request));
        }
    }
}

fn delay(each_way_ms: u64, rng: &mut Rng) -> u64 {
    each_way_ms - rng.below(each_way_ms / 10 + 1)
}

/// A batch is at its server. Returns what the server did with it once it is complete.
pub(crate) fn serve(mut request: Box<Request>, world: &mut World) -> Option<(usize, BatchTruth)> {
    let (line, server) = (request.line, request.server);
    if !request.is_first {
        // The batches of a connection are served one after the other.
        if let Some(behind) = world.lines.get_mut(&line) {
            behind.push_back(request);
            return None;
        }
        world.lines.insert(line, VecDeque::new());
        request.is_first = true;
    }
    let gone =
        request.process != world.lives[server] || world.servers[server].health == Health::Down;
    let done = match (gone, world.servers[server].health) {
        (true, _) => {
            world.queue.push(world.now, request.breaks());
            Some(None)
        }
        (false, Health::Frozen) => {
            world.waiting[server].push(request);
            None
        }
        (false, _) => go_on(request, world).map(Some),
    };
    let done = done?;
    // The next batch of this connection is served.
    match world.lines.get_mut(&line).and_then(VecDeque::pop_front) {
        Some(mut next) => {
            next.is_first = true;
            world.queue.push(world.now, Event::Request(next));
        }
        None => drop(world.lines.remove(&line)),
    }
    done
}

/// Executes the commands of a batch that are due now; `None`: there are more.
fn go_on(mut request: Box<Request>, world: &mut World) -> Option<(usize, BatchTruth)> {
    let server = request.server;
    world.catch_up(server);
    if request.greeting.is_some() && world.servers[server].refuses.is_some() {
        return Some(refuse(request, world));
    }
    if request.cursor == 0 {
        let now = world.now;
        request.truth.began_at = now;
        request.truth.clock_ahead_ms = world.servers[server].clock.at(now) - true_ms(now);
        let rng = &mut world.rng;
        request.draw_pause(rng);
        request.truth.whole = true;
    }
    let slow_ms = world.servers[server].slow_ms;
    while let Some(command) = request.commands.get(request.cursor) {
        if let Some((at, ms)) = request.pause
            && at == request.cursor
        {
            request.pause = None;
            world.queue.push(world.now + ms, Event::Request(request));
            return None;
        }
        let (cursor, now) = (request.cursor, world.now);
        if let Some((task, from, to)) =
            request.places.iter().copied().find(|(_, from, _)| *from == cursor)
        {
            let keys = &world.tasks[task].keys;
            let has_lock = command.args.get(1).is_some_and(|key| *key == *keys.lock)
                || command.args.first().is_some_and(|name| name == b"TIME");
            let is_part = |command: &Command| {
                keys.parts().any(|key| command.args.iter().any(|arg| *arg == **key))
            };
            let has_parts =
                !world.plan.tasks[task].apart || request.commands[from..to].iter().any(is_part);
            let of_lock =
                |command: &&Command| command.args.get(1).is_some_and(|key| *key == *keys.lock);
            let glance = has_lock && request.commands[from..to].iter().filter(of_lock).count() == 1;
            request.truth.parts.push(PartTruth {
                has_lock,
                glance,
                has_parts,
                ..capture(world, server, task)
            });
        }
        // What comes before the first time of a greeting is no batch.
        let framing = request.commands.iter().take(cursor + 1).any(is_time)
            && !request.places.iter().any(|(_, from, to)| (*from..*to).contains(&cursor));
        let reply = execute(server, command, now, world);
        if framing && matches!(reply, Reply::Error(_)) {
            request.truth.whole = false;
        }
        if framing && is_time(command) {
            request.truth.clock_after = world.servers[server].clock.at(now);
            request.truth.clock_ahead_after_ms = request.truth.clock_after - true_ms(now);
        }
        if command.args.first().is_some_and(|name| name == b"ROLE") {
            request.truth.master = world.servers[server].follows.is_none();
            request.truth.offset = world.servers[server].history.offset;
        }
        request.replies.push(reply);
        request.cursor += 1;
        if let Some((task, ..)) =
            request.places.iter().copied().find(|(_, _, to)| *to == cursor + 1)
        {
            finish(world, server, task, &mut request.truth);
        }
        if slow_ms > 0 {
            world.queue.push(now + slow_ms, Event::Request(request));
            return None;
        }
    }
    if request.truth.whole && world.servers[server].health == Health::Loading {
        request.truth.whole = false;
    }
    request.truth.ended_at = world.now;
    request.truth.parts.iter_mut().for_each(|part| part.answered_at = world.now);
    Some(answer(*request, world))
}

/// An instant as clocks show it.
fn true_ms(now: u64) -> i64 {
    i64::try_from(now).unwrap_or(0)
}

/// Captures a server's present data of a task.
fn capture(world: &mut World, server: usize, task: usize) -> PartTruth {
    let now = world.now;
    world.tasks[task].past[server].settle(&world.servers[server].clock, now);
    let state = &world.servers[server];
    let moved = |key: &[u8]| state.alone || state.away.iter().any(|tag| key.starts_with(tag));
    let allowed = |key: &[u8]| {
        state.forbids.as_deref().is_none_or(|ending| !key.ends_with(ending)) && !moved(key)
    };
    let keys = &world.tasks[task].keys;
    let lock = allowed(&keys.lock)
        .then(|| vec![LockState::of(state.get(&keys.lock, now), world.tasks[task].layout)]);
    let readable = keys.switches.iter().all(|key| allowed(key));
    let progress = keys.progress.as_ref().filter(|key| allowed(key)).map(|key| {
        state.get(key, now).map(|entry| match &entry.value {
            Value::Text(text) => text.clone(),
            Value::Hash(fields) => fields.first().map(|(_, text)| text.clone()).unwrap_or_default(),
            Value::List(length) => length.to_string().into_bytes(),
            Value::Set(_) | Value::Scores(..) | Value::Huge => Vec::new(),
        })
    });
    let progress_ends = keys.progress.as_ref().and_then(|key| state.get(key, now)?.deadline);
    let claims = keys.claims.as_ref().filter(|key| allowed(key)).map(|key| {
        match state.get(key, now).map(|entry| &entry.value) {
            Some(Value::Hash(fields)) => fields.clone(),
            _ => Vec::new(),
        }
    });
    let until = |key: &Arc<[u8]>| match state.get(key, now).map(|entry| &entry.value) {
        Some(Value::Text(text)) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    };
    let pause = keys.pause.as_ref().filter(|key| allowed(key));
    let pause = pause.map_or(Pause::Unread, |key| Pause::Says(until(key)));
    let members = world.members(task, server);
    PartTruth {
        task,
        sent: None,
        began_at: now,
        ended_at: now,
        answered_at: now,
        has_lock: true,
        glance: false,
        has_parts: true,
        lock,
        clock: state.clock.at(now),
        switches: readable.then(|| world.tasks[task].wanting[server].switches.clone()),
        says: world.says(server, task),
        mixed: false,
        moved: false,
        progress,
        progress_ends,
        claims,
        members,
        members_after: None,
        clock_began: state.clock.at(now),
        pause,
    }
}

/// The last command about a task was answered. Compares the data with those at the first one.
fn finish(world: &mut World, server: usize, task: usize, truth: &mut BatchTruth) {
    let Some(position) = truth.parts.iter().position(|part| part.task == task) else { return };
    let began_at = truth.parts[position].began_at;
    if began_at == world.now {
        return;
    }
    let moved = world.moved_at[task] > began_at;
    let now = capture(world, server, task);
    let states: Vec<LockState> = world.tasks[task].past[server]
        .between(began_at, world.now)
        .map(|since| since.state.clone())
        .collect();
    let part = &mut truth.parts[position];
    part.ended_at = world.now;
    part.clock = now.clock;
    // A part that was refused at one moment only may have been read at the other.
    part.moved = moved || part.lock.is_some() != now.lock.is_some();
    if let (Some(lock), Some(last)) = (&mut part.lock, &now.lock) {
        lock.extend(states);
        lock.extend(last.iter().cloned());
        lock.dedup();
    } else {
        part.lock = None;
    }
    if part.pause != now.pause {
        part.pause = Pause::Changed;
    }
    part.mixed = part.switches != now.switches
        || part.progress != now.progress
        || part.progress_ends != now.progress_ends
        || part.claims != now.claims
        || part.members != now.members;
    part.members_after = now.members.filter(|after| part.members.as_ref() != Some(after));
}

/// The answer of a server to one command.
fn execute(server: usize, command: &Command, now: u64, world: &mut World) -> Reply {
    match command.args.as_slice() {
        [name, what, ..] if name == b"CLUSTER" && world.servers[server].health == Health::Up => {
            peers::cluster(server, what, world)
        }
        _ => world.servers[server].execute(command, now),
    }
}

/// A server refuses a new connection: at its limit of clients it says so and closes the connection,
/// and without the right login it answers nothing. Every other server misses the login, or does not
/// know it.
fn refuse(mut request: Box<Request>, world: &mut World) -> (usize, BatchTruth) {
    let whole = world.servers[request.server].refuses == Some("noauth");
    let login = match request.server % 2 {
        0 => error("NOAUTH", "Authentication required."),
        _ => error("WRONGPASS", "invalid username-password pair or user is disabled."),
    };
    request.replies = match whole {
        true => vec![login; request.commands.len()],
        false => vec![error("ERR", "max number of clients reached")],
    };
    request.truth.whole = false;
    answer(*request, world)
}

/// Sends the replies back.
fn answer(mut request: Request, world: &mut World) -> (usize, BatchTruth) {
    let (agent, life, id) = request.line;
    let server = request.server;
    let whole = request.replies.len() == request.commands.len();
    if request.listens && request.greeting.is_some() && whole {
        world.listeners[agent][server] = Some((life, id));
    }
    let link = &mut world.links[agent][server];
    let lost = link.drops && {
        link.dropped = !link.dropped;
        link.dropped
    };
    let (cut, tears, each_way_ms) = (link.cut, link.tears, link.each_way_ms);
    let at = world.now + delay(each_way_ms, &mut world.rng) + world.rng.below(2);
    let link = &mut world.links[agent][server];
    link.back_at = link.back_at.max(at);
    let at = link.back_at;
    let is_torn = cut.is_none() && !lost && tears && world.rng.percent(50);
    match cut {
        Some(Cut::Silently) => return (agent, request.truth),
        Some(Cut::Loudly) => {
            world.queue.push(world.now, request.breaks());
            return (agent, request.truth);
        }
        None if lost => return (agent, request.truth),
        None => {}
    }
    let number = Some(request.number);
    let mut replies = std::mem::take(&mut request.replies);
    // Where replies are lost, it is not known whose was too large.
    let is_large = replies.iter().any(is_too_large);
    let (too_large, is_torn) = (is_large && !world.links[agent][server].drops, is_torn || is_large);
    let large = || Failure::new(Unknown::TooLarge, "simulated");
    let event = if let Some(sent) = request.greeting {
        let ended = (is_torn || !whole).then(|| Failure::new(Unknown::Closed, "simulated"));
        let ended = if too_large { Some(large()) } else { ended };
        if too_large {
            replies.clear();
        } else if is_torn {
            let left = world.rng.below(replies.len() as u64);
            replies.truncate(usize::try_from(left).unwrap_or(0));
        }
        let dialled = Dialled { sent, received: Mono::at(0), auth: None, replies, ended };
        request.comes(LinkEvent::Dialled(Box::new(dialled)), number)
    } else if too_large {
        request.comes(LinkEvent::Failed(large()), None)
    } else if is_torn {
        // Incomplete replies are none.
        request.breaks()
    } else if request.listens {
        Event::Announced { agent, life, link: id, push: Push::Alive }
    } else {
        request.comes(LinkEvent::Replied { received: Mono::at(0), replies }, number)
    };
    world.queue.push(at, event);
    (agent, request.truth)
}
