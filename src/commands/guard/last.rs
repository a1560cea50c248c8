//! The last line of a guard that never had the lock.

use lockwatch_guard::Outcome;
use lockwatch_judge::spec::TaskSpec;
use lockwatch_watch::redis::reply::{Command, Reply};

use super::plan::Plan;
use crate::hold::Holder;
use crate::hold::store::Store;
use crate::text::durations::duration_text;
use crate::text::identity::escape;

/// Most fields of a lock that are looked at for its holder.
const FIELDS: &str = "10";

/// Why the guard gives up; `trouble`: what is wrong with the store, if that is known. `None`: it
/// does not give up.
pub(super) async fn words(plan: &Plan, outcome: Outcome, trouble: Option<&str>) -> Option<String> {
    let task = escape(plan.spec.name.as_bytes());
    let why = match outcome {
        Outcome::Done | Outcome::Stopped | Outcome::Lost => return None,
        Outcome::NotWanted => format!("nobody wants {task}"),
        Outcome::NoStore => match trouble {
            Some(trouble) => format!("Redis cannot be used: {trouble}"),
            None => "Redis did not answer".to_owned(),
        },
        Outcome::NotTaken => {
            let key = escape(plan.spec.kind.key()).into_owned();
            match who(&mut plan.store(), &plan.spec).await {
                Some(who) => format!("the lock {key} is held by {who}"),
                None => format!("the lock {key} was held by another client"),
            }
        }
    };
    let waited = duration_text(plan.terms.wait_ms.unwrap_or_default());
    Some(format!("gave up after {waited}: {why}"))
}

/// Who has the lock, on which host, and until when.
async fn who(store: &mut Store, spec: &TaskSpec) -> Option<String> {
    let key = spec.kind.key();
    let asks = [
        Command::new([b"HSCAN", &key[..], b"0", b"COUNT", FIELDS.as_bytes()]),
        Command::new([b"PTTL", &key[..]]),
    ];
    let replies = store.ask(key, &asks).await.ok()?;
    let fields = replies.first()?.as_array()?.get(1)?.as_array()?;
    let names =
        fields.iter().step_by(2).filter_map(|field| std::str::from_utf8(field.as_bytes()?).ok());
    let holder = names.filter_map(Holder::of_field).next()?;
    let mut who = escape(holder.instance().as_bytes()).into_owned();
    if let Some(hosts) = &spec.hosts {
        let ask = Command::new([b"HGET", &hosts[..], holder.instance().as_bytes()]);
        let answer = store.ask(hosts, &[ask]).await.ok().and_then(|mut replies| replies.pop());
        if let Some(Reply::Bytes(host)) = answer {
            who = format!("{who} on {}", escape(&host));
        }
    }
    let left_ms = replies.get(1).and_then(Reply::as_int).and_then(|ms| u64::try_from(ms).ok());
    Some(match left_ms {
        Some(left_ms) => {
            format!("{who}, for {} more unless it is renewed", duration_text(left_ms))
        }
        None => who,
    })
}
