//! What the series look like. The encoder says it once for each metric; the page is stamped from
//! that.
//!
//! There may be a million series, and nearly all of the text of each is known beforehand: the name,
//! and the labels that are not the task's. An encoder that writes each name, brace and quote by
//! itself takes three times as long.

use std::fmt;
use std::sync::LazyLock;

use lockwatch_judge::histogram::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::registry::Registry;

use super::table::{Metric, Number, Reading, Source, TABLE};
use super::{Labels, describe, write_counter, write_gauge, write_histogram};
use crate::outputs::negotiate::Format;
use crate::text::instants::{seconds, signed_seconds};

/// Stands in a form where a task's own labels will. No name and no value that is written there has
/// it.
const MARK: &str = "\u{1}";

/// For each metric of [`TABLE`]: how its series look, if that is known before there are any.
pub(super) static FORMS: LazyLock<Vec<Option<Form>>> =
    LazyLock::new(|| TABLE.iter().map(Form::of).collect());

/// How the series of one metric look that each task, each redis or the agent has.
#[derive(Debug)]
pub(super) struct Form {
    open_metrics: String,
    classic: String,
    lines: Vec<Line>,
}

/// One series.
#[derive(Debug)]
struct Line {
    before_labels: String,
    before_number: String,
}

impl Form {
    fn of(metric: &'static Metric) -> Option<Form> {
        match &metric.source {
            Source::Task(reading) => Form::of_reading(metric, reading, MARK),
            Source::Redis(reading) => Form::of_reading(metric, reading, MARK),
            Source::Agent(reading) => Form::of_reading(metric, reading, ""),
        }
    }

    /// The form of series whose own labels are written as `labels`.
    fn of_reading<T>(
        metric: &'static Metric,
        reading: &'static Reading<T>,
        labels: &'static str,
    ) -> Option<Form> {
        if matches!(reading, Reading::Gauges(..) | Reading::Counters(..)) {
            return None;
        }
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Samples { metric, reading, labels }));
        let mut text = String::new();
        encode_registry(&mut text, &registry).ok()?;
        let described = text.match_indices('\n').nth(1)?.0 + 1;
        let (open_metrics, series) = text.split_at_checked(described)?;
        let mut classic = String::new();
        write_classic(open_metrics, &mut classic).ok()?;
        let lines = series.lines().map(Line::of).collect::<Option<_>>()?;
        Some(Form { open_metrics: open_metrics.to_owned(), classic, lines })
    }

    pub(super) fn describe(&self, format: Format) -> &str {
        match format {
            Format::OpenMetrics => &self.open_metrics,
            Format::Classic => &self.classic,
        }
    }

    /// How many series each one may have.
    pub(super) fn series(&self) -> usize {
        self.lines.len()
    }

    /// Writes the series of whoever has these labels.
    pub(super) fn stamp<T>(&self, reading: &Reading<T>, labels: &str, of: &T, out: &mut String) {
        let mut lines = self.lines.iter();
        let mut write = |number| {
            if let Some(line) = lines.next() {
                line.stamp(labels, number, out);
            }
        };
        match reading {
            Reading::Gauge(get) => get(of).into_iter().for_each(write),
            Reading::Counter(get) => {
                get(of).into_iter().map(Number::never_negative).for_each(write)
            }
            Reading::GaugePer(label) => {
                (0..self.lines.len()).for_each(|at| write((label.get)(of, at)))
            }
            Reading::CounterPer(label) => {
                (0..self.lines.len()).for_each(|at| write((label.get)(of, at).never_negative()));
            }
            Reading::Histogram(_, get) => {
                let histogram = get(of);
                write(Number::Ms(histogram.sum_ms));
                write(Number::Count(histogram.count()));
                let mut below = 0;
                for count in histogram.counts {
                    below += count;
                    write(Number::Count(below));
                }
            }
            // These have no form.
            Reading::Gauges(..) | Reading::Counters(..) => {}
        }
    }
}

impl Line {
    /// Takes a line apart that has the mark where labels will be, if there will be any, and some
    /// number.
    fn of(line: &str) -> Option<Line> {
        let (before_number, _) = line.rsplit_once(' ')?;
        let (before_labels, before_number) =
            before_number.split_once(MARK).unwrap_or(("", before_number));
        Some(Line {
            before_labels: before_labels.to_owned(),
            before_number: format!("{before_number} "),
        })
    }

    fn stamp(&self, labels: &str, number: Number, out: &mut String) {
        out.push_str(&self.before_labels);
        out.push_str(labels);
        out.push_str(&self.before_number);
        number.push(out);
        out.push('\n');
    }
}

impl Number {
    /// Writes it as the encoder would.
    fn push(self, out: &mut String) {
        match self {
            Number::Count(count) => out.push_str(itoa::Buffer::new().format(count)),
            Number::Signed(number) => out.push_str(itoa::Buffer::new().format(number)),
            // Most durations are none.
            Number::Ms(0) => out.push_str("0.0"),
            Number::Ms(ms) => out.push_str(dtoa::Buffer::new().format(seconds(ms))),
            Number::SignedMs(ms) => out.push_str(dtoa::Buffer::new().format(signed_seconds(ms))),
        }
    }
}

/// Has the encoder write every series that a task may have of a metric.
struct Samples<T: 'static> {
    metric: &'static Metric,
    reading: &'static Reading<T>,
    labels: &'static str,
}

impl<T> fmt::Debug for Samples<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Samples")
    }
}

impl<T: 'static> Collector for Samples<T> {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let mut family = describe(&mut encoder, self.metric, self.reading)?;
        write_samples(&mut family, self.reading, self.labels)
    }
}

