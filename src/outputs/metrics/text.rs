//! Writes the metrics of stores and tasks as text, straight from the snapshot. Series of a task
//! that left the configuration, and of a holder that is gone, vanish by construction.
//!
//! There may be a million series, so this encoder does only what they need; tests compare it with
//! prometheus-client's.

use lockwatch_judge::histogram::Histogram;

use super::reading::{Metric, Number, Reading, Seen};
use super::table::TABLE;
use crate::outputs::negotiate::Format;

/// Writes the description of a metric.
pub(super) fn describe(metric: &Metric, format: Format, out: &mut String) {
    let (mut name, mut kind) = (metric.name, metric.kind());
    if format == Format::OpenMetrics && kind == "counter" {
        // OpenMetrics names the family of a counter without the ending of its series. Where a
        // histogram has that name, the series is one of no kind.
        let family = name.strip_suffix("_total").unwrap_or(name);
        match TABLE.iter().any(|other| other.name == family) {
            false => name = family,
            true => kind = "unknown",
        }
    }
    for words in [["# HELP ", name, " ", metric.help], ["# TYPE ", name, " ", kind]] {
        words.iter().for_each(|word| out.push_str(word));
        out.push('\n');
    }
}

/// Writes the series of one store or task, which `own` names: its labels as [`labels`] writes them.
pub(super) fn write<T>(
    name: &str,
    reading: &Reading<T>,
    own: &str,
    seen: &Seen<'_, T>,
    out: &mut String,
) {
    match reading {
        Reading::Gauge(get) => {
            if let Some(number) = get(seen.of) {
                line(name, own, &[], number, out);
            }
        }
        Reading::Counter(get) => {
            if let Some(number) = get(seen.of) {
                line(name, own, &[], number.never_negative(), out);
            }
        }
        Reading::Gauges(_, each) => {
            each(seen.of, &mut |further, number| line(name, own, further, number, out));
        }
        Reading::GaugesAt(_, each) => {
            each(seen, &mut |further, number| line(name, own, further, number, out));
        }
        Reading::Counters(_, each) => {
            each(seen.of, &mut |further, number| {
                line(name, own, further, number.never_negative(), out);
            });
        }
        Reading::Histogram(get) => histogram(name, own, get(seen.of), out),
    }
}

fn histogram(name: &str, own: &str, histogram: &Histogram, out: &mut String) {
    sample([name, "_sum"], own, &[], Number::Ms(histogram.sum_ms), out);
    sample([name, "_count"], own, &[], Number::Count(histogram.count()), out);
    let mut total = 0;
    let mut bound = String::new();
    for (at, count) in histogram.counts.iter().enumerate() {
        total += count;
        bound.clear();
        match histogram.bounds_ms.get(at) {
            Some(bound_ms) => Number::Ms(*bound_ms).write(&mut bound),
            None => bound.push_str("+Inf"),
        }
        sample([name, "_bucket"], own, &[("le", &bound)], Number::Count(total), out);
    }
}

/// Writes one series of a store or task.
pub(super) fn line(
    name: &str,
    own: &str,
    further: &[(&str, &str)],
    number: Number,
    out: &mut String,
) {
    sample([name, ""], own, further, number, out);
}

fn sample(name: [&str; 2], own: &str, further: &[(&str, &str)], number: Number, out: &mut String) {
    name.iter().for_each(|part| out.push_str(part));
    if !own.is_empty() || !further.is_empty() {
        out.push('{');
        out.push_str(own);
        out.push_str(if own.is_empty() || further.is_empty() { "" } else { "," });
        labels(further.iter().copied(), out);
        out.push('}');
    }
    out.push(' ');
    number.write(out);
    out.push('\n');
}

/// Writes labels as they stand between braces.
pub(super) fn labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>, out: &mut String) {
    for (at, (name, value)) in labels.into_iter().enumerate() {
        out.push_str(if at == 0 { "" } else { "," });
        out.push_str(name);
        out.push_str("=\"");
        escaped(value, out);
        out.push('"');
    }
}

