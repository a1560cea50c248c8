//! Listens for changes of the lock and of the switches, so that the guard need not ask all the
//! time.

use std::time::Duration;

use lockwatch_judge::spec::{Key, TaskSpec, WantedSource};
use lockwatch_watch::redis::driver::Push;
use lockwatch_watch::redis::reply::Command;
use tokio::sync::{mpsc, watch};

use super::plan::Plan;
use crate::hold::store::Store;
use crate::hold::unlock_channel;
use crate::io::{Failure, listen};

/// Pause before the next attempt to listen. Meanwhile the guard asks now and then.
const AGAIN: Duration = Duration::from_secs(2);

/// Where it is reported that something may have changed.
pub(super) struct Changes {
    pub(super) lock: mpsc::Sender<()>,
    pub(super) switched: mpsc::Sender<()>,
}

/// Reports changes for as long as somebody listens to those of the lock. `waits`: whether the guard
/// waits for a release.
pub(super) async fn run(plan: Plan, mut waits: watch::Receiver<bool>, changes: Changes) {
    let (mut store, key) = (plan.store(), plan.spec.kind.key().clone());
    let mut is_reported = false;
    while !changes.lock.is_closed() {
        let heard = until_it_breaks(&mut store, &key, &plan.spec, &mut waits, &changes).await;
        let Err(failure) = heard else { return };
        store.forget(&key);
        if !std::mem::replace(&mut is_reported, true) {
            let (why, detail) = (failure.why.name(), &failure.detail);
            tracing::info!(why, %detail, "Redis sends no change notifications; polling instead");
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn until_it_breaks(
    store: &mut Store,
    key: &[u8],
    spec: &TaskSpec,
    waits: &mut watch::Receiver<bool>,
    changes: &Changes,
) -> Result<(), Failure> {
    let at = store.home(key).await?;
    let switches = switches(spec);
    let mut subscribed = *waits.borrow_and_update();
    let mut commands = vec![tracking([&[key.to_vec()], &switches[..]].concat())];
    commands.extend(subscribed.then(|| subscription(true, key)));
    let mut listening = listen(&store.endpoint(at), commands).await?;
    // What happened before nobody heard.
    let (mut of_lock, mut of_switches) = (true, true);
    loop {
        for (matters, changed) in [(of_lock, &changes.lock), (of_switches, &changes.switched)] {
            if matters {
                // One wake-up that waits is enough.
                let _full = changed.try_send(());
            }
        }
        (of_lock, of_switches) = (false, false);
        tokio::select! {
            filled = listening.fill() => {
                filled?;
                for push in listening.take()? {
                    match push {
                        // Each renewal changes the lock. Other keys may begin like these.
                        Push::Changed(changed) => {
                            of_lock |= changed == key;
                            of_switches |= switches.contains(&changed);
                        }
                        _ => (of_lock, of_switches) = (true, true),
                    }
                }
            }
            alive = waits.changed() => {
                if alive.is_err() {
                    return Ok(());
                }
                let waits = *waits.borrow_and_update();
                if std::mem::replace(&mut subscribed, waits) != waits {
                    listening.send(&[subscription(waits, key)]).await?;
                }
            }
        }
    }
}

/// Makes the server announce changes of the keys.
fn tracking(keys: Vec<Key>) -> Command {
    let mut tracking = Command::new(["CLIENT", "TRACKING", "ON", "BCAST"]);
    for prefix in prefixes(keys) {
        tracking.args.extend([b"PREFIX".to_vec(), prefix]);
    }
    tracking
}

/// Begins or ends the announcement of releases. Only who waits subscribes, as Redisson does it: the
/// subscribers are counted as those who would take over.
fn subscription(begins: bool, key: &[u8]) -> Command {
    let verb = if begins { "SUBSCRIBE" } else { "UNSUBSCRIBE" };
    Command::new([verb.as_bytes().to_vec(), unlock_channel(key)])
}

/// The keys of the switches.
fn switches(spec: &TaskSpec) -> Vec<Key> {
    match spec.wanted.as_ref().map(|wanted| &wanted.source) {
        Some(WantedSource::Hash(key) | WantedSource::Set(key) | WantedSource::Counter(key)) => {
            vec![key.clone()]
        }
        Some(WantedSource::Keys(keys)) => keys.clone(),
        Some(WantedSource::Always | WantedSource::Never) | None => Vec::new(),
    }
}

/// Prefixes of these keys. None may begin with another one.
fn prefixes(mut keys: Vec<Key>) -> Vec<Key> {
    keys.sort_unstable();
    keys.dedup_by(|longer, shorter| longer.starts_with(shorter));
    keys
}

#[cfg(test)]
mod tests {
    use lockwatch_judge::reading::Codec;
    use lockwatch_judge::spec::{LockSpec, StoreIndex, WantedSpec};

    use super::*;

    #[test]
    fn no_prefix_begins_with_another_one() {
        let mut spec = TaskSpec::new("outbound", StoreIndex(0), LockSpec::new(b"o", "redisson"));
        assert!(switches(&spec).is_empty());
        for (key, users, expected) in [
            ("o", vec![], vec!["o"]),
            ("o", vec!["o:users"], vec!["o"]),
            ("o:lock", vec!["o"], vec!["o"]),
            ("o:lock", vec!["o:anna", "o:bert", "o:anna:old"], vec!["o:anna", "o:bert", "o:lock"]),
        ] {
            let keys = users.iter().map(|key| key.as_bytes().to_vec()).collect();
            let source = WantedSource::Keys(keys);
            spec.wanted = Some(WantedSpec { source, codec: Codec::Raw });
            let expected: Vec<_> = expected.iter().map(|key| key.as_bytes().to_vec()).collect();
            let keys = [vec![key.as_bytes().to_vec()], switches(&spec)].concat();
            assert_eq!(prefixes(keys), expected);
        }
    }
}
