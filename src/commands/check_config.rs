//! `lockwatch check-config`: the report for a valid configuration, above all the worst-case time
//! until an alert is sent.

mod chain;
mod connect;
mod line;
mod literal;
mod nodes;
mod timing;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use lockwatch_judge::spec::TaskSpec;

use super::source::ConfigSource;
use crate::alerts::{crash_loop_after_ms, down_after_ms, lease_ms};
use crate::config::{Config, Login, RedisConfig, Servers, TlsFiles, ZooKeeperConfig, exposed, ms};
use crate::patterns::KEYS_PER_SECOND;
use crate::text::durations::duration_text;
use crate::text::identity::escape;
use crate::text::terminal;
pub use chain::ChainArguments;
use literal::literal_names;
pub use timing::{Delay, PageTiming, TimingSources};

/// What the command takes.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct CheckOptions {
    /// What to check.
    #[command(flatten)]
    pub source: ConfigSource,
    /// Also ask each configured server once, as the agent does
    #[arg(long)]
    pub connect: bool,
    /// The web file, to check it as well
    #[arg(long = "web.config.file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub web_config: Option<PathBuf>,
    /// What the user says about Prometheus and Alertmanager.
    #[command(flatten)]
    pub timing: TimingSources,
    /// Where the real ones are asked.
    #[command(flatten)]
    pub chain: ChainArguments,
    /// Where the agent would listen, if that is known.
    #[arg(skip)]
    pub listen: Vec<SocketAddr>,
}

/// Runs the command. The exit code is 1 if a server was asked and cannot be used, or if the chain
/// was asked and no alert can go out.
///
/// # Errors
/// What is wrong with the configuration, or with a file about Prometheus or Alertmanager.
pub async fn run(options: &CheckOptions) -> anyhow::Result<ExitCode> {
    let config = options.source.load()?;
    let mut has_login = false;
    if let Some(file) = &options.web_config {
        let web = crate::web::check(file)?;
        for warning in &web.warnings {
            eprintln!("warning: {}: {warning}", file.display());
        }
        has_login = !web.users.is_empty();
    }
    if options.web_config.is_some() || !options.listen.is_empty() {
        let is_local = only_this_machine(&options.listen);
        config.check_login(&options.source.name(), has_login, is_local)?;
    }
    for warning in warnings(&config) {
        eprintln!("warning: {warning}");
    }
    let mut timing =
        PageTiming::find(&options.timing, &config.tasks).map_err(anyhow::Error::msg)?;
    let seen = match options.chain.is_given() {
        true => Some(chain::ask(&options.chain, &config, &mut timing).await?),
        false => None,
    };
    let timing = timing.with_given(&options.timing);
    let (chain, doubts, broken) =
        seen.map(|seen| (seen.text, seen.warnings, seen.broken)).unwrap_or_default();
    for warning in timing.warnings.iter().chain(&doubts) {
        eprintln!("warning: {warning}");
    }
    for error in &broken {
        eprintln!("error: {error}");
    }
    let mut text = report(&config, &timing) + &chain;
    let mut is_good = broken.is_empty();
    if options.connect {
        let (connections, all_answer) = connect::report(&config).await;
        text.push_str(&connections);
        is_good &= all_answer;
    }
    let shown = terminal::show(text)?;
    Ok(if is_good { shown } else { ExitCode::FAILURE })
}

/// Whether nobody else reaches an agent that listens there; also where that is not known.
pub fn only_this_machine(listen: &[SocketAddr]) -> bool {
    listen.iter().all(|at| at.ip().to_canonical().is_loopback())
}

/// Problems outside the file that should be fixed although the configuration is valid; one sentence
/// each.
pub fn warnings(config: &Config) -> Vec<String> {
    let of_login = |place: String, login: &Login| {
        let password = login.password.as_ref()?;
        let unusable = password.stored().and_then(Result::err).map(|error| error.to_string());
        let problem = unusable.or_else(|| password.warning())?;
        Some(format!("{place}: {problem}"))
    };
    let of_redis = |redis: &RedisConfig| {
        let sentinels = match &redis.servers {
            Servers::Sentinel(_) => {
                of_login(format!("redis.{}.sentinel", redis.name), &redis.sentinel_login)
            }
            _ => None,
        };
        let want = redis
            .want
            .as_ref()
            .and_then(|login| of_login(format!("redis.{}.want", redis.name), login));
        let own = of_login(format!("redis.{}", redis.name), &redis.login);
        let place = || format!("redis.{}.tls", redis.name);
        let tls = redis.tls.as_ref().and_then(|tls| of_tls(place(), &tls.files));
        own.into_iter().chain(sentinels).chain(want).chain(tls).chain(shared_user(redis))
    };
    let of_ensemble = |ensemble: &ZooKeeperConfig| {
        let place = format!("zookeeper.{}", ensemble.name);
        let tls = ensemble.tls.as_ref();
        let tls = tls.and_then(|tls| of_tls(format!("{place}.tls"), &tls.files));
        let own = of_login(place.clone(), &ensemble.login);
        own.or_else(|| no_digest(&place, &ensemble.login)).into_iter().chain(tls)
    };
    let logins = config.redises.iter().flat_map(of_redis);
    let logins = logins.chain(config.zookeepers.iter().flat_map(of_ensemble));
    let unclaimed = config
        .tasks
        .iter()
        .filter(|task| task.claims.is_none() && config.guards.contains_key(&task.name));
    let unclaimed = unclaimed.map(|task| {
        format!(
            "tasks.{}: has a `guard` and no `claims`, so a script that fails again and again looks \
             like one that runs; add `claims: {{hash: …}}`",
            task.name
        )
    });
    let names = config.tasks.iter().flat_map(|task| literal_names(task));
    let brief = config.tasks.iter().filter_map(|task| brief_runs(config, task));
    logins.chain(names).chain(unclaimed).chain(brief).collect()
}

