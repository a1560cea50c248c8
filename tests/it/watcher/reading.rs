//! A running watcher: its samples while the server and the network misbehave.

use crate::support::PATIENCE;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockwatch::clock::Clock;
use lockwatch::config::RedisConfig;
use lockwatch::io::{Assignment, run};
use lockwatch::trace::Traces;
use lockwatch_judge::input::{Input, NodeNewsKind, Outcome, Sample};
use lockwatch_judge::reading::{LockReading, Unknown};
use lockwatch_judge::spec::{Codec, StoreIndex, TaskIndex, TaskSpec, WantedSource, WantedSpec};
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::libraries;
use lockwatch_watch::redis::schedule::BATCH_TASKS;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::config;
use crate::support::free_port;
use crate::support::proxy::{Fault, Proxy};
use crate::support::redis::{Keep, RedisServer};
use crate::support::standstill::Standstills;
use crate::support::truth::rule;

/// The task `number`: its lock is the string key `lock:<number>`.
fn task(number: u32) -> (TaskIndex, Arc<TaskSpec>) {
    let key = format!("lock:{number}").into_bytes();
    let spec =
        TaskSpec::new(&format!("task {number}"), StoreIndex(0), libraries::lock(&key, "string"));
    (TaskIndex(number), Arc::new(spec))
}

/// A watcher and its output.
struct Bench {
    assignments: watch::Sender<Arc<Assignment>>,
    inputs: mpsc::Receiver<Input>,
    watcher: JoinHandle<()>,
    clock: Clock,
}

impl Bench {
    fn start(config: RedisConfig, tasks: u32) -> Bench {
        Bench::start_with(config, (0..tasks).map(task).collect())
    }

    fn start_with(config: RedisConfig, tasks: Vec<(TaskIndex, Arc<TaskSpec>)>) -> Bench {
        let assignment = Assignment { epoch: 1, index: StoreIndex(0), config, tasks };
        let (assignments, receiver) = watch::channel(Arc::new(assignment));
        let (sender, inputs) = mpsc::channel(256);
        let clock = Clock::start();
        let watcher = tokio::spawn(run(receiver, sender, clock, Traces::default()));
        Bench { assignments, inputs, watcher, clock }
    }

    async fn next(&mut self) -> Input {
        timeout(PATIENCE, self.inputs.recv()).await.expect("an input").expect("a watcher")
    }

    /// All inputs that arrive within `time`.
    async fn all_within(&mut self, time: Duration) -> Vec<Input> {
        let (until, mut inputs) = (Instant::now() + time, Vec::new());
        while let Ok(input) = timeout_at(until, self.inputs.recv()).await {
            inputs.push(input.expect("a watcher"));
        }
        inputs
    }

    /// The next valid batch.
    async fn next_read(&mut self) -> Sample {
        loop {
            if let Input::Sample(sample @ Sample { outcome: Outcome::Read { .. }, .. }) =
                self.next().await
            {
                return sample;
            }
        }
    }

    /// The next failure, of a batch or a tick: the tasks and the reason.
    async fn next_failure(&mut self) -> (Vec<TaskIndex>, Unknown) {
        loop {
            if let Input::Sample(Sample { outcome: Outcome::Failed { tasks, why }, .. }) =
                self.next().await
            {
                return (tasks, why);
            }
        }
    }

    /// The next failure with this reason.
    async fn failure(&mut self, expected: Unknown) -> Vec<TaskIndex> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let (tasks, why) = self.next_failure().await
                && why == expected
            {
                return tasks;
            }
        }
        panic!("never failed with {expected:?}");
    }
}

fn readings(sample: &Sample) -> Vec<(u32, &LockReading)> {
    match &sample.outcome {
        Outcome::Read { readings, .. } => {
            readings.iter().map(|(task, reading)| (task.0, reading.lock().unwrap())).collect()
        }
        Outcome::Parts { .. } | Outcome::Failed { .. } => Vec::new(),
    }
}

/// Whether `lock` is held by the holder that these tests give to task `number`.
fn is_own(number: u32, lock: &LockReading) -> bool {
    matches!(lock, LockReading::Held(held) if held.holders.iter().all(|holder| holder.client == owner(number).as_bytes()))
}

