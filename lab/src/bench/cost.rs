//! The cost of watching 10, 1,000, 10,000 and 100,000 locks, compared with the peer, and its
//! growth.

use std::fmt::Write as _;
use std::time::Duration;

use super::census::{Census, Cost, Effort, take};
use crate::numbers::{growth, shown};
use crate::report::{Figure, Table};

/// The smallest measurable difference in percent: CPU time is counted in hundredths of a second.
const SMALLEST_PERCENT: f64 = 0.2;

/// Numbers of locks, and for how long each is measured.
const PLAN: [(usize, Effort); 4] = [
    (10, Effort { stretch: Duration::from_secs(8), rounds: 1 }),
    (1_000, Effort { stretch: Duration::from_secs(8), rounds: 3 }),
    (10_000, Effort { stretch: Duration::from_secs(8), rounds: 3 }),
    (100_000, Effort { stretch: Duration::from_secs(10), rounds: 2 }),
];
const SHORT: [(usize, Effort); 4] = [
    (10, Effort { stretch: Duration::from_secs(2), rounds: 1 }),
    (1_000, Effort { stretch: Duration::from_secs(3), rounds: 1 }),
    (10_000, Effort { stretch: Duration::from_secs(4), rounds: 1 }),
    (100_000, Effort { stretch: Duration::from_secs(5), rounds: 1 }),
];

pub(super) async fn run(short: bool) -> anyhow::Result<Table> {
    let (mut all, mut figures) = (Vec::new(), Vec::new());
    for (count, effort) in if short { SHORT } else { PLAN } {
        match take(count, effort).await {
            Ok(census) => all.push(census),
            Err(why) => figures
                .push(Figure::plain(format!("{count} locks"), format!("not measured: {why:#}"))),
        }
    }
    let of = |count: usize| all.iter().find(|census| census.count == count);
    figures.extend(of(1_000).into_iter().flat_map(thousand));
    figures.extend(of(10_000).into_iter().flat_map(ten_thousand));
    figures.extend(of(10_000).into_iter().flat_map(scrape));
    figures.extend(of(10_000).map(|census| bystander(census, false)).into_iter().flatten());
    figures.extend(of(100_000).map(|census| bystander(census, true)).into_iter().flatten());
    figures.extend(of(10).map(|census| memory(census, 10.0)));
    figures.extend(of(100_000).map(|census| memory(census, 120.0)));
    Ok(Table { figures, more: grown(&all) })
}

/// Both modes of the peer: by a pattern and, in brackets, by a Lua script.
fn both(census: &Census, of: impl Fn(&Cost) -> f64, unit: &str) -> String {
    let one = |cost: &Cost| match &cost.missing {
        Some(why) => format!("not measured: {why}"),
        None => shown(of(cost), unit),
    };
    match (&census.pattern.missing, &census.script.missing) {
        (Some(why), Some(other)) if why == other => format!("not measured: {why}"),
        _ => format!("{} ({})", one(&census.pattern), one(&census.script)),
    }
}

fn thousand(census: &Census) -> [Figure; 3] {
    let cost = &census.lockwatch;
    [
        Figure::at_most("1,000 tasks each second: agent", cost.own(), 2.0, "% of a core")
            .peer(both(census, Cost::own, "%")),
        Figure::at_most(
            "1,000 tasks each second: added to Redis",
            census.added(cost),
            2.0,
            "% of a core",
        )
        .peer(both(census, |cost| census.added(cost), "%")),
        Figure::at_most("1,000 tasks: memory", cost.memory_mb, 25.0, "MB")
            .with(format!("at most {}", shown(cost.peak_mb, "MB")))
            .peer(both(census, |cost| cost.memory_mb, "MB")),
    ]
}

fn ten_thousand(census: &Census) -> [Figure; 2] {
    let (cost, script) = (&census.lockwatch, &census.script);
    let scraped = cost.own() + cost.scrape_cpu_ms / 15_000.0 * 100.0;
    [
        Figure::at_most("10,000 locks each second: agent", cost.own(), script.own(), "% of a core")
            .with(format!("{} with a scrape each 15 s", shown(scraped, "%")))
            .peer(both(census, Cost::own, "%"))
            .goal("the script"),
        Figure::at_most(
            "10,000 locks each second: added to Redis",
            census.added(cost),
            census.added(script),
            "% of a core",
        )
        .peer(both(census, |cost| census.added(cost), "%"))
        .goal("the script"),
    ]
}