fn write_samples<T>(
    family: &mut MetricEncoder<'_>,
    reading: &Reading<T>,
    base: &str,
) -> fmt::Result {
    let labels = Labels { base, further: &[] };
    let number = Number::Count(0);
    match reading {
        Reading::Gauge(_) => write_gauge(family, &labels, number),
        Reading::Counter(_) => write_counter(family, &labels, number),
        Reading::Histogram(bounds, _) => write_histogram(family, &labels, &Histogram::new(bounds)),
        Reading::GaugePer(label) => label.all().try_for_each(|further| {
            write_gauge(family, &Labels { base, further: &[further] }, number)
        }),
        Reading::CounterPer(label) => label.all().try_for_each(|further| {
            write_counter(family, &Labels { base, further: &[further] }, number)
        }),
        Reading::Gauges(..) | Reading::Counters(..) => Ok(()),
    }
}

/// The description of a metric in classic text: a counter is described under the name of its
/// samples.
pub(super) fn write_classic(open_metrics: &str, out: &mut impl fmt::Write) -> fmt::Result {
    let suffix = if open_metrics.ends_with(" counter\n") { "_total" } else { "" };
    for line in open_metrics.split_inclusive('\n') {
        let mut words = line.splitn(4, ' ');
        let (mark, kind, name) = (words.next(), words.next(), words.next());
        let (Some(mark), Some(kind), Some(name), Some(rest)) = (mark, kind, name, words.next())
        else {
            continue;
        };
        write!(out, "{mark} {kind} {name}{suffix} {rest}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::table::Per;
    use super::super::{Labelled, write_series};
    use super::*;

    struct Item {
        number: Option<Number>,
        histogram: Histogram,
    }

    static BOUNDS: [u64; Histogram::BUCKETS] = [1, 25, 1_000, 2_500, 60_000, 3_600_000];
    static METRIC: Metric = Metric {
        name: "lockwatch_things_total",
        help: "Things = {\"x\"} 1.",
        source: Source::Agent(Reading::Gauge(|_| None)),
    };
    const PER: Per<Item> = Per {
        label: &["reason"],
        value: |at| ["a", "b c", "d} 0"].get(at).copied(),
        get: |item, at| {
            if at == 1 { item.number.unwrap_or(Number::Count(7)) } else { Number::Count(at as u64) }
        },
    };
    static READINGS: [Reading<Item>; 5] = [
        Reading::Gauge(|item| item.number),
        Reading::Counter(|item| item.number),
        Reading::GaugePer(PER),
        Reading::CounterPer(PER),
        Reading::Histogram(&BOUNDS, |item| &item.histogram),
    ];

    /// What the encoder makes of it without forms.
    #[derive(Debug)]
    struct Encoded(&'static Reading<Item>, &'static str, Item);

    impl fmt::Debug for Item {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Item")
        }
    }

    impl Collector for Encoded {
        fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
            let Encoded(reading, labels, of) = self;
            let mut family = describe(&mut encoder, &METRIC, reading)?;
            write_series(&mut family, reading, &Labelled { labels, of })
        }
    }

    fn items() -> Vec<Item> {
        let mut histogram = Histogram::new(&BOUNDS);
        [0, 1, 1, 26, 999, 5_000, 90_000, 4_000_000, 4_000_001]
            .into_iter()
            .for_each(|ms| histogram.observe(ms));
        let amounts = [
            0,
            1,
            9,
            10,
            99,
            100,
            999,
            1_000,
            1_001,
            12_345,
            1_800_000_000_123,
            u64::MAX / 3,
            u64::MAX,
        ];
        let unsigned =
            amounts.into_iter().flat_map(|amount| [Number::Count(amount), Number::Ms(amount)]);
        let signed = amounts.into_iter().flat_map(|amount| {
            let amount = i64::try_from(amount).unwrap_or(i64::MAX);
            [amount, -amount]
                .into_iter()
                .flat_map(|amount| [Number::Signed(amount), Number::SignedMs(amount)])
        });
        let all = unsigned.chain(signed).map(Some).chain([None]);
        all.map(|number| Item { number, histogram }).collect()
    }

    #[test]
    fn what_is_stamped_is_what_the_encoder_writes() {
        for (at, reading) in READINGS.iter().enumerate() {
            for (item, again) in items().into_iter().zip(items()) {
                for labels in ["task=\"t\",redis=\"main\"", "task=\"} 1 \\\" \\n\",redis=\"\"", ""]
                {
                    let form = Form::of_reading(
                        &METRIC,
                        reading,
                        if labels.is_empty() { "" } else { MARK },
                    );
                    let form = form.expect("a form");
                    let mut registry = Registry::default();
                    let (number, histogram) = (item.number, item.histogram);
                    registry.register_collector(Box::new(Encoded(
                        reading,
                        labels,
                        Item { number, histogram },
                    )));
                    let mut encoded = String::new();
                    encode_registry(&mut encoded, &registry).unwrap();
                    let mut stamped = form.describe(Format::OpenMetrics).to_owned();
                    form.stamp(reading, labels, &again, &mut stamped);
                    assert_eq!(stamped, encoded, "reading {at} of {number:?}");
                }
            }
        }
    }

    #[test]
    fn every_metric_has_a_form_unless_its_labels_are_free() {
        for (metric, form) in TABLE.iter().zip(FORMS.iter()) {
            let is_free = match &metric.source {
                // The next page takes these from the one before, unless holders or configuration
                // are others.
                Source::Task(_) => {
                    ["lockwatch_task_info", "lockwatch_lock_holder"].contains(&metric.name)
                }
                Source::Redis(reading) => {
                    matches!(reading, Reading::Gauges(..) | Reading::Counters(..))
                }
                Source::Agent(reading) => matches!(reading, Reading::Gauges(..)),
            };
            assert_eq!(form.is_some(), !is_free, "{}", metric.name);
        }
    }
}
