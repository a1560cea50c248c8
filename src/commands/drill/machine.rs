//! Follows a drill from what was seen. It asks nothing and has no clock: each look brings its
//! instant, and every hop has a deadline.

use std::collections::BTreeMap;

use super::alertmanager::{self, AlertmanagerLook, Known};
use super::hop::{Hop, Step};
use super::looks::{LOOK_MS_MAX, Looks};
use super::prometheus::{self, Drilled, PrometheusLook};
use crate::chain::{Alertmanagers, Trouble};

/// What was seen.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// Time has passed.
    Nothing,
    /// Whether the drill's series is on the agent's /metrics.
    Metrics(Result<bool, Trouble>),
    /// What one Prometheus answered.
    Prometheus(usize, Result<Box<PrometheusLook>, Trouble>),
    /// What one Alertmanager answered.
    Alertmanager(usize, Result<AlertmanagerLook, Trouble>),
    /// The agent goes on with the drill.
    Renewed,
    /// The agent ended it.
    Ended(Trouble),
    /// The agent does not answer.
    Silent(Trouble),
}

/// What is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A hop was passed.
    Passed(Hop, String),
    /// What is wrong, and does not keep the drill from its way.
    Warning(String),
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A notification was delivered.
    Notified,
    /// Alertmanager accepted the alert; more cannot be seen.
    Unseen(String),
    /// It ended at this hop.
    Failed(Hop, Trouble),
    /// All of it is over.
    Over,
}

/// How long the parts of the chain take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// Between two scrapes of the agent.
    pub(super) scrape_ms: u64,
    /// Between two evaluations of the rules.
    pub(super) evaluation_ms: u64,
    /// How far in the past the rules look.
    pub(super) offset_ms: u64,
    /// How long the alert must be pending.
    pub(super) for_ms: u64,
}

/// How late what was said may be, for a process that is busy and a network.
const SLACK_MS: u64 = 10_000;
/// Prometheus repeats to Alertmanager each minute.
const RESEND_MS: u64 = 60_000;
/// How long an Alertmanager waits for each one before it in a cluster.
const PEER_MS: u64 = 15_000;
/// `group_wait` where the configuration cannot be read.
const GROUP_WAIT_MS: u64 = 30_000;

impl Pace {
    /// How long a hop may take after the one before.
    fn limit_ms(self, hop: Hop) -> u64 {
        let Pace { scrape_ms, evaluation_ms, offset_ms, for_ms } = self;
        let interval_ms = match hop {
            // Two scrapes without the series prove that it is dropped.
            Hop::Scraped => 2 * scrape_ms,
            Hop::Rule => 2 * evaluation_ms + offset_ms,
            Hop::Firing => evaluation_ms + for_ms,
            Hop::Alertmanager => RESEND_MS,
            Hop::Resolved => scrape_ms + 2 * evaluation_ms + offset_ms + SLACK_MS,
            _ => 0,
        };
        interval_ms + SLACK_MS
    }

    /// The shortest time that a drill needs to the alert.
    pub(super) fn to_alert_ms(self) -> u64 {
        self.scrape_ms + self.evaluation_ms + self.offset_ms + self.for_ms
    }

    /// How long a drill may take to Alertmanager.
    pub(super) fn most_ms(self) -> u64 {
        let hops = [Hop::Metrics, Hop::Scraped, Hop::Rule, Hop::Firing, Hop::Alertmanager];
        hops.into_iter().map(|hop| self.limit_ms(hop)).sum()
    }
}

/// How long an Alertmanager may take to a notification, by the longest waits of these routes.
pub(super) fn notified_ms(group_wait_ms: u64, alertmanagers: usize) -> u64 {
    let others = u64::try_from(alertmanagers.saturating_sub(1)).unwrap_or(u64::MAX);
    group_wait_ms + PEER_MS.saturating_mul(others) + SLACK_MS + SLACK_MS / 2
}

/// One Prometheus.
#[derive(Clone, Debug)]
pub(super) struct Replica {
    url: String,
    pace: Pace,
    /// What it has not passed yet.
    hop: Hop,
    since_ms: u64,
    last: Result<Box<PrometheusLook>, Trouble>,
    looks: Looks,
    /// When it scraped the agent last, by its clock; and how often since the first look.
    newest_scrape: f64,
    scrapes: u32,
    failed: Option<(Hop, Trouble)>,
    /// What Alertmanagers had not taken before the drill.
    refused_before: BTreeMap<String, f64>,
    refused: Vec<String>,
    notified: Option<Alertmanagers>,
}

