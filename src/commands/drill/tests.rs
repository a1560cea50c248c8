//! Drills of a right chain and of broken ones: answers of the real programs, as data.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::alertmanager::{AlertmanagerLook, Known};
use super::before::before;
use super::hop::Hop;
use super::machine::{Machine, Outcome, Pace, Replica, Said, Seen};
use super::prometheus::{Drilled, PrometheusLook};
use crate::chain::config::AlertmanagerConfig;
use crate::chain::{Labels, Sample, Sent, Silence, Trouble};

/// Everything that is asked in a drill, as it is once all have noticed it. A test changes it.
#[derive(Clone)]
struct World {
    metrics: bool,
    targets: Value,
    mine: Vec<Sample>,
    agents: Vec<Sample>,
    series: Vec<Sample>,
    groups: Value,
    alerts: Value,
    notified: Value,
    prometheus: Option<Trouble>,
    config: String,
    received: Value,
    silences: Vec<Silence>,
    sent: Option<Sent>,
    kind: &'static str,
    alertmanagers: Vec<Option<Trouble>>,
    refused: Vec<(String, f64)>,
    ended: bool,
    over: bool,
}

fn labels(text: &str) -> Labels {
    let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn sample(text: &str) -> Sample {
    Sample { labels: labels(text), value: 0.0, at: 0.0 }
}

const OWN: &str = "task=lockwatch-drill store=main drill=outbound problem=down severity=critical \
                   team=logistics";
const AT: &str = "job=lockwatch instance=a:10379";

fn drilled() -> Drilled {
    Drilled {
        labels: labels(OWN),
        agent_started: Some(1_764_510_493.12),
        agent_url: "http://a:10379".to_owned(),
    }
}

fn alert(more: Value) -> Value {
    let mut alert = json!({
        "labels": {"alertname": "LockwatchTaskDown", "task": "lockwatch-drill", "drill": "outbound",
                   "severity": "critical", "team": "logistics", "cluster": "eu"},
        "annotations": {"summary": "Drill: Task outbound, store main: nobody runs it"},
        "fingerprint": "f12d536f2921143d",
        "receivers": [{"name": "pager"}],
        "status": {"inhibitedBy": [], "silencedBy": [], "state": "active"},
    });
    let fields = alert.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    alert
}

fn group(receiver: &str, alerts: &[Value]) -> Value {
    let labels = json!({"alertname": "LockwatchTaskDown"});
    json!({"labels": labels, "receiver": {"name": receiver}, "alerts": alerts})
}

const CONFIG: &str = "
route: {receiver: pager, group_by: ['...'], group_wait: 1s, group_interval: 30s}
receivers: [{name: pager, webhook_configs: [{url: x}]}, {name: 'null'}]
";

impl World {
    /// A chain that is right: Prometheus 2.42 and Alertmanager 0.25.
    fn right() -> World {
        World {
            metrics: true,
            targets: json!([{"labels": {"job": "lockwatch", "instance": "a:10379"},
                "scrapePool": "lockwatch", "scrapeUrl": "http://a:10379/metrics", "lastError": "",
                "health": "up", "scrapeInterval": "5s", "scrapeTimeout": "5s"}]),
            mine: vec![sample(AT)],
            agents: Vec::new(),
            series: vec![
                sample(&format!("__name__=lockwatch_task_problem_seconds {AT} {OWN}")),
                sample(&format!("__name__=lockwatch_task_clear {AT} {OWN}")),
                sample(&format!("__name__=agent:lockwatch_problem_seconds {OWN}")),
                sample(&format!("__name__=lockwatch:problem_seconds {OWN}")),
            ],
            groups: json!([{"name": "lockwatch.pages", "file": "lockwatch.rules.yml", "interval": 5,
                "rules": [
                    {"name": "lockwatch:problem_seconds", "type": "recording", "health": "ok"},
                    {"name": "LockwatchTaskDown", "type": "alerting", "health": "ok",
                        "duration": 0}]}]),
            alerts: json!([{"labels": {"alertname": "LockwatchTaskDown", "drill": "outbound"},
                "state": "firing", "activeAt": "2026-11-30T13:49:17.491866972Z",
                "value": "3e+00"}]),
            notified: json!({"activeAlertmanagers": [{"url": "http://b:9093/api/v2/alerts"}],
                "droppedAlertmanagers": []}),
            prometheus: None,
            config: CONFIG.to_owned(),
            received: json!([group("pager", &[alert(json!({}))])]),
            silences: Vec::new(),
            sent: Some(Sent { begun: 1.0, requests: 1.0, requests_failed: 0.0, failed: 0.0 }),
            kind: "webhook",
            alertmanagers: vec![None],
            refused: Vec::new(),
            ended: false,
            over: true,
        }
    }

    fn of<T: serde::de::DeserializeOwned>(value: &Value) -> T {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn look(&self, at_ms: u64) -> Result<Box<PrometheusLook>, Trouble> {
        if let Some(trouble) = &self.prometheus {
            return Err(trouble.clone());
        }
        // Each 5 s.
        let scraped = |sample: &Sample| Sample {
            value: f64::from(u32::try_from(at_ms / 5000 + 1).unwrap()),
            ..sample.clone()
        };
        Ok(Box::new(PrometheusLook {
            mine: self.mine.iter().map(scraped).collect(),
            agents: self.agents.iter().map(scraped).collect(),
            series: self.series.clone(),
            targets: World::of(&self.targets),
            groups: World::of(&self.groups),
            alerts: World::of(&self.alerts),
            notified: World::of(&self.notified),
            refused: self.refused.clone(),
        }))
    }

    fn received(&self) -> AlertmanagerLook {
        let counted = |sent: Sent| BTreeMap::from([((self.kind.to_owned(), String::new()), sent)]);
        AlertmanagerLook {
            groups: World::of(&self.received),
            counted: self.sent.map(counted),
            silences: self.silences.clone(),
        }
    }

    fn machine(&self) -> Machine {
        let pace = Pace { scrape_ms: 5000, evaluation_ms: 5000, offset_ms: 0, for_ms: 0 };
        let config = serde_yaml::from_str(&self.config).unwrap();
        let known = Known {
            url: "http://b:9093".to_owned(),
            config: AlertmanagerConfig::read(&config).ok(),
            before: Some(BTreeMap::new()),
            ..Known::default()
        };
        let known = vec![known; self.alertmanagers.len()];
        Machine::new(
            drilled(),
            vec![Replica::new("http://p:9090".to_owned(), pace, Vec::new())],
            known,
        )
    }

    /// Looks at everything each second until the outcome; also when that was.
    fn run(&self) -> (Vec<Said>, Outcome, u64) {
        let mut machine = self.machine();
        let (said, outcome, at_ms) = self.follow(&mut machine, 0);
        if !matches!(outcome, Outcome::Notified) {
            return (said, outcome, at_ms);
        }
        machine.stopped(at_ms);
        let after = if self.over { self.ended() } else { self.clone() };
        let (more, outcome, at_ms) = after.follow(&mut machine, at_ms);
        ([said, more].concat(), outcome, at_ms)
    }

    fn ended(&self) -> World {
        World { series: vec![], alerts: json!([]), received: json!([]), ..self.clone() }
    }

    fn follow(&self, machine: &mut Machine, from_ms: u64) -> (Vec<Said>, Outcome, u64) {
        let mut said = Vec::new();
        for at_ms in (from_ms..2_000_000).step_by(1000) {
            let asked = machine.asked();
            let mut seen = vec![Seen::Metrics(Ok(self.metrics)), Seen::Renewed];
            if self.ended && at_ms > 3000 {
                seen.push(Seen::Ended(Trouble::new("it is over: not renewed for 30 s", "")));
            }
            if let Some(Some(_)) = asked.first() {
                seen.push(Seen::Prometheus(0, self.look(at_ms)));
            }
            for (index, trouble) in self.alertmanagers.iter().enumerate() {
                let mut look = trouble.clone().map_or_else(|| Ok(self.received()), Err);
                // As `group_wait` has it.
                if let Ok(AlertmanagerLook { counted: Some(counted), .. }) = &mut look
                    && at_ms < from_ms + 2_000
                {
                    counted.clear();
                }
                seen.push(Seen::Alertmanager(index, look));
            }
            for seen in seen {
                said.extend(machine.take(at_ms, seen));
                if let Some(outcome) = machine.outcome() {
                    return (said, outcome.clone(), at_ms);
                }
            }
        }
        panic!("it does not end: {:?} {said:?}", machine.hop());
    }
}

#[test]
fn a_right_chain_passes_each_hop_once() {
    let (said, outcome, _) = World::right().run();
    let hops: Vec<Hop> = said
        .iter()
        .map(|said| match said {
            Said::Passed(hop, _) => *hop,
            Said::Warning(words) => panic!("{words}"),
        })
        .collect();
    use Hop::*;
    assert_eq!(
        hops,
        [Metrics, Scraped, Rule, Firing, Alertmanager, Receiver, Notified, Resolved],
        "{said:?}"
    );
    assert_eq!(outcome, Outcome::Over);
}

/// A broken chain: what is wrong, at which hop it is noticed, and within how many seconds; with
/// words of what was seen and of the remedy.
struct Broken {
    change: fn(&mut World),
    hop: Hop,
    within_s: u64,
    saw: &'static str,
    remedy: &'static str,
}

fn status(state: &str, more: Value) -> Value {
    let mut status = json!({"inhibitedBy": [], "silencedBy": [], "state": state});
    status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"status": status})
}

