//! What a guard is to do: configuration and flags together, checked.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_guard::{Restart, Terms};
use lockwatch_judge::spec::{TaskSpec, WantedSource};
use lockwatch_watch::redis::RedisKind;

use super::options::GuardOptions;
use super::rights::{rights, words};
use crate::commands::rule::line;
use crate::commands::source::{ConfigSource, task_of};
use crate::config::{Config, GuardConfig, Heartbeat, Login, RedisConfig, ms};
use crate::exit::Exit;
use crate::hold::Holder;
use crate::hold::store::Store;

/// The only library whose locks a guard can hold.
const LIBRARY: &str = "redisson";

/// A guard that can begin.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) spec: Arc<TaskSpec>,
    pub(super) redis: RedisConfig,
    pub(super) login: Login,
    pub(super) terms: Terms,
    pub(super) progress: Option<Heartbeat>,
    pub(super) holder: Holder,
    /// What this server is called.
    pub(super) host: String,
    /// The exit code where the lock was not acquired in time.
    pub(super) busy_code: u8,
    /// Whether the script reads the guard's standard input.
    pub(super) stdin: bool,
    pub(super) until_input_ends: bool,
    pub(super) command: Vec<OsString>,
}

impl Plan {
    /// # Errors
    /// What is wrong, for a person.
    pub(super) fn of(options: GuardOptions) -> Result<Plan, String> {
        let (config, spec, redis) = find(&options.source, options.task.as_deref())?;
        let lock = spec.lock().ok_or_else(|| {
            format!(
                "task {:?} is a {}; a guard runs a script under a lock only",
                spec.name,
                spec.kind.name()
            )
        })?;
        let library = lock.library.as_str();
        if library != LIBRARY {
            return Err(format!(
                "the lock of task {:?} is one of the library {library}; a guard holds locks of \
                 {LIBRARY} only",
                spec.name
            ));
        }
        if spec.wanted.as_ref().is_some_and(|wanted| wanted.source == WantedSource::Never) {
            return Err(format!("task {:?} is never wanted (`wanted: never`)", spec.name));
        }
        let configured = config.guards.get(&spec.name).cloned();
        let GuardConfig { terms, login, progress } =
            configured.unwrap_or_else(|| default_of(&options.source, &spec));
        let terms = Terms {
            lease_ms: options.lease.map_or(terms.lease_ms, ms),
            stop_after_ms: options.stop_after.map_or(terms.stop_after_ms, ms),
            restart: options.restart.unwrap_or(terms.restart),
            give_up_after: options.give_up_after.or(terms.give_up_after),
            wait_ms: options.wait.map(ms),
            at_least_ms: options.at_least.map_or(0, ms),
            shown_ms: ms(redis.interval).saturating_mul(2),
            ..terms
        };
        if options.at_least.is_some() && terms.restart == Restart::Always {
            return Err(format!(
                "--at-least: the script of task {:?} starts again when it has ended (`restart: \
                 always`), so its lock is kept anyway; add --restart never, or on_failure",
                spec.name
            ));
        }
        terms.check(0).map_err(|too_short| too_short.to_string())?;
        Ok(Plan {
            login: login.unwrap_or_else(|| redis.login.clone()),
            spec,
            redis,
            terms,
            progress,
            // A guard takes its lock on one thread.
            holder: Holder::new(&Holder::new_instance(), 1),
            host: options.host.unwrap_or_else(host),
            busy_code: options.busy_code.unwrap_or(Exit::NotTaken.code()),
            stdin: options.stdin,
            until_input_ends: options.until_input_ends,
            command: options.command,
        })
    }

    /// The store, for one of those who ask it.
    pub(super) fn store(&self) -> Store {
        // Several attempts must fit into the time that is left after a renewal was due.
        let timeout = Duration::from_millis((self.terms.period_ms() / 2).max(1));
        let timeout = timeout.min(self.redis.timeout);
        Store::new(self.redis.clone(), self.login.clone(), timeout)
    }

    /// The rule that gives the guard's user what it needs, in addition to what it may do already.
    pub(super) fn rule(&self) -> String {
        let user = self.login.username.as_deref().unwrap_or("default");
        let rights = rights(&self.spec, self.progress.is_some(), self.is_cluster());
        let opening = ["ACL", "SETUSER", user].map(Vec::from);
        line(&[&opening[..], &words(&rights).0].concat())
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.redis.servers.kind() == RedisKind::Cluster
    }
}

/// What this machine calls itself.
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The task, its store, and the configuration that has them.
fn find(
    source: &ConfigSource,
    task: Option<&str>,
) -> Result<(Config, Arc<TaskSpec>, RedisConfig), String> {
    let config = source.load().map_err(|errors| errors.to_string())?;
    let spec = Arc::clone(task_of(&config, task)?);
    if spec.is_on_several() {
        return Err(format!(
            "the lock of task {:?} stands on several stores; a guard takes a lock of a single one",
            spec.name
        ));
    }
    let redis = config.redises.get(usize::from(spec.store.0)).cloned();
    let redis = redis.ok_or("the task is in ZooKeeper; a guard takes locks in Redis only")?;
    Ok((config, spec, redis))
}

/// A task, and its store with the login of its guard.
pub(super) fn store_of(
    source: &ConfigSource,
    task: Option<&str>,
) -> Result<(Arc<TaskSpec>, Store), String> {
    let (config, spec, redis) = find(source, task)?;
    let own = config.guards.get(&spec.name).and_then(|guard| guard.login.clone());
    let (login, timeout) = (own.unwrap_or_else(|| redis.login.clone()), redis.timeout);
    Ok((spec, Store::new(redis, login, timeout)))
}

/// A lock on the command line is for one run, a task in a file for as long as it is wanted.
fn default_of(source: &ConfigSource, spec: &TaskSpec) -> GuardConfig {
    let restart = match source {
        ConfigSource::File(_) => Restart::Always,
        ConfigSource::SingleLock(_) => Restart::Never,
    };
    let lease_ms = spec.lock().and_then(|lock| lock.lease_ms).unwrap_or(Terms::LEASE_MS);
    GuardConfig { terms: Terms { lease_ms, restart, ..Terms::default() }, ..GuardConfig::default() }
}
