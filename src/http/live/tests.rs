//! Which frames are sent for which change, and to which subscribers.

use std::collections::BTreeMap;

use lockwatch_judge::snapshot::{ProgressView, Snapshot, TaskView};
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::Verdict;
use serde_json::Value;

use super::*;
use crate::outputs::page::fixture::free;

const BOOT: &str = "b007";

/// A sequence of snapshots that a test changes step by step.
struct Story {
    sequence: u64,
    tasks: BTreeMap<String, Arc<TaskView>>,
}

/// A frame as a page decodes it.
#[derive(Debug)]
struct Received {
    event: String,
    data: Value,
}

impl Story {
    fn of(names: &[&str]) -> Story {
        let task = |name: &str| {
            let mut view = free(0);
            Arc::make_mut(&mut view.spec).name = name.into();
            let moved = Some(lockwatch_judge::time::ServerTime::at(0));
            view.progress = Some(Box::new(ProgressView { moved, ..ProgressView::default() }));
            (name.to_owned(), Arc::new(view))
        };
        Story { sequence: 10, tasks: names.iter().copied().map(task).collect() }
    }

    /// Changes a task in a new view, as every reading does.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut TaskView)) -> &mut Story {
        let task = self.tasks.get_mut(name).unwrap();
        let mut view = TaskView::clone(task);
        change(&mut view);
        *task = Arc::new(view);
        self
    }

    fn turns(&mut self, name: &str, verdict: Verdict) -> &mut Story {
        self.change(name, |view| view.verdict = verdict)
    }

    /// The progress of a task moved: a pulse.
    fn works(&mut self, name: &str, at: i64) -> &mut Story {
        self.change(name, |view| {
            let moved = Some(lockwatch_judge::time::ServerTime::at(at));
            view.progress = Some(Box::new(ProgressView { moved, ..ProgressView::default() }));
        })
    }

    fn snapshot(&mut self) -> Arc<Published> {
        self.sequence += 1;
        let at = Mono::at(1_000 * self.sequence);
        let tasks = self.tasks.values().cloned().collect();
        let snapshot = Snapshot { at, sequence: self.sequence, tasks, stores: Vec::new() };
        let wall = AgentWall(1_800_000_000_000 + i64::try_from(at.ms()).unwrap());
        Arc::new(Published {
            snapshot,
            wall,
            made: std::time::Instant::now(),
            patterns: Arc::default(),
            drill: None,
        })
    }
}

fn parse(frame: &[u8]) -> Received {
    let text = std::str::from_utf8(frame).unwrap().strip_suffix("\n\n").expect("a whole event");
    let fields: BTreeMap<&str, &str> =
        text.lines().map(|line| line.split_once(": ").unwrap()).collect();
    let data: Value = serde_json::from_str(fields["data"]).unwrap();
    match fields.get("id") {
        Some(id) => assert_eq!(*id, format!("{BOOT}-{}", data["seq"])),
        None => assert_eq!(fields["event"], "beat"),
    }
    Received { event: fields["event"].to_owned(), data }
}

impl Received {
    fn names(&self, part: &str) -> Vec<&str> {
        let part = self.data[part].as_array().map(Vec::as_slice).unwrap_or_default();
        part.iter().map(|one| one.as_str().or(one[0].as_str()).unwrap()).collect()
    }

    /// Event, rows, pulses and removed tasks.
    fn parts(&self) -> (&str, Vec<&str>, Vec<&str>, Vec<&str>) {
        (&self.event, self.names("rows"), self.names("pulses"), self.names("gone"))
    }
}

/// A page that subscribes to `publisher`.
struct Listener(mpsc::Receiver<Bytes>);

impl Listener {
    fn join(publisher: &mut Publisher, since: Option<(&str, u64)>, task: Option<&str>) -> Listener {
        let (sender, frames) = mpsc::channel(subscribers::WAITING_MAX);
        let asked = Asked {
            since: since.map(|(boot, since)| (boot.to_owned(), since)),
            task: task.map(str::to_owned),
        };
        publisher.welcome(asked, sender, &frame::beat(AgentWall(1), None, None));
        Listener(frames)
    }

