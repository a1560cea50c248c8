//! The keys next to the lock: reads whether users want the task, and writes what the agent reads:
//! host, claim and progress.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockwatch_guard::{Run, Runs};
use lockwatch_judge::reading::{Ended, GuardRuns, SwitchesReading, wanted};
use lockwatch_judge::spec::{ProgressSource, TaskSpec, WantedSource};
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::Wanted;
use lockwatch_watch::redis::accept::server_time;
use lockwatch_watch::redis::reply::{Command, Reply};
use lockwatch_watch::redis::{
    claims_scan, outdated_runs, overrun_claim, read_switches, runs_claim, switches_asks,
};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::plan::Plan;
use crate::config::Heartbeat;
use crate::hold::store::Store;
use crate::keeper::boot;

/// How often the switches are read where no change is announced.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A claim is written so many times while it counts as alive.
const CLAIMS: u32 = 3;
/// How long an overrun is claimed at least: longer than the pause between two readings of the agent.
const CLAIMED_FOR: Duration = Duration::from_secs(10);

/// What this part is asked to do.
pub(super) struct SideKeys {
    plan: Plan,
    store: Store,
    /// The runs of the script, and which of them were written.
    runs: watch::Receiver<Runs>,
    written: Runs,
    /// It was said that they cannot be written.
    is_refused: bool,
    wanted: mpsc::Sender<Wanted>,
    /// A switch may have changed.
    switched: mpsc::Receiver<()>,
    was_unknown: bool,
    /// The newest touch of the script's file.
    touched: Option<SystemTime>,
    /// When to claim next; `None` while the script does not run.
    claim_at: Option<Instant>,
    /// Until then the report of an overrun stays, so that the agent can read it.
    claimed_until: Instant,
    /// Overruns to report, as token and milliseconds.
    overruns: mpsc::UnboundedReceiver<(u64, u64)>,
    /// The newest one that could not be written yet.
    unclaimed: Option<(u64, u64)>,
}

impl SideKeys {
    pub(super) fn new(
        plan: Plan,
        runs: watch::Receiver<Runs>,
        wanted: mpsc::Sender<Wanted>,
        switched: mpsc::Receiver<()>,
        overruns: mpsc::UnboundedReceiver<(u64, u64)>,
    ) -> SideKeys {
        let store = plan.store();
        SideKeys {
            plan,
            store,
            runs,
            written: Runs::default(),
            is_refused: false,
            wanted,
            switched,
            was_unknown: false,
            touched: None,
            claim_at: None,
            claimed_until: Instant::now(),
            overruns,
            unclaimed: None,
        }
    }

    /// Runs until nobody listens to it.
    pub(super) async fn run(mut self) {
        self.write_host().await;
        loop {
            let wanted = self.read().await;
            if self.wanted.send(wanted).await.is_err() {
                return self.end().await;
            }
            // After a long pause the connection may be gone with which it was first tried.
            if let Some((token, ms)) = self.unclaimed {
                self.tell_overrun(token, ms).await;
            }
            let newest = *self.runs.borrow_and_update();
            let runs = newest.since.is_some();
            match self.claim_at {
                None if runs => {
                    self.write_host().await;
                    self.claim_at = Some(Instant::now().max(self.claimed_until));
                }
                Some(_) if !runs => self.withdraw().await,
                _ => {}
            }
            self.write_runs(newest).await;
            if self.claim_at.is_some_and(|at| at <= Instant::now()) {
                self.write().await;
                self.claim_at = Some(Instant::now() + self.write_every());
            }
            let look_at = Instant::now() + LOOK_EVERY;
            let next = self.claim_at.map_or(look_at, |at| at.min(look_at));
            tokio::select! {
                () = sleep_until(next) => {}
                Some(()) = self.switched.recv() => {}
                Some((token, ms)) = self.overruns.recv() => self.tell_overrun(token, ms).await,
                changed = self.runs.changed() => if changed.is_err() {
                    return self.end().await;
                },
            }
        }
    }

    /// The guard has ended.
    async fn end(&mut self) {
        let newest = *self.runs.borrow();
        self.write_runs(newest).await;
        self.withdraw().await;
    }

    /// Whether users want the task.
    async fn read(&mut self) -> Wanted {
        let spec = &self.plan.spec;
        let asks = switches_asks(spec);
        let Some(key) = asks.first().and_then(|ask| ask.key()).map(<[u8]>::to_vec) else {
            return of_no_switches(spec);
        };
        let commands: Vec<Command> = asks.into_iter().map(|ask| ask.command).collect();
        let answer = self.store.ask(&key, &commands).await;
        let (read, why) = match answer {
            Ok(replies) => match read_switches(spec, &replies) {
                Some(SwitchesReading::Read { switches, counted, .. }) => {
                    (of_switches(counted, wanted(&switches)), String::new())
                }
                Some(SwitchesReading::Unknown(why)) => (Wanted::Unknown, why.name().to_owned()),
                None => (Wanted::Unknown, "nothing was read".to_owned()),
            },
            Err(failure) => (Wanted::Unknown, failure.to_string()),
        };
        let is_unknown = read == Wanted::Unknown;
        if is_unknown && !self.was_unknown {
            tracing::warn!(why, "cannot read the switches; what they said last counts");
        }
        self.was_unknown = is_unknown;
        read
    }

    fn write_every(&self) -> Duration {
        let fresh_for_ms = self.plan.spec.claims.as_ref().map(|claims| claims.fresh_for_ms);
        let longest = Duration::from_secs(1);
        fresh_for_ms.map_or(longest, |ms| (Duration::from_millis(ms) / CLAIMS).min(longest))
    }

