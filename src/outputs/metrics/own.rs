//! The agent's own metrics, written by prometheus-client.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{
    CounterValueEncoder, DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue,
    GaugeValueEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::Agent;
use super::reading::{Metric, Number, Reading};
use super::text::describe;
use crate::outputs::negotiate::Format;
use crate::text::instants::{seconds, signed_seconds};

/// Writes one metric of the agent, with its description; nothing where it has none.
pub(super) fn write(
    metric: &'static Metric,
    reading: &'static Reading<Agent>,
    agent: &Arc<Agent>,
    format: Format,
    out: &mut String,
) {
    let mut registry = Registry::default();
    let agent = Arc::clone(agent);
    registry.register_collector(Box::new(Own { metric, reading, agent }));
    let mut text = String::new();
    // A string takes everything.
    let _written = encode_registry(&mut text, &registry);
    let series = text.lines().filter(|line| !line.starts_with('#'));
    let mut series = series.peekable();
    if series.peek().is_some() {
        describe(metric, format, out);
        series.for_each(|line| {
            out.push_str(line);
            out.push('\n');
        });
    }
}

#[derive(Debug)]
struct Own {
    metric: &'static Metric,
    reading: &'static Reading<Agent>,
    agent: Arc<Agent>,
}

impl Collector for Own {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let (name, help) = (self.metric.name, self.metric.help);
        match self.reading {
            Reading::Gauge(get) => {
                let Some(number) = get(&self.agent) else { return Ok(()) };
                encoder
                    .encode_descriptor(name, help, None, MetricType::Gauge)?
                    .encode_gauge(&number)
            }
            Reading::Counter(get) => {
                let Some(number) = get(&self.agent) else { return Ok(()) };
                // The encoder adds the ending itself.
                let name = name.strip_suffix("_total").unwrap_or(name);
                let mut family =
                    encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
                family.encode_counter::<NoLabelSet, Number, f64>(&number, None)
            }
            Reading::Gauges(_, each) => {
                let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                let mut result = Ok(());
                each(&self.agent, &mut |labels, number| {
                    result = result.and_then(|()| {
                        family.encode_family(&labels.to_vec())?.encode_gauge(&number)
                    });
                });
                result
            }
            // The agent has none of these.
            Reading::Histogram(_)
            | Reading::CounterPer(_)
            | Reading::GaugesAt(..)
            | Reading::Counters(..) => Ok(()),
        }
    }
}

impl EncodeGaugeValue for Number {
    fn encode(&self, encoder: &mut GaugeValueEncoder) -> fmt::Result {
        match *self {
            Number::Count(count) => EncodeGaugeValue::encode(&count, encoder),
            Number::Signed(number) => EncodeGaugeValue::encode(&number, encoder),
            Number::Infinite => EncodeGaugeValue::encode(&f64::INFINITY, encoder),
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
            Number::Infinite => EncodeCounterValue::encode(&f64::INFINITY, encoder),
            Number::Ms(ms) => EncodeCounterValue::encode(&seconds(ms), encoder),
            Number::SignedMs(ms) => EncodeCounterValue::encode(&signed_seconds(ms), encoder),
        }
    }
}
