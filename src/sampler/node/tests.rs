//! One server without a network: what happens to batches in flight when its duty, its role or its
//! connection changes.

use std::ops::Range;
use std::time::Duration;

use lockwatch_judge::input::{Input, Sample};
use lockwatch_judge::spec::{LockSpec, SchemeKind, StoreIndex};
use lockwatch_judge::time::AgentWall;
use lockwatch_watch::redis::accept::RoleCheck;
use lockwatch_watch::redis::read::{Scope, TaskRead};
use lockwatch_watch::redis::reply::{Command, Reply, ServerError};
use lockwatch_watch::redis::schedule::{BATCH_TASKS, BatchKind};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::config::{HostPort, Login, Servers};
use crate::redis;
use crate::sampler::Tasks;
use crate::sampler::question::Question;
use crate::trace::Traces;

/// The capabilities of the connections in these tests.
const CAPS: Caps = Caps { pexpiretime: true, role: RoleCheck::Role, info: false, sharded: false };

fn tasks(numbers: Range<usize>) -> Tasks {
    let task = |number: usize| {
        let lock = LockSpec::new(format!("lock-{number}").as_bytes(), SchemeKind::String);
        let spec = TaskSpec::new(&format!("task-{number}"), StoreIndex(0), lock);
        (TaskIndex(u32::try_from(number).unwrap()), Arc::new(spec))
    };
    Arc::new(numbers.map(task).collect())
}

fn duty(standing: Standing, own: &Tasks) -> Duty {
    let mut duty = Duty::none();
    (duty.standing, duty.own, duty.all) = (standing, Arc::clone(own), Arc::clone(own));
    duty
}

fn at(host: &str) -> HostPort {
    HostPort { host: host.to_owned(), port: 6379 }
}

/// Two servers that are read each minute.
fn config() -> RedisConfig {
    RedisConfig {
        name: "main".into(),
        servers: Servers::Nodes(vec![at("one"), at("two")]),
        db: 0,
        login: Login::default(),
        interval: Duration::from_secs(60),
        timeout: Duration::from_secs(3),
        assume_master: false,
        wake_ups: false,
    }
}

/// The first of them.
fn node(standing: Standing, own: &Tasks) -> Node {
    let config = config();
    let mut node = Node::new("one:6379".into(), config.endpoint(at("one")), &config, Mono(0));
    node.assign(&duty(standing, own), Mono(0));
    node
}

fn out() -> (Out, mpsc::Receiver<Input>) {
    let (inputs, told) = mpsc::channel(16);
    (
        Out {
            epoch: 0,
            redis: StoreIndex(0),
            inputs,
            clock: Clock::start(),
            traces: Traces::default(),
        },
        told,
    )
}

/// A connection to a server that reports this role.
async fn connection(node: &Node, role: &str) -> redis::Connection {
    let (here, mut there) = tokio::io::duplex(1 << 16);
    let role = format!("*1\r\n${}\r\n{role}\r\n", role.len());
    let greeting = format!("+OK\r\n+OK\r\n{role}-NOPERM no\r\n-NOPERM no\r\n:-2\r\n");
    there.write_all(greeting.as_bytes()).await.unwrap();
    redis::greet_over(here, node.endpoint(), None, None).await.unwrap().0
}

/// A sent batch about these tasks.
fn flying(what: What, about: &Tasks) -> Flying {
    let read = |(task, spec): &(TaskIndex, Arc<TaskSpec>)| {
        (*task, TaskRead::new(Arc::clone(spec), CAPS, false, Scope::LOCK))
    };
    let (question, _) =
        Question::new(about.iter().map(read).collect(), CAPS, Standing::Decides, b"nonce".to_vec());
    Flying { what, question, round: 1, launched: Mono(0) }
}

/// Puts it in flight; the server does not answer.
fn fly(node: &mut Node, flying: Flying) {
    node.flights.push_back(Flight {
        flying,
        reply: AbortOnDropHandle::new(tokio::spawn(std::future::pending())),
    });
}

