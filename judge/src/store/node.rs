//! Tracks one server over time: its reachability, what it reports about itself, and its clock.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::event::EventKind;
use crate::input::{Attestation, Generation, Refusal, Role, Standing, WakeUps};
use crate::reading::Unknown;
use crate::snapshot::NodeView;
use crate::time::{Mono, ServerTime};

/// Maximum drift of a server's clock against the agent's between batches, in milliseconds. A larger
/// one counts as a step.
const CLOCK_STEP_MS: u64 = 1_000;
/// Number of batches whose quickest one gives the displayed clock offset. A slow answer measures
/// the offset poorly.
const OFFSET_BATCHES: u8 = 30;
/// Maximum number of replication histories remembered for a server. It bounds memory.
const HISTORIES_MAX: usize = 16;

/// Everything that is known of one server.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) address: Arc<str>,
    standing: Standing,
    /// The role in the decision that those answers had in the newest accepted batch.
    word: Standing,
    /// Whether the newest batch was accepted; `None` before the first.
    newest: Option<Result<(), Unknown>>,
    /// Whether it was readable when it was last tried.
    was_up: bool,
    role: Option<Role>,
    role_verified: Option<bool>,
    last_success: Option<ServerTime>,
    refuses_writes: Option<Refusal>,
    offset: Option<Offset>,
    /// Its clock at the newest batch, and the number of steps so far.
    clock: Option<Reading>,
    steps: u32,
    version: Option<Arc<str>>,
    generation: Option<Arc<Generation>>,
    /// The replication histories that the server was seen to follow, and those that they continue,
    /// newest last.
    histories: Arc<Vec<Vec<u8>>>,
    /// It was a replica once, or its history continues another one.
    replicated: bool,
    connected_before: bool,
    /// Whether it was requested to report changes, and the totals of that over all time.
    is_asked: bool,
    wake_ups: WakeUps,
}

/// The server's clock minus the agent's, and the round trip of the batch that measured it.
#[derive(Clone, Copy, Debug)]
struct Offset {
    ms: i64,
    took_ms: u64,
    age: u8,
}

/// The server's clock together with the agent's monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Reading {
    server: ServerTime,
    sent: Mono,
    took_ms: u64,
}

impl Node {
    pub(crate) fn new(address: Arc<str>) -> Node {
        Node {
            address,
            standing: Standing::Witness,
            word: Standing::Witness,
            newest: None,
            was_up: false,
            role: None,
            role_verified: None,
            last_success: None,
            refuses_writes: None,
            offset: None,
            clock: None,
            steps: 0,
            version: None,
            generation: None,
            histories: Arc::default(),
            replicated: false,
            connected_before: false,
            is_asked: false,
            wake_ups: WakeUps::default(),
        }
    }

    /// The role that its answers have in the decision, as of the newest batch.
    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether the server does not decide, and did not in the newest accepted batch.
    pub(crate) fn witnesses(&self) -> bool {
        self.standing == Standing::Witness && self.word == Standing::Witness
    }

    /// The generation as of the newest accepted batch.
    pub(crate) fn generation(&self) -> Option<&Arc<Generation>> {
        self.generation.as_ref()
    }

    /// All replication histories that the server was seen to follow.
    pub(crate) fn histories(&self) -> &Arc<Vec<Vec<u8>>> {
        &self.histories
    }

    /// Whether the server has been a master of its own history alone for as long as it is watched.
    pub(crate) fn is_original(&self) -> bool {
        self.role_verified == Some(true) && !self.replicated && !self.histories.is_empty()
    }

    /// Whether it can be read is not known any more.
    pub(crate) fn forget(&mut self) {
        self.newest = None;
    }

    /// Sets the role of its answers in the decision.
    pub(crate) fn stands(&mut self, standing: Standing) {
        self.standing = standing;
    }

    /// Whether no attempt was made yet.
    pub(crate) fn untried(&self) -> bool {
        self.newest.is_none()
    }

    /// Whether the newest attempt to read it failed.
    pub(crate) fn unreadable(&self) -> bool {
        matches!(self.newest, Some(Err(_)))
    }

    /// Why the newest attempt to read it failed, if it did.
    pub(crate) fn unknown(&self) -> Option<Unknown> {
        self.newest.and_then(Result::err)
    }

    /// The role reported in the newest batch, if that was accepted.
    pub(crate) fn role(&self) -> Option<Role> {
        if self.newest == Some(Ok(())) { self.role } else { None }
    }

