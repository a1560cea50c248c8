//! Which expositions are rendered, and which are shared between readers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockwatch::outputs::exposition::{Page, Pages, Variant, make};
use lockwatch::outputs::metrics::{Selection, TABLE};
use lockwatch::outputs::negotiate::{Coding, Format};
use lockwatch::published::Published;
use lockwatch_judge::snapshot::TaskView;

use super::whole;
use crate::snapshots::{OWN, full_task, good_redis, published};
use crate::support::truth::rule;

const TEXT: Variant =
    Variant { format: Format::Classic, coding: Coding::Identity, metrics: Selection::ALL };

/// Two consecutive snapshots, `later` apart.
fn snapshots(tasks: usize, later: Duration) -> [Arc<Published>; 2] {
    let first =
        published((0..tasks).map(|at| full_task(&format!("job-{at:04}"))).collect(), vec![]);
    let mut next = Published::clone(&first);
    next.snapshot.sequence += 1;
    next.made += later;
    [first, Arc::new(next)]
}

async fn page(pages: &Pages, published: &Arc<Published>, variant: Variant) -> Arc<Page> {
    pages.page(Arc::clone(published), OWN, variant).await.unwrap()
}

#[tokio::test]
async fn readers_of_one_snapshot_share_a_page_also_one_after_the_other() {
    let [snapshot, _] = snapshots(3, Duration::ZERO);
    let pages = Pages::default();
    let first = Arc::downgrade(&page(&pages, &snapshot, TEXT).await);
    assert!(first.ptr_eq(&Arc::downgrade(&page(&pages, &snapshot, TEXT).await)));
    let other = page(&pages, &snapshot, whole(Format::OpenMetrics, Coding::Identity)).await;
    assert!(!first.ptr_eq(&Arc::downgrade(&other)), "another form");
}

/// Otherwise many readers at different times would have many large expositions rendered and kept.
#[tokio::test]
async fn a_large_page_that_is_read_goes_to_others_for_a_quarter_of_a_second() {
    let (near, far) = (Duration::from_millis(249), Duration::from_millis(250));
    for (what, tasks, later, is_read, joins) in [
        ("large and read", 300, near, true, true),
        ("nobody reads it", 300, near, false, false),
        ("the new one is much younger", 300, far, true, false),
        ("small", 50, near, true, false),
    ] {
        let [snapshot, next] = snapshots(tasks, later);
        let pages = Pages::default();
        let first = page(&pages, &snapshot, TEXT).await;
        let (address, reader) = (Arc::downgrade(&first), is_read.then_some(first));
        assert_eq!(
            address.ptr_eq(&Arc::downgrade(&page(&pages, &next, TEXT).await)),
            joins,
            "{what}"
        );
        drop(reader);
    }
}

#[tokio::test]
async fn other_metrics_and_another_reload_are_never_joined() {
    let [snapshot, next] = snapshots(300, Duration::from_millis(1));
    let pages = Pages::default();
    let without = |name| {
        let names = TABLE.iter().map(|metric| metric.name).filter(|other| *other != name);
        Variant { metrics: Selection::of(names).unwrap(), ..TEXT }
    };
    let first = page(&pages, &snapshot, without("lockwatch_lock_held")).await;
    assert!(Arc::ptr_eq(&first, &page(&pages, &next, without("lockwatch_lock_held")).await));
    assert!(!Arc::ptr_eq(&first, &page(&pages, &next, without("lockwatch_task_info")).await));

    let whole = page(&pages, &snapshot, TEXT).await;
    let mut own = OWN;
    own.reload.successful = !own.reload.successful;
    let after = pages.page(next, own, TEXT).await.unwrap();
    assert!(!Arc::ptr_eq(&whole, &after), "the page would tell of the reload before");
}

/// The number of possible selections is unlimited.
#[tokio::test]
async fn a_page_of_some_metrics_is_kept_only_while_it_is_read() {
    let [snapshot, _] = snapshots(3, Duration::ZERO);
    let pages = Pages::default();
    let some = Variant { metrics: Selection::of(["lockwatch_lock_held"]).unwrap(), ..TEXT };
    let first = page(&pages, &snapshot, some).await;
    assert!(Arc::ptr_eq(&first, &page(&pages, &snapshot, some).await));
    let address = Arc::downgrade(&first);
    drop(first);
    assert!(address.upgrade().is_none());
    let whole = Arc::downgrade(&page(&pages, &snapshot, TEXT).await);
    assert!(whole.upgrade().is_some());
}

