//! Chains that are broken in one place each: `lockwatch drill` names the hop, what it saw and what
//! to do.

use std::rc::Rc;

use lockwatch_lab::stack::{Redis, Status};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

use super::chain::{AGENT_MODE, Chain, Change, Extent, Text, redis};

/// How many chains run at the same time.
const AT_ONCE: usize = 10;

/// What is done to a chain that runs, before the drill.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Nothing.
    None,
    /// Another task goes down, and its alert reaches Alertmanager.
    RealAlert,
    /// Somebody silences alerts of this name.
    Silence,
    /// The first Alertmanager is killed.
    KillAlertmanager,
}

/// A chain that is broken.
struct Row {
    /// What is broken.
    what: &'static str,
    changes: &'static [Change],
    extent: Extent,
    act: Act,
    arguments: &'static [&'static str],
    /// The hop that fails; without one nothing begins.
    hop: Option<&'static str>,
    /// What must be said.
    words: &'static [&'static str],
    code: i32,
    /// Its alert may arrive before the drill is stopped, with other labels than it should have.
    arrives: bool,
}

const ROW: Row = Row {
    what: "",
    changes: &[],
    extent: Extent::IMPATIENT,
    act: Act::None,
    arguments: &["outbound"],
    hop: None,
    words: &[],
    code: 1,
    arrives: false,
};

use Text::{Agent, Alertmanager, Prometheus, Rules};

/// The stack of Helm has this rule.
const STACKS_INHIBITION: Change = (
    Alertmanager,
    "inhibit_rules:\n",
    "inhibit_rules:\n  - source_matchers: ['severity = critical']\n    \
     target_matchers: ['severity =~ warning|info']\n    equal: [namespace, alertname]\n",
);
const LOST_TASK: Change = (
    Agent,
    "tasks:\n",
    "tasks:\n  - {name: really, lock: {key: \"lost\", library: string}, wanted: always, grace: 1s, \
     settle: 1s, labels: {severity: critical}}\n",
);
/// The example sends alerts of nobody's tasks to it.
const PAGER: &str = "url: RECEIVERpager.example.com/operations";

