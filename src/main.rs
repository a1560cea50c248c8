//! The program: parses the command line, starts logging, calls the library, turns the result into
//! an exit code.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use lockwatch::cli::{self, AclOptions, CheckOptions, ConfigSource, Invocation, RunOptions};
use lockwatch::config::check::{self, PageTiming};
use lockwatch::config::{Config, ConfigErrors, acl};
use lockwatch::engine::Observers;
use lockwatch::http::{self, HttpContext, Limits};
use lockwatch::outputs::events::EventLog;
use lockwatch::outputs::history::History;
use lockwatch::record::Recorder;
use lockwatch::text::terminal;
use lockwatch::{agent, commands, demo, discover, man, replay, status, telemetry};
use tokio_util::sync::CancellationToken;

/// glibc's takes a quarter more of the processor with 10,000 locks, and grew over hours: it keeps
/// what one thread took and another freed. How it is set up stands in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The configuration or the command line is wrong; clap uses the same.
const USAGE: u8 = 2;
/// Threads beside the main one.
const WORKERS: usize = 2;

/// How long the end may wait for what cannot be cancelled: a resolver that does not answer, or a
/// disk that hangs.
const LEFTOVERS: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let invocation = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(error) => {
            // That nobody reads it is no mistake.
            let _ = error.print();
            return ExitCode::from(cli::exit_code(std::env::args_os(), &error));
        }
    };
    let failure = match invocation {
        // To a monitor that runs it as a check, 1 would be a warning.
        Invocation::Status(_) => ExitCode::from(status::UNKNOWN),
        _ => ExitCode::FAILURE,
    };
    match dispatch(invocation) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lockwatch: {error:#}");
            match error.is::<ConfigErrors>() {
                true => ExitCode::from(USAGE),
                false => failure,
            }
        }
    }
}

fn dispatch(invocation: Invocation) -> anyhow::Result<ExitCode> {
    match invocation {
        Invocation::Run(options) => run(options),
        Invocation::CheckConfig(options) => check_config(&options),
        Invocation::Acl(options) => print_acl(&options),
        Invocation::Status(options) => block_on(status::run(options)),
        Invocation::Explain(options) => block_on(commands::explain::run(options)),
        Invocation::Replay(options) => block_on(replay::run(options)),
        Invocation::Discover(options) => block_on(discover::run(options)),
        Invocation::Completions(shell) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut cli::grammar(), "lockwatch", &mut script);
            print(script)
        }
        Invocation::Man(None) => print(man::pages()?.swap_remove(0).text),
        Invocation::Man(Some(folder)) => man::write(&folder).map(|()| ExitCode::SUCCESS),
        Invocation::Demo(arguments) => {
            block_on(async { demo::run(arguments).await.map(|()| ExitCode::SUCCESS) })
        }
        Invocation::DemoWorker(arguments) => {
            block_on(async { demo::run_worker(arguments).await.map(|()| ExitCode::SUCCESS) })
        }
    }
}

fn run(options: RunOptions) -> anyhow::Result<ExitCode> {
    let _logging = telemetry::start(options.log).context("cannot start to log")?;
    let config = load(&options.source)?;
    block_on(async {
        let listener = http::listen(options.listen)
            .with_context(|| format!("cannot listen on {}", options.listen))?;
        tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %listener.local_addr()?, "lockwatch started");
        let RunOptions { source, enable_lifecycle, frame_ancestors, record, .. } = options;
        let recorder = record.as_ref().map(Recorder::start).transpose()?;
        let history = History::default();
        let mut observers: Observers =
            vec![Box::new(EventLog::default()), Box::new(history.clone())];
        if let Some(recorder) = recorder {
            observers.push(Box::new(recorder));
        }
        let parts = agent::Parts {
            config,
            load: move || load(&source).map_err(|mistakes| mistakes.to_string()),
            observers,
            http: move |outlets: agent::Outlets, stop| {
                let context = HttpContext {
                    snapshots: outlets.snapshots,
                    reload_status: outlets.reload_status,
                    log_lines_lost: telemetry::lines_lost,
                    reload: outlets.reload,
                    enable_lifecycle,
                    history,
                    traces: outlets.traces,
                    frame_ancestors: frame_ancestors.into(),
                    limits: Limits::default(),
                };
                http::serve(listener, context, stop)
            },
        };
        agent::run(parts, CancellationToken::new()).await.context("cannot receive signals")?;
        Ok(ExitCode::SUCCESS)
    })
}

/// The configuration as it shall be put in force, at the start and by a reload; what is wrong
/// around it is logged.
fn load(source: &ConfigSource) -> Result<Config, ConfigErrors> {
    let config = source.load()?;
    for warning in check::warnings(&config) {
        tracing::warn!("{warning}");
    }
    Ok(config)
}

fn check_config(options: &CheckOptions) -> anyhow::Result<ExitCode> {
    let config = options.source.load()?;
    for warning in check::warnings(&config) {
        eprintln!("warning: {warning}");
    }
    let timing = PageTiming::find(&options.timing).map_err(anyhow::Error::msg)?;
    print(check::report(&config, &timing))
}

fn print_acl(options: &AclOptions) -> anyhow::Result<ExitCode> {
    print(acl::report(&options.source.load()?, options.redis_version))
}

/// That nobody reads all of it, as with `| head`, is no mistake.
fn print(text: impl AsRef<[u8]>) -> anyhow::Result<ExitCode> {
    terminal::print(text).context("cannot print it")?;
    Ok(ExitCode::SUCCESS)
}

fn block_on(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(LEFTOVERS);
    outcome
}
