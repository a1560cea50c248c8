//! The effects of a timeline's verbs on the world.

use lockwatch_judge::input::Fork;
use lockwatch_judge::reading::{Ended, GuardRuns, Mode, PauseReading, Switch, Unknown};
use lockwatch_judge::time::ServerTime;

use super::text::duration;
use super::world::{Beat, Lock, SERVER_ORIGIN_MS, Timer, Veil, World};

/// Executes a verb. The error is for the author of the timeline.
pub(crate) fn act(world: &mut World, words: &[&str]) -> Result<(), String> {
    let said = || words.join(" ");
    let (subject, rest) = words.split_first().ok_or_else(|| "an empty line".to_owned())?;
    if subject.starts_with(|c: char| c.is_ascii_uppercase()) {
        return worker(world, subject, rest).map_err(|why| format!("`{}`: {why}", said()));
    }
    let done = match *subject {
        "lock" => lock(world, rest),
        "switch" => switch(world, rest),
        "switches" => switches(world, rest),
        "claims" => veil(world.now, rest).map(|veil| world.claims_veil = Some(veil)),
        "progress" => progress(world, rest),
        "counter" => number(rest).map(|count| world.counter = count),
        "token" => number(rest).map(|token| world.token = token),
        "pause" => pause(world, rest),
        "clock" => clock(world, rest),
        "flush" | "restart" | "evict" | "evicts" | "failover" | "generation" => data(world, words),
        _ => Err("there is no such verb".to_owned()),
    };
    done.map_err(|why| format!("`{}`: {why}", said()))
}

fn worker(world: &mut World, who: &str, words: &[&str]) -> Result<(), String> {
    match words {
        ["locks", lease] => take(world, who, Mode::Exclusive, duration(lease)?),
        ["write-locks", lease] => take(world, who, Mode::Write, duration(lease)?),
        ["read-locks", lease] => read_lock(world, who, duration(lease)?),
        ["waits", lease] => {
            world.waiters.push((who.to_owned(), duration(lease)?));
            Ok(())
        }
        ["re-enters", lease] => re_enter(world, who, duration(lease)?),
        ["unlocks"] => unlock(world, who, None),
        ["unlocks", "to", lease] => unlock(world, who, Some(duration(lease)?)),
        ["renews", lease] => {
            let lease = duration(lease)?;
            if world.renew(who, lease) {
                Ok(())
            } else {
                Err(format!("{who} does not hold the lock"))
            }
        }
        // `SET key token XX`: without comparing.
        ["overwrites", lease] => {
            let (mode, lease) = (held(world)?.mode, duration(lease)?);
            world.acquire(who, mode, lease);
            Ok(())
        }
        ["watchdog", "stops"] => {
            world.timers.retain(|timer| {
                !(timer.what.who() == Some(who) && matches!(timer.what, Beat::Renew { .. }))
            });
            Ok(())
        }
        ["watchdog", lease, "every", every] => {
            let what = Beat::Renew { who: who.to_owned(), lease: duration(lease)? };
            add_timer(world, what, duration(every)?)
        }
        ["claims"] => {
            *world.claims.entry(who.to_owned()).or_insert(0) += 1;
            Ok(())
        }
        ["claims", "every", every] => {
            add_timer(world, Beat::Claim { who: who.to_owned() }, duration(every)?)
        }
        ["claims", "stop"] => {
            let claim = Beat::Claim { who: who.to_owned() };
            world.timers.retain(|timer| timer.what != claim);
            Ok(())
        }
        ["claims", "vanish"] => {
            world.claims.remove(who);
            Ok(())
        }
        ["starts"] => {
            let now = ServerTime::at(world.server_now());
            world.guard(who).since = Some(now);
            Ok(())
        }
        ["ends", code] => ends(world, who, code, false),
        ["ends", code, "asked"] => ends(world, who, code, true),
        ["crashes"] => {
            world.timers.retain(|timer| timer.what.who() != Some(who));
            world.waiters.retain(|(waiter, _)| waiter != who);
            Ok(())
        }
        ["intrudes"] => held(world)?
            .holders
            .insert(who.to_owned(), 1)
            .map_or(Ok(()), |_| Err("it holds it".to_owned())),
        ["leaves"] => held(world)?
            .holders
            .remove(who)
            .map(|_| ())
            .ok_or_else(|| "it does not hold it".to_owned()),
        _ => Err("a worker cannot do that".to_owned()),
    }
}