    async fn write_host(&mut self) {
        let Some(hash) = self.plan.spec.hosts.clone() else { return };
        let instance = self.plan.holder.instance().to_owned();
        let host = self.plan.host.clone();
        self.set(&hash, &["HSET"], &[instance.as_bytes(), host.as_bytes()]).await;
    }

    /// The newest runs, by the server's clock; it also removes what guards left that ran nothing
    /// for an hour. What cannot be written is written later.
    async fn write_runs(&mut self, newest: Runs) {
        let Some(claims) = self.plan.spec.claims.clone().filter(|_| newest != self.written) else {
            return;
        };
        let asked = [Command::new(["TIME"]), claims_scan(&claims.key)];
        let (now, replies) = (boot::now(), self.store.ask(&claims.key, &asked).await);
        let (server_now, scanned) = match replies.as_deref() {
            Ok([time, scanned]) => (server_time(time).ok(), scanned),
            _ => return,
        };
        let Some(server_now) = server_now else {
            if !std::mem::replace(&mut self.is_refused, true) {
                let rule = self.plan.rule();
                tracing::warn!(
                    rule,
                    "runs cannot be reported to the agent; this user needs more rights"
                );
            }
            return;
        };
        let at = |at: Mono| {
            // What was before `now` in milliseconds; the script may have ended since then.
            let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
            server_now.plus_ms(ms(at.since_ms(now))).plus_ms(-ms(now.since_ms(at)))
        };
        let ended = newest.ended().map(|Run { from, to, code, asked }| Ended {
            from: at(from),
            to: at(to),
            code,
            asked,
        });
        let (field, value) = runs_claim(&GuardRuns {
            instance: self.plan.holder.instance().as_bytes().to_vec(),
            host: self.plan.host.as_bytes().to_vec(),
            ended: ended.collect(),
            since: newest.since.map(at),
        });
        if self.set(&claims.key, &["HSET"], &[&field, &value]).await {
            self.written = newest;
        }
        let outdated = outdated_runs(scanned, server_now);
        let outdated: Vec<&[u8]> = outdated.iter().map(Vec::as_slice).collect();
        let others: Vec<&[u8]> = outdated.into_iter().filter(|other| **other != *field).collect();
        if !others.is_empty() {
            self.set(&claims.key, &["HDEL"], &others).await;
        }
    }

    /// Claim and progress.
    async fn write(&mut self) {
        let now = unix_ms().to_string();
        if let Some(claims) = self.plan.spec.claims.clone() {
            let instance = self.plan.holder.instance().to_owned();
            self.set(&claims.key, &["HSET"], &[instance.as_bytes(), now.as_bytes()]).await;
        }
        let progressed = match &self.plan.progress {
            None => false,
            Some(Heartbeat::Runs) => true,
            Some(Heartbeat::Touches(path)) => {
                let touched = std::fs::metadata(path).and_then(|data| data.modified()).ok();
                touched.is_some() && std::mem::replace(&mut self.touched, touched) != touched
            }
        };
        let Some(progress) = self.plan.spec.progress.clone().filter(|_| progressed) else { return };
        match progress.source {
            ProgressSource::HashField { key, field } => {
                self.set(&key, &["HSET"], &[&field, now.as_bytes()]).await;
            }
            ProgressSource::Key(key) => {
                self.set(&key, &["SET"], &[now.as_bytes()]).await;
            }
            ProgressSource::Length(_)
            | ProgressSource::Score { .. }
            | ProgressSource::Stream(_) => {}
        }
    }

    /// Tells, where the claim was, that the script ran on. It stays until the next claim.
    async fn tell_overrun(&mut self, token: u64, ms: u64) {
        let Some(claims) = self.plan.spec.claims.clone() else { return };
        let (instance, claim) = (self.plan.holder.instance().to_owned(), overrun_claim(token, ms));
        let fields = [instance.as_bytes(), claim.as_bytes()];
        if !self.set(&claims.key, &["HSET"], &fields).await {
            self.unclaimed = Some((token, ms));
            return;
        }
        self.unclaimed = None;
        // It took the place of the claim.
        self.claim_at = None;
        self.claimed_until = Instant::now() + CLAIMED_FOR;
    }

    /// Takes the claim back.
    async fn withdraw(&mut self) {
        if self.claim_at.take().is_none() {
            return;
        }
        if let Some(claims) = self.plan.spec.claims.clone() {
            let instance = self.plan.holder.instance().to_owned();
            self.set(&claims.key, &["HDEL"], &[instance.as_bytes()]).await;
        }
    }

    /// Writes what the agent reads; returns whether that was done.
    async fn set(&mut self, key: &[u8], command: &[&str], arguments: &[&[u8]]) -> bool {
        let words = command.iter().map(|word| word.as_bytes()).chain([key]);
        let command = Command::new(words.chain(arguments.iter().copied()));
        let why = match self.store.ask(key, &[command]).await {
            Ok(replies) => match replies.first() {
                Some(Reply::Error(error)) => {
                    let code = error.code.escape_ascii();
                    format!("{code} {}", error.detail.escape_ascii())
                }
                _ => return true,
            },
            Err(failure) => failure.detail.to_string(),
        };
        let key = key.escape_ascii();
        tracing::debug!(%key, why, "what the agent reads could not be written");
        false
    }
}

/// Without switches to read.
fn of_no_switches(spec: &TaskSpec) -> Wanted {
    match spec.wanted.as_ref().map(|wanted| &wanted.source) {
        Some(WantedSource::Never) => Wanted::No,
        _ => Wanted::Yes,
    }
}

fn of_switches(counted: Option<u64>, of_switches: Wanted) -> Wanted {
    match counted {
        Some(0) => Wanted::No,
        Some(_) => Wanted::Yes,
        None => of_switches,
    }
}

fn unix_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}