/// Both formats have these escapes in the value of a label.
fn escaped(value: &str, out: &mut String) {
    // Without a way out of the loop it is done many bytes at once.
    let is_special = |byte| matches!(byte, b'\\' | b'"' | b'\n');
    if !value.bytes().fold(false, |special, byte| special | is_special(byte)) {
        return out.push_str(value);
    }
    let mut rest = value;
    while let Some(at) = rest.find(['\\', '"', '\n']) {
        let (plain, from) = rest.split_at(at);
        out.push_str(plain);
        let mut characters = from.chars();
        match characters.next() {
            Some('\n') => out.push_str("\\n"),
            special => out.extend(['\\'].into_iter().chain(special)),
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
}

impl Number {
    /// As decimal text; seconds have at least one digit behind the point.
    pub(super) fn write(self, out: &mut String) {
        let sign = match self {
            Number::Signed(number) | Number::SignedMs(number) if number < 0 => "-",
            _ => "",
        };
        out.push_str(sign);
        match self {
            Number::Count(count) => digits(count, out),
            Number::Signed(number) => digits(number.unsigned_abs(), out),
            Number::Infinite => out.push_str("+Inf"),
            Number::Ms(ms) => decimal(ms, out),
            Number::SignedMs(ms) => decimal(ms.unsigned_abs(), out),
        }
    }
}

fn decimal(ms: u64, out: &mut String) {
    digits(ms / 1_000, out);
    let mut rest = itoa::Buffer::new();
    let rest = rest.format(1_000 + ms % 1_000).trim_end_matches('0');
    out.push('.');
    out.push_str(rest.get(1..).filter(|rest| !rest.is_empty()).unwrap_or("0"));
}

fn digits(number: u64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(number));
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode_registry;
    use prometheus_client::metrics::counter::ConstCounter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
    use prometheus_client::metrics::histogram;
    use prometheus_client::registry::Registry;

    use lockwatch_judge::time::{AgentWall, Mono};

    use super::super::reading::When;
    use super::*;

    /// What prometheus-client writes, without the first line, whose help it ends with a full stop
    /// of its own, and the end mark.
    fn peer(register: impl FnOnce(&mut Registry)) -> Vec<String> {
        let mut registry = Registry::default();
        register(&mut registry);
        let mut text = String::new();
        encode_registry(&mut text, &registry).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    fn own<T>(reading: &Reading<T>, own: &[(&str, &str)], of: &T) -> Vec<String> {
        let (mut text, mut names) = (String::new(), String::new());
        labels(own.iter().copied(), &mut names);
        write("a_b", reading, &names, &Seen::new(of, NOW), &mut text);
        text.lines().map(str::to_owned).collect()
    }

    const NOW: When = When { at: Mono::at(0), wall: AgentWall(0), unscraped: None };
    const HOSTILE: [&str; 6] = ["", "plain", "a\"b\\c\nd", "\\\\\"", "\u{e9}\u{202e}\u{0}", "\n"];

    #[test]
    fn values_of_labels_are_escaped_as_the_peer_does() {
        for value in HOSTILE {
            let labels = vec![("x", value.to_owned()), ("y", "z".to_owned())];
            let family = Family::<Vec<(&str, String)>, Gauge>::default();
            family.get_or_create(&labels).set(7);
            let lines = peer(|registry| registry.register("a_b", "Help", family));
            let labels = [("x", value), ("y", "z")];
            // A line break in a value is written as two characters by both.
            assert_eq!(own(&Reading::Gauge(|()| Some(Number::Count(7))), &labels, &()), lines[1..]);
        }
    }

    #[test]
    fn numbers_mean_the_same_as_the_peers() {
        let numbers = [0, 1, 9, 10, 99, 100, 999, 1_000, 1_001, 1_010, 20_000, 963_400, u64::MAX];
        for ms in numbers {
            let lines = peer(|registry| {
                let gauge = ConstGauge::new(crate::text::instants::seconds(ms));
                registry.register("a_b", "Help", gauge);
            });
            let [line] = &own(&Reading::Gauge(|ms| Some(Number::Ms(*ms))), &[], &ms)[..] else {
                panic!("{ms}")
            };
            let number = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap();
            assert_eq!(number(line), number(&lines[1]), "{ms}");
            assert!(ms > 1_000_000_000 || *line == lines[1], "{line} {}", lines[1]);
        }
        for (number, text) in [
            (Number::SignedMs(-1), "-0.001"),
            (Number::SignedMs(i64::MIN), "-9223372036854775.808"),
            (Number::Signed(-5), "-5"),
        ] {
            let mut written = String::new();
            number.write(&mut written);
            assert_eq!(written, text);
        }
    }

    #[test]
    fn counters_and_histograms_are_written_as_the_peer_does() {
        let lines = peer(|registry| registry.register("a_b", "Help", ConstCounter::new(3_u64)));
        let mut text = String::new();
        write(
            "a_b_total",
            &Reading::Counter(|()| Some(Number::Count(3))),
            "",
            &Seen::new(&(), NOW),
            &mut text,
        );
        assert_eq!(text.trim_end(), lines[1]);
        static BOUNDS_MS: [u64; Histogram::BUCKETS] = [500, 2_000, 5_000, 15_000, 60_000, 300_000];
        let mut ours = Histogram::new(&BOUNDS_MS);
        let theirs = histogram::Histogram::new(BOUNDS_MS.map(crate::text::instants::seconds));
        for ms in [1, 500, 501, 4_000, 999_999] {
            ours.observe(ms);
            theirs.observe(crate::text::instants::seconds(ms));
        }
        let mut lines = peer(|registry| registry.register("a_b", "Help", theirs))[1..].to_vec();
        let mut written = own(&Reading::Histogram(|of| of), &[], &ours);
        // The sum of floats is not exact.
        lines.retain(|line| !line.starts_with("a_b_sum"));
        written.retain(|line| !line.starts_with("a_b_sum"));
        assert_eq!(written, &lines[..written.len()]);
    }
}
