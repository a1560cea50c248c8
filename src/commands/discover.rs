//! `lockwatch discover`: finds locks in a Redis and prints a configuration that is ready to use.
//!
//! It scans the keys at a limited rate, recognises the layouts of lock libraries, watches the locks
//! for the given time as the agent would, reads keys of similar names, and prints. It never writes
//! to Redis, and of values it prints only who holds a lock. In ZooKeeper it walks through nodes.

mod channels;
mod findings;
mod groups;
mod hints;
mod likely;
mod name;
mod nodes;
mod plan;
mod print;
mod queues;
mod scan;
mod server;
mod turns;
mod watch;

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, value_parser};
use lockwatch_judge::snapshot::TaskView;
use lockwatch_watch::redis::libraries::DEFAULT;
use tokio_util::task::AbortOnDropHandle;

use super::source::LoginArguments;
use crate::config::{Config, Endpoint, HostPort, RedisConfig, SingleLock};
use crate::io::{Connection, Failure, Pace, connect};
use crate::text::durations::{duration_text, parse_duration_ms};
use crate::text::identity::escape;
use crate::text::numbers::count;
use findings::Findings;
pub use nodes::NodesOptions;
use plan::Plan;
use print::Relative;
use scan::{PAGE_MAX, Walked};
use server::Server;
use turns::Turns;

/// For how long the command may be silent.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the command takes.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct DiscoverOptions {
    /// Where to look, redis://host:port/db (rediss:// for TLS)
    #[arg(id = "redis", long = "redis", value_name = "URL", required_unless_present = "zookeeper")]
    pub redis_url: Option<String>,
    /// What to look into instead: servers of a ZooKeeper ensemble.
    #[command(flatten)]
    pub nodes: NodesOptions,
    /// How to log in there.
    #[command(flatten)]
    pub login: LoginArguments,
    /// Only keys that match this glob
    #[arg(long = "match", value_name = "GLOB")]
    pub pattern: Option<String>,
    /// Most keys, or nodes, looked at in a second
    #[arg(long = "keys-per-second", value_name = "COUNT", default_value = "5000", value_parser = value_parser!(u32).range(1..))]
    pub keys_per_second: u32,
    /// How long to watch what was found, to learn leases
    #[arg(long = "watch", value_name = "DURATION", default_value = "12s", value_parser = parse_duration_ms)]
    pub watch_ms: u64,
}

/// Runs the command and prints the configuration on stdout. The exit code is 0 if it has a task, 1
/// if no lock was found.
///
/// # Errors
/// Any failure; the error text is for display.
pub async fn run(options: DiscoverOptions) -> anyhow::Result<ExitCode> {
    if options.nodes.zookeeper.is_some() {
        let (text, has_tasks) = nodes::look(&options.nodes, options.keys_per_second).await?;
        return printed(&text, has_tasks);
    }
    let asked = redis(&options)?;
    let at = asked.servers.configured().first().cloned().context("no server")?;
    let endpoint = asked.endpoint(at.clone());
    let connection = open(&endpoint, &asked).await?;
    let server = Server::ask(&connection, at)
        .await
        .map_err(|failure| to_error(failure, &asked, &connection))?;
    let seen = Arc::new(AtomicU64::new(0));
    let _notice = notice(Arc::clone(&seen), server.keys, options.watch_ms);
    let redis = server::redis_of(&asked, &server);
    let mut pace = Pace::new(options.keys_per_second, PAGE_MAX);
    let mut findings = Findings::default();
    let glob = options.pattern.as_deref().map(str::as_bytes);
    let walked = scan::walk(&connection, &server, glob, &mut pace, |key| {
        seen.fetch_add(1, Ordering::Relaxed);
        findings.take(key);
    })
    .await;
    let walked = walked.map_err(|failure| to_error(failure, &redis, &connection))?;
    let relatives = look_for_relatives(&connection, &server, &findings, &mut pace).await;
    let (mut turns, queues, channels) =
        relatives.map_err(|failure| to_error(failure, &redis, &connection))?;

    let mut plan = Plan::new(&findings);
    plan.leave_to(&queues);
    let views = {
        // Readings of a replica are not believed, so watching would show nothing.
        let watch_ms = if server.is_replica() { 0 } else { options.watch_ms };
        let (views, taken) =
            tokio::join!(watch(&redis, &plan, watch_ms), turns.watch(&connection, watch_ms));
        taken.map_err(|failure| to_error(failure, &redis, &connection))?;
        views?
    };
    drop(connection);
    plan.learn(&views, options.watch_ms);

    let connection = open(&endpoint, &redis).await?;
    let suggested = plan.suggest(&connection, &findings).await;
    suggested.map_err(|failure| to_error(failure, &redis, &connection))?;
    drop(connection);

    let possible_tokens = plan.possible_tokens;
    let mut report = plan.report();
    (report.turns, report.perhaps) = turns.relatives();
    report.perhaps.extend(queues);
    report.perhaps.extend(channels);
    report.heading = heading(&options, &redis, &server, walked, views.iter().any(Option::is_some));
    report.remarks = remarks(&findings, possible_tokens, walked, &redis, &server);
    let text = print::text(&redis, &report);
    printed(&text, report.has_tasks())
}

