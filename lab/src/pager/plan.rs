//! The task of a scenario, and its part of the agent's configuration.

use std::fmt::Write as _;
use std::time::Duration;

use crate::stack::Labels;

/// The grace of all tasks: short, so that scenarios are. The times are far enough apart that a busy
/// machine does not blur them.
pub(super) const GRACE: Duration = Duration::from_secs(5);
pub(super) const SETTLE: Duration = Duration::from_secs(3);
pub(super) const WIND_DOWN: Duration = Duration::from_secs(5);
pub(super) const BLIND_AFTER: Duration = Duration::from_secs(15);
pub(super) const STALE_AFTER: Duration = Duration::from_secs(10);
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// Lease of the locks, which are renewed every 4 s.
pub(super) const LEASE: Duration = Duration::from_secs(12);
/// How late a turn, or a member of a queue, may be.
pub(super) const MAX_LATE: Duration = Duration::from_secs(10);
/// Two fields are a split when they have stood beside each other for this long.
pub(super) const HANDOVER: Duration = Duration::from_secs(2);
/// How often a periodic task runs, and how much later than that it may begin.
pub(super) const EVERY: Duration = Duration::from_secs(20);
pub(super) const LATE_AFTER: Duration = Duration::from_secs(8);
/// The Redis of a task that names no other.
pub(super) const MAIN: &str = "main";
/// The team of every task.
const TEAM: &str = "logistics";
/// Names a task, but compares agents: a task's own labels are only on series about its problems.
const COMPARES_AGENTS: &str = "LockwatchAgentsDisagree";

/// A task of a scenario.
#[derive(Clone, Debug)]
pub(super) struct TaskPlan {
    pub(super) name: String,
    pub(super) redis: &'static str,
    pub(super) servers: Servers,
    guarded: Guarded,
    wanted: Wanted,
    progress: bool,
    claims: bool,
    pausable: bool,
    max_hold: Option<Duration>,
    labels: Vec<(&'static str, &'static str)>,
    pub(super) lease: Duration,
}

/// The servers of its Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    One,
    /// One with a replica; the agents know both, without Sentinels.
    Replicated,
    /// Three with three Sentinels.
    Sentinels,
}

/// The network between the parts of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Wiring {
    /// Whether each agent reaches every Redis over cables of its own, with a login.
    pub(super) cables: bool,
    /// Whether the last agent reaches other servers under the same names.
    pub(super) last_agent_elsewhere: bool,
    /// The share of all scrapes that is dropped.
    pub(super) lost_scrapes: Option<f64>,
    pub(super) relabelled: Relabelled,
    /// Whether the agents show all metrics.
    pub(super) full_metrics: bool,
    /// Additional tolerance.
    pub(super) slack: Duration,
}

/// What the scrape job makes of the agents' names, as teams do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Relabelled {
    /// Nothing, in a job that is called lockwatch.
    #[default]
    Nothing,
    /// The job is called otherwise, and its targets are renamed.
    Targets,
    /// The job is called otherwise, and the agents are renamed in their series, not in `up`.
    Series,
}

/// What guards the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guarded {
    Lock,
    Turn,
    Queue,
    Runs,
}

/// The source of whether the task is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Switches,
    Never,
    /// Nothing says so.
    Unknown,
}

impl TaskPlan {
    /// A task with switches on the Redis `main`.
    pub(super) fn new(name: impl Into<String>) -> TaskPlan {
        TaskPlan {
            name: name.into(),
            redis: MAIN,
            servers: Servers::One,
            guarded: Guarded::Lock,
            wanted: Wanted::Switches,
            progress: false,
            claims: false,
            pausable: false,
            max_hold: None,
            labels: Vec::new(),
            lease: LEASE,
        }
    }

    /// Puts it on a Redis of this name, which no other scenario uses.
    pub(super) fn on(self, redis: &'static str) -> TaskPlan {
        TaskPlan { redis, ..self }
    }

    /// Puts it on a Redis of this name with a replica.
    pub(super) fn on_replicated(self, redis: &'static str) -> TaskPlan {
        TaskPlan { redis, servers: Servers::Replicated, ..self }
    }

    /// Puts it on a Redis of this name with replicas and Sentinels.
    pub(super) fn on_sentinels(self, redis: &'static str) -> TaskPlan {
        TaskPlan { redis, servers: Servers::Sentinels, ..self }
    }

    /// Makes it a task of `a` and `b`, which take turns.
    pub(super) fn in_turns(self) -> TaskPlan {
        TaskPlan { guarded: Guarded::Turn, ..self }
    }

    /// Makes it a queue of delayed tasks.
    pub(super) fn queued(self) -> TaskPlan {
        TaskPlan { guarded: Guarded::Queue, ..self }
    }

    /// Makes it a task whose lock exists only while a run lasts. Nobody can want it.
    pub(super) fn periodic(self) -> TaskPlan {
        TaskPlan { guarded: Guarded::Runs, wanted: Wanted::Unknown, ..self }
    }

    pub(super) fn never_wanted(self) -> TaskPlan {
        TaskPlan { wanted: Wanted::Never, ..self }
    }

    pub(super) fn without_switches(self) -> TaskPlan {
        TaskPlan { wanted: Wanted::Unknown, ..self }
    }

    pub(super) fn with_progress(self) -> TaskPlan {
        TaskPlan { progress: true, ..self }
    }

    pub(super) fn with_claims(self) -> TaskPlan {
        TaskPlan { claims: true, ..self }
    }

