//! The loop of a guard: carries out what its machine wants, and reports to it what happened.

use std::cell::Cell;
use std::time::Duration;

use anyhow::Context as _;
use lockwatch_guard::{Action, End, Guard, Input, Outcome, Overrun, Reply, Runs, Why};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::Wanted;
use lockwatch_watch::remedy;
use rustix::process::{getpid, set_child_subreaper};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::SignalKind;
use tokio::sync::{mpsc, watch};

use super::notify::Manager;
use super::plan::Plan;
use super::script::{Gone, Script};
use super::side_keys::SideKeys;
use super::signals::Signals;
use super::{last, listen, words};
use crate::exit::Exit;
use crate::hold::{Client, Trouble};
use crate::keeper::boot::{self, Alarm};
use crate::keeper::group::Group;
use crate::keeper::wire::{Ended, Start};
use crate::keeper::{input, say};
use crate::telemetry;

/// Requests of the machine that may wait for one that is in flight.
const REQUESTS: usize = 16;
/// Most round trips with which the time of one is measured.
const TRIPS: u32 = 3;

/// Runs a guard to its end. Returns the exit code.
///
/// # Errors
/// When it cannot begin.
pub(super) async fn run(plan: Plan) -> anyhow::Result<u8> {
    set_child_subreaper(Some(getpid())).context("cannot adopt processes")?;
    let mut signals = Signals::listen(plan.until_input_ends)?;
    let mut client = Client::new(
        plan.store(),
        plan.spec.kind.key().clone(),
        plan.holder.clone(),
        plan.terms.lease_ms,
        plan.is_cluster(),
    );
    let task = &*plan.spec.name;
    let group = Group::of_guard();
    tracing::info!(
        task,
        holder = plan.holder.instance(),
        kills_by = if group.is_some() { "cgroup" } else { "descent" },
        note = "a pause of guard and keeper together that is longer than the lease is not covered",
        "waits until the task is wanted and its lock is free"
    );
    tokio::select! {
        refusal = too_far(&plan, &mut client) => if let Some(refusal) = refusal {
            say(format_args!("lockwatch: {refusal}"));
            return Ok(Exit::GuardUsage.code());
        },
        _ = signals.stop() => return Ok(0),
    }
    let (requests, replies) = asking(client);
    let (runs, sees_runs) = watch::channel(Runs::default());
    let (wanted, sees_wanted) = mpsc::channel(1);
    let (changed, sees_changed) = mpsc::channel(1);
    let (switched, sees_switched) = mpsc::channel(1);
    let (waits, sees_waits) = watch::channel(false);
    tokio::spawn(listen::run(
        plan.clone(),
        sees_waits,
        listen::Changes { lock: changed, switched },
    ));
    let (overruns, hears_overruns) = mpsc::unbounded_channel();
    let side_keys = SideKeys::new(plan.clone(), sees_runs, wanted, sees_switched, hears_overruns);
    let side_keys = tokio::spawn(side_keys.run());
    let guard = Guard::new(plan.terms, boot::now(), fastrand::u64(..));
    let mut driver = Driver {
        guard,
        script: None,
        ready: None,
        requests,
        runs,
        waits,
        manager: Manager::of_environment(),
        asked: false,
        warned_of_input: Cell::new(false),
        overruns,
        trouble: None,
        refused: None,
        group,
        plan,
    };
    driver.manager.notify("READY=1");
    let code =
        driver.run(&mut signals, Seen { replies, wanted: sees_wanted, changed: sees_changed });
    let code = code.await?;
    driver.dismiss().await;
    // What the agent reads is taken back.
    drop(driver);
    let _slow = tokio::time::timeout(Duration::from_secs(1), side_keys).await;
    Ok(code)
}