    fn received(&mut self) -> Vec<Received> {
        std::iter::from_fn(|| self.0.try_recv().ok()).map(|frame| parse(&frame)).collect()
    }

    /// The only frame that was received.
    #[track_caller]
    fn one(&mut self) -> Received {
        let mut received = self.received();
        assert_eq!(received.len(), 1, "{received:?}");
        received.remove(0)
    }
}

/// A publisher that has sent the first snapshot of `story`, and a page that shows it.
fn listening(story: &mut Story) -> (Publisher, Listener) {
    let mut publisher = Publisher::new(BOOT);
    publisher.publish(&story.snapshot());
    let mut page = Listener::join(&mut publisher, Some((BOOT, story.sequence)), None);
    assert_eq!(page.one().event, "beat", "nothing has happened since");
    (publisher, page)
}

#[tokio::test]
async fn only_what_changed_is_told() {
    let mut story = Story::of(&["a", "b", "c"]);
    let (mut publisher, mut page) = listening(&mut story);
    publisher.publish(&story.snapshot());
    publisher.publish(
        &story
            .change("a", |_| {})
            .change("b", |view| Arc::make_mut(&mut view.totals).renewals += 1)
            .snapshot(),
    );
    assert!(page.received().is_empty(), "a new reading that says the same");

    publisher.publish(&story.turns("b", Verdict::Down).snapshot());
    let received = page.one();
    assert_eq!(received.parts(), ("rows", vec!["b"], vec![], vec![]));
    assert_eq!(
        (&received.data["seq"], &received.data["at"]),
        (&14.into(), &1_800_000_014_000_i64.into())
    );
    assert_eq!(
        (&received.data["counts"]["down"], &received.data["counts"]["stopped"]),
        (&1.into(), &2.into())
    );
    assert!(
        received.data["rows"][0][1]
            .as_str()
            .unwrap()
            .starts_with("<tr data-task=\"b\" data-verdict=\"down\"")
    );

    publisher.publish(
        &story.works("a", 5_000).works("c", 5_000).turns("c", Verdict::Pending).snapshot(),
    );
    let received = page.one();
    assert_eq!(received.parts(), ("rows", vec!["c"], vec!["a"], vec![]), "a row says it all");
    assert_eq!(received.data["pulses"][0], serde_json::json!(["a", null, null, 5_000]));

    publisher.publish(&story.works("a", 5_010).snapshot());
    assert!(page.received().is_empty(), "jitter");
    for at in [5_200, 5_400] {
        publisher.publish(&story.works("a", at).snapshot());
    }
    assert_eq!(page.one().parts().2, ["a"], "small steps add up");

    story.tasks.remove("b").unwrap();
    story.tasks.extend(Story::of(&["aa", "d"]).tasks);
    publisher.publish(&story.snapshot());
    let received = page.one();
    assert_eq!(received.parts(), ("rows", vec!["aa", "d"], vec![], vec!["b"]));
    assert_eq!(received.data["counts"]["down"], 0);
}

#[tokio::test]
async fn a_page_that_comes_back_hears_what_it_missed() {
    let mut story = Story::of(&["a", "b"]);
    let (mut publisher, _page) = listening(&mut story);
    let (first, second) = (story.sequence, story.sequence + 1);
    publisher.publish(&story.turns("a", Verdict::Down).snapshot());
    publisher.publish(&story.turns("b", Verdict::Down).snapshot());
    let mut after = |since| -> Vec<(String, usize)> {
        let received = Listener::join(&mut publisher, since, None).received();
        received
            .iter()
            .map(|received| (received.event.clone(), received.names("rows").len()))
            .collect()
    };
    let (rows, beat, all) = (("rows".to_owned(), 1), ("beat".to_owned(), 0), ("all".to_owned(), 2));
    assert_eq!(after(Some((BOOT, first))), [rows.clone(), rows.clone(), beat.clone()]);
    assert_eq!(after(Some((BOOT, second))), [rows, beat.clone()]);
    assert_eq!(after(Some((BOOT, second + 1))), std::slice::from_ref(&beat));
    assert_eq!(
        after(Some((BOOT, second + 2))),
        std::slice::from_ref(&beat),
        "a page of a newer snapshot"
    );
    for unknown in [None, Some(("0ther", second)), Some((BOOT, first - 1))] {
        assert_eq!(after(unknown), [all.clone(), beat.clone()], "{unknown:?}");
    }
}

