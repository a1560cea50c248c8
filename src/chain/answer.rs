//! How the answers of both are read, and what it means that one is none.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::http::client::{Answer, Server, Trouble};
use crate::text::terminal::{cut, safe};

/// Time limit for a whole response.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum width of what is quoted of an answer, in columns.
const QUOTED: usize = 200;

/// What was answered, and when by the server's clock, in seconds since the Unix epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dated<T> {
    /// The answer.
    pub value: T,
    /// `Date` of the answer, if it had one.
    pub date: Option<u64>,
}

/// Requests `path`. `None`: this server does not offer it.
pub(super) async fn get(server: &Server, path: &str) -> Result<Option<Answer>, Trouble> {
    let flags = server.flags;
    let answer = server.get(path, PATIENCE).await.map_err(|error| {
        let remedy = format!("see that {flags}.url is right, and that this machine reaches it");
        Trouble::new(format!("{error:#}"), remedy)
    })?;
    if let Some(trouble) = server.refusal(&answer) {
        return Err(trouble.of(server));
    }
    match answer.status {
        // An error of Prometheus has JSON, with a status of its own.
        200 | 400 | 422 => Ok(Some(answer)),
        404 | 405 | 501 => Ok(None),
        403 => Err(Trouble::new(
            format!("it forbids {path} (403){}", quoted(&answer.body)),
            "use a login that may read it, or give this one the right",
        )
        .of(server)),
        status => Err(Trouble::new(
            format!("it answers {status} to {path}{}", quoted(&answer.body)),
            format!("look into its log, and see that {flags}.url is right"),
        )
        .of(server)),
    }
}

pub(super) async fn json<T: DeserializeOwned>(
    server: &Server,
    path: &str,
) -> Result<Option<Dated<T>>, Trouble> {
    let Some(answer) = get(server, path).await? else { return Ok(None) };
    match serde_json::from_slice(&answer.body) {
        Ok(value) if answer.status == 200 => Ok(Some(Dated { value, date: answer.date })),
        _ => Err(no_answer(path, &answer, server.flags).of(server)),
    }
}

/// What it means that `answer` is not what the API answers.
pub(super) fn no_answer(path: &str, answer: &Answer, flags: &str) -> Trouble {
    let status = answer.status;
    let is_html = answer.body.trim_ascii_start().starts_with(b"<");
    let saw = match is_html {
        true => format!("it answers {path} with an HTML page ({status}) instead of JSON"),
        false => {
            format!("it answers {status} to {path}, but not as expected{}", quoted(&answer.body))
        }
    };
    let remedy = format!(
        "see that {flags}.url is its own address, with the path prefix if it has one, and not that \
         of another program or of a login page"
    );
    Trouble::new(saw, remedy)
}

/// The beginning of what was answered.
fn quoted(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..4 * QUOTED).unwrap_or(body));
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    match line.is_empty() || line.trim_start().starts_with('<') {
        true => String::new(),
        false => format!(": {}", cut(&safe(line.trim()), QUOTED)),
    }
}

/// Lists that are empty may be `null`.
pub(super) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
