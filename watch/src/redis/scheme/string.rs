//! A token in a string key: `SET key token NX PX …`, as most lock libraries use it. Knowing the
//! token is enough to release the lock, so it is a secret.

use alloc::vec;
use alloc::vec::Vec;

use super::{Scheme, Value};
use crate::command;
use crate::redis::reply::{Command, Reply};
use lockwatch_judge::reading::{Extras, Holder, Mode, Unknown};

/// Index of the last byte of a token that is read. Tokens are far shorter; a longer value is
/// identified by its beginning.
const LAST_BYTE: &str = "511";

pub(super) struct Token;

impl Scheme for Token {
    fn value(&self, key: &[u8]) -> Command {
        command!("GETRANGE", key, "0", LAST_BYTE)
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

    fn extras(&self, _key: &[u8], _sharded: bool) -> Vec<Command> {
        Vec::new()
    }

    fn decode_extras(&self, _replies: &[Reply]) -> Extras {
        Extras::default()
    }

    fn liveness(&self, _key: &[u8], _holders: &[Holder]) -> Vec<Command> {
        Vec::new()
    }
}
