//! A scenario with its name and requirements.

use std::pin::Pin;

use super::plan::{Servers, TaskPlan, Wiring};
use super::scene::Scene;

/// The script of a scenario: it causes the events, and records which alerts must and may come.
pub(super) type Play = fn(Scene) -> Pin<Box<dyn Future<Output = anyhow::Result<()>>>>;

/// A scenario and its requirements.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// What the scenario proves, in one sentence.
    pub(super) says: &'static str,
    pub(super) play: Play,
    pub(super) tasks: Vec<TaskPlan>,
    pub(super) length: Length,
    pub(super) place: Place,
    /// The number of agents, if it matters.
    pub(super) agents: Option<usize>,
    pub(super) wiring: Wiring,
}

/// Whether the scenario belongs to the short bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Short,
    Long,
}

/// Whether other scenarios may play on the same stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It affects only its own tasks and Redis servers.
    Shared,
    /// It affects agents, Prometheus or Alertmanager.
    Own,
}

impl Scenario {
    /// A long scenario on the shared stage with one task of its name.
    pub(super) fn new(name: &'static str, says: &'static str, play: Play) -> Scenario {
        let tasks = vec![TaskPlan::new(name)];
        let (length, place, wiring) = (Length::Long, Place::Shared, Wiring::default());
        Scenario { name, says, play, tasks, length, place, agents: None, wiring }
    }

    pub(super) fn short(self) -> Scenario {
        Scenario { length: Length::Short, ..self }
    }

    /// Changes the scenario's only task.
    pub(super) fn task(self, change: impl FnOnce(TaskPlan) -> TaskPlan) -> Scenario {
        let name = self.name;
        Scenario { tasks: vec![change(TaskPlan::new(name))], ..self }
    }

    pub(super) fn tasks(self, tasks: Vec<TaskPlan>) -> Scenario {
        Scenario { tasks, ..self }
    }

    /// Whether it cuts the networks between its servers.
    pub(super) fn cuts_networks(&self) -> bool {
        self.tasks.iter().any(|task| task.servers == Servers::Sentinels)
    }

    pub(super) fn alone(self) -> Scenario {
        Scenario { place: Place::Own, ..self }
    }

    pub(super) fn agents(self, agents: usize) -> Scenario {
        Scenario { agents: Some(agents), ..self.alone() }
    }

    pub(super) fn wiring(self, wiring: Wiring) -> Scenario {
        Scenario { wiring, ..self.alone() }
    }
}
