//! A page part by part: a metric of some tasks. Any part can be written at any time, so that a big
//! page need not be held.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use lockwatch_judge::snapshot::{StoreView, TaskView};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel as _, EncodeLabelSet, LabelSetEncoder,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::again::Written;
use super::form::Form;
use super::selection::Selection;
use super::table::{Metric, Source};
use super::{Agent, Bases, Labelled, write_family};
use crate::output::identity::escape;
use crate::output::negotiate::Format;
use crate::published::{Published, ReloadStatus};

/// Few descriptions are longer.
const HEAD_BYTES: usize = 512;
/// Most tasks in one part.
const PART_TASKS: usize = 128;

/// A page to be written.
#[derive(Clone, Debug)]
pub struct Page {
    pub(super) content: Arc<Content>,
    pub(super) parts: Arc<[Part]>,
    /// Of a page after another one: the series of each part that is of tasks.
    pub(super) written: Arc<[Option<Arc<Written>>]>,
}

/// What it is written from.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) published: Arc<Published>,
    pub(super) metrics: Selection,
    pub(super) agent: Agent,
    /// When the system told of the process.
    pub(super) asked: Instant,
    redises: Bases,
    pub(super) tasks: Arc<Bases>,
}

/// A metric of those at some positions.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) metric: &'static Metric,
    pub(super) form: Option<&'static Form>,
    pub(super) positions: Range<usize>,
}

impl Page {
    /// A page of some metrics, of which nothing was written yet.
    ///
    /// # Errors
    /// None that is known; the encoder's interface has one.
    pub fn new(
        published: Arc<Published>,
        reload: ReloadStatus,
        metrics: Selection,
    ) -> Result<Page, fmt::Error> {
        let agent = Agent::now(reload);
        let tasks = match metrics.metrics().any(|(metric, _)| metric.is_of_tasks()) {
            true => bases(&published, each_task)?,
            false => Bases::default(),
        };
        Page::of(published, metrics, (agent, Instant::now()), Arc::new(tasks))
    }

    pub(super) fn of(
        published: Arc<Published>,
        metrics: Selection,
        (agent, asked): (Agent, Instant),
        tasks: Arc<Bases>,
    ) -> Result<Page, fmt::Error> {
        let redises = bases(&published, each_redis)?;
        let counts = (published.snapshot.stores.len(), published.snapshot.tasks.len());
        let parts = metrics.metrics().flat_map(|it| parts(it, counts)).collect();
        let content = Content { published, metrics, agent, asked, redises, tasks };
        Ok(Page { content: Arc::new(content), parts, written: Arc::default() })
    }

    /// How many tasks it tells of.
    pub fn tasks(&self) -> usize {
        self.content.published.snapshot.tasks.len()
    }

    /// How many parts it has.
    pub fn parts(&self) -> usize {
        // The last one is the end mark.
        self.parts.len() + 1
    }

    /// Writes the part of this number, from 0, and gives what follows that in it and was written
    /// before; perhaps there is nothing in it.
    ///
    /// # Errors
    /// None that is known; the encoder's interface has one.
    pub fn write(
        &self,
        part: usize,
        format: Format,
        out: &mut String,
    ) -> Result<Bytes, fmt::Error> {
        let Some(Part { metric, form, positions }) = self.parts.get(part) else {
            if part == self.parts.len() && format == Format::OpenMetrics {
                encode_eof(out)?;
            }
            return Ok(Bytes::new());
        };
        let description =
            if positions.start == 0 { Description::Of(format) } else { Description::Left };
        let written = self.written.get(part).and_then(Option::as_ref);
        let positions = if written.is_some() { 0..0 } else { positions.clone() };
        self.write_series((metric, *form), positions, description, out)?;
        Ok(written.map(Written::bytes).unwrap_or_default())
    }

