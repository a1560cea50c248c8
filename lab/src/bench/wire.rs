//! A minimal blocking Redis client for load: many commands in one write, and replies that are only
//! counted.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};

/// Maximum duration of each wait.
const WITHIN: Duration = Duration::from_secs(30);
/// Number of commands in one write.
const AT_ONCE: usize = 1000;

/// A connection.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
}

/// One command in wire format.
pub(super) fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut packed = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        packed.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        packed.extend_from_slice(word);
        packed.extend_from_slice(b"\r\n");
    }
    packed
}

impl Wire {
    /// Connects.
    pub(super) fn connect(address: SocketAddr) -> anyhow::Result<Wire> {
        let stream =
            TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(WITHIN))?;
        let replies = BufReader::with_capacity(1 << 16, stream.try_clone()?);
        Ok(Wire { stream, replies })
    }

    /// Sends commands whose replies are one line each, and waits for all replies.
    pub(super) fn send(&mut self, commands: &[Vec<u8>]) -> anyhow::Result<()> {
        for some in commands.chunks(AT_ONCE) {
            self.stream.write_all(&some.concat())?;
            for _ in some {
                let line = self.line()?;
                if line.starts_with('-') {
                    bail!("Redis refuses: {line}");
                }
            }
        }
        Ok(())
    }

    /// Waits for this many lines.
    pub(super) fn lines(&mut self, count: usize) -> anyhow::Result<()> {
        (0..count).try_for_each(|_| self.line().map(drop))
    }

    /// The reply to one command as text; of a list only its first line.
    pub(super) fn ask(&mut self, words: &[&str]) -> anyhow::Result<String> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.stream.write_all(&command(&words))?;
        let line = self.line()?;
        match line.strip_prefix('$').map(str::parse) {
            Some(Ok(length)) => {
                let mut text = vec![0; length + 2];
                self.replies.read_exact(&mut text)?;
                text.truncate(length);
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            _ if line.starts_with('-') => bail!("Redis refuses: {line}"),
            _ => Ok(line.get(1..).unwrap_or_default().to_owned()),
        }
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut self.replies, &mut line)?;
        if !line.ends_with('\n') {
            bail!("Redis closed the connection");
        }
        Ok(line.trim_end().to_owned())
    }
}

/// A number in the reply to `INFO`.
pub(super) fn number(info: &str, name: &str) -> f64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(f64::NAN)
}
