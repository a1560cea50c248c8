//! The names of hosts: a hash with a field per instance. They are for display, and one hash has
//! those of all tasks.

use alloc::vec::Vec;

use super::part::Part;
use crate::redis::accept::Caps;
use crate::redis::ask::{Ask, Class};
use crate::redis::codec;
use crate::redis::libraries;
use crate::redis::replies::{Replies, scan_hash, scanned_pairs};
use lockwatch_judge::reading::{Parts, Unknown};
use lockwatch_judge::spec::TaskSpec;

pub(super) struct Hosts;

impl Part for Hosts {
    fn asks(&self, spec: &TaskSpec, _caps: Caps, out: &mut Vec<Ask>) {
        out.extend(spec.hosts.as_ref().map(|key| scan_hash(Class::Hosts, key)));
    }

    fn decode(
        &self,
        spec: &TaskSpec,
        _caps: Caps,
        replies: &mut Replies<'_>,
        into: &mut Parts,
    ) -> Option<Ask> {
        spec.hosts.as_ref()?;
        let library = libraries::of_task(spec);
        let host = |(id, host)| (library.instance(id), codec::written_text(host));
        into.hosts =
            Some(scanned_pairs(replies.next()).map(|pairs| pairs.into_iter().map(host).collect()));
        None
    }

    /// The names read last stay.
    fn unreadable(&self, _why: Unknown, _into: &mut Parts) {}

    fn is_extra(&self) -> bool {
        true
    }
}
