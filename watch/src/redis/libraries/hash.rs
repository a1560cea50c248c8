//! A re-entrant lock made by hand: a hash whose only field is the owner's id, its value the count
//! of entries, and a TTL on the key. Knowing the id is enough to release the lock, so it is a
//! secret.

use alloc::vec;
use alloc::vec::Vec;

use super::library::{Library, Value};
use super::recognise::{Content, Guess, Laid, ScannedKey};
use super::shape::{is_uuid, names_a_lock, split_last};
use super::string;
use crate::command;
use crate::redis::ask::{Ask, Class};
use crate::redis::replies::scanned_pairs;
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Holder, Mode, Unknown};
use lockwatch_judge::spec::Claimants;

const NAME: &str = "hash";
/// Maximum number of fields that are read: a larger hash is something else.
const MAX_FIELDS: &str = "16";
/// Maximum length of an owner's id in bytes, as a scan takes it for one.
const OWNER_BYTES: usize = 128;

pub(super) struct OwnHash;

impl Library for OwnHash {
    fn name(&self) -> &'static str {
        NAME
    }

    fn claimants(&self) -> Claimants {
        Claimants::Secret
    }

    fn value(&self, key: &[u8]) -> Ask {
        Ask::new(Class::Holders, command!("HSCAN", key, "0", "COUNT", MAX_FIELDS))
    }

    fn decode(&self, _key: &[u8], reply: &Reply, _exists: bool) -> Value {
        match scanned_pairs(reply) {
            Ok(pairs) => match pairs.as_slice() {
                [] => Value::Absent,
                [(owner, count)] => Value::Present {
                    mode: Mode::Exclusive,
                    holders: vec![Holder {
                        client: owner.to_vec(),
                        thread: None,
                        entries: entries(count),
                        secret: true,
                    }],
                },
                _ => Value::Unknown(Unknown::Layout),
            },
            Err(why) => Value::Unknown(why),
        }
    }

    fn field(&self, _mode: Mode, holder: &Holder) -> Option<Vec<u8>> {
        Some(holder.client.clone())
    }

    fn recognise(&self, seen: &ScannedKey) -> Option<Guess> {
        const WHAT: &str = "A hash with one field, perhaps the owner of a lock made by hand";
        const WHY: &str = "many other things are a hash with one field and a small number";
        const FIELD: &str = "A hash whose only field each holder names alike, as ioredfour does";
        const ALIKE: &str = "its value is a number, which names no holder";
        let Content::Hash { length: 1, scanned: Some(scanned), .. } = &seen.content else {
            return None;
        };
        let pairs = scanned_pairs(scanned).ok()?;
        let [(owner, count)] = pairs.as_slice() else { return None };
        if seen.ttl_ms.is_none() || entries(count).is_none() {
            return None;
        }
        let doubtful = |what, why| Some(Guess::Doubtful(Laid::new(NAME, what), why));
        match (is_of_two_uuids(owner), names_a_lock(&seen.key)) {
            (true, _) => doubtful("node-redisson", "by its only field, which has two UUIDs"),
            (false, true) if is_label(owner) => {
                let field = vec![owner.to_vec()];
                Some(Guess::DoubtfulFields(Laid::new(string::NAME, FIELD), ALIKE, field))
            }
            (false, true) => doubtful(WHAT, WHY),
            (false, false) => None,
        }
    }

    fn names_holders(&self, key: &[u8], fields: &[Vec<u8>]) -> bool {
        let [owner] = fields else { return false };
        let may_be_owner = (1..=OWNER_BYTES).contains(&owner.len()) && names_a_lock(key);
        may_be_owner || is_of_two_uuids(owner)
    }
}

/// `<client's uuid>:<lock object's uuid>`.
fn is_of_two_uuids(field: &[u8]) -> bool {
    split_last(field, b':').is_some_and(|(client, lock)| is_uuid(client) && is_uuid(lock))
}

/// Names of a field that say what its value is, and so are no holder.
fn is_label(field: &[u8]) -> bool {
    const LABELS: [&[u8]; 12] = [
        b"index", b"owner", b"holder", b"id", b"token", b"value", b"lock", b"count", b"counter",
        b"state", b"status", b"locked",
    ];
    LABELS.iter().any(|label| field.eq_ignore_ascii_case(label))
}

/// A positive count of entries.
fn entries(count: &[u8]) -> Option<u32> {
    core::str::from_utf8(count).ok()?.parse().ok().filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(pairs: &[(&str, &str)]) -> Reply {
        let bytes = |text: &str| Reply::Bytes(text.into());
        let items = pairs.iter().flat_map(|(field, value)| [bytes(field), bytes(value)]);
        Reply::Array(vec![bytes("0"), Reply::Array(items.collect())])
    }

    #[test]
    fn the_only_field_is_the_holder() {
        for (owner, count, expected) in
            [("node-7", "1", Some(1)), ("1111-2222", "3", Some(3)), ("node-7", "x", None)]
        {
            let Value::Present { mode: Mode::Exclusive, holders } =
                OwnHash.decode(b"lock", &scan(&[(owner, count)]), true)
            else {
                panic!("{owner} is held")
            };
            assert_eq!(holders[0].client, owner.as_bytes());
            assert_eq!((holders[0].entries, holders[0].secret), (expected, true));
        }
        assert_eq!(OwnHash.decode(b"lock", &scan(&[]), false), Value::Absent);
        let two = scan(&[("owner", "node-7"), ("count", "1")]);
        assert_eq!(OwnHash.decode(b"lock", &two, true), Value::Unknown(Unknown::Layout));
    }
}
