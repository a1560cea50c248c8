//! What a lock library must say of itself.

use alloc::vec::Vec;

use super::recognise::{Guess, Role, ScannedKey};
use crate::redis::ask::Ask;
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Extras, Holder, Mode, Unknown};
use lockwatch_judge::spec::{Claimants, LockSpec};
use lockwatch_judge::time::ServerTime;

/// What is known of a lock library.
pub trait Library: Sync {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;

    /// How its holders name themselves in claims and hosts, which says whether that is secret.
    fn claimants(&self) -> Claimants;

    /// How often it renews a lease; `None`: not at all, or at no fixed pace.
    fn renewals_per_lease(&self) -> Option<u32> {
        None
    }

    /// The lease of a lock that is taken without one, in milliseconds.
    fn default_lease_ms(&self) -> Option<u64> {
        None
    }

    /// What reads the holders. The reply is bounded, whatever the key contains.
    fn value(&self, key: &[u8]) -> Ask;

    /// Decodes the reply to [`Library::value`]. `exists`: the key existed according to the
    /// deadlines around it.
    fn decode(&self, key: &[u8], reply: &Reply, exists: bool) -> Value;

    /// Whether the lock is a key. If not, it has no deadline, and nobody announces its changes.
    fn is_key(&self) -> bool {
        true
    }

    /// Decodes it for a lock with this configuration.
    fn decode_of(&self, lock: &LockSpec, reply: &Reply, exists: bool) -> Value {
        self.decode(&lock.key, reply, exists)
    }

    /// Whether the value says until when it is held, so that the server's clock is asked with it.
    fn needs_the_clock(&self) -> bool {
        false
    }

    /// Whether it must be configured what the scores of its members mean.
    fn needs_score(&self) -> bool {
        false
    }

    /// Whether the key's deadline moves with each change of its holders, so that a look at the
    /// deadline alone shows that nothing has changed.
    fn moves_the_deadline(&self) -> bool {
        true
    }

    /// What the value says instead of who holds the lock, if holders cannot be told apart by it; in
    /// sentences.
    fn instead_of_a_name(&self) -> Option<&'static str> {
        None
    }

    /// Whether the lock's value is one text that means nothing to the library, so that a value path
    /// may say where its holder is named.
    fn takes_a_path(&self) -> bool {
        false
    }

    /// The instant that a holder's value is, where the library does not say what it means: when the
    /// holder began, or when its lease ends.
    fn instant(&self, _client: &[u8]) -> Option<ServerTime> {
        None
    }

    /// What reads waiters and fencing token. `sharded`: messages go only to the server of the
    /// channel's slot.
    fn extras(&self, _key: &[u8], _sharded: bool) -> Vec<Ask> {
        Vec::new()
    }

    /// Decodes the replies to [`Library::extras`].
    fn decode_extras(&self, _replies: &[Reply]) -> Extras {
        Extras::default()
    }

    /// The field of a holder in the hash that is the lock, if it is one.
    fn field(&self, _mode: Mode, _holder: &Holder) -> Option<Vec<u8>> {
        None
    }

    /// One question for each holder of a shared lock. A positive integer as the reply proves that
    /// this holder lives.
    fn liveness(&self, _key: &[u8], _holders: &[Holder]) -> Vec<Ask> {
        Vec::new()
    }

    /// How much of a word of the value, or of the name of a key beside it, may be shown. `is_name`:
    /// it is the name of such a key or of a field.
    fn shown<'a>(&self, _word: &'a [u8], _is_name: bool) -> Disclosure<'a> {
        Disclosure::Nothing
    }

    /// Recognises a key: a lock of this library, or what it keeps beside one.
    fn recognise(&self, _seen: &ScannedKey) -> Option<Guess> {
        None
    }

    /// Whether the fields of a hash are named as holders are, so that its values are worth reading.
    fn names_holders(&self, _key: &[u8], _fields: &[Vec<u8>]) -> bool {
        false
    }

    /// Whether the library keeps a key of this name for a lock, so that it is no lock itself.
    fn is_companion(&self, _key: &[u8]) -> bool {
        false
    }

    /// The possible names of the lock whose name is written as `inner` in the keys beside it.
    fn locks_of(&self, inner: &[u8]) -> Vec<Vec<u8>> {
        Vec::from([inner.to_vec()])
    }

    /// The kind of a lock that was recognised as `what` (empty: not seen) and has keys of these
    /// roles beside it.
    fn kind(&self, what: &'static str, _companions: &[Role]) -> &'static str {
        what
    }

    /// The instance named by a field of the claims or hosts.
    fn instance(&self, field: &[u8]) -> Vec<u8> {
        field.to_vec()
    }
}

/// How much of a word may be shown. The rest could release the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disclosure<'a> {
    /// All of it.
    Whole,
    /// All but what stands between these.
    Around(&'a [u8], &'a [u8]),
    /// Nothing.
    Nothing,
}

/// The decoded value of a lock's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The key does not exist.
    Absent,
    /// The key exists, and says that nobody holds the lock.
    Free,
    /// It is held.
    Present {
        /// Whether holders exclude each other.
        mode: Mode,
        /// The holders, sorted.
        holders: Vec<Holder>,
    },
    /// It says itself until when it is held, so the clock shows whether it still is.
    Leased(Leases),
    /// The value is no lock of this library, or may not be read.
    Unknown(Unknown),
}

/// What the value of a lock says of the leases of its holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leases {
    /// Whether holders exclude each other.
    pub mode: Mode,
    /// All of them, also those that have ended.
    pub all: Vec<Lease>,
    /// The library never leaves such a key without a TTL.
    pub needs_ttl: bool,
}

/// What one holder has of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who.
    pub holder: Holder,
    /// Until when.
    pub until: ServerTime,
}

impl Lease {
    /// The lease of whoever knows this token.
    pub(super) fn of_token(token: &[u8], until: ServerTime) -> Lease {
        Lease { holder: Claimants::Secret.holder(token), until }
    }
}
