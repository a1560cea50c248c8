//! One server without a network: what happens to batches in flight when its duty, its role or its
//! connection changes.

use std::borrow::ToOwned as _;

use lockwatch_judge::reading::LockReading;
use lockwatch_judge::spec::StoreIndex;

use super::flight::PartsRead;
use super::*;
use crate::redis::accept::Caps;
use crate::redis::accept::RoleCheck;
use crate::redis::batch::Question;
use crate::redis::driver::Action;
use crate::redis::read::{Scope, TaskRead};
use crate::redis::reply::{Command, Reply};
use crate::redis::schedule::{BATCH_TASKS, BatchKind, Sizes};
use crate::redis::store::Servers;
use crate::redis::tasks::Assignment;
use crate::redis::tasks::Tasks;
use crate::redis::testing::{
    actions, answers, at, bytes, closed, dialled, dials, error, failed, greeted, news, now, out,
    replied, samples, sends, store, tasks,
};

/// The capabilities of the connections in these tests.
const CAPS: Caps = Caps {
    pexpiretime: true,
    hpexpiretime: false,
    role: RoleCheck::Role,
    info: false,
    sharded: false,
};

fn duty(standing: Standing, own: &Tasks) -> Duty {
    let mut duty = Duty::none();
    (duty.standing, duty.own, duty.all) = (standing, Arc::clone(own), Arc::clone(own));
    duty
}

/// Two servers that are read each minute.
fn config() -> Store {
    store(Servers::Nodes([at("one"), at("two")].to_vec()))
}

/// The first of them.
fn node(standing: Standing, own: &Tasks) -> Node {
    let (index, tasks, sizes) = (StoreIndex(0), Tasks::default(), Sizes::default());
    let assignment = Assignment { epoch: 0, index, store: config(), tasks, sizes };
    let mut node = Node::new(at("one"), "one:6379".into(), &assignment, Mono::at(0));
    node.assign(&duty(standing, own), Mono::at(0));
    node
}

/// What the node does at this instant.
fn launch(node: &mut Node, ms: u64, out: &mut Out) -> Vec<Action> {
    node.launch(now(ms), out);
    actions(out)
}

/// The dial that it makes at this instant.
fn dial(node: &mut Node, ms: u64, out: &mut Out) -> Dial {
    dials(&launch(node, ms, out))[0].clone()
}

/// Connects it to a server that reports this role.
fn connect(node: &mut Node, role: &str, ms: u64, out: &mut Out) -> LinkId {
    let dial = dial(node, ms, out);
    let _heard = node.take(dial.link, dialled(&dial, role, ms, ms), now(ms), out);
    dial.link
}

/// The batches that it sends at this instant.
fn asks(node: &mut Node, ms: u64, out: &mut Out) -> Vec<Vec<Command>> {
    let launched = launch(node, ms, out);
    sends(&launched).into_iter().map(|(_, commands)| commands.to_vec()).collect()
}

/// The server answers a batch.
fn receive(node: &mut Node, replies: Vec<Reply>, ms: u64, out: &mut Out) -> NodeReport {
    let link = node.link.id().unwrap();
    node.take(link, replied(replies, ms), now(ms), out)
}

/// The server at the other end is master, and answers a batch honestly.
fn answer(node: &mut Node, commands: &[Command], ms: u64, out: &mut Out) -> NodeReport {
    receive(node, answers(commands, "master"), ms, out)
}

/// A batch about these tasks.
fn flight(what: What, about: &Tasks) -> Flight {
    let read = |(task, spec): &(TaskIndex, Arc<TaskSpec>)| {
        (*task, TaskRead::new(Arc::clone(spec), CAPS, false, Scope::GUARD))
    };
    let (question, _) =
        Question::new(about.iter().map(read).collect(), CAPS, Standing::Decides, b"nonce".to_vec());
    Flight { what, question, round: 1, launched: now(0) }
}

