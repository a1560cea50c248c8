//! Converts the redis crate's values to the model's replies, and a server's refusals to reasons.

use lockwatch_judge::reading::Unknown;
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

/// Why a server refused a command of the greeting. A login can be refused in many more ways than
/// other commands.
pub(super) fn refusal(error: &ServerError) -> Unknown {
    let says = |part: &str| {
        error.detail.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
    };
    match error.code.as_slice() {
        b"DENIED" => Unknown::Auth, // Protected mode: there is no password.
        // How servers before 6.0 refuse a password.
        b"ERR"
            if says("invalid password") || says("sent AUTH") || says("operation not permitted") =>
        {
            Unknown::Auth
        }
        _ => Unknown::from(error),
    }
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

    #[test]
    fn refusals_are_told_apart() {
        let table: [(&[u8], Unknown); 16] = [
            (b"-NOAUTH Authentication required.\r\n", Unknown::Auth),
            (b"-WRONGPASS invalid username-password pair or user is disabled.\r\n", Unknown::Auth),
            (b"-ERR invalid password\r\n", Unknown::Auth),
            (b"-ERR Client sent AUTH, but no password is set\r\n", Unknown::Auth),
            (b"-ERR operation not permitted\r\n", Unknown::Auth),
            (b"-DENIED Redis is running in protected mode because ...\r\n", Unknown::Auth),
            (
                b"-NOPERM this user has no permissions to run the 'role' command\r\n",
                Unknown::NoPermission,
            ),
            (b"-LOADING Redis is loading the dataset in memory\r\n", Unknown::Loading),
            (b"-BUSY Redis is busy running a script.\r\n", Unknown::Busy),
            (b"-MASTERDOWN Link with MASTER is down\r\n", Unknown::NotMaster),
            (b"-WRONGTYPE Operation against a key\r\n", Unknown::WrongType),
            (b"-ERR max number of clients reached\r\n", Unknown::MaxClients),
            (b"-ERR max number of clients + cluster connections reached\r\n", Unknown::MaxClients),
            (b"-ERR unknown command\r\n", Unknown::ServerError),
            (b"-MISCONF disk\r\n", Unknown::ServerError),
            (b"-\r\n", Unknown::ServerError),
        ];
        for (bytes, expected) in table {
            let Reply::Error(error) = parse(bytes) else { panic!("{}", bytes.escape_ascii()) };
            assert_eq!(refusal(&error), expected, "{}", bytes.escape_ascii());
        }
    }
}
