//! A subscription to a channel, as portalocker's `RedisLock` has one: held while somebody listens.
//! There is no key, so nothing says who holds it, nothing ends by itself, and no server announces
//! a change. A worker that tries to take the lock listens for a moment, too.

use alloc::vec;

use super::library::{Library, Value};
use crate::command;
use crate::redis::ask::{Ask, Class};
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Holder, Mode, Unknown};
use lockwatch_judge::spec::Claimants;

pub(super) struct Channel;

impl Library for Channel {
    fn name(&self) -> &'static str {
        "channel"
    }

    fn claimants(&self) -> Claimants {
        Claimants::Secret
    }

    fn is_key(&self) -> bool {
        false
    }

    fn value(&self, key: &[u8]) -> Ask {
        Ask::keyless(Class::Listeners, command!("PUBSUB", "NUMSUB", key))
    }

    fn decode(&self, key: &[u8], reply: &Reply, _exists: bool) -> Value {
        match reply {
            Reply::Array(pair) => match pair.as_slice() {
                [Reply::Bytes(channel), Reply::Int(listeners)] if channel == key => {
                    match *listeners {
                        0 => Value::Absent,
                        1.. => Value::Present {
                            mode: Mode::Exclusive,
                            holders: vec![Holder::NOBODY_KNOWN],
                        },
                        _ => Value::Unknown(Unknown::Protocol),
                    }
                }
                _ => Value::Unknown(Unknown::Protocol),
            },
            Reply::Error(error) => Value::Unknown(error.into()),
            _ => Value::Unknown(Unknown::Protocol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_held_while_somebody_listens() {
        let decode = |channel: &str, listeners: Reply| {
            let pair = vec![Reply::Bytes(channel.as_bytes().to_vec()), listeners];
            Channel.decode(b"nightly", &Reply::Array(pair), false)
        };
        let held = Value::Present { mode: Mode::Exclusive, holders: vec![Holder::NOBODY_KNOWN] };
        assert_eq!(decode("nightly", Reply::Int(0)), Value::Absent);
        assert_eq!(decode("nightly", Reply::Int(1)), held);
        assert_eq!(decode("nightly", Reply::Int(2)), held);
        let odd = Value::Unknown(Unknown::Protocol);
        assert_eq!(decode("nightly", Reply::Int(-1)), odd);
        assert_eq!(decode("nightly", Reply::Nil), odd);
        assert_eq!(decode("other", Reply::Int(1)), odd);
        for reply in [Reply::Nil, Reply::Array(vec![]), Reply::Int(1), Reply::Bytes(vec![])] {
            assert_eq!(Channel.decode(b"nightly", &reply, true), odd, "{reply:?}");
        }
    }
}
