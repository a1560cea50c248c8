//! The drill: a synthetic task that is down, published with the labels of a real one, in order to
//! try the way of an alert to a human. One at a time: it ends when it is stopped, when nobody
//! renews it, after its time, when the configuration no longer allows it, and with the agent.
//!
//! This decides only; each instant is an argument.

use std::fmt;
use std::sync::Arc;

use lockwatch_judge::event::DrillEnd;
use lockwatch_judge::spec::TaskSpec;
use lockwatch_judge::time::{AgentWall, Mono};

use crate::text::identity::escape;
use crate::text::instants::rfc3339;

/// The longest that a drill may last, in milliseconds.
const LONGEST_MS: u64 = 15 * 60_000;
/// A drill ends when it was not renewed for so long.
const RENEWED_WITHIN_MS: u64 = 30_000;
/// How long the next drill must wait after one that reached a human, or may have.
const PAUSE_MS: u64 = 10 * 60_000;
/// A drill that ended not longer ago may have another one follow without that pause: until then the
/// end of its alert is awaited, which takes minutes where scrapes and evaluations do.
const FOLLOWED_WITHIN_MS: u64 = 5 * 60_000;

/// A drill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drill {
    /// Names the agent and the drill.
    pub id: Arc<str>,
    /// What it has the labels of.
    pub of: Subject,
    /// When it began.
    pub began: Mono,
    /// The same on the agent's wall clock.
    pub began_at: AgentWall,
    /// When it ends at the latest; when it ended, once it has.
    pub ends: Mono,
}

/// What a drill has the labels of, and who began it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The task.
    pub task: Arc<TaskSpec>,
    /// The name of its store.
    pub store: Arc<str>,
    /// The severity, if it is another one than that of the task's critical alerts.
    pub severity: Option<Arc<str>>,
    /// The user, where users log in.
    pub by: Option<Arc<str>>,
}

impl Drill {
    /// When it ends, on the agent's wall clock.
    pub fn ends_at(&self) -> AgentWall {
        let lasts_ms = i64::try_from(self.ends.since_ms(self.began)).unwrap_or(i64::MAX);
        AgentWall(self.began_at.0.saturating_add(lasts_ms))
    }

    /// The agent that an id names.
    pub fn instance_of(id: &str) -> &str {
        id.rsplit_once('-').map_or(id, |(instance, _)| instance)
    }
}

/// Which drill, in a sentence.
impl fmt::Display for Drill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = escape(self.of.task.name.as_bytes());
        let began = rfc3339(self.began_at.0).unwrap_or_default();
        write!(f, "a drill of task {task} since {began}")?;
        self.of.by.as_ref().map_or(Ok(()), |by| write!(f, ", by {}", escape(by.as_bytes())))
    }
}

/// Why a request about drills is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The configuration does not allow drills.
    NotAllowed,
    /// There is no such task: what may be meant.
    NoTask(String),
    /// Another one runs.
    Runs(Arc<Drill>),
    /// It must wait for so many seconds.
    TooEarly(u64),
    /// The id is another agent's.
    OfAnother {
        /// Who answers.
        here: Arc<str>,
    },
    /// It is over; why is known of the newest one only.
    Over(Option<DrillEnd>),
    /// It cannot be published: the engine does not answer.
    Unpublished,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotAllowed => f.write_str(
                "Drills are not allowed here. Write `drill: true` at the top of the agent's \
                 configuration, and reload it.",
            ),
            Refusal::NoTask(why) => f.write_str(why),
            Refusal::Runs(drill) => write!(
                f,
                "One drill at a time: there is {drill}. `lockwatch drill --stop` ends it."
            ),
            Refusal::TooEarly(seconds) => write!(
                f,
                "The drill before this one reached somebody, or may have: the next one can begin \
                 in {seconds} s."
            ),
            Refusal::OfAnother { here } => write!(
                f,
                "This drill is another agent's, or ended with a restart of this one: this is \
                 {here} now. Ask the agent that began it; of several behind one address, each by \
                 its own."
            ),
            Refusal::Over(why) => {
                let why = why.map(|why| format!(": {}", words(why))).unwrap_or_default();
                write!(f, "This drill is over{why}.")
            }
            Refusal::Unpublished => f.write_str(
                "The agent's engine does not answer, so there is no drill: see its log, or it is \
                 being stopped.",
            ),
        }
    }
}

/// Why a drill ended, in words.
pub fn words(why: DrillEnd) -> &'static str {
    match why {
        DrillEnd::Stopped => "it was stopped",
        DrillEnd::NotRenewed => "nobody renewed it for 30 s",
        DrillEnd::TimeOver => "its time was over",
        DrillEnd::Reloaded => "a configuration was loaded that forbids drills, or lacks its task",
        DrillEnd::Unpublished => "the agent's engine did not answer",
        DrillEnd::AgentStopped => "the agent was stopped",
    }
}

/// Something to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A drill began.
    Began(Arc<Drill>),
    /// A drill ended.
    Ended(Arc<Drill>, DrillEnd),
}

/// The drills of an agent.
#[derive(Debug)]
pub struct Drills {
    /// Identifies the agent.
    instance: Arc<str>,
    count: u64,
    running: Option<Running>,
    newest: Option<Over>,
    news: Vec<News>,
}

