use alloc::string::String;
use alloc::vec;

use lockwatch_judge::spec::TaskIndex;

use super::*;
use crate::redis::driver::Action;
use crate::redis::testing::{
    actions, at, closed, dialled, dials, error, failed, greeted as answered, heard, out, sends,
    tasks,
};

const SERVER: &str = "one:6379";

/// A listener for so many tasks that are read each second, its server, and what it said.
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
        let listener = Listener::new(&filter(count), true, Mono::at(0));
        Bench { listener, news: input::WakeUps::default(), out: out() }
    }

    fn launch(&mut self, ms: u64) -> Vec<Action> {
        let address = SERVER.into();
        self.listener.launch((&at("one"), &address), 3_000, Mono::at(ms), &mut self.out);
        actions(&mut self.out)
    }

    fn take(&mut self, event: Event, ms: u64) -> Vec<Action> {
        let address = SERVER.into();
        self.listener.take(event, &address, &mut self.news, Mono::at(ms), &mut self.out);
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
    bench.listener.follow(&filter(11), true, Mono::at(2), &mut bench.out);
    assert_eq!(bench.listener.filter.prefixes, filter(12).prefixes);
    assert_eq!((bench.listener.id(), bench.hints()), (Some(link), (vec![], true)));
    bench.push(&["lock-0", "lock-11"], 3);
    assert_eq!(bench.hints(), (vec![0], false));
    // Other prefixes: the server must be asked for them.
    let none = Arc::new(Filter::new(&crate::redis::tasks::Tasks::default(), 1_000));
    bench.listener.follow(&none, true, Mono::at(4), &mut bench.out);
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
    bench.listener.follow(&none, true, Mono::at(1), &mut bench.out);
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
    assert_eq!(bench.listener.next_wake(), Some(Mono::at(20)));
    assert_eq!(heard(&bench.launch(19)), []);
    assert_eq!(heard(&bench.launch(20)), [link]);
    // Many in one read are paid for afterwards.
    assert_eq!(heard(&bench.push(&["lock-1"; 100], 20)), []);
    assert_eq!(bench.listener.next_wake(), Some(Mono::at(120)));
    assert_eq!(heard(&bench.launch(120)), [link]);
    // What announces no change costs as much as one.
    let alive = Event::Pushed { bytes: 7, pushes: vec![Push::Alive] };
    assert_eq!(heard(&bench.take(alive, 120)), []);
    assert_eq!(bench.listener.next_wake(), Some(Mono::at(140)));
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
        bench.listener.follow(&filter(2), true, Mono::at(2), &mut bench.out);
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
        let ended = bench.take(answered(replies, None, ms, ms), ms);
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
    bench.listener.set_up(false, Mono::at(700_000), &mut bench.out);
    assert!(!refuse(&mut bench, 700_000), "it is not up");
    bench.listener.set_up(true, Mono::at(700_001), &mut bench.out);
    assert!(refuse(&mut bench, 700_001));
    bench.listener.follow(&filter(2), true, Mono::at(800_000), &mut bench.out);
    assert!(refuse(&mut bench, 800_000));
}

/// While no read is answered, a hint could not be followed.
#[test]
fn nobody_listens_while_reads_are_not_answered() {
    let mut bench = Bench::new(3);
    let link = bench.connect(0);
    bench.listener.set_up(false, Mono::at(10), &mut bench.out);
    assert_eq!(closed(&actions(&mut bench.out)), [link]);
    assert_eq!(bench.listener.next_wake(), None);
    assert!(dials(&bench.launch(60_000)).is_empty());
    bench.listener.set_up(true, Mono::at(60_000), &mut bench.out);
    assert_eq!(dials(&bench.launch(60_000)).len(), 1);
    // A dial is ended, too.
    bench.listener.set_up(false, Mono::at(60_001), &mut bench.out);
    assert_eq!(closed(&actions(&mut bench.out)).len(), 1);
}

#[test]
fn the_greeting_is_answered_step_by_step() {
    let commands = greeting(&[b"lock".to_vec()]);
    let honest = crate::redis::testing::answers(&commands, "master");
    let judged = |replies: &[Reply], ended: Option<Failure>| {
        let Event::Dialled(dialled) = answered(replies.to_vec(), ended, 0, 0) else { panic!() };
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