/// Runs that are so short that they may begin and end between two readings, and nothing else shows
/// them.
fn brief_runs(config: &Config, task: &TaskSpec) -> Option<String> {
    let max_ms = task.runs()?.max_ms?;
    let redis = config.redises.get(usize::from(task.store.0))?;
    let interval_ms = ms(redis.interval);
    let is_seen = redis.wake_ups || task.progress.is_some();
    (!is_seen && max_ms < 2 * interval_ms).then(|| {
        format!(
            "tasks.{}: its runs last for at most {}, less than two `interval`s of redis {} ({}), so \
             some are not seen and it looks overdue; leave `wake_ups` on, use a shorter `interval`, \
             or name a `progress` that each run changes",
            task.name,
            duration_text(max_ms),
            redis.name,
            duration_text(interval_ms)
        )
    })
}

/// A login that no ensemble knows: it accepts any, and then lets nothing be read.
fn no_digest(place: &str, login: &Login) -> Option<String> {
    let secret = login.password.as_ref()?.stored()?.ok()?;
    let is_digest = secret.expose().split_once(':').is_some_and(|(user, _)| !user.is_empty());
    let message = "the first line of its `auth_file` is not `user:password`";
    (!is_digest).then(|| format!("{place}: {message}"))
}

/// What is wrong with the files of a store's TLS.
fn of_tls(place: String, files: &TlsFiles) -> Option<String> {
    let unusable = crate::io::unusable_tls(files);
    let exposed = || exposed(files.key_file.as_deref()?, "the key file");
    Some(format!("{place}: {}", unusable.or_else(exposed)?))
}

/// A user with both tasks has the rights of both.
fn shared_user(redis: &RedisConfig) -> Option<String> {
    let want = redis.want.as_ref()?;
    (want.username == redis.login.username).then(|| {
        format!(
            "redis.{}.want: has the user that the agent reads with, so the agent's password could \
             write; give `want` a user of its own",
            redis.name
        )
    })
}

/// The complete output of `check-config`.
pub fn report(config: &Config, timing: &PageTiming) -> String {
    let patterns = match config.patterns.len() {
        0 => String::new(),
        number => format!(", {}", counted(number, "pattern", "patterns")),
    };
    let mut text = format!(
        "configuration ok: {}, {}{patterns}\n\n",
        stores(config),
        counted(config.tasks.len(), "task", "tasks")
    );
    text.push_str(&patterns_text(config));
    if config.tasks.is_empty() {
        return text;
    }
    text.push_str("Worst time to page, from the moment a wanted task has no holder:\n\n");
    let table = table(config.tasks.iter().map(|task| row(config, task, timing)).collect());
    text.push_str(&table);
    text.push_str(&explanation(timing));
    let used = FOOTNOTES.iter().filter(|(mark, _)| table.contains(mark));
    used.for_each(|(mark, meaning)| text.push_str(&format!("{mark} {meaning}\n")));
    text
}

/// The stores, by their kinds.
fn stores(config: &Config) -> String {
    let redises = counted(config.redises.len(), "redis", "redises");
    let ensembles = counted(config.zookeepers.len(), "ensemble", "ensembles");
    match (config.redises.is_empty(), config.zookeepers.is_empty()) {
        (_, true) => redises,
        (true, false) => ensembles,
        (false, false) => format!("{redises}, {ensembles}"),
    }
}

