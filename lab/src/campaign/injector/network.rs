//! Faults between one agent and one Redis.

use std::time::Duration;

use anyhow::bail;

use super::{Fault, Injector};
use crate::campaign::clock::{self, now};
use crate::campaign::fault::Kind;
use crate::stack::Weather;

pub(super) const KINDS: [Kind; 12] = [
    Kind::Cut,
    Kind::Reset,
    Kind::Hang,
    Kind::LoseRequests,
    Kind::LoseAnswers,
    Kind::LoseEverySecond,
    Kind::DelayShort,
    Kind::DelayLong,
    Kind::Jitter,
    Kind::Dribble,
    Kind::Half,
    Kind::ClockStep,
];

pub(super) fn is_of_cable(kind: Kind) -> bool {
    KINDS.contains(&kind)
}

/// Well below the timeout; the next one is above it.
const SHORT_DELAY: Duration = Duration::from_millis(200);
const LONG_DELAY: Duration = Duration::from_millis(1_500);

fn weather(kind: Kind) -> Weather {
    match kind {
        Kind::Cut => Weather::Cut,
        Kind::Reset => Weather::Reset,
        Kind::Hang => Weather::Hang,
        Kind::LoseRequests => Weather::LoseRequests,
        Kind::LoseAnswers => Weather::LoseAnswers,
        Kind::LoseEverySecond => Weather::LoseEverySecond,
        Kind::DelayShort => Weather::Delay(SHORT_DELAY),
        Kind::DelayLong => Weather::Delay(LONG_DELAY),
        Kind::Jitter => Weather::Jitter(LONG_DELAY),
        Kind::Dribble => Weather::Dribble(Duration::from_millis(10)),
        Kind::Half => Weather::Half,
        Kind::ClockStep => Weather::ClockAhead(120),
        _ => Weather::Fair,
    }
}

/// Sets the weather of all cables between the agent and the Redis, including its Sentinels.
pub(super) async fn inject(injector: &Injector, fault: &Fault) -> anyhow::Result<()> {
    let (Some(agent), Some(redis)) = (fault.agent, fault.redis) else {
        bail!("a cable between nobody")
    };
    injector.mean(fault, None);
    let cables = injector.stage.cables_of(agent, injector.stage.redis(redis)?);
    let touched = || cables.iter().map(|cable| cable.touched()).sum::<u64>();
    let before = touched();
    let end = now() + fault.lasts;
    for cable in &cables {
        cable.set(weather(fault.kind));
    }
    let mut verified = false;
    while now() < end {
        clock::sleep_until(end.min(now() + 20_000)).await;
        if !verified && touched() > before {
            verified = true;
            injector.verify(
                fault,
                format!("{} pieces or connections within the first moment", touched() - before),
            );
        }
    }
    for cable in &cables {
        cable.set(Weather::Fair);
    }
    if !verified {
        bail!("nothing passed that could be touched");
    }
    Ok(())
}
