//! Reads the world in the place of the real watcher: once per interval, again 260 ms after a first
//! `Free`, again right after a deadline. It also plays faults of the network. One sample is in flight
//! at a time.

use std::collections::BTreeSet;

use lockwatch_judge::input::{
    Input, NodeNews, NodeNewsKind, Outcome, Role, Sample, Standing, Topology,
};
use lockwatch_judge::reading::{
    Deadline, LockReading, Parts, ProgressReading, SwitchesReading, TaskReading, Unknown,
};
use lockwatch_judge::spec::{StoreIndex, TaskIndex};

use super::fleet::{Fleet, Server};
use super::setup::Setup;
use super::text::duration;
use super::verbs;
use super::world::{SERVER_ORIGIN_MS, World, mono};

/// Pause before a first `Free` is confirmed.
const CONFIRM_MS: u64 = 260;
/// Pause after a deadline.
const AFTER_DEADLINE_MS: u64 = 5;
/// Replicas are read once in this many sweeps.
const REPLICAS_EVERY: u64 = 5;

/// What reads the world, and the network.
#[derive(Debug)]
pub(crate) struct Watcher {
    next_tick: u64,
    confirm_at: Option<u64>,
    wake_at: Option<u64>,
    in_flight: Option<InFlight>,
    was_free: bool,
    cut: Option<(Unknown, u64)>,
    drop_every: u64,
    sent: u64,
    latency_ms: u64,
    sweeps: u64,
    reported: Option<Topology>,
    /// Servers that reported the replica role in their last answer.
    replicas: BTreeSet<String>,
    /// Beginning and end.
    paused: Option<(u64, u64)>,
}

#[derive(Debug)]
struct InFlight {
    arrives: u64,
    sample: Sample,
}

impl Watcher {
    /// A watcher whose first sample is due at once.
    pub(crate) fn new() -> Watcher {
        Watcher {
            next_tick: 0,
            confirm_at: None,
            wake_at: None,
            in_flight: None,
            was_free: false,
            cut: None,
            drop_every: 0,
            sent: 0,
            latency_ms: 0,
            sweeps: 0,
            reported: None,
            replicas: BTreeSet::new(),
            paused: None,
        }
    }

    /// Starts a fault: `cut REASON for 30s`, `drop every 2`, `drop none`, `latency 200ms`, `agent
    /// pauses 30s`.
    pub(crate) fn fault(&mut self, now: u64, words: &[&str]) -> Option<Result<(), String>> {
        let result = match words {
            ["cut", why, "for", long] => verbs::reason(why).and_then(|why| {
                self.cut = Some((why, now + duration(long)?));
                Ok(())
            }),
            ["drop", "none"] => {
                self.drop_every = 0;
                Ok(())
            }
            ["drop", "every", count] => {
                count.parse().map_err(|_| "every how many?".to_owned()).map(|count| {
                    self.drop_every = count;
                    self.sent = 0;
                })
            }
            ["latency", long] => duration(long).map(|ms| self.latency_ms = ms),
            ["agent", "pauses", long] => {
                duration(long).map(|ms| self.paused = Some((now, now + ms)))
            }
            _ => return None,
        };
        Some(result)
    }

    /// Whether the agent's process is stopped.
    pub(crate) fn paused(&self, now: u64) -> bool {
        self.paused.is_some_and(|(_, until)| now < until)
    }

    /// When the next event is due.
    pub(crate) fn next_event(&self) -> u64 {
        if let Some((_, until)) = self.paused {
            return until;
        }
        let arrival = self.in_flight.as_ref().map(|flight| flight.arrives);
        let due = [arrival, self.confirm_at, self.wake_at];
        due.into_iter().flatten().fold(self.next_tick, u64::min)
    }

    /// All inputs that reach the state at `now`.
    pub(crate) fn run(&mut self, now: u64, fleet: &Fleet, setup: &Setup) -> Vec<Input> {
        let mut inputs = Vec::new();
        if let Some((from, until)) = self.paused {
            if now < until {
                return inputs;
            }
            self.paused = None;
            self.wake_up(from, now, fleet, setup, &mut inputs);
        }
        self.report_topology(now, fleet, setup, &mut inputs);
        self.arrive(now, fleet, setup, &mut inputs);
        let sweep = self.next_tick <= now;
        if self.take_due(now, setup) {
            if self.in_flight.is_some() {
                inputs.push(news(fleet, setup, NodeNewsKind::TickSkipped));
            } else {
                self.in_flight = Some(self.send(now, fleet, setup));
                self.arrive(now, fleet, setup, &mut inputs);
            }
        }
        if sweep {
            self.ask_others(now, fleet, setup, &mut inputs);
        }
        inputs
    }

    /// A sample that was (or would have been) in flight when the process was stopped arrives too
    /// late.
    fn wake_up(
        &mut self,
        from: u64,
        now: u64,
        fleet: &Fleet,
        setup: &Setup,
        inputs: &mut Vec<Input>,
    ) {
        self.next_tick = now;
        let sent =
            self.in_flight.take().map_or(from, |flight| flight.sample.sent.ms() - mono(0).ms());
        let outcome = Outcome::Failed { tasks: tasks(setup), why: Unknown::Late };
        inputs.push(Input::Sample(sample(setup, Some(fleet.lead()), sent, now - sent, outcome)));
    }

