//! The program: parses the command line, starts logging, calls the library, turns the result into an exit code.

use std::process::ExitCode;

use anyhow::Context as _;
use lockwatch::cli::{self, AclOptions, CheckOptions, Invocation, RunOptions};
use lockwatch::config::check::{self, PageTiming};
use lockwatch::config::{ConfigErrors, acl};
use lockwatch::http::{self, HttpContext, Limits};
use lockwatch::output::events::EventLog;
use lockwatch::{agent, demo, telemetry};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The configuration or the command line is wrong; clap uses the same.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let invocation = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(error) => error.exit(),
    };
    match dispatch(invocation) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lockwatch: {error:#}");
            match error.is::<ConfigErrors>() {
                true => ExitCode::from(USAGE),
                false => ExitCode::FAILURE,
            }
        }
    }
}

fn dispatch(invocation: Invocation) -> anyhow::Result<ExitCode> {
    match invocation {
        Invocation::Run(options) => run(options),
        Invocation::CheckConfig(options) => check_config(&options),
        Invocation::Acl(options) => print_acl(&options),
        Invocation::Demo(arguments) => block_on(demo::run(arguments)),
        Invocation::DemoWorker(arguments) => block_on(demo::run_worker(arguments)),
    }
}

fn run(options: RunOptions) -> anyhow::Result<ExitCode> {
    telemetry::start(options.log);
    let config = options.source.load()?;
    for warning in check::warnings(&config) {
        tracing::warn!("{warning}");
    }
    block_on(async {
        let listener = TcpListener::bind(options.listen)
            .await
            .with_context(|| format!("cannot listen on {}", options.listen))?;
        tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %listener.local_addr()?, "lockwatch started");
        let RunOptions { source, enable_lifecycle, .. } = options;
        let parts = agent::Parts {
            config,
            load: move || source.load().map_err(|mistakes| mistakes.to_string()),
            sink: EventLog::default(),
            http: move |outlets: agent::Outlets, stop| {
                let context = HttpContext {
                    published: outlets.published,
                    reload_status: outlets.reload_status,
                    reload: outlets.reload,
                    enable_lifecycle,
                    limits: Limits::default(),
                };
                http::serve(listener, context, stop)
            },
        };
        agent::run(parts, CancellationToken::new()).await.context("cannot receive signals")
    })
}

fn check_config(options: &CheckOptions) -> anyhow::Result<ExitCode> {
    let config = options.source.load()?;
    for warning in check::warnings(&config) {
        eprintln!("warning: {warning}");
    }
    let timing = PageTiming::find(&options.timing).map_err(anyhow::Error::msg)?;
    print!("{}", check::report(&config, &timing));
    Ok(ExitCode::SUCCESS)
}

fn print_acl(options: &AclOptions) -> anyhow::Result<ExitCode> {
    print!("{}", acl::report(&options.source.load()?, options.version));
    Ok(ExitCode::SUCCESS)
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(work)?;
    Ok(ExitCode::SUCCESS)
}
