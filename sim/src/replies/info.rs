//! The replies to `INFO` and `ROLE`.

use std::fmt::Write as _;

use lockwatch_watch::redis::reply::Reply;

use crate::server::{Health, Server};

impl Server {
    pub(super) fn info(&mut self, section: &[u8]) -> Reply {
        let history = &self.history;
        let mut text = String::new();
        let written = match section {
            b"server" => {
                if self.info_text.0 != history.run_id {
                    let version = if self.has_pexpiretime { "7.0.15" } else { "6.2.14" };
                    let shown = format!(
                        "# Server\r\nredis_version:{version}\r\nrun_id:{:040x}\r\n\
                         tcp_port:6379\r\n",
                        history.run_id
                    );
                    self.info_text = (history.run_id, shown.into_bytes());
                }
                return Reply::Bytes(self.info_text.1.clone());
            }
            b"replication" => self.replication(&mut text),
            b"persistence" => write!(
                text,
                "# Persistence\r\nloading:{}\r\naof_enabled:{}\r\nrdb_last_load_keys_expired:0\r\n\
                 rdb_last_load_keys_loaded:{}\r\n",
                u8::from(self.health == Health::Loading),
                u8::from(self.append_only),
                history.loaded_keys
            ),
            b"stats" => {
                write!(
                    text,
                    "# Stats\r\ntotal_connections_received:9\r\nevicted_keys:{}\r\n",
                    history.evictions
                )
            }
            b"commandstats" if history.flushes > 0 => {
                write!(
                    text,
                    "# Commandstats\r\ncmdstat_flushall:calls={},usec=9,usec_per_call=9.00\r\n",
                    history.flushes
                )
            }
            b"commandstats" => {
                write!(text, "# Commandstats\r\ncmdstat_time:calls=7,usec=9,usec_per_call=1.00\r\n")
            }
            _ => Ok(()),
        };
        debug_assert!(written.is_ok(), "a String takes everything");
        Reply::Bytes(text.into_bytes())
    }

    fn replication(&self, text: &mut String) -> std::fmt::Result {
        let history = &self.history;
        let role = if self.follows.is_none() { "master" } else { "slave" };
        write!(
            text,
            "# Replication\r\nrole:{role}\r\nconnected_slaves:{}\r\n",
            self.replicas.len()
        )?;
        for (number, replica) in self.replicas.iter().enumerate() {
            let (ip, port) = replica.split_once(':').unwrap_or((replica, "6379"));
            write!(text, "slave{number}:ip={ip},port={port},state=online,offset=1,lag=0\r\n")?;
        }
        let (id2, offset2) = match history.forked_from {
            Some((id, offset)) => (id, i128::from(offset)),
            None => (0, -1),
        };
        write!(
            text,
            "master_replid:{:040x}\r\nmaster_replid2:{id2:040x}\r\nmaster_repl_offset:{}\r\n\
             second_repl_offset:{offset2}\r\n",
            history.replication_id, history.offset
        )
    }

    pub(super) fn role(&self) -> Reply {
        let text = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        let offset = i64::try_from(self.history.offset).unwrap_or(i64::MAX);
        match self.follows {
            None => {
                Reply::Array(vec![text("master"), Reply::Int(offset), Reply::Array(Vec::new())])
            }
            Some(_) => Reply::Array(vec![
                text("slave"),
                text("10.0.0.1"),
                Reply::Int(6_379),
                text(if self.link_cut { "connect" } else { "connected" }),
                Reply::Int(offset),
            ]),
        }
    }
}
