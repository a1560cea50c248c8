//! Converts the redis crate's values to replies.

use lockwatch_watch::redis::reply::{Command, Reply, ServerError};
use redis::Value;

/// Converts one reply. RESP3 types do not occur, because these connections speak RESP2.
pub(super) fn reply(value: Value) -> Reply {
    match value {
        Value::Int(value) => Reply::Int(value),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::SimpleString(text) => Reply::Bytes(text.into_bytes()),
        Value::Okay => Reply::Bytes(b"OK".to_vec()),
        Value::Array(items) => Reply::Array(items.into_iter().map(reply).collect()),
        Value::ServerError(error) => Reply::Error(ServerError {
            code: error.code().as_bytes().to_vec(),
            detail: error.details().unwrap_or_default().as_bytes().to_vec(),
        }),
        _ => Reply::Nil,
    }
}

/// Puts the commands into one pipeline, so that they are sent in one write.
pub(super) fn pipeline(commands: &[Command]) -> redis::Pipeline {
    let mut pipeline = redis::Pipeline::with_capacity(commands.len());
    for command in commands {
        let bytes = command.args.iter().map(Vec::len).sum();
        let mut packed = redis::Cmd::with_capacity(command.args.len(), bytes);
        for word in &command.args {
            packed.arg(word.as_slice());
        }
        pipeline.add_command(packed);
    }
    pipeline
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Reply {
        reply(redis::parse_redis_value(bytes).unwrap())
    }

    #[test]
    fn every_kind_of_reply_is_converted() {
        let bytes = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        assert_eq!(parse(b"+OK\r\n"), bytes("OK"));
        assert_eq!(parse(b"+PONG\r\n"), bytes("PONG"));
        assert_eq!(parse(b":-7\r\n"), Reply::Int(-7));
        assert_eq!(parse(b"$-1\r\n"), Reply::Nil);
        assert_eq!(parse(b"*-1\r\n"), Reply::Nil);
        assert_eq!(parse(b"$2\r\n\xff\x00\r\n"), Reply::Bytes(vec![0xff, 0]));
        assert_eq!(
            parse(b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n"),
            Reply::Array(vec![bytes("a"), Reply::Array(vec![Reply::Int(1)])])
        );
    }
}
