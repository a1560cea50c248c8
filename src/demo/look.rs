//! Looking at the agent as Prometheus does: a GET, and the lines of `/metrics`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// No answer of the demo's agent is larger.
const LARGEST_ANSWER: u64 = 4 << 20;

/// An answer over HTTP.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Asks for `path`.
pub(super) async fn get(address: SocketAddr, path: &str) -> anyhow::Result<Answer> {
    let answer = timeout(ANSWER_WITHIN, exchange(address, path)).await.context("no answer in time")??;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").context("the answer is not HTTP")?;
    let status = head.split_ascii_whitespace().nth(1).and_then(|code| code.parse().ok());
    Ok(Answer { status: status.context("the answer has no status")?, body: body.to_owned() })
}

/// HTTP/1.0, so that the body comes as it is and ends with the connection.
async fn exchange(address: SocketAddr, path: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LARGEST_ANSWER).read_to_end(&mut answer).await?;
    Ok(answer)
}

/// The text of `/metrics`.
#[derive(Debug)]
pub(super) struct Page(pub(super) String);

impl Page {
    /// The first series called `name` that has all of `labels`, as its whole line. Good enough for the demo's own names,
    /// in which nothing is escaped.
    pub(super) fn line(&self, name: &str, labels: &[(&str, &str)]) -> Option<&str> {
        self.0.lines().find(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
                && labels.iter().all(|(label, value)| has_label(line, label, value))
        })
    }

    /// Its value.
    pub(super) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.line(name, labels)?.rsplit(' ').next()?.parse().ok()
    }

    /// The value of `label` in the first series called `name`.
    pub(super) fn label(&self, name: &str, label: &str) -> Option<&str> {
        let line = self.line(name, &[])?;
        let start = [format!("{{{label}=\""), format!(",{label}=\"")]
            .iter()
            .find_map(|opening| line.find(opening).map(|at| at + opening.len()))?;
        line.get(start..)?.split('"').next()
    }
}

fn has_label(line: &str, label: &str, value: &str) -> bool {
    ['{', ','].iter().any(|before| line.contains(&format!("{before}{label}=\"{value}\"")))
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn series_are_found_by_name_and_labels() {
        let page = Page(
            "# TYPE lockwatch_lock_held gauge\nlockwatch_lock_held_x 7\nlockwatch_lock_held{task=\"outbound\"} 1\n\
             lockwatch_task_state{task=\"outbound\",state=\"down\"} 0\nlockwatch_task_state{task=\"outbound\",state=\"running\"} 1\n"
                .to_owned(),
        );
        assert_eq!(page.value("lockwatch_lock_held", &[]), Some(1.0));
        assert_eq!(page.value("lockwatch_task_state", &[("state", "running")]), Some(1.0));
        assert_eq!(page.value("lockwatch_task_state", &[("state", "down"), ("task", "outbound")]), Some(0.0));
        assert_eq!(page.value("lockwatch_task_state", &[("tate", "down")]), None);
        assert_eq!(page.label("lockwatch_task_state", "state"), Some("down"));
        assert_eq!(page.label("lockwatch_lock_held", "state"), None);
    }
}
