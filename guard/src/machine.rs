//! The state machine of one guard.

use alloc::collections::VecDeque;

use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::Wanted;

use crate::exchange::{Action, End, Input, Outcome, Reply, Why};
use crate::hold::{Hold, Overrun};
use crate::runs::Runs;
use crate::terms::{Restart, Terms};

/// Pause before a request that failed is sent again, in milliseconds.
const AGAIN_MS: u64 = 250;
/// Longest pause between two attempts to get a lock that another client holds, in milliseconds: a
/// release may be announced to nobody.
const LOOK_MS: u64 = 2_000;
/// An attempt comes so long after the other hold ends, in milliseconds.
const AFTER_END_MS: u64 = 5;
/// A lease is shortened by at least this, in milliseconds, so that nobody takes it for a renewal.
const SHORTER_MS: u64 = 250;

/// One guard.
#[derive(Clone, Debug)]
pub struct Guard {
    terms: Terms,
    state: State,
    wanted: Wanted,
    /// Whether it has ever learned whether the task is wanted, or that this is unknown.
    heard: bool,
    asked: bool,
    /// Until when to wait for the lock for the first time.
    patience: Option<Mono>,
    /// What the newest attempt to take the lock found, other than the lock.
    found: Option<Found>,
    /// The requests that are not answered yet, oldest first.
    requests: VecDeque<Request>,
    /// Failures of the script in a row.
    failures: u32,
    runs: Runs,
    code: Option<u8>,
    random: u64,
    actions: VecDeque<Action>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Another holder.
    Busy,
    /// No answer, so that the lock may have been taken.
    Doubt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Take { sent: Mono },
    Renew { sent: Mono },
    Look,
    Release,
    Leave { left_ms: u64 },
}

#[derive(Clone, Debug)]
enum State {
    /// Without the lock. `at`: when to try for it, while it is wanted.
    Waiting {
        at: Mono,
    },
    /// An attempt is in flight. `changed`: something changed meanwhile, so its answer may be old.
    Taking {
        changed: bool,
    },
    /// With the lock.
    Holding(Holding),
    /// The lock is being given back. `again`: when to try for it after that.
    Releasing {
        again: Mono,
        last: Option<Outcome>,
    },
    Ended,
}

#[derive(Clone, Debug)]
struct Holding {
    hold: Hold,
    /// When the next renewal is due; `None`: a request is in flight.
    renew_at: Option<Mono>,
    /// Something changed since the newest request was sent.
    changed: bool,
    script: Script,
    /// When the script first started under this hold.
    first_start: Option<Mono>,
    /// Another client may have the lock.
    lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    /// It does not run; it is due then.
    Due {
        at: Mono,
    },
    Running {
        since: Mono,
    },
    /// It is to end. `kill_at`: its time is over then.
    Stopping {
        why: Why,
        kill_at: Mono,
        killed: bool,
    },
    /// It ended for good. The lock is kept until then, its lease in full up to `shown`, and for
    /// as long after each renewal.
    Done {
        until: Mono,
        shown: Mono,
    },
}

impl Guard {
    /// A guard that begins at `now`. `seed` makes its pauses differ from those of others. Until it
    /// learns otherwise, the task counts as not wanted.
    pub fn new(terms: Terms, now: Mono, seed: u64) -> Guard {
        Guard {
            terms,
            state: State::Waiting { at: now },
            wanted: Wanted::Unknown,
            heard: false,
            asked: false,
            patience: terms.wait_ms.map(|wait_ms| now.plus_ms(wait_ms)),
            found: None,
            requests: VecDeque::new(),
            failures: 0,
            runs: Runs::default(),
            code: None,
            random: seed | 1,
            actions: VecDeque::new(),
        }
    }