const ROWS: &[Row] = &[
    // The agent.
    Row {
        what: "drills are not allowed",
        changes: &[(Agent, "drill: true\n", "")],
        hop: Some("agent"),
        words: &["drill: true"],
        ..ROW
    },
    Row {
        what: "no such task",
        arguments: &["outbond"],
        words: &["outbond", "outbound"],
        code: 2,
        ..ROW
    },
    Row {
        what: "no agent at the URL",
        arguments: &["outbound", "--agent.url", "DEAF"],
        hop: Some("agent"),
        words: &["--agent.url"],
        ..ROW
    },
    // Prometheus' answers.
    Row {
        what: "no Prometheus at the URL",
        arguments: &["outbound", "--prometheus.url", "DEAF"],
        hop: Some("scraped"),
        words: &["--prometheus.url"],
        ..ROW
    },
    Row {
        what: "the URL is Alertmanager's",
        arguments: &["outbound", "--prometheus.url", "ALERTMANAGER"],
        hop: Some("scraped"),
        words: &["--prometheus.url"],
        ..ROW
    },
    Row {
        what: "Prometheus in agent mode evaluates no rules",
        changes: &[(
            Prometheus,
            "",
            concat!(
                "global: {scrape_interval: 1s}\n",
                "scrape_configs:\n",
                "  - job_name: lockwatch\n",
                "    static_configs: [{targets: [AGENTS]}]\n",
                "remote_write: [{url: \"http://DEAF/write\"}]\n",
            ),
        )],
        extent: Extent { prometheus: &[AGENT_MODE, "--storage.agent.path=data"], ..ROW.extent },
        hop: Some("scraped"),
        words: &["agent mode"],
        ..ROW
    },
    // What is scraped.
    Row {
        what: "no job scrapes the agent",
        changes: &[(Prometheus, "targets: [AGENTS]", "targets: []")],
        hop: Some("scraped"),
        words: &["scrape_configs"],
        ..ROW
    },
    Row {
        what: "the target has another port",
        changes: &[(Prometheus, "targets: [AGENTS]", "targets: [\"DEAF\"]")],
        hop: Some("scraped"),
        words: &["connection refused"],
        ..ROW
    },
    Row {
        what: "metrics_path is wrong",
        changes: &[(
            Prometheus,
            "  - job_name: lockwatch\n",
            "  - job_name: lockwatch\n    metrics_path: /metric\n",
        )],
        hop: Some("scraped"),
        words: &["404"],
        ..ROW
    },
    Row {
        what: "the agent asks for a login, and Prometheus has none",
        changes: &[(
            Prometheus,
            "  - job_name: lockwatch\n",
            concat!(
                "  - job_name: lockwatch\n",
                "    scheme: https\n",
                "    tls_config: {insecure_skip_verify: true}\n",
            ),
        )],
        extent: Extent { web_file: true, ..ROW.extent },
        hop: Some("scraped"),
        words: &["401"],
        ..ROW
    },
    Row {
        what: "relabel_configs drop the target",
        changes: &[(
            Prometheus,
            "  - job_name: lockwatch\n",
            concat!(
                "  - job_name: lockwatch\n",
                "    relabel_configs:\n",
                "    - {action: drop, source_labels: [__address__], regex: \".*\"}\n",
            ),
        )],
        hop: Some("scraped"),
        words: &["relabel_configs"],
        ..ROW
    },
    Row {
        what: "metric_relabel_configs drop the series",
        changes: &[(
            Prometheus,
            "  - job_name: lockwatch\n",
            concat!(
                "  - job_name: lockwatch\n",
                "    metric_relabel_configs:\n",
                "    - action: drop\n",
                "      source_labels: [__name__]\n",
                "      regex: \"lockwatch_task_problem.*\"\n",
            ),
        )],
        hop: Some("scraped"),
        words: &["metric_relabel_configs"],
        ..ROW
    },
    Row {
        what: "a target's label takes the place of the task's",
        changes: &[
            (Prometheus, "honor_labels: true", "honor_labels: false"),
            (
                Prometheus,
                "targets: [AGENTS]",
                "targets: [AGENTS]\n        labels: {severity: page, task: exporters}",
            ),
        ],
        hop: Some("scraped"),
        words: &["honor_labels", "severity"],
        arrives: true,
        ..ROW
    },
    // The rules.
    Row {
        what: "no rule file is loaded",
        changes: &[(Prometheus, "  - lockwatch.rules.yml\n", "  - other.rules.yml\n")],
        hop: Some("rule"),
        words: &["rule_files"],
        ..ROW
    },
    Row {
        what: "the rules have no such alert",
        changes: &[(Rules, "- alert: LockwatchTaskDown\n", "- alert: TaskDown\n")],
        hop: Some("rule"),
        words: &["LockwatchTaskDown"],
        ..ROW
    },
    Row {
        what: "the rules know no drill",
        changes: &[(Rules, "drill!=\"\"", "drill=\"none\"")],
        hop: Some("rule"),
        words: &["version"],
        ..ROW
    },
    Row {
        what: "rules are evaluated once in ten minutes",
        changes: &[(Prometheus, "evaluation_interval: 1s", "evaluation_interval: 10m")],
        hop: Some("rule"),
        words: &["evaluation_interval", "10m"],
        ..ROW
    },
    Row {
        what: "a rule that the alert needs fails",
        changes: &[(
            Rules,
            "      - record: instance:lockwatch_up\n        expr: |\n",
            concat!(
                "      - record: instance:lockwatch_up\n",
                "        expr: |\n",
                "          (up or up offset 1s) * on () group_left ()\n",
                "          (up or on (__name__) scrape_duration_seconds) or \n",
            ),
        )],
        hop: Some("rule"),
        words: &["duplicate series"],
        ..ROW
    },
    // The way to Alertmanager.
    Row {
        what: "Prometheus has no Alertmanager",
        changes: &[(Prometheus, "targets: [ALERTMANAGERS]", "targets: []")],
        hop: Some("alertmanager"),
        words: &["alerting"],
        ..ROW
    },
    Row {
        what: "Prometheus notifies another Alertmanager",
        changes: &[(Prometheus, "targets: [ALERTMANAGERS]", "targets: [\"DEAF\"]")],
        arguments: &["outbound", "--alertmanager.url", "ALERTMANAGER"],
        hop: Some("alertmanager"),
        words: &["alerting"],
        ..ROW
    },
    Row {
        what: "alert_relabel_configs drop the alert",
        changes: &[(
            Prometheus,
            "alert_relabel_configs:\n",
            concat!(
                "alert_relabel_configs:\n",
                "    - {action: drop, source_labels: [alertname], regex: LockwatchTask.*}\n",
            ),
        )],
        hop: Some("alertmanager"),
        words: &["alert_relabel_configs"],
        ..ROW
    },
    Row {
        what: "Alertmanager is down",
        act: Act::KillAlertmanager,
        hop: Some("alertmanager"),
        words: &["refused"],
        ..ROW
    },
    // What Alertmanager does with it.
    Row {
        what: "somebody silenced it",
        act: Act::Silence,
        hop: Some("alertmanager"),
        words: &["silence", "bert", "belt"],
        ..ROW
    },
    Row {
        what: "the stack's inhibition mutes a warning",
        changes: &[STACKS_INHIBITION, LOST_TASK],
        act: Act::RealAlert,
        arguments: &["inbound", "--force"],
        hop: Some("alertmanager"),
        words: &["LockwatchTaskDown", "really"],
        ..ROW
    },
    Row {
        what: "the stack's inhibition would mute a warning",
        changes: &[STACKS_INHIBITION, LOST_TASK],
        act: Act::RealAlert,
        arguments: &["inbound"],
        words: &["LockwatchTaskDown", "really", "--force"],
        ..ROW
    },
    Row {
        what: "a group that fires has the drill's alert, too",
        changes: &[LOST_TASK, (Alertmanager, "group_by: [\"...\"]", "group_by: [alertname]")],
        act: Act::RealAlert,
        words: &["group_by", "drill", "--force"],
        ..ROW
    },
    Row {
        what: "it goes to a receiver without any integration",
        changes: &[
            (Alertmanager, "receivers:\n", "receivers:\n  - name: nobody\n"),
            (Alertmanager, "      receiver: pager\n", "      receiver: nobody\n"),
        ],
        hop: Some("receiver"),
        words: &["nobody"],
        ..ROW
    },
    Row {
        what: "the receiver lost its integration",
        changes: &[(
            Alertmanager,
            concat!(
                "  - name: pager\n",
                "    webhook_configs:\n",
                "      - url: RECEIVERpager.example.com/operations\n",
                "        send_resolved: true\n",
                "        http_config: {authorization: {credentials_file: ",
            ),
            concat!(
                "  - name: pager\n",
                "  - name: former\n",
                "    webhook_configs:\n",
                "      - url: RECEIVERpager.example.com/operations\n",
                "        send_resolved: true\n",
                "        http_config: {authorization: {credentials_file: ",
            ),
        )],
        hop: Some("receiver"),
        words: &["pager"],
        ..ROW
    },
    // The notification.
    Row {
        what: "it is muted now",
        changes: &[
            (
                Alertmanager,
                "inhibit_rules:\n",
                concat!(
                    "time_intervals:\n",
                    "  - name: always\n",
                    "    time_intervals:\n",
                    "    - times: [{start_time: \"00:00\", end_time: \"24:00\"}]\n",
                    "inhibit_rules:\n",
                ),
            ),
            (
                Alertmanager,
                "      receiver: pager\n",
                "      receiver: pager\n      mute_time_intervals: [always]\n",
            ),
            (
                Alertmanager,
                "        - matchers: [alertname=~\"LockwatchTask(Down|Split)\"]\n",
                concat!(
                    "        - matchers: [alertname=~\"LockwatchTask(Down|Split)\"]\n",
                    "          mute_time_intervals: [always]\n",
                ),
            ),
            (
                Alertmanager,
                "            - matchers: [severity!=\"critical\"]\n              receiver: chat\n",
                concat!(
                    "            - matchers: [severity!=\"critical\"]\n",
                    "              receiver: chat\n",
                    "              mute_time_intervals: [always]\n",
                ),
            ),
        ],
        hop: Some("notified"),
        words: &["always"],
        ..ROW
    },
    Row {
        what: "it is outside of active times",
        changes: &[
            (
                Alertmanager,
                "inhibit_rules:\n",
                concat!(
                    "time_intervals:\n",
                    "  - name: then\n",
                    "    time_intervals: [{years: [\"1999\"]}]\n",
                    "inhibit_rules:\n",
                ),
            ),
            (
                Alertmanager,
                "        - matchers: [alertname=~\"LockwatchTask(Down|Split)\"]\n",
                concat!(
                    "        - matchers: [alertname=~\"LockwatchTask(Down|Split)\"]\n",
                    "          active_time_intervals: [then]\n",
                ),
            ),
        ],
        hop: Some("notified"),
        words: &["then"],
        ..ROW
    },
    Row {
        what: "the webhook answers 500",
        changes: &[(Alertmanager, PAGER, "url: REFUSING500")],
        hop: Some("notified"),
        words: &["pager", "webhook"],
        ..ROW
    },
    Row {
        what: "the webhook answers 404",
        changes: &[(Alertmanager, PAGER, "url: REFUSING404")],
        hop: Some("notified"),
        words: &["pager", "webhook"],
        ..ROW
    },
    Row {
        what: "nobody listens at the webhook",
        changes: &[(Alertmanager, PAGER, "url: http://DEAF/")],
        hop: Some("notified"),
        words: &["pager", "webhook"],
        ..ROW
    },
];

