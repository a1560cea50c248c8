//! A server as it is reached, and who asks.

use std::fmt;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A server as it is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// What it is, in messages: `the agent`.
    pub name: &'static str,
    /// What its flags begin with: `--agent`.
    pub flags: &'static str,
    /// `http://host:port` or `https://host:port`, optionally with a path prefix.
    pub url: String,
    /// The authorities that may sign its certificate; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// The certificate that is shown to it, and its private key.
    pub own: Option<(PathBuf, PathBuf)>,
    /// Who asks, and the file that says so.
    pub login: Option<(Login, PathBuf)>,
    /// More headers of each request.
    pub headers: Vec<Header>,
    /// Maximum size of a response body in bytes.
    pub body_max: usize,
}

/// A header of requests. Its value may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    pub(super) name: String,
    pub(super) value: String,
}

impl Header {
    /// Reads `Name: value`; `None`: it is none, or one that the client sets itself.
    pub fn new(text: &str) -> Option<Header> {
        let (name, value) = text.split_once(':')?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
        let taken = ["host", "content-length", "content-type", "connection", "transfer-encoding"];
        let is_one = hyper::header::HeaderName::from_bytes(name.as_bytes()).is_ok()
            && hyper::header::HeaderValue::from_str(&value).is_ok()
            && !taken.contains(&&*name);
        is_one.then_some(Header { name, value })
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: …", self.name)
    }
}

/// Who asks.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// A user with a password, as `user:password`.
    Password(String),
    /// A bearer token.
    Token(String),
}

impl Login {
    /// `None`: the text has no colon.
    pub fn password(text: &str) -> Option<Login> {
        text.contains(':').then(|| Login::Password(text.to_owned()))
    }

    pub(super) fn header(&self) -> String {
        match self {
            Login::Password(text) => format!("Basic {}", STANDARD.encode(text)),
            Login::Token(text) => format!("Bearer {text}"),
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}