#[test]
fn a_batch_that_fails_is_told_of_the_tasks_that_are_still_read_here() {
    let (mut node, mut out) = (node(Standing::Decides, &tasks(0..2)), out());
    let link = connect(&mut node, "master", 0, &mut out);
    assert_eq!(asks(&mut node, 0, &mut out).len(), 1);
    node.assign(&duty(Standing::Decides, &tasks(1..2)), Mono::at(1));
    node.take(link, failed(Unknown::Closed), now(2), &mut out);
    let reported = actions(&mut out);
    let outcome = Outcome::Failed { tasks: [TaskIndex(1)].to_vec(), why: Unknown::Closed };
    assert_eq!(samples(&reported).iter().map(|it| &it.outcome).collect::<Vec<_>>(), [&outcome]);
}

/// Asks at `asked`; the server does not answer until a reload two seconds later. Returns whether
/// that was too long.
fn asked_in_vain(node: &mut Node, asked: u64, out: &mut Out) -> bool {
    node.assign(&duty(Standing::Decides, &tasks(0..1)), Mono::at(asked));
    assert_eq!(asks(node, asked, out).len(), 1, "{asked}");
    node.configure(&config(), Mono::at(asked + 2_000));
    node.overdue(now(asked + 2_000), out).is_some()
}

#[test]
fn a_server_that_hangs_is_given_up_however_often_the_configuration_is_read() {
    let (mut node, mut out) = (node(Standing::Decides, &tasks(0..1)), out());
    let link = connect(&mut node, "master", 0, &mut out);
    for asked in [0, 2_000, 4_000] {
        assert!(!asked_in_vain(&mut node, asked, &mut out), "{asked}");
    }
    // Any answer resets the time.
    receive(&mut node, Vec::new(), 6_000, &mut out);
    // Time in which nobody waited does not count.
    for asked in [100_000, 200_000, 300_000] {
        assert!(!asked_in_vain(&mut node, asked, &mut out), "{asked}");
    }
    node.assign(&duty(Standing::Decides, &tasks(0..1)), Mono::at(400_000));
    assert_eq!(asks(&mut node, 400_000, &mut out).len(), 1);
    node.configure(&config(), Mono::at(402_000));
    let report = node.overdue(now(402_000), &mut out);
    assert!(report.is_some_and(|report| report.failed == Some(Unknown::Timeout)));
    assert_eq!(closed(&actions(&mut out)), [link]);
    assert!(node.link.up().is_none());
    assert_eq!(node.lost, Some(Unknown::Timeout));
}

/// The server that decides about the tasks may answer all the time.
#[test]
fn a_witness_that_is_out_of_reach_makes_no_task_unknown() {
    let _rule = crate::truth::rule("1 evidence");
    for (standing, expected) in [(Standing::Decides, 1), (Standing::Witness, 0)] {
        let (mut node, mut out) = (node(standing, &tasks(0..1)), out());
        let dial = dial(&mut node, 0, &mut out);
        node.take(dial.link, failed(Unknown::Connect), now(0), &mut out);
        drop(actions(&mut out));
        let reported = launch(&mut node, 60_000, &mut out);
        assert_eq!(samples(&reported).len(), expected, "{standing:?}");
    }
}

#[test]
fn another_interval_counts_from_the_reload_on() {
    let own = tasks(0..1);
    let mut node = node(Standing::Decides, &own);
    node.configure(&Store { interval_ms: 1_000, ..config() }, Mono::at(0));
    node.assign(&duty(Standing::Decides, &own), Mono::at(0));
    let batch = node.schedule.due(Mono::at(0)).unwrap();
    node.schedule.finished(&batch);
    assert_eq!(node.schedule.next_wake(), Some(Mono::at(1_000)));
}

/// Otherwise the task that has waited longest would never be read while reloads come more often
/// than its turn.
#[test]
fn the_sweep_goes_on_where_it_was_however_often_the_configuration_is_read() {
    let own = tasks(0..3 * BATCH_TASKS);
    let mut node = node(Standing::Decides, &own);
    let begins_with = |reload: u64| {
        node.configure(&config(), Mono::at(reload * 10_000));
        node.assign(&duty(Standing::Decides, &own), Mono::at(reload * 10_000));
        let batch = node.schedule.due(Mono::at(reload * 10_000)).unwrap();
        node.schedule.finished(&batch);
        batch.tasks[0].0 as usize / BATCH_TASKS
    };
    assert_eq!([0, 1, 2, 3, 4, 5].map(begins_with), [0, 1, 2, 0, 1, 2]);
}