impl Replica {
    pub(super) fn new(url: String, pace: Pace, refused: Vec<(String, f64)>) -> Replica {
        Replica {
            url,
            pace,
            hop: Hop::Scraped,
            since_ms: 0,
            last: Err(unasked()),
            looks: Looks::default(),
            newest_scrape: 0.0,
            scrapes: 0,
            failed: None,
            refused_before: refused.into_iter().collect(),
            refused: Vec::new(),
            notified: None,
        }
    }

    fn take(&mut self, at_ms: u64, look: Result<Box<PrometheusLook>, Trouble>) {
        self.looks.answered(at_ms);
        if let Ok(look) = &look {
            let newest =
                look.mine.iter().chain(&look.agents).map(|it| it.value).fold(0.0, f64::max);
            if self.newest_scrape > 0.0 && newest > self.newest_scrape {
                self.scrapes += 1;
            }
            self.newest_scrape = newest.max(self.newest_scrape);
            let target = look.target().and_then(|target| {
                crate::text::durations::parse_duration_ms(&target.scrape_interval).ok()
            });
            self.pace.scrape_ms = target.unwrap_or(self.pace.scrape_ms);
            self.notified = look.notified.clone().or(self.notified.take());
            let before = |url: &String| self.refused_before.get(url).copied().unwrap_or(0.0);
            let rose = look.refused.iter().filter(|(url, now)| *now > before(url));
            self.refused = rose.map(|(url, _)| url.clone()).collect();
        }
        self.last = look;
    }

    /// What its newest answer says of the hop that it has not passed.
    fn step(&self, drilled: &Drilled, at_ms: u64) -> Step {
        // One that answers slowly has not said yet how it is now.
        let is_asked = matches!(&self.last, Err(trouble) if *trouble == unasked());
        let answer_ms = if is_asked { LOOK_MS_MAX } else { self.looks.late_ms() };
        let late = at_ms.saturating_sub(self.since_ms) > self.pace.limit_ms(self.hop) + answer_ms;
        let look = match &self.last {
            Ok(look) => look,
            Err(trouble) if late => return Step::Failed(trouble.clone()),
            Err(_) => return Step::Wait,
        };
        let step = match self.hop {
            Hop::Scraped => prometheus::scraped(drilled, look, self.scrapes, late),
            Hop::Rule => prometheus::recorded(drilled, look, late),
            Hop::Firing => prometheus::firing(drilled, look, late),
            _ => Step::Wait,
        };
        match step {
            Step::Failed(Trouble { saw, remedy }) => {
                Step::failed(format!("Prometheus at {}: {saw}", self.url), remedy)
            }
            step => step,
        }
    }
}

/// What is known of one that has not answered what it is asked now.
fn unasked() -> Trouble {
    Trouble::new("there was no answer in that time", "see whether it has too much to do")
}

/// A drill that is followed.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    drilled: Drilled,
    replicas: Vec<Replica>,
    alertmanagers: Vec<Known>,
    /// What was not passed yet.
    hop: Hop,
    since_ms: u64,
    /// When the agent answered last.
    agent_ms: u64,
    /// A notification was seen once; the counters are not read at one instant.
    was_sent: bool,
    /// Since when Alertmanager does not have the alert any more.
    gone_ms: Option<u64>,
    warned: Vec<String>,
    /// What its notification left open.
    open: Vec<String>,
    outcome: Option<Outcome>,
}

impl Machine {
    /// One that the agent has just begun.
    pub(super) fn new(drilled: Drilled, replicas: Vec<Replica>, known: Vec<Known>) -> Machine {
        let warned = known.iter().filter_map(|known| known.trouble.as_ref());
        let warned = warned.map(Trouble::to_string).collect();
        Machine {
            drilled,
            replicas,
            alertmanagers: known,
            hop: Hop::Metrics,
            since_ms: 0,
            agent_ms: 0,
            was_sent: false,
            gone_ms: None,
            warned,
            open: Vec::new(),
            outcome: None,
        }
    }

    /// What was not passed yet.
    pub(super) fn hop(&self) -> Hop {
        self.hop
    }