    /// Writes a metric of those at some positions.
    pub(super) fn write_series(
        &self,
        (metric, form): (&'static Metric, Option<&'static Form>),
        positions: Range<usize>,
        description: Description,
        out: &mut String,
    ) -> fmt::Result {
        let Some(form) = form else {
            let mut registry = Registry::default();
            registry.register_collector(Box::new(Series {
                content: Arc::clone(&self.content),
                metric,
                positions,
            }));
            return encode_registry(&mut Described::new(description, out), &registry);
        };
        if matches!(&metric.source, Source::Agent(reading) if reading.is_absent(&self.content.agent))
        {
            return Ok(());
        }
        if let Description::Of(format) = description {
            out.push_str(form.describe(format));
        }
        match &metric.source {
            Source::Redis(reading) => {
                let redises = self.content.redises_at(&positions);
                redises.for_each(|redis| form.stamp(reading, redis.labels, redis.of, out));
            }
            Source::Task(reading) => {
                let tasks = self.content.tasks_at(&positions);
                tasks.for_each(|task| form.stamp(reading, task.labels, task.of, out));
            }
            Source::Agent(reading) => form.stamp(reading, "", &self.content.agent, out),
        }
        Ok(())
    }
}

fn escaped(name: &str) -> Cow<'_, str> {
    escape(name.as_bytes())
}

fn parts(
    (metric, form): (&'static Metric, Option<&'static Form>),
    (redises, tasks): (usize, usize),
) -> impl Iterator<Item = Part> {
    let count = match metric.source {
        Source::Agent(_) => 1,
        Source::Redis(_) => redises,
        Source::Task(_) => tasks,
    };
    // Also a metric of nobody has a description.
    (0..count.max(1)).step_by(PART_TASKS).map(move |start| Part {
        metric,
        form,
        positions: start..start + PART_TASKS,
    })
}

/// The series of a part.
#[derive(Debug)]
struct Series {
    content: Arc<Content>,
    metric: &'static Metric,
    positions: Range<usize>,
}

impl Collector for Series {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        match &self.metric.source {
            Source::Agent(reading) => {
                let all = [Labelled { labels: "", of: &self.content.agent }];
                write_family(&mut encoder, self.metric, reading, all.into_iter())
            }
            Source::Redis(reading) => write_family(
                &mut encoder,
                self.metric,
                reading,
                self.content.redises_at(&self.positions),
            ),
            Source::Task(reading) => write_family(
                &mut encoder,
                self.metric,
                reading,
                self.content.tasks_at(&self.positions),
            ),
        }
    }
}

impl Content {
    /// The redises at some positions, with their labels.
    fn redises_at(
        &self,
        positions: &Range<usize>,
    ) -> impl Iterator<Item = Labelled<'_, StoreView>> {
        let (all, bases) = (&self.published.snapshot.stores, &self.redises);
        let present = positions.start..positions.end.min(all.len());
        present.filter_map(|at| Some(Labelled { labels: bases.get(at)?, of: &**all.get(at)? }))
    }

    /// The tasks at some positions, with their labels.
    fn tasks_at(&self, positions: &Range<usize>) -> impl Iterator<Item = Labelled<'_, TaskView>> {
        let (all, bases) = (&self.published.snapshot.tasks, &self.tasks);
        let present = positions.start..positions.end.min(all.len());
        present.filter_map(|at| Some(Labelled { labels: bases.get(at)?, of: &**all.get(at)? }))
    }
}

/// Takes what the encoder writes of a part, and hands it on with the description that the format
/// wants.
struct Described<'a, W> {
    description: Description,
    /// The description as far as it was written; `None` once it is complete.
    head: Option<String>,
    out: &'a mut W,
}

#[derive(Clone, Copy)]
pub(super) enum Description {
    /// Of this format.
    Of(Format),
    /// An earlier part has it.
    Left,
}

impl<W: fmt::Write> fmt::Write for Described<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match self.head {
            None => self.out.write_str(text),
            Some(_) => self.describe(text),
        }
    }
}

