//! The metrics page as text, written straight from the published snapshot, piece by piece.
//!
//! Series of a task that left the configuration, and of a holder that is gone, vanish by construction, and the order is that of the
//! table and the snapshot. A page of many tasks has millions of series, so what all series of a task begin with is made ready once,
//! and nothing goes through a formatter that can be pushed as it is.

mod table;
mod text;

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use lockwatch_model::histogram::Histogram;
use lockwatch_model::snapshot::TaskView;

use super::identity::{escape, holder_label};
use super::negotiate::Format;
use super::process::Process;
use crate::published::{Published, ReloadStatus};
use table::{Emit, Number, Reading, Source};
pub use table::{Metric, TABLE};
use text::{push_label, push_number};

/// Most series of `lockwatch_lock_holder` for one task, so that no task has more than 95 series in all. A read lock may
/// have more holders; `lockwatch_lock_holders` counts them all.
pub const HOLDER_SERIES_MAX: usize = 5;
/// Labels that a task's own labels must not hide.
const RESERVED_LABELS: [&str; 4] = ["task", "redis", "key", "scheme"];

/// The whole page as text.
pub fn encode(published: Arc<Published>, reload: ReloadStatus, format: Format) -> String {
    let mut text = String::with_capacity(page_size(&published));
    Page::new(published, reload, format).write_all(&mut text);
    text
}

/// A guess at the length of a page, so that its buffer need not be moved often.
pub fn page_size(published: &Published) -> usize {
    const BYTES_PER_TASK: usize = 6 << 10;
    const GUESS_MAX: usize = 64 << 20;
    published.snapshot.tasks.len().saturating_add(4).saturating_mul(BYTES_PER_TASK).min(GUESS_MAX)
}

/// What the agent tells of itself.
#[derive(Debug)]
struct Agent {
    reload: ReloadStatus,
    process: Process,
}

/// A page that is being written.
#[derive(Debug)]
pub struct Page {
    published: Arc<Published>,
    agent: Agent,
    format: Format,
    redises: Labels,
    tasks: Labels,
    /// What comes next: the position of the metric in the table, and of the redis or task in its labels.
    metric: usize,
    item: usize,
    ended: bool,
}

impl Page {
    /// A page of which nothing was written yet.
    pub fn new(published: Arc<Published>, reload: ReloadStatus, format: Format) -> Page {
        let snapshot = &published.snapshot;
        let redises = Labels::of(snapshot.redises.iter().map(|redis| [("redis", &*redis.spec.name)]));
        let tasks = snapshot.tasks.iter().map(|task| [("task", &*task.spec.name), ("redis", &*task.redis)]);
        let tasks = Labels::of(tasks);
        let agent = Agent { reload, process: Process::read() };
        Page { agent, format, redises, tasks, metric: 0, item: 0, ended: false, published }
    }

    /// Writes all of it.
    pub fn write_all(&mut self, out: &mut String) {
        while self.write_some(out, usize::MAX) {}
    }

    /// Goes on until `out` has `enough` bytes or a little more; whether there is anything left.
    pub fn write_some(&mut self, out: &mut String, enough: usize) -> bool {
        while out.len() < enough {
            let Some(metric) = TABLE.get(self.metric) else {
                if !self.ended && self.format == Format::OpenMetrics {
                    out.push_str("# EOF\n");
                }
                self.ended = true;
                return false;
            };
            let snapshot = &self.published.snapshot;
            let next = match &metric.source {
                Source::Agent(reading) => {
                    if !reading.is_absent(&self.agent) {
                        let mut family = Family::begin(metric, reading, self.format, out);
                        family.write("", reading, &self.agent, out);
                    }
                    None
                }
                Source::Redis(reading) => {
                    let all = snapshot.redises.iter().map(|redis| &**redis);
                    write_items(metric, reading, (all, &self.redises), (self.item, self.format), (out, enough))
                }
                Source::Task(reading) => {
                    let all = snapshot.tasks.iter().map(|task| &**task);
                    write_items(metric, reading, (all, &self.tasks), (self.item, self.format), (out, enough))
                }
            };
            match next {
                Some(item) => self.item = item,
                None => (self.metric, self.item) = (self.metric + 1, 0),
            }
        }
        true
    }
}