/// The run of a guard's script ends.
fn ends(world: &mut World, who: &str, code: &str, asked: bool) -> Result<(), String> {
    let code = code.parse().map_err(|_| "which exit code?".to_owned())?;
    let to = ServerTime::at(world.server_now());
    let guard = world.guard(who);
    let from = guard.since.take().ok_or_else(|| "nothing runs".to_owned())?;
    guard.ended.push(Ended { from, to, code, asked });
    if guard.ended.len() > GuardRuns::ENDED_MAX {
        guard.ended.remove(0);
    }
    Ok(())
}

fn held(world: &mut World) -> Result<&mut Lock, String> {
    world.lock.as_mut().ok_or_else(|| "the lock is free".to_owned())
}

fn take(world: &mut World, who: &str, mode: Mode, lease: u64) -> Result<(), String> {
    if world.lock.is_some() {
        return Err("the lock is held".to_owned());
    }
    world.acquire(who, mode, lease);
    Ok(())
}

fn read_lock(world: &mut World, who: &str, lease: u64) -> Result<(), String> {
    let deadline = world.server_now() + lease as i64;
    match &mut world.lock {
        None => world.acquire(who, Mode::Read, lease),
        Some(lock) if lock.mode == Mode::Read || lock.holders.contains_key(who) => {
            *lock.holders.entry(who.to_owned()).or_insert(0) += 1;
            lock.deadline = lock.deadline.max(Some(deadline));
        }
        Some(_) => return Err("a writer holds the lock".to_owned()),
    }
    Ok(())
}

/// A write lock adds the lease to the remaining one; any other lock sets it.
fn re_enter(world: &mut World, who: &str, lease: u64) -> Result<(), String> {
    let now = world.server_now();
    let lock = held(world)?;
    let base = if lock.mode == Mode::Write { lock.deadline.unwrap_or(now) } else { now };
    *lock.holders.get_mut(who).ok_or("it does not hold it")? += 1;
    lock.deadline = Some(base + lease as i64);
    Ok(())
}

fn unlock(world: &mut World, who: &str, lease: Option<u64>) -> Result<(), String> {
    let now = world.server_now();
    let lock = held(world)?;
    let entries = lock.holders.get_mut(who).ok_or("it does not hold it")?;
    *entries -= 1;
    if *entries == 0 {
        lock.holders.remove(who);
    }
    if lock.holders.is_empty() {
        world.release();
    } else if let Some(lease) = lease {
        lock.deadline = Some(now + lease as i64);
    }
    Ok(())
}

fn add_timer(world: &mut World, what: Beat, every: u64) -> Result<(), String> {
    if every == 0 {
        return Err("every what?".to_owned());
    }
    world.timers.push(Timer { what, every, next: world.now + every });
    Ok(())
}

fn lock(world: &mut World, words: &[&str]) -> Result<(), String> {
    match words {
        ["deleted"] => {
            held(world)?;
            world.release();
        }
        ["persisted"] => held(world)?.deadline = None,
        ["expires", "in", left] => {
            let deadline = world.server_now() + duration(left)? as i64;
            held(world)?.deadline = Some(deadline);
        }
        ["ghosts", count] => held(world)?.ghosts = count.parse().map_err(|_| "how many?")?,
        ["torn", "for", long] => world.torn_until = world.now + duration(long)?,
        ["unreadable", ..] => world.lock_veil = Some(veil(world.now, words)?),
        _ => return Err("a lock cannot do that".to_owned()),
    }
    Ok(())
}

fn switches(world: &mut World, words: &[&str]) -> Result<(), String> {
    match words {
        ["expire", "in", left] => {
            world.switches_end = Some(world.server_now() + duration(left)? as i64);
        }
        _ => world.switches_veil = Some(veil(world.now, words)?),
    }
    Ok(())
}

