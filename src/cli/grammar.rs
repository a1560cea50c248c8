//! The grammar of the command line: which commands there are. What each takes stands with it.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueHint};
use clap_complete::Shell;

use crate::commands::acl::AclOptions;
use crate::commands::agent::RunArguments;
use crate::commands::check_config::CheckOptions;
use crate::commands::demo::{DemoArgs, ScriptArgs};
use crate::commands::discover::DiscoverOptions;
use crate::commands::explain::ExplainOptions;
use crate::commands::guard::{FenceOptions, GuardOptions};
use crate::commands::replay::ReplayOptions;
use crate::commands::status::StatusOptions;
use crate::commands::want::WantOptions;
use crate::exit;

/// Watches Redis locks that guard singleton tasks, and tells Prometheus whether each task really
/// runs: exactly once, and by whom.
#[derive(Debug, Parser)]
#[command(
    name = "lockwatch",
    version,
    args_conflicts_with_subcommands = true,
    max_term_width = 100
)]
#[command(about = "Watches Redis locks that guard singleton tasks, for Prometheus")]
#[command(
    after_help = "Without a file: lockwatch --redis redis://127.0.0.1:6379 --lock outbound:lock"
)]
pub(super) struct Line {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) run: RunArguments,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check the configuration and tell the worst time to page for each task
    CheckConfig(CheckOptions),
    /// Print the read-only ACL rule that this configuration needs, one for each redis
    Acl(AclOptions),
    /// Show how the tasks are, as the agent sees them
    #[command(after_help = exit::help("status"))]
    Status(StatusOptions),
    /// Tell why a task has its verdict
    #[command(after_help = exit::help("explain"))]
    Explain(ExplainOptions),
    /// Switch a task on or off for one user, or show who wants it
    #[command(after_help = exit::help("want"))]
    Want(WantOptions),
    /// Play a recording once more, as it was configured and with other thresholds
    Replay(ReplayOptions),
    /// Look for locks in a Redis and print a configuration for them
    Discover(DiscoverOptions),
    /// Run a script under a lock, as long as users want the task, on one server only
    #[command(after_help = exit::help("guard"))]
    Guard(GuardOptions),
    /// Check from within such a script that its fencing token is still the newest
    #[command(after_help = exit::help("fence"))]
    Fence(FenceOptions),
    /// Print completions for a shell
    Completions {
        /// Which shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Print the man page, or write a page for each command
    Man {
        /// Write lockwatch.1 and a page for each command into this folder
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
    /// Show everything on a private Redis: two guards, three users' switches, and the agent
    Demo(DemoArgs),
    #[command(hide = true)]
    DemoScript(ScriptArgs),
}
