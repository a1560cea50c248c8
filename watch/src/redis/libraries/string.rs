//! A token in a string key: `SET key token NX PX …`, as most lock libraries use it. Knowing the
//! token is enough to release the lock, so it is a secret.

use alloc::vec;

use super::{Library, Value};
use crate::command;
use crate::redis::ask::{Ask, Class};
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Holder, Mode, Unknown};
use lockwatch_judge::spec::Claimants;

/// Index of the last byte of a token that is read. Tokens are far shorter; a longer value is
/// identified by its beginning.
const LAST_BYTE: &str = "511";

pub(super) struct Token;

impl Library for Token {
    fn name(&self) -> &'static str {
        "string"
    }

    fn claimants(&self) -> Claimants {
        Claimants::Secret
    }

    fn value(&self, key: &[u8]) -> Ask {
        Ask::new(Class::Holders, command!("GETRANGE", key, "0", LAST_BYTE))
    }

    fn decode(&self, reply: &Reply, exists: bool) -> Value {
        match reply {
            // GETRANGE answers an absent key and an empty value alike.
            Reply::Bytes(token) if token.is_empty() && !exists => Value::Absent,
            Reply::Bytes(token) => Value::Present {
                mode: Mode::Exclusive,
                holders: vec![Holder {
                    client: token.clone(),
                    thread: None,
                    entries: None,
                    secret: true,
                }],
            },
            Reply::Error(error) => Value::Unknown(error.into()),
            _ => Value::Unknown(Unknown::Protocol),
        }
    }
}
