//! The command `lockwatch drill`: tries the way of an alert from the agent to a person, with a
//! synthetic task, and says what failed.
//!
//! The loop asks and prints; what it means is decided by `machine`, which has no clock and no
//! socket.

mod agent;
mod alertmanager;
mod before;
mod follow;
mod hop;
mod look;
mod looks;
mod machine;
mod print;
mod prometheus;
mod survey;
#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueHint};
use tokio::time::sleep;

use self::agent::Agent;
use self::alertmanager::Often;
use self::follow::follow;
use self::hop::Hop;
use self::machine::{Machine, Outcome};
use self::print::Printer;
use self::prometheus::{ALERT, Drilled};
use self::survey::Survey;
use super::ask::{ALERTMANAGER, Access, AgentArguments, PROMETHEUS};
use super::stop::Stop;
use crate::api::{Drill, StartDrill, Task};
use crate::chain::{Alertmanager, Labels, Prometheus, without_api_path};
use crate::clock::Clock;
use crate::exit::Exit;
use crate::text::durations::duration_text;
use crate::text::nearest::{no_such_task, which_task};

/// The label of tasks that replaces the severity of their critical alerts.
const SEVERITY: &str = "severity";
/// The task that a drill shows as.
const SYNTHETIC: &str = "lockwatch-drill";

/// Between two looks at what is notified before a drill.
const LOOK_EACH: Duration = Duration::from_secs(1);
/// How long after a notification it may be seen, with the begin of a drill.
const LATE_MS: u64 = 4_000;

/// What the command takes.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct DrillOptions {
    /// Whose labels the drill has [default: the only task]
    #[arg(value_name = "TASK", value_hint = ValueHint::Other, conflicts_with = "all_routes")]
    pub task: Option<String>,
    /// The severity of its alert [default: that of the task]
    #[arg(long, value_name = "SEVERITY", value_hint = ValueHint::Other)]
    pub severity: Option<String>,
    /// One drill after the other, for each set of labels that tasks have
    #[arg(long)]
    pub all_routes: bool,
    /// Only stop the drill that runs
    #[arg(long, conflicts_with_all = ["task", "severity", "all_routes", "force"])]
    pub stop: bool,
    /// Begin also where it may delay or mute an alert that fires now, or be muted by one
    #[arg(long)]
    pub force: bool,
    /// How the agent is reached.
    #[command(flatten)]
    pub agent: AgentArguments,
    /// Where Prometheus serves, or what answers the same API; repeatable
    #[arg(
        long = "prometheus.url",
        value_name = "URL",
        value_hint = ValueHint::Url,
        default_value = "http://127.0.0.1:9090"
    )]
    pub prometheus_urls: Vec<String>,
    /// How to come in.
    #[command(flatten)]
    pub prometheus: Access<PROMETHEUS>,
    /// Where Alertmanager serves; repeatable [default: those that Prometheus notifies, asked
    /// without a login]
    #[arg(long = "alertmanager.url", value_name = "URL", value_hint = ValueHint::Url)]
    pub alertmanager_urls: Vec<String>,
    /// How to come in.
    #[command(flatten)]
    pub alertmanager: Access<ALERTMANAGER>,
}

/// Runs the command, and returns its exit code.
///
/// # Errors
/// A file with a login cannot be used, or signals cannot be handled; text for a person.
pub async fn run(options: DrillOptions) -> anyhow::Result<ExitCode> {
    let warnings = [
        options.agent.access.warning(),
        options.prometheus.warning(),
        options.alertmanager.warning(),
    ];
    warnings.iter().flatten().for_each(|warning| eprintln!("warning: {warning}"));
    if options.alertmanager_urls.is_empty() && options.alertmanager != Access::default() {
        eprintln!(
            "lockwatch: --alertmanager.* needs --alertmanager.url: those that Prometheus names are \
             asked without a login"
        );
        return Ok(Exit::Usage.into());
    }
    let agent = Agent::new(&options.agent)?;
    let mut command = Command { options, agent, stop: Stop::listen()?, print: Printer::new() };
    let exit = match command.options.stop {
        true => command.stop_present().await,
        false => command.run().await?,
    };
    Ok(exit.into())
}

