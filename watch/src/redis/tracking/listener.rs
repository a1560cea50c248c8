//! Listens to one server while that is wanted and possible, and reconnects when the connection
//! breaks.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use lockwatch_judge::input::{self, WakeUpState};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;

use super::Filter;
use crate::command;
use crate::redis::diagnosis::refusal;
use crate::redis::driver::{Dial, Dialled, Event, Failure, LinkId, Login, Manner, Note, Push};
use crate::redis::out::Out;
use crate::redis::pace::Pace;
use crate::redis::plan::Hints;
use crate::redis::remedy::is_about_login;
use crate::redis::reply::{Command, Reply, ServerError};
use crate::redis::store::HostPort;
use crate::redis::wake_ups::{Bucket, changes_per_s};

/// A channel that is never used. A client with a subscription counts as a subscriber, so the server
/// bounds its output buffer for it (`client-output-buffer-limit pubsub`). For other clients the
/// buffer is unbounded, and would grow while the agent is paused.
pub const CHANNEL: &str = "lockwatch:wake-ups";

/// How often the server is pinged, in milliseconds. It announces nothing while nothing changes, and
/// nothing when it is gone.
const PING_EVERY_MS: u64 = 1_000;
/// How long to wait before a server that refuses is asked again, in milliseconds: somebody may have
/// granted the permission.
const REFUSED_AGAIN_MS: u64 = 600_000;
/// Upper limit of the size of one announcement in bytes, unless its key is longer than any watched
/// one.
const CHANGE_BYTES: usize = 1_024;
/// Limits on the announcements that are read: this many at once, and [`TAKEN_PER_S`] more each
/// second. At a higher rate, data is left in the socket until [`TAKEN_TOGETHER`] more are allowed,
/// a tenth of a second. Then announcements arrive in batches, and a batch costs as much as many
/// reads.
const TAKEN_AT_ONCE: u32 = 16;
const TAKEN_PER_S: u64 = 50;
const TAKEN_TOGETHER: u32 = 5;
/// How many seconds announcements may cost more than polling: many workers may start at once.
const BURST_S: u32 = 5;
/// How long to wait after a server announced too many changes, in milliseconds.
const FLOODED_AGAIN_MS: u64 = 60_000;
/// The cost of "everything may have changed", as a number of tasks that counts like one change.
const TASKS_PER_CHANGE: usize = 100;

/// Listens to the announcements of one server.
#[derive(Debug)]
pub(super) struct Listener {
    filter: Arc<Filter>,
    /// Whether the server answers reads, and is believed.
    is_up: bool,
    link: Link,
    pace: Pace,
    said: Said,
    changes_left: Bucket,
    pub(super) state: WakeUpState,
    /// What was announced and not taken yet.
    pub(super) hints: Hints,
}

#[derive(Debug)]
enum Link {
    /// `for_change`: another filter, or the end of an interruption, ends the wait.
    Waiting { until: Mono, for_change: bool },
    /// The server is being asked to announce the keys of this filter.
    Dialling(LinkId, Arc<Filter>),
    Up {
        link: LinkId,
        /// When the unanswered ping was sent.
        asked: Option<Mono>,
        ping_at: Mono,
        taken: Bucket,
        /// When to read again; `None`: the driver reads.
        hear_at: Option<Mono>,
    },
}

/// The newest state that was logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    On,
    Off(Unknown),
}

impl Listener {
    pub(super) fn new(filter: &Arc<Filter>, is_up: bool, now: Mono) -> Listener {
        Listener {
            filter: Arc::clone(filter),
            is_up,
            link: Link::Waiting { until: now, for_change: false },
            pace: Pace::default(),
            said: Said::Nothing,
            changes_left: Bucket::full(u32::MAX),
            state: WakeUpState::default(),
            hints: Hints::default(),
        }
    }

    /// Its connection, if there is one or it is being made.
    pub(super) fn id(&self) -> Option<LinkId> {
        match self.link {
            Link::Waiting { .. } => None,
            Link::Dialling(link, _) | Link::Up { link, .. } => Some(link),
        }
    }

