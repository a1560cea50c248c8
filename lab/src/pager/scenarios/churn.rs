//! Holders that are replaced continuously.

use crate::pager::churn;
use crate::pager::plan::Wiring;
use crate::pager::scenario::Scenario;
use crate::pager::scene::Scene;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "churn",
            "holders are replaced continuously: none is shown with another's deadline",
            |scene| Box::pin(replaced(scene)),
        )
        .tasks(churn::tasks())
        .wiring(Wiring { cables: true, full_metrics: true, ..Wiring::default() })
        .short(),
    ]
}

async fn replaced(scene: Scene) -> anyhow::Result<()> {
    let minutes = if scene.is_short() { 0.4 } else { 10.0 };
    churn::play(&scene, scene.lasts(minutes)).await
}
