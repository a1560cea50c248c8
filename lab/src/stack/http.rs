//! A minimal HTTP client and server for the parts of the lab.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Maximum duration of a whole exchange, unless specified otherwise.
const WITHIN: Duration = Duration::from_secs(20);
/// Maximum size of a head in bytes.
const LONGEST_HEAD: usize = 64 * 1024;

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Response {
    /// The body of a successful response.
    ///
    /// # Errors
    /// When the status is not 200; the error has the body.
    pub fn ok(self) -> anyhow::Result<String> {
        if self.status != 200 {
            bail!("status {}: {}", self.status, self.body.trim_end());
        }
        Ok(self.body)
    }

    /// The body of a successful response as JSON.
    ///
    /// # Errors
    /// When the status is not 200, or the body is not JSON.
    pub fn json(self) -> anyhow::Result<Value> {
        let body = self.ok()?;
        serde_json::from_str(&body).with_context(|| format!("not JSON: {body}"))
    }
}

/// Sends a GET request for `path` (with its query).
///
/// # Errors
/// When there is no complete response.
pub async fn get(address: SocketAddr, path: &str) -> anyhow::Result<Response> {
    // A response to an HTTP/1.0 request is not chunked, and ends with the connection.
    exchange(address, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")).await
}

/// Sends `body` in a POST request.
///
/// # Errors
/// When there is no complete response.
pub async fn post(
    address: SocketAddr,
    path: &str,
    content_type: &str,
    body: &str,
) -> anyhow::Result<Response> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: {content_type}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    exchange(address, &(head + body)).await
}

/// Sends `body` by `method` to a server that does not support HTTP/1.0; the exchange may take
/// `within`.
pub(super) async fn command(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
    within: Duration,
) -> anyhow::Result<Response> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all((head + body).as_bytes()).await?;
        // The server keeps the connection open in any case.
        read_message(&mut stream).await
    };
    let answer =
        timeout(within, asked).await.with_context(|| format!("{address} does not answer"))??;
    let Message { head, body } = answer.context("no answer")?;
    Ok(Response { status: status(&head)?, body })
}

async fn exchange(address: SocketAddr, request: &str) -> anyhow::Result<Response> {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let answer =
        timeout(WITHIN, asked).await.with_context(|| format!("{address} does not answer"))??;
    let text = String::from_utf8(answer).context("the answer is not UTF-8")?;
    let (head, body) =
        text.split_once("\r\n\r\n").with_context(|| format!("not a whole answer: {text}"))?;
    Ok(Response { status: status(head)?, body: body.to_owned() })
}

fn status(head: &str) -> anyhow::Result<u16> {
    head.split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .context("an answer without status")
}

/// The body of a form with these fields.
pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let encoded =
        |text: &str| -> String {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
            text.bytes()
                .map(|byte| {
                    if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
                })
                .collect()
        };
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
        .collect();
    fields.join("&")
}

/// A request as received by a server.
pub(super) struct Request {
    pub(super) path: String,
    /// Everything before the body, without the empty line.
    pub(super) head: String,
    pub(super) body: String,
}

/// Reads the next request; `None` if the client closed the connection.
pub(super) async fn read_request(stream: &mut TcpStream) -> anyhow::Result<Option<Request>> {
    let Some(Message { head, body }) = read_message(stream).await? else { return Ok(None) };
    let path = head.split(' ').nth(1).context("a request without path")?.to_owned();
    Ok(Some(Request { path, head, body }))
}

/// A request or a response.
struct Message {
    head: String,
    body: String,
}

/// Reads a message whose head has its length; `None` if the connection is closed.
async fn read_message(stream: &mut TcpStream) -> anyhow::Result<Option<Message>> {
    let mut bytes = Vec::new();
    let head_length = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if bytes.len() > LONGEST_HEAD {
            bail!("the head is too long");
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return if bytes.is_empty() { Ok(None) } else { bail!("half a head") };
        }
    };
    let mut body = bytes.split_off(head_length + 4);
    bytes.truncate(head_length);
    let head = String::from_utf8(bytes).context("the head is not UTF-8")?;
    let length = header(&head, "content-length").map_or(Ok(0), str::parse)?;
    while body.len() < length {
        if stream.read_buf(&mut body).await? == 0 {
            bail!("half a body");
        }
    }
    Ok(Some(Message { head, body: String::from_utf8(body).context("the body is not UTF-8")? }))
}

fn header<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    headers
        .filter(|(name, _)| name.eq_ignore_ascii_case(wanted))
        .map(|(_, value)| value.trim())
        .next()
}

#[cfg(test)]
mod tests {
    use super::form;

    #[test]
    fn a_query_survives_the_form() {
        assert_eq!(
            form(&[("query", "up{a=\"ü\"} > 1"), ("x", "1-2")]),
            "query=up%7Ba%3D%22%C3%BC%22%7D%20%3E%201&x=1-2"
        );
    }
}