/// Measures a round trip. Returns a refusal if the lease is too short for it. A store that does not
/// answer yet is waited for later.
async fn too_far(plan: &Plan, client: &mut Client) -> Option<String> {
    let mut longest_ms = 0;
    for trip in 0..=TRIPS {
        let began = boot::now();
        let (reply, _) = client.carry_out(Action::Look).await;
        if reply == Reply::Failed {
            return None;
        }
        // The first one also connects.
        if trip > 0 {
            longest_ms = longest_ms.max(boot::now().since_ms(began));
        }
    }
    plan.terms.check(longest_ms).err().map(|too_short| too_short.to_string())
}

#[allow(
    deprecated,
    reason = "its successor is unsafe; this descriptor is owned as long as it is used"
)]
fn await_alarm() -> anyhow::Result<AsyncFd<Alarm>> {
    AsyncFd::new(Alarm::new()?).context("cannot set an alarm")
}

/// Waits for the end of a script, if there is one.
async fn end_of(script: &mut Option<(Script, Gone)>) -> Option<Ended> {
    match script {
        Some((_, gone)) => gone.await.ok(),
        None => std::future::pending().await,
    }
}

/// What reaches the loop.
struct Seen {
    replies: mpsc::Receiver<(Reply, Option<Trouble>)>,
    wanted: mpsc::Receiver<Wanted>,
    changed: mpsc::Receiver<()>,
}

/// Sends requests one after the other.
fn asking(mut client: Client) -> (mpsc::Sender<Action>, mpsc::Receiver<(Reply, Option<Trouble>)>) {
    let (requests, mut asked) = mpsc::channel(REQUESTS);
    let (answers, replies) = mpsc::channel(REQUESTS);
    tokio::spawn(async move {
        while let Some(request) = asked.recv().await {
            let answer = client.carry_out(request).await;
            if answers.send(answer).await.is_err() {
                return;
            }
        }
    });
    (requests, replies)
}

struct Driver {
    plan: Plan,
    guard: Guard,
    script: Option<(Script, Gone)>,
    /// The next script, whose keeper was started while another client has the lock.
    ready: Option<(Script, Gone)>,
    /// What the script is put into, where that is possible.
    group: Option<Group>,
    requests: mpsc::Sender<Action>,
    runs: watch::Sender<Runs>,
    /// Whether it waits for another client to release the lock.
    waits: watch::Sender<bool>,
    overruns: mpsc::UnboundedSender<(u64, u64)>,
    manager: Manager,
    /// It was asked to end.
    asked: bool,
    warned_of_input: Cell<bool>,
    /// What is wrong with the store, reported once for as long as it lasts.
    trouble: Option<String>,
    /// A refusal that no waiting mends: what it is, and the exit code.
    refused: Option<(String, u8)>,
}

impl Driver {
    async fn run(&mut self, signals: &mut Signals, mut seen: Seen) -> anyhow::Result<u8> {
        let alarm = await_alarm()?;
        let alive_every = self.manager.watchdog.unwrap_or(Duration::from_secs(3_600));
        let mut alive = tokio::time::interval(alive_every);
        loop {
            while let Some(action) = self.guard.poll(boot::now()) {
                if let Some(end) = self.carry_out(action) {
                    self.tell_runs();
                    return Ok(self.end(end).await);
                }
            }
            self.tell_runs();
            let waits = self.guard.waits();
            let differs = |before: &mut bool| std::mem::replace(before, waits) != waits;
            // One that dies is not made again before the next wait.
            if self.waits.send_if_modified(differs) && waits && self.ready.is_none() {
                self.ready = self.prepare().ok();
            }
            let wake = self.guard.next_wake().unwrap_or(Mono::MAX);
            alarm.get_ref().set(wake).context("cannot set an alarm")?;
            tokio::select! {
                gone = end_of(&mut self.script) => self.gone(gone),
                _ = end_of(&mut self.ready) => self.ready = None,
                signal = signals.next() => self.signalled(signal),
                Some((reply, trouble)) = seen.replies.recv() => self.replied(reply, trouble),
                Some(wanted) = seen.wanted.recv() => self.handle(Input::Wanted(wanted)),
                Some(()) = seen.changed.recv() => self.handle(Input::Changed),
                _ = alive.tick() => self.manager.notify("WATCHDOG=1"),
                rings = alarm.readable() => rings?.clear_ready(),
            }
        }
    }