/// Writes a metric's series from the item `first` on until there are enough bytes; where to go on, if anywhere.
fn write_items<'a, T: 'a>(
    metric: &Metric,
    reading: &Reading<T>,
    (all, labels): (impl Iterator<Item = &'a T>, &Labels),
    (first, format): (usize, Format),
    (out, enough): (&mut String, usize),
) -> Option<usize> {
    let mut family = match first {
        0 => Family::begin(metric, reading, format, out),
        _ => Family::of(metric),
    };
    for (position, (item, range)) in all.zip(&labels.ranges).enumerate().skip(first) {
        if out.len() >= enough {
            return Some(position);
        }
        if let Some(labels) = range.clone().and_then(|range| labels.text.get(range)) {
            family.write(labels, reading, item, out);
        }
    }
    None
}

/// How the series of each redis or task begin: its labels as they are written, all in one text.
#[derive(Debug)]
struct Labels {
    text: String,
    /// Where each one's are; `None` for one that another has already: two alike would make the whole page invalid.
    ranges: Vec<Option<Range<usize>>>,
}

impl Labels {
    /// Of each one its pairs of name and value.
    fn of<'a, const PAIRS: usize>(all: impl ExactSizeIterator<Item = [(&'static str, &'a str); PAIRS]>) -> Labels {
        let (mut text, mut ranges) = (String::new(), Vec::with_capacity(all.len()));
        for pairs in all {
            let start = text.len();
            let mut is_first = true;
            for (name, value) in pairs {
                push_label(&mut text, is_first, name, &escape(value.as_bytes()));
                is_first = false;
            }
            ranges.push(Some(start..text.len()));
        }
        let mut seen = HashSet::new();
        for range in &mut ranges {
            if !range.clone().and_then(|range| text.get(range)).is_some_and(|labels| seen.insert(labels)) {
                *range = None;
            }
        }
        drop(seen);
        Labels { text, ranges }
    }
}

/// A metric whose series are being written.
struct Family {
    /// What each series begins with, up to its labels.
    name: &'static str,
    /// How the series of each bucket of a histogram go on, up to the labels, and which bounds they are for.
    buckets: Vec<String>,
    bounds_ms: Option<&'static [u64; Histogram::BUCKETS]>,
}

impl Family {
    fn of(metric: &Metric) -> Family {
        Family { name: metric.name, buckets: Vec::new(), bounds_ms: None }
    }

    /// Writes the description.
    fn begin<T>(metric: &Metric, reading: &Reading<T>, format: Format, out: &mut String) -> Family {
        // OpenMetrics describes a counter without the suffix that its samples have.
        let name = match format {
            Format::OpenMetrics if reading.kind() == "counter" => {
                metric.name.strip_suffix("_total").unwrap_or(metric.name)
            }
            _ => metric.name,
        };
        for part in ["# HELP ", name, " ", metric.help, "\n# TYPE ", name, " ", reading.kind(), "\n"] {
            out.push_str(part);
        }
        Family::of(metric)
    }

    /// Writes all series of one item.
    fn write<T>(&mut self, labels: &str, reading: &Reading<T>, item: &T, out: &mut String) {
        match reading {
            Reading::Gauge(get) | Reading::Counter(get) => {
                if let Some(number) = get(item) {
                    self.series(labels, &[], number, out);
                }
            }
            Reading::Gauges(_, each) | Reading::Counters(_, each) => {
                each(item, &mut |further, number| self.series(labels, further, number, out));
            }
            Reading::Histogram(get) => self.histogram(labels, get(item), out),
        }
    }