    /// Takes in what happened by `now`. Instants must not decrease.
    pub fn handle(&mut self, now: Mono, input: Input) {
        self.heard |= matches!(input, Input::Wanted(_));
        match input {
            Input::Wanted(Wanted::Unknown) => {}
            Input::Wanted(wanted) => {
                self.wanted = wanted;
                if wanted == Wanted::No {
                    self.forget_failures(now);
                }
            }
            Input::Stop => {
                self.asked = true;
                self.runs.stop(now);
            }
            Input::Replied(reply) => self.replied(now, reply),
            Input::Changed => self.changed(now),
            Input::Gone { code, at } => self.gone(now, code, at),
        }
    }

    /// What to do at `now`; `None`: nothing before the next input, or before [`Guard::next_wake`].
    pub fn poll(&mut self, now: Mono) -> Option<Action> {
        if self.actions.is_empty() {
            self.advance(now);
        }
        self.actions.pop_front()
    }

    /// When time alone makes something due.
    pub fn next_wake(&self) -> Option<Mono> {
        let of_lock = match &self.state {
            State::Waiting { at } => {
                let tries = self.wanted == Wanted::Yes && !self.asked;
                let patience = self.patience.filter(|_| self.has_tried());
                [tries.then_some(*at), patience].into_iter().flatten().min()
            }
            State::Holding(holding) => Some(holding.next_wake(&self.terms)),
            State::Taking { .. } | State::Releasing { .. } | State::Ended => None,
        };
        if self.actions.is_empty() { of_lock } else { Some(Mono::at(0)) }
    }

    /// Whether the lock is held, as far as is known.
    pub fn holds(&self) -> bool {
        matches!(self.state, State::Holding(_))
    }

    /// The runs of the script.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Whether another client has the lock, as far as is known, so that this guard waits for it.
    pub fn waits(&self) -> bool {
        self.found == Some(Found::Busy)
            && matches!(self.state, State::Waiting { .. } | State::Taking { .. })
    }

    /// Nobody wants the task: a new wish begins with a fresh backoff.
    fn forget_failures(&mut self, now: Mono) {
        self.failures = 0;
        match &mut self.state {
            State::Waiting { at } | State::Releasing { again: at, .. } => *at = now.min(*at),
            State::Holding(Holding { script: Script::Due { at }, .. }) => *at = now.min(*at),
            State::Holding(_) | State::Taking { .. } | State::Ended => {}
        }
    }

    fn replied(&mut self, now: Mono, reply: Reply) {
        let Some(request) = self.requests.pop_front() else { return };
        match (&mut self.state, request) {
            (State::Taking { changed }, Request::Take { sent }) => {
                let changed = *changed;
                self.taken(now, sent, changed, reply);
            }
            (State::Holding(holding), Request::Renew { .. } | Request::Look) => {
                holding.replied(now, request, reply, &self.terms, &mut self.actions);
            }
            (State::Releasing { again, last }, Request::Release | Request::Leave { .. }) => {
                let (again, last) = (*again, *last);
                self.state = State::Waiting { at: again.max(now) };
                if let Some(outcome) = last {
                    self.end(outcome);
                }
            }
            // The hold that it was about is over.
            _ => {}
        }
    }

    /// An attempt to take the lock was answered.
    fn taken(&mut self, now: Mono, sent: Mono, changed: bool, reply: Reply) {
        let (found, state) = match reply {
            Reply::Taken { token } => {
                self.patience = None;
                (None, State::Holding(Holding::new(Hold { sent, token }, now, &self.terms)))
            }
            Reply::Busy { left_ms } => {
                let pause_ms =
                    left_ms.map_or(LOOK_MS, |left_ms| left_ms.saturating_add(AFTER_END_MS));
                let at = if changed { now } else { now.plus_ms(pause_ms.min(LOOK_MS)) };
                (Some(Found::Busy), State::Waiting { at })
            }
            _ => (Some(Found::Doubt), State::Waiting { at: now.plus_ms(AGAIN_MS) }),
        };
        (self.found, self.state) = (found, state);
    }

    fn request(&mut self, request: Request) {
        self.requests.push_back(request);
        self.actions.push_back(match request {
            Request::Take { .. } => Action::Take,
            Request::Renew { .. } => Action::Renew,
            Request::Look => Action::Look,
            Request::Release => Action::Release,
            Request::Leave { left_ms } => Action::Leave { left_ms },
        });
    }