/// How much faster a scrape is than that of the peer with a pattern: in full, and per series.
fn scrape(census: &Census) -> [Figure; 2] {
    let (cost, peer) = (&census.lockwatch, &census.pattern);
    let each = |cost: &Cost| 1000.0 * cost.scrape_ms / cost.series as f64;
    let of = |took_ms: f64, series: usize| format!("{}, {series} series", shown(took_ms, "ms"));
    let whole = |cost: &Cost| of(cost.scrape_ms, cost.series);
    let beside = match (&peer.missing, &census.script.missing) {
        (Some(why), _) => format!("not measured: {why}"),
        (None, Some(_)) => whole(peer),
        (None, None) => format!("{} ({})", whole(peer), whole(&census.script)),
    };
    [
        Figure::at_least(
            "scrape of 10,000 locks: times faster",
            peer.scrape_ms / cost.scrape_ms,
            20.0,
            "×",
        )
        .with(whole(cost))
        .peer(beside),
        Figure::at_least("a scrape, for each series", each(peer) / each(cost), 25.0, "×")
            .with(shown(each(cost), "µs"))
            .peer(both(census, each, "µs")),
    ]
}

/// `beyond`: also compare the maximum.
fn bystander(census: &Census, beyond: bool) -> Vec<Figure> {
    let (cost, alone, count) = (&census.lockwatch, &census.alone, census.count);
    let more = cost.waits.p99() - alone.waits.p99();
    let text = |cost: &Cost| format!("p99 {}", shown(cost.waits.p99(), "ms"));
    let mut figures = vec![
        Figure::at_most(
            format!("{count} locks: what a bystander's PING waits longer, p99"),
            more,
            1.0,
            "ms",
        )
        .with(format!("{}, without {}", text(cost), text(alone)))
        .peer(both(census, |cost| cost.waits.p99() - alone.waits.p99(), "ms")),
    ];
    if beyond {
        let most = census.pattern.waits.max();
        figures.push(
            Figure::at_most(
                format!("{count} locks: a bystander's longest PING"),
                cost.waits.max(),
                most,
                "ms",
            )
            .with(format!("without {}", shown(alone.waits.max(), "ms")))
            .peer(both(census, |cost| cost.waits.max(), "ms"))
            .goal("the pattern"),
        );
    }
    figures
}

fn memory(census: &Census, limit: f64) -> Figure {
    let cost = &census.lockwatch;
    Figure::at_most(
        format!("{} locks: memory at most, scraped", census.count),
        cost.peak_mb,
        limit,
        "MB",
    )
    .with(format!("{} before a scrape", shown(cost.memory_mb, "MB")))
    .peer(both(census, |cost| cost.peak_mb, "MB"))
}

/// A table of all sizes, and the exponents of growth between them.
fn grown(all: &[Census]) -> String {
    type Line<'a> = (&'a str, fn(&Census, &Cost) -> f64, &'a str, f64);
    let lines: [Line<'_>; 8] = [
        ("CPU of the watcher", |_, cost| cost.own(), "%", SMALLEST_PERCENT),
        ("CPU added to Redis", Census::added, "%", SMALLEST_PERCENT),
        ("commands per second", |census, cost| cost.commands() - census.alone.commands(), "", 1.0),
        ("slow log, entries per minute", |census, cost| cost.slow() - census.alone.slow(), "", 0.1),
        ("a bystander's PING, p99", |_, cost| cost.waits.p99(), "ms", 0.0),
        ("a bystander's PING, longest", |_, cost| cost.waits.max(), "ms", 0.0),
        ("memory", |_, cost| cost.memory_mb, "MB", 0.0),
        ("one scrape", |_, cost| cost.scrape_ms, "ms", 0.0),
    ];
    let mut text = String::from("| | |");
    for census in all {
        let _written = write!(text, " {} locks |", census.count);
    }
    text.push_str(" growth |\n|---|---|");
    text.push_str(&"---|".repeat(all.len() + 1));
    text.push('\n');
    for (what, of, unit, smallest) in lines {
        for (who, cost) in watchers() {
            let _written = write!(text, "| {what} | {who} |");
            let known: Vec<(f64, f64)> = all
                .iter()
                .filter(|census| cost(census).missing.is_none())
                .map(|census| (census.count as f64, of(census, cost(census))))
                .collect();
            for census in all {
                let cell = match &cost(census).missing {
                    Some(_) => "not measured".to_owned(),
                    None => shown(of(census, cost(census)), unit),
                };
                let _written = write!(text, " {cell} |");
            }
            let exponent =
                growth(&known, smallest).map_or("–".to_owned(), |slope| format!("{slope:.2}"));
            let _written = writeln!(text, " {exponent} |");
        }
    }
    text.push_str(
        "\nGrowth is the slope of the logarithms: 1 is as the number of locks, 0 not at all. \
         Figures too small to be measured do not \
         count in it.\n",
    );
    text
}

/// Selects the measurements of one watcher.
type OfWatcher = fn(&Census) -> &Cost;

fn watchers() -> [(&'static str, OfWatcher); 3] {
    [
        ("lockwatch", |census| &census.lockwatch),
        ("redis_exporter", |census| &census.pattern),
        ("the same by a script", |census| &census.script),
    ]
}
