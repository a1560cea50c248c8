//! The correct answers to the agent's commands, so that a hostile script can falsify one at a time.

use lockwatch_watch::redis::reply::{Reply, ServerError};

/// The server's clock in seconds.
pub(crate) const NOW_S: i64 = 1_800_000_000;
/// The holder of the locks of the library redisson.
pub(crate) const HOLDER: &str = "285475da-9152-4c83-822a-67ee2f116a79:42";
/// The token of the locks of the library string.
pub(crate) const TOKEN: &str = "a-token";

/// The answer to one command.
pub(crate) fn answer(words: &[Vec<u8>]) -> Reply {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    match words.as_slice() {
        [b"AUTH", ..] | [b"SELECT", ..] | [b"CLIENT", ..] | [b"READONLY"] => text("OK"),
        [b"HELLO", ..] => list(vec![text("server"), text("redis")]),
        [b"ROLE"] => list(vec![text("master"), Reply::Int(3_129), list(Vec::new())]),
        [b"INFO", section] => info(section),
        [b"TIME"] => list(vec![text(&NOW_S.to_string()), text("345678")]),
        [b"ECHO", word] => Reply::Bytes(word.to_vec()),
        [b"PEXPIRETIME", b"lockwatch"] => Reply::Int(-2),
        [b"PEXPIRETIME", _] => Reply::Int(NOW_S * 1_000 + 20_000),
        [b"PTTL", _] => Reply::Int(20_000),
        [b"HSCAN", key, ..] if key.ends_with(b"lock") => scan(&[HOLDER, "1"]),
        [b"HSCAN", key, ..] if key.ends_with(b"users") => scan(&["anna", "1", "bert", "0"]),
        [b"HSCAN", key, ..] if key.ends_with(b"claims") => {
            scan(&["285475da-9152-4c83-822a-67ee2f116a79", "17"])
        }
        [b"HSCAN", ..] => scan(&["285475da-9152-4c83-822a-67ee2f116a79", "host-1"]),
        [b"SSCAN", ..] => scan(&["anna"]),
        [b"GET", _] => text(TOKEN),
        [b"GETRANGE", key, ..] if key.ends_with(b"lock") => text(TOKEN),
        [b"GETRANGE", key, ..] if key.ends_with(b"pause") => text("1800000100"),
        [b"GETRANGE", ..] => text("1"),
        [b"HMGET", ..] => list(vec![text("7"), Reply::Nil, Reply::Nil, Reply::Nil]),
        [b"TYPE", key] if key.ends_with(b"lock") => text("hash"),
        [b"TYPE", _] => text("list"),
        [b"HLEN", _] => Reply::Int(1),
        [b"HRANDFIELD", ..] => list(vec![text(HOLDER)]),
        [b"SCAN", ..] => list(vec![text("0"), list(vec![text("outbound:lock"), text("queue")])]),
        [b"PUBSUB", _, first, second] => list(vec![
            Reply::Bytes(first.to_vec()),
            Reply::Int(1),
            Reply::Bytes(second.to_vec()),
            Reply::Int(0),
        ]),
        [
            b"EXISTS" | b"STRLEN" | b"HSTRLEN" | b"LLEN" | b"SCARD" | b"ZCARD" | b"XLEN"
            | b"DBSIZE",
            ..,
        ] => Reply::Int(2),
        _ => {
            Reply::Error(ServerError { code: b"ERR".to_vec(), detail: b"unknown command".to_vec() })
        }
    }
}

fn info(section: &[u8]) -> Reply {
    text(match section {
        b"server" => "# Server\r\nredis_version:7.0.15\r\nos:Linux\r\nrun_id:7b1f0c\r\n",
        b"replication" => {
            "# Replication\r\nrole:master\r\nconnected_slaves:1\r\n\
             slave0:ip=10.0.0.6,port=6379,state=online,offset=3129,lag=0\r\nmaster_replid:9f2c\r\n\
             master_replid2:0000\r\nmaster_repl_offset:3129\r\nsecond_repl_offset:-1\r\n"
        }
        b"persistence" => {
            "# Persistence\r\nloading:0\r\nrdb_last_load_keys_loaded:3\r\naof_enabled:0\r\n"
        }
        b"stats" => "# Stats\r\nevicted_keys:0\r\n",
        b"commandstats" => {
            "# Commandstats\r\ncmdstat_flushall:calls=1,usec=9,usec_per_call=9.00\r\n"
        }
        _ => "",
    })
}

fn text(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

fn list(items: Vec<Reply>) -> Reply {
    Reply::Array(items)
}

fn scan(items: &[&str]) -> Reply {
    list(vec![text("0"), list(items.iter().map(|item| text(item)).collect())])
}