fn refused() -> Trouble {
    Trouble::new("Alertmanager at http://b:9093: it cannot be reached", "see that it runs")
}

/// Only the series that came from the agent; as it is if nothing evaluates it.
fn unrecorded(world: &mut World) {
    world.series.truncate(2);
    world.alerts = json!([]);
}

const BROKEN: &[Broken] = &[
    Broken {
        change: |it| it.metrics = false,
        hop: Hop::Metrics,
        within_s: 13,
        saw: "does not have the drill",
        remedy: "the address of one agent",
    },
    Broken {
        change: |it| {
            it.ended = true;
            it.series.clear();
        },
        hop: Hop::Agent,
        within_s: 30,
        saw: "not renewed",
        remedy: "",
    },
    Broken {
        change: |it| it.prometheus = Some(Trouble::new("no answer within 10 s", "its url")),
        hop: Hop::Scraped,
        within_s: 28,
        saw: "no answer",
        remedy: "its url",
    },
    Broken {
        change: |it| {
            (it.mine, it.series) = (vec![], vec![]);
            it.targets[0]["scrapeUrl"] = json!("http://n:9100/metrics");
            it.targets[0]["scrapePool"] = json!("node");
        },
        hop: Hop::Scraped,
        within_s: 4,
        saw: "scrapes no lockwatch at all",
        remedy: "add this agent (http://a:10379)",
    },
    Broken {
        change: |it| {
            (it.mine, it.series) = (vec![], vec![]);
            it.agents = vec![sample("job=lockwatch instance=other:10379")];
            it.targets[0]["scrapeUrl"] = json!("http://other:10379/metrics");
        },
        hop: Hop::Scraped,
        within_s: 28,
        saw: "other agents only: other:10379",
        remedy: "name one of those with --agent.url",
    },
    Broken {
        change: |it| {
            (it.mine, it.series) = (vec![], vec![]);
            it.targets[0]["health"] = json!("down");
            it.targets[0]["lastError"] = json!("connect: connection refused");
        },
        hop: Hop::Scraped,
        within_s: 28,
        saw: "its scrape of http://a:10379/metrics fails: connect: connection refused",
        remedy: "the scrape job is lockwatch",
    },
    Broken {
        change: |it| {
            it.series.clear();
            it.targets[0]["health"] = json!("down");
            it.targets[0]["lastError"] = json!("sample limit exceeded");
        },
        hop: Hop::Scraped,
        within_s: 28,
        saw: "sample limit exceeded",
        remedy: "mend that",
    },
    Broken {
        change: |it| it.series.clear(),
        hop: Hop::Scraped,
        within_s: 18,
        saw: "scraped a:10379 twice",
        remedy: "`metric_relabel_configs` of the scrape job lockwatch",
    },
    Broken {
        change: |it| {
            let _ = it.series[0].labels.insert("__name__".to_owned(), "lw_problem".to_owned());
        },
        hop: Hop::Scraped,
        within_s: 4,
        saw: "another name there: lw_problem",
        remedy: "metric_relabel_configs",
    },
    Broken {
        change: |it| {
            let task = it.series[0].labels.insert("task".to_owned(), "shop".to_owned()).unwrap();
            it.series[0].labels.insert("exported_task".to_owned(), task);
        },
        hop: Hop::Scraped,
        within_s: 4,
        saw: "task is \"shop\", lockwatch's is exported_task",
        remedy: "`honor_labels: true` in the scrape job lockwatch",
    },
    Broken {
        change: |it| {
            let _ = it.series[0].labels.remove("team");
        },
        hop: Hop::Scraped,
        within_s: 4,
        saw: "team differ",
        remedy: "metric_relabel_configs",
    },
    Broken {
        change: |it| {
            unrecorded(it);
            it.groups = json!([]);
        },
        hop: Hop::Rule,
        within_s: 4,
        saw: "no alert LockwatchTaskDown",
        remedy: "`rule_files`",
    },
    Broken {
        change: |it| {
            unrecorded(it);
            it.groups[0]["rules"][0]["health"] = json!("err");
            it.groups[0]["rules"][0]["lastError"] = json!("found duplicate series");
        },
        hop: Hop::Rule,
        within_s: 4,
        saw: "lockwatch:problem_seconds fails: found duplicate series",
        remedy: "lockwatch.rules.yml, of the group lockwatch.pages",
    },
    Broken {
        change: unrecorded,
        hop: Hop::Rule,
        within_s: 28,
        saw: "not evaluated in that time",
        remedy: "instance:lockwatch_up",
    },
    Broken {
        change: |it| {
            it.series.truncate(3);
            it.alerts = json!([]);
        },
        hop: Hop::Rule,
        within_s: 28,
        saw: "agent:lockwatch_problem_seconds has the drill",
        remedy: "of this version",
    },
    Broken {
        change: |it| it.alerts = json!([]),
        hop: Hop::Firing,
        within_s: 28,
        saw: "does not fire",
        remedy: "needs no changes",
    },
    Broken {
        change: |it| {
            it.alerts[0]["state"] = json!("pending");
            it.groups[0]["rules"][1]["duration"] = json!(300);
        },
        hop: Hop::Firing,
        within_s: 28,
        saw: "pending, not firing: its rule has `for: 300s`",
        remedy: "leave `for` out",
    },
    Broken {
        change: |it| {
            it.received = json!([]);
            it.notified["activeAlertmanagers"] = json!([]);
        },
        hop: Hop::Alertmanager,
        within_s: 4,
        saw: "knows no Alertmanager",
        remedy: "`alerting: {alertmanagers: …}`",
    },
    Broken {
        change: |it| {
            it.received = json!([]);
            let all = it.notified["activeAlertmanagers"].take();
            it.notified = json!({"activeAlertmanagers": [], "droppedAlertmanagers": all});
        },
        hop: Hop::Alertmanager,
        within_s: 4,
        saw: "drops every Alertmanager that it finds: http://b:9093",
        remedy: "`relabel_configs`",
    },
    Broken {
        change: |it| it.received = json!([]),
        hop: Hop::Alertmanager,
        within_s: 80,
        saw: "http://b:9093 does not have it",
        remedy: "`alert_relabel_configs`",
    },
    Broken {
        change: |it| {
            it.received = json!([]);
            it.refused = vec![("http://b:9093/api/v2/alerts".to_owned(), 1.0)];
        },
        hop: Hop::Alertmanager,
        within_s: 4,
        saw: "could not deliver alerts to http://b:9093",
        remedy: "`alerting` in Prometheus' configuration",
    },
    Broken {
        change: |it| {
            it.received = json!([]);
            it.notified["activeAlertmanagers"][0]["url"] = json!("http://c:9093/api/v2/alerts");
        },
        hop: Hop::Alertmanager,
        within_s: 80,
        saw: "Prometheus notifies http://c:9093",
        remedy: "--alertmanager.url",
    },
    Broken {
        change: |it| {
            let labels = it.received[0]["alerts"][0]["labels"].as_object_mut().unwrap();
            let _ = labels.remove("drill");
        },
        hop: Hop::Alertmanager,
        within_s: 4,
        saw: "changes its labels on the way",
        remedy: "alertname and drill must stay",
    },
    Broken {
        change: |it| it.alertmanagers = vec![Some(refused())],
        hop: Hop::Alertmanager,
        within_s: 80,
        saw: "cannot be reached",
        remedy: "see that it runs",
    },
    Broken {
        change: |it| {
            let held = status("suppressed", json!({"silencedBy": ["7916ad15"]}));
            it.received = json!([group("pager", &[alert(held)])]);
            it.silences = vec![Silence {
                id: "7916ad15".to_owned(),
                created_by: "anna".to_owned(),
                comment: "maint of the belt".to_owned(),
                ends_at: "2026-11-30T13:59:36.143Z".to_owned(),
            }];
        },
        hop: Hop::Alertmanager,
        within_s: 4,
        saw: "7916ad15 of anna until 2026-11-30T13:59:36.143Z: \"maint of the belt\"",
        remedy: "amtool silence expire 7916ad15",
    },
    Broken {
        change: |it| {
            let held = status("suppressed", json!({"inhibitedBy": ["b9b96169521de233"]}));
            let real = json!({"labels": {"alertname": "LockwatchTaskDown", "task": "inbound"},
                              "fingerprint": "b9b96169521de233"});
            it.received = json!([group("pager", &[alert(held)]), group("pager", &[alert(real)])]);
        },
        hop: Hop::Alertmanager,
        within_s: 4,
        saw: "muted by LockwatchTaskDown{task=\"inbound\"}",
        remedy: "`inhibit_rules`",
    },
    Broken {
        change: |it| {
            let held = status("suppressed", json!({"mutedBy": ["nights"]}));
            it.received = json!([group("pager", &[alert(held)])]);
        },
        hop: Hop::Notified,
        within_s: 4,
        saw: "muted now by the time intervals nights",
        remedy: "`mute_time_intervals`",
    },
    Broken {
        change: |it| it.received = json!([group("null", &[alert(json!({}))])]),
        hop: Hop::Receiver,
        within_s: 4,
        saw: "null, which has no integration",
        remedy: "amtool config routes test",
    },
    Broken {
        change: |it| it.sent = Some(Sent::default()),
        hop: Hop::Notified,
        within_s: 28,
        saw: "no request was made",
        remedy: "run two",
    },
    Broken {
        change: |it| {
            it.sent = Some(Sent::default());
            it.config = CONFIG.replace("group_wait: 1s", "mute_time_intervals: [nights]");
        },
        hop: Hop::Notified,
        within_s: 60,
        saw: "the time intervals nights, and this version of Alertmanager does not say",
        remedy: "drill at another time",
    },
    Broken {
        change: |it| {
            it.sent = Some(Sent::default());
            let real = alert(json!({"labels": {"alertname": "LockwatchTaskDown", "task": "in"}}));
            it.received = json!([group("pager", &[alert(json!({})), real])]);
        },
        hop: Hop::Notified,
        within_s: 60,
        saw: "in one group with LockwatchTaskDown{task=\"in\"}",
        remedy: "add `drill` to `group_by`",
    },
    Broken {
        // A webhook that answers 500: it is repeated, and not given up before group_interval.
        change: |it| {
            let (begun, failed) = (1.0, 0.0);
            it.sent = Some(Sent { begun, requests: 4.0, requests_failed: 4.0, failed });
        },
        hop: Hop::Notified,
        within_s: 28,
        saw: "4 requests of webhook failed, 0 succeeded; the drill's receiver is pager",
        remedy: "Notify for alerts failed",
    },
    Broken {
        // One that answers 404 is given up at once.
        change: |it| {
            let (begun, failed) = (1.0, 1.0);
            it.sent = Some(Sent { begun, requests: 1.0, requests_failed: 1.0, failed });
        },
        hop: Hop::Notified,
        within_s: 4,
        saw: "1 requests of webhook failed",
        remedy: "the secret of that integration",
    },
    Broken {
        change: |it| it.sent = Some(Sent { begun: 1.0, ..Sent::default() }),
        hop: Hop::Notified,
        within_s: 28,
        saw: "began a notification and has no answer",
        remedy: "answers",
    },
    Broken {
        // Of another kind than the receiver's.
        change: |it| it.kind = "slack",
        hop: Hop::Notified,
        within_s: 28,
        saw: "no request was made",
        remedy: "see Alertmanager's log",
    },
    Broken {
        change: |it| it.over = false,
        hop: Hop::Resolved,
        within_s: 60,
        saw: "still has it",
        remedy: "still scrapes the agent",
    },
];

