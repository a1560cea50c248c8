//! What several outputs say of a queue.

use std::borrow::Cow;

use lockwatch_judge::snapshot::{ExecutionView, MemberView, QueueView};
use lockwatch_judge::time::ServerTime;

use crate::text::identity::{escape, holder_label, list};

/// Maximum number of holders that are named in one place.
const NAMED_MAX: usize = 4;

/// When a member is due; `None`: at once.
pub(super) fn due(member: &MemberView) -> Option<ServerTime> {
    Some(member.due).filter(|due| due.ms() > 0)
}

/// The members that are executed, the oldest first.
pub(super) fn executions(queue: &QueueView) -> impl Iterator<Item = (&MemberView, &ExecutionView)> {
    queue.first.iter().filter_map(|member| Some((member, member.execution.as_ref()?)))
}

/// The oldest member that waits for somebody to execute it.
pub(super) fn oldest_waiting(queue: &QueueView) -> Option<&MemberView> {
    queue.first.iter().find(|member| member.execution.is_none() && !member.is_unread)
}

/// Who executes a member, with the hosts that are known.
pub(super) fn who(execution: &ExecutionView) -> String {
    let name = |(holder, host): &(_, Option<Vec<u8>>)| match host {
        Some(host) => format!("{} on {}", holder_label(holder), escape(host)).into(),
        None => Cow::Owned(holder_label(holder).into_owned()),
    };
    list(execution.holders.iter().map(name), NAMED_MAX)
}
