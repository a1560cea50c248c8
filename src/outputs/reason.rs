//! Why a task has its verdict, in a sentence for people. It names thresholds, counts and remedies,
//! but no values that grow with time. So the sentence does not change while the reason does not.

use std::borrow::Cow;

use lockwatch_judge::input::Refusal;
use lockwatch_judge::limit::Limit;
use lockwatch_judge::reading::Stands;
use lockwatch_judge::snapshot::{SplitView, TaskView};
use lockwatch_judge::spec::WantedSource;
use lockwatch_judge::verdict::{Term, Verdict, Wanted};

use crate::outputs::absent;
use crate::outputs::cause;
use crate::outputs::progress::hint;
use crate::outputs::remark::unseen_locks;
use crate::outputs::runs;
use crate::text::identity::{escape, holder_label, list, party_name};
use crate::text::instants::{rfc3339, seconds};

/// Maximum number of holders that are named.
const NAMED_MAX: usize = 4;

/// The reason. All text in it is escaped by [`escape`], but not for HTML.
pub fn sentence(view: &TaskView) -> String {
    let mut sentences = vec![view.rule.say(|word| known(view, word))];
    if view.rule.when.contains(&Term::Over(Limit::StaleAfter)) {
        sentences.extend(hint(view));
    }
    if view.rule.when.contains(&Term::Over(Limit::MaxLate)) {
        let queue = view.queue().zip(view.spec.queue());
        sentences.extend(queue.and_then(|(queue, spec)| unseen_locks(queue, spec)));
    }
    sentences.extend(view.failing().and_then(runs::failing));
    sentences.extend(remedy(view));
    sentences.extend(refused(view));
    sentences.extend(in_queue(view));
    sentences.extend(absent::hint(view));
    sentences.join(" ")
}

/// What is known of a task for a word of a rule's sentence.
fn known(view: &TaskView, word: &str) -> Option<String> {
    if let Some(limit) = Limit::ALL.into_iter().find(|limit| limit.name() == word) {
        let ms = limit.ms(&view.spec).unwrap_or_default();
        return Some(format!("{word} ({} s)", seconds(ms)));
    }
    Some(match word {
        "split" => view.splits.iter().map(split).collect::<Vec<_>>().join(" "),
        "wants" => who_wants(view).into_owned(),
        "holders" => view.hold().map_or_else(String::new, |hold| {
            list(hold.holders.iter().map(|(holder, _)| holder_label(holder)), NAMED_MAX)
        }),
        "still" if view.progress.as_ref().is_some_and(|progress| progress.expired) => {
            "the sign of life ran out, and did not come back".to_owned()
        }
        "turn" => whose_turn(view).into_owned(),
        "executes" if view.spec.queue().is_some_and(|spec| spec.lock.is_none()) => String::new(),
        _ => return None,
    })
}

/// Whether a stuck worker would look healthy, because only the lock is watched.
pub fn lock_only(view: &TaskView) -> bool {
    let shows_work = view.spec.runs().is_some();
    view.lock().is_some()
        && !shows_work
        && view.spec.progress.is_none()
        && view.spec.claims.is_none()
}

/// Whose turn it is. The sentence does not change with each turn that is passed: only one that lasts
/// is named.
fn whose_turn(view: &TaskView) -> Cow<'static, str> {
    let late = view.verdict == Verdict::Stalled;
    match view.turn().and_then(|turn| turn.name.as_ref()).filter(|_| late) {
        Some(name) => format!("It is the turn of {}", escape(name)).into(),
        None => "It is somebody's turn".into(),
    }
}

fn who_wants(view: &TaskView) -> Cow<'static, str> {
    match (view.wanting.users, &view.wanting.switches) {
        _ if !view.wanting.lost_users.is_empty() => {
            "Users wanted the task when the store lost their switches".into()
        }
        (Some(on), Some(switches)) if !switches.is_empty() && !is_counted(view) => {
            format!("Users want the task ({on} of {})", switches.len()).into()
        }
        (Some(on), _) => format!("Users want the task ({on})").into(),
        (None, _) if view.wanted == Wanted::Yes => {
            match view.spec.wanted.as_ref().map(|wanted| &wanted.source) {
                Some(WantedSource::Always) => "The task is always wanted".into(),
                _ => "Users want the task (too many switches to count)".into(),
            }
        }
        (None, _) => "Whether users want the task is not known".into(),
    }
}

/// Whether the users are only a number. Then the number of switches does not count users.
pub fn is_counted(view: &TaskView) -> bool {
    view.spec
        .wanted
        .as_ref()
        .is_some_and(|wanted| matches!(wanted.source, WantedSource::Counter(_)))
}

fn split(split: &SplitView) -> String {
    let parties = list(split.parties.iter().map(party_name), NAMED_MAX);
    let kind = split.kind.name();
    format!("More than one holder ({kind}): {parties}.")
}

/// Who stands at the head of the queue, where that explains the verdict: one whom nobody expects
/// there, or who has the lock and does nothing.
fn in_queue(view: &TaskView) -> Option<String> {
    let queue = view.lock()?.rare.queue.as_deref()?;
    let (stands, words) = match view.held? {
        true => (Stands::Holds, "has stood in the queue since"),
        false => (Stands::Blocks, "is no living contender, and keeps all others waiting since"),
    };
    let own = queue.iter().find(|contender| contender.stands == stands)?;
    if stands == Stands::Holds && view.verdict != Verdict::Stalled {
        return None;
    }
    let name = escape(&own.name);
    let session = own.session.as_ref().map_or_else(
        || "of no session".into(),
        |session| format!("of session {}", escape(session)),
    );
    let since = own.since.and_then(|at| rfc3339(at.ms()))?;
    Some(format!("{name} {session} {words} {since} (the servers' clock)."))
}

/// Why nobody can take the lock: its server refuses writes.
fn refused(view: &TaskView) -> Option<String> {
    let why = view.refuses_writes.filter(|_| view.held == Some(false))?;
    if view.wanted == Wanted::No {
        return None;
    }
    let cause = match why {
        Refusal::Oom => {
            "it holds more than `maxmemory`, and its `maxmemory-policy` lets it evict nothing"
        }
        Refusal::NoReplicas => "too few replicas follow it for `min-replicas-to-write`",
        Refusal::Misconf => {
            "it could not write its newest snapshot or its append-only file; only with \
             `stop-writes-on-bgsave-error no` a snapshot does not matter"
        }
    };
    let server = escape(view.node.as_deref().unwrap_or("the server").as_bytes());
    let code = why.name();
    Some(match why {
        Refusal::Misconf => format!("Perhaps {server} refuses writes ({code}): {cause}."),
        _ => format!("Nobody can take it: {server} refuses writes ({code}): {cause}."),
    })
}

/// What cannot be read, and what to do about it.
fn remedy(view: &TaskView) -> Option<String> {
    if let Some(why) = view.unknown.or(view.switches_unknown) {
        return Some(format!("({}: {})", why.name(), cause::message(why, view.words(why))));
    }
    if view.verdict == Verdict::Split {
        return None;
    }
    let switch = view.wanting.switches.as_ref()?.iter().find(|switch| switch.on.is_none())?;
    Some(match switch.fits {
        Some(codec) => format!("(A switch cannot be read: set `codec: {}`.)", codec.name()),
        None => String::from("(A switch says neither on nor off.)"),
    })
}