struct Command {
    options: DrillOptions,
    agent: Agent,
    stop: Stop,
    print: Printer,
}

/// A drill that ended, for the next one of `--all-routes`.
struct Ended {
    id: String,
    exit: Exit,
    /// Nothing more is to be done.
    is_last: bool,
}

impl Command {
    /// Stops what runs.
    async fn stop_present(&self) -> Exit {
        let drill = match self.agent.present().await {
            Ok(Some(drill)) => drill,
            Ok(None) => {
                self.print.line("No drill runs at this agent.");
                return Exit::Success;
            }
            Err(trouble) => return self.print.failed(None, Hop::Agent, &trouble),
        };
        // Perhaps it had notified somebody: the agent then waits before the next one.
        match self.agent.stop(&drill.id, true).await {
            Ok(()) => {
                self.print.line(&format!("The drill {} of {} is stopped.", drill.id, drill.task));
                Exit::Success
            }
            Err(trouble) => self.print.failed(None, Hop::Agent, &trouble),
        }
    }

    async fn run(&mut self) -> anyhow::Result<Exit> {
        let tasks = match self.agent.tasks().await {
            Ok(list) => list.tasks,
            Err(trouble) => return Ok(self.print.failed(None, Hop::Agent, &trouble)),
        };
        let chosen = match self.chosen(&tasks) {
            Ok(chosen) => chosen,
            Err(why) => {
                eprintln!("lockwatch: {why}");
                return Ok(Exit::Usage);
            }
        };
        let mut exit = Exit::Success;
        let mut after = None;
        for task in chosen {
            let ended = self.drill(task, after.take()).await?;
            exit = worse(exit, ended.exit);
            if ended.is_last {
                break;
            }
            after = Some(ended.id);
        }
        Ok(exit)
    }