#[test]
fn each_broken_chain_is_named_at_its_hop_in_time() {
    for (row, broken) in BROKEN.iter().enumerate() {
        let mut world = World::right();
        (broken.change)(&mut world);
        let (said, outcome, at_ms) = world.run();
        let Outcome::Failed(hop, trouble) = &outcome else {
            panic!("row {row} ({}): {outcome:?} {said:?}", broken.saw)
        };
        assert_eq!(*hop, broken.hop, "row {row}: {trouble}");
        assert!(trouble.saw.contains(broken.saw), "row {row}: {trouble}");
        assert!(trouble.remedy.contains(broken.remedy), "row {row}: {trouble}");
        assert!(at_ms <= broken.within_s * 1000, "row {row}: {at_ms} ms: {trouble}");
    }
}

#[test]
fn one_of_two_alertmanagers_that_is_down_is_a_warning() {
    let world = World { alertmanagers: vec![Some(refused()), None], ..World::right() };
    let (said, outcome, _) = world.run();
    assert_eq!(outcome, Outcome::Over);
    let warnings = said.iter().filter(|said| matches!(said, Said::Warning(_)));
    assert_eq!(warnings.count(), 1, "{said:?}");
}

#[test]
fn an_alert_that_ends_too_early_is_noticed() {
    let (mut machine, world) = (World::right().machine(), World::right());
    machine.take(0, Seen::Metrics(Ok(true)));
    for _ in 0..3 {
        machine.take(0, Seen::Prometheus(0, world.look(0)));
    }
    let waiting = World { sent: Some(Sent::default()), ..World::right() };
    machine.take(0, Seen::Alertmanager(0, Ok(waiting.received())));
    assert_eq!((machine.hop(), machine.outcome()), (Hop::Notified, None));
    for at_ms in (500..90_000).step_by(500) {
        machine.take(at_ms, Seen::Renewed);
        machine.take(at_ms, Seen::Alertmanager(0, Ok(waiting.ended().received())));
        // Prometheus repeats its word within a minute, and the agent may have ended the drill.
        assert!(at_ms > 60_000 || machine.outcome().is_none(), "{at_ms}");
    }
    let Some(Outcome::Failed(Hop::Notified, why)) = machine.outcome() else { panic!("it failed") };
    assert!(why.saw.contains("no longer in Alertmanager"), "{why}");
}

