//! A minimal HTTP client, with which the commands query the agent, Prometheus and Alertmanager.

mod answer;
mod refusal;
mod server;
mod tls;

use std::io;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{Method, Request, Uri, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub use answer::Answer;
pub use refusal::Trouble;
pub use server::{Header, Login, Server};

use crate::text::identity::without_login;
use crate::text::terminal::safe;

/// Default time limit for a whole response.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// How long a connection that failed may take to say why.
const ENDED_WITHIN: Duration = Duration::from_secs(1);

impl Server {
    /// Requests `path`, which is already escaped.
    ///
    /// # Errors
    /// The URL is none, or there is no complete response. The text is safe to show.
    pub async fn get(&self, path: &str, patience: Duration) -> anyhow::Result<Answer> {
        self.request(path, None, patience).await
    }

    /// Sends `body`, which is JSON.
    ///
    /// # Errors
    /// As of [`get`](Self::get).
    pub async fn post(
        &self,
        path: &str,
        body: Vec<u8>,
        patience: Duration,
    ) -> anyhow::Result<Answer> {
        self.request(path, Some(body.into()), patience).await
    }

    async fn request(
        &self,
        path: &str,
        body: Option<Bytes>,
        patience: Duration,
    ) -> anyhow::Result<Answer> {
        let base = &self.url;
        let shown = without_login(base);
        if shown != *base {
            bail!(
                "{}: leave out name and password; write them into a file as `user:password`, and \
                 name it with {}.login-file",
                safe(&shown),
                self.flags
            );
        }
        let shown = safe(base);
        let whole = format!("{}{path}", base.trim_end_matches('/'));
        let uri: Uri = whole
            .parse()
            .with_context(|| format!("{shown} is no address, like http://127.0.0.1:9090"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            bail!("{shown}: write http:// or https://");
        }
        let asked = timeout(patience, self.ask(&uri, body)).await;
        asked
            .unwrap_or_else(|_| bail!("no answer within {} s", patience.as_secs()))
            .map_err(explained)
            .with_context(|| format!("{} at {shown}", self.name))
    }

    async fn ask(&self, uri: &Uri, body: Option<Bytes>) -> anyhow::Result<Answer> {
        let host = uri.host().context("it has no host")?.trim_matches(['[', ']']);
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await.context("it cannot be reached")?;
        if is_tls {
            let stream = tls::protect(self, host, stream).await?;
            self.exchange(uri, body, stream).await.map_err(|error| tls::explained(self, error))
        } else {
            self.exchange(uri, body, stream).await
        }
    }

    async fn exchange<S>(&self, uri: &Uri, body: Option<Bytes>, stream: S) -> anyhow::Result<Answer>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = self.built(uri, body)?;
        let answered = async {
            let response = sender.send_request(request).await?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, self.body_max).collect().await;
            let body = body.map_err(|error| match error.downcast::<LengthLimitError>() {
                Ok(_) => anyhow!("its answer is larger than {} MiB", self.body_max >> 20),
                Err(error) => anyhow::Error::from_boxed(error),
            })?;
            Ok(Answer { body: body.to_bytes(), ..Answer::of(head.status.as_u16(), &head.headers) })
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

    fn built(&self, uri: &Uri, body: Option<Bytes>) -> anyhow::Result<Request<Full<Bytes>>> {
        let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request =
            Request::builder().method(method).uri(path).header(header::HOST, authority);
        if let Some((login, _)) = &self.login {
            request = request.header(header::AUTHORIZATION, login.header());
        }
        for Header { name, value } in &self.headers {
            request = request.header(name, value);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        Ok(request.body(Full::new(body.unwrap_or_default()))?)
    }
}

/// Why there is no whole answer, in words.
fn explained(error: anyhow::Error) -> anyhow::Error {
    let is_cut = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
    };
    if error.chain().any(is_cut) { anyhow!("its answer ends in the middle") } else { error }
}
