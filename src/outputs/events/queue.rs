//! The words of what happens to the members of a queue.

use lockwatch_judge::reading::Holder;
use lockwatch_judge::time::ServerTime;

use super::{Description, Level, NAMED_MAX};
use crate::text::identity::{escape, holder_label, list};
use crate::text::instants::rfc3339;

pub(super) fn executed_again(id: &[u8], before: &[Holder], now: &[Holder]) -> Description {
    let message = format!("member {} is executed again, by another worker", escape(id));
    Description::new(Level::WARN, "executed_again", message).who(format!(
        "{} after {}",
        names(now),
        names(before)
    ))
}

pub(super) fn execution_expired(id: &[u8], holders: &[Holder], goes_on: bool) -> Description {
    let what = match goes_on {
        true => "its worker goes on without it",
        false => "its worker is dead, or takes longer than the lock lasts",
    };
    let message =
        format!("the lock of member {} expired before the member left: {what}", escape(id));
    Description::new(Level::WARN, "execution_expired", message).who(names(holders))
}

pub(super) fn dead_holder(id: &[u8], holders: &[Holder], until: Option<ServerTime>) -> Description {
    let until = match end(until) {
        Some(end) => format!("nobody else can execute it until {end}"),
        None => "its lock has no known end".to_owned(),
    };
    let message = format!("who executes member {} fell silent; {until}", escape(id));
    Description::new(Level::WARN, "dead_holder", message).who(names(holders))
}

pub(super) fn lock_outlived_task(
    id: &[u8],
    holders: &[Holder],
    until: Option<ServerTime>,
) -> Description {
    let until = end(until).map_or("with no known end".to_owned(), |end| format!("until {end}"));
    let message = format!("member {} left the queue, and its lock stays, {until}", escape(id));
    Description::new(Level::WARN, "lock_outlived_task", message).who(names(holders))
}

pub(super) fn members_vanished(number: u64) -> Description {
    let message = format!(
        "{number} due members left the queue, and nobody was seen to execute them, though \
         executions are seen otherwise"
    );
    Description::new(Level::WARN, "members_vanished", message)
        .remedy("Find who removes members without executing them: often a loop that cleans up.")
}

fn names(holders: &[Holder]) -> String {
    list(holders.iter().map(holder_label), NAMED_MAX)
}

fn end(until: Option<ServerTime>) -> Option<String> {
    rfc3339(until?.0)
}
