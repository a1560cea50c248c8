//! What an answer means that lets nobody in, or leads elsewhere.

use std::fmt;

use super::answer::Answer;
use super::server::{Login, Server};
use crate::text::terminal::safe;

/// Why a server did not give what was asked for; safe to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// What was seen.
    pub saw: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.saw, self.remedy)
    }
}

impl std::error::Error for Trouble {}

impl Trouble {
    /// Of these words.
    pub fn new(saw: impl Into<String>, remedy: impl Into<String>) -> Trouble {
        Trouble { saw: saw.into(), remedy: remedy.into() }
    }

    /// The same, of a named server.
    #[must_use]
    pub fn of(self, server: &Server) -> Trouble {
        Trouble { saw: format!("{}: {}", server.shown(), self.saw), ..self }
    }
}

impl Server {
    /// What it is and where, in messages.
    pub fn shown(&self) -> String {
        format!("{} at {}", self.name, safe(&self.url))
    }

    /// Why it let nobody in, or leads elsewhere, if so.
    pub fn refusal(&self, answer: &Answer) -> Option<Trouble> {
        let flags = self.flags;
        Some(match (answer.status, &self.login) {
            (300..400, _) => Trouble::new(
                format!("it leads to {}", safe(answer.location.as_deref().unwrap_or("nowhere"))),
                format!("write the address where it answers itself into {flags}.url"),
            ),
            (401, None) => Trouble::new(
                "it asks for a login (401)",
                format!(
                    "write `user:password` into a file, and name it with {flags}.login-file; a \
                     token, with {flags}.token-file"
                ),
            ),
            (401, Some((Login::Password(_), file))) => Trouble::new(
                format!("user or password in {flags}.login-file {} are wrong", file.display()),
                "correct that file",
            ),
            (401, Some((Login::Token(_), file))) => Trouble::new(
                format!("it does not take the token in {flags}.token-file {}", file.display()),
                "write one that it takes",
            ),
            (429, _) => Trouble::new(
                "it answers 429, as its rate limit, or the logins that it checks, leave no room \
                 now",
                "try again",
            ),
            (400, _) if self.url.starts_with("http://") && speaks_tls(&answer.body) => {
                Trouble::new("it speaks TLS on this port", "write https:// instead of http://")
            }
            _ => return None,
        })
    }
}

/// What lockwatch, Go's servers and nginx answer to plain HTTP where they speak TLS.
fn speaks_tls(body: &[u8]) -> bool {
    let said = String::from_utf8_lossy(body).to_lowercase();
    said.contains("speaks tls") || said.contains("https server") || said.contains("https port")
}
