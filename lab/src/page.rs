//! The page bench: the web page in a real browser. Measures its latency, its size and its cost.

mod cost;
mod crowd;
mod gallery;
mod hand;
mod paint;
mod pictures;
mod weight;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use crate::numbers::quantile;
use crate::report::{Figure, Table};
use crate::stack::Browser;

pub use crowd::{Crowd, Renewals};
pub use gallery::Gallery;
pub use hand::Hand;

const TASKS: usize = 1000;
const PAGES: usize = 200;
/// How many times the page is opened.
const OPENED: usize = 7;
const CHANGES: usize = 300;
/// How long CPU usage is measured.
const DURING: Duration = Duration::from_secs(30);

/// What `page` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct PageArgs {
    /// Less of everything: half a minute instead of three
    #[arg(long)]
    short: bool,
    /// Also write the report into this file, as Markdown
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Take the pictures of the documentation into this folder instead
    #[arg(long, value_name = "FOLDER")]
    screenshots: Option<PathBuf>,
}

/// Runs the bench; returns whether all goals were reached.
///
/// # Errors
/// When the bench cannot be run.
pub async fn run(args: PageArgs) -> anyhow::Result<bool> {
    if let Some(folder) = &args.screenshots {
        return pictures::take(folder).await.map(|()| true);
    }
    let (changes, during) = if args.short { (CHANGES / 6, DURING / 6) } else { (CHANGES, DURING) };
    let report = Table { figures: measure(changes, during).await?, more: String::new() };
    print!("{}", report.markdown());
    if let Some(file) = &args.report {
        std::fs::write(file, report.markdown())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(report.all_reached())
}

async fn measure(changes: usize, during: Duration) -> anyhow::Result<Vec<Figure>> {
    let crowd = Crowd::start(TASKS).await?;
    let mut figures = vec![weigh(&crowd).await?];
    let alone = cost::of_agent(&crowd.agent, during).await?;

    let browser = Browser::start().await?;
    paint::prepare(&browser).await?;
    figures.extend(open(&crowd, &browser).await?);
    figures.extend(change(&crowd, &browser, ('c', ""), changes).await?);
    let (idle, _) = cost::of_browser(&browser, during).await?;
    figures.push(Figure::plain(format!("{TASKS} tasks, nothing changes: renderer"), percent(idle)));

    let _renewed = crowd.renewals();
    let (renderers, all) = cost::of_browser(&browser, during).await?;
    let what = format!("{TASKS} tasks, 100 renewals/s: renderer");
    figures.push(
        Figure::at_most(what, renderers.0, 10.0, "% of a core")
            .with(format!("all of the browser {}", percent(all))),
    );
    figures.extend(change(&crowd, &browser, ('d', ", with 100 renewals/s"), changes).await?);
    drop(browser);

    let unwatched = cost::of_agent(&crowd.agent, during).await?;
    let pages = cost::Pages::open(crowd.agent.address(), PAGES).await?;
    let before = pages.bytes();
    let watched = cost::of_agent(&crowd.agent, during).await?;
    let rate = (pages.bytes() - before) as f64 / during.as_secs_f64() / PAGES as f64 / 1000.0;
    figures.push(Figure::plain(format!("agent, {TASKS} tasks, no page"), percent(alone)));
    figures.push(Figure::plain("the same with 100 renewals/s", percent(unwatched)));
    figures.push(
        Figure::at_most(
            format!("{PAGES} open pages, 100 renewals/s: agent"),
            watched.0 - unwatched.0,
            5.0,
            "% of a core",
        )
        .with(format!("{} in all, {rate:.1} kB/s for each page", percent(watched))),
    );
    Ok(figures)
}

async fn weigh(crowd: &Crowd) -> anyhow::Result<Figure> {
    let weight = weight::weigh(crowd.agent.address()).await?;
    let (page, style, script) = (weight.page, weight.style, weight.script);
    let parts =
        format!("page {page}, style {style}, script {script}; {} per row", weight.rows / TASKS);
    Ok(Figure::at_most(
        "bytes of the page without rows",
        weight.without_rows() as f64,
        60_000.0,
        "bytes",
    )
    .with(&parts))
}

async fn open(crowd: &Crowd, browser: &Browser) -> anyhow::Result<Option<Figure>> {
    let url = format!("http://{}/", crowd.agent.address());
    let mut painted = Vec::new();
    for _ in 0..OPENED {
        painted.push(paint::first_paint_ms(browser, &url).await?);
    }
    let first = painted.first().copied().unwrap_or(f64::NAN);
    let more = format!("the first time {first:.0} ms, at most {:.0} ms", quantile(&painted, 1.0));
    Ok(Some(
        Figure::at_most(
            format!("{TASKS} tasks: first paint, p50 of {OPENED}"),
            quantile(&painted, 0.5),
            500.0,
            "ms",
        )
        .with(&more),
    ))
}

async fn change(
    crowd: &Crowd,
    browser: &Browser,
    (series, when): (char, &str),
    changes: usize,
) -> anyhow::Result<[Figure; 2]> {
    let delays = paint::delays(crowd, browser, series, changes).await?;
    let all = |values: &[f64]| {
        format!(
            "p50 {:.0}, max {:.0}, of {}",
            quantile(values, 0.5),
            quantile(values, 1.0),
            values.len()
        )
    };
    let p99 = quantile(&delays.of_snapshot, 0.99);
    Ok([
        Figure::at_most(format!("snapshot → painted, p99{when}"), p99, 150.0, "ms")
            .with(all(&delays.of_snapshot)),
        Figure::plain(
            format!("Redis → painted, p99{when}"),
            format!("{:.1} ms ({})", quantile(&delays.of_redis, 0.99), all(&delays.of_redis)),
        ),
    ])
}

fn percent(share: cost::Share) -> String {
    format!("{:.1} %", share.0)
}