#[test]
fn what_cannot_be_counted_is_no_success() {
    for change in [
        |it: &mut World| it.sent = None,
        |it: &mut World| it.config = "route: {}".to_owned(),
        // The other one may have sent it.
        |it: &mut World| {
            it.sent = Some(Sent::default());
            it.alertmanagers = vec![Some(refused()), None];
        },
    ] {
        let mut world = World::right();
        change(&mut world);
        let (said, outcome, _) = world.run();
        assert!(matches!(outcome, Outcome::Unseen(_)), "{outcome:?} {said:?}");
    }
}

#[test]
fn counters_that_rise_for_a_moment_are_looked_at_twice() {
    let mut machine = World::right().machine();
    let world = World::right();
    let failing = Sent { begun: 1.0, requests: 1.0, requests_failed: 1.0, failed: 0.0 };
    let failing = World { sent: Some(failing), ..World::right() };
    machine.take(0, Seen::Metrics(Ok(true)));
    for _ in 0..3 {
        machine.take(0, Seen::Prometheus(0, world.look(0)));
    }
    machine.take(0, Seen::Alertmanager(0, Ok(world.received())));
    assert_eq!((machine.hop(), machine.outcome()), (Hop::Notified, None));
    // The request was counted, and that it failed was not yet.
    machine.take(300, Seen::Alertmanager(0, Ok(failing.received())));
    assert_eq!(machine.outcome(), None);
}