    /// Why it refuses writes, as of the newest batch, if that was accepted.
    pub(crate) fn refuses_writes(&self) -> Option<Refusal> {
        if self.newest == Some(Ok(())) { self.refuses_writes } else { None }
    }

    /// Number of clock steps. Server times from before and after a step cannot be compared.
    pub(crate) fn clock_steps(&self) -> u32 {
        self.steps
    }

    /// An accepted batch, sent at `sent`. Returns whether the clock has stepped since the previous
    /// one.
    pub(crate) fn accepted(
        &mut self,
        attestation: &Attestation,
        standing: Standing,
        sent: Mono,
        took_ms: u64,
        events: &mut Vec<EventKind>,
    ) -> bool {
        if !core::mem::replace(&mut self.was_up, true) {
            events.push(EventKind::StoreUp);
        }
        self.standing = standing;
        self.word = standing;
        self.newest = Some(Ok(()));
        self.role = Some(attestation.role);
        self.role_verified = Some(attestation.role_verified);
        self.replicated |= attestation.role == Role::Replica;
        self.last_success = Some(attestation.last);
        self.refuses_writes = attestation.refuses_writes;
        if let Some(new) = &attestation.generation
            && self.generation.as_deref() != Some(new)
        {
            self.generation = Some(Arc::new(new.clone()));
            self.remember_histories(new);
        }
        let step = self.follow_clock(attestation, sent, took_ms);
        if let Some(by_ms) = step {
            events.push(EventKind::ClockStep { by_ms });
        }
        step.is_some()
    }

    fn remember_histories(&mut self, generation: &Generation) {
        self.replicated |= generation.forked_from.is_some();
        let forked_from = generation.forked_from.as_ref().map(|fork| &fork.history);
        for id in forked_from.into_iter().chain([&generation.history]) {
            if !id.is_empty() && !self.histories.contains(id) {
                let histories = Arc::make_mut(&mut self.histories);
                if histories.len() >= HISTORIES_MAX {
                    histories.remove(0);
                }
                histories.push(id.clone());
            }
        }
    }

    /// The step of the clock since the previous batch, or within this one, if any.
    fn follow_clock(&mut self, attestation: &Attestation, sent: Mono, took_ms: u64) -> Option<i64> {
        let [first, last] =
            [attestation.first, attestation.last].map(|server| Reading { server, sent, took_ms });
        let step =
            self.clock.and_then(|before| step_ms(before, first)).or_else(|| step_ms(first, last));
        self.clock = Some(last);
        let new = Offset { ms: attestation.clock_offset_ms, took_ms, age: 0 };
        self.offset = Some(match self.offset {
            Some(old) if step.is_none() && old.took_ms < took_ms && old.age < OFFSET_BATCHES => {
                Offset { age: old.age + 1, ..old }
            }
            _ => new,
        });
        self.steps += u32::from(step.is_some());
        step
    }

    /// A batch or a connection failed.
    pub(crate) fn failed(&mut self, why: Unknown, events: &mut Vec<EventKind>) {
        let known = self.newest.and_then(Result::err);
        // A connection that breaks and then cannot be made again is one failure.
        if known != Some(why)
            && !known.is_some_and(|known| out_of_reach(known) && out_of_reach(why))
        {
            events.push(EventKind::StoreDown { why, decides: self.standing == Standing::Decides });
        }
        if why == Unknown::NotMaster {
            self.role = Some(Role::Replica);
            self.role_verified = Some(true);
            self.replicated = true;
        }
        self.newest = Some(Err(why));
        self.was_up = false;
    }

    /// A connection was made. Returns whether it is a reconnect.
    pub(crate) fn connected(&mut self, version: Option<&Arc<str>>, role: Option<Role>) -> bool {
        self.version = version.cloned();
        self.role = role;
        core::mem::replace(&mut self.connected_before, true)
    }

    /// Updates the state and totals of its change notifications. `None`: notifications are no
    /// longer requested.
    pub(crate) fn wake_ups(&mut self, news: Option<WakeUps>) {
        self.is_asked = news.is_some();
        let Some(WakeUps { state, connects, read, coalesced, foreign }) = news else { return };
        let sum = &mut self.wake_ups;
        sum.state = state;
        sum.connects += connects;
        sum.read += read;
        sum.coalesced += coalesced;
        sum.foreign += foreign;
    }

