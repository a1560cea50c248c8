//! The lab's command line.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use lockwatch_lab::bench::{self as benchmarks, BenchArgs};
use lockwatch_lab::demo::{self, DemoArgs};
use lockwatch_lab::hostile::{self, AttackArgs, HostileArgs};
use lockwatch_lab::page::{self, PageArgs};
use lockwatch_lab::pager::{self, PagerArgs};
use lockwatch_lab::sabotage::{self, SabotageArgs};
use lockwatch_lab::simulate::{self, SimulateArgs};
use lockwatch_lab::stack::{self, WorkerArgs};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// The same allocator as the agent, because parts of the agent are measured in this process.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Trials of lockwatch with real parts.
#[derive(Debug, Parser)]
#[command(name = "lockwatch-lab")]
enum Line {
    /// Play a story of what can happen to a task, on a private Redis
    Demo(DemoArgs),
    /// Play labelled scenarios through the whole chain to the pager, and report missed and false
    /// pages
    Pager(PagerArgs),
    /// Open the page in a real browser, and report how late it is, how heavy, and what it costs
    Page(PageArgs),
    /// Measure what watching costs and how late it is, beside the peer
    Bench(BenchArgs),
    /// Try deliberate mistakes in a copy of the work tree, and report which check catches each
    Sabotage(SabotageArgs),
    /// Attack an agent's HTTP server from all sides while it is scraped
    Hostile(HostileArgs),
    /// An attacker; `hostile` starts it
    #[command(hide = true)]
    Attack(AttackArgs),
    /// Run watcher and state through virtual hours of faults, under an oracle that knows the truth
    Simulate(SimulateArgs),
    /// A worker; the other commands start it
    #[command(hide = true)]
    Worker(WorkerArgs),
}

fn main() -> ExitCode {
    // The script of a guard begins at once, before the command line is looked at.
    let done = match benchmarks::run_if_script() {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => run(Line::parse()),
        Err(error) => Err(error),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lockwatch-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command; returns success if everything is right.
fn run(line: Line) -> anyhow::Result<ExitCode> {
    match line {
        // There are many workers, so each gets only one thread.
        Line::Worker(args) => {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(stack::run_worker(args)).map(|()| ExitCode::SUCCESS)
        }
        Line::Demo(args) => {
            let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on(demo::run(args, stopped())).map(|()| ExitCode::SUCCESS)
        }
        Line::Pager(args) => bench(async { pager::run(args).await.map(code) }),
        Line::Page(args) => bench(async { page::run(args).await.map(code) }),
        Line::Bench(args) => bench(async { benchmarks::run(args).await.map(code) }),
        Line::Sabotage(args) => sabotage::run(&args).map(code),
        Line::Hostile(args) => bench(async { hostile::run(args).await.map(code) }),
        Line::Attack(args) => bench(async { hostile::attack(args).await.map(code) }),
        Line::Simulate(args) => simulate::run(&args).map(code),
    }
}

fn code(all_is_right: bool) -> ExitCode {
    if all_is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs on a runtime whose end kills the parts that are still running.
fn bench(run: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        tokio::select! { done = run => done, stopped = stopped() => stopped }
    })
}

async fn stopped() -> anyhow::Result<ExitCode> {
    let [mut terminate, mut interrupt, mut hang_up] = [
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    ];
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {}, _ = hang_up.recv() => {} }
    None.context("stopped")
}