    /// What each Prometheus is asked for, if anything.
    pub(super) fn asked(&self) -> Vec<Option<Hop>> {
        let hop = |replica: &Replica| match replica.hop {
            _ if self.hop == Hop::Metrics || replica.failed.is_some() => None,
            Hop::Alertmanager if matches!(self.hop, Hop::Receiver | Hop::Notified) => None,
            Hop::Scraped | Hop::Rule | Hop::Firing if self.hop < Hop::Resolved => Some(replica.hop),
            _ => Some(self.hop),
        };
        self.replicas.iter().map(hop).collect()
    }

    /// How it went, once that is known.
    pub(super) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// What was not proved.
    pub(super) fn unproved(&self) -> Vec<String> {
        let lagging =
            self.replicas.iter().filter(|it| it.failed.is_none() && it.hop <= Hop::Firing);
        let lagging =
            lagging.map(|it| format!("Prometheus at {}, which was not that far yet", it.url));
        lagging.chain(self.open.clone()).collect()
    }

    /// What a notification leaves open. Only while the alert is there.
    fn left_open(&self) -> Vec<String> {
        let together =
            alertmanager::counted_together(&self.drilled, &self.alertmanagers, |_, _| true);
        let together = together.map(|other| {
            format!("that it was the drill which was counted: {other} notifies in the same way")
        });
        let silent = alertmanager::silent_at_the_end(&self.drilled, &self.alertmanagers);
        let silent = silent.map(|receivers| {
            format!("that somebody hears of the end: {receivers} has `send_resolved: false`")
        });
        together.into_iter().chain(silent).collect()
    }

    /// The drill was stopped: now its end is followed.
    pub(super) fn stopped(&mut self, at_ms: u64) {
        (self.hop, self.since_ms, self.outcome) = (Hop::Resolved, at_ms, None);
        // What was seen before says nothing of the end.
        self.replicas.iter_mut().for_each(|replica| replica.last = Err(unasked()));
        self.alertmanagers.iter_mut().for_each(|known| known.look = None);
    }

    /// Takes in what was seen, and says what there is to say.
    pub(super) fn take(&mut self, at_ms: u64, seen: Seen) -> Vec<Said> {
        let mut said = Vec::new();
        match seen {
            Seen::Metrics(found) => self.metrics(at_ms, found, &mut said),
            Seen::Prometheus(index, look) => {
                if let Some(replica) = self.replicas.get_mut(index) {
                    replica.take(at_ms, look);
                }
            }
            Seen::Alertmanager(index, look) => self.alertmanager((index, at_ms), look, &mut said),
            Seen::Renewed => self.agent_ms = at_ms,
            Seen::Ended(why) => self.fail(Hop::Agent, why),
            Seen::Silent(why) if at_ms.saturating_sub(self.agent_ms) > 2 * SLACK_MS => {
                self.fail(Hop::Agent, why);
            }
            Seen::Silent(_) | Seen::Nothing => {}
        }
        if self.outcome.is_none() && self.hop > Hop::Metrics {
            match self.hop {
                Hop::Resolved => self.resolved(at_ms, &mut said),
                _ => {
                    self.follow_replicas(at_ms, &mut said);
                    self.follow_alertmanagers(at_ms, &mut said);
                }
            }
        }
        said
    }

    fn fail(&mut self, hop: Hop, why: Trouble) {
        self.outcome.get_or_insert(Outcome::Failed(hop, why));
    }

    fn warn(&mut self, words: String, said: &mut Vec<Said>) {
        if !self.warned.contains(&words) {
            self.warned.push(words.clone());
            said.push(Said::Warning(words));
        }
    }

    fn pass(&mut self, next: Hop, at_ms: u64, words: String, said: &mut Vec<Said>) {
        said.push(Said::Passed(self.hop, words));
        (self.hop, self.since_ms) = (next, at_ms);
    }

    fn metrics(&mut self, at_ms: u64, found: Result<bool, Trouble>, said: &mut Vec<Said>) {
        match found {
            _ if self.hop != Hop::Metrics => {}
            Ok(true) => {
                self.pass(Hop::Scraped, at_ms, format!("{} is there", prometheus::PUBLISHED), said);
                self.replicas.iter_mut().for_each(|replica| replica.since_ms = at_ms);
            }
            _ if at_ms.saturating_sub(self.since_ms) <= SLACK_MS => {}
            Ok(false) => self.fail(
                Hop::Metrics,
                Trouble::new(
                    format!("/metrics of {} does not have the drill", self.drilled.agent_url),
                    "give --agent.url the address of one agent, not one behind which there are \
                     several",
                ),
            ),
            Err(trouble) => self.fail(Hop::Metrics, trouble),
        }
    }