    pub(super) fn pausable(self) -> TaskPlan {
        TaskPlan { pausable: true, ..self }
    }

    pub(super) fn held_at_most(self, max_hold: Duration) -> TaskPlan {
        TaskPlan { max_hold: Some(max_hold), ..self }
    }

    pub(super) fn labelled(mut self, name: &'static str, value: &'static str) -> TaskPlan {
        self.labels.push((name, value));
        self
    }

    pub(super) fn with_lease(self, lease: Duration) -> TaskPlan {
        TaskPlan { lease, ..self }
    }

    pub(super) fn lock(&self) -> String {
        format!("{}:lock", self.name)
    }

    /// The hash that says whose turn it is.
    pub(super) fn turns(&self) -> String {
        format!("{}:turns", self.name)
    }

    /// The sorted set of a queue.
    pub(super) fn queue(&self) -> String {
        format!("{}:queue", self.name)
    }

    /// The lock of a queue's member.
    pub(super) fn lock_of(&self, id: &str) -> String {
        format!("{}:lock:{id}", self.name)
    }

    pub(super) fn switches(&self) -> String {
        format!("{}:users", self.name)
    }

    pub(super) fn pause(&self) -> String {
        format!("{}:pause", self.name)
    }

    /// The key of the hash with its progress, in the field `at`.
    pub(super) fn progress(&self) -> Option<String> {
        self.progress.then(|| format!("{}:progress", self.name))
    }

    pub(super) fn claims(&self) -> Option<String> {
        self.claims.then(|| format!("{}:claims", self.name))
    }

    /// All labels that an alert about the task must have. Warnings keep their severity; for pages
    /// the task's own severity replaces critical.
    pub(super) fn labels_of(&self, alert: &str, is_page: bool) -> Labels {
        let severity = if is_page { "critical" } else { "warning" };
        let base = [
            ("severity", severity),
            ("task", &self.name),
            ("store", self.redis),
            ("alertname", alert),
        ];
        let own = [("team", TEAM)].into_iter().chain(self.labels.iter().copied());
        let own = own.filter(|(name, _)| is_page || *name != "severity");
        let own = own.filter(|_| alert != COMPARES_AGENTS);
        base.into_iter()
            .chain(own)
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    fn yaml(&self) -> String {
        let mut text = format!(
            "  - name: {}\n    redis: {}\n    blind_after: {}\n",
            self.name,
            self.redis,
            ms(BLIND_AFTER),
        );
        let mut line = |line: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "    {line}");
        };
        match self.guarded {
            Guarded::Lock => {
                line(format!("lock: {{key: \"{}\"}}", self.lock()));
                line(format!("grace: {}", ms(GRACE)));
                line(format!("settle: {}", ms(SETTLE)));
                line(format!("wind_down: {}", ms(WIND_DOWN)));
            }
            Guarded::Turn => {
                line(format!(
                    "turn: {{hash: \"{}\", tasks: [a, b], max_late: {}, handover: {}}}",
                    self.turns(),
                    ms(MAX_LATE),
                    ms(HANDOVER)
                ));
                line(format!("grace: {}", ms(GRACE)));
            }
            Guarded::Runs => {
                line(format!("lock: {{key: \"{}\", library: string}}", self.lock()));
                line(format!("runs: {{every: {}, late_after: {}}}", ms(EVERY), ms(LATE_AFTER)));
            }
            Guarded::Queue => line(format!(
                "queue: {{zset: \"{}\", unit: ms, lock: \"{}\", max_late: {}}}",
                self.queue(),
                self.lock_of("{id}"),
                ms(MAX_LATE)
            )),
        }
        match self.wanted {
            Wanted::Switches => line(format!("wanted: {{hash: \"{}\"}}", self.switches())),
            Wanted::Never => line("wanted: never".to_owned()),
            Wanted::Unknown => {}
        }
        if let Some(hash) = self.progress() {
            line(format!(
                "progress: {{hash: \"{hash}\", field: at, stale_after: {}}}",
                ms(STALE_AFTER)
            ));
        }
        if let Some(hash) = self.claims() {
            line(format!("claims: {{hash: \"{hash}\", fresh_for: 5s}}"));
        }
        if self.pausable {
            line(format!("paused_until: {{key: \"{}\"}}", self.pause()));
        }
        if let Some(max_hold) = self.max_hold {
            line(format!("max_hold: {}", ms(max_hold)));
        }
        let labels: Vec<String> =
            self.labels.iter().map(|(name, value)| format!(", {name}: {value}")).collect();
        line(format!("labels: {{team: {TEAM}{}}}", labels.concat()));
        text
    }
}

/// The agent's configuration for these tasks, and for the servers of each Redis.
pub(super) fn config<'a>(
    redises: impl IntoIterator<Item = (&'a &'static str, &'a String)>,
    tasks: impl IntoIterator<Item = &'a TaskPlan>,
    full_metrics: bool,
) -> String {
    let mut text =
        "labels: [team, severity, standby]\nlinks: {grafana: \"https://grafana.example\", \
                    lockwatch: \"https://lockwatch.example\"}\n"
            .to_owned();
    if full_metrics {
        text.push_str("metrics: full\n");
    }
    text.push_str("redis:\n");
    for (name, servers) in redises {
        let _ = writeln!(text, "  {name}: {{{servers}, interval: {}}}", ms(INTERVAL));
    }
    text.push_str("tasks:\n");
    tasks.into_iter().for_each(|task| text.push_str(&task.yaml()));
    text
}

fn ms(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}