/// Another alert is notified in the same way: before the drill's alert is there, within its
/// `group_wait`, or not at all; the drill's own notification comes or does not.
#[test]
fn what_was_counted_before_it_could_be_notified_is_of_others() {
    const ARRIVES_MS: u64 = 7_000;
    const WAIT_MS: u64 = 30_000;
    let world =
        World { config: CONFIG.replace("group_wait: 1s", "group_wait: 30s"), ..World::right() };
    let sent = |count: f64| Some(Sent { begun: count, requests: count, ..Sent::default() });
    for (other_ms, is_sent, expected) in [
        (3_000, false, "no request was made"),
        (3_000, true, "notified"),
        (ARRIVES_MS + 10_000, false, "before `group_wait` was over"),
        (ARRIVES_MS + 10_000, true, "notified"),
        (u64::MAX, true, "notified"),
    ] {
        let mut machine = world.machine();
        let outcome = (0..900_000).step_by(500).find_map(|at_ms| {
            let own = is_sent && at_ms > ARRIVES_MS + WAIT_MS;
            let count = f64::from(u8::from(at_ms >= other_ms)) + f64::from(u8::from(own));
            let now = World { sent: sent(7.0 + count), ..world.clone() };
            let now = if at_ms < ARRIVES_MS { World { received: json!([]), ..now } } else { now };
            machine.take(at_ms, Seen::Metrics(Ok(true)));
            machine.take(at_ms, Seen::Renewed);
            machine.take(at_ms, Seen::Prometheus(0, now.look(at_ms)));
            machine.take(at_ms, Seen::Alertmanager(0, Ok(now.received())));
            machine.outcome().cloned().map(|outcome| (outcome, at_ms))
        });
        let said = match outcome.unwrap() {
            (Outcome::Notified, at_ms) if at_ms > ARRIVES_MS + WAIT_MS => "notified".to_owned(),
            (Outcome::Failed(Hop::Notified, why), _) => why.saw,
            (Outcome::Unseen(why), _) => why,
            other => panic!("{other:?}"),
        };
        assert!(said.contains(expected), "{other_ms} {is_sent}: {said}");
    }
}

