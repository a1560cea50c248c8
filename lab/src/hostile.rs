//! Hostile clients: attacks of many kinds on the HTTP server of a real agent, from other addresses
//! and from the scraper's own, while the agent is scraped each second and a person opens its web
//! page.

mod attack;
mod neighbour;
mod phase;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use crate::numbers::quantile;
use crate::page::Crowd;
use crate::report::{Figure, Table};
use attack::Attack;
use phase::{MB, Outcome, Phase, SCRAPER};

pub use attack::{AttackArgs, attack};

/// The addresses of attackers in other networks than the scraper's.
const ELSEWHERE: [IpAddr; 8] = [
    loopback(2),
    loopback(3),
    loopback(4),
    loopback(5),
    loopback(6),
    loopback(7),
    loopback(8),
    loopback(9),
];
/// The usual timeout of a scrape.
const PATIENCE: Duration = Duration::from_secs(10);

const fn loopback(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))
}

/// What `hostile` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct HostileArgs {
    /// How long, in minutes, all attacks together
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// How many clients attack at a time where an attack needs many
    #[arg(long, default_value_t = 10_000)]
    clients: usize,
    /// How many tasks the agent watches
    #[arg(long, default_value_t = 1_000)]
    tasks: usize,
    /// Only attacks whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// How late an answer to a scrape may be, p99, in milliseconds
    #[arg(long, default_value_t = 250.0)]
    scrape_ms: f64,
    /// How old the newest evidence on a page may be when all of the page has come, in seconds
    #[arg(long, default_value_t = 3.0)]
    evidence_s: f64,
    /// Also write the report into this file, as Markdown
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl HostileArgs {
    /// All attacks at once, but none from the scraper's address, from which it may be refused now
    /// and then. For a busy machine.
    pub fn short(time: Duration) -> HostileArgs {
        let minutes = time.as_secs_f64() / 60.0;
        HostileArgs {
            minutes,
            clients: 2_000,
            tasks: 300,
            only: String::from("all of them at once"),
            scrape_ms: 15_000.0,
            evidence_s: 20.0,
            report: None,
        }
    }
}

/// Runs all attacks; returns whether the agent withstood them.
///
/// # Errors
/// When they cannot be run, or the agent ended.
pub async fn run(args: HostileArgs) -> anyhow::Result<bool> {
    let report = Table { figures: measure(&args).await?, more: String::new() };
    print!("{}", report.markdown());
    if let Some(file) = &args.report {
        std::fs::write(file, report.markdown())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(report.all_reached())
}

async fn measure(args: &HostileArgs) -> anyhow::Result<Vec<Figure>> {
    let crowd = Crowd::start(args.tasks).await?;
    let _renewed = crowd.renewals();
    let phases = phases(args);
    let patience = PATIENCE.max(Duration::from_secs_f64(args.scrape_ms / 500.0));
    let each = Duration::from_secs_f64(args.minutes * 60.0) / u32::try_from(phases.len().max(1))?;
    let calm = Phase { name: "none".to_owned(), attackers: Vec::new() }
        .run(&crowd, each.min(phase::CALM), patience)
        .await?;
    let mut figures = Vec::new();
    let mut grown = 0.0_f64;
    for phase in &phases {
        let outcome = phase.run(&crowd, each, patience).await?;
        println!("{}: {outcome}", phase.name);
        grown = grown.max(outcome.rss_max as f64 / MB - calm.rss_max as f64 / MB);
        figures.extend(of_phase(&phase.name, &outcome, &calm, args));
    }
    let size = format!(
        "{:.1} MB before, a page of {:.1} MB",
        calm.rss_max as f64 / MB,
        calm.page_bytes as f64 / MB
    );
    figures.insert(
        0,
        Figure::at_most("resident memory grows by at most", grown, 64.0, "MB").with(&size),
    );
    Ok(figures)
}

/// The attacks in order.
fn phases(args: &HostileArgs) -> Vec<Phase> {
    let (elsewhere, many) = (ELSEWHERE.as_slice(), args.clients);
    let alone = Attack::ALL.into_iter().map(|attack| Phase {
        name: attack.name(),
        attackers: vec![(attack, elsewhere, attack.clients(many))],
    });
    let together = |name: &str, from: &'static [IpAddr]| Phase {
        name: name.to_owned(),
        attackers: Attack::ALL
            .into_iter()
            .map(|attack| (attack, from, attack.clients(many / 10)))
            .collect(),
    };
    let beside = |attack: Attack| Phase {
        name: format!("{}, from the scraper's address", attack.name()),
        attackers: vec![(attack, &[SCRAPER], attack.clients(many / 4))],
    };
    let all = alone
        .chain([
            together("all of them at once", elsewhere),
            together("all of them, from the scraper's address", &[SCRAPER]),
        ])
        .chain(
            [Attack::HalfOpen, Attack::NeverRead, Attack::Idle, Attack::Streams, Attack::Explain]
                .map(beside),
        );
    all.filter(|phase| phase.name.contains(&args.only)).collect()
}

fn of_phase(name: &str, outcome: &Outcome, calm: &Outcome, args: &HostileArgs) -> Vec<Figure> {
    let scrapes = &outcome.scrapes_ms;
    let failed = outcome.scrapes_failed.len();
    let why = outcome.scrapes_failed.first().map_or_else(String::new, |why| format!(", {why}"));
    let times = format!(
        "p50 {:.0}, max {:.0}, of {}",
        quantile(scrapes, 0.5),
        quantile(scrapes, 1.0),
        scrapes.len()
    );
    let others = format!(
        "{} to {:.1} MB, {} files, {}; the person's page p50 {:.0} ms, max {:.0} ms, {} failed; {}",
        name,
        outcome.rss_max as f64 / MB,
        outcome.files_max,
        outcome.totals,
        quantile(&outcome.pages_ms, 0.5),
        quantile(&outcome.pages_ms, 1.0),
        outcome.pages_failed,
        if outcome.labels == calm.labels { "the same labels" } else { "OTHER LABELS" },
    );
    vec![
        Figure::plain(name, others),
        Figure::at_most("scrapes without an answer", failed as f64, 0.0, "")
            .with(format!("of {}{why}", failed + scrapes.len())),
        Figure::at_most("a scrape, p99", quantile(scrapes, 0.99), args.scrape_ms, "ms")
            .with(&times),
        Figure::at_most(
            "age of the newest evidence",
            outcome.evidence_age_max,
            args.evidence_s,
            "s",
        ),
        Figure::at_most("open files of the agent", outcome.files_max as f64, 1000.0, ""),
        Figure::at_most(
            "other labels than before",
            f64::from(u8::from(outcome.labels != calm.labels)),
            0.0,
            "",
        ),
    ]
}