/// Most of an exposition is copied from the previous one. Nothing may remain of a task that has
/// changed, moved or gone.
#[tokio::test]
async fn a_page_after_another_is_as_if_it_were_the_first() {
    let _rule = rule("13 series");
    let task = |name: &str| Arc::new(full_task(name));
    let (a, b, c, twin) = (task("a"), task("b"), task("c"), task("b"));
    // Consecutive views share their common parts.
    let changed = |change: fn(&mut TaskView)| {
        let mut view = TaskView::clone(&b);
        change(&mut view);
        Arc::new(view)
    };
    let older = changed(|view| view.durations.down_ms = 12_345);
    let freed = changed(|view| (view.held, view.lock_mut().hold) = (Some(false), None));
    let unknown = changed(|view| view.held = None);
    let taken = changed(|view| {
        let hold = view.lock_mut().hold.as_mut().unwrap();
        hold.holders = hold
            .holders
            .iter()
            .cloned()
            .map(|(holder, _)| (holder, Some(b"elsewhere".to_vec())))
            .collect();
    });
    let configured = changed(|view| {
        let spec = Arc::make_mut(&mut view.spec);
        spec.labels = vec![("team".into(), "another".into())];
    });
    // So many tasks that their series are not copied from the previous exposition.
    let others: Vec<Arc<TaskView>> = (0..40).map(|at| task(&format!("other-{at:02}"))).collect();
    let pages = Pages::default();
    let some = ["lockwatch_lock_held", "lockwatch_task_info", "lockwatch_task_handover_seconds"];
    let some = Variant { metrics: Selection::of(some).unwrap(), ..TEXT };
    let other = Variant { metrics: Selection::of(["lockwatch_task_state"]).unwrap(), ..TEXT };
    for (sequence, tasks) in (1..).zip([
        vec![&a, &b, &c],
        vec![&a, &older, &c],
        vec![&a, &b, &c],
        vec![&a, &freed, &c],
        vec![&a, &older, &c],
        vec![&a, &unknown, &c],
        vec![&a, &older, &c],
        vec![&a, &taken, &c],
        vec![&a, &older, &c],
        vec![&a, &configured, &c],
        vec![&a, &configured, &c],
        vec![&b, &c],
        vec![&a, &c],
        vec![&b, &twin, &c],
        vec![&twin, &c],
        vec![],
        vec![&c],
        vec![&c],
        vec![&c],
        vec![&c],
    ]) {
        // At last so many Redis servers that the series of tasks move within the exposition.
        let redises =
            (0..if sequence == 19 { 129 } else { 1 }).map(|at| good_redis(&format!("redis-{at}")));
        let mut next = Published::clone(&published(vec![], redises.collect()));
        next.snapshot.sequence = sequence;
        let others = if tasks.is_empty() { &[] } else { &others[..] };
        next.snapshot.tasks = tasks.iter().copied().chain(others).cloned().collect();
        let next = Arc::new(next);
        let packed = Variant { coding: Coding::Gzip, ..TEXT };
        for variant in
            [TEXT, whole(Format::OpenMetrics, Coding::Identity), packed, some, other, some]
        {
            let page = page(&pages, &next, variant).await;
            let shown: Vec<u8> =
                (0..).map_while(|at| page.piece(at).unwrap()).collect::<Vec<_>>().concat();
            let alone = make(Arc::clone(&next), OWN, variant).unwrap();
            assert_eq!(page.length(), Some(shown.len()));
            let (lines, expected) = (of_tasks(&shown, variant), of_tasks(&alone, variant));
            let difference = lines.iter().zip(&expected).find(|(line, expected)| line != expected);
            assert_eq!((difference, lines.len()), (None, expected.len()), "{sequence} {variant:?}");
        }
    }
}

/// Otherwise a client that polls would have thousands of series rendered again for each change.
#[tokio::test]
async fn what_did_not_change_is_shared_by_pages_that_follow_each_other() {
    let tasks: Vec<Arc<TaskView>> =
        (0..100).map(|at| Arc::new(full_task(&format!("job-{at:02}")))).collect();
    let pages = Pages::default();
    let mut pieces: Vec<Vec<Bytes>> = Vec::new();
    for sequence in 1..=3 {
        let mut next = Published::clone(&published(vec![], vec![good_redis("main")]));
        let changed = Arc::new({
            let mut view = TaskView::clone(&tasks[7]);
            view.durations.down_ms = sequence;
            view
        });
        next.snapshot.sequence = sequence;
        next.snapshot.tasks = tasks
            .iter()
            .map(|task| if task.spec == changed.spec { &changed } else { task })
            .cloned()
            .collect();
        let page = page(&pages, &Arc::new(next), TEXT).await;
        pieces.push((0..).map_while(|at| page.piece(at).unwrap()).collect());
    }
    let shared = |a: &[Bytes], b: &[Bytes]| -> usize {
        let same = |piece: &&Bytes| {
            b.iter().any(|other| (other.as_ptr(), other.len()) == (piece.as_ptr(), piece.len()))
        };
        a.iter().filter(same).map(Bytes::len).sum()
    };
    let length: usize = pieces[2].iter().map(Bytes::len).sum();
    assert_eq!(shared(&pieces[2], &pieces[0]), 0, "who asks once has nothing kept in pieces");
    assert!(
        shared(&pieces[2], &pieces[1]) > length * 9 / 10,
        "only one metric of one task is another"
    );
}

/// The lines of an exposition, without those about the process, which keep changing.
fn of_tasks(page: &[u8], variant: Variant) -> Vec<String> {
    let text = match variant.coding {
        Coding::Identity => String::from_utf8(page.to_vec()).unwrap(),
        Coding::Gzip => std::io::read_to_string(flate2::read::GzDecoder::new(page)).unwrap(),
    };
    text.lines().filter(|line| !line.starts_with("process_")).map(str::to_owned).collect()
}
