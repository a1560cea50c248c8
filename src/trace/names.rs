//! The names of holders and instances inside replies, without what a lock could be released with.

use std::borrow::Cow;

use lockwatch_judge::spec::{Claimants, TaskSpec};
use lockwatch_watch::redis::libraries::{self, Disclosure, Library};

use crate::text::identity::{digest, escape, holder_label};

/// Replaces what could release a lock.
const HIDDEN: &str = "…";

/// What the library allows to be shown of a word in a lock's value, or of the name of a key.
pub(super) fn open(library: &dyn Library, is_name: bool, word: &[u8]) -> Option<String> {
    match library.shown(word, is_name) {
        Disclosure::Whole => Some(escape(word).into_owned()),
        Disclosure::Around(from, to) => Some(format!("{}{HIDDEN}{}", escape(from), escape(to))),
        Disclosure::Nothing => None,
    }
}

/// The display name of an instance in the claims or the hosts. If the lock's value is a secret, an
/// instance may use it as its name.
pub(super) fn instance_label<'a>(spec: &TaskSpec, instance: &'a [u8]) -> Cow<'a, str> {
    match spec.kind.claimants() {
        Claimants::Secret => Cow::Owned(digest(instance)),
        named @ Claimants::Named => Cow::Owned(holder_label(&named.holder(instance)).into_owned()),
        Claimants::Threads => open(libraries::of_task(spec), true, instance)
            .map_or_else(|| escape(instance), Cow::Owned),
    }
}
