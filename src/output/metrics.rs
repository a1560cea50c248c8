//! The metrics page as text. This is the only file that knows prometheus-client.
//!
//! Collectors write straight from the published snapshot: series of a task that left the
//! configuration, and of a holder that is gone, vanish by construction, and the order is that of
//! the table and the snapshot. A page of many tasks has millions of series, so it is written part
//! by part, and the labels that all series of a task begin with are encoded once.

mod again;
mod form;
mod part;
mod selection;
mod table;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use lockwatch_judge::histogram::Histogram;
use lockwatch_judge::snapshot::TaskView;
use prometheus_client::encoding::{
    CounterValueEncoder, DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabel,
    EncodeLabelSet, GaugeValueEncoder, LabelSetEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

use super::clock::{seconds, signed_seconds};
use super::identity::{escape, holder_label};
use super::process::Process;
use crate::published::{Published, ReloadStatus};
use crate::telemetry;
pub use part::Page;
pub use selection::Selection;
use table::{Emit, Number, Reading};
pub use table::{Metric, TABLE};

/// Most series of `lockwatch_lock_holder` for one task, so that no task has more than 95 series in
/// all. A read lock may have more holders; `lockwatch_lock_holders` counts them all.
pub const HOLDER_SERIES_MAX: usize = 5;
/// Labels that a task's own labels must not hide.
const RESERVED_LABELS: [&str; 4] = ["task", "redis", "key", "scheme"];

/// A guess at the length of a page of these metrics, in bytes.
pub fn page_size(published: &Published, selection: Selection) -> usize {
    const BYTES_PER_SERIES: usize = 75;
    let of_task = selection.series_per_task().saturating_mul(BYTES_PER_SERIES);
    published.snapshot.tasks.len().saturating_add(4).saturating_mul(of_task)
}

/// What the agent tells of itself.
#[derive(Debug)]
struct Agent {
    reload: ReloadStatus,
    process: Process,
    log_lines_lost: u64,
}

impl Agent {
    fn now(reload: ReloadStatus) -> Agent {
        Agent { reload, process: Process::read(), log_lines_lost: telemetry::lines_lost() }
    }
}

/// Somebody whose figures are shown, with the labels that say whose they are, as they are written.
struct Labelled<'a, T> {
    labels: &'a str,
    of: &'a T,
}

/// Writes the description of a metric and its series of `all`.
fn write_family<'a, T: 'a>(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    reading: &Reading<T>,
    all: impl Iterator<Item = Labelled<'a, T>>,
) -> fmt::Result {
    let mut family = describe(encoder, metric, reading)?;
    for item in all {
        write_series(&mut family, reading, &item)?;
    }
    Ok(())
}

fn describe<'a, T>(
    encoder: &'a mut DescriptorEncoder<'_>,
    metric: &'a Metric,
    reading: &Reading<T>,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    let (name, kind) = match reading {
        Reading::Gauge(_) | Reading::GaugePer(_) | Reading::Gauges(..) => {
            (metric.name, MetricType::Gauge)
        }
        Reading::Histogram(..) => (metric.name, MetricType::Histogram),
        // The encoder adds the suffix to the samples itself.
        Reading::Counter(_) | Reading::CounterPer(_) | Reading::Counters(..) => {
            (metric.name.strip_suffix("_total").unwrap_or(metric.name), MetricType::Counter)
        }
    };
    encoder.encode_descriptor(name, metric.help, None, kind)
}

fn write_series<T>(
    family: &mut MetricEncoder<'_>,
    reading: &Reading<T>,
    item: &Labelled<'_, T>,
) -> fmt::Result {
    let base = item.labels;
    match reading {
        Reading::Gauge(get) => match get(item.of) {
            Some(number) => write_gauge(family, &Labels { base, further: &[] }, number),
            None => Ok(()),
        },
        Reading::Counter(get) => match get(item.of) {
            Some(number) => write_counter(family, &Labels { base, further: &[] }, number),
            None => Ok(()),
        },
        Reading::Histogram(_, get) => {
            write_histogram(family, &Labels { base, further: &[] }, get(item.of))
        }
        Reading::GaugePer(per) => per.all().enumerate().try_for_each(|(at, further)| {
            write_gauge(family, &Labels { base, further: &[further] }, (per.get)(item.of, at))
        }),
        Reading::CounterPer(per) => per.all().enumerate().try_for_each(|(at, further)| {
            write_counter(family, &Labels { base, further: &[further] }, (per.get)(item.of, at))
        }),
        Reading::Gauges(_, each) => {
            let mut result = Ok(());
            each(item.of, &mut |further, number| {
                result =
                    result.and_then(|()| write_gauge(family, &Labels { base, further }, number));
            });
            result
        }
        Reading::Counters(_, each) => {
            let mut result = Ok(());
            each(item.of, &mut |further, number| {
                result =
                    result.and_then(|()| write_counter(family, &Labels { base, further }, number));
            });
            result
        }
    }
}

fn write_gauge(family: &mut MetricEncoder<'_>, labels: &Labels<'_>, number: Number) -> fmt::Result {
    if labels.is_empty() {
        return family.encode_gauge(&number);
    }
    family.encode_family(labels)?.encode_gauge(&number)
}

fn write_counter(
    family: &mut MetricEncoder<'_>,
    labels: &Labels<'_>,
    number: Number,
) -> fmt::Result {
    if labels.is_empty() {
        return family.encode_counter::<NoLabelSet, Number, f64>(&number, None);
    }
    family.encode_family(labels)?.encode_counter::<NoLabelSet, Number, f64>(&number, None)
}

