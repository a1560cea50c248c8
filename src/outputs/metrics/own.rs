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

use super::reading::{Agent, Metric, Number, Reading, Source};
use super::table::TABLE;
use super::text::describe;
use crate::outputs::negotiate::Format;
use crate::text::instants::{seconds, signed_seconds};

/// Writes all metrics of the agent, with their descriptions; none that has no value.
pub(super) fn write(agent: &Arc<Agent>, format: Format, out: &mut String) {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Own(Arc::clone(agent))));
    let mut text = String::new();
    // A string takes everything.
    let _written = encode_registry(&mut text, &registry);
    let mut metrics = own();
    for line in text.lines() {
        // prometheus-client describes for OpenMetrics only.
        if line.starts_with("# HELP ") {
            let describes =
                |(metric, _): &(&Metric, _)| line.split(' ').nth(2) == Some(family(metric));
            if let Some((metric, _)) = metrics.find(describes) {
                describe(metric, format, out);
            }
        } else if !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
}

fn own() -> impl Iterator<Item = (&'static Metric, &'static Reading<Agent>)> {
    TABLE.iter().filter_map(|metric| match &metric.source {
        Source::OfAgent(reading) => Some((metric, reading)),
        _ => None,
    })
}

/// The name without what the encoder adds itself.
fn family(metric: &Metric) -> &'static str {
    metric.name.strip_suffix("_total").unwrap_or(metric.name)
}

#[derive(Debug)]
struct Own(Arc<Agent>);

impl Collector for Own {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for (metric, reading) in own() {
            let mut series: Vec<(Vec<(String, String)>, Number)> = Vec::new();
            let mut add = |labels: &[(&str, &str)], number| {
                let owned = labels.iter().map(|(name, value)| ((*name).into(), (*value).into()));
                series.push((owned.collect(), number));
            };
            match reading {
                Reading::Gauge(get) | Reading::Counter(get) => {
                    get(&self.0).into_iter().for_each(|number| add(&[], number));
                }
                Reading::Gauges(_, each) => each(&self.0, &mut add),
                // The agent has none of these.
                Reading::Histogram(_) | Reading::GaugesAt(..) | Reading::Counters(..) => {}
            }
            let is_counter = matches!(reading, Reading::Counter(_));
            let kind = if is_counter { MetricType::Counter } else { MetricType::Gauge };
            if series.is_empty() {
                continue;
            }
            let mut encoder = encoder.encode_descriptor(family(metric), metric.help, None, kind)?;
            for (labels, number) in series {
                match (is_counter, labels.is_empty()) {
                    (true, _) => {
                        encoder.encode_counter::<NoLabelSet, Number, f64>(&number, None)?
                    }
                    (false, true) => encoder.encode_gauge(&number)?,
                    (false, false) => encoder.encode_family(&labels)?.encode_gauge(&number)?,
                }
            }
        }
        Ok(())
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