impl<'a, W: fmt::Write> Described<'a, W> {
    fn new(description: Description, out: &'a mut W) -> Described<'a, W> {
        Described { description, head: Some(String::with_capacity(HEAD_BYTES)), out }
    }

    #[cold]
    fn describe(&mut self, text: &str) -> fmt::Result {
        let Some(head) = &mut self.head else { return Ok(()) };
        head.push_str(text);
        // What it is, and of which type.
        if head.bytes().filter(|byte| *byte == b'\n').count() < 2 {
            return Ok(());
        }
        let head = self.head.take().unwrap_or_default();
        match self.description {
            Description::Left => Ok(()),
            Description::Of(Format::OpenMetrics) => self.out.write_str(&head),
            Description::Of(Format::Classic) => write_classic(&head, self.out),
        }
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

type Pairs<'a> = [(&'static str, Cow<'a, str>)];
/// Hands the labels of each one to what encodes them.
type EachLabels = fn(&Published, &mut dyn FnMut(&Pairs<'_>) -> fmt::Result) -> fmt::Result;

fn each_redis(
    published: &Published,
    encode: &mut dyn FnMut(&Pairs<'_>) -> fmt::Result,
) -> fmt::Result {
    published
        .snapshot
        .stores
        .iter()
        .try_for_each(|redis| encode(&[("redis", escaped(&redis.spec.name))]))
}

fn each_task(
    published: &Published,
    encode: &mut dyn FnMut(&Pairs<'_>) -> fmt::Result,
) -> fmt::Result {
    let mut tasks = published.snapshot.tasks.iter();
    tasks.try_for_each(|task| {
        encode(&[("task", escaped(&task.spec.name)), ("redis", escaped(&task.store))])
    })
}

/// Has the encoder write the labels of each one.
fn bases(published: &Arc<Published>, each: EachLabels) -> Result<Bases, fmt::Error> {
    let mut text = String::new();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(OnlyLabels { published: Arc::clone(published), each }));
    encode_registry(&mut Described::new(Description::Left, &mut text), &registry)?;
    text.shrink_to_fit();
    Ok(Bases::of_series(text))
}

/// A series for each one that has nothing but labels.
struct OnlyLabels {
    published: Arc<Published>,
    each: EachLabels,
}

impl fmt::Debug for OnlyLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnlyLabels")
    }
}

impl Collector for OnlyLabels {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let mut family = encoder.encode_descriptor("", "", None, MetricType::Gauge)?;
        (self.each)(&self.published, &mut |pairs| {
            family.encode_family(&OwnLabels(pairs))?.encode_gauge(&0_i64)
        })
    }
}

struct OwnLabels<'a>(&'a Pairs<'a>);

impl EncodeLabelSet for OwnLabels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(name, value)| (*name, value.as_ref()).encode(encoder.encode_label()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classic_text_differs_only_in_descriptions() {
        let described = |head: &str| {
            let mut text = String::new();
            write_classic(head, &mut text).unwrap();
            text
        };
        assert_eq!(
            described("# HELP a_b The a counter.\n# TYPE a_b counter\n"),
            "# HELP a_b_total The a counter.\n# TYPE a_b_total counter\n"
        );
        let gauge = "# HELP g The g of a counter\n# TYPE g gauge\n";
        assert_eq!(described(gauge), gauge);
    }

    #[test]
    fn a_description_may_come_in_any_pieces() {
        let whole = "# HELP a A.\n# TYPE a counter\na_total{x=\"# HELP\"} 1\n";
        for (description, expected) in [
            (Description::Of(Format::OpenMetrics), whole),
            (
                Description::Of(Format::Classic),
                "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"# HELP\"} 1\n",
            ),
            (Description::Left, "a_total{x=\"# HELP\"} 1\n"),
        ] {
            let mut text = String::new();
            let mut out = Described::new(description, &mut text);
            whole
                .split_inclusive(['_', ' ', '\n'])
                .for_each(|piece| fmt::Write::write_str(&mut out, piece).unwrap());
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn labels_that_are_alike_are_found() {
        let series = "{a=\"1\",b=\"}\"} 0\n{a=\"2\"} 0\n{a=\"1\",b=\"}\"} 0\n";
        let bases = Bases::of_series(series.to_owned());
        assert_eq!(
            [0, 1, 2, 3].map(|at| bases.get(at)),
            [Some("a=\"1\",b=\"}\""), Some("a=\"2\""), None, None]
        );
    }
}
