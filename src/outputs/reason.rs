//! Why a task has its verdict, in a sentence for people. It names thresholds, counts and remedies,
//! but no values that grow with time. So the sentence does not change while the reason does not.

use std::borrow::Cow;

use lockwatch_judge::input::Refusal;
use lockwatch_judge::snapshot::{SplitView, TaskView};
use lockwatch_judge::spec::WantedSource;
use lockwatch_judge::verdict::{Rule, Verdict, Wanted};

use crate::outputs::absent;
use crate::outputs::cause;
use crate::outputs::progress::hint;
use crate::outputs::remark::unseen_locks;
use crate::outputs::runs;
use crate::outputs::turn::max_late_ms;
use crate::text::identity::{escape, holder_label, list, party_name};
use crate::text::instants::seconds;

/// Maximum number of holders that are named.
const NAMED_MAX: usize = 4;

/// The reason. All text in it is escaped by [`escape`], but not for HTML.
pub fn sentence(view: &TaskView) -> String {
    let spec = &view.spec;
    let limit = |name, ms| format!("{name} ({} s)", seconds(ms));
    let grace = || limit("grace", spec.grace_ms);
    let blind_after = || limit("blind_after", spec.blind_after_ms);
    let reason = match view.rule {
        Rule::SplitEvidence => view.splits.iter().map(split).collect::<Vec<_>>().join(" "),
        Rule::LockBlind => format!("The lock could not be read for longer than {}.", blind_after()),
        Rule::WantedBlind => format!(
            "Whether users want the task could not be read for longer than {}, and no hold has lasted \
             since.",
            blind_after()
        ),
        Rule::KeepPrevious | Rule::NothingYet => view.rule.sentence().to_owned(),
        Rule::GapOverGrace => {
            format!(
                "{}, the lock is free, and no hold has lasted for {} for longer than {}.",
                who_wants(view),
                limit("settle", spec.settle_ms),
                grace()
            )
        }
        Rule::HeldBriefly => {
            let holders = view.hold().map(|hold| &*hold.holders).unwrap_or_default();
            let names = holders.iter().map(|(holder, _)| holder_label(holder));
            format!(
                "{}, and no hold has lasted for longer than {}. {} holds the lock now, and must \
                 hold it for {}.",
                who_wants(view),
                grace(),
                list(names, NAMED_MAX),
                limit("settle", spec.settle_ms),
            )
        }
        Rule::GapWithinGrace => {
            format!(
                "{}, and nobody holds the lock yet; that is within {}.",
                who_wants(view),
                grace()
            )
        }
        Rule::NoProgress => {
            let stale_after =
                spec.progress.as_ref().map(|progress| progress.stale_after_ms).unwrap_or_default();
            let limit = limit("stale_after", stale_after);
            let expired = view.progress.as_ref().is_some_and(|progress| progress.expired);
            let what = match expired {
                true => "the sign of life ran out, and did not come back",
                false => "the progress has not moved",
            };
            let hint = hint(view).map(|hint| format!(" {hint}")).unwrap_or_default();
            format!("The lock is held, but {what} for longer than {limit}.{hint}")
        }
        Rule::HeldUnwanted => {
            let limit = limit("wind_down", spec.wind_down_ms);
            format!("The lock is held though nobody has wanted the task for longer than {limit}.")
        }
        Rule::WindingDown => {
            let limit = limit("wind_down", spec.wind_down_ms);
            format!(
                "The lock is held though nobody wants the task any more; that is within {limit}."
            )
        }
        Rule::HeldWanted => format!("The lock is held. {}.", who_wants(view)),
        Rule::HeldUnset | Rule::HeldWantedUnknown | Rule::FreeUnwanted | Rule::FreeUnset => {
            view.rule.sentence().to_owned()
        }
        Rule::TurnBlind => {
            format!("Whose turn it is could not be read for longer than {}.", blind_after())
        }
        Rule::QueueBlind => format!(
            "The queue, or whether users want it, could not be read for longer than {}.",
            blind_after()
        ),
        Rule::TurnLate => format!(
            "{}, and it has not been passed on for longer than {}.",
            whose_turn(view),
            limit("max_late", max_late_ms(spec))
        ),
        Rule::TurnWanted => format!("{}. {}.", whose_turn(view), who_wants(view)),
        Rule::TurnUnset => format!("{}; no switches are configured.", whose_turn(view)),
        Rule::NoTurnOverGrace => format!(
            "{}, and it has been nobody's turn for longer than {}.",
            who_wants(view),
            grace()
        ),
        Rule::NoTurnWithinGrace => {
            format!("{}, and it is nobody's turn; that is within {}.", who_wants(view), grace())
        }
        Rule::QueueLate => queue_late(view, limit("max_late", max_late_ms(spec))),
        Rule::QueueWanted => {
            format!("Nothing that is due waits for too long. {}.", who_wants(view))
        }
        Rule::TurnWantedUnknown
        | Rule::TurnUnwanted
        | Rule::NoTurnBlind
        | Rule::NoTurnUnwanted
        | Rule::NoTurnUnset
        | Rule::QueueUnset
        | Rule::QueueUnwanted => view.rule.sentence().to_owned(),
    };
    let mut sentences = vec![reason];
    sentences.extend(view.failing().and_then(runs::failing));
    sentences.extend(remedy(view));
    sentences.extend(refused(view));
    sentences.extend(absent::hint(view));
    sentences.join(" ")
}

fn queue_late(view: &TaskView, limit: String) -> String {
    let queue = view.queue().zip(view.spec.queue());
    let unseen = queue.and_then(|(queue, spec)| unseen_locks(queue, spec));
    let executes = match view.spec.queue().map(|spec| &spec.lock) {
        Some(None) => "",
        _ => ", nobody executes it",
    };
    let late =
        format!("A member of the queue is due{executes}, and that has lasted longer than {limit}.");
    match unseen {
        Some(unseen) => format!("{late} {unseen}"),
        None => late,
    }
}

/// Whether a stuck worker would look healthy, because only the lock is watched.
pub fn lock_only(view: &TaskView) -> bool {
    view.lock().is_some() && view.spec.progress.is_none() && view.spec.claims.is_none()
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
    match (view.wanting_users, &view.switches) {
        _ if !view.lost_users.is_empty() => {
            "Users wanted the task when Redis lost their switches".into()
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
    let switch = view.switches.as_ref()?.iter().find(|switch| switch.on.is_none())?;
    Some(match switch.fits {
        Some(codec) => format!("(A switch cannot be read: set `codec: {}`.)", codec.name()),
        None => String::from("(A switch says neither on nor off.)"),
    })
}
