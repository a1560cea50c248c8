//! The loop: each part of the chain is asked on its own, so that a slow one delays no other and no
//! renewal.

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use super::agent::Agent;
use super::hop::Hop;
use super::look::{at_alertmanager, at_prometheus};
use super::machine::{Machine, Outcome, Said, Seen};
use super::print::Printer;
use super::prometheus::Drilled;
use crate::chain::{Alertmanager, Prometheus};
use crate::clock::Clock;
use crate::commands::stop::Stop;

/// Between two looks at one part of the chain.
const LOOK_EACH: Duration = Duration::from_millis(250);
/// Between two renewals; the agent ends a drill after 30 s without one.
const RENEW_EACH: Duration = Duration::from_secs(5);

/// Whom the loop asks.
pub(super) struct Chain {
    pub(super) agent: Agent,
    pub(super) prometheus: Vec<Prometheus>,
    pub(super) alertmanagers: Vec<Alertmanager>,
}

/// What is wanted: the hop that was not passed yet, and that of each Prometheus.
type Wanted = (Hop, Vec<Option<Hop>>);

/// Follows the drill until its outcome is known; `None`: interrupted. The drill `id` is renewed,
/// unless it is empty.
pub(super) async fn follow(
    machine: &mut Machine,
    chain: &Chain,
    drilled: &Drilled,
    id: &str,
    clock: Clock,
    stop: &mut Stop,
    print: &Printer,
) -> Option<Outcome> {
    let (wanted, wants) = watch::channel((machine.hop(), machine.asked()));
    let (sender, mut seen) = mpsc::channel(16);
    // Ends all of them when it is dropped.
    let _asking = ask(chain, drilled, id, &wants, &sender);
    let mut ticks = interval(LOOK_EACH);
    loop {
        let seen = tokio::select! {
            () = stop.requested() => return None,
            seen = seen.recv() => seen.unwrap_or(Seen::Nothing),
            _ = ticks.tick() => Seen::Nothing,
        };
        for said in machine.take(clock.now().ms(), seen) {
            match said {
                Said::Passed(hop, words) => print.passed(clock, hop, &words),
                Said::Warning(words) => print.warning(&words),
            }
        }
        if let Some(outcome) = machine.outcome() {
            return Some(outcome.clone());
        }
        wanted.send_replace((machine.hop(), machine.asked()));
    }
}

fn ask(
    chain: &Chain,
    drilled: &Drilled,
    id: &str,
    wants: &watch::Receiver<Wanted>,
    seen: &mpsc::Sender<Seen>,
) -> JoinSet<()> {
    let mut asking = JoinSet::new();
    if !id.is_empty() {
        let (agent, id, sender) = (chain.agent.clone(), id.to_owned(), seen.clone());
        asking.spawn(async move {
            while sender.send(agent.renew(&id).await).await.is_ok() {
                sleep(RENEW_EACH).await;
            }
        });
        let (agent, drilled) = (chain.agent.clone(), drilled.clone());
        repeat(&mut asking, wants, seen, move |(hop, _)| {
            let (agent, drilled) = (agent.clone(), drilled.clone());
            (*hop == Hop::Metrics)
                .then_some(async move { Seen::Metrics(agent.shows(&drilled).await) })
        });
    }
    for (index, prometheus) in chain.prometheus.iter().enumerate() {
        let (prometheus, drilled) = (prometheus.clone(), drilled.clone());
        repeat(&mut asking, wants, seen, move |(_, hops)| {
            let (prometheus, drilled) = (prometheus.clone(), drilled.clone());
            let hop = hops.get(index).copied().flatten()?;
            Some(async move {
                let look = at_prometheus(&prometheus, &drilled, hop).await;
                Seen::Prometheus(index, look.map(Box::new))
            })
        });
    }
    for (index, alertmanager) in chain.alertmanagers.iter().enumerate() {
        let (alertmanager, drilled) = (alertmanager.clone(), drilled.clone());
        repeat(&mut asking, wants, seen, move |(hop, _)| {
            let (alertmanager, drilled) = (alertmanager.clone(), drilled.clone());
            let hop = *hop;
            // Also before the alert can be there: what is counted until then is of others.
            (hop >= Hop::Rule).then_some(async move {
                if hop < Hop::Alertmanager {
                    sleep(LOOK_EACH).await;
                }
                Seen::Alertmanager(index, at_alertmanager(&alertmanager, &drilled).await)
            })
        });
    }
    asking
}

/// Asks again and again for what is wanted, if it is.
fn repeat<F, L>(
    asking: &mut JoinSet<()>,
    wants: &watch::Receiver<Wanted>,
    seen: &mpsc::Sender<Seen>,
    look: L,
) where
    L: Fn(&Wanted) -> Option<F> + Send + 'static,
    F: Future<Output = Seen> + Send,
{
    let (wants, sender) = (wants.clone(), seen.clone());
    asking.spawn(async move {
        loop {
            let asked = look(&wants.borrow());
            if let Some(asked) = asked
                && sender.send(asked.await).await.is_err()
            {
                return;
            }
            sleep(LOOK_EACH).await;
        }
    });
}
