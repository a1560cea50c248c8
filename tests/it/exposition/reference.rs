//! The page is written by hand. What prometheus-client would write of the same samples is the same page, byte for byte.

use std::fmt;

use lockwatch::output::metrics::encode;
use lockwatch::output::negotiate::Format;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode as encode_by_reference;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::{fixed, read_value};
use crate::snapshots::RELOAD;

type Labels = Vec<(String, String)>;

/// A family as a page has it: its samples in order.
#[derive(Debug, Default)]
struct Family {
    name: String,
    help: String,
    kind: String,
    samples: Vec<(String, Labels, String)>,
}

#[derive(Debug)]
struct Page(Vec<Family>);

impl Page {
    fn read(text: &str) -> Page {
        let mut families: Vec<Family> = Vec::new();
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                families.push(Family { name: name.to_owned(), help: help.to_owned(), ..Family::default() });
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                families.last_mut().unwrap().kind = rest.split_once(' ').unwrap().1.to_owned();
            } else {
                families.last_mut().unwrap().samples.push(sample(line));
            }
        }
        Page(families)
    }
}

fn sample(line: &str) -> (String, Labels, String) {
    let (name, mut rest) = line.split_at(line.find(['{', ' ']).unwrap());
    let mut labels = Labels::new();
    while let Some(inside) = rest.strip_prefix(['{', ',']) {
        let (label, after) = inside.split_once("=\"").unwrap();
        let (value, after) = read_value(after);
        labels.push((label.to_owned(), value));
        rest = after;
    }
    (name.to_owned(), labels, rest.trim_start_matches(['}', ' ']).to_owned())
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for family in &self.0 {
            let kind = match family.kind.as_str() {
                "gauge" => MetricType::Gauge,
                "counter" => MetricType::Counter,
                _ => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(&family.name, &family.help, None, kind)?;
            match kind {
                MetricType::Histogram => histograms(&mut metric, family)?,
                _ => {
                    family.samples.iter().try_for_each(|sample| number(&mut metric, sample, family.kind == "gauge"))?
                }
            }
        }
        Ok(())
    }
}

fn number(metric: &mut MetricEncoder<'_>, (_, labels, value): &(String, Labels, String), gauge: bool) -> fmt::Result {
    let (whole, float) = (value.parse::<i64>(), value.parse::<f64>().unwrap());
    let write = |metric: &mut MetricEncoder<'_>| match (&whole, gauge) {
        (Ok(whole), true) => metric.encode_gauge(whole),
        (Err(_), true) => metric.encode_gauge(&float),
        (Ok(whole), false) => metric.encode_counter::<NoLabelSet, _, u64>(&whole.unsigned_abs(), None),
        (Err(_), false) => metric.encode_counter::<NoLabelSet, _, f64>(&float, None),
    };
    if labels.is_empty() { write(metric) } else { write(&mut metric.encode_family(labels)?) }
}

fn histograms(metric: &mut MetricEncoder<'_>, family: &Family) -> fmt::Result {
    let sums = family.samples.iter().enumerate().filter(|(_, sample)| sample.0.ends_with("_sum"));
    for (position, (_, labels, sum)) in sums {
        let rest = &family.samples[position + 1..];
        let (count, buckets) = (&rest[0], rest[1..].iter().take_while(|sample| sample.0.ends_with("_bucket")));
        let mut below = 0;
        let buckets: Vec<(f64, u64)> = buckets
            .map(|(_, labels, value)| {
                let (all, bound) = (value.parse::<u64>().unwrap(), &labels.first().unwrap().1);
                let own = all - std::mem::replace(&mut below, all);
                (if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() }, own)
            })
            .collect();
        let (sum, count) = (sum.parse().unwrap(), count.2.parse().unwrap());
        metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

#[test]
fn it_is_what_prometheus_client_writes() {
    let page = encode(fixed(), RELOAD, Format::OpenMetrics);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Page::read(&page)));
    let mut expected = String::new();
    encode_by_reference(&mut expected, &registry).unwrap();
    let differ = page.lines().zip(expected.lines()).find(|(own, reference)| own != reference);
    assert_eq!(differ, None);
    assert_eq!(page, expected);
}
