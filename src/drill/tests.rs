//! Timelines: at which second something is requested, and what comes of it, and what is reported.

use lockwatch_judge::spec::StoreIndex;
use lockwatch_watch::redis::libraries;

use super::*;

/// Runs a timeline. Each line is `<seconds> <request> => <result>`, and what is reported.
///
/// Requests: `start <seconds> [after <id>]`, `renew <id>`, `stop <id> [notified]`, `reload` and
/// `look`.
fn run(timeline: &str) {
    let mut drills = Drills::new("a".into());
    for line in timeline.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (request, expected) = line.split_once("=>").expect(line);
        let words: Vec<&str> = request.split_whitespace().collect();
        let ms = (words[0].parse::<f64>().unwrap() * 1_000.0) as u64;
        let (now, wall) = (Mono::at(ms), AgentWall(i64::try_from(ms).unwrap()));
        let result = match words[1..] {
            ["start", seconds] => Some(drills.start((now, wall), of(), number(seconds), None)),
            ["start", seconds, "after", id] => {
                Some(drills.start((now, wall), of(), number(seconds), Some(id)))
            }
            ["renew", id] => Some(drills.renew(now, id)),
            ["stop", id] => Some(drills.stop(now, id, false)),
            ["stop", id, "notified"] => Some(drills.stop(now, id, true)),
            ["reload"] => {
                drills.settle(now);
                drills.end(now, DrillEnd::Reloaded);
                None
            }
            ["look"] => {
                drills.settle(now);
                None
            }
            _ => panic!("{line}"),
        };
        let result = result.map_or_else(String::new, |result| match result {
            Ok(drill) => format!("{} until {}", drill.id, drill.ends.ms() / 1_000),
            Err(Refusal::Runs(drill)) => format!("runs {}", drill.id),
            Err(Refusal::TooEarly(seconds)) => format!("wait {seconds}"),
            Err(Refusal::OfAnother { here }) => format!("this is {here}"),
            Err(Refusal::Over(why)) => format!("over {}", why.map_or("", DrillEnd::name)),
            Err(other) => panic!("{other:?}"),
        });
        let news = drills.news().into_iter().map(|news| match news {
            News::Began(drill) => format!("; {} began", drill.id),
            News::Ended(drill, why) => {
                format!("; {} ended at {} {}", drill.id, drill.ends.ms() / 1_000, why.name())
            }
        });
        let found = result.trim().to_owned() + &news.collect::<String>();
        assert_eq!(found.trim(), expected.trim(), "{line}");
        assert!(drills.due().is_none_or(|due| due > now), "{line}: it is settled");
    }
}

