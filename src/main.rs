//! The program: parses the command line, starts logging, calls the library, turns the result into
//! an exit code.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use lockwatch::cli::{self, Invocation};
use lockwatch::commands::agent::{self, RunOptions};
use lockwatch::commands::{
    acl, check_config, completions, demo, discover, drill, explain, guard, man, replay, status,
    want,
};
use lockwatch::config::ConfigErrors;
use lockwatch::exit::Exit;
use lockwatch::keeper;
use lockwatch::telemetry;

/// glibc's takes a quarter more of the processor with 10,000 locks, and grew over hours: it keeps
/// what one thread took and another freed. How it is set up stands in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Threads in addition to the main one.
const WORKERS: usize = 2;

/// How long the end may wait for what cannot be cancelled: a resolver that does not answer, or a
/// disk that hangs.
const LEFTOVERS: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    // Before anything else: it is to stay small.
    if let Some(code) = keeper::run_if_asked(std::env::args_os()) {
        return code;
    }
    let invocation = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(error) => {
            // That nobody reads it is no mistake.
            let _ = error.print();
            cli::answer_monitor(std::env::args_os(), &error);
            return ExitCode::from(cli::exit_code(std::env::args_os(), &error));
        }
    };
    match dispatch(invocation) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lockwatch: {error:#}");
            let command = cli::command(std::env::args_os());
            match error.is::<ConfigErrors>() {
                true => Exit::of_usage(&command).into(),
                false => Exit::of_failure(&command).into(),
            }
        }
    }
}

fn dispatch(invocation: Invocation) -> anyhow::Result<ExitCode> {
    match invocation {
        Invocation::Run(options) => run(options),
        Invocation::CheckConfig(options) => block_on(check_config::run(&options)),
        Invocation::Acl(options) => acl::run(&options),
        Invocation::Status(options) => block_on(status::run(options)),
        Invocation::Explain(options) => block_on(explain::run(options)),
        Invocation::Drill(options) => block_on(drill::run(options)),
        Invocation::Want(options) => block_on(want::run(options)),
        Invocation::Replay(options) => block_on(replay::run(options)),
        Invocation::Discover(options) => block_on(discover::run(options)),
        Invocation::Guard(options) => guard::run(options),
        Invocation::Fence(options) => block_on(guard::run_fence(options)),
        Invocation::Completions(shell) => completions::run(shell, cli::grammar()),
        Invocation::Man(folder) => man::run(folder.as_deref(), cli::grammar()),
        Invocation::Demo(arguments) => {
            block_on(async { demo::run(arguments).await.map(|()| ExitCode::SUCCESS) })
        }
        Invocation::DemoScript(arguments) => {
            block_on(async { demo::run_script(arguments).await.map(|()| ExitCode::SUCCESS) })
        }
    }
}

fn run(options: RunOptions) -> anyhow::Result<ExitCode> {
    let _logging = telemetry::start(options.log).context("cannot start to log")?;
    block_on(agent::run(options))
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