#[tokio::test]
async fn changes_count_from_the_page_that_was_given_first() {
    let mut story = Story::of(&["a", "b"]);
    let mut publisher = Publisher::new(BOOT);
    publisher.given(story.snapshot());
    let given = story.sequence;
    publisher.given(story.turns("a", Verdict::Down).snapshot());
    publisher.publish(&story.turns("b", Verdict::Down).snapshot());
    let received = Listener::join(&mut publisher, Some((BOOT, given)), None).received();
    assert_eq!(received[0].parts(), ("rows", vec!["a", "b"], vec![], vec![]));
}

#[tokio::test]
async fn a_page_that_does_not_read_keeps_nobody_waiting_and_gets_everything_later() {
    let mut story = Story::of(&["a", "b"]);
    let (mut publisher, mut quick) = listening(&mut story);
    let mut slow = Listener::join(&mut publisher, Some((BOOT, story.sequence)), None);
    let verdicts = [Verdict::Down, Verdict::Running];
    for turn in 0..2 * subscribers::WAITING_MAX {
        publisher.publish(&story.turns("a", verdicts[turn % 2]).snapshot());
        assert_eq!(quick.one().parts(), ("rows", vec!["a"], vec![], vec![]));
    }
    assert_eq!(slow.received().len(), subscribers::WAITING_MAX, "no more than fits");
    publisher.publish(&story.turns("b", Verdict::Down).snapshot());
    assert_eq!(slow.one().parts(), ("all", vec!["a", "b"], vec![], vec![]));
    assert_eq!(quick.one().parts(), ("rows", vec!["b"], vec![], vec![]));
    publisher.publish(&story.turns("b", Verdict::Running).snapshot());
    assert_eq!(slow.one().parts(), ("rows", vec!["b"], vec![], vec![]), "it keeps up again");
}

#[tokio::test]
async fn a_page_of_one_task_hears_of_that_task_only() {
    let mut story = Story::of(&["a", "b"]);
    let (mut publisher, _page) = listening(&mut story);
    let since = Some((BOOT, story.sequence));
    let (mut a, mut other_a) = (
        Listener::join(&mut publisher, since, Some("a")),
        Listener::join(&mut publisher, since, Some("a")),
    );
    let mut none = Listener::join(&mut publisher, None, Some("none"));
    assert_eq!((a.one().event, other_a.one().event), ("beat".to_owned(), "beat".to_owned()));
    assert_eq!(
        none.received()[0].parts(),
        ("all", vec![], vec![], vec![]),
        "there is no such task"
    );
    publisher.publish(&story.turns("b", Verdict::Down).snapshot());
    assert!(a.received().is_empty() && none.received().is_empty());
    let before = story.sequence;
    publisher.publish(&story.turns("a", Verdict::Down).works("b", 7_000).snapshot());
    for page in [&mut a, &mut other_a] {
        assert_eq!(page.one().parts(), ("rows", vec!["a"], vec![], vec![]));
    }
    let received = Listener::join(&mut publisher, Some((BOOT, before)), Some("a")).received();
    assert_eq!(received[0].parts(), ("all", vec!["a"], vec![], vec![]), "it has missed something");
    assert_eq!(
        Listener::join(&mut publisher, Some((BOOT, story.sequence)), Some("a")).one().event,
        "beat"
    );
    story.tasks.remove("a").unwrap();
    publisher.publish(&story.snapshot());
    assert_eq!(a.one().parts(), ("rows", vec![], vec![], vec!["a"]));
}