    /// Other keys matter from now on, perhaps.
    pub(super) fn follow(&mut self, filter: &Arc<Filter>, is_up: bool, now: Mono, out: &mut Out) {
        if !Arc::ptr_eq(&self.filter, filter) {
            let before = core::mem::replace(&mut self.filter, Arc::clone(filter));
            self.changed(now);
            if matches!(self.link, Link::Up { .. }) {
                match before.prefixes == filter.prefixes {
                    true => self.hints = Hints { tasks: Vec::new(), all: true },
                    false => self.begin_anew(now, out),
                }
            }
        }
        self.set_up(is_up, now, out);
    }

    /// Sets whether the server gives answers that are accepted.
    pub(super) fn set_up(&mut self, is_up: bool, now: Mono, out: &mut Out) {
        if core::mem::replace(&mut self.is_up, is_up) == is_up {
            return;
        }
        self.changed(now);
        if !is_up && self.id().is_some() {
            self.begin_anew(now, out);
        }
    }

    /// A server that refuses is asked again at once when the reading connection is made again: it
    /// may be another server by now.
    fn changed(&mut self, now: Mono) {
        if let Link::Waiting { until, for_change: true } = &mut self.link {
            *until = now;
        }
    }

    /// Listens again when that is possible.
    fn begin_anew(&mut self, now: Mono, out: &mut Out) {
        if matches!(self.link, Link::Up { .. }) {
            self.state = WakeUpState::Connecting;
        }
        self.wait(now, false, out);
    }

    fn wait(&mut self, until: Mono, for_change: bool, out: &mut Out) {
        self.id().into_iter().for_each(|link| out.close(link));
        self.link = Link::Waiting { until, for_change };
    }

    pub(super) fn next_wake(&self) -> Option<Mono> {
        match &self.link {
            Link::Waiting { until, .. } => self.is_up.then(|| self.pace.next_dial(*until, 0)),
            Link::Dialling(..) => None,
            Link::Up { ping_at, hear_at, .. } => hear_at.iter().copied().chain([*ping_at]).min(),
        }
    }

    /// Does what is due now.
    pub(super) fn launch(
        &mut self,
        (at, address): (&HostPort, &Arc<str>),
        timeout_ms: u64,
        now: Mono,
        out: &mut Out,
    ) {
        if self.next_wake().is_none_or(|at| at > now) {
            return;
        }
        match &mut self.link {
            Link::Waiting { .. } => {
                self.pace.dialled(now);
                let link = out.dial(|link| Dial {
                    link,
                    to: at.clone(),
                    login: Login::Store,
                    manner: Manner::Listen,
                    commands: greeting(&self.filter.prefixes),
                    attempt: 0,
                    timeout_ms,
                });
                self.link = Link::Dialling(link, Arc::clone(&self.filter));
            }
            Link::Dialling(..) => {}
            Link::Up { link, asked, ping_at, hear_at, .. } => {
                if hear_at.is_some_and(|at| at <= now) {
                    *hear_at = None;
                    out.hear(*link);
                }
                if *ping_at > now {
                    return;
                }
                *ping_at = now.plus_ms(PING_EVERY_MS);
                match *asked {
                    Some(since) if now.since_ms(since) > timeout_ms => {
                        let why = format!("no sign of life within {timeout_ms} ms");
                        self.failed(Failure::new(Unknown::Timeout, why), address, now, out);
                    }
                    Some(_) => {}
                    None => {
                        *asked = Some(now);
                        out.talk(*link, vec![command!("PING")]);
                    }
                }
            }
        }
    }

