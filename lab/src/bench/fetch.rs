//! A blocking HTTP client that measures responses of any size: one connection, and one buffer that
//! is reused.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// Maximum duration of each wait.
const WITHIN: Duration = Duration::from_secs(60);
const READ_BYTES: usize = 16 << 10;

/// A connection that is kept open.
#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
    address: SocketAddr,
    /// Received data; the unused part is from `used` to `end`.
    raw: Vec<u8>,
    used: usize,
    end: usize,
    body: Vec<u8>,
}

/// A response.
#[derive(Debug)]
pub(super) struct Exposition<'a> {
    /// From before the request was written until the last byte of the body.
    pub(super) took: Duration,
    /// When the last byte was received.
    pub(super) complete: Instant,
    /// The body.
    pub(super) body: &'a [u8],
}

impl Client {
    /// Connects.
    pub(super) fn connect(address: SocketAddr) -> anyhow::Result<Client> {
        let stream =
            TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(WITHIN))?;
        Ok(Client { stream, address, raw: vec![0; READ_BYTES], used: 0, end: 0, body: Vec::new() })
    }

    /// Requests a path in the text format that both lockwatch and its peer support.
    pub(super) fn get(&mut self, path: &str) -> anyhow::Result<Exposition<'_>> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/plain;version=0.0.4\r\n\r\n",
            self.address
        );
        self.body.clear();
        let began = Instant::now();
        self.stream.write_all(request.as_bytes())?;
        let head = self.head()?;
        ensure!(head.split(' ').nth(1) == Some("200"), "not answered: {head}");
        if let Some(length) = header(&head, "content-length") {
            self.take(length.parse()?)?;
        } else if header(&head, "transfer-encoding") == Some("chunked") {
            self.chunks()?;
        } else {
            bail!("an answer without length");
        }
        let complete = Instant::now();
        Ok(Exposition { took: complete - began, complete, body: &self.body })
    }

    fn head(&mut self) -> anyhow::Result<String> {
        loop {
            let unused = self.raw.get(self.used..self.end).unwrap_or_default();
            if let Some(length) = unused.windows(4).position(|four| four == b"\r\n\r\n") {
                let head =
                    String::from_utf8_lossy(unused.get(..length).unwrap_or_default()).into_owned();
                self.used += length + 4;
                return Ok(head);
            }
            self.more()?;
        }
    }

    fn chunks(&mut self) -> anyhow::Result<()> {
        loop {
            let unused = self.raw.get(self.used..self.end).unwrap_or_default();
            let Some(length) = unused.windows(2).position(|two| two == b"\r\n") else {
                self.more()?;
                continue;
            };
            let size =
                String::from_utf8_lossy(unused.get(..length).unwrap_or_default()).into_owned();
            let size = usize::from_str_radix(size.trim(), 16)
                .with_context(|| format!("no chunk: {size}"))?;
            self.used += length + 2;
            self.take(size)?;
            self.skip(2)?;
            if size == 0 {
                return Ok(());
            }
        }
    }

    /// Appends this many bytes to the body; data that is not buffered is read directly into it.
    fn take(&mut self, length: usize) -> anyhow::Result<()> {
        let unused = self.raw.get(self.used..self.end).unwrap_or_default();
        let some = unused.get(..length.min(unused.len())).unwrap_or_default();
        self.body.extend_from_slice(some);
        self.used += some.len();
        let left = length - some.len();
        if (&self.stream).take(u64::try_from(left)?).read_to_end(&mut self.body)? < left {
            bail!("{} closed the connection", self.address);
        }
        Ok(())
    }

    fn skip(&mut self, length: usize) -> anyhow::Result<()> {
        while self.end - self.used < length {
            self.more()?;
        }
        self.used += length;
        Ok(())
    }

    /// Reads what is available.
    fn more(&mut self) -> anyhow::Result<()> {
        self.raw.copy_within(self.used..self.end, 0);
        self.end -= self.used;
        self.used = 0;
        let room = self
            .raw
            .get_mut(self.end..)
            .filter(|room| !room.is_empty())
            .context("a head without end")?;
        let count = loop {
            match self.stream.read(room) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.end += count;
        if count == 0 {
            bail!("the connection was closed");
        }
        Ok(())
    }
}

fn header<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    headers
        .filter(|(name, _)| name.eq_ignore_ascii_case(wanted))
        .map(|(_, value)| value.trim())
        .next()
}

/// Number of series in an exposition.
pub(super) fn series(page: &[u8]) -> usize {
    page.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .count()
}

/// Number of lines that begin with `start`.
pub(super) fn lines_of(page: &[u8], start: &str) -> usize {
    page.split(|byte| *byte == b'\n').filter(|line| line.starts_with(start.as_bytes())).count()
}
