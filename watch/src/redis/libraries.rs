//! Lock libraries: one file each, and one line each in [`ALL`]. A library's file has everything
//! that is known of it.

use alloc::vec::Vec;

use self::recognise::{Guess, ScannedKey};
use crate::redis::ask::{Ask, Class};
use crate::redis::reply::Reply;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::{Claimants, LibraryName, LockSpec, TaskSpec};

mod channel;
mod counter;
mod deadline;
mod hash;
mod leaders;
mod library;
pub mod recognise;
mod redisson;
pub mod shape;
mod shedlock;
mod single_beat;
mod string;
mod unread;
mod zset;

pub use library::{Disclosure, Leases, Library, Value};
pub(super) use string::held_by;
pub use string::{HUEY_RESULTS, UNNAMED};
pub use zset::may_be_of_holders;

/// All libraries. The last two are last because they recognise whatever might be a lock.
pub static ALL: [&dyn Library; 9] = [
    &redisson::Redisson,
    &shedlock::ShedLock,
    &single_beat::SingleBeat,
    &channel::Channel,
    &counter::Counter,
    &deadline::Deadline,
    &zset::Members,
    &string::Token,
    &hash::OwnHash,
];

/// The library of a lock for which none is configured.
pub const DEFAULT: &str = "redisson";

/// Why a lock with such a name is no task.
const DIGEST: &str = "32 hex digits in its name are the digest of a fixed name, or the id of one of \
    many items";

/// Which library created a key. The first that recognises it counts. A lock with a date, a time or
/// an id in its name is one of many: the next one has another name.
pub fn recognise(seen: &ScannedKey) -> Guess {
    let guess = ALL.iter().find_map(|library| library.recognise(seen)).unwrap_or(Guess::Nothing);
    match guess {
        Guess::Lock(laid) | Guess::Doubtful(laid, _) if shape::names_one_of_many(&seen.key) => {
            Guess::PerItem(laid.what)
        }
        Guess::Lock(laid) if shape::has_digest_or_id(&seen.key) => Guess::Doubtful(laid, DIGEST),
        guess => guess,
    }
}

/// Whether the fields of a hash are named as the holders of some library.
pub fn names_holders(key: &[u8], fields: &[Vec<u8>]) -> bool {
    ALL.iter().any(|library| library.names_holders(key, fields))
}

/// The names of all libraries.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|library| library.name())
}

/// The library of this name.
pub fn named(name: &str) -> Option<&'static dyn Library> {
    ALL.iter().find(|library| library.name() == name).copied()
}

/// The library of a configured lock. Of a name that is not in [`ALL`] nothing can be read.
pub fn of(name: &LibraryName) -> &'static dyn Library {
    named(name.as_str()).unwrap_or(&Unlisted)
}

/// The library of the locks of a task. One without a lock has no library, and its instances are
/// named as they are written.
pub fn of_task(spec: &TaskSpec) -> &'static dyn Library {
    spec.kind.library().map_or(&Unlisted, of)
}

/// A lock of the library `name` with the rules of that library. Its lease is learned.
pub fn lock(key: &[u8], name: &str) -> LockSpec {
    let lock = LockSpec::new(key, name);
    let library = of(&lock.library);
    LockSpec {
        renewals_per_lease: library.renewals_per_lease(),
        claimants: library.claimants(),
        never_expires: !library.is_key(),
        ..lock
    }
}

/// Stands for a library that is not in [`ALL`], which no configuration can name, and for none.
struct Unlisted;

impl Library for Unlisted {
    fn name(&self) -> &'static str {
        "unlisted"
    }

    fn claimants(&self) -> Claimants {
        Claimants::Secret
    }

    fn value(&self, key: &[u8]) -> Ask {
        Ask::new(Class::Number, crate::command!("EXISTS", key))
    }

    fn decode(&self, _key: &[u8], _reply: &Reply, _exists: bool) -> Value {
        Value::Unknown(Unknown::Layout)
    }
}