fn switch(world: &mut World, words: &[&str]) -> Result<(), String> {
    if let [user, "on", "for", left] = words {
        let end = world.server_now() + duration(left)? as i64;
        world.switch_ends.insert((*user).to_owned(), end);
        world.switches.insert((*user).to_owned(), Switch::On);
        return Ok(());
    }
    let [user, state] = words else {
        return Err("whose, and which way?".to_owned());
    };
    let switch = match *state {
        "on" => Switch::On,
        "off" => Switch::Off,
        "scrambled" => Switch::Undecodable { value: vec![0xac, 0xed], fits: None },
        "gone" => {
            world.switches.remove(*user);
            return Ok(());
        }
        _ => return Err("on, on for, off, scrambled or gone, please".to_owned()),
    };
    world.switch_ends.remove(*user);
    world.switches.insert((*user).to_owned(), switch);
    Ok(())
}

fn progress(world: &mut World, words: &[&str]) -> Result<(), String> {
    match words {
        ["stops"] => stop_progress(world),
        ["vanishes"] => {
            stop_progress(world);
            world.progress = None;
        }
        ["unreadable", ..] => world.progress_veil = Some(veil(world.now, words)?),
        [how @ ("moves" | "beats"), rest @ ..] => {
            let (ttl, rest) = match rest {
                ["for", ttl, rest @ ..] => (Some(duration(ttl)?), rest),
                rest => (None, rest),
            };
            let moves = *how == "moves";
            match rest {
                [] => world.write_progress(moves, ttl),
                ["every", every] => {
                    add_timer(world, Beat::Progress { moves, ttl }, duration(every)?)?;
                }
                _ => return Err("moves|beats [for TTL] [every PERIOD], please".to_owned()),
            }
        }
        _ => return Err("progress cannot do that".to_owned()),
    }
    Ok(())
}

fn stop_progress(world: &mut World) {
    world.timers.retain(|timer| !matches!(timer.what, Beat::Progress { .. }));
}

fn number<T: std::str::FromStr>(words: &[&str]) -> Result<Option<T>, String> {
    match words {
        ["none"] => Ok(None),
        [value] => value.parse().map(Some).map_err(|_| "no number".to_owned()),
        _ => Err("which?".to_owned()),
    }
}

fn pause(world: &mut World, words: &[&str]) -> Result<(), String> {
    world.pause = match words {
        ["until", at] => {
            PauseReading::Until(ServerTime::at(SERVER_ORIGIN_MS + duration(at)? as i64))
        }
        ["none"] => PauseReading::None,
        ["garbage"] => PauseReading::Undecodable,
        ["unreadable"] => PauseReading::Unknown(Unknown::NoPermission),
        _ => return Err("until when?".to_owned()),
    };
    Ok(())
}

fn clock(world: &mut World, words: &[&str]) -> Result<(), String> {
    match words {
        ["forward", by] => world.clock_step_ms += duration(by)? as i64,
        ["back", by] => world.clock_step_ms -= duration(by)? as i64,
        _ => return Err("forward or back, by how much?".to_owned()),
    }
    Ok(())
}