/// Prints what was made, once it is checked.
fn printed(text: &str, has_tasks: bool) -> anyhow::Result<ExitCode> {
    if has_tasks {
        check(text)?;
    }
    std::io::stdout().write_all(text.as_bytes()).context("cannot write the configuration")?;
    Ok(if has_tasks { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says once on stderr that the command works, if it takes longer than [`PATIENCE`]. A terminal shows
/// progress instead.
fn notice(seen: Arc<AtomicU64>, total: Option<u64>, watch_ms: u64) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        tokio::time::sleep(PATIENCE).await;
        if std::io::stderr().is_terminal() {
            return;
        }
        let keys = count(seen.load(Ordering::Relaxed), "key");
        let total = total.map(|total| format!(" of about {total}")).unwrap_or_default();
        let watch = duration_text(watch_ms);
        let line =
            format!("discover is at work: {keys}{total} so far; locks are watched for {watch}");
        let _nobody_reads = writeln!(std::io::stderr(), "{line}");
    }))
}

/// Looks for tasks that no key is a lock of: those that take turns, delayed ones, and subscriptions.
async fn look_for_relatives(
    connection: &Connection,
    server: &Server,
    findings: &Findings,
    pace: &mut Pace,
) -> Result<(Turns, Vec<Relative>, Vec<Relative>), Failure> {
    let queues = queues::look(connection, findings, pace).await?;
    let channels = channels::look(connection, server, findings).await?;
    Ok((Turns::look(connection, findings, pace).await?, queues, channels))
}

/// Scans all keys of `redis` through a connection to the server `at`. Returns the configuration as
/// [`run`] prints it, without what [`run`] learns by watching the locks and reading keys of similar
/// names.
///
/// # Errors
/// Why the scan was aborted.
pub async fn glance(
    connection: &Connection,
    at: HostPort,
    redis: &RedisConfig,
) -> anyhow::Result<String> {
    let server = Server::ask(connection, at).await?;
    let mut findings = Findings::default();
    let mut pace = Pace::new(u32::MAX, PAGE_MAX);
    scan::walk(connection, &server, None, &mut pace, |seen| findings.take(seen)).await?;
    let report = Plan::new(&findings).report();
    let text = print::text(redis, &report);
    if !report.tasks.is_empty() {
        check(&text)?;
    }
    Ok(text)
}

/// The server as a configuration would name it, so that the same rules apply and the same errors
/// are reported.
fn redis(options: &DiscoverOptions) -> anyhow::Result<RedisConfig> {
    let lock = SingleLock {
        redis_url: options.redis_url.clone().unwrap_or_default(),
        key: b"lockwatch".to_vec(),
        library: DEFAULT,
        name: None,
        username: options.login.username.clone(),
        password: options.login.password(),
        tls: options.login.tls(),
    };
    Config::single_lock(&lock)?.redises.into_iter().next().context("no server")
}

async fn open(endpoint: &Endpoint, redis: &RedisConfig) -> anyhow::Result<Connection> {
    match connect(endpoint).await {
        Ok(connection) => Ok(connection),
        Err(failure) => {
            Err(explained(failure, redis, None)
                .context(format!("cannot look into {}", endpoint.at)))
        }
    }
}

fn to_error(failure: Failure, redis: &RedisConfig, connection: &Connection) -> anyhow::Error {
    explained(failure, redis, connection.version().map(|version| &**version))
        .context("the look was cut short")
}