    /// Hands on what agents are to know of the runs.
    fn tell_runs(&self) {
        let runs = *self.guard.runs();
        self.runs.send_if_modified(|before| std::mem::replace(before, runs) != runs);
    }

    fn handle(&mut self, input: Input) {
        self.guard.handle(boot::now(), input);
    }

    fn gone(&mut self, ended: Option<Ended>) {
        self.script = None;
        let Ended { code, at } = ended.unwrap_or(Ended { code: None, at: boot::now() });
        self.handle(Input::Gone { code, at });
        let (task, ended) = (&*self.plan.spec.name, self.guard.runs().ended().last());
        match ended.filter(|run| run.code != 0 && !run.asked) {
            Some(run) => tracing::warn!(task, code = run.code, "the script has failed"),
            None => {
                tracing::info!(task, code = ended.map(|run| run.code), "the script has ended");
            }
        }
    }

    fn signalled(&mut self, signal: Option<i32>) {
        match (signal, &mut self.script) {
            (Some(signal), Some((script, _))) => script.signal(signal),
            (Some(_), None) => {}
            // A second signal means that the user does not want to wait.
            (None, Some((script, _))) if self.asked => script.kill(),
            (None, _) => {
                self.asked = true;
                self.manager.notify("STOPPING=1");
                self.handle(Input::Stop);
            }
        }
    }

    fn replied(&mut self, reply: Reply, trouble: Option<Trouble>) {
        if let Some(trouble) = trouble {
            let said = trouble.to_string();
            if self.trouble.as_ref() != Some(&said) {
                tracing::warn!(
                    task = &*self.plan.spec.name,
                    trouble = said,
                    "the lock cannot be used"
                );
                self.trouble = Some(said);
            }
            if !self.guard.holds()
                && let Some(refused) = never_mends(&trouble, &self.plan)
            {
                self.refused = Some(refused);
                self.handle(Input::Stop);
            }
        }
        if reply != Reply::Failed {
            self.trouble = None;
        }
        if let Reply::Taken { token } = reply {
            tracing::info!(task = &*self.plan.spec.name, token, "has the lock");
        }
        self.handle(Input::Replied(reply));
    }

    /// Carries out an action. Returns the end, if it is that.
    fn carry_out(&mut self, action: Action) -> Option<End> {
        let task = &*self.plan.spec.name;
        match action {
            Action::Take
            | Action::Renew
            | Action::Look
            | Action::Release
            | Action::Leave { .. } => {
                // The machine has few requests in flight, so there is room.
                if self.requests.try_send(action).is_err() {
                    tracing::error!(task, "too many requests wait");
                }
                // As the client does it.
                if action == Action::Release {
                    self.plan.holder = self.plan.holder.next();
                }
            }
            Action::Start { token, dead_by } => self.start(token, dead_by),
            Action::Extend { dead_by } => {
                if let Some((script, _)) = &mut self.script {
                    script.extend(dead_by);
                }
            }
            Action::Terminate(why) => {
                tracing::info!(task, why = words::why(why), "asks the script to end");
                if let Some((script, _)) = &mut self.script {
                    script.signal(SignalKind::terminate().as_raw_value());
                }
            }
            Action::Kill(why) => self.kill(why),
            Action::Report(overrun) => self.report(overrun),
            Action::End(end) => return Some(end),
        }
        None
    }

    /// A script that can begin, and whose keeper has been started.
    fn prepare(&self) -> anyhow::Result<(Script, Gone)> {
        let environment = [
            ("LOCKWATCH_TASK", self.plan.spec.name.to_string()),
            ("LOCKWATCH_LEASE_MS", self.plan.terms.lease_ms.to_string()),
        ];
        let (command, group) = (&self.plan.command, self.group.as_ref());
        Script::prepare(command, &environment, group, self.plan.stdin)
    }

