//! An agent as it is reached, and who asks.

use std::fmt;
use std::path::PathBuf;

/// An agent as it is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    /// `http://host:port` or `https://host:port`, optionally with a path prefix.
    pub url: String,
    /// The authorities that may sign its certificate; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// The certificate that is shown to it, and its private key.
    pub own: Option<(PathBuf, PathBuf)>,
    /// User and password.
    pub login: Option<Login>,
}

/// A user with a password, as `user:password`.
#[derive(Clone, PartialEq, Eq)]
pub struct Login(pub(super) String);

impl Login {
    /// `None`: the text has no colon.
    pub fn new(text: &str) -> Option<Login> {
        text.contains(':').then(|| Login(text.to_owned()))
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}
