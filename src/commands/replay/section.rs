//! The replay of one run: as it was configured, and with the changed thresholds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use lockwatch_judge::input::{Input, Outcome};
use lockwatch_judge::time::{AgentWall, Mono};

use super::changes::{self, Change};
use super::chronicle::{Chronicle, Story};
use super::pager::When;
use crate::record::reader::{Entry, Run};
use crate::text::identity::escape;

/// Maximum number of holes that are reported.
const HOLES_MAX: usize = 1_000;

/// The results of replaying one run.
pub(super) struct Section {
    pub(super) run: String,
    pub(super) lockwatch: String,
    pub(super) files: Vec<String>,
    pub(super) begins_in_the_middle: bool,
    pub(super) from: Option<AgentWall>,
    pub(super) to: Option<AgentWall>,
    pub(super) readings: u64,
    pub(super) torn: u64,
    pub(super) holes: Vec<Hole>,
    pub(super) as_configured: Chronicle,
    /// The pass with the changed thresholds.
    pub(super) changed: Option<Chronicle>,
    pub(super) set: Vec<String>,
}

/// A period without recorded inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) from: AgentWall,
    pub(super) to: AgentWall,
    /// Number of missing inputs; `None`: unknown.
    pub(super) inputs: Option<u64>,
}

impl Section {
    pub(super) fn play(run: &Run, changes: &[Change]) -> anyhow::Result<Section> {
        let mut section = Section {
            run: run.id.clone(),
            lockwatch: run.lockwatch.clone(),
            files: run.files().map(|path| path.display().to_string()).collect(),
            begins_in_the_middle: run.begins_in_the_middle(),
            from: None,
            to: None,
            readings: 0,
            torn: 0,
            holes: Vec::new(),
            as_configured: Chronicle::new(),
            changed: (!changes.is_empty()).then(Chronicle::new),
            set: changes.iter().map(|change| change.text.clone()).collect(),
        };
        let mut newest = Mono::at(0);
        run.each(|instant, entry| {
            // The state's instants must not go back, whatever a file says.
            newest = newest.max(instant.at);
            let when = When { at: newest, wall: instant.wall(newest) };
            section.from.get_or_insert(when.wall);
            section.to = Some(when.wall);
            match entry {
                Entry::Input(input) | Entry::Context(input) => section.step(when, input, changes),
                Entry::Missing { inputs, since } if section.holes.len() < HOLES_MAX => {
                    section.holes.push(Hole { from: instant.wall(since), to: when.wall, inputs });
                }
                Entry::Missing { .. } => {}
                Entry::Torn => section.torn += 1,
            }
            Ok(())
        })?;
        Ok(section)
    }

    fn step(&mut self, when: When, input: Input, changes: &[Change]) {
        self.readings += readings(&input);
        if let Some(changed) = &mut self.changed {
            let input = match &input {
                Input::Config(config) => Input::Config(Arc::new(changes::apply(changes, config))),
                other => other.clone(),
            };
            changed.step(when, input);
        }
        self.as_configured.step(when, input);
    }

    /// Pairs the stories of both passes for each task and Redis.
    pub(super) fn pairs<'a>(
        &'a self,
        changed: &'a Chronicle,
    ) -> impl Iterator<Item = (String, &'a Story, &'a Story)> {
        static NOTHING: LazyLock<Story> = LazyLock::new(Story::default);
        let sides = [
            ("store", &self.as_configured.redises, &changed.redises),
            ("task", &self.as_configured.tasks, &changed.tasks),
        ];
        sides.into_iter().flat_map(|(kind, was, would_be)| {
            let names: BTreeSet<&Arc<str>> = was.keys().chain(would_be.keys()).collect();
            names.into_iter().map(move |name| {
                let story =
                    |stories: &'a BTreeMap<Arc<str>, Story>| stories.get(name).unwrap_or(&NOTHING);
                (format!("{kind} {}", escape(name.as_bytes())), story(was), story(would_be))
            })
        })
    }
}

fn readings(input: &Input) -> u64 {
    let Input::Sample(sample) = input else { return 0 };
    match &sample.outcome {
        Outcome::Read { readings, .. } => readings.len() as u64,
        Outcome::Parts { .. } | Outcome::Failed { .. } => 0,
    }
}
