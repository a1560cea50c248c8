//! Changes appear at once, without a reload of the document.

use std::time::Duration;

use lockwatch_lab::stack::{Agent, Browser, Lost, Redis, Worker, WorkerSetup};
use serde_json::json;

use crate::page::support::{
    PATIENCE, Seen, assert_quiet, is_the_same_document, open_live, row, seen, verdict, watch,
};

const LEASE: Duration = Duration::from_secs(3);

async fn worker(redis: &Redis) -> Worker {
    let setup = WorkerSetup {
        redis: redis.address(),
        lock: "outbound:lock".to_owned(),
        lease: LEASE,
        progress: None,
        claims: None,
        after_loss: Lost::GiveUp,
    };
    let mut worker = Worker::start(&setup).await.unwrap();
    worker.contend().await.unwrap();
    worker
}

fn config(redis: &Redis) -> String {
    format!(
        "redis: {{main: {{url: \"redis://{}\"}}}}\n\
         tasks:\n  - {{name: outbound, lock: {{key: \"outbound:lock\"}}, wanted: always, grace: \
         2s, settle: 1s}}\n",
        redis.address()
    )
}

/// When the key expires unless it is renewed, by Redis' clock.
async fn deadline_ms(redis: &Redis) -> i64 {
    let mut connection = redis.connect().await.unwrap();
    redis::cmd("PEXPIRETIME").arg("outbound:lock").query_async(&mut connection).await.unwrap()
}

fn first(seen: &[Seen], is_it: impl Fn(&Seen) -> bool) -> Seen {
    seen.iter().find(|seen| is_it(seen)).unwrap_or_else(|| panic!("not seen: {seen:?}")).clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_turns_the_row_and_the_take_over_turns_it_back_without_a_reload() {
    let redis = Redis::start().await.unwrap();
    let mut holder = worker(&redis).await;
    holder.holds().await.unwrap();
    let agent = Agent::start(&config(&redis)).await.unwrap();
    let browser = Browser::start().await.unwrap();
    open_live(&browser, agent.address(), "/").await;
    let verdict = verdict("outbound");
    browser.until(PATIENCE, &format!("{verdict} === 'running'")).await.unwrap();
    let first_holder =
        browser.value(&format!("{}.cells[3].textContent", row("outbound"))).await.unwrap();
    watch(&browser, "outbound").await;

    holder.crash().await.unwrap();
    let deadline_ms = deadline_ms(&redis).await;
    assert!(deadline_ms > 0, "it died while it held the lock: {deadline_ms}");
    browser.until(PATIENCE, &format!("{verdict} === 'down'")).await.unwrap();
    let turned = first(&seen(&browser).await, |seen| seen.verdict == "pending");
    let late_ms = turned.at_ms - deadline_ms as f64;
    println!("the row turned {late_ms:.0} ms after Redis' end of the key");
    assert!(
        (0.0..=1500.0).contains(&late_ms),
        "the row turned {late_ms} ms after Redis' end of the key"
    );

    // The gap is counted from its beginning.
    let gap = format!("{}.cells[4].querySelector('[data-since]')", row("outbound"));
    let since_ms =
        browser.value(&format!("Number({gap}.dataset.since)")).await.unwrap().as_f64().unwrap();
    assert!(
        (-50.0..=1050.0).contains(&(since_ms - deadline_ms as f64)),
        "{since_ms} against {deadline_ms}"
    );
    let before = browser.value(&format!("{gap}.textContent")).await.unwrap();
    assert!(before.as_str().unwrap().ends_with(" s"), "{before}");
    browser.until(PATIENCE, &format!("{gap}.textContent !== {before}")).await.unwrap();

    let mut next = worker(&redis).await;
    next.holds().await.unwrap();
    browser.until(PATIENCE, &format!("{verdict} === 'running'")).await.unwrap();
    let all = seen(&browser).await;
    let last = all.last().unwrap();
    assert_ne!(json!(last.holder), first_holder, "another one holds it: {all:?}");
    let order: Vec<&str> = all.iter().map(|seen| seen.verdict.as_str()).collect();
    let mut order = order;
    order.dedup();
    assert_eq!(order, ["running", "pending", "down", "running"], "{all:?}");
    browser
        .until(PATIENCE, &format!("{}.textContent.includes('outage')", row("outbound")))
        .await
        .unwrap();

    // A renewal moves the end of the lease without replacing the row.
    let deadline = format!("Number({}.querySelector('meter').dataset.deadline)", row("outbound"));
    let before_ms = browser.value(&deadline).await.unwrap().as_f64().unwrap();
    browser.until(PATIENCE, &format!("{deadline} >= {}", before_ms + 800.0)).await.unwrap();
    let left = format!("{}.querySelector('[data-left]').textContent", row("outbound"));
    let left = browser.value(&left).await.unwrap();
    assert!(["0 s", "1 s", "2 s"].contains(&left.as_str().unwrap()), "{left}");

    assert!(all.iter().all(|seen| seen.connection.is_empty()), "live all the time: {all:?}");
    assert!(is_the_same_document(&browser).await);
    assert_quiet(&browser, |_| false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_one_task_follows_it_too() {
    let redis = Redis::start().await.unwrap();
    let mut holder = worker(&redis).await;
    holder.holds().await.unwrap();
    let agent = Agent::start(&config(&redis)).await.unwrap();
    let browser = Browser::start().await.unwrap();
    open_live(&browser, agent.address(), "/tasks/outbound").await;
    let shows =
        |word: &str| format!("document.querySelector('#task .verdict').textContent === '{word}'");
    browser.until(PATIENCE, &shows("running")).await.unwrap();
    let text = browser.value("document.querySelector('#task').textContent").await.unwrap();
    assert!(text.as_str().unwrap().contains("a stuck worker would look healthy"), "{text}");
    holder.crash().await.unwrap();
    browser.until(PATIENCE, &shows("down")).await.unwrap();
    let mut next = worker(&redis).await;
    next.holds().await.unwrap();
    browser.until(PATIENCE, &shows("running")).await.unwrap();
    assert!(is_the_same_document(&browser).await);
    assert_quiet(&browser, |_| false).await;
}