fn owner(number: u32) -> String {
    format!("owner of {number}")
}

fn hold_all(server: &RedisServer, tasks: u32) {
    for number in 0..tasks {
        assert_eq!(server.cli(&["SET", &format!("lock:{number}"), &owner(number)]), "OK");
    }
}

#[tokio::test]
async fn every_task_is_read_once_per_interval() {
    let _rule = rule("6 confirmation");
    let Some(server) = RedisServer::start("every_task_is_read_once_per_interval") else { return };
    hold_all(&server, 3);
    let config = RedisConfig { interval: Duration::from_millis(200), ..config(server.port) };
    let mut bench = Bench::start(config, 4);
    assert!(
        matches!(bench.next().await, Input::Node(news) if matches!(news.kind, NodeNewsKind::Connected { .. }))
    );
    let first = bench.next_read().await;
    for (number, lock) in readings(&first) {
        assert!(
            if number < 3 { is_own(number, lock) } else { *lock == LockReading::Free },
            "{number}: {lock:?}"
        );
    }
    let mut reads: BTreeMap<u32, Vec<Mono>> = BTreeMap::new();
    for input in bench.all_within(Duration::from_millis(1_050)).await {
        let Input::Sample(sample) = input else { panic!("{input:?}") };
        for (number, _) in readings(&sample) {
            reads.entry(number).or_default().push(sample.sent);
        }
    }
    for number in 0..3 {
        assert!((4..=6).contains(&reads[&number].len()), "{number}: {reads:?}");
    }
    assert!(
        (5..=7).contains(&reads[&3].len()),
        "the free one is read once more, to confirm: {reads:?}"
    );
}

#[tokio::test]
async fn an_expiry_is_seen_at_once_and_confirmed_even_if_the_interval_is_long() {
    let _rule = rule("6 confirmation");
    let test = "an_expiry_is_seen_at_once_and_confirmed_even_if_the_interval_is_long";
    let Some(server) = RedisServer::start(test) else { return };
    server.cli(&["SET", "lock:0", &owner(0), "PX", "700"]);
    let (began, standstills) = (std::time::Instant::now(), Standstills::watch());
    let config = RedisConfig { interval: Duration::from_secs(60), ..config(server.port) };
    let mut bench = Bench::start(config, 1);
    let held = bench.next_read().await;
    let LockReading::Held(lock) = readings(&held)[0].1 else { panic!("{held:?}") };
    let lockwatch_judge::reading::Deadline::At(deadline) = lock.deadline else {
        panic!("{lock:?}")
    };
    let free = bench.next_read().await;
    assert_eq!(readings(&free), [(0, &LockReading::Free)]);
    let Outcome::Read { attestation, .. } = &free.outcome else { unreachable!() };
    let late_ms = attestation.first.since_ms(deadline);
    let stood_still_ms = || standstills.stood_still_since(began).as_millis();
    let asked_by_ms = 150 + i64::try_from(stood_still_ms()).unwrap();
    assert!((0..asked_by_ms).contains(&late_ms), "asked {late_ms} ms after the deadline");
    let confirmed = bench.next_read().await;
    assert_eq!(readings(&confirmed), [(0, &LockReading::Free)]);
    let between_ms = confirmed.sent.since_ms(free.sent);
    let confirmed_by_ms = 400 + u64::try_from(stood_still_ms()).unwrap();
    assert!((250..confirmed_by_ms).contains(&between_ms), "{between_ms}");
}