#[test]
fn other_tasks_detach_what_is_under_way_from_its_slot() {
    let mut node = node(Standing::Decides, &tasks(0..2 * BATCH_TASKS));
    let first = node.schedule.due(Mono::at(0)).unwrap();
    node.flights.push_back(flight(What::Scheduled(first), &tasks(0..1)));
    node.opening =
        Some(flight(What::Scheduled(node.schedule.due(Mono::at(30_000)).unwrap()), &tasks(1..2)));
    node.assign(&duty(Standing::Decides, &tasks(0..BATCH_TASKS)), Mono::at(30_001));
    for flight in node.flights.iter().chain(&node.opening) {
        assert!(matches!(&flight.what, What::Scheduled(batch) if batch.kind == BatchKind::Extra));
    }
}

#[test]
fn another_standing_drops_what_waits_to_be_asked() {
    let own = tasks(0..1);
    let (mut node, mut out) = (node(Standing::Decides, &own), out());
    connect(&mut node, "master", 0, &mut out);
    let parts = [(TaskIndex(0), Scope::ALL)].to_vec();
    node.read_parts(parts, &"two:6379".into(), Mono::at(0), &mut out);
    assert_eq!(node.remote_parts.len(), 1);
    node.assign(&duty(Standing::Witness, &own), Mono::at(1));
    assert!(node.remote_parts.is_empty());
}

#[test]
fn of_what_waits_to_be_asked_beside_a_lock_only_the_newest_is() {
    let (mut node, mut out) = (node(Standing::Decides, &tasks(0..2)), out());
    connect(&mut node, "master", 0, &mut out);
    for (task, of) in [(0, "two:6379"), (0, "two:6379"), (1, "two:6379"), (0, "three:6379")] {
        let parts = [(TaskIndex(task), Scope::ALL)].to_vec();
        node.read_parts(parts, &of.into(), Mono::at(0), &mut out);
    }
    assert_eq!(node.remote_parts.len(), 3);
}

/// The server may have become a witness since the request: a replica's answer decides nothing.
#[test]
fn what_lives_beside_a_lock_is_read_of_a_server_that_decides() {
    let _rule = crate::truth::rule("1 evidence");
    let node = node(Standing::Witness, &tasks(0..1));
    let parts = [(TaskIndex(0), Scope::ALL)].to_vec();
    let parts = What::Parts(PartsRead { parts, of: "two:6379".into() });
    assert_eq!(
        [What::Pulse, parts].map(|what| node.standing(&what)),
        [Standing::Witness, Standing::Decides]
    );
}

#[test]
fn a_witness_is_read_at_the_full_pace_while_it_says_master() {
    let (mut node, mut out) = (node(Standing::Witness, &tasks(0..1)), out());
    let roles = [("slave", REPLICA_EVERY), ("master", 1), ("slave", REPLICA_EVERY)];
    for (turn, (role, every)) in roles.into_iter().enumerate() {
        let ms = 1_000_000 * turn as u64;
        let link = connect(&mut node, role, ms, &mut out);
        assert!(node.schedule.due(Mono::at(ms)).is_some(), "at once");
        let next_ms = node.schedule.next_wake().unwrap().since_ms(Mono::at(ms));
        assert_eq!(next_ms.div_ceil(60_000), every, "{role}: {next_ms}");
        node.take(link, failed(Unknown::Closed), now(ms), &mut out);
    }
}

#[test]
fn a_server_that_decides_and_reports_as_a_replica_counts_as_one() {
    let (mut node, mut out) = (node(Standing::Decides, &tasks(0..1)), out());
    connect(&mut node, "master", 0, &mut out);
    let asked = asks(&mut node, 0, &mut out);
    let report = receive(&mut node, answers(&asked[0], "slave"), 1, &mut out);
    assert_eq!((report.role, report.failed), (Some(Role::Replica), Some(Unknown::NotMaster)));
}

/// The node has lost a reply, and sends a batch with the greeting of its next dial.
fn opening(node: &mut Node, out: &mut Out) -> Dial {
    connect(node, "master", 0, out);
    assert_eq!(asks(node, 0, out).len(), 1);
    assert!(node.overdue(now(2_999), out).is_none(), "it has three seconds");
    assert!(node.overdue(now(3_000), out).is_some());
    drop(actions(out));
    let dial = dial(node, 4_000, out);
    assert!(node.opening.is_some() && dial.commands.len() > node.handshake.len());
    dial
}