    fn alertmanager(
        &mut self,
        (index, at_ms): (usize, u64),
        look: Result<AlertmanagerLook, Trouble>,
        said: &mut Vec<Said>,
    ) {
        let Some(known) = self.alertmanagers.get_mut(index) else { return };
        match look {
            Ok(look) => known.take(&self.drilled, at_ms, look),
            Err(trouble) => {
                let words = trouble.to_string();
                (known.look, known.trouble) = (None, Some(trouble));
                if self.alertmanagers.len() > 1 {
                    self.warn(words, said);
                }
            }
        }
    }

    /// Each Prometheus on its own way; the drill is as far as the first of them.
    fn follow_replicas(&mut self, at_ms: u64, said: &mut Vec<Said>) {
        let are_several = self.replicas.len() > 1;
        for index in 0..self.replicas.len() {
            let Some(replica) = self.replicas.get_mut(index) else { return };
            let next = match replica.hop {
                _ if replica.failed.is_some() => continue,
                Hop::Scraped => Hop::Rule,
                Hop::Rule => Hop::Firing,
                Hop::Firing => Hop::Alertmanager,
                _ => continue,
            };
            let hop = replica.hop;
            match replica.step(&self.drilled, at_ms) {
                Step::Wait | Step::Unseen(_) => {}
                Step::Passed(mut words) => {
                    (replica.hop, replica.since_ms) = (next, at_ms);
                    // It was not asked for what the next hop needs.
                    replica.last = Err(unasked());
                    if are_several {
                        words += &format!(", by {}", replica.url);
                    }
                    if self.hop == hop {
                        self.pass(next, at_ms, words, said);
                    }
                }
                Step::Failed(why) => {
                    replica.failed = Some((hop, why.clone()));
                    if are_several {
                        self.warn(why.to_string(), said);
                    }
                }
            }
        }
        if self.replicas.iter().all(|replica| replica.failed.is_some()) {
            let failed = self.replicas.iter().filter_map(|replica| replica.failed.clone());
            if let Some((hop, why)) = failed.max_by_key(|(hop, _)| *hop) {
                self.fail(hop, why);
            }
        }
    }

