//! Guards whose network swallows everything from a random instant on.

use std::time::Duration;

use anyhow::ensure;
use tokio::runtime::Handle;

use super::scene::{Death, LEASE_MS, Runner, Scene, to_ms};
use crate::stack::{Cable, Weather};

/// What followed a cut, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// From the death of the script to the end of its lease in Redis.
    pub(super) left: f64,
    /// From that end to the start of the other script.
    pub(super) taken_over: f64,
}

/// A guard and its network.
struct Side {
    link: Cable,
    guard: Runner,
}

/// Cuts off the one that runs, again and again. Its script ignores TERM, so that only the kill can
/// be in time.
pub(super) fn cut(scene: &mut Scene, count: usize, runtime: &Handle) -> anyhow::Result<Vec<Cut>> {
    scene.deaf = true;
    let redis = scene.redis;
    let side = |scene: &mut Scene| {
        let link = runtime.block_on(Cable::start(redis))?;
        Ok::<_, anyhow::Error>(Side { guard: scene.guard(link.address())?, link })
    };
    let (mut runs, mut waits) = (side(scene)?, side(scene)?);
    let mut script = scene.start()?;
    let mut cuts = Vec::new();
    for _ in 0..count {
        if runs.guard.name != script.guard {
            std::mem::swap(&mut runs, &mut waits);
        }
        ensure!(runs.guard.name == script.guard, "an unknown guard runs the script");
        scene.listen(1)?;
        // Long enough for a cut at any instant between two renewals, and right after the start.
        scene.pause(Duration::from_millis(LEASE_MS / 2));
        let death = Death::of(script.pid);
        runs.link.set(Weather::Hang);
        let dead = death.at()?;
        let lease_end = scene.lease_end()?;
        script = scene.start()?;
        scene.listen(0)?;
        runs.link.set(Weather::Fair);
        cuts.push(Cut { left: lease_end - to_ms(dead), taken_over: to_ms(script.at) - lease_end });
    }
    Ok(cuts)
}