#[tokio::test]
async fn replies_are_never_attributed_to_another_question() {
    let _rule = rule("3 connection");
    let Some(server) = RedisServer::start("replies_are_never_attributed_to_another_question")
    else {
        return;
    };
    const TASKS: u32 = 40;
    hold_all(&server, TASKS);
    let proxy = Proxy::start(server.port);
    let quick = Duration::from_millis(150);
    let mut bench = Bench::start(
        RedisConfig { interval: Duration::from_millis(20), timeout: quick, ..config(proxy.port) },
        TASKS,
    );
    let faults = [
        Fault::DropEverySecondReply,
        Fault::Delay(Duration::from_millis(145)),
        Fault::Truncate(9_000),
        Fault::Dribble(Duration::from_micros(10)),
        Fault::Truncate(23_457),
        Fault::SwallowRequests,
        Fault::Delay(Duration::from_millis(160)),
    ];
    let (mut read, mut failed) = (0, BTreeSet::new());
    for fault in faults {
        for fault in [fault, Fault::None] {
            proxy.set(fault);
            for input in bench.all_within(Duration::from_millis(700)).await {
                let Input::Sample(sample) = input else { continue };
                for (number, lock) in readings(&sample) {
                    assert!(is_own(number, lock), "{number} read {lock:?} under {fault:?}");
                    read += 1;
                }
                if let Outcome::Failed { why, .. } = sample.outcome {
                    failed.insert(why);
                }
            }
        }
    }
    proxy.cut();
    bench.next_read().await;
    assert!(read > TASKS * 50, "only {read} readings");
    assert!(failed.contains(&Unknown::Timeout) && failed.contains(&Unknown::Closed), "{failed:?}");
    // On a busy machine a reply just below the timeout may be processed too late. The reason must
    // be about this reply, not about another one.
    let network = [Unknown::Timeout, Unknown::Closed, Unknown::Late];
    assert!(failed.iter().all(|why| network.contains(why)), "{failed:?}");
}

#[tokio::test]
async fn each_fault_has_its_reason_and_is_got_over() {
    let _rule = rule("3 connection");
    let Some(mut server) = RedisServer::start("each_fault_has_its_reason_and_is_got_over") else {
        return;
    };
    hold_all(&server, 2);
    let proxy = Proxy::start(server.port);
    let mut bench = Bench::start(config(proxy.port), 2);
    bench.next_read().await;
    for fault in
        [Fault::SwallowReplies, Fault::SwallowRequests, Fault::Delay(Duration::from_secs(1))]
    {
        proxy.set(fault);
        assert_eq!(bench.failure(Unknown::Timeout).await.len(), 2, "{fault:?}");
        proxy.set(Fault::None);
        proxy.cut();
        bench.next_read().await;
    }
    proxy.cut();
    assert_eq!(bench.failure(Unknown::Closed).await.len(), 2);
    bench.next_read().await;
    server.pause();
    assert_eq!(bench.failure(Unknown::Timeout).await.len(), 2);
    server.go_on();
    bench.next_read().await;
    server.restart(Keep::Nothing);
    let free = loop {
        let sample = bench.next_read().await;
        if readings(&sample).iter().all(|(_, lock)| **lock == LockReading::Free) {
            break sample;
        }
    };
    assert_eq!(readings(&free).len(), 2);
    assert!(!bench.watcher.is_finished());
}

#[tokio::test]
async fn where_every_second_reply_is_lost_the_others_still_count() {
    let Some(server) =
        RedisServer::start("where_every_second_reply_is_lost_the_others_still_count")
    else {
        return;
    };
    hold_all(&server, 2);
    let proxy = Proxy::start(server.port);
    let mut bench = Bench::start(config(proxy.port), 2);
    bench.next_read().await;
    where_half_is_lost(&proxy, &mut bench, Fault::DropEverySecondReply).await;
}

/// A network that passes each greeting and drops the next batch. If greeting and batch were sent
/// separately, nothing would ever be read.
#[tokio::test]
async fn where_every_second_answer_is_lost_greetings_included_the_others_still_count() {
    let test = "where_every_second_answer_is_lost_greetings_included_the_others_still_count";
    let Some(server) = RedisServer::start(test) else { return };
    hold_all(&server, 2);
    let proxy = Proxy::start(server.port);
    let mut bench = Bench::start(config(proxy.port), 2);
    bench.next_read().await;
    where_half_is_lost(&proxy, &mut bench, Fault::DropEverySecondAnswer).await;
}

async fn where_half_is_lost(proxy: &Proxy, bench: &mut Bench, fault: Fault) {
    proxy.set(fault);
    let (mut read, mut failed) = (0, 0);
    for input in bench.all_within(Duration::from_millis(6_500)).await {
        match input {
            Input::Sample(Sample { outcome: Outcome::Read { .. }, .. }) => read += 1,
            Input::Sample(Sample { outcome: Outcome::Failed { why, .. }, .. }) => {
                assert_eq!(why, Unknown::Timeout);
                failed += 1;
            }
            Input::Node(_) => {}
            other => panic!("{other:?}"),
        }
    }
    // A lost reply costs the timeout; the redial is immediate.
    assert!((8..=14).contains(&read), "{read} read, {failed} failed");
    assert!((8..=14).contains(&failed), "{read} read, {failed} failed");
}