fn landing(replies: Result<Vec<Reply>, redis::Failure>) -> Landing {
    Landing { sent: Mono(0), sent_wall: AgentWall(0), received: Mono(1), replies, refused: None }
}

#[tokio::test]
async fn a_batch_that_fails_is_told_of_the_tasks_that_are_still_read_here() {
    let (out, mut told) = out();
    let mut node = node(Standing::Decides, &tasks(0..2));
    let batch = node.schedule.due(Mono(0)).unwrap();
    fly(&mut node, flying(What::Scheduled(batch), &tasks(0..2)));
    node.assign(&duty(Standing::Decides, &tasks(1..2)), Mono(1));
    let lost = redis::Failure { why: Unknown::Timeout, detail: String::new() };
    assert!(node.land(Ok(landing(Err(lost))), &out).await.is_ok());
    let Ok(Input::Sample(Sample { outcome, .. })) = told.try_recv() else {
        panic!("nothing was told")
    };
    assert_eq!(outcome, Outcome::Failed { tasks: vec![TaskIndex(1)], why: Unknown::Timeout });
}

/// Asks at `asked`; the server does not answer until a reload two seconds later. Returns whether
/// that was too long.
async fn asked_in_vain(node: &mut Node, asked: u64) -> bool {
    let own = tasks(0..1);
    node.assign(&duty(Standing::Decides, &own), Mono(asked));
    let question = Flying { launched: Mono(asked), ..flying(What::Pulse, &own) };
    fly(node, question);
    node.configure(&config(), Mono(asked + 2_000));
    let news = std::future::poll_fn(|context| Poll::Ready(node.poll_news(context))).await;
    matches!(news, Poll::Ready(News::Silent))
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_however_often_the_configuration_is_read() {
    let (out, _told) = out();
    let mut node = node(Standing::Decides, &tasks(0..1));
    let connection = connection(&node, "master").await;
    node.link.made(connection, 1_000, Mono(0));
    for asked in [0, 2_000, 4_000] {
        assert!(!asked_in_vain(&mut node, asked).await, "{asked}");
    }
    // Time in which nobody waited does not count, and any answer resets it.
    fly(&mut node, flying(What::Pulse, &tasks(0..1)));
    assert!(node.land(Ok(landing(Ok(Vec::new()))), &out).await.is_ok());
    let connection = self::connection(&node, "master").await;
    node.link.made(connection, 1_000, Mono(0));
    for asked in [100_000, 200_000, 300_000] {
        assert!(!asked_in_vain(&mut node, asked).await, "{asked}");
    }
    assert!(asked_in_vain(&mut node, 400_000).await);
    assert!(
        node.take(News::Silent, &out)
            .await
            .is_ok_and(|heard| heard.failed == Some(Unknown::Timeout))
    );
    assert!(node.link.connection().is_none());
    assert_eq!(node.lost, Some(Unknown::Timeout));
}

/// The server that decides about the tasks may answer all the time.
#[tokio::test]
async fn a_witness_that_is_out_of_reach_makes_no_task_unknown() {
    let _rule = crate::truth::rule("1 evidence");
    for (standing, expected) in [(Standing::Decides, 1), (Standing::Witness, 0)] {
        let (out, mut told) = out();
        let mut node = node(standing, &tasks(0..1));
        node.lost = Some(Unknown::Connect);
        assert!(node.miss(Mono(0), &out).await.is_ok());
        assert_eq!(std::iter::from_fn(|| told.try_recv().ok()).count(), expected, "{standing:?}");
    }
}

#[tokio::test]
async fn another_interval_counts_from_the_reload_on() {
    let own = tasks(0..1);
    let mut node = node(Standing::Decides, &own);
    node.configure(&RedisConfig { interval: Duration::from_secs(1), ..config() }, Mono(0));
    node.assign(&duty(Standing::Decides, &own), Mono(0));
    let batch = node.schedule.due(Mono(0)).unwrap();
    node.schedule.finished(&batch);
    assert_eq!(node.schedule.next_wake(), Some(Mono(1_000)));
}

/// Otherwise the task that has waited longest would never be read while reloads come more often
/// than its turn.
#[tokio::test]
async fn the_sweep_goes_on_where_it_was_however_often_the_configuration_is_read() {
    let own = tasks(0..3 * BATCH_TASKS);
    let mut node = node(Standing::Decides, &own);
    let begins_with = |reload: u64| {
        node.configure(&config(), Mono(reload * 10_000));
        node.assign(&duty(Standing::Decides, &own), Mono(reload * 10_000));
        let batch = node.schedule.due(Mono(reload * 10_000)).unwrap();
        node.schedule.finished(&batch);
        batch.tasks[0].0 as usize / BATCH_TASKS
    };
    assert_eq!([0, 1, 2, 3, 4, 5].map(begins_with), [0, 1, 2, 0, 1, 2]);
}

#[tokio::test]
async fn other_tasks_detach_what_is_under_way_from_its_slot() {
    let mut node = node(Standing::Decides, &tasks(0..2 * BATCH_TASKS));
    let first = flying(What::Scheduled(node.schedule.due(Mono(0)).unwrap()), &tasks(0..1));
    fly(&mut node, first);
    node.opening =
        Some(flying(What::Scheduled(node.schedule.due(Mono(30_000)).unwrap()), &tasks(1..2)));
    node.assign(&duty(Standing::Decides, &tasks(0..BATCH_TASKS)), Mono(30_001));
    let all = node.flights.iter().map(|flight| &flight.flying).chain(&node.opening);
    for flying in all {
        assert!(matches!(&flying.what, What::Scheduled(batch) if batch.kind == BatchKind::Extra));
    }
}

#[tokio::test]
async fn another_standing_drops_what_waits_to_be_asked() {
    let own = tasks(0..1);
    let mut node = node(Standing::Decides, &own);
    node.beside
        .push_back(BesideRead { parts: vec![(TaskIndex(0), Scope::ALL)], of: "two:6379".into() });
    node.assign(&duty(Standing::Witness, &own), Mono(1));
    assert!(node.beside.is_empty());
}

#[tokio::test]
async fn of_what_waits_to_be_asked_beside_a_lock_only_the_newest_is() {
    let (out, _told) = out();
    let mut node = node(Standing::Decides, &tasks(0..2));
    let connection = connection(&node, "master").await;
    node.link.made(connection, 1_000, Mono(0));
    for (task, of) in [(0, "two:6379"), (0, "two:6379"), (1, "two:6379"), (0, "three:6379")] {
        assert!(
            node.read_beside(vec![(TaskIndex(task), Scope::ALL)], &of.into(), Mono(0), &out)
                .await
                .is_ok()
        );
    }
    assert_eq!(node.beside.len(), 3);
}

/// The server may have become a witness since the request: a replica's answer decides nothing.
#[tokio::test]
async fn what_lives_beside_a_lock_is_read_of_a_server_that_decides() {
    let _rule = crate::truth::rule("1 evidence");
    let node = node(Standing::Witness, &tasks(0..1));
    let beside =
        What::Beside(BesideRead { parts: vec![(TaskIndex(0), Scope::ALL)], of: "two:6379".into() });
    assert_eq!(
        [What::Pulse, beside].map(|what| node.standing(&what)),
        [Standing::Witness, Standing::Decides]
    );
}

#[tokio::test]
async fn a_witness_is_read_at_the_full_pace_while_it_says_master() {
    let (out, _told) = out();
    let mut node = node(Standing::Witness, &tasks(0..1));
    for (role, every) in [("slave", REPLICA_EVERY), ("master", 1), ("slave", REPLICA_EVERY)] {
        let connection = connection(&node, role).await;
        assert!(node.take(News::Dialled(Ok((connection, None))), &out).await.is_ok());
        let now = out.clock.now();
        assert!(node.schedule.due(now).is_some(), "at once");
        let next_ms = node.schedule.next_wake().unwrap().since_ms(now);
        assert_eq!(next_ms.div_ceil(60_000), every, "{role}: {next_ms}");
    }
}

#[tokio::test]
async fn whoever_decides_and_says_that_it_is_a_replica_is_heard_as_one() {
    let (out, _told) = out();
    let mut node = node(Standing::Decides, &tasks(0..1));
    fly(&mut node, flying(What::Pulse, &tasks(0..0)));
    let bytes = |text: &str| Reply::Bytes(text.into());
    let time = Reply::Array(vec![bytes("1800000000"), bytes("0")]);
    let role = [bytes("slave"), bytes("two"), Reply::Int(6379), bytes("connected"), Reply::Int(0)];
    let replies = vec![time.clone(), time, Reply::Array(role.to_vec()), bytes("nonce")];
    let Ok(heard) = node.land(Ok(landing(Ok(replies))), &out).await else {
        panic!("somebody listens")
    };
    assert_eq!((heard.role, heard.failed), (Some(Role::Replica), Some(Unknown::NotMaster)));
}

/// The commands were made for a server with other capabilities.
#[tokio::test]
async fn what_went_out_with_the_greeting_of_another_server_is_asked_again() {
    let (out, mut told) = out();
    let mut node = node(Standing::Decides, &tasks(0..1));
    let batch = node.schedule.due(Mono(0)).unwrap();
    node.opening = Some(flying(What::Scheduled(batch), &tasks(0..1)));
    node.caps = Some(Caps { pexpiretime: false, ..CAPS });
    let opened = redis::Opened {
        sent: Mono(0),
        sent_wall: AgentWall(0),
        received: Mono(1),
        replies: vec![Reply::Int(1)],
    };
    let connection = connection(&node, "master").await;
    assert!(node.take(News::Dialled(Ok((connection, Some(opened)))), &out).await.is_ok());
    assert!(matches!(told.try_recv(), Ok(Input::Node(_))));
    assert!(told.try_recv().is_err(), "nothing is told of the task");
    assert!(node.link.connection().is_some() && node.schedule.due(Mono(1)).is_some());
}

/// Some servers have commands renamed or disabled. The text of `Unknown::ServerError` refers users
/// to this log line.
#[test]
fn a_command_that_is_answered_with_an_error_is_named() {
    let error = |code: &str, detail: &str| {
        Reply::Error(ServerError { code: code.into(), detail: detail.into() })
    };
    let commands =
        ["TIME", "HSCAN lock 0", "ECHO nonce"].map(|command| Command::new(command.split(' ')));
    let named = |replies: [Reply; 3]| asking::refused(&commands, &replies);
    let (fine, unknown) = (
        Reply::Int(1),
        error("ERR", "unknown command 'HSCAN', with args beginning with: 'hunter2'"),
    );
    assert_eq!(named([fine.clone(), unknown.clone(), unknown.clone()]).as_deref(), Some("HSCAN"));
    assert_eq!(named([unknown, fine.clone(), fine.clone()]).as_deref(), Some("TIME"));
    assert_eq!(
        named([fine.clone(), error("NOPERM", "no"), error("WRONGTYPE", "no")]),
        None,
        "that has a name of its own"
    );
    assert_eq!(named([fine.clone(), fine.clone(), fine]), None);
}

/// Two refused commands may come in turn, one in each batch: that would log a line for each batch.
#[test]
fn each_command_that_is_answered_with_an_error_is_named_once() {
    let mut node = node(Standing::Decides, &tasks(0..1));
    let mut told = |command: Option<&str>| node.newly_refused(command.map(str::to_owned));
    let batches = [Some("HSCAN"), None, Some("INFO"), Some("HSCAN"), Some("INFO"), Some("HSCAN")];
    assert_eq!(
        batches.map(&mut told).map(|told| told.is_some()),
        [true, false, true, false, false, false]
    );
}

#[tokio::test]
async fn hints_leave_a_place_for_what_is_due_anyway() {
    let mut node = node(Standing::Decides, &tasks(0..1));
    for count in 0..FLIGHTS {
        assert_eq!(node.may_follow_hints(), count + 1 < FLIGHTS, "{count} under way");
        fly(&mut node, flying(What::Pulse, &tasks(0..0)));
    }
}
