//! The benchmarks: the cost and latency of watching, and of guards, each compared with a peer in
//! the same run.
//! They produce the tables of lab/BENCHMARKS.md.

mod bed;
mod census;
mod cost;
mod fetch;
mod freshness;
mod guard;
mod load;
mod machine;
mod rules;
mod serve;
mod usage;
mod wire;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::ValueEnum;
pub use guard::run_if_script;

use crate::report::Table;

/// What `bench` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchArgs {
    /// Only these rows; all if none is named
    rows: Vec<Row>,
    /// Less of everything: eight minutes instead of 30, and figures that are worth less
    #[arg(long)]
    short: bool,
    /// Put the tables into this page, between its marks; what is written by hand stays
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What is measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Row {
    /// What 10 to 100,000 locks cost: CPU, memory, scrapes, Redis, a bystander
    Cost,
    /// From a change in Redis to /metrics, by polling
    Polling,
    /// The same by whatever wakes the agent up
    WakeUps,
    /// What the alerting rules cost a real Prometheus
    Rules,
    /// How fast guards take over, whether two scripts ever run, and what a guard costs
    Guard,
}

impl Row {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    async fn measure(self, short: bool) -> anyhow::Result<Table> {
        match self {
            Row::Cost => cost::run(short).await,
            Row::Polling => freshness::polling(short).await,
            Row::WakeUps => freshness::wake_ups(short).await,
            Row::Rules => rules::run(short).await,
            Row::Guard => guard::run(short).await,
        }
    }
}

/// Runs the benchmarks. A missed goal is shown in the table and is not a failure.
///
/// # Errors
/// When a row cannot be measured; reported after all others have run.
pub async fn run(args: BenchArgs) -> anyhow::Result<bool> {
    let rows =
        if args.rows.is_empty() { Row::value_variants().to_vec() } else { args.rows.clone() };
    let (began, all) = (Instant::now(), args.rows.is_empty());
    let machine = machine::machine().await;
    println!("{machine}\n");
    let (mut missed, mut failed) = (Vec::new(), Vec::new());
    let kind = if args.short { "A short run: the figures are rough.\n" } else { "" };
    for row in rows {
        let name = row.name();
        eprintln!("{:>4} s  {name}", began.elapsed().as_secs());
        match row.measure(args.short).await.with_context(|| name.clone()) {
            Ok(table) => {
                let text = table.markdown();
                println!("{name}\n\n{text}");
                missed.extend(table.missed().map(str::to_owned));
                let note = if all {
                    String::new()
                } else {
                    format!("\nMeasured by itself: {machine}\n{kind}")
                };
                put(&args, &name, &format!("{text}{note}"))?;
            }
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    if all {
        put(&args, "machine", &format!("{machine}\n{kind}All of it took {minutes:.0} minutes."))?;
    }
    println!(
        "{minutes:.1} minutes; missed: {}",
        if missed.is_empty() { "nothing".to_owned() } else { missed.join("; ") }
    );
    anyhow::ensure!(failed.is_empty(), "not measured: {}", failed.join("; "));
    Ok(true)
}

fn put(args: &BenchArgs, name: &str, text: &str) -> anyhow::Result<()> {
    let Some(file) = &args.out else { return Ok(()) };
    let page =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    std::fs::write(file, splice(&page, name, text))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Replaces the part of `page` for the row `name`; appends it if there is none.
fn splice(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- bench:{name} -->"), format!("<!-- /bench:{name} -->"));
    let part = format!("{begin}\n{}\n{end}", text.trim_end());
    match page
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)))
    {
        Some((before, after)) => format!("{before}{part}{after}"),
        None => format!("{}\n\n{part}\n", page.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_by_hand_survives() {
        let page = "# A\n\n<!-- bench:x -->\nold\n<!-- /bench:x -->\n\nby hand\n";
        let new = splice(page, "x", "new\n");
        assert_eq!(new, "# A\n\n<!-- bench:x -->\nnew\n<!-- /bench:x -->\n\nby hand\n");
        assert_eq!(splice(&new, "x", "new\n"), new);
        assert_eq!(splice("# A\n", "y", "1"), "# A\n\n<!-- bench:y -->\n1\n<!-- /bench:y -->\n");
    }
}
