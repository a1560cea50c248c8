//! A strict client of server-sent events.

use crate::support::PATIENCE;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::timeout;

/// One block of lines, up to an empty line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    pub(super) id: Option<String>,
    pub(super) event: Option<String>,
    pub(super) data: Option<String>,
    pub(super) retry: Option<String>,
    pub(super) comment: bool,
}

impl Block {
    pub(super) fn json(&self) -> serde_json::Value {
        let data = self.data.as_deref().unwrap_or_else(|| panic!("no data: {self:?}"));
        serde_json::from_str(data).unwrap_or_else(|why| panic!("{why}: {data}"))
    }
}

/// An open stream.
pub(super) struct Stream {
    socket: tokio::net::TcpStream,
    pub(super) head: String,
    bytes: Vec<u8>,
    blocks: VecDeque<Block>,
}

impl Stream {
    /// Opens it; `headers` are whole lines. The small receive buffer makes a server notice soon
    /// that the client does not read.
    pub(super) async fn open(address: SocketAddr, path: &str, headers: &str) -> Stream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(8 << 10).unwrap();
        let mut socket = socket.connect(address).await.unwrap();
        // HTTP/1.0 avoids chunked encoding.
        let request = format!("GET {path} HTTP/1.0\r\nAccept: text/event-stream\r\n{headers}\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut stream =
            Stream { socket, head: String::new(), bytes: Vec::new(), blocks: VecDeque::new() };
        loop {
            if let Some(end) = stream.bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                stream.head = String::from_utf8(stream.bytes.drain(..end + 4).collect()).unwrap();
                return stream;
            }
            assert!(stream.read().await, "no head: {:?}", stream.bytes);
        }
    }

    /// The next block; `None` when the server has ended the stream.
    pub(super) async fn next(&mut self) -> Option<Block> {
        loop {
            self.parse();
            if let Some(block) = self.blocks.pop_front() {
                return Some(block);
            }
            if !timeout(PATIENCE, self.read()).await.expect("something from the stream") {
                assert!(self.bytes.is_empty(), "half a block: {:?}", self.bytes);
                return None;
            }
        }
    }

    /// The next block with data.
    pub(super) async fn message(&mut self) -> Block {
        loop {
            let block = self.next().await.expect("the stream goes on");
            if block.data.is_some() {
                return block;
            }
        }
    }

    /// The ids of the next messages, each of which must be an event.
    pub(super) async fn ids(&mut self, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        for _ in 0..count {
            let message = self.message().await;
            assert_eq!(
                (message.event.as_deref(), message.json()["id"].as_str()),
                (None, message.id.as_deref())
            );
            ids.push(message.id.unwrap());
        }
        ids
    }

    /// Whether no data comes within a short time.
    pub(super) async fn is_silent(&mut self) -> bool {
        self.parse();
        self.blocks.is_empty() && timeout(Duration::from_millis(150), self.read()).await.is_err()
    }

    async fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        // A reset stream counts as ended.
        let count = self.socket.read(&mut buffer).await.unwrap_or(0);
        self.bytes.extend_from_slice(&buffer[..count]);
        count > 0
    }

    fn parse(&mut self) {
        while let Some(end) = self.bytes.windows(2).position(|window| window == b"\n\n") {
            let block: Vec<u8> = self.bytes.drain(..end + 2).collect();
            let text = String::from_utf8(block).expect("UTF-8");
            self.blocks.push_back(parse_block(text.trim_end_matches('\n')));
        }
    }
}

fn parse_block(text: &str) -> Block {
    let mut block = Block::default();
    // Event stream parsers treat a carriage return as a line end too.
    for line in text.split(['\n', '\r']) {
        let (name, value) =
            line.split_once(':').unwrap_or_else(|| panic!("no field: {line:?} in {text:?}"));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        let field = match name {
            "id" => &mut block.id,
            "event" => &mut block.event,
            "data" => &mut block.data,
            "retry" => &mut block.retry,
            "" => {
                block.comment = true;
                continue;
            }
            _ => panic!("an unknown field: {line:?} in {text:?}"),
        };
        assert_eq!(field.replace(value), None, "twice: {text:?}");
    }
    block
}
