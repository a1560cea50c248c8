//! A minimal HTTP client, with which the commands query the agent.

mod agent;
mod tls;

use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::header;
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub use agent::{Agent, Login};

use crate::text::identity::without_login;
use crate::text::terminal::safe;

/// Default time limit for a whole response.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// How long a connection that failed may take to say why.
const ENDED_WITHIN: Duration = Duration::from_secs(1);
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

impl Agent {
    /// One without TLS of its own settings, and without a login.
    pub fn at(url: impl Into<String>) -> Agent {
        Agent { url: url.into(), ..Agent::default() }
    }

    /// Requests `path`, which is already escaped.
    ///
    /// # Errors
    /// The URL is none of an agent, or there is no complete response. The text is safe to show.
    pub async fn get(&self, path: &str, patience: Duration) -> anyhow::Result<Answer> {
        let base = &self.url;
        let shown = without_login(base);
        if shown != *base {
            bail!(
                "{}: leave out name and password; write them into a file as `user:password`, and \
                 name it with --agent.login-file",
                safe(&shown)
            );
        }
        let shown = safe(base);
        let whole = format!("{}{path}", base.trim_end_matches('/'));
        let uri: Uri = whole.parse().with_context(|| {
            format!("{shown} is no address of an agent, like http://127.0.0.1:10379")
        })?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            bail!("{shown}: write http:// or https://");
        }
        let asked = timeout(patience, self.ask(&uri)).await;
        asked
            .unwrap_or_else(|_| bail!("no answer within {} s", patience.as_secs()))
            .with_context(|| format!("the agent at {shown}"))
    }

    async fn ask(&self, uri: &Uri) -> anyhow::Result<Answer> {
        let host = uri.host().context("it has no host")?.trim_matches(['[', ']']);
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await.context("it cannot be reached")?;
        if is_tls {
            let stream = tls::protect(self, host, stream).await?;
            self.exchange(uri, stream).await.map_err(|error| tls::explained(self, error))
        } else {
            self.exchange(uri, stream).await
        }
    }

    async fn exchange<S>(&self, uri: &Uri, stream: S) -> anyhow::Result<Answer>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request =
            Request::builder().method(Method::GET).uri(path).header(header::HOST, authority);
        if let Some(Login(login)) = &self.login {
            let login = format!("Basic {}", STANDARD.encode(login));
            request = request.header(header::AUTHORIZATION, login);
        }
        let request = request.body(Empty::<Bytes>::new())?;
        let answered = async {
            let response = sender.send_request(request).await?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
            let body = body.map_err(anyhow::Error::from_boxed)?.to_bytes();
            Ok(Answer { status, body })
        };
        tokio::pin!(answered, connection);
        let outcome = tokio::select! {
            outcome = &mut answered => outcome,
            ended = &mut connection => {
                // It may have ended after the whole answer had arrived.
                ended?;
                return timeout(ENDED_WITHIN, answered)
                    .await
                    .unwrap_or_else(|_| bail!("it closed the connection without an answer"));
            }
        };
        match outcome {
            Ok(answer) => Ok(answer),
            // Why the connection ended says more than that the request was not sent.
            Err(error) => match timeout(ENDED_WITHIN, connection).await {
                Ok(Err(why)) => Err(why.into()),
                _ => Err(error),
            },
        }
    }
}
