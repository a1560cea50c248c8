//! An HTTP client of the agent with a selectable source address.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// Maximum size of a response head in bytes.
const HEAD_MAX: usize = 64 << 10;
const PIECE: usize = 64 << 10;

/// A client at one address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor {
    agent: SocketAddr,
    from: IpAddr,
    patience: Duration,
}

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// From the first attempt to connect until the last byte.
    pub(crate) took: Duration,
}

impl Answer {
    /// The body as text.
    pub(crate) fn text(&self) -> anyhow::Result<&str> {
        std::str::from_utf8(&self.body).context("the answer is not UTF-8")
    }
}

impl Visitor {
    /// A client that gives up after `patience`.
    pub(crate) fn new(agent: SocketAddr, from: IpAddr, patience: Duration) -> Visitor {
        Visitor { agent, from, patience }
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> anyhow::Result<TcpStream> {
        connect(self.agent, self.from, None).await
    }

    /// Sends one request on a new connection; `headers` are complete lines.
    pub(crate) async fn get(&self, path: &str, headers: &str) -> anyhow::Result<Answer> {
        let asked = Instant::now();
        let answer = async {
            let mut stream = self.connect().await?;
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n{headers}\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await?;
            let end = head_end(&bytes).context("the connection ended before an answer")?;
            let body = bytes.split_off(end);
            let head = String::from_utf8(bytes).context("a head that is not UTF-8")?;
            let length =
                header(&head, "content-length").and_then(|length| length.parse::<usize>().ok());
            if length.is_some_and(|length| length != body.len()) {
                bail!("{} of {} bytes came", body.len(), length.unwrap_or_default());
            }
            if length.is_none() && !body.ends_with(b"0\r\n\r\n") {
                bail!("an answer without its end, after {} bytes", body.len());
            }
            Ok(Answer { status: status(&head)?, body, took: asked.elapsed() })
        };
        timeout(self.patience, answer)
            .await
            .with_context(|| format!("no answer within {:?}", self.patience))?
    }
}

/// A client that sends its requests on one connection, as Prometheus does, and reconnects if the
/// server has closed it.
#[derive(Debug)]
pub(crate) struct Regular {
    visitor: Visitor,
    kept: Option<TcpStream>,
}

impl Regular {
    pub(crate) fn new(visitor: Visitor) -> Regular {
        Regular { visitor, kept: None }
    }

    /// Requests `path`; `headers` are complete lines.
    pub(crate) async fn get(&mut self, path: &str, headers: &str) -> anyhow::Result<Answer> {
        let (asked, patience) = (Instant::now(), self.visitor.patience);
        let answer = async {
            let request = format!("GET {path} HTTP/1.1\r\nHost: agent\r\n{headers}\r\n");
            if let Some(mut stream) = self.kept.take()
                && stream.write_all(request.as_bytes()).await.is_ok()
                && let Some(answer) = read_sized(&mut stream, asked).await?
            {
                self.kept = Some(stream);
                return Ok(answer);
            }
            let mut stream = self.visitor.connect().await?;
            stream.write_all(request.as_bytes()).await?;
            let answer = read_sized(&mut stream, asked)
                .await?
                .context("the connection ended before an answer")?;
            self.kept = Some(stream);
            Ok(answer)
        };
        timeout(patience, answer).await.with_context(|| format!("no answer within {patience:?}"))?
    }
}

/// Connects from an address; `buffer` limits the kernel's receive buffer, for a client that does
/// not read.
pub(crate) async fn connect(
    agent: SocketAddr,
    from: IpAddr,
    buffer: Option<u32>,
) -> anyhow::Result<TcpStream> {
    let socket = if from.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(bytes) = buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind((from, 0).into())?;
    Ok(socket.connect(agent).await?)
}

/// Reads the next response, which must have a length or chunks; `None` if the server closed the
/// connection before its first byte.
async fn read_sized(stream: &mut TcpStream, asked: Instant) -> anyhow::Result<Option<Answer>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = head_end(&bytes) {
            break end;
        }
        let mut piece = vec![0; PIECE];
        let count = match stream.read(&mut piece).await {
            Ok(count) => count,
            // The server closed the connection while the request was in flight.
            Err(_) if bytes.is_empty() => 0,
            Err(error) => return Err(error.into()),
        };
        match (count, bytes.is_empty()) {
            (0, true) => return Ok(None),
            (0, false) => bail!("the connection ended within the head"),
            _ => bytes.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
        if bytes.len() > HEAD_MAX && head_end(&bytes).is_none() {
            bail!("a head without end");
        }
    };
    let mut body = bytes.split_off(end);
    let head = String::from_utf8(bytes).context("a head that is not UTF-8")?;
    if header(&head, "transfer-encoding") == Some("chunked") {
        let body = read_chunks(stream, body).await?;
        return Ok(Some(Answer { status: status(&head)?, body, took: asked.elapsed() }));
    }
    let length = header(&head, "content-length")
        .and_then(|length| length.parse().ok())
        .context("no length")?;
    let begun = body.len();
    if begun < length {
        body.resize(length, 0);
        stream
            .read_exact(body.get_mut(begun..).unwrap_or_default())
            .await
            .context("the body does not end")?;
    }
    Ok(Some(Answer { status: status(&head)?, body, took: asked.elapsed() }))
}

/// Reads chunks until the last one; `bytes` have arrived already.
async fn read_chunks(stream: &mut TcpStream, mut bytes: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        if let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
            let size = std::str::from_utf8(rest.get(..end).unwrap_or_default())?;
            let size = usize::from_str_radix(size, 16).context("no size of a chunk")?;
            let start = end + 2;
            if let Some(chunk) = rest.get(start..start + size + 2) {
                body.extend_from_slice(chunk.get(..size).unwrap_or_default());
                at += start + size + 2;
                if size == 0 {
                    return Ok(body);
                }
                continue;
            }
        }
        let mut piece = vec![0; PIECE];
        let count = stream.read(&mut piece).await.context("the body does not end")?;
        if count == 0 {
            bail!("the connection ended within the body");
        }
        bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
}

fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn status(head: &str) -> anyhow::Result<u16> {
    head.split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .context("an answer without status")
}