    /// The tasks whose labels are tried, one after the other.
    fn chosen<'a>(&self, tasks: &'a [Task]) -> Result<Vec<&'a Task>, String> {
        let names = || tasks.iter().map(|task| &*task.name);
        if self.options.all_routes {
            let mut sets: Vec<&Task> = Vec::new();
            for task in tasks {
                if sets.iter().all(|other| other.labels != task.labels) {
                    sets.push(task);
                }
            }
            return if sets.is_empty() { Err("there are no tasks".to_owned()) } else { Ok(sets) };
        }
        match (&self.options.task, tasks) {
            (None, [only]) => Ok(vec![only]),
            (None, _) => Err(which_task(&names().collect::<Vec<_>>())),
            (Some(name), _) => match tasks.iter().find(|task| *task.name == **name) {
                Some(task) => Ok(vec![task]),
                None => Err(no_such_task(name, names())),
            },
        }
    }

    /// One drill, from before its begin to after its end.
    async fn drill(&mut self, task: &Task, after: Option<String>) -> anyhow::Result<Ended> {
        let none = |exit| Ended { id: String::new(), exit, is_last: true };
        self.print.line(&format!(
            "Drill of {} by the agent at {}",
            task.name, self.options.agent.agent_url
        ));
        let mut surveyed = match self.surveyed().await? {
            Some(Ok(survey)) => survey,
            Some(Err((hop, trouble))) => return Ok(none(self.print.failed(None, hop, &trouble))),
            None => return Ok(none(self.print.interrupted("It did not begin."))),
        };
        let alert = self.alert(task, &surveyed);
        if !self.may_begin(&alert, &surveyed) {
            return Ok(none(Exit::Failure));
        }
        if !self.is_quiet(&alert, &mut surveyed).await {
            return Ok(none(self.print.interrupted("It did not begin.")));
        }
        let lasts_ms = surveyed.lasts_ms(self.options.force);
        let start = StartDrill {
            task: task.name.to_string(),
            severity: self.options.severity.clone(),
            seconds: lasts_ms / 1000,
            after,
        };
        // Not to be interrupted: it may have begun, and must be ended then.
        let drill = match self.agent.begin(&start).await {
            Ok(drill) => drill,
            Err(trouble) => return Ok(none(self.print.failed(None, Hop::Agent, &trouble))),
        };
        let clock = Clock::start();
        self.print.passed(clock, Hop::Agent, &begun(&drill, lasts_ms));
        let drilled = self.drilled(&drill);
        let Survey { prometheus, replicas, alertmanagers, known, .. } = surveyed;
        let mut machine = Machine::new(drilled.clone(), replicas, known);
        let chain = follow::Chain { agent: self.agent.clone(), prometheus, alertmanagers };
        let (stop, print) = (&mut self.stop, &self.print);
        let outcome = follow(&mut machine, &chain, &drilled, &drill.id, clock, stop, print).await;
        let took_ms = clock.now().ms();
        let notified = matches!(outcome, Some(Outcome::Notified | Outcome::Unseen(_)));
        if let Err(trouble) = self.agent.stop(&drill.id, notified).await {
            print.warning(&format!("{trouble}. Without renewals it ends within 30 s."));
        }
        let mut ended = Ended { id: drill.id.to_string(), exit: Exit::Success, is_last: false };
        ended.exit = match outcome {
            None => {
                ended.is_last = true;
                print.interrupted("The drill is stopped.")
            }
            Some(Outcome::Failed(hop, trouble)) => {
                let exit = print.failed(Some(clock), hop, &trouble);
                if hop > Hop::Firing {
                    print.line("The drill is stopped: its alert ends within the next intervals.");
                }
                exit
            }
            Some(outcome) => {
                let unproved = machine.unproved();
                machine.stopped(clock.now().ms());
                let over = follow(&mut machine, &chain, &drilled, "", clock, stop, print).await;
                ended.is_last = over.is_none();
                let exit = print.concluded(&outcome, took_ms, unproved);
                match over {
                    Some(Outcome::Failed(hop, trouble)) => print.failed(Some(clock), hop, &trouble),
                    Some(_) => exit,
                    None => {
                        print.line("It is stopped; that it is over everywhere was not awaited.");
                        exit
                    }
                }
            }
        };
        Ok(ended)
    }

    /// What is known of the chain; `None`: interrupted.
    async fn surveyed(&mut self) -> anyhow::Result<Option<Result<Survey, survey::Hopeless>>> {
        let options = &self.options;
        let mut servers = Vec::new();
        for url in &options.prometheus_urls {
            servers.push(Prometheus { server: options.prometheus.server(url)? });
        }
        let mut named = Vec::new();
        for url in &options.alertmanager_urls {
            named.push(Alertmanager { server: options.alertmanager.server(url)? });
        }
        let (agent, url) = (&self.agent, &options.agent.agent_url);
        let survey = async {
            // Whether it may begin is said when it is to.
            agent.present().await.map_err(|trouble| (Hop::Agent, trouble))?;
            let agent_started = agent.started().await.map_err(|trouble| (Hop::Agent, trouble))?;
            if named.is_empty() {
                named = found(&servers).await;
            }
            let drilled = Drilled { labels: Labels::new(), agent_started, agent_url: url.clone() };
            Survey::make(&drilled, servers, named, Clock::start()).await
        };
        Ok(tokio::select! {
            survey = survey => Some(survey),
            () = self.stop.requested() => None,
        })
    }

    /// The labels that its alert will have.
    fn alert(&self, task: &Task, survey: &Survey) -> Labels {
        let mut alert: Labels = survey.added.clone();
        let own = task.labels.iter().filter(|label| !label.value.is_empty());
        alert.extend(own.map(|label| (label.name.to_string(), label.value.to_string())));
        alert.entry(SEVERITY.to_owned()).or_insert_with(|| "critical".to_owned());
        if let Some(severity) = &self.options.severity {
            alert.insert(SEVERITY.to_owned(), severity.clone());
        }
        let store = &*task.store;
        for (name, value) in [
            ("alertname", ALERT),
            ("task", SYNTHETIC),
            ("store", store),
            ("drill", &*task.name),
            ("problem", "down"),
        ] {
            alert.insert(name.to_owned(), value.to_owned());
        }
        alert
    }

    /// Waits until an alert that is repeated often, as that of a dead man's switch, was notified:
    /// then it cannot be taken for the drill for a while. Returns false if it is interrupted.
    async fn is_quiet(&mut self, alert: &Labels, survey: &mut Survey) -> bool {
        let Some(often) = Often::find(alert, &survey.known) else { return true };
        self.print.line(&format!(
            "Waiting for the next notification of {}, for {} at most: Alertmanager counts it \
             together with the drill's.",
            often.shown,
            duration_text(often.each_ms)
        ));
        let clock = Clock::start();
        while clock.now().ms() <= often.each_ms {
            tokio::select! {
                () = sleep(LOOK_EACH) => {}
                () = self.stop.requested() => return false,
            }
            let mut was_notified = false;
            for (known, server) in survey.known.iter_mut().zip(&survey.alertmanagers) {
                let Ok(Some(now)) = server.sent().await else { continue };
                was_notified |=
                    known.before.as_ref().is_some_and(|before| often.was_notified(before, &now));
                known.before = Some(now);
            }
            if was_notified {
                let quiet_ms = often.quiet_ms.saturating_sub(LATE_MS);
                survey.known.iter_mut().for_each(|known| known.quiet_ms = quiet_ms);
                return true;
            }
        }
        true
    }

    /// Says what the drill may do to other alerts, and whether it may begin.
    fn may_begin(&self, alert: &Labels, survey: &Survey) -> bool {
        let lasts = duration_text(survey.lasts_ms(self.options.force));
        let before = before::before(alert, &survey.known, &lasts);
        survey.warnings.iter().chain(&before.warnings).for_each(|it| self.print.warning(it));
        let doubts: Vec<&String> = survey.doubts.iter().chain(&before.refusals).collect();
        doubts.iter().for_each(|doubt| self.print.warning(doubt));
        if !doubts.is_empty() && !self.options.force {
            self.print.line("It did not begin. With --force it does so all the same.");
            return false;
        }
        true
    }

    fn drilled(&self, drill: &Drill) -> Drilled {
        let labels = drill.labels.iter();
        Drilled {
            labels: labels.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            agent_started: drill.agent_started,
            agent_url: self.options.agent.agent_url.clone(),
        }
    }
}

