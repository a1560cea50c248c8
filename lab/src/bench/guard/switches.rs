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
    scene.ask(&["HSET", &users, "anna", "false", "bert", "false"])?;
    let _guards = [scene.configured_guard(&file)?, scene.configured_guard(&file)?];
    scene.listen(2)?;
    let mut flips = Flips::default();
    for at in 0..count {
        let user = if at % 2 == 0 { "anna" } else { "bert" };
        scene.pause(PAUSE);
        let began = now();
        scene.ask(&["HSET", &users, user, "true"])?;
        let script = scene.start()?;
        flips.on.push(to_ms(script.at) - to_ms(began));
        scene.pause(PAUSE);
        let deaths = [Death::of(script.pid), Death::of(script.keeper)];
        let began = now();
        scene.ask(&["HSET", &users, user, "false"])?;
        for death in &deaths {
            death.at()?;
        }
        flips.off.push(to_ms(now()) - to_ms(began));
        let key = scene.key.clone();
        scene.until("the lock is free", |scene| Ok(scene.ask(&["EXISTS", &key])? == "0"))?;
    }
    Ok(flips)
}