/// The commands were made for a server with other capabilities.
#[test]
fn what_went_out_with_the_greeting_of_another_server_is_asked_again() {
    let (mut node, mut out) = (node(Standing::Decides, &tasks(0..1)), out());
    let dial = opening(&mut node, &mut out);
    let mut replies = answers(&dial.commands, "master");
    // It is older than Redis 7.
    let probe = |command: &Command| command.args[0] == b"PEXPIRETIME";
    replies[dial.commands.iter().position(probe).unwrap()] = error("ERR", "unknown command");
    node.take(dial.link, greeted(replies, None, 4_000, 4_010), now(4_010), &mut out);
    let reported = actions(&mut out);
    assert_eq!(
        (news(&reported).len(), samples(&reported).len()),
        (1, 0),
        "nothing is reported of the task"
    );
    assert!(node.link.up().is_some());
    assert_eq!(asks(&mut node, 4_010, &mut out).len(), 1);
}

/// A reading is evidence for the instant of the request.
#[test]
fn a_batch_that_goes_with_the_greeting_counts_from_when_it_was_sent() {
    let _rule = crate::truth::rule("1 evidence");
    let (mut node, mut out) = (node(Standing::Decides, &tasks(0..1)), out());
    let dial = opening(&mut node, &mut out);
    // It took a while to connect.
    let event = dialled(&dial, "master", 4_200, 4_300);
    node.take(dial.link, event, now(4_310), &mut out);
    let reported = actions(&mut out);
    let sample = samples(&reported)[0];
    assert_eq!((sample.sent, sample.took_ms), (Mono::at(4_200), 100));
    let Outcome::Read { readings, .. } = &sample.outcome else { panic!("{sample:?}") };
    assert_eq!(readings[0].1.lock().unwrap(), &LockReading::Free);
}

/// Greeting and batch succeed or fail together.
#[test]
fn a_greeting_without_the_replies_to_its_batch_makes_no_connection() {
    let (mut node, mut out) = (node(Standing::Decides, &tasks(0..1)), out());
    let dial = opening(&mut node, &mut out);
    let mut replies = answers(&dial.commands, "master");
    replies.pop();
    node.take(dial.link, greeted(replies, None, 4_000, 4_010), now(4_010), &mut out);
    assert_eq!((node.link.up(), node.lost), (None, Some(Unknown::Protocol)));
    let reported = actions(&mut out);
    assert_eq!(closed(&reported), [dial.link]);
    assert!(matches!(
        samples(&reported)[0].outcome,
        Outcome::Failed { why: Unknown::Protocol, .. }
    ));
}

/// The replies to the dropped batch still come with the greeting's.
#[test]
fn a_reload_during_a_dial_drops_the_batch_that_went_with_it_and_keeps_the_connection() {
    let (mut node, mut out) = (node(Standing::Decides, &tasks(0..1)), out());
    let dial = opening(&mut node, &mut out);
    node.configure(&config(), Mono::at(4_001));
    node.assign(&duty(Standing::Decides, &tasks(0..1)), Mono::at(4_001));
    node.take(dial.link, dialled(&dial, "master", 4_000, 4_010), now(4_010), &mut out);
    let reported = actions(&mut out);
    assert_eq!((samples(&reported).len(), closed(&reported).len()), (0, 0));
    let asked = asks(&mut node, 4_010, &mut out);
    answer(&mut node, &asked[0], 4_020, &mut out);
    let reported = actions(&mut out);
    assert!(matches!(samples(&reported)[0].outcome, Outcome::Read { .. }));
}