/// What each pattern may cost at worst.
fn patterns_text(config: &Config) -> String {
    if config.patterns.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "Patterns, whose locks are found while the agent runs and are never down:\n\n",
    );
    for pattern in &config.patterns {
        let redis = config.redises.get(usize::from(pattern.store().0));
        let redis = redis.map_or("", |redis| &redis.name);
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "  {}: {} in redis {}, at most {} locks and {} series",
            pattern.name().escape_debug(),
            escape(pattern.glob()),
            redis.escape_debug(),
            pattern.max_keys,
            pattern.max_keys * SERIES_EACH
        );
    }
    let _ = writeln!(
        text,
        "\nTo find them, SCAN goes through all keys of such a redis, at most {KEYS_PER_SECOND} in a \
         second.\n"
    );
    text
}

/// The footnote marks of [`row`] and their meaning.
const FOOTNOTES: [(&str, &str); 5] = [
    (
        NOT_WANTED,
        "Nobody says that it is wanted (no `wanted`, or `never`), so it is never down; one with \
         `runs` is overdue `every` + `late_after` after a run began.",
    ),
    (ASSUMED_LEASE, "`lease` is not configured; Redisson's default of 30s is assumed."),
    (UNKNOWN_LEASE, "`lease` is not configured; lockwatch learns it once it runs."),
    (
        GUARD_LEASE,
        "The `lease` of the guard; a client of another kind that takes the lock may have a longer \
         one.",
    ),
    (
        SESSION,
        "A lock in ZooKeeper ends with its holder's session: after a crash up to the timeout that \
         the client asked for, and one tick (2s by default).",
    ),
];
const NOT_WANTED: &str = "[1]";
const ASSUMED_LEASE: &str = "[2]";
const UNKNOWN_LEASE: &str = "[3]";
const GUARD_LEASE: &str = "[4]";
const SESSION: &str = "[5]";

/// Series of a lock that a pattern found, outside trouble.
const SERIES_EACH: usize = 8;

const HEADER: [&str; 6] =
    ["TASK", "GRACE", "DOWN AFTER", "PAGE AFTER", "AFTER A CRASH", "CRASH LOOP"];

fn row(config: &Config, task: &TaskSpec, timing: &PageTiming) -> [String; 6] {
    let name = task.name.escape_debug().to_string();
    let grace = duration_text(task.grace_ms);
    if !task.may_be_wanted() {
        let never = format!("never {NOT_WANTED}");
        return [name, grace, never, "-".to_owned(), "-".to_owned(), "-".to_owned()];
    }
    let stores = task.stores().iter();
    let intervals = stores.filter_map(|store| config.interval(*store));
    let interval_ms = intervals.max().map_or(0, ms);
    let down_ms = down_after_ms(interval_ms, task);
    let page_ms = down_ms.saturating_add(timing.ms());
    let guards_ms = config.guards.get(&task.name).map(|guard| guard.terms.lease_ms);
    let lease = match (task.lock().and_then(|lock| lock.lease_ms), guards_ms) {
        (Some(lease_ms), _) => Some((lease_ms, String::new())),
        (None, Some(lease_ms)) => Some((lease_ms, format!(" {GUARD_LEASE}"))),
        (None, None) => lease_ms(task).map(|lease_ms| (lease_ms, format!(" {ASSUMED_LEASE}"))),
    };
    let crash = match lease {
        _ if config.zookeeper(task.store).is_some() => {
            format!("{} + session {SESSION}", rounded(page_ms))
        }
        Some((lease_ms, mark)) => rounded(page_ms.saturating_add(lease_ms)) + &mark,
        None => format!("{} + lease {UNKNOWN_LEASE}", rounded(page_ms)),
    };
    let in_a_loop = match task.lock() {
        Some(_) => {
            let longer_ms = crash_loop_after_ms(interval_ms, task).saturating_sub(down_ms);
            rounded(page_ms.saturating_add(longer_ms))
        }
        None => "-".to_owned(),
    };
    [name, grace, rounded(down_ms), rounded(page_ms), crash, in_a_loop]
}

/// An upper bound for people: whole seconds, rounded up.
fn rounded(ms: u64) -> String {
    duration_text(ms.div_ceil(1000).saturating_mul(1000))
}

fn table(rows: Vec<[String; 6]>) -> String {
    let rows: Vec<[String; 6]> = std::iter::once(HEADER.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..HEADER.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str("  ");
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn explanation(timing: &PageTiming) -> String {
    let mut text = String::from(
        "\nDown after: interval + grace (at least 250ms, to confirm it) + 250ms. Answers that \
         take longer than 100ms, a\n\
         restart and a reload come on top.\nPage after: the same",
    );
    for (name, delay) in timing.delays() {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\n  + {name} {delay}");
    }
    text.push_str(
        ".\nAfter a crash: the lock is still held until the lease has run out, so the \
        lease comes on top.\nCrash loop: where each hold ends before `settle`, settle + interval + \
        250ms come on top of a page.\n\
        Whether a page arrives at all, and where: `lockwatch drill TASK`.\n",
    );
    text
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
