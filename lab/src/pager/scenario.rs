//! One labelled scenario.

use std::pin::Pin;

use super::plan::TaskPlan;
use super::scene::Scene;

/// What happens: knows the truth, and says which pages must and may come.
pub(super) type Play = fn(Scene) -> Pin<Box<dyn Future<Output = anyhow::Result<()>>>>;

/// A scenario and what it needs.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// What it proves, in a sentence.
    pub(super) says: &'static str,
    pub(super) play: Play,
    pub(super) tasks: Vec<TaskPlan>,
    pub(super) length: Length,
    pub(super) place: Place,
    /// How many agents it needs, if it is about that.
    pub(super) agents: Option<usize>,
    pub(super) wiring: Wiring,
}

/// Whether it belongs to the short bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Short,
    Long,
}

/// Whether others may play on the same stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It hurts only its own tasks and redises.
    Shared,
    /// It hurts agents, Prometheus or Alertmanager.
    Own,
}

/// What is between the parts of its own stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Wiring {
    /// The last agent reaches every redis over links that can be cut.
    pub(super) last_agent_by_links: bool,
    /// The last agent reaches other servers under the same names.
    pub(super) last_agent_elsewhere: bool,
    /// The clock of every redis can be stepped.
    pub(super) clocks: bool,
    /// This share of all scrapes gets lost.
    pub(super) lost_scrapes: Option<f64>,
}

impl Scenario {
    /// A long one on the shared stage with one task of its name.
    pub(super) fn new(name: &'static str, says: &'static str, play: Play) -> Scenario {
        let tasks = vec![TaskPlan::new(name)];
        let (length, place, wiring) = (Length::Long, Place::Shared, Wiring::default());
        Scenario { name, says, play, tasks, length, place, agents: None, wiring }
    }

    pub(super) fn short(self) -> Scenario {
        Scenario { length: Length::Short, ..self }
    }

    /// Changes its only task.
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
