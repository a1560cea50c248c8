//! Collects the holders and deadlines in each output of an agent, and checks whether they belong
//! together.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::hold::{later_ms, number};

/// Tolerance with `PTTL`: the deadline is then a sum of two rounded values, in milliseconds.
const EXACT_MS: RangeInclusive<i64> = -3..=3;
/// Tolerance of the web pages: they show deadlines on the agent's clock, which are too early by the
/// duration of the request, at most the agent's timeout. Two holds differ by more.
const BY_AGENT_MS: RangeInclusive<i64> = -1_500..=50;

/// The pairs of one output.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs {
    pub(super) right: usize,
    pub(super) wrong: Vec<String>,
    /// Number of holders without a deadline, which is right when none is known for sure.
    pub(super) bare: usize,
}

/// The pairs of all outputs of an agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) metrics: Pairs,
    pub(super) api: Pairs,
}

impl Pairs {
    fn judge(
        &mut self,
        task: &str,
        holder: &str,
        deadline_ms: Option<i64>,
        fits: RangeInclusive<i64>,
    ) {
        let Some(number) = number(holder) else {
            return self.wrong.push(format!("{task}: a holder that there never was: {holder}"));
        };
        match deadline_ms.map(|deadline| (deadline, later_ms(number, deadline))) {
            None => self.bare += 1,
            Some((_, later)) if fits.contains(&later) => self.right += 1,
            Some((deadline, later)) => {
                self.wrong
                    .push(format!("{task}: {holder} with {deadline}, {later} ms after its own"));
            }
        }
    }
}

impl Tally {
    /// Judges an exposition.
    pub(super) fn metrics(&mut self, page: &str) {
        let value = |line: &str| line.rsplit_once(' ').map(|(_, value)| value.to_owned());
        let mut deadlines = HashMap::new();
        for line in page
            .lines()
            .filter(|line| line.starts_with("lockwatch_lock_deadline_timestamp_seconds{"))
        {
            let seconds: Option<f64> = value(line).and_then(|value| value.parse().ok());
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an instant of our days in milliseconds"
            )]
            let deadline_ms = seconds.map(|seconds| (seconds * 1e3).round() as i64);
            deadlines.insert(label(line, "task"), deadline_ms);
        }
        for line in page.lines().filter(|line| line.starts_with("lockwatch_lock_holder{")) {
            let (task, holder) = (label(line, "task"), label(line, "holder"));
            let deadline = deadlines.get(&task).copied().flatten();
            self.metrics.judge(
                task.unwrap_or_default(),
                holder.unwrap_or_default(),
                deadline,
                EXACT_MS,
            );
        }
    }

    /// Judges a response of the API.
    pub(super) fn api(&mut self, answer: &Value) {
        for task in answer["tasks"].as_array().into_iter().flatten() {
            let hold = &task["lock"];
            let Some(holder) =
                find(hold, "holders").and_then(|holders| holders.get(0)?.get("holder")?.as_str())
            else {
                continue;
            };
            let deadline = find(hold, "deadline").and_then(Value::as_str).and_then(instant_ms);
            self.api.judge(task["name"].as_str().unwrap_or_default(), holder, deadline, EXACT_MS);
        }
    }
}

/// A reader of `/live`.
#[derive(Debug)]
pub(super) struct Live {
    reading: JoinHandle<anyhow::Result<()>>,
    pairs: Arc<Mutex<Pairs>>,
}

impl Live {
    /// Starts to read.
    pub(super) async fn listen(agent: SocketAddr) -> anyhow::Result<Live> {
        let mut stream = TcpStream::connect(agent).await?;
        stream.write_all(b"GET /live HTTP/1.0\r\nHost: agent\r\n\r\n").await?;
        let pairs = Arc::<Mutex<Pairs>>::default();
        let shared = Arc::clone(&pairs);
        let reading = tokio::spawn(async move {
            let mut lines = BufReader::new(stream).lines();
            // The holder of each task as received so far.
            let mut holders = HashMap::new();
            while let Some(line) = lines.next_line().await? {
                let Some(data) = line.strip_prefix("data: ") else { continue };
                let data: Value = serde_json::from_str(data).context("data that are no JSON")?;
                take(
                    &data,
                    &mut holders,
                    &mut shared.lock().unwrap_or_else(PoisonError::into_inner),
                );
            }
            anyhow::bail!("the agent ended the stream")
        });
        Ok(Live { reading, pairs })
    }

    /// Stops reading.
    pub(super) fn stop(self) -> anyhow::Result<Pairs> {
        anyhow::ensure!(!self.reading.is_finished(), "the stream of /live ended");
        self.reading.abort();
        Ok(self.pairs.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Processes one frame: first rows, then deadlines that changed in unchanged rows.
fn take(data: &Value, holders: &mut HashMap<String, String>, pairs: &mut Pairs) {
    for row in data["rows"].as_array().into_iter().flatten() {
        let (Some(task), Some(html)) = (row[0].as_str(), row[1].as_str()) else { continue };
        let Some(holder) = between(html, "hold-", '<').map(|rest| format!("hold-{rest}")) else {
            holders.remove(task);
            continue;
        };
        let deadline =
            between(html, "data-deadline=\"", '"').and_then(|deadline| deadline.parse().ok());
        pairs.judge(task, &holder, deadline, BY_AGENT_MS);
        holders.insert(task.to_owned(), holder);
    }
    for pulse in data["pulses"].as_array().into_iter().flatten() {
        let Some(task) = pulse[0].as_str() else { continue };
        if let (Some(holder), Some(deadline)) = (holders.get(task), pulse[1].as_i64()) {
            pairs.judge(task, holder, Some(deadline), BY_AGENT_MS);
        }
    }
}

/// The text between `before` and the next `end`.
fn between<'a>(text: &'a str, before: &str, end: char) -> Option<&'a str> {
    text.split_once(before)?.1.split(end).next()
}

fn label<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    between(line, &format!("{name}=\""), '"')
}

/// The first value of this name, at any depth.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let object = value.as_object()?;
    object.get(name).or_else(|| object.values().find_map(|value| find(value, name)))
}

/// The milliseconds of an instant within its day, which is enough to identify a hold.
fn instant_ms(text: &str) -> Option<i64> {
    let time = text.split_once('T')?.1.strip_suffix('Z')?;
    let mut parts = time.split(':');
    let (hours, minutes): (i64, i64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let (seconds, fraction) = parts.next()?.split_once('.')?;
    Some(
        ((hours * 60 + minutes) * 60 + seconds.parse::<i64>().ok()?) * 1_000
            + format!("{fraction:0<3}").parse::<i64>().ok()?,
    )
}