    fn take_due(&mut self, now: u64, setup: &Setup) -> bool {
        let mut due = false;
        for extra in [&mut self.confirm_at, &mut self.wake_at] {
            if extra.is_some_and(|at| at <= now) {
                *extra = None;
                due |= self.in_flight.is_none();
            }
        }
        if self.next_tick <= now {
            self.next_tick += setup.interval_ms;
            due = true;
        }
        due
    }

    /// Reports the known servers whenever they have changed.
    fn report_topology(&mut self, now: u64, fleet: &Fleet, setup: &Setup, inputs: &mut Vec<Input>) {
        let topology = fleet.topology(now, setup);
        if topology != self.reported {
            inputs.extend(topology.clone().map(Input::Topology));
            self.reported = topology;
        }
    }

    fn send(&mut self, now: u64, fleet: &Fleet, setup: &Setup) -> InFlight {
        self.sent += 1;
        let lead = fleet.lead();
        let dropped = self.drop_every > 0 && self.sent.is_multiple_of(self.drop_every);
        let late = self.latency_ms >= setup.timeout_ms;
        let quorum = fleet.quorum_lost(now).then_some(Unknown::Quorum);
        let failure =
            quorum.or(self.cut(now)).or_else(|| lead.silence(now)).or_else(|| match lead.role() {
                Role::Replica => Some(Unknown::NotMaster),
                Role::Master | Role::Member => (dropped || late).then_some(Unknown::Timeout),
            });
        let took = match failure {
            Some(Unknown::Timeout) => setup.timeout_ms,
            Some(_) => 0,
            None => self.latency_ms,
        };
        let outcome = match failure {
            Some(why) => Outcome::Failed { tasks: tasks(setup), why },
            None => read(fleet, lead, setup),
        };
        let asked = quorum.is_none().then_some(lead);
        InFlight { arrives: now + took, sample: sample(setup, asked, now, took, outcome) }
    }

    /// Why there is no answer at all, if so.
    fn cut(&self, now: u64) -> Option<Unknown> {
        self.cut.filter(|(_, until)| now < *until).map(|(why, _)| why)
    }

    /// Samples the servers that do not decide about the lock. They answer at once.
    fn ask_others(&mut self, now: u64, fleet: &Fleet, setup: &Setup, inputs: &mut Vec<Input>) {
        let replicas_too = self.sweeps.is_multiple_of(REPLICAS_EVERY);
        self.sweeps += 1;
        // While the deciding server is unknown, none decides.
        let nobody = fleet.quorum_lost(now).then(|| fleet.lead());
        for server in fleet.others().chain(nobody) {
            if !replicas_too && self.replicas.contains(&server.name) {
                continue;
            }
            let standing = fleet.standing(server, setup.kind);
            let silence = self.cut(now).or_else(|| server.silence(now));
            match (silence, server.role()) {
                (None, Role::Replica) => self.replicas.insert(server.name.clone()),
                (None, Role::Master | Role::Member) => self.replicas.remove(&server.name),
                (Some(_), _) => false,
            };
            let outcome = match (silence, standing) {
                (Some(why), _) => Outcome::Failed { tasks: Vec::new(), why },
                // It serves other slots.
                (None, Standing::Decides) => {
                    Outcome::Read { attestation: fleet.attestation(server), readings: Vec::new() }
                }
                (None, Standing::Witness) => read(fleet, server, setup),
            };
            inputs.push(Input::Sample(Sample {
                standing,
                ..sample(setup, Some(server), now, 0, outcome)
            }));
        }
    }

    fn arrive(&mut self, now: u64, fleet: &Fleet, setup: &Setup, inputs: &mut Vec<Input>) {
        if let Some(flight) = self.in_flight.take_if(|flight| flight.arrives <= now) {
            let parts = matches!(flight.sample.outcome, Outcome::Read { .. });
            self.plan(&flight.sample, fleet.lead());
            inputs.push(Input::Sample(flight.sample));
            if parts && let Some(server) = fleet.switch_server() {
                inputs.push(Input::Sample(switches_of(server, now, fleet, setup)));
            }
        }
    }

    /// The next wake-up, apart from ticks.
    fn plan(&mut self, sample: &Sample, lead: &Server) {
        let Outcome::Read { readings, .. } = &sample.outcome else {
            return;
        };
        let sent = sample.sent.ms() - mono(0).ms();
        self.wake_at = None;
        let free = match readings.last().and_then(|(_, reading)| reading.lock()) {
            Some(LockReading::Free) => true,
            Some(LockReading::Held(held)) => {
                if let Deadline::At(deadline) = held.deadline {
                    let at = deadline.ms() - SERVER_ORIGIN_MS - lead.world.clock_step_ms;
                    self.wake_at = u64::try_from(at)
                        .ok()
                        .map(|at| at + AFTER_DEADLINE_MS)
                        .filter(|at| *at > sent);
                }
                false
            }
            _ => return,
        };
        if free && !self.was_free {
            self.confirm_at = Some(sent + CONFIRM_MS);
        }
        self.was_free = free;
    }
}