/// The verbs that may lose data.
fn data(world: &mut World, words: &[&str]) -> Result<(), String> {
    match words {
        ["flush"] => {
            world.generation.flushes += 1;
            lose_all(world);
        }
        ["flush", "slot"] => {
            world.generation.slot_flushes += 1;
            lose_all(world);
        }
        ["flush", "slot", "elsewhere"] => world.generation.slot_flushes += 1,
        ["evicts", "only", "with", "ttl"] => world.generation.evicts_only_with_ttl = true,
        ["restart", how @ ("empty" | "kept" | "stale" | "attested")] => {
            let history = world.generation.history.clone();
            world.generation.forked_from =
                (*how == "attested").then(|| Fork { history, offset: world.offset + 1 });
            world.generation.slot_flushes = 0;
            world.generation.process.push(b'\'');
            world.generation.history.push(b'\'');
            world.generation.flushes = 0;
            world.generation.evictions = 0;
            world.generation.started_empty = Some(*how == "empty");
            match *how {
                "empty" => lose_all(world),
                "stale" => world.release(),
                _ => {}
            }
        }
        // A flush of another database counts, but removes nothing here.
        ["flush", "elsewhere"] => world.generation.flushes += 1,
        ["evict", "elsewhere"] => world.generation.evictions += 1,
        ["evict", "lock"] => {
            world.generation.evictions += 1;
            world.release();
        }
        ["evict", "progress"] => {
            world.generation.evictions += 1;
            world.progress = None;
        }
        ["evict", "switches"] => {
            world.generation.evictions += 1;
            world.switches.clear();
        }
        ["failover"] => world.generation.history.push(b'\''),
        ["generation", "hidden"] => world.generation_hidden = true,
        ["generation", "shown"] => world.generation_hidden = false,
        _ => {
            return Err(
                "flush [slot] [elsewhere], restart empty|kept|stale|attested, evicts only with ttl, evict lock|switches|progress|elsewhere, \
             failover, generation hidden|shown"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

fn lose_all(world: &mut World) {
    world.release();
    world.switches.clear();
    world.switch_ends.clear();
    world.switches_end = None;
    world.counter = None;
    world.claims.clear();
    world.runs.clear();
    world.progress = None;
    world.token = None;
}

/// `unreadable REASON for DURATION`.
pub(crate) fn veil(now: u64, words: &[&str]) -> Result<Veil, String> {
    let ["unreadable", why, "for", long] = words else {
        return Err("unreadable REASON for DURATION, please".to_owned());
    };
    Ok(Veil { why: reason(why)?, until: now + duration(long)? })
}

/// The reason with this name.
pub(crate) fn reason(name: &str) -> Result<Unknown, String> {
    let known = Unknown::ALL.into_iter().find(|why| why.name() == name);
    known.ok_or_else(|| format!("there is no reason `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(world: &mut World, line: &str) -> Result<(), String> {
        act(world, &line.split_whitespace().collect::<Vec<_>>())
    }

    fn ttl(world: &World) -> Option<i64> {
        world
            .lock
            .as_ref()
            .and_then(|lock| lock.deadline)
            .map(|deadline| deadline - world.server_now())
    }

    #[test]
    fn a_write_lock_that_is_re_entered_adds_to_what_is_left() {
        let mut world = World::new();
        done(&mut world, "A write-locks 30s").expect("free");
        world.advance(300);
        done(&mut world, "A re-enters 30s").expect("its own");
        assert_eq!(ttl(&world), Some(59_700));
        done(&mut world, "A renews 30s").expect("its own");
        assert_eq!(ttl(&world), Some(30_000));
    }

    #[test]
    fn readers_share_the_latest_deadline_and_the_last_one_frees_the_lock() {
        let mut world = World::new();
        done(&mut world, "A read-locks 30s").expect("free");
        done(&mut world, "B read-locks 10s").expect("shared");
        assert_eq!(ttl(&world), Some(30_000));
        done(&mut world, "A unlocks").expect("its own");
        assert!(world.lock.is_some());
        done(&mut world, "B unlocks").expect("its own");
        assert!(world.lock.is_none());
    }

    #[test]
    fn a_crash_stops_all_that_a_worker_does_and_nothing_else() {
        let mut world = World::new();
        for line in
            ["A locks 30s", "A watchdog 30s every 10s", "A claims every 1s", "B claims every 1s"]
        {
            done(&mut world, line).expect(line);
        }
        done(&mut world, "A crashes").expect("anybody can");
        assert_eq!(world.timers.len(), 1);
        assert!(world.lock.is_some());
    }

    #[test]
    fn a_restart_with_nothing_kept_proves_it_and_loses_all() {
        let mut world = World::new();
        for line in ["switch anna on", "A locks 30s", "restart empty"] {
            done(&mut world, line).expect(line);
        }
        assert!(world.lock.is_none() && world.switches.is_empty());
        assert_eq!(world.generation.started_empty, Some(true));
        assert_eq!(world.generation.process, b"run-1'");
    }

    #[test]
    fn mistakes_are_named() {
        let mut world = World::new();
        for line in [
            "A unlocks",
            "A renews 30s",
            "switch anna",
            "dance",
            "lock unreadable what for 3s",
            "A locks soon",
        ] {
            assert!(done(&mut world, line).is_err(), "{line}");
        }
        done(&mut world, "A locks 30s").expect("free");
        assert!(done(&mut world, "B locks 30s").is_err());
    }
}