#[test]
fn whatever_is_missing_it_ends() {
    type Change = fn(&mut World);
    let changes: [Change; 9] = [
        |it| it.series.clear(),
        |it| it.mine.clear(),
        |it| it.targets = json!(null),
        |it| it.groups = json!(null),
        |it| it.alerts = json!(null),
        |it| it.notified = json!(null),
        |it| it.received = json!([]),
        |it| it.sent = None,
        |it| it.over = false,
    ];
    for set in 0..1_u32 << changes.len() {
        let mut world = World::right();
        let chosen = changes.iter().enumerate().filter(|(bit, _)| set & (1 << bit) != 0);
        chosen.for_each(|(_, change)| change(&mut world));
        let (_, _, at_ms) = world.run();
        assert!(at_ms < 900_000, "{set:b}: {at_ms} ms");
    }
}

#[test]
fn two_replicas_are_one_way() {
    let pace = Pace { scrape_ms: 5000, evaluation_ms: 5000, offset_ms: 0, for_ms: 0 };
    let replica = |url: &str| Replica::new(url.to_owned(), pace, Vec::new());
    let world = World::right();
    let known = Known { before: Some(BTreeMap::new()), ..Known::default() };
    let mut machine =
        Machine::new(drilled(), vec![replica("http://p"), replica("http://q")], vec![known]);
    machine.take(0, Seen::Metrics(Ok(true)));
    let lost = Trouble::new("Prometheus at http://p: it cannot be reached", "see that it runs");
    machine.take(0, Seen::Prometheus(0, Err(lost)));
    let said: Vec<Said> =
        (0..3).flat_map(|_| machine.take(0, Seen::Prometheus(1, world.look(0)))).collect();
    assert_eq!(machine.hop(), Hop::Alertmanager);
    assert!(
        matches!(&said[0], Said::Passed(Hop::Scraped, words) if words.ends_with("by http://q"))
    );
    let said = machine.take(60_000, Seen::Nothing);
    assert_eq!(machine.outcome(), None);
    assert!(
        said.iter()
            .any(|said| matches!(said, Said::Warning(it) if it.contains("http://p: it cannot"))),
        "{said:?}"
    );
}