    fn changed(&mut self, now: Mono) {
        match &mut self.state {
            State::Waiting { at } if self.found == Some(Found::Busy) => *at = now.min(*at),
            State::Taking { changed } => *changed = true,
            State::Holding(holding) => holding.changed = true,
            _ => {}
        }
    }

    /// The script is gone.
    fn gone(&mut self, now: Mono, code: Option<u8>, at: Mono) {
        let State::Holding(holding) = &mut self.state else { return };
        self.runs.end(code, at, matches!(holding.script, Script::Stopping { .. }));
        self.code = self.runs.ended().last().map(|run| run.code);
        let from = holding.hold.end(&self.terms);
        if at > from {
            let token = holding.hold.token;
            self.actions.push_back(Action::Report(Overrun { token, from, to: at }));
        }
        match holding.script {
            Script::Due { .. } | Script::Done { .. } => {}
            Script::Stopping { why, .. } => self.stopped(now, why),
            Script::Running { since } => self.ended(now, code, at.since_ms(since)),
        }
    }

    /// The script was stopped.
    fn stopped(&mut self, now: Mono, why: Why) {
        let last = match why {
            Why::Unwanted => None,
            Why::Asked => Some(Outcome::Stopped),
            Why::NotRenewed | Why::Lost => self.never_again().then_some(Outcome::Lost),
        };
        self.leave(now, last);
    }

    /// The script ended by itself after `ran_ms`.
    fn ended(&mut self, now: Mono, code: Option<u8>, ran_ms: u64) {
        let succeeded = code == Some(0);
        if succeeded || ran_ms >= Terms::GOOD_MS {
            self.failures = 0;
        }
        if !succeeded {
            self.failures = self.failures.saturating_add(1);
        }
        if self.never_again() || (succeeded && self.terms.restart == Restart::OnFailure) {
            return self.finish(now);
        }
        let pause_ms = self.backoff_ms();
        if self.terms.give_up_after.is_some_and(|limit| self.failures >= limit) {
            self.failures = 0;
            // The others need time to take it.
            return self.leave(now.plus_ms(pause_ms.max(self.terms.backoff_ms.1)), None);
        }
        if let State::Holding(holding) = &mut self.state {
            holding.script = Script::Due { at: now.plus_ms(pause_ms) };
        }
    }

    /// The script ended for good. The lock may have to be kept for some time.
    fn finish(&mut self, now: Mono) {
        if let State::Holding(holding) = &mut self.state
            && let Some(first_start) = holding.first_start
        {
            let until = first_start.plus_ms(self.terms.at_least_ms);
            if until > now {
                let shown = first_start.plus_ms(self.terms.shown_ms);
                holding.script = Script::Done { until, shown };
                return;
            }
        }
        self.leave(now, Some(Outcome::Done));
    }

    fn never_again(&self) -> bool {
        self.terms.restart == Restart::Never
    }

    /// Gives the lock back, and tries for it again from `again` on; `last`: never again.
    fn leave(&mut self, again: Mono, last: Option<Outcome>) {
        let is_lost = matches!(&self.state, State::Holding(holding) if holding.lost);
        if !is_lost {
            self.state = State::Releasing { again, last };
            return self.request(Request::Release);
        }
        self.state = State::Waiting { at: again };
        if let Some(outcome) = last {
            self.end(outcome);
        }
    }

    fn end(&mut self, outcome: Outcome) {
        self.state = State::Ended;
        self.actions.push_back(Action::End(End { outcome, code: self.code }));
    }

    /// The pause before the next start: twice as long after each failure, and up to a half longer.
    fn backoff_ms(&mut self) -> u64 {
        let (first_ms, longest_ms) = self.terms.backoff_ms;
        let doubled = self.failures.saturating_sub(1).min(32);
        let pause_ms = first_ms.saturating_mul(1 << doubled).min(longest_ms);
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        pause_ms.saturating_add(self.random % (pause_ms / 2 + 1)).min(longest_ms)
    }

