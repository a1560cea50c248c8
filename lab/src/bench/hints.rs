//! The cost of wake-ups for Redis, compared with polling: pushes, and the reads that follow them.

use std::time::Duration;

use anyhow::ensure;
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::bed::Bed;
use super::load::renewals;
use super::report::{Figure, Table};
use super::usage::Usage;
use crate::numbers::{median, shown};
use crate::stack::{Agent, Signal};

const COUNT: usize = 100_000;
/// Pause after something was started or stopped.
const SETTLE: Duration = Duration::from_secs(4);

/// How often each lock is renewed, and the maximum cost of the wake-ups as a share of polling.
const RATES: [(Duration, f64); 2] =
    [(Duration::from_secs(10), 0.5), (Duration::from_secs(100), 0.15)];

pub(super) async fn run(short: bool) -> anyhow::Result<Table> {
    let (stretch, rounds) =
        if short { (Duration::from_secs(4), 1) } else { (Duration::from_secs(10), 3) };
    let mut figures = Vec::new();
    for (every, limit) in RATES {
        let bed = Bed::with_lease(COUNT, u64::try_from((every * 3).as_millis())?).await?;
        let (_renewals, _) = block_in_place(|| renewals(bed.address(), COUNT, every))?;
        let told = bed.agent("1s").await?;
        told.signal(Signal::Stop).await?;
        let polls = bed.polling_agent("1s").await?;
        polls.signal(Signal::Stop).await?;
        let [mut with, mut without, mut alone] = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            with.push(while_it_runs(&bed, Some(&told), 1, stretch).await?);
            without.push(while_it_runs(&bed, Some(&polls), 0, stretch).await?);
            alone.push(while_it_runs(&bed, None, 0, stretch).await?);
        }
        let [with, without, alone] = [with, without, alone].map(median);
        let (hints, polling) = (with - without, without - alone);
        let per_s = COUNT as f64 / every.as_secs_f64();
        figures.push(
            Figure::at_most(
                format!(
                    "{COUNT} locks, {per_s:.0} renewals per second: CPU of Redis, of what \
                    polling costs it"
                ),
                hints / polling,
                limit,
                "",
            )
            .with(format!("{} of a core more", shown(hints, "%")))
            .beside(format!("polling each second {}", shown(polling, "%"))),
        );
    }
    Ok(Table { figures, more: String::new() })
}

/// CPU of Redis while this agent is the only one that runs, in percent of one core. `told`: the
/// number of connections on which Redis announces keys.
async fn while_it_runs(
    bed: &Bed,
    agent: Option<&Agent>,
    told: usize,
    stretch: Duration,
) -> anyhow::Result<f64> {
    bed.tell_nobody()?;
    if let Some(agent) = agent {
        agent.signal(Signal::Continue).await?;
    }
    sleep(SETTLE).await;
    let usage = Usage::of(&[bed.id()?])?;
    sleep(stretch).await;
    let (percent, found) = (usage.percent()?, bed.told()?);
    ensure!(found == told, "{found} connections are told of changed keys, not {told}");
    if let Some(agent) = agent {
        agent.signal(Signal::Stop).await?;
    }
    Ok(percent.first().copied().unwrap_or(f64::NAN))
}
