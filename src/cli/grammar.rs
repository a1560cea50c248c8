//! The grammar of the command line: which commands there are. What each takes stands with it.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueHint};
use clap_complete::Shell;

use crate::commands::acl::AclOptions;
use crate::commands::agent::RunArguments;
use crate::commands::check_config::CheckOptions;
use crate::commands::demo::{DemoArgs, ScriptArgs};
use crate::commands::discover::DiscoverOptions;
use crate::commands::drill::DrillOptions;
use crate::commands::explain::ExplainOptions;
use crate::commands::guard::{FenceOptions, GuardOptions};
use crate::commands::replay::ReplayOptions;
use crate::commands::status::StatusOptions;
use crate::commands::want::WantOptions;
use crate::exit;

const AGENT_EXAMPLES: &str = "
  lockwatch --redis redis://127.0.0.1:6379 --lock outbound:lock   # one lock, without a file
  lockwatch --config.file /etc/lockwatch/lockwatch.yml
  lockwatch status                                                # how that agent's tasks are";
const CHECK_CONFIG_EXAMPLES: &str = "
  lockwatch check-config --config.file lockwatch.yml --prometheus.config prometheus.yml";
const ACL_EXAMPLES: &str = "
  lockwatch acl --config.file lockwatch.yml --redis-version 6.2";
const STATUS_EXAMPLES: &str = "
  lockwatch status                                             # all tasks, worst first
  lockwatch status outbound --agent.url http://10.0.0.7:10379  # one task of another agent
  lockwatch status --watch=2s                                  # until Ctrl-C
  lockwatch status --json                                      # for a script";
const EXPLAIN_EXAMPLES: &str = "
  lockwatch explain outbound
  lockwatch explain outbound --once --config.file lockwatch.yml   # without an agent";
const DRILL_EXAMPLES: &str = "
  lockwatch drill outbound --prometheus.url http://10.0.0.9:9090
  lockwatch drill --all-routes   # each set of labels that tasks have
  lockwatch drill --stop         # whatever drill this agent runs";
const WANT_EXAMPLES: &str = "
  lockwatch want outbound on --user anna
  lockwatch want outbound status         # who wants it; writes nothing";
const REPLAY_EXAMPLES: &str = "
  lockwatch replay /var/lib/lockwatch --set outbound.grace=40s";
const DISCOVER_EXAMPLES: &str = "
  lockwatch discover --redis redis://10.0.0.5:6379/0 --match 'outbound:*'
  lockwatch discover --zookeeper 10.0.0.5:2181 --root /locks";
const GUARD_EXAMPLES: &str = "
  lockwatch guard outbound -- /opt/outbound/run.sh   # on one server, as long as users want it
  lockwatch guard --redis redis://10.0.0.5:6379 --lock nightly:lock -- ./report.sh   # once";
const FENCE_EXAMPLES: &str = "
  lockwatch fence outbound";
const COMPLETIONS_EXAMPLES: &str = "
  lockwatch completions bash";
const MAN_EXAMPLES: &str = "
  lockwatch man --dir /usr/local/share/man/man1";
const DEMO_EXAMPLES: &str = "
  lockwatch demo";

/// What a command finds on its machine.
const FILES: &str = "
Files:
  lockwatch.yml: the configuration, in the working directory unless --config.file names another
  DIR of --record: recordings for `replay`; the oldest go first
";
const ENVIRONMENT: &str = "
Environment:
  NO_COLOR: not empty: no colours
  CLICOLOR=0, CLICOLOR_FORCE=1: no colours on a terminal; colours also where there is none
  TERM=dumb: no colours, and nothing is drawn in place
  COLUMNS: the width of `status` where standard output is no terminal; 100 unless set
";

/// Shown below the help of a command, and on its man page.
fn after(command: &str, examples: &str, more: &str) -> String {
    format!("{}\n{more}\nExamples:{examples}", exit::help(command))
}

/// Watches Redis locks that guard singleton tasks, and reports to Prometheus whether each task really
/// runs: exactly once, and by whom.
#[derive(Debug, Parser)]
#[command(
    name = "lockwatch",
    version,
    args_conflicts_with_subcommands = true,
    max_term_width = 100
)]
#[command(about = "Watches Redis locks that guard singleton tasks, for Prometheus")]
#[command(after_help = after("", AGENT_EXAMPLES, &[FILES, ENVIRONMENT].concat()))]
pub(super) struct Line {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) run: RunArguments,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check the configuration and print the worst-case time until the page for each task
    #[command(after_help = after("check-config", CHECK_CONFIG_EXAMPLES, ""))]
    CheckConfig(CheckOptions),
    /// Print the read-only ACL rule that this configuration needs, one for each redis
    #[command(after_help = after("acl", ACL_EXAMPLES, ""))]
    Acl(AclOptions),
    /// Show how the tasks are, as the agent sees them
    #[command(after_help = after("status", STATUS_EXAMPLES, ENVIRONMENT))]
    Status(StatusOptions),
    /// Explain why a task has its verdict
    #[command(after_help = after("explain", EXPLAIN_EXAMPLES, ""))]
    Explain(ExplainOptions),
    /// Try the way of an alert to a person, with a synthetic task, and say what fails
    #[command(after_help = after("drill", DRILL_EXAMPLES, ENVIRONMENT))]
    Drill(DrillOptions),
    /// Switch a task on or off for one user, or show who wants it
    #[command(after_help = after("want", WANT_EXAMPLES, ""))]
    Want(WantOptions),
    /// Play a recording once more, as it was configured and with other thresholds
    #[command(after_help = after("replay", REPLAY_EXAMPLES, ""))]
    Replay(ReplayOptions),
    /// Look for locks in a Redis or a ZooKeeper and print a configuration for them
    #[command(after_help = after("discover", DISCOVER_EXAMPLES, ""))]
    Discover(DiscoverOptions),
    /// Run a script under a lock, as long as users want the task, on one server only
    #[command(after_help = after("guard", GUARD_EXAMPLES, ""))]
    Guard(GuardOptions),
    /// Check from within such a script that its fencing token is still the newest
    #[command(after_help = after("fence", FENCE_EXAMPLES, ""))]
    Fence(FenceOptions),
    /// Print completions for a shell
    #[command(after_help = after("completions", COMPLETIONS_EXAMPLES, ""))]
    Completions {
        /// Which shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Print the man page, or write a page for each command
    #[command(after_help = after("man", MAN_EXAMPLES, ""))]
    Man {
        /// Write lockwatch.1 and a page for each command into this folder
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
    /// Show everything on a private Redis: two guards, three users' switches, and the agent
    #[command(after_help = after("demo", DEMO_EXAMPLES, ""))]
    Demo(DemoArgs),
    #[command(hide = true)]
    DemoScript(ScriptArgs),
}