/// All tasks of the configuration.
fn all_tasks(setup: &Setup) -> impl Iterator<Item = TaskIndex> {
    (0..setup.spec().tasks.len() as u32).map(TaskIndex)
}

fn tasks(setup: &Setup) -> Vec<TaskIndex> {
    all_tasks(setup).collect()
}

/// What `server` shows of every task. The neighbour's keys are the same on all servers, because
/// they are never written.
fn read(fleet: &Fleet, server: &Server, setup: &Setup) -> Outcome {
    let reading = |index: TaskIndex| -> TaskReading {
        let own = Some(index.0) == setup.position();
        let mut reading =
            if own { server.world.reading(setup) } else { World::new().reading(setup) };
        if own && fleet.switch_server().is_some() {
            reading.parts.switches = None;
            reading.parts.progress = None;
        }
        reading
    };
    Outcome::Read {
        attestation: fleet.attestation(server),
        readings: all_tasks(setup).map(|index| (index, reading(index))).collect(),
    }
}

/// The switches and the progress, if they are on another server of the cluster.
fn switches_of(server: &Server, now: u64, fleet: &Fleet, setup: &Setup) -> Sample {
    let silence = server.silence(now);
    let mut parts = server.world.reading(setup).parts;
    if let Some(why) = silence {
        parts.switches = parts.switches.map(|_| SwitchesReading::Unknown(why));
        parts.progress = parts.progress.map(|_| ProgressReading::Unknown(why));
    }
    let Parts { switches, progress, .. } = parts;
    let parts = Parts { switches, progress, ..Parts::default() };
    let readings = setup.position().map(|at| (TaskIndex(at), parts));
    let attestation = silence.is_none().then(|| fleet.attestation(server));
    sample(
        setup,
        Some(server),
        now,
        0,
        Outcome::Parts { attestation, readings: readings.into_iter().collect() },
    )
}

fn sample(
    setup: &Setup,
    node: Option<&Server>,
    sent: u64,
    took_ms: u64,
    outcome: Outcome,
) -> Sample {
    Sample {
        epoch: setup.epoch,
        store: StoreIndex(0),
        node: node.map(Server::address),
        standing: Standing::Decides,
        sent: mono(sent),
        took_ms,
        outcome,
    }
}

fn news(fleet: &Fleet, setup: &Setup, kind: NodeNewsKind) -> Input {
    Input::Node(NodeNews {
        epoch: setup.epoch,
        store: StoreIndex(0),
        node: fleet.lead().address(),
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwatch_judge::reading::Mode;

    /// The instants at which samples reach the state, and whether they were accepted.
    fn arrivals(fleet: &mut Fleet, watcher: &mut Watcher, end: u64) -> Vec<(u64, bool)> {
        let setup = Setup::default();
        let mut found = Vec::new();
        loop {
            let now = [watcher.next_event()]
                .into_iter()
                .chain(fleet.next_event())
                .fold(u64::MAX, u64::min);
            if now > end {
                return found;
            }
            fleet.advance(now);
            for input in watcher.run(now, fleet, &setup) {
                if let Input::Sample(sample) = input {
                    found.push((now, matches!(sample.outcome, Outcome::Read { .. })));
                }
            }
        }
    }

    #[test]
    fn a_first_free_is_confirmed_and_a_deadline_is_looked_at() {
        let mut fleet = Fleet::new();
        fleet.lead_mut().acquire("A", Mode::Exclusive, 1_500);
        let found = arrivals(&mut fleet, &mut Watcher::new(), 3_000);
        assert_eq!(
            found.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
            [0, 1_000, 1_505, 1_765, 2_000, 3_000]
        );
    }

    #[test]
    fn a_dropped_reply_costs_the_timeout_and_the_ticks_within_it() {
        let mut watcher = Watcher::new();
        assert!(watcher.fault(0, &["drop", "every", "2"]).is_some_and(|done| done.is_ok()));
        let mut fleet = Fleet::new();
        fleet.lead_mut().acquire("A", Mode::Exclusive, 60_000);
        let found = arrivals(&mut fleet, &mut watcher, 6_000);
        assert_eq!(found, [(0, true), (4_000, false), (4_000, true)]);
    }

    #[test]
    fn a_paused_agent_finds_one_late_reply_and_then_samples_at_once() {
        let mut watcher = Watcher::new();
        let mut fleet = Fleet::new();
        fleet.lead_mut().acquire("A", Mode::Exclusive, 600_000);
        assert_eq!(arrivals(&mut fleet, &mut watcher, 2_000).len(), 3);
        assert!(watcher.fault(2_500, &["agent", "pauses", "30s"]).is_some_and(|done| done.is_ok()));
        assert_eq!(arrivals(&mut fleet, &mut watcher, 33_000), [(32_500, false), (32_500, true)]);
    }
}