fn of() -> Subject {
    let lock = libraries::lock(b"lock", "redisson");
    let task = Arc::new(TaskSpec::new("outbound", StoreIndex(0), lock));
    Subject { task, store: "main".into(), severity: None, by: Some("anna".into()) }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

#[test]
fn it_lasts_as_long_as_it_is_renewed_within_its_time() {
    run("
        10    start 100 => a-1 until 110; a-1 began
        39.9  renew a-1 => a-1 until 110
        60    renew a-1 => a-1 until 110
        89    renew a-1 => a-1 until 110
        109.9 renew a-1 => a-1 until 110
        110   renew a-1 => over time_over; a-1 ended at 110 time_over
    ");
    run("
        10 start 9999999999999999999 => a-1 until 910; a-1 began
        10 renew a-1 => a-1 until 910
    ");
}

#[test]
fn it_ends_though_nobody_asks_when_the_command_is_gone() {
    run("
        0    start 100 => a-1 until 100; a-1 began
        25   renew a-1 => a-1 until 100
        54.9 look =>
        55   look => ; a-1 ended at 55 not_renewed
        56   renew a-1 => over not_renewed
    ");
    // Late, as after a pause of the process: it ended when it had to.
    run("
        0   start 100 => a-1 until 100; a-1 began
        500 renew a-1 => over not_renewed; a-1 ended at 30 not_renewed
    ");
    run("
        0 start 20 => a-1 until 20; a-1 began
        90 look => ; a-1 ended at 20 time_over
    ");
}

#[test]
fn there_is_one_at_a_time() {
    run("
        0 start 100 => a-1 until 100; a-1 began
        1 start 50 => runs a-1
        1 start 50 after a-1 => runs a-1
        2 stop a-1 => a-1 until 2; a-1 ended at 2 stopped
        2 start 50 => a-2 until 52; a-2 began
        3 renew a-1 => over stopped
        3 stop a-1 => a-1 until 2
        3 renew a-2 => a-2 until 52
    ");
}

#[test]
fn one_that_reached_a_human_is_followed_by_a_pause() {
    run("
        0    start 100 => a-1 until 100; a-1 began
        20   stop a-1 notified => a-1 until 20; a-1 ended at 20 stopped
        21   start 100 => wait 599
        619.5 start 100 => wait 1
        620  start 100 => a-2 until 720; a-2 began
        621  stop a-2 => a-2 until 621; a-2 ended at 621 stopped
        621  start 100 => a-3 until 721; a-3 began
    ");
}

#[test]
fn one_that_nobody_stopped_may_have_reached_a_human() {
    run("
        0   start 100 => a-1 until 100; a-1 began
        100 start 100 => wait 530; a-1 ended at 30 not_renewed
        100 reload =>
        630 start 100 => a-2 until 730; a-2 began
        631 reload => ; a-2 ended at 631 reloaded
        632 start 100 => wait 599
    ");
    // The command says later what became of it.
    run("
        0   start 10 => a-1 until 10; a-1 began
        11  start 10 => wait 599; a-1 ended at 10 time_over
        12  stop a-1 => a-1 until 10
        12  start 10 => a-2 until 22; a-2 began
        13  stop a-2 notified => a-2 until 13; a-2 ended at 13 stopped
        14  stop a-2 => a-2 until 13
        15  start 10 => wait 598
    ");
}

#[test]
fn a_round_over_all_routes_is_one_start() {
    run("
        0   start 100 => a-1 until 100; a-1 began
        20  stop a-1 notified => a-1 until 20; a-1 ended at 20 stopped
        30  start 100 after a-9 => wait 590
        79  start 100 after a-1 => a-2 until 179; a-2 began
        90  stop a-2 notified => a-2 until 90; a-2 ended at 90 stopped
        91  start 100 after a-1 => wait 599
        390 start 100 after a-2 => wait 300
    ");
}

#[test]
fn an_id_of_another_replica_is_known_as_one() {
    run("
        0 renew b-1 => this is a
        0 renew a-1 => over
        0 stop b-1 => this is a
        0 start 100 => a-1 until 100; a-1 began
        1 renew b-1 => this is a
        1 stop xyz => this is a
        1 renew a-11 => over
    ");
}

#[test]
fn each_refusal_says_what_to_do() {
    let mut drills = Drills::new("a".into());
    let drill = drills.start((Mono::at(0), AgentWall(1_800_000_000_000)), of(), 60, None).unwrap();
    let cases = [
        (Refusal::NotAllowed, "Write `drill: true` at the top of the agent's configuration"),
        (
            Refusal::Runs(drill),
            "a drill of task outbound since 2027-01-15T08:00:00.000Z, by anna. `lockwatch drill \
             --stop` ends it.",
        ),
        (Refusal::TooEarly(12), "the next one can begin in 12 s."),
        (
            Refusal::OfAnother { here: "a".into() },
            "or ended with a restart of this one: this is a now.",
        ),
        (Refusal::Over(Some(DrillEnd::NotRenewed)), "is over: nobody renewed it for 30 s."),
        (Refusal::Over(None), "This drill is over."),
    ];
    for (refusal, words) in cases {
        let said = refusal.to_string();
        assert!(said.contains(words), "{said}");
    }
}