    fn series(&self, labels: &str, further: &[(&str, &str)], number: Number, out: &mut String) {
        out.push_str(self.name);
        if !(labels.is_empty() && further.is_empty()) {
            out.push('{');
            out.push_str(labels);
            let mut is_first = labels.is_empty();
            for (name, value) in further {
                push_label(out, is_first, name, value);
                is_first = false;
            }
            out.push('}');
        }
        out.push(' ');
        push_number(out, number);
        out.push('\n');
    }

    fn histogram(&mut self, labels: &str, histogram: &Histogram, out: &mut String) {
        if self.bounds_ms != Some(histogram.bounds_ms) {
            self.bounds_ms = Some(histogram.bounds_ms);
            self.buckets = buckets(histogram.bounds_ms);
        }
        for (suffix, number) in [("_sum{", Number::Ms(histogram.sum_ms)), ("_count{", Number::Count(histogram.count()))]
        {
            for part in [self.name, suffix, labels, "} "] {
                out.push_str(part);
            }
            push_number(out, number);
            out.push('\n');
        }
        let mut below = 0_u64;
        for (bucket, count) in self.buckets.iter().zip(histogram.counts) {
            below = below.saturating_add(count);
            for part in [self.name, bucket, labels, "} "] {
                out.push_str(part);
            }
            push_number(out, Number::Count(below));
            out.push('\n');
        }
    }
}

/// How the series of each bucket go on after the name, up to the labels of whose it is.
fn buckets(bounds_ms: &[u64]) -> Vec<String> {
    let mut all: Vec<String> = Vec::with_capacity(bounds_ms.len() + 1);
    for bound in bounds_ms {
        let mut bucket = String::from("_bucket{le=\"");
        push_number(&mut bucket, Number::Ms(*bound));
        bucket.push_str("\",");
        all.push(bucket);
    }
    all.push(String::from("_bucket{le=\"+Inf\","));
    all
}

impl<T> Reading<T> {
    /// Whether there is no figure at all, so that not even its description is worth a line.
    fn is_absent(&self, of: &T) -> bool {
        match self {
            Reading::Gauge(get) | Reading::Counter(get) => get(of).is_none(),
            Reading::Histogram(_) | Reading::Gauges(..) | Reading::Counters(..) => false,
        }
    }
}

/// The series of `lockwatch_lock_holder`: each pair of holder and host once.
fn holder_series(task: &TaskView, emit: &mut Emit<'_>) {
    let Some(hold) = task.hold.as_ref().filter(|_| task.held == Some(true)) else { return };
    let mut seen = HashSet::new();
    for (holder, host) in &hold.holders {
        let labels = (holder_label(holder), escape(host.as_deref().unwrap_or_default()));
        if seen.len() < HOLDER_SERIES_MAX && !seen.contains(&labels) {
            emit(&[("holder", &labels.0), ("host", &labels.1)], Number::Count(1));
            seen.insert(labels);
        }
    }
}

/// The series of `lockwatch_task_info`. A task's own label that is no valid name, that is reserved or that was there
/// before is left out: the configuration refuses it, and it must never cost a scrape.
fn info_labels(task: &TaskView, emit: &mut Emit<'_>) {
    let key = escape(&task.spec.lock.key);
    let own: Vec<(&str, Cow<'_, str>)> =
        task.spec.labels.iter().map(|(name, value)| (&**name, escape(value.as_bytes()))).collect();
    let mut labels: Vec<(&str, &str)> = vec![("key", &key), ("scheme", task.spec.lock.scheme.name())];
    for (name, value) in &own {
        let taken = RESERVED_LABELS.contains(name) || labels.iter().any(|(other, _)| other == name);
        if is_label_name(name) && !taken {
            labels.push((name, value));
        }
    }
    emit(&labels, Number::Count(1));
}

fn is_label_name(name: &str) -> bool {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts_well && !name.starts_with("__") && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