    fn advance(&mut self, now: Mono) {
        let State::Waiting { at } = self.state else {
            if let State::Holding(_) = self.state {
                self.advance_hold(now);
            }
            return;
        };
        let is_over = self.patience.is_some_and(|until| now >= until) && self.has_tried();
        let outcome = match self.found {
            _ if self.asked => Outcome::Stopped,
            Some(Found::Doubt) => Outcome::NoStore,
            // Nobody could even say whether it is wanted.
            None if self.wanted == Wanted::Unknown => Outcome::NoStore,
            None if self.wanted == Wanted::No => Outcome::NotWanted,
            Some(Found::Busy) | None => Outcome::NotTaken,
        };
        if self.found == Some(Found::Doubt) && (self.asked || self.wanted == Wanted::No) {
            self.found = None;
            self.leave(now, self.asked.then_some(outcome));
        } else if self.asked || is_over {
            self.end(outcome);
        } else if self.wanted == Wanted::Yes && now >= at {
            self.state = State::Taking { changed: false };
            self.request(Request::Take { sent: now });
        }
    }

    /// Whether an attempt to take the lock was answered, or could not be made: however short the
    /// patience, it allows one.
    fn has_tried(&self) -> bool {
        self.found.is_some() || (self.heard && self.wanted != Wanted::Yes)
    }

    /// Keeps the lock after the script has ended for good, until it can be left to itself.
    fn advance_done(&mut self, now: Mono) {
        let State::Holding(holding) = &mut self.state else { return };
        let Script::Done { until, shown } = holding.script else { return };
        // Agents must see each renewal by itself: together with what is left it would look like one
        // that came to less.
        let is_shown = now >= shown && now >= holding.hold.sent.plus_ms(self.terms.shown_ms);
        let (end, is_lost) = (holding.hold.end(&self.terms), holding.lost);
        // What is left must be less than before: a longer lease would look like a renewal.
        let latest = end.minus_ms(SHORTER_MS);
        if until <= latest {
            holding.renew_at = None;
        }
        let due = holding.due(now, &self.terms);
        let can_be_left = (is_shown && until <= latest) || (self.asked && now < latest);
        if is_lost || now >= until.min(end) || (self.asked && !can_be_left) {
            self.leave(now, Some(Outcome::Done));
        } else if can_be_left {
            let left_ms = until.min(latest).since_ms(now);
            self.state = State::Releasing { again: now, last: Some(Outcome::Done) };
            self.request(Request::Leave { left_ms });
        } else if let Some(request) = due {
            self.request(request);
        }
    }

    fn advance_hold(&mut self, now: Mono) {
        let State::Holding(holding) = &mut self.state else { return };
        if let Script::Done { .. } = holding.script {
            return self.advance_done(now);
        }
        let stop = match self.wanted {
            _ if holding.lost => Some(Why::Lost),
            _ if self.asked => Some(Why::Asked),
            Wanted::No => Some(Why::Unwanted),
            _ if now >= holding.hold.stop_by(&self.terms) => Some(Why::NotRenewed),
            _ => None,
        };
        holding.advance(now, stop, &self.terms, &mut self.actions);
        if let Script::Running { since } = holding.script {
            self.runs.since = Some(since);
        }
        let (is_idle, is_over) =
            (matches!(holding.script, Script::Due { .. }), now >= holding.hold.end(&self.terms));
        let request = holding.due(now, &self.terms);
        match stop {
            Some(Why::Asked) if is_idle => self.leave(now, Some(Outcome::Stopped)),
            Some(Why::Unwanted) if is_idle => self.leave(now, None),
            // Who has the lock now is seen by the next attempt.
            Some(Why::Lost) if is_idle => self.leave(now, None),
            Some(Why::NotRenewed) if is_idle && is_over => self.leave(now, None),
            _ => {
                if let Some(request) = request {
                    self.request(request);
                }
            }
        }
    }
}

impl Holding {
    fn new(hold: Hold, now: Mono, terms: &Terms) -> Holding {
        let renew_at = Some(hold.sent.plus_ms(terms.period_ms()));
        let script = Script::Due { at: now };
        Holding { hold, renew_at, changed: false, script, first_start: None, lost: false }
    }