    /// Takes in what happened on the connection. Counts in `news`.
    pub(super) fn take(
        &mut self,
        event: Event,
        address: &Arc<str>,
        news: &mut input::WakeUps,
        now: Mono,
        out: &mut Out,
    ) {
        match event {
            Event::Dialled(dialled) => match greeted(*dialled) {
                Ok(()) => self.began(address, news, now, out),
                Err(failure) => self.failed(failure, address, now, out),
            },
            Event::Failed(failure)
                if failure.why == Unknown::TooLarge && matches!(self.link, Link::Up { .. }) =>
            {
                self.flooded(address, now, out);
            }
            Event::Failed(failure) => self.failed(failure, address, now, out),
            Event::Pushed { bytes, pushes } => self.pushed(bytes, pushes, address, news, now, out),
            Event::Replied { .. } => {}
        }
    }

    /// The server announces changes from now on.
    fn began(&mut self, address: &Arc<str>, news: &mut input::WakeUps, now: Mono, out: &mut Out) {
        let Link::Dialling(link, asked_for) = &self.link else { return };
        let (link, same) = (*link, asked_for.prefixes == self.filter.prefixes);
        self.pace.succeeded();
        if self.said != Said::On {
            out.note(Note::Announces(Arc::clone(address), asked_for.prefixes.len()));
            self.said = Said::On;
        }
        if !same {
            self.state = WakeUpState::Connecting;
            return self.wait(now, false, out);
        }
        // Anything may have changed before.
        self.hints.all = true;
        self.state = WakeUpState::On;
        news.connects += 1;
        let taken = Bucket::full(TAKEN_AT_ONCE);
        self.link = Link::Up { link, asked: None, ping_at: now, taken, hear_at: None };
        out.hear(link);
    }

    fn pushed(
        &mut self,
        bytes: usize,
        pushes: Vec<Push>,
        address: &Arc<str>,
        news: &mut input::WakeUps,
        now: Mono,
        out: &mut Out,
    ) {
        let Link::Up { link, asked, taken, hear_at, .. } = &mut self.link else { return };
        let sweep = u32::try_from(self.filter.tasks / TASKS_PER_CHANGE).unwrap_or(u32::MAX);
        let (mut changes, mut changed, mut refused) = (0_u32, BTreeSet::new(), None);
        for push in pushes {
            match push {
                Push::Changed(key) => {
                    changes += 1;
                    match self.filter.position(&key) {
                        Some(at) => news.coalesced += u64::from(!changed.insert(at)),
                        None => news.foreign += 1,
                    }
                }
                Push::AllChanged => {
                    changes = changes.saturating_add(1).saturating_add(sweep);
                    self.hints.all = true;
                }
                Push::Alive => *asked = None,
                Push::Refused(error) => refused = Some(refused_step("PING", &error)),
                Push::Other => {}
            }
        }
        let tasks = changed.into_iter().flat_map(|at| self.filter.tasks_at(at));
        self.hints.tasks.extend(tasks);
        if let Some(failure) = refused {
            return self.failed(failure, address, now, out);
        }
        taken.take(changes.max(1), TAKEN_PER_S, TAKEN_AT_ONCE, now);
        let at = taken.ready_at(TAKEN_TOGETHER, TAKEN_PER_S, now);
        if at <= now {
            out.hear(*link);
        } else {
            *hear_at = Some(at);
        }
        let limit = changes_per_s(self.filter.tasks, self.filter.interval_ms);
        let burst = u32::try_from(limit).unwrap_or(u32::MAX).saturating_mul(BURST_S);
        if !self.changes_left.take(changes.max(burden(bytes)), limit, burst, now) {
            self.flooded(address, now, out);
        }
    }

    fn flooded(&mut self, address: &Arc<str>, now: Mono, out: &mut Out) {
        let limit = changes_per_s(self.filter.tasks, self.filter.interval_ms);
        out.note(Note::Flooded(Arc::clone(address), limit, FLOODED_AGAIN_MS));
        self.said = Said::Nothing;
        self.state = WakeUpState::Flooded;
        self.wait(now.plus_ms(FLOODED_AGAIN_MS), false, out);
    }