#[derive(Debug)]
struct Running {
    drill: Arc<Drill>,
    renewed: Mono,
}

impl Running {
    /// When it ends unless something happens, and why.
    fn end(&self) -> (Mono, DrillEnd) {
        let lapses = self.renewed.plus_ms(RENEWED_WITHIN_MS);
        match lapses < self.drill.ends {
            true => (lapses, DrillEnd::NotRenewed),
            false => (self.drill.ends, DrillEnd::TimeOver),
        }
    }
}

/// The newest drill that ended.
#[derive(Debug)]
struct Over {
    drill: Arc<Drill>,
    why: DrillEnd,
    /// Whether a notification was sent, as far as anybody said.
    notified: Option<bool>,
}

impl Drills {
    /// None yet.
    pub fn new(instance: Arc<str>) -> Drills {
        Drills { instance, count: 0, running: None, newest: None, news: Vec::new() }
    }

    /// Begins one that lasts for `seconds` at most. `after`: the id of the one that it follows.
    ///
    /// # Errors
    /// One runs, or it is too early.
    pub fn start(
        &mut self,
        (now, wall): (Mono, AgentWall),
        of: Subject,
        seconds: u64,
        after: Option<&str>,
    ) -> Result<Arc<Drill>, Refusal> {
        self.settle(now);
        if let Some(running) = &self.running {
            return Err(Refusal::Runs(Arc::clone(&running.drill)));
        }
        if let Some(wait_ms) = self.newest.as_ref().and_then(|over| over.pause(now, after)) {
            return Err(Refusal::TooEarly(wait_ms.div_ceil(1_000)));
        }
        self.count += 1;
        let id = format!("{}-{}", self.instance, self.count).into();
        let ends = now.plus_ms(seconds.saturating_mul(1_000).min(LONGEST_MS));
        let drill = Arc::new(Drill { id, of, began: now, began_at: wall, ends });
        self.running = Some(Running { drill: Arc::clone(&drill), renewed: now });
        self.news.push(News::Began(Arc::clone(&drill)));
        Ok(drill)
    }

    /// Lets the one with this id go on.
    ///
    /// # Errors
    /// It is none of this agent's, or is over.
    pub fn renew(&mut self, now: Mono, id: &str) -> Result<Arc<Drill>, Refusal> {
        self.settle(now);
        match &mut self.running {
            Some(running) if *running.drill.id == *id => {
                running.renewed = now;
                Ok(Arc::clone(&running.drill))
            }
            _ => Err(self.unknown(id)),
        }
    }

    /// Ends the one with this id. Of the newest one this may be said when it is over, so that a
    /// reply that was lost, or came late, changes nothing.
    ///
    /// # Errors
    /// It is none of this agent's, or another one began since.
    pub fn stop(&mut self, now: Mono, id: &str, notified: bool) -> Result<Arc<Drill>, Refusal> {
        self.settle(now);
        if self.running.as_ref().is_some_and(|running| *running.drill.id == *id) {
            self.end(now, DrillEnd::Stopped);
        }
        let unknown = self.unknown(id);
        let over = self.newest.as_mut().filter(|over| *over.drill.id == *id).ok_or(unknown)?;
        over.notified = Some(notified || over.notified == Some(true));
        Ok(Arc::clone(&over.drill))
    }

    /// Ends the one that runs, if there is one.
    pub fn end(&mut self, now: Mono, why: DrillEnd) {
        let Some(Running { drill, .. }) = self.running.take() else { return };
        let drill = Arc::new(Drill { ends: now, ..Drill::clone(&drill) });
        self.news.push(News::Ended(Arc::clone(&drill), why));
        self.newest = Some(Over { drill, why, notified: None });
    }

    /// Ends what has lapsed by now.
    pub fn settle(&mut self, now: Mono) {
        if let Some((at, why)) =
            self.running.as_ref().map(Running::end).filter(|(at, _)| *at <= now)
        {
            self.end(at, why);
        }
    }

    /// The one that runs.
    pub fn running(&self) -> Option<&Arc<Drill>> {
        self.running.as_ref().map(|running| &running.drill)
    }

    /// When to [`settle`](Drills::settle) at the latest.
    pub fn due(&self) -> Option<Mono> {
        self.running.as_ref().map(|running| running.end().0)
    }

    /// What happened since this was asked last.
    pub fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Why there is no drill with this id.
    fn unknown(&self, id: &str) -> Refusal {
        if Drill::instance_of(id) != &*self.instance {
            return Refusal::OfAnother { here: Arc::clone(&self.instance) };
        }
        let newest = self.newest.as_ref().filter(|over| *over.drill.id == *id);
        Refusal::Over(newest.map(|over| over.why))
    }
}

impl Over {
    /// How many milliseconds the next one has to wait.
    fn pause(&self, now: Mono, after: Option<&str>) -> Option<u64> {
        let ago_ms = now.since_ms(self.drill.ends);
        let follows = after == Some(&*self.drill.id) && ago_ms < FOLLOWED_WITHIN_MS;
        let may_have_notified = self.notified.unwrap_or(true);
        PAUSE_MS.checked_sub(ago_ms).filter(|wait| *wait > 0 && may_have_notified && !follows)
    }
}

#[cfg(test)]
mod tests;