    fn follow_alertmanagers(&mut self, at_ms: u64, said: &mut Vec<Said>) {
        while self.outcome.is_none() {
            if matches!(self.hop, Hop::Receiver | Hop::Notified) && self.is_away(at_ms) {
                return;
            }
            let late = at_ms.saturating_sub(self.since_ms) > self.limit_ms();
            let (all, drilled) = (&self.alertmanagers, &self.drilled);
            let (step, next) = match self.hop {
                Hop::Alertmanager => {
                    let fired = self.replicas.iter().filter(|it| it.hop > Hop::Firing);
                    let notified = fired.clone().find_map(|it| it.notified.as_ref());
                    let refused: Vec<String> = fired.flat_map(|it| it.refused.clone()).collect();
                    let step = alertmanager::arrived(drilled, all, notified, &refused, late);
                    (step, Hop::Receiver)
                }
                Hop::Receiver => (alertmanager::received(drilled, all, late), Hop::Notified),
                Hop::Notified => (alertmanager::notified(drilled, all, at_ms, late), Hop::Resolved),
                _ => return,
            };
            match step {
                Step::Wait => return,
                Step::Failed(why) => self.fail(self.hop, why),
                Step::Unseen(why) => self.outcome = Some(Outcome::Unseen(why)),
                Step::Passed(_) if self.hop == Hop::Notified && !self.was_sent => {
                    self.was_sent = true;
                    return;
                }
                Step::Passed(words) => {
                    if self.hop == Hop::Notified {
                        self.open = self.left_open();
                    }
                    self.pass(next, at_ms, words, said);
                    match self.hop {
                        Hop::Resolved => self.outcome = Some(Outcome::Notified),
                        Hop::Notified => self.say_what_waits(said),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Whether the alert is not in Alertmanager, and may still come back: one that was restarted
    /// gets it again with Prometheus' next word, and whether the agent ended it is known soon.
    fn is_away(&mut self, at_ms: u64) -> bool {
        let has_look = self.alertmanagers.iter().any(|known| known.look.is_some());
        if !has_look || !alertmanager::is_over(&self.drilled, &self.alertmanagers) {
            if self.gone_ms.take().is_some() {
                self.since_ms = at_ms;
            }
            return false;
        }
        at_ms.saturating_sub(*self.gone_ms.get_or_insert(at_ms)) <= RESEND_MS + SLACK_MS
    }

    fn say_what_waits(&mut self, said: &mut Vec<Said>) {
        if let Some(other) = alertmanager::joined(&self.drilled, &self.alertmanagers) {
            let words = format!(
                "it joined a group that was notified before, with {other}: now it waits for \
                 `group_interval`, as a real alert would"
            );
            self.warn(words, said);
        }
    }

    /// How long the hop that was not passed yet may take.
    fn limit_ms(&self) -> u64 {
        let pace = self.replicas.iter().map(|replica| replica.pace);
        let of_replicas = pace.map(|pace| pace.limit_ms(self.hop)).max().unwrap_or(SLACK_MS);
        if self.hop != Hop::Notified {
            return of_replicas;
        }
        let routes = || alertmanager::routes(&self.drilled, &self.alertmanagers);
        let wait_ms = routes().map(|it| it.group_wait_ms).max().unwrap_or(GROUP_WAIT_MS);
        let joined = alertmanager::joined(&self.drilled, &self.alertmanagers).is_some();
        let interval_ms = routes().map(|it| it.group_interval_ms).max().filter(|_| joined);
        // One that answers slowly has not said yet how it is now.
        let answer_ms =
            self.alertmanagers.iter().map(|known| known.looks.late_ms()).max().unwrap_or(0);
        notified_ms(wait_ms + interval_ms.unwrap_or(0), self.alertmanagers.len()) + answer_ms
    }

    fn resolved(&mut self, at_ms: u64, said: &mut Vec<Said>) {
        // Also one that had only scraped it: its alert would come after all.
        let asked = self.replicas.iter().filter(|replica| replica.failed.is_none());
        let looks: Vec<_> = asked.map(|replica| (&replica.url, &replica.last)).collect();
        let is_over = |look: &PrometheusLook| prometheus::is_over(&self.drilled, look);
        let in_prometheus =
            looks.iter().find(|(_, look)| !look.as_ref().is_ok_and(|it| is_over(it)));
        let has_look = self.alertmanagers.iter().any(|known| known.look.is_some());
        let everywhere = has_look && alertmanager::is_over(&self.drilled, &self.alertmanagers);
        let waited_ms = at_ms.saturating_sub(self.since_ms);
        // What Prometheus does not end, Alertmanager ends four minutes after its last word.
        let pace = self.replicas.iter().map(|it| it.pace.evaluation_ms.max(RESEND_MS));
        let forgotten_ms = 4 * pace.max().unwrap_or(RESEND_MS);
        match in_prometheus {
            None if everywhere => {
                said.push(Said::Passed(
                    Hop::Resolved,
                    "in Prometheus and in Alertmanager".to_owned(),
                ));
                self.outcome = Some(Outcome::Over);
            }
            Some((url, Ok(_))) if waited_ms > self.limit_ms() => {
                let saw = format!("Prometheus at {url} still has it");
                self.fail(
                    Hop::Resolved,
                    Trouble::new(
                        saw,
                        "see whether this Prometheus still scrapes the agent and evaluates rules",
                    ),
                );
            }
            Some((_, Err(trouble))) if everywhere && waited_ms > self.limit_ms() => {
                self.fail(Hop::Resolved, trouble.clone());
            }
            _ if waited_ms > self.limit_ms() && !has_look => {
                let known = self.alertmanagers.iter().find_map(|known| known.trouble.clone());
                self.fail(Hop::Resolved, known.unwrap_or_else(unasked));
            }
            _ if waited_ms > self.limit_ms() + forgotten_ms => {
                let saw = "it is over in Prometheus, and Alertmanager still has it";
                let remedy = "Alertmanager ends it minutes after Prometheus' last word; see \
                              whether Prometheus reaches it";
                self.fail(Hop::Resolved, Trouble::new(saw, remedy));
            }
            _ => {}
        }
    }
}
