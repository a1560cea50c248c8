//! A minimal HTTP client, with which the commands query the agent.

use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::header;
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::text::identity::without_login;
use crate::text::terminal::safe;

/// Default time limit for a whole response.
const PATIENCE: Duration = Duration::from_secs(15);
/// Maximum size of a response body in bytes.
const BODY_BYTES_MAX: usize = 256 << 20;

/// A response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Bytes,
}

/// Requests `path`, which is already escaped, from the agent at `base` (`http://host:port`,
/// optionally with a path prefix).
///
/// # Errors
/// `base` is no such address, or there is no complete response.
pub async fn get(base: &str, path: &str) -> anyhow::Result<Answer> {
    get_within(base, path, PATIENCE).await
}

/// The same with another time limit.
///
/// # Errors
/// As for [`get`]; the text is safe to show.
pub async fn get_within(base: &str, path: &str, patience: Duration) -> anyhow::Result<Answer> {
    let shown = without_login(base);
    if shown != base {
        bail!("{}: leave out name and password; an agent asks for neither", safe(&shown));
    }
    let shown = safe(base);
    let whole = format!("{}{path}", base.trim_end_matches('/'));
    let uri: Uri = whole.parse().with_context(|| {
        format!("{shown} is no address of an agent, like http://127.0.0.1:10379")
    })?;
    if uri.scheme_str() != Some("http") {
        bail!("{shown}: the agent speaks http:// only");
    }
    let asked = timeout(patience, ask(&uri)).await;
    asked
        .unwrap_or_else(|_| bail!("no answer within {} s", patience.as_secs()))
        .with_context(|| format!("the agent at {shown}"))
}

async fn ask(uri: &Uri) -> anyhow::Result<Answer> {
    let host = uri.host().context("it has no host")?.trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80)))
        .await
        .context("it cannot be reached")?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let _ends_with_the_answer = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(connection));
    let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::builder()
        .method(Method::GET)
        .uri(path)
        .header(header::HOST, authority)
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), BODY_BYTES_MAX)
        .collect()
        .await
        .map_err(anyhow::Error::from_boxed)?;
    Ok(Answer { status, body: body.to_bytes() })
}