fn write_histogram(
    family: &mut MetricEncoder<'_>,
    labels: &Labels<'_>,
    histogram: &Histogram,
) -> fmt::Result {
    let mut buckets = [(f64::INFINITY, 0); Histogram::BUCKETS + 1];
    for (bucket, bound) in buckets.iter_mut().zip(histogram.bounds_ms) {
        bucket.0 = seconds(*bound);
    }
    for (bucket, count) in buckets.iter_mut().zip(histogram.counts) {
        bucket.1 = count;
    }
    let (sum, count) = (seconds(histogram.sum_ms), histogram.count());
    family.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
}

/// The labels of one series: whose it is, as it is written, then the metric's own.
struct Labels<'a> {
    base: &'a str,
    further: &'a [(&'a str, &'a str)],
}

impl Labels<'_> {
    fn is_empty(&self) -> bool {
        self.base.is_empty() && self.further.is_empty()
    }
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        if !self.base.is_empty() {
            // The names, values and marks of all of them take the place of one name; what comes
            // after a name is not asked for.
            fmt::Write::write_str(&mut encoder.encode_label().encode_label_key()?, self.base)?;
        }
        for label in self.further {
            label.encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

/// What the encoder makes of the labels of each of many, as one text.
#[derive(Debug, Default)]
struct Bases {
    text: String,
    /// Where each one's are; `None` for one that another has already: two alike would make the
    /// whole page invalid.
    ranges: Vec<Option<Range<usize>>>,
}

impl Bases {
    fn get(&self, position: usize) -> Option<&str> {
        self.text.get(self.ranges.get(position)?.clone()?)
    }

    /// Takes in a series of each one, a line each, which has nothing but these labels.
    fn of_series(text: String) -> Bases {
        let mut ranges = Vec::new();
        let mut seen = HashSet::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let labels = line
                .find('{')
                .zip(line.rfind('}'))
                .map(|(open, close)| start + open + 1..start + close);
            ranges.push(
                labels.filter(|range| {
                    text.get(range.clone()).is_some_and(|labels| seen.insert(labels))
                }),
            );
            start += line.len();
        }
        drop(seen);
        Bases { text, ranges }
    }
}

impl EncodeGaugeValue for Number {
    fn encode(&self, encoder: &mut GaugeValueEncoder) -> fmt::Result {
        match *self {
            Number::Count(count) => EncodeGaugeValue::encode(&count, encoder),
            Number::Signed(number) => EncodeGaugeValue::encode(&number, encoder),
            Number::Ms(ms) => EncodeGaugeValue::encode(&seconds(ms), encoder),
            Number::SignedMs(ms) => EncodeGaugeValue::encode(&signed_seconds(ms), encoder),
        }
    }
}

impl EncodeCounterValue for Number {
    fn encode(&self, encoder: &mut CounterValueEncoder) -> fmt::Result {
        match self.never_negative() {
            Number::Count(count) => EncodeCounterValue::encode(&count, encoder),
            Number::Signed(number) => EncodeCounterValue::encode(&number.unsigned_abs(), encoder),
            Number::Ms(ms) => EncodeCounterValue::encode(&seconds(ms), encoder),
            Number::SignedMs(ms) => EncodeCounterValue::encode(&signed_seconds(ms), encoder),
        }
    }
}

impl Number {
    /// What a counter shows of it: it never goes below 0.
    fn never_negative(self) -> Number {
        match self {
            Number::Signed(number) => Number::Count(number.unsigned_abs()),
            Number::SignedMs(ms) => Number::Ms(ms.unsigned_abs()),
            Number::Count(_) | Number::Ms(_) => self,
        }
    }
}

impl<T> Reading<T> {
    /// Whether there is no figure at all, so that not even its description is worth a line.
    fn is_absent(&self, of: &T) -> bool {
        match self {
            Reading::Gauge(get) | Reading::Counter(get) => get(of).is_none(),
            Reading::Histogram(..)
            | Reading::GaugePer(_)
            | Reading::CounterPer(_)
            | Reading::Gauges(..)
            | Reading::Counters(..) => false,
        }
    }
}

/// The series of `lockwatch_lock_holder`: each pair of holder and host once.
fn holder_series(task: &TaskView, emit: &mut Emit<'_>) {
    let Some(hold) = table::hold(task) else { return };
    let mut seen = HashSet::new();
    for (holder, host) in hold.holders.iter() {
        let labels = (holder_label(holder), escape(host.as_deref().unwrap_or_default()));
        if seen.len() < HOLDER_SERIES_MAX && !seen.contains(&labels) {
            emit(&[("holder", &labels.0), ("host", &labels.1)], Number::Count(1));
            seen.insert(labels);
        }
    }
}

/// The series of `lockwatch_task_info`. A task's own label that is no valid name, that is reserved
/// or that was there before is left out: the configuration refuses it, and it must never cost a
/// scrape.
fn info_labels(task: &TaskView, emit: &mut Emit<'_>) {
    let key = escape(&task.spec.lock().key);
    let own: Vec<(&str, Cow<'_, str>)> =
        task.spec.labels.iter().map(|(name, value)| (&**name, escape(value.as_bytes()))).collect();
    let mut labels: Vec<(&str, &str)> =
        vec![("key", &key), ("scheme", task.spec.lock().scheme.name())];
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
    starts_well
        && !name.starts_with("__")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