#[tokio::test]
async fn more_than_a_page_shows_is_told_as_the_worst() {
    let names: Vec<String> = (0..ROWS_MAX + 500).map(|n| format!("t{n:05}")).collect();
    let mut story = Story::of(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let (mut publisher, mut page) = listening(&mut story);
    let before = story.sequence;
    for (n, name) in names.iter().enumerate() {
        story.turns(name, if n < 500 { Verdict::Running } else { Verdict::Pending });
    }
    story.turns("t00007", Verdict::Split);
    publisher.publish(&story.snapshot());
    let received = page.one();
    assert_eq!((received.event.as_str(), received.names("rows").len()), ("all", ROWS_MAX));
    let rows = received.names("rows");
    assert!(
        rows.contains(&"t00007") && !rows.contains(&"t00008") && !rows.contains(&"t02499"),
        "not the worst"
    );
    assert_eq!(
        (&received.data["counts"]["running"], &received.data["counts"]["pending"]),
        (&499.into(), &2_000.into())
    );
    assert_eq!(
        Listener::join(&mut publisher, Some((BOOT, before)), None).received()[0].event,
        "all"
    );
    publisher.publish(
        &story.turns("t02499", Verdict::Running).turns("t00001", Verdict::Stopped).snapshot(),
    );
    assert_eq!(page.one().names("rows"), ["t00001", "t02499"], "whatever changes");
}

#[tokio::test]
async fn what_slow_pages_keep_alive_is_bounded() {
    let mut story = Story::of(&["a"]);
    let (mut publisher, mut page) = listening(&mut story);
    let kept = publisher.encoder.counted(vec![0; ALIVE_BYTES_MAX + 1]);
    let mut late = Listener::join(&mut publisher, None, None);
    assert_eq!(late.one().event, "beat", "everything must wait");
    publisher.publish(&story.turns("a", Verdict::Down).snapshot());
    assert!(page.received().is_empty() && late.received().is_empty());
    drop(kept);
    publisher.help_lagging();
    for page in [&mut page, &mut late] {
        assert_eq!(page.one().parts(), ("all", vec!["a"], vec![], vec![]));
    }
}

#[tokio::test]
async fn beats_are_for_those_who_have_heard_nothing() {
    let mut story = Story::of(&["a"]);
    let (mut publisher, mut busy) = listening(&mut story);
    let mut quiet = Listener::join(&mut publisher, Some((BOOT, story.sequence)), Some("none"));
    assert_eq!(quiet.one().event, "beat");
    tokio::time::sleep_until(publisher.pages.next_beat()).await;
    publisher.publish(&story.turns("a", Verdict::Down).snapshot());
    assert_eq!(busy.one().event, "rows");
    publisher.pages.beat(&frame::beat(AgentWall(2), Some("The engine has stopped."), None));
    assert_eq!(
        quiet.one().data,
        serde_json::json!({"at": 2, "stopped": "The engine has stopped."})
    );
    assert!(busy.received().is_empty() && quiet.received().is_empty());
    drop(quiet);
    tokio::time::sleep_until(publisher.pages.next_beat()).await;
    publisher.pages.beat(&frame::beat(AgentWall(3), None, None));
    assert_eq!(busy.one().data, serde_json::json!({"at": 3, "stopped": false}));
    drop(busy);
    publisher.publish(&story.turns("a", Verdict::Split).snapshot());
    assert!(publisher.pages.is_empty());
}

#[test]
fn what_a_page_asks_for() {
    let asked = |query: &str, id: &str| {
        let mut headers = HeaderMap::new();
        if !id.is_empty() {
            headers.insert("last-event-id", id.parse().unwrap());
        }
        Asked::by(Some(query), &headers)
    };
    let since = |boot: &str, since| Some((boot.to_owned(), since));
    assert_eq!(asked("", ""), Asked::default());
    assert_eq!(asked("since=7&boot=a1", ""), Asked { since: since("a1", 7), task: None });
    for nothing in [
        "since=7",
        "boot=a1",
        "since=-7&boot=a1",
        "since=x&boot=a1",
        "since=99999999999999999999&boot=a",
    ] {
        assert_eq!(asked(nothing, "").since, None, "{nothing}");
    }
    assert_eq!(
        asked("since=7&boot=a1&task=in%2Fbound+1", "a1-9"),
        Asked { since: since("a1", 9), task: Some("in/bound 1".into()) }
    );
    assert_eq!(asked("since=7&boot=a1", "nonsense").since, since("a1", 7));
}