    /// The view for outputs.
    pub(crate) fn view(&self) -> NodeView {
        NodeView {
            address: self.address.clone(),
            decides: self.standing == Standing::Decides,
            up: self.newest.map(|newest| newest.is_ok()),
            unknown: self.unknown(),
            role: self.role,
            role_verified: self.role_verified,
            last_success: self.last_success,
            refuses_writes: self.refuses_writes(),
            clock_offset_ms: self.offset.map(|offset| offset.ms),
            // Only the tasks know this.
            locks_behind: None,
            deadline_lag_ms: None,
            version: self.version.clone(),
            wake_ups: self.is_asked.then_some(self.wake_ups),
        }
    }
}

/// Whether the failure means that nothing arrives from the server.
fn out_of_reach(why: Unknown) -> bool {
    matches!(why, Unknown::Connect | Unknown::Closed | Unknown::Timeout)
}

/// How far the server's clock moved against the agent's, if the duration of the answers does not
/// explain it.
fn step_ms(before: Reading, after: Reading) -> Option<i64> {
    let went_ms = i64::try_from(after.sent.since_ms(before.sent)).unwrap_or(i64::MAX);
    let by_ms = after.server.since_ms(before.server).saturating_sub(went_ms);
    let doubt_ms = before.took_ms.saturating_add(after.took_ms);
    (by_ms.unsigned_abs() > CLOCK_STEP_MS.saturating_add(doubt_ms)).then_some(by_ms)
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::input::WakeUpState;

    #[test]
    fn one_trouble_is_told_once_and_another_again() {
        let mut node = Node::new(Arc::from("a:1"));
        let mut reported = |outcome: Result<(), Unknown>| {
            let mut events = Vec::new();
            match outcome {
                Ok(()) => {
                    let attestation = Attestation::master(ServerTime::at(0), ServerTime::at(0));
                    node.accepted(&attestation, Standing::Decides, Mono::at(0), 0, &mut events);
                }
                Err(why) => node.failed(why, &mut events),
            }
            events
        };
        let down = |why, decides| vec![EventKind::StoreDown { why, decides }];
        let up = || vec![EventKind::StoreUp];
        let cases = [
            (Err(Unknown::Auth), down(Unknown::Auth, false), "whether it decides was never said"),
            (Ok(()), up(), "it answers"),
            (Ok(()), vec![], "that is no news"),
            (Err(Unknown::Closed), down(Unknown::Closed, true), "the connection breaks"),
            (Err(Unknown::Connect), vec![], "and cannot be made"),
            (Err(Unknown::Timeout), vec![], "or takes too long"),
            (Err(Unknown::Auth), down(Unknown::Auth, true), "somebody answers, and will not"),
            (Err(Unknown::Auth), vec![], "the same"),
            (Err(Unknown::Connect), down(Unknown::Connect, true), "gone again"),
            (Ok(()), up(), "it answers"),
            (Err(Unknown::Connect), down(Unknown::Connect, true), "a new trouble"),
        ];
        for (outcome, expected, what) in cases {
            assert_eq!(reported(outcome), expected, "{what}");
        }
    }

    #[test]
    fn what_came_of_hints_is_summed_up() {
        let mut node = Node::new(Arc::from("a:1"));
        let news = |state, base| WakeUps {
            state,
            connects: base,
            read: base + 1,
            coalesced: base + 2,
            foreign: base + 3,
        };
        node.wake_ups(Some(news(WakeUpState::Connecting, 1)));
        node.wake_ups(Some(news(WakeUpState::On, 10)));
        let sum =
            WakeUps { state: WakeUpState::On, connects: 11, read: 13, coalesced: 15, foreign: 17 };
        assert_eq!(node.view().wake_ups, Some(sum));
        node.wake_ups(None);
        assert_eq!(node.view().wake_ups, None, "it is not asked any more");
        node.wake_ups(Some(news(WakeUpState::On, 1)));
        let sum =
            WakeUps { state: WakeUpState::On, connects: 12, read: 15, coalesced: 18, foreign: 21 };
        assert_eq!(node.view().wake_ups, Some(sum), "no counter falls when it is asked again");
    }

    /// A request may wait at the server until shortly before the answer; its clock is read only
    /// then.
    #[test]
    fn a_slow_answer_is_no_step_of_the_clock() {
        let _rule = crate::truth::rule("2 instants");
        let reading = |server, sent, took_ms| Reading {
            server: ServerTime::at(server),
            sent: Mono::at(sent),
            took_ms,
        };
        let prompt = |at: u64| reading(i64::try_from(at).unwrap(), at, 1);
        // Read 2.5 s after the request, at the end of a long wait.
        let slow = |at: u64| reading(i64::try_from(at).unwrap() + 2_500, at, 2_500);
        assert_eq!(step_ms(prompt(1_000), prompt(2_000)), None);
        assert_eq!(step_ms(prompt(1_000), slow(2_000)), None, "the newer one was slow");
        assert_eq!(step_ms(slow(1_000), prompt(4_000)), None, "the older one was slow");
        assert_eq!(
            step_ms(prompt(1_000), reading(3_002, 2_000, 1)),
            None,
            "what the two took may be the difference"
        );
        assert_eq!(step_ms(prompt(1_000), reading(3_003, 2_000, 1)), Some(1_003));
        assert_eq!(step_ms(prompt(1_000), reading(997, 2_000, 1)), Some(-1_003));
    }

    /// Answers from before and after the step cannot be compared, even within one batch.
    #[test]
    fn a_step_within_a_batch_is_one_step() {
        let _rule = crate::truth::rule("2 instants");
        let mut node = Node::new(Arc::from("a:1"));
        let mut steps = |sent: u64, first: i64, last: i64, took_ms: u64| {
            let attestation = Attestation::master(ServerTime::at(first), ServerTime::at(last));
            let mut events = Vec::new();
            let stepped = node.accepted(
                &attestation,
                Standing::Decides,
                Mono::at(sent),
                took_ms,
                &mut events,
            );
            assert_eq!(
                stepped,
                events.iter().any(|event| matches!(event, EventKind::ClockStep { .. }))
            );
            stepped
        };
        assert!(!steps(1_000, 1_001, 1_039, 40));
        assert!(steps(2_000, 2_001, 2_039 - 3_600_000, 40));
        assert!(!steps(3_000, 3_001 - 3_600_000, 3_039 - 3_600_000, 40), "it was reported");
        assert!(steps(4_000, 4_001 - 3_600_000, 4_039, 40), "forward");
        assert!(!steps(5_000, 5_001, 7_900, 3_000), "the answers took so long");
    }

    /// Up to half of the round trip may be error, so the quickest batch gives the best offset, for
    /// a limited number of batches.
    #[test]
    fn a_slow_answer_does_not_tell_how_far_the_clock_is_ahead() {
        let _rule = crate::truth::rule("2 instants");
        let mut node = Node::new(Arc::from("a:1"));
        let mut reported = |at: u64, took_ms: u64, clock_offset_ms: i64| {
            let clock = ServerTime::at(i64::try_from(at).unwrap());
            let attestation = Attestation { clock_offset_ms, ..Attestation::master(clock, clock) };
            node.accepted(&attestation, Standing::Decides, Mono::at(at), took_ms, &mut Vec::new());
            node.view().clock_offset_ms
        };
        assert_eq!(reported(1_000, 10, 5), Some(5));
        for batch in 0..u64::from(OFFSET_BATCHES) {
            assert_eq!(reported(2_000 + batch * 1_000, 400, 200), Some(5), "{batch}");
        }
        assert_eq!(reported(60_000, 400, 200), Some(200), "not for ever");
        assert_eq!(reported(61_000, 9, 6), Some(6));
        assert_eq!(reported(62_000, 9, 7), Some(7), "of two that were as prompt, the newer one");
    }

    /// The space is limited, so each history is kept once, and an empty id is not kept.
    #[test]
    fn each_replication_history_is_remembered_once() {
        let mut node = Node::new(Arc::from("a:1"));
        let mut remembered = |id: &str, forked_from: Option<&str>| {
            let fork = |id: &str| crate::input::Fork { history: id.into(), offset: 10 };
            let forked_from = forked_from.map(fork);
            let generation =
                Generation { history: id.into(), forked_from, ..Generation::default() };
            let attestation = Attestation {
                generation: Some(generation),
                ..Attestation::master(ServerTime::at(0), ServerTime::at(0))
            };
            node.accepted(&attestation, Standing::Decides, Mono::at(0), 1, &mut Vec::new());
            let ids = node.histories().iter().map(|id| String::from_utf8_lossy(id).into_owned());
            ids.collect::<Vec<_>>()
        };
        assert_eq!(remembered("", None), [""; 0]);
        assert_eq!(remembered("h1", None), ["h1"]);
        assert_eq!(remembered("h2", Some("h1")), ["h1", "h2"]);
        assert_eq!(remembered("h1", Some("h2")), ["h1", "h2"], "back");
        assert_eq!(remembered("h3", Some("")), ["h1", "h2", "h3"]);
    }

    #[test]
    fn each_connection_but_the_first_is_one_after_it() {
        let mut node = Node::new(Arc::from("a:1"));
        assert_eq!([(); 3].map(|()| node.connected(None, None)), [false, true, true]);
    }
}
