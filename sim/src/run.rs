//! One run: the loop that processes events in order, and passes each to the agent or world it
//! concerns.

use std::sync::Arc;

use lockwatch_judge::event::{Event as ModelEvent, EventKind};
use lockwatch_judge::input::Input;
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_watch::redis::driver::Push;

use crate::agent::{Agent, Deed};
use crate::coverage::Coverage;
use crate::event::Event;
use crate::oracle::{Oracle, Scripts, Violation};
use crate::plan::Plan;
use crate::serve::serve;
use crate::world::World;

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The violations, the first one first; a run ends soon after the first.
    pub violations: Vec<Violation>,
    /// What occurred in the run.
    pub coverage: Coverage,
    /// The inputs of each agent's newest process, if recording was requested.
    pub inputs: Vec<Vec<(Mono, AgentWall, Input)>>,
    /// Virtual hours times tasks times agents.
    pub task_hours: f64,
    /// Faults and switches in each virtual hour.
    pub steps_per_hour: f64,
}

/// An agent's present process, and the oracle that checks it.
struct Life {
    number: u32,
    agent: Agent,
    oracle: Oracle,
}

/// Runs `plan` until its end or its first violation.
pub fn run(plan: &Plan, records: bool) -> Outcome {
    let plan = Arc::new(plan.clone());
    let mut world = World::new(Arc::clone(&plan));
    let mut coverage = Coverage::default();
    let mut lives: Vec<Life> =
        (0..plan.agents).map(|agent| begin(&plan, agent, 1, records, &mut world)).collect();
    let mut violations = Vec::new();
    let mut scripts = Scripts::new(&plan);
    while let Some((at, event)) = world.queue.pop() {
        if at > plan.length_ms || !violations.is_empty() {
            break;
        }
        world.now = at;
        match whose(&event) {
            Some((agent, life)) => {
                let Some(current) = lives.get_mut(agent) else { continue };
                if life != current.number && life != u32::MAX {
                    continue;
                }
                // A stopped process does nothing; events for it wait.
                if world.paused_until[agent] > at {
                    let until = world.paused_until[agent];
                    world.queue.push(until, event);
                    continue;
                }
                let is_change = matches!(&event, Event::Announced { push: Push::Changed(_), .. });
                coverage.announced += u64::from(is_change);
                current.agent.take(event, &mut world);
            }
            None => match event {
                Event::Request(request) => {
                    if let Some((agent, truth)) = serve(request, &mut world)
                        && let Some(current) = lives.get_mut(agent)
                    {
                        current.agent.keep_truth(truth);
                    }
                }
                other => world.happen(other),
            },
        }
        for agent in std::mem::take(&mut world.restarts) {
            let Some(number) = lives.get(agent).map(|life| life.number + 1) else { continue };
            let life = begin(&plan, agent, number, records, &mut world);
            world.paused_until[agent] = 0;
            world.dirty_at[agent].iter_mut().for_each(|dirty| *dirty = at);
            lives[agent] = life;
        }
        for (agent, changed) in std::mem::take(&mut world.reloads) {
            coverage.reloads += 1;
            let Life { agent, oracle, .. } = &mut lives[agent];
            agent.reload(changed, &mut world);
            oracle.configured(|task| agent.configured(task), &world);
        }
        let deeds = std::mem::take(&mut world.deeds);
        scripts.follow(&deeds, &world, &mut coverage);
        violations.append(&mut scripts.violations);
        for life in &mut lives {
            deeds.iter().for_each(|deed| life.oracle.guard_did(deed, &world));
            life.follow(&world, &mut coverage);
            violations.append(&mut life.oracle.violations);
        }
    }
    let hours = world.now as f64 / 3_600_000.0;
    Outcome {
        violations,
        coverage,
        inputs: lives.into_iter().map(|life| life.agent.recorded.unwrap_or_default()).collect(),
        task_hours: hours * plan.tasks.len() as f64 * plan.agents as f64,
        steps_per_hour: plan.steps.len() as f64 / (plan.length_ms as f64 / 3_600_000.0),
    }
}

fn begin(plan: &Arc<Plan>, agent: usize, number: u32, records: bool, world: &mut World) -> Life {
    Life {
        number,
        agent: Agent::new(plan, agent, number, records, world),
        oracle: Oracle::new(plan, agent, world.now),
    }
}

/// The agent that an event is for, and its process.
fn whose(event: &Event) -> Option<(usize, u32)> {
    match event {
        Event::Link { agent, life, .. }
        | Event::Announced { agent, life, .. }
        | Event::Wake { agent, life }
        | Event::Tick { agent, life } => Some((*agent, *life)),
        // It concerns every process.
        Event::Break { agent, .. } => Some((*agent, u32::MAX)),
        Event::Step(_)
        | Event::Heal(_)
        | Event::Worker(_)
        | Event::Guard(_)
        | Event::Turn { .. }
        | Event::Queue { .. }
        | Event::Run { .. }
        | Event::Contend { .. }
        | Event::Poll { .. }
        | Event::Request(_) => None,
    }
}

impl Life {
    /// Shows the oracle what the agent did, and its present output.
    fn follow(&mut self, world: &World, coverage: &mut Coverage) {
        let mut look = false;
        coverage.joined += std::mem::take(&mut self.agent.net.joined);
        self.oracle.rhythm_at = self.agent.out.rhythm_at;
        for deed in self.agent.take_deeds() {
            match deed {
                Deed::Attempt(attempt) => {
                    let count = attempt.tasks.len() as u64;
                    *(if attempt.truth.is_some() {
                        &mut coverage.answers
                    } else {
                        &mut coverage.failures
                    }) += count;
                    let parts = attempt.truth.iter().flat_map(|truth| &truth.parts);
                    coverage.glances += parts.filter(|part| part.glance).count() as u64;
                    self.oracle.attempt(&attempt, world);
                }
                Deed::Announced(server, key) => self.oracle.announced(server, &key, world),
                Deed::Input(at, input) => {
                    if input == Input::Tick {
                        self.oracle.tick(at);
                        look = true;
                    }
                    coverage.input(&input);
                    let events = self.agent.step(at, input);
                    look |= events.iter().any(matters);
                    events.iter().for_each(|event| self.oracle.event(event, world, coverage));
                }
            }
        }
        if look {
            coverage.snapshots += 1;
            let snapshot = self.agent.snapshot();
            self.oracle.snapshot(&snapshot, world, coverage);
        }
    }
}

/// Whether the engine would publish the event at once.
fn matters(event: &ModelEvent) -> bool {
    matches!(
        event.kind,
        EventKind::Verdict { .. }
            | EventKind::SplitBegan { .. }
            | EventKind::HoldEnded { .. }
            | EventKind::Acquired { .. }
    )
}
