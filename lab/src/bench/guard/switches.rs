//! Users who switch the task off and on again.

use std::time::Duration;

use super::alive::now;
use super::scene::{Death, Scene, to_ms};

/// Milliseconds from each flip to what it is for.
#[derive(Debug, Default)]
pub(super) struct Flips {
    /// From the last switch off to the death of the script and its keeper.
    pub(super) off: Vec<f64>,
    /// From a switch on to the start of a script.
    pub(super) on: Vec<f64>,
}

/// Longer than any period of a guard, so that a flip comes at any instant of it.
const PAUSE: Duration = Duration::from_millis(1_200);

pub(super) fn flip(scene: &mut Scene, count: usize) -> anyhow::Result<Flips> {
    let (file, users) = (scene.configuration()?, format!("users:{}", scene.key));
    scene.ask(&["HSET", &users, "anna", "true", "bert", "false"])?;
    let _guards = [scene.configured_guard(&file)?, scene.configured_guard(&file)?];
    let mut script = scene.start()?;
    scene.listen(1)?;
    let (mut flips, mut who) = (Flips::default(), ["anna", "bert"]);
    for _ in 0..count {
        scene.pause(PAUSE);
        let deaths = [Death::of(script.pid), Death::of(script.keeper)];
        let began = now();
        scene.ask(&["HSET", &users, who[0], "false"])?;
        for death in &deaths {
            death.at()?;
        }
        flips.off.push(to_ms(now()) - to_ms(began));
        let key = scene.key.clone();
        scene.until("the lock is free", |scene| Ok(scene.ask(&["EXISTS", &key])? == "0"))?;
        scene.pause(PAUSE);
        who.reverse();
        let began = now();
        scene.ask(&["HSET", &users, who[0], "true"])?;
        script = scene.start()?;
        flips.on.push(to_ms(script.at) - to_ms(began));
    }
    Ok(flips)
}