    fn replied(
        &mut self,
        now: Mono,
        request: Request,
        reply: Reply,
        terms: &Terms,
        actions: &mut VecDeque<Action>,
    ) {
        self.lost |= reply == Reply::NotOurs;
        self.renew_at = Some(match (request, reply) {
            (Request::Renew { sent }, Reply::Renewed) => {
                self.hold.sent = sent;
                if matches!(self.script, Script::Running { .. } | Script::Stopping { .. }) {
                    actions.push_back(Action::Extend { dead_by: self.hold.dead_by(terms) });
                }
                sent.plus_ms(terms.period_ms())
            }
            // What a look did not find out, the renewal does.
            (Request::Renew { .. }, _) | (_, Reply::Failed) => {
                now.plus_ms(AGAIN_MS.min(terms.period_ms()))
            }
            _ => self.hold.sent.plus_ms(terms.period_ms()).max(now),
        });
    }

    fn advance(
        &mut self,
        now: Mono,
        stop: Option<Why>,
        terms: &Terms,
        actions: &mut VecDeque<Action>,
    ) {
        match (&mut self.script, stop) {
            (Script::Running { .. }, Some(why)) => self.stop(now, why, terms, actions),
            (Script::Stopping { kill_at, .. }, Some(Why::Lost)) => *kill_at = now.min(*kill_at),
            (Script::Due { at }, None) if now >= *at => {
                self.script = Script::Running { since: now };
                self.first_start.get_or_insert(now);
                let (token, dead_by) = (self.hold.token, self.hold.dead_by(terms));
                actions.push_back(Action::Start { token, dead_by });
            }
            _ => {}
        }
        if let Script::Stopping { why, kill_at, killed } = &mut self.script
            && !*killed
            && now >= (*kill_at).min(self.hold.dead_by(terms))
        {
            *killed = true;
            actions.push_back(Action::Kill(*why));
        }
    }

    /// The request that is due.
    fn due(&mut self, now: Mono, terms: &Terms) -> Option<Request> {
        let renew_at = self.renew_at.filter(|_| !self.lost)?;
        let request = if now >= renew_at && now < self.hold.end(terms) {
            Request::Renew { sent: now }
        } else if self.changed {
            Request::Look
        } else {
            return None;
        };
        (self.renew_at, self.changed) = (None, false);
        Some(request)
    }

    fn stop(&mut self, now: Mono, why: Why, terms: &Terms, actions: &mut VecDeque<Action>) {
        // Somebody else may run it already.
        let stop_after_ms = if why == Why::Lost { 0 } else { terms.stop_after_ms };
        let kill_at = now.plus_ms(stop_after_ms);
        self.script = Script::Stopping { why, kill_at, killed: false };
        if kill_at > now && now < self.hold.dead_by(terms) {
            actions.push_back(Action::Terminate(why));
        }
    }

    fn next_wake(&self, terms: &Terms) -> Mono {
        let of_script = match self.script {
            Script::Due { at } if at < self.hold.stop_by(terms) => at,
            Script::Due { .. } => self.hold.end(terms),
            Script::Running { .. } => self.hold.stop_by(terms),
            Script::Done { until, shown } => {
                let end = self.hold.end(terms);
                let shown = shown.max(self.hold.sent.plus_ms(terms.shown_ms));
                let can_be_left = until <= end.minus_ms(SHORTER_MS);
                if can_be_left { shown.min(until) } else { until.min(end) }
            }
            Script::Stopping { killed: true, .. } => Mono::MAX,
            Script::Stopping { kill_at, .. } => kill_at.min(self.hold.dead_by(terms)),
        };
        let of_lock = match self.renew_at {
            None => Mono::MAX,
            Some(_) if self.lost => Mono::MAX,
            Some(_) if self.changed => Mono::at(0),
            Some(renew_at) if renew_at < self.hold.end(terms) => renew_at,
            Some(_) => Mono::MAX,
        };
        of_script.min(of_lock)
    }
}