/// Replies come in order, so that what still comes for the old configuration is no answer to the
/// new one.
#[test]
fn the_replies_to_batches_that_a_reload_dropped_are_skipped() {
    let _rule = crate::truth::rule("1 evidence");
    let (mut node, mut out) = (node(Standing::Decides, &tasks(0..1)), out());
    connect(&mut node, "master", 0, &mut out);
    let old = asks(&mut node, 0, &mut out);
    node.configure(&config(), Mono::at(10));
    node.assign(&duty(Standing::Decides, &tasks(0..1)), Mono::at(10));
    let new = asks(&mut node, 10, &mut out);
    assert_eq!((old.len(), new.len()), (1, 1));
    answer(&mut node, &old[0], 20, &mut out);
    assert_eq!(samples(&actions(&mut out)).len(), 0);
    answer(&mut node, &new[0], 30, &mut out);
    let reported = actions(&mut out);
    let sample = samples(&reported)[0];
    assert_eq!((sample.sent, sample.took_ms), (Mono::at(10), 20));
    assert!(matches!(sample.outcome, Outcome::Read { .. }));
    assert_eq!(node.dropped, 0);
    // With the connection, what would still come over it is gone.
    node.configure(&config(), Mono::at(40));
    node.assign(&duty(Standing::Decides, &tasks(0..1)), Mono::at(40));
    asks(&mut node, 40, &mut out);
    node.configure(&config(), Mono::at(50));
    assert_eq!(node.dropped, 1);
    let link = node.link.id().unwrap();
    node.take(link, failed(Unknown::Closed), now(60), &mut out);
    assert_eq!(node.dropped, 0);
}

/// Servers may close connections that are idle for a second.
#[test]
fn a_connection_that_is_used_rarely_is_kept_alive() {
    let (mut node, mut out) = (node(Standing::Decides, &tasks(0..1)), out());
    connect(&mut node, "master", 0, &mut out);
    let asked = asks(&mut node, 0, &mut out);
    answer(&mut node, &asked[0], 10, &mut out);
    // A free lock is confirmed soon.
    let confirms = node.next_wake().unwrap().ms();
    if let Some(asked) = asks(&mut node, confirms, &mut out).first() {
        answer(&mut node, asked, confirms + 1, &mut out);
    }
    drop(actions(&mut out));
    let echo = [Command::new(["ECHO", ""])];
    let mut at = node.next_wake().unwrap().ms();
    for _ in 0..3 {
        assert_eq!(asks(&mut node, at - 1, &mut out), [[]; 0]);
        assert_eq!(asks(&mut node, at, &mut out), [echo.to_vec()]);
        assert_eq!(node.next_wake(), Some(Mono::at(at + 3_000)), "it has three seconds to answer");
        let report = receive(&mut node, [bytes("")].to_vec(), at + 5, &mut out);
        assert_eq!((report.role, report.failed), (None, None), "the answer does not matter");
        assert_eq!(samples(&actions(&mut out)).len(), 0);
        assert_eq!(node.next_wake(), Some(Mono::at(at + 1_000)));
        at += 1_000;
    }
    // Whoever is asked each second anyway needs none.
    node.interval_ms = 1_000;
    assert_eq!(node.alive_at(), None);
}

/// Some servers have commands renamed or disabled. The text of `Unknown::ServerError` refers users
/// to this log line.
#[test]
fn a_command_that_is_answered_with_an_error_is_named() {
    let Flight { question, .. } = flight(What::Pulse, &tasks(0..1));
    let names = ["TIME", "PEXPIRETIME", "GETRANGE", "PEXPIRETIME", "TIME", "ROLE", "ECHO"];
    for (position, name) in names.into_iter().enumerate() {
        let command = question.command(position).unwrap();
        assert_eq!(command.args[0], name.as_bytes(), "{position}");
    }
    let named = |replies: [Reply; 3]| send::refused(&question, &replies);
    let fine = Reply::Int(1);
    let unknown =
        error("ERR", "unknown command 'PEXPIRETIME', with args beginning with: 'hunter2'");
    let both = [fine.clone(), unknown.clone(), unknown.clone()];
    assert_eq!(named(both).as_deref(), Some("PEXPIRETIME"));
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
    let mut reported = |command: Option<&str>| node.newly_refused(command.map(str::to_owned));
    let batches = [Some("HSCAN"), None, Some("INFO"), Some("HSCAN"), Some("INFO"), Some("HSCAN")];
    assert_eq!(
        batches.map(&mut reported).map(|command| command.is_some()),
        [true, false, true, false, false, false]
    );
}

#[test]
fn hints_leave_a_place_for_what_is_due_anyway() {
    let mut node = node(Standing::Decides, &tasks(0..1));
    for count in 0..FLIGHTS {
        assert_eq!(node.may_follow_hints(), count + 1 < FLIGHTS, "{count} under way");
        node.flights.push_back(flight(What::Pulse, &tasks(0..0)));
    }
}
