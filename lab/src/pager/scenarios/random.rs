//! Faults at random: of all kinds for minutes or hours, and mild ones while memory is watched.

use std::time::Duration;

use crate::pager::plan::Wiring;
use crate::pager::random::{self, Menu};
use crate::pager::scenario::Scenario;
use crate::pager::scene::Scene;
use crate::pager::soak;

/// What ends within three minutes, with the beginning and the end of a stage.
const SHORT: f64 = 2.5;

pub(super) fn all() -> Vec<Scenario> {
    let wiring = Wiring { cables: true, slack: Duration::from_secs(5), ..Wiring::default() };
    vec![
        Scenario::new(
            "random-faults",
            "faults of all kinds at random: what is true and visible, and nothing else",
            |scene| Box::pin(faults(scene)),
        )
        .tasks(random::tasks())
        .agents(2)
        .wiring(wiring)
        .short(),
        Scenario::new(
            "soak",
            "an hour of mild faults and many clients: neither memory nor open files grow",
            |scene| Box::pin(soaked(scene)),
        )
        .tasks([random::tasks(), soak::crowd()].concat())
        .agents(2)
        .wiring(wiring),
    ]
}

async fn faults(scene: Scene) -> anyhow::Result<()> {
    let minutes = if scene.is_short() { SHORT } else { 10.0 };
    random::play(&scene, scene.lasts(minutes), Menu::All).await
}

async fn soaked(scene: Scene) -> anyhow::Result<()> {
    let lasts = scene.lasts(60.0);
    soak::fill_history(&scene).await?;
    let watched = soak::Watched::start(&scene).await?;
    random::play(&scene, lasts, Menu::Mild).await?;
    watched.judge(&scene)
}
