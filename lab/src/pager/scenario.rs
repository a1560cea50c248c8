//! A scenario with its name and requirements.

use std::pin::Pin;

use super::plan::TaskPlan;
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

/// The network between the parts of its own stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Wiring {
    /// Whether the last agent reaches every Redis over links that can be cut.
    pub(super) last_agent_by_links: bool,
    /// Whether the last agent reaches other servers under the same names.
    pub(super) last_agent_elsewhere: bool,
    /// Whether the clock of every Redis can be stepped.
    pub(super) clocks: bool,
    /// The share of all scrapes that is dropped.
    pub(super) lost_scrapes: Option<f64>,
    pub(super) relabelled: Relabelled,
}

/// What the scrape job makes of the agents' names, as teams do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Relabelled {
    /// Nothing, in a job that is called lockwatch.
    #[default]
    Nothing,
    /// The job is called otherwise, and its targets are renamed.
    Targets,
    /// The job is called otherwise, and the agents are renamed in their series, not in `up`.
    Series,
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