    fn start(&mut self, token: u64, dead_by: Mono) {
        let task = &*self.plan.spec.name;
        let holder = self.plan.holder.field().to_owned();
        self.warn_of_input();
        match self.ready.take().map_or_else(|| self.prepare(), Ok) {
            Ok((mut script, gone)) => {
                script.begin(Start { dead_by, token, holder });
                tracing::info!(task, token, "starts the script");
                self.manager.notify("STATUS=runs the script");
                self.script = Some((script, gone));
            }
            Err(error) => {
                tracing::error!(task, error = format!("{error:#}"), "cannot start the script");
                let at = boot::now();
                self.handle(Input::Gone { code: Some(Exit::CannotRun.code()), at });
            }
        }
    }

    /// The script that is ready is not needed any more.
    async fn dismiss(&mut self) {
        if let Some((mut script, gone)) = self.ready.take() {
            script.kill();
            let _slow = tokio::time::timeout(Duration::from_secs(1), gone).await;
        }
    }

    fn kill(&mut self, why: Why) {
        let task = &*self.plan.spec.name;
        tracing::warn!(task, why = words::why(why), "killing the script and all its descendants");
        if let Some((script, _)) = &mut self.script {
            script.kill();
        }
    }

    /// Says once that something on the standard input is read by nobody.
    fn warn_of_input(&self) {
        let is_lost = !self.plan.stdin && !self.plan.until_input_ends && input::is_waiting();
        if is_lost && !self.warned_of_input.replace(true) {
            tracing::warn!(
                task = &*self.plan.spec.name,
                "nobody reads the standard input of the guard, and that of the script is empty; \
                 --stdin lets the script read it"
            );
        }
    }

    /// The script ran on when another one may have run.
    fn report(&self, overrun: Overrun) {
        let Overrun { token, from, to } = overrun;
        let _guard_ends = self.overruns.send((token, to.since_ms(from)));
        tracing::error!(
            task = &*self.plan.spec.name,
            token,
            ms = to.since_ms(from),
            "overrun: the script ran on after the lease may have ended"
        );
    }

    /// The exit code, after the last words.
    async fn end(&self, end: End) -> u8 {
        self.warn_of_input();
        if let Some((refusal, code)) = &self.refused {
            say(format_args!("lockwatch: {refusal}"));
            return *code;
        }
        if let Some(why) = last::words(&self.plan, end.outcome, self.trouble.as_deref()).await {
            match end.outcome {
                // That is a success: a job of cron may keep silent about it.
                Outcome::NotTaken | Outcome::NotWanted if self.plan.busy_code == 0 => {
                    tracing::info!(task = &*self.plan.spec.name, "{why}");
                }
                _ => {
                    telemetry::flush();
                    say(format_args!("lockwatch: {why}"));
                }
            }
        }
        match end.outcome {
            Outcome::Done | Outcome::Stopped => end.code.unwrap_or(0),
            Outcome::Lost => Exit::Lost.code(),
            Outcome::NotTaken | Outcome::NotWanted => self.plan.busy_code,
            Outcome::NoStore => Exit::Unavailable.code(),
        }
    }
}

/// What to say about trouble that stays until somebody mends it, and the exit code.
fn never_mends(trouble: &Trouble, plan: &Plan) -> Option<(String, u8)> {
    match trouble {
        Trouble::Foreign { .. } => Some((trouble.to_string(), Exit::GuardUsage.code())),
        Trouble::Refused(error) => match &error.code[..] {
            b"NOPERM" => Some((
                format!("{trouble}. What it needs: {}", plan.rule()),
                Exit::Unavailable.code(),
            )),
            b"WRONGTYPE" => Some((trouble.to_string(), Exit::GuardUsage.code())),
            b"NOAUTH" | b"WRONGPASS" => {
                Some((format!("{trouble}. {}", remedy(Unknown::Auth)), Exit::Unavailable.code()))
            }
            _ => None,
        },
        Trouble::Unanswered(_) => None,
    }
}
