//! What each part must do.

use alloc::vec::Vec;

use crate::redis::accept::Caps;
use crate::redis::ask::Ask;
use crate::redis::replies::Replies;
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Parts, Unknown, User};
use lockwatch_judge::spec::TaskSpec;

/// One part.
pub(crate) trait Part: Sync {
    /// Appends what is asked; nothing if the part is not configured.
    fn asks(&self, spec: &TaskSpec, caps: Caps, out: &mut Vec<Ask>);

    /// Decodes the replies to these. Returns what they make it necessary to ask.
    fn decode(
        &self,
        spec: &TaskSpec,
        caps: Caps,
        replies: &mut Replies<'_>,
        into: &mut Parts,
    ) -> Option<Ask>;

    /// Appends whatever [`Part::decode`] may return.
    fn later_asks(&self, _spec: &TaskSpec, _out: &mut Vec<Ask>) {}

    /// Decodes the reply to what [`Part::decode`] returned.
    fn decode_later(&self, _reply: &Reply, _into: &mut Parts) {}

    /// What asks when these fields of its hash end, if the server has such deadlines.
    fn fields_ask(&self, _spec: &TaskSpec, _caps: Caps, _fields: &[User]) -> Option<Ask> {
        None
    }

    /// Decodes the reply to [`Part::fields_ask`].
    fn take_fields(&self, _fields: &[User], _reply: &Reply, _into: &mut Parts) {}

    /// Enters why the part cannot be read.
    fn unreadable(&self, why: Unknown, into: &mut Parts);

    /// Whether a change of its keys may change the verdict at once, so that a server is to announce
    /// it.
    fn is_watched(&self) -> bool {
        false
    }

    /// Whether it is read only now and then, because it is for display.
    fn is_extra(&self) -> bool {
        false
    }
}