#[tokio::test]
async fn without_a_server_each_tick_fails_for_all_tasks_and_dials_are_few() {
    let Some(mut server) =
        RedisServer::start("without_a_server_each_tick_fails_for_all_tasks_and_dials_are_few")
    else {
        return;
    };
    let proxy = Proxy::start(server.port);
    let mut bench = Bench::start(config(server.port), 600);
    bench.next_read().await;
    server.kill();
    bench.failure(Unknown::Connect).await;
    let (mut dials, mut failures) = (0, BTreeMap::<TaskIndex, u32>::new());
    for input in bench.all_within(Duration::from_millis(2_000)).await {
        match input {
            Input::Node(news) => {
                assert_eq!(news.kind, NodeNewsKind::Failed { why: Unknown::Connect });
                dials += 1;
            }
            Input::Sample(Sample { outcome: Outcome::Failed { tasks, why }, .. }) => {
                assert_eq!(why, Unknown::Connect);
                tasks.into_iter().for_each(|task| *failures.entry(task).or_default() += 1);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!((1..=5).contains(&dials), "{dials} dials in 2 s");
    assert_eq!(failures.len(), 600);
    assert!(failures.values().all(|count| (17..=22).contains(count)), "{failures:?}");
    drop(proxy);
    server.restart(Keep::Nothing);
    bench.next_read().await;
}

#[tokio::test]
async fn a_replica_is_not_believed_and_the_connection_stays() {
    let _rule = rule("1 evidence");
    let test = "a_replica_is_not_believed_and_the_connection_stays";
    let (Some(master), Some(replica)) = (RedisServer::start(test), RedisServer::start(test)) else {
        return;
    };
    replica.cli(&["REPLICAOF", "127.0.0.1", &master.port.to_string()]);
    let proxy = Proxy::start(replica.port);
    let mut bench = Bench::start(config(proxy.port), 2);
    for _ in 0..10 {
        assert_eq!(bench.next_failure().await.1, Unknown::NotMaster);
    }
    assert_eq!(proxy.connections(), 1);
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    bench.next_read().await;
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn a_new_assignment_keeps_the_connection_if_it_can() {
    let Some(server) = RedisServer::start("a_new_assignment_keeps_the_connection_if_it_can") else {
        return;
    };
    hold_all(&server, 3);
    let proxy = Proxy::start(server.port);
    let mut bench = Bench::start(config(proxy.port), 1);
    bench.next_read().await;
    let assign = |epoch, config, tasks: u32| {
        let tasks = (0..tasks).map(task).collect();
        bench.assignments.send_replace(Arc::new(Assignment {
            epoch,
            index: StoreIndex(0),
            config,
            tasks,
        }));
    };
    let slower = RedisConfig { interval: Duration::from_millis(150), ..config(proxy.port) };
    assign(2, slower.clone(), 3);
    let sample = loop {
        let sample = timeout(PATIENCE, bench.inputs.recv()).await.unwrap().unwrap();
        if let Input::Sample(sample @ Sample { epoch: 2, .. }) = sample {
            break sample;
        }
    };
    assert_eq!(readings(&sample).len(), 3);
    assert_eq!(proxy.connections(), 1);
    assign(3, RedisConfig { db: 1, ..slower }, 3);
    let sample = loop {
        let sample = timeout(PATIENCE, bench.inputs.recv()).await.unwrap().unwrap();
        if let Input::Sample(sample @ Sample { epoch: 3, .. }) = sample {
            break sample;
        }
    };
    assert!(
        readings(&sample).iter().all(|(_, lock)| **lock == LockReading::Free),
        "the other database is empty"
    );
    assert_eq!(proxy.connections(), 2);
    drop(bench.assignments);
    timeout(PATIENCE, bench.watcher).await.expect("the watcher ends with its assignments").unwrap();
}

/// Redis checks for idle clients about once a second, so this takes some time.
#[tokio::test]
async fn a_server_that_closes_idle_connections_closes_none_however_long_the_interval_is() {
    let _rule = rule("3 connection");
    let test = "a_server_that_closes_idle_connections_closes_none";
    let Some(server) = RedisServer::start(test) else { return };
    assert_eq!(server.cli(&["CONFIG", "SET", "timeout", "2"]), "OK");
    let config = RedisConfig { interval: Duration::from_secs(5), ..config(server.port) };
    let mut bench = Bench::start(config, 1);
    let inputs = bench.all_within(Duration::from_secs(12)).await;
    let is_read = |input: &&Input| {
        matches!(input, Input::Sample(Sample { outcome: Outcome::Read { .. }, .. }))
    };
    let is_news = |input: &&Input| matches!(input, Input::Node(news) if matches!(news.kind, NodeNewsKind::Connected { .. }));
    assert!(inputs.iter().filter(is_read).count() >= 3, "{inputs:?}");
    assert_eq!(inputs.iter().filter(is_news).count(), 1, "{inputs:?}");
    let failed = |input: &&Input| {
        matches!(input, Input::Sample(Sample { outcome: Outcome::Failed { .. }, .. }))
    };
    assert_eq!(inputs.iter().find(failed), None);
}

#[tokio::test]
async fn a_reply_that_is_too_large_blinds_only_its_own_task() {
    let Some(server) = RedisServer::start("a_reply_that_is_too_large_blinds_only_its_own_task")
    else {
        return;
    };
    hold_all(&server, 8);
    server.cli(&["EVAL", "redis.call('HSET', 'users', 'ann', string.rep('x', 2000000))", "0"]);
    let mut tasks: Vec<(TaskIndex, Arc<TaskSpec>)> = (0..8).map(task).collect();
    let wanted = WantedSpec { source: WantedSource::Hash(b"users".to_vec()), codec: Codec::Raw };
    Arc::make_mut(&mut tasks[5].1).wanted = Some(wanted);
    let mut bench = Bench::start_with(config(server.port), tasks);
    let mut newest: BTreeMap<u32, LockReading> = BTreeMap::new();
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let sample = bench.next_read().await;
        let readings = readings(&sample);
        newest.extend(readings.iter().map(|(number, lock)| (*number, (*lock).clone())));
        if readings.len() == 8 {
            break;
        }
    }
    assert_eq!(newest.remove(&5), Some(LockReading::Unknown(Unknown::TooLarge)));
    assert_eq!(newest.len(), 7);
    assert!(newest.iter().all(|(number, lock)| is_own(*number, lock)), "{newest:?}");
}

#[tokio::test]
async fn an_engine_that_is_gone_ends_the_watcher() {
    let bench = Bench::start(config(free_port()), 1);
    drop(bench.inputs);
    timeout(PATIENCE, bench.watcher).await.expect("the watcher ends").unwrap();
    assert!(bench.clock.now() < Mono::at(10_000));
}

#[tokio::test]
async fn thousands_of_locks_are_read_in_slots_spread_over_the_interval() {
    let test = "thousands_of_locks_are_read_in_slots_spread_over_the_interval";
    let Some(server) = RedisServer::start(test) else { return };
    server.cli(&[
        "EVAL",
        "for n = 0, 4999 do redis.call('SET', 'lock:' .. n, 'owner of ' .. n) end",
        "0",
    ]);
    let config = RedisConfig {
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(3),
        ..config(server.port)
    };
    let mut bench = Bench::start(config, 5_000);
    let mut reads: BTreeMap<u32, u32> = BTreeMap::new();
    let mut batches = 0;
    for input in bench.all_within(Duration::from_millis(2_950)).await {
        let Input::Sample(sample) = input else { continue };
        let readings = readings(&sample);
        assert!(
            readings.len() <= BATCH_TASKS
                && readings.iter().all(|(number, lock)| is_own(*number, lock))
        );
        readings.iter().for_each(|(number, _)| *reads.entry(*number).or_default() += 1);
        batches += 1;
    }
    assert_eq!(reads.len(), 5_000);
    assert!(reads.values().all(|count| (2..=3).contains(count)), "{reads:?}");
    let slots = 5_000 / BATCH_TASKS;
    assert!((slots * 5 / 2..=slots * 3 + 1).contains(&batches), "{batches}");
}