    fn failed(&mut self, failure: Failure, address: &Arc<str>, now: Mono, out: &mut Out) {
        let (why, refused) = (failure.why, is_refusal(failure.why));
        let is_news = refused || self.said != Said::On || self.pace.in_vain() > 0;
        if self.said != Said::Off(why) && is_news {
            out.note(Note::AnnouncesNothing(Arc::clone(address), failure));
            self.said = Said::Off(why);
        }
        self.state = if refused { WakeUpState::Refused } else { WakeUpState::Lost };
        let again = match refused {
            true => now.plus_ms(REFUSED_AGAIN_MS),
            false => self.pace.next_dial(now, out.random()),
        };
        self.wait(again, refused, out);
    }
}

/// The cost of received data, as a number of changes by its size: data costs time even if it
/// announces no change.
fn burden(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(CHANGE_BYTES)).unwrap_or(u32::MAX)
}

/// Whether the server could answer, but refuses to.
fn is_refusal(why: Unknown) -> bool {
    is_about_login(why)
        || matches!(why, Unknown::NoPermission | Unknown::ServerError | Unknown::Protocol)
}

/// What each command of the greeting is called in a failure.
const STEPS: [&str; 5] = ["HELLO 3", "CLIENT SETNAME", "SUBSCRIBE", "CLIENT TRACKING", "PING"];

/// The commands that turn on announcements for all keys that begin with one of `prefixes`. Public
/// for the fuzz target `tracking`, as [`greeted`] is.
pub fn greeting(prefixes: &[Vec<u8>]) -> Vec<Command> {
    let mut track: Vec<&[u8]> = vec![b"CLIENT", b"TRACKING", b"ON", b"BCAST"];
    track.extend(prefixes.iter().flat_map(|prefix| [b"PREFIX".as_slice(), prefix]));
    vec![
        command!("HELLO", "3"),
        command!("CLIENT", "SETNAME", "lockwatch-wake-ups"),
        command!("SUBSCRIBE", CHANNEL),
        Command::new(track),
        command!("PING"),
    ]
}

/// Whether the greeting was answered.
///
/// # Errors
/// Why the server does not announce changes.
pub fn greeted(dialled: Dialled) -> Result<(), Failure> {
    let Dialled { auth, replies, ended, .. } = dialled;
    if let Some(Reply::Error(error)) = &auth {
        return Err(refused_step("the login", error));
    }
    for (step, reply) in STEPS.into_iter().zip(&replies) {
        let is_answer = match (step, reply) {
            (_, Reply::Error(error)) => return Err(refused_step(step, error)),
            ("SUBSCRIBE", Reply::Array(items)) => {
                items.first().and_then(Reply::as_bytes) == Some(b"subscribe")
            }
            ("SUBSCRIBE", _) => false,
            ("PING", reply) => reply.as_bytes() == Some(b"PONG"),
            _ => true,
        };
        if !is_answer {
            return Err(Failure::new(Unknown::Protocol, "these are no answers to the greeting"));
        }
    }
    match ended {
        Some(failure) => Err(failure),
        None if replies.len() < STEPS.len() => {
            Err(Failure::new(Unknown::Protocol, "the greeting was not answered"))
        }
        None => Ok(()),
    }
}