/// Each chain is named at its hop with its words, no drill says that it notified where nobody was
/// notified, and nothing of it is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_broken_chain_is_named_at_its_hop() {
    LocalSet::new().run_until(all()).await;
}

async fn all() {
    let (redis, at_once) = (Rc::new(redis().await), Rc::new(Semaphore::new(AT_ONCE)));
    let only = std::env::var("LOCKWATCH_ONLY").unwrap_or_default();
    let mut rows = JoinSet::new();
    for row in ROWS.iter().filter(|row| row.what.contains(&only)) {
        let (redis, at_once) = (Rc::clone(&redis), Rc::clone(&at_once));
        rows.spawn_local(async move {
            let _running = at_once.acquire().await.unwrap();
            play(&redis, row).await
        });
    }
    let mut wrong = Vec::new();
    while let Some(row) = rows.join_next().await {
        wrong.extend(row.unwrap_or_else(|panicked| Some(panicked.to_string())));
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ROWS.len(), wrong.join("\n"));
}

/// What was wrong with what the drill said of this chain.
async fn play(redis: &Redis, row: &Row) -> Option<String> {
    let mut chain = Chain::start(redis, row.extent, row.changes).await;
    match row.act {
        Act::None => {}
        Act::RealAlert => chain.alerted("task", "really").await,
        Act::Silence => chain.silence("LockwatchTaskDown").await,
        Act::KillAlertmanager => chain.alertmanagers[0].kill().await.unwrap(),
    }
    let said = chain.drill(row.arguments).await;
    let mut wrong = Vec::new();
    if said.code != Some(row.code) {
        wrong.push(format!("its exit code is not {}", row.code));
    }
    if let Some(hop) = row.hop
        && said.failed() != Some(hop)
    {
        wrong.push(format!("{:?} failed, and not {hop}", said.failed()));
    }
    for word in row.words.iter().filter(|word| !said.says(word)) {
        wrong.push(format!("it does not say {word:?}"));
    }
    if !row.arrives && chain.received().iter().any(|(status, _)| *status == Status::Firing) {
        wrong.push("the receiver was notified: the chain is not broken".to_owned());
    }
    (!wrong.is_empty()).then(|| format!("## {}: {}\n{}", row.what, wrong.join("; "), said.text))
}