/// Those that Prometheus notifies. The address comes from there, so no login is sent to it.
async fn found(servers: &[Prometheus]) -> Vec<Alertmanager> {
    let mut urls: Vec<String> = Vec::new();
    for server in servers {
        // Why one does not answer is said by the survey.
        let notified = look::whom(server).await.ok().flatten().unwrap_or_default();
        let all = notified.active_alertmanagers.iter();
        urls.extend(all.map(|address| without_api_path(&address.url).to_owned()));
    }
    urls.sort();
    urls.dedup();
    let server = |url: String| Access::<ALERTMANAGER>::default().server(&url).ok();
    urls.into_iter().filter_map(server).map(|server| Alertmanager { server }).collect()
}

fn begun(drill: &Drill, lasts_ms: u64) -> String {
    let severity = drill.labels.iter().find(|(name, _)| ***name == *SEVERITY);
    let severity = severity.map(|(_, value)| format!(", severity {value}")).unwrap_or_default();
    format!("drill {}{severity}, for {} at most", drill.id, duration_text(lasts_ms))
}

/// The one that says more against the chain.
fn worse(a: Exit, b: Exit) -> Exit {
    let rank = |exit| match exit {
        Exit::Success => 0,
        Exit::Unknown => 1,
        _ => 2,
    };
    if rank(b) > rank(a) { b } else { a }
}