fn explained(failure: Failure, redis: &RedisConfig, version: Option<&str>) -> anyhow::Error {
    match server::is_refusal(failure.why) {
        true => anyhow!("{failure}\n{}", server::rule(redis, version)),
        false => anyhow!("{failure}\n{}", lockwatch_watch::remedy(failure.why)),
    }
}

/// Watches the locks as the agent would, and returns a view of each task; `None` for each if they
/// are not watched for any time.
async fn watch(
    redis: &RedisConfig,
    plan: &Plan,
    watch_ms: u64,
) -> anyhow::Result<Vec<Option<Arc<TaskView>>>> {
    if plan.tasks.is_empty() || watch_ms == 0 {
        return Ok(vec![None; plan.tasks.len()]);
    }
    let config = check(&print::configuration(redis, &plan.tasks))?;
    if std::io::stderr().is_terminal() {
        let locks = count(plan.tasks.len() as u64, "lock");
        eprintln!("watching {locks} for {}", duration_text(watch_ms));
    }
    Ok(watch::watch_for(config, watch_ms).await)
}

/// The comment above the configuration.
fn heading(
    options: &DiscoverOptions,
    redis: &RedisConfig,
    server: &Server,
    walked: Walked,
    watched: bool,
) -> Vec<String> {
    let mut lines = vec![format!(
        "Made by lockwatch discover of {}, database {} ({server}): {}{}, {}.",
        server.at,
        redis.db,
        count(walked.keys, "key"),
        options
            .pattern
            .as_ref()
            .map_or(String::new(), |glob| format!(" matching {}", escape(glob.as_bytes()))),
        if watched {
            format!("watched for {}", duration_text(options.watch_ms))
        } else {
            "nothing watched".to_owned()
        },
    )];
    lines.push(
        "Only what was there could be found: a lock that was free leaves nothing behind. Look \
         again when all tasks run."
            .to_owned(),
    );
    if let Some(others) = server.elsewhere(redis.db) {
        lines.push(format!(
            "Other databases of this server have keys, too: {others}. Each is looked at by its \
             number at the end of the URL."
        ));
    }
    if server.is_replica() {
        let master = server.master.as_deref().unwrap_or("unknown");
        lines.push(format!(
            "THIS IS A REPLICA, of the master {master}: put the master into `url`, or the agent \
             believes nothing of it."
        ));
    }
    if server.in_cluster {
        lines.push(
            "THIS IS ONE SERVER OF A CLUSTER: only its own keys were seen. Run discover on each \
             master, and put the tasks of all together."
                .to_owned(),
        );
    }
    lines
}

/// The comment below the configuration.
fn remarks(
    findings: &Findings,
    possible_tokens: u64,
    walked: Walked,
    redis: &RedisConfig,
    server: &Server,
) -> Vec<String> {
    let mut lines = Vec::new();
    if possible_tokens > 0 {
        lines.push(format!(
            "{} with a TTL could be a token by the value, but no name among them says lock: \
             sessions and caches look the same. If a lock is among them, name it yourself with \
             library string.",
            count(possible_tokens, "string")
        ));
    }
    if findings.staying_token_count > 0 {
        lines.push(format!(
            "{} without a TTL could be a token by the value, but no name among them says lock: \
             mostly data; a lock that stays for ever looks the same.",
            count(findings.staying_token_count, "string")
        ));
    }
    if findings.dropped() > 0 {
        lines.push(format!(
            "Left out because of too many different names: {}. Use --match.",
            count(findings.dropped(), "key")
        ));
    }
    if let Some(why) = walked.refused_why {
        lines.push(format!(
            "{} could not be looked at: the server refused ({}; discover needs Redis 6.2 or \
             later). {}",
            count(walked.refused, "key"),
            why.name(),
            lockwatch_watch::remedy(why)
        ));
    }
    if walked.forbidden > 0 {
        let keys = count(walked.forbidden, "key");
        lines.push(format!("{keys} could not be looked at: this user may not."));
        lines.extend(server::rule(redis, server.version.as_deref()).lines().map(str::to_owned));
    }
    lines
}

/// Checks that the printed text is a valid configuration.
fn check(text: &str) -> anyhow::Result<Config> {
    Config::parse(text, Path::new(""))
        .map_err(|mistakes| anyhow!("the configuration that was made is none: {mistakes}"))
}