/// Why the server refused a step. Its text is not logged, because it may quote what was sent.
fn refused_step(step: &str, error: &ServerError) -> Failure {
    let why = match (step, refusal(error, true)) {
        ("the login", Unknown::ServerError) => Unknown::Auth,
        (_, why) => why,
    };
    Failure::new(why, format_args!("{step} was refused"))
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;

    use lockwatch_judge::spec::TaskIndex;

    use super::*;
    use crate::redis::driver::Action;
    use crate::redis::testing::{
        actions, at, closed, dialled, dials, error, failed, greeted as told, heard, out, sends,
        tasks,
    };

    const SERVER: &str = "one:6379";

    /// A listener for so many tasks that are read each second, its server, and what it told.
    struct Bench {
        listener: Listener,
        news: input::WakeUps,
        out: Out,
    }

    fn filter(count: usize) -> Arc<Filter> {
        Arc::new(Filter::new(&tasks(0..count), 1_000))
    }

    impl Bench {
        fn new(count: usize) -> Bench {
            let listener = Listener::new(&filter(count), true, Mono(0));
            Bench { listener, news: input::WakeUps::default(), out: out() }
        }

        fn launch(&mut self, ms: u64) -> Vec<Action> {
            let address = SERVER.into();
            self.listener.launch((&at("one"), &address), 3_000, Mono(ms), &mut self.out);
            actions(&mut self.out)
        }

        fn take(&mut self, event: Event, ms: u64) -> Vec<Action> {
            let address = SERVER.into();
            self.listener.take(event, &address, &mut self.news, Mono(ms), &mut self.out);
            actions(&mut self.out)
        }

        /// The server was asked at `ms`, and announces changes from now on.
        fn connect(&mut self, ms: u64) -> LinkId {
            let begun = self.launch(ms);
            let dial = dials(&begun)[0].clone();
            assert_eq!(dial.manner, Manner::Listen);
            assert_eq!(heard(&self.take(dialled(&dial, "master", ms, ms), ms)), [dial.link]);
            // The first ping.
            assert_eq!(sends(&self.launch(ms)).len(), 1);
            assert_eq!(self.listener.state, WakeUpState::On);
            dial.link
        }

        fn push(&mut self, keys: &[&str], ms: u64) -> Vec<Action> {
            let pushes = keys.iter().map(|key| Push::Changed(key.as_bytes().to_vec())).collect();
            self.take(Event::Pushed { bytes: 100, pushes }, ms)
        }

        fn hints(&mut self) -> (Vec<u32>, bool) {
            let Hints { mut tasks, all } = core::mem::take(&mut self.listener.hints);
            tasks.sort_unstable();
            (tasks.iter().map(|TaskIndex(task)| *task).collect(), all)
        }
    }

    #[test]
    fn each_task_is_there_once_until_it_is_taken() {
        let mut bench = Bench::new(200);
        bench.connect(0);
        assert_eq!(bench.hints(), (vec![], true), "anything may have changed before");
        let keys: Vec<&str> = ["lock-7", "lock-199", "foreign"].repeat(1_000);
        bench.push(&keys, 1);
        assert_eq!(bench.hints(), (vec![7, 199], false));
        assert_eq!((bench.news.coalesced, bench.news.foreign), (1_998, 1_000));
        assert_eq!(bench.hints(), (vec![], false));
        bench.push(&["lock-199"], 2);
        assert_eq!(bench.hints(), (vec![199], false));
    }

    #[test]
    fn what_waits_is_bounded_by_the_keys() {
        let mut bench = Bench::new(100);
        bench.connect(0);
        let keys: Vec<String> = (0..4_000).map(|key| format!("lock-{}", key % 100)).collect();
        bench.push(&keys.iter().map(String::as_str).collect::<Vec<_>>(), 1);
        assert_eq!(bench.hints().0.len(), 100);
    }

    #[test]
    fn other_tasks_begin_with_all_of_them() {
        let mut bench = Bench::new(12);
        let link = bench.connect(0);
        bench.push(&["lock-2"], 1);
        // The same prefixes: the connection stays.
        bench.listener.follow(&filter(11), true, Mono(2), &mut bench.out);
        assert_eq!(bench.listener.filter.prefixes, filter(12).prefixes);
        assert_eq!((bench.listener.id(), bench.hints()), (Some(link), (vec![], true)));
        bench.push(&["lock-0", "lock-11"], 3);
        assert_eq!(bench.hints(), (vec![0], false));
        // Other prefixes: the server must be asked for them.
        let none = Arc::new(Filter::new(&crate::redis::tasks::Tasks::default(), 1_000));
        bench.listener.follow(&none, true, Mono(4), &mut bench.out);
        assert_eq!(closed(&actions(&mut bench.out)), [link]);
        assert_eq!(bench.listener.state, WakeUpState::Connecting);
        assert_eq!(dials(&bench.launch(4)).len(), 1);
    }

    /// They may have changed while the server was asked.
    #[test]
    fn whoever_was_asked_for_other_keys_is_asked_again() {
        let mut bench = Bench::new(3);
        let begun = bench.launch(0);
        let dial = dials(&begun)[0].clone();
        let none = Arc::new(Filter::new(&crate::redis::tasks::Tasks::default(), 1_000));
        bench.listener.follow(&none, true, Mono(1), &mut bench.out);
        let came = bench.take(dialled(&dial, "master", 0, 2), 2);
        assert_eq!((closed(&came), heard(&came)), (vec![dial.link], vec![]));
        assert_eq!(bench.hints(), (vec![], false));
        assert_eq!(dials(&bench.launch(2))[0].commands, greeting(&[]));
    }

    /// What is not read stays in the socket; the server drops a client that reads too slowly.
    #[test]
    fn announcements_are_heard_only_as_fast_as_the_budget_allows() {
        let mut bench = Bench::new(3);
        let link = bench.connect(0);
        // A burst is heard at once, until fewer than five are left.
        for change in 0..11 {
            assert_eq!(heard(&bench.push(&["lock-1"], 0)), [link], "{change}");
        }
        assert_eq!(heard(&bench.push(&["lock-1"], 0)), []);
        // One more comes back each 20 ms.
        assert_eq!(bench.listener.next_wake(), Some(Mono(20)));
        assert_eq!(heard(&bench.launch(19)), []);
        assert_eq!(heard(&bench.launch(20)), [link]);
        // Many in one read are paid for afterwards.
        assert_eq!(heard(&bench.push(&["lock-1"; 100], 20)), []);
        assert_eq!(bench.listener.next_wake(), Some(Mono(120)));
        assert_eq!(heard(&bench.launch(120)), [link]);
        // What announces no change costs as much as one.
        let alive = Event::Pushed { bytes: 7, pushes: vec![Push::Alive] };
        assert_eq!(heard(&bench.take(alive, 120)), []);
        assert_eq!(bench.listener.next_wake(), Some(Mono(140)));
    }

    #[test]
    fn whoever_announces_too_much_is_left_for_a_minute() {
        let by_changes = |bench: &mut Bench| bench.push(&["foreign"; 5_001], 1);
        let by_size = |bench: &mut Bench| {
            bench.take(Event::Pushed { bytes: 5_001 << 10, pushes: vec![Push::Other] }, 1)
        };
        let by_one = |bench: &mut Bench| bench.take(failed(Unknown::TooLarge), 1);
        type Flood<'a> = &'a dyn Fn(&mut Bench) -> Vec<Action>;
        let floods: [Flood<'_>; 3] = [&by_changes, &by_size, &by_one];
        for flood in floods {
            let mut bench = Bench::new(3);
            let link = bench.connect(0);
            let ended = flood(&mut bench);
            assert_eq!(closed(&ended), [link]);
            let noted = |action: &Action| {
                matches!(action, Action::Note(Note::Flooded(_, 1_000, FLOODED_AGAIN_MS)))
            };
            assert_eq!(ended.iter().filter(|action| noted(action)).count(), 1);
            assert_eq!(bench.listener.state, WakeUpState::Flooded);
            bench.listener.follow(&filter(2), true, Mono(2), &mut bench.out);
            assert!(dials(&bench.launch(60_000)).is_empty(), "other tasks do not change that");
            assert_eq!(dials(&bench.launch(60_001)).len(), 1);
        }
    }

    /// It announces nothing while nothing changes, and nothing when it is gone.
    #[test]
    fn a_server_that_gives_no_sign_of_life_is_given_up() {
        let mut bench = Bench::new(3);
        let link = bench.connect(0);
        bench.take(Event::Pushed { bytes: 7, pushes: vec![Push::Alive] }, 5);
        let pings = |actions: &[Action]| sends(actions).len();
        assert_eq!(pings(&bench.launch(999)), 0);
        assert_eq!(pings(&bench.launch(1_000)), 1);
        for unanswered in [2_000, 3_000, 4_000] {
            assert_eq!(pings(&bench.launch(unanswered)), 0, "one ping at a time");
        }
        assert_eq!(closed(&bench.launch(5_000)), [link]);
        assert_eq!(bench.listener.state, WakeUpState::Lost);
        assert_eq!(dials(&bench.launch(5_000)).len(), 1, "dialled again at once");
    }

    #[test]
    fn whoever_refuses_is_asked_again_after_ten_minutes_or_when_something_changes() {
        let refuse = |bench: &mut Bench, ms: u64| {
            let begun = bench.launch(ms);
            let Some(dial) = dials(&begun).first().map(|dial| (*dial).clone()) else {
                return false;
            };
            let mut replies = crate::redis::testing::answers(&dial.commands, "master");
            replies[3] = error("NOPERM", "hunter2");
            let ended = bench.take(told(replies, None, ms, ms), ms);
            assert!(heard(&ended).is_empty());
            assert_eq!(closed(&ended), [dial.link]);
            assert_eq!(bench.listener.state, WakeUpState::Refused);
            for action in ended {
                let Action::Note(Note::AnnouncesNothing(_, failure)) = action else { continue };
                assert_eq!(failure.detail, "CLIENT TRACKING was refused");
            }
            true
        };
        let mut bench = Bench::new(3);
        assert!(refuse(&mut bench, 0));
        assert!(!refuse(&mut bench, 599_999));
        assert!(refuse(&mut bench, 600_000));
        // Behind the address there may be another server by now.
        bench.listener.set_up(false, Mono(700_000), &mut bench.out);
        assert!(!refuse(&mut bench, 700_000), "it is not up");
        bench.listener.set_up(true, Mono(700_001), &mut bench.out);
        assert!(refuse(&mut bench, 700_001));
        bench.listener.follow(&filter(2), true, Mono(800_000), &mut bench.out);
        assert!(refuse(&mut bench, 800_000));
    }

    /// While no read is answered, a hint could not be followed.
    #[test]
    fn nobody_listens_while_reads_are_not_answered() {
        let mut bench = Bench::new(3);
        let link = bench.connect(0);
        bench.listener.set_up(false, Mono(10), &mut bench.out);
        assert_eq!(closed(&actions(&mut bench.out)), [link]);
        assert_eq!(bench.listener.next_wake(), None);
        assert!(dials(&bench.launch(60_000)).is_empty());
        bench.listener.set_up(true, Mono(60_000), &mut bench.out);
        assert_eq!(dials(&bench.launch(60_000)).len(), 1);
        // A dial is ended, too.
        bench.listener.set_up(false, Mono(60_001), &mut bench.out);
        assert_eq!(closed(&actions(&mut bench.out)).len(), 1);
    }

    #[test]
    fn the_greeting_is_answered_step_by_step() {
        let commands = greeting(&[b"lock".to_vec()]);
        let honest = crate::redis::testing::answers(&commands, "master");
        let judged = |replies: &[Reply], ended: Option<Failure>| {
            let Event::Dialled(dialled) = told(replies.to_vec(), ended, 0, 0) else { panic!() };
            greeted(*dialled).map_err(|failure| failure.why)
        };
        assert_eq!(judged(&honest, None), Ok(()));
        assert_eq!(judged(&honest[..4], None), Err(Unknown::Protocol));
        let cut = Failure::new(Unknown::Closed, "end");
        assert_eq!(judged(&honest[..4], Some(cut)), Err(Unknown::Closed));
        for step in 0..STEPS.len() {
            let mut refused = honest.clone();
            refused[step] = error("ERR", "unknown command");
            assert_eq!(judged(&refused, None), Err(Unknown::ServerError), "{}", STEPS[step]);
        }
        let mut swapped = honest.clone();
        swapped.swap(1, 2);
        assert_eq!(judged(&swapped, None), Err(Unknown::Protocol));
        let refused = refused_step(
            "the login",
            &ServerError { code: b"ERR".to_vec(), detail: b"unknown command".to_vec() },
        );
        assert_eq!(refused.why, Unknown::Auth);
    }
}
