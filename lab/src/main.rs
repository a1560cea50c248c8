//! The lab's command line.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use lockwatch_lab::bench::{self as benchmarks, BenchArgs};
use lockwatch_lab::page::{self, PageArgs};
use lockwatch_lab::pager::{self, PagerArgs};
use lockwatch_lab::stack::{self, WorkerArgs};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Trials of lockwatch with real parts.
#[derive(Debug, Parser)]
#[command(name = "lockwatch-lab")]
enum Line {
    /// Play labelled scenarios through the whole chain to the pager, and report missed and false pages
    Pager(PagerArgs),
    /// Open the page in a real browser, and report how late it is, how heavy, and what it costs
    Page(PageArgs),
    /// Measure what watching costs and how late it is, beside the peer
    Bench(BenchArgs),
    /// A worker; the other commands start it
    #[command(hide = true)]
    Worker(WorkerArgs),
}

fn main() -> ExitCode {
    match run(Line::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("lockwatch-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is right.
fn run(line: Line) -> anyhow::Result<bool> {
    match line {
        // There are many, so each has one thread only.
        Line::Worker(args) => {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(stack::run_worker(args)).map(|()| true)
        }
        Line::Pager(args) => bench(pager::run(args)),
        Line::Page(args) => bench(page::run(args)),
        Line::Bench(args) => bench(benchmarks::run(args)),
    }
}

/// Parts that still run when it is stopped are killed with the runtime.
fn bench(run: impl Future<Output = anyhow::Result<bool>>) -> anyhow::Result<bool> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        tokio::select! { done = run => done, stopped = stopped() => stopped }
    })
}

async fn stopped() -> anyhow::Result<bool> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    None.context("stopped")
}
