//! The churn: locks whose holders are replaced continuously, and agents that must never show one hold's holder with another hold's
//! deadline. Each deadline tells by its milliseconds which hold it belongs to, so a single shown pair can be judged.

mod hold;
mod shown;
mod writer;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use redis::pipe;
use tokio::time::sleep;

use crate::report::{Figure, Report};
use crate::stack::{Agent, Redis, get};
use shown::{Live, Tally};
use writer::Writers;

/// How often each page is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Fewer pairs prove nothing.
const PAIRS_MIN: f64 = 1_000.0;
/// The user that may not ask for `PEXPIRETIME`: for it, Redis is as old as 6.
const OLD: &str = "old";

/// What `churn` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct ChurnArgs {
    /// How long, in minutes
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// How many locks
    #[arg(long, default_value_t = 500)]
    locks: usize,
    /// How many connections replace their holders
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// Also write the report into this file, as Markdown
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl ChurnArgs {
    /// 500 locks for so long.
    pub fn lasting(time: Duration) -> ChurnArgs {
        ChurnArgs { minutes: time.as_secs_f64() / 60.0, locks: 500, writers: 8, report: None }
    }
}

/// Runs the churn; whether no wrong pair was shown.
///
/// # Errors
/// When it cannot be run.
pub async fn run(args: ChurnArgs) -> anyhow::Result<bool> {
    let report = Report(measure(&args).await?);
    print!("{report}");
    if let Some(file) = &args.report {
        std::fs::write(file, report.to_string()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(report.all_reached())
}

async fn measure(args: &ChurnArgs) -> anyhow::Result<Vec<Figure>> {
    let redis = Redis::start().await?;
    let writers = Writers::start(&redis, args.locks, args.writers).await?;
    let mut connection = redis.connect().await?;
    let rules = ["SETUSER", OLD, "on", "nopass", "~*", "&*", "+@all", "-pexpiretime"];
    pipe().cmd("ACL").arg(&rules).exec_async(&mut connection).await?;
    let address = redis.address();
    let new = Agent::start(&config(&format!("redis://{address}"), args.locks)).await?;
    let old = Agent::start(&config(&format!("redis://{OLD}:any@{address}"), args.locks)).await?;

    let (began, during) = (Instant::now(), Duration::from_secs_f64(args.minutes * 60.0));
    let watched = async |agent: &Agent| -> anyhow::Result<Tally> {
        let live = Live::listen(agent.address()).await?;
        let mut tally = Tally::default();
        while began.elapsed() < during {
            tally.metrics(&get(agent.address(), "/metrics").await?.ok()?);
            tally.api(&get(agent.address(), "/api/v1/tasks").await?.json()?);
            sleep(LOOK_EVERY).await;
        }
        tally.live = live.stop()?;
        Ok(tally)
    };
    let (with, without) = tokio::try_join!(watched(&new), watched(&old))?;
    let written = writers.stop();
    let asked = asked(&mut connection).await?;
    let rate = written as f64 / began.elapsed().as_secs_f64();
    let mut figures = vec![
        Figure::told("holders replaced", format!("{written}, {rate:.0} per second, of {} locks", args.locks)),
        Figure::told("deadlines asked for", asked),
    ];
    figures.extend(of(&with, "PEXPIRETIME"));
    figures.extend(of(&without, "PTTL and TIME"));
    Ok(figures)
}

fn of(tally: &Tally, how: &str) -> Vec<Figure> {
    let places = [("/metrics", &tally.metrics), ("/api/v1/tasks", &tally.api), ("/live", &tally.live)];
    let of_place = |(place, pairs): (&str, &shown::Pairs)| {
        let first = pairs.wrong.first().map_or_else(String::new, |wrong| format!(", {wrong}"));
        let told = format!("of {} pairs, {} holders without a deadline{first}", pairs.right + pairs.wrong.len(), pairs.bare);
        [
            Figure::at_most(format!("{how}, {place}: wrong pairs"), pairs.wrong.len() as f64, 0.0, "").with(&told),
            Figure::at_least(format!("{how}, {place}: pairs"), pairs.right as f64, PAIRS_MIN, ""),
        ]
    };
    places.into_iter().flat_map(of_place).collect()
}

/// By which commands the agents read deadlines: both kinds must be there.
async fn asked(connection: &mut redis::aio::MultiplexedConnection) -> anyhow::Result<String> {
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(connection).await?;
    let calls = |command: &str| -> Option<String> {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")))?;
        Some(format!("{} × {command}", line.split(',').next()?))
    };
    let all = [calls("pexpiretime"), calls("pttl")].map(|calls| calls.context("a way of reading deadlines was not used"));
    let [with, without] = all;
    Ok(format!("{}, {}", with?, without?))
}

fn config(url: &str, locks: usize) -> String {
    use std::fmt::Write as _;
    let mut text = format!("redis: {{main: {{url: \"{url}\", interval: 250ms, timeout: 3s}}}}\ntasks:\n");
    for at in 0..locks {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  - {{name: {}, lock: {{key: \"{}\", lease: 30s}}}}", hold::task(at), hold::key(at));
    }
    text
}