fn known(config: &str, received: &Value) -> Known {
    let config = serde_yaml::from_str(config).unwrap();
    let look = AlertmanagerLook { groups: World::of(received), ..AlertmanagerLook::default() };
    Known {
        config: Some(AlertmanagerConfig::read(&config).unwrap()),
        look: Some(look),
        ..Known::default()
    }
}

#[test]
fn what_it_may_delay_or_mute_is_said_before() {
    let firing = |text: &str, receiver: &str, common: &str| {
        json!([{"labels": labels(common), "receiver": {"name": receiver},
                "alerts": [{"labels": labels(text), "fingerprint": "1"}]}])
    };
    let real = "alertname=LockwatchTaskDown task=inbound severity=critical namespace=shop";
    let ours = labels(
        "alertname=LockwatchTaskDown task=lockwatch-drill drill=outbound severity=warning \
         namespace=shop",
    );
    let check = |config: &str, received: &Value| before(&ours, &[known(config, received)], "3m");

    // As shipped: nothing to say.
    let fine = check(CONFIG, &firing(real, "pager", "alertname=LockwatchTaskDown task=inbound"));
    assert_eq!((fine.refusals.len(), fine.warnings.len()), (0, 0), "{fine:?}");

    let grouped = CONFIG.replace("'...'", "alertname, namespace");
    let joins =
        check(&grouped, &firing(real, "pager", "alertname=LockwatchTaskDown namespace=shop"));
    assert!(joins.refusals[0].contains("may join a group that fires now, with LockwatchTaskDown{"));
    assert!(joins.warnings[0].contains("up to 30s later") && joins.warnings[0].contains("pager"));
    let other = check(&grouped, &firing(real, "pager", "alertname=LockwatchTaskDown namespace=eu"));
    assert_eq!(other.refusals.len(), 0, "{other:?}");
    // A receiver that notifies nobody is not delayed.
    let null = check(&grouped, &firing(real, "null", "alertname=LockwatchTaskDown namespace=shop"));
    assert_eq!(null.refusals.len(), 0, "{null:?}");

    // What Helm's stack ships.
    let stack = format!(
        "{CONFIG}inhibit_rules: [{{source_matchers: ['severity = critical'], target_matchers: \
         ['severity =~ warning|info'], equal: [namespace, alertname]}}]"
    );
    let muted = check(&stack, &firing(real, "pager", "task=inbound"));
    assert!(muted.refusals[0].contains("muted by LockwatchTaskDown{"), "{muted:?}");
    assert!(muted.refusals[0].contains("task=\"inbound\""), "{muted:?}");
    let critical = Labels::from([("severity".to_owned(), "critical".to_owned())]);
    let critical = ours.clone().into_iter().chain(critical).collect();
    let mutes = before(&critical, &[known(&stack, &json!([]))], "3m");
    assert!(mutes.warnings[0].contains("that have the same namespace, alertname"), "{mutes:?}");
    let warning = real.replace("critical", "warning");
    let mutes = before(&critical, &[known(&stack, &firing(&warning, "pager", ""))], "3m");
    assert!(mutes.refusals[0].contains("the drill would mute LockwatchTaskDown{"), "{mutes:?}");
}

#[test]
fn routes_that_it_cannot_take_are_not_its_business() {
    let config = CONFIG.replace(
        "group_interval: 30s",
        "routes: [{matchers: ['alertname=LockwatchWatchdog'], group_by: [cluster]}]",
    );
    let watchdog = json!([{"labels": {}, "receiver": {"name": "pager"},
        "alerts": [{"labels": {"alertname": "LockwatchWatchdog"}, "fingerprint": "1"}]}]);
    let ours = labels("alertname=LockwatchTaskDown drill=outbound");
    let found = before(&ours, &[known(&config, &watchdog)], "3m");
    assert_eq!((found.refusals.len(), found.warnings.len()), (0, 0), "{found:?}");
}
