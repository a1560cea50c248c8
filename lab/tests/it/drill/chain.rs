//! A chain of real programs from Redis to a receiver, made of the shipped examples and of what a
//! test changes in them.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use lockwatch_lab::stack::{
    Agent, Alertmanager, Nginx, Program, Prometheus, Receiver, Redis, Status, WebFile, get, post,
    until,
};
use redis::AsyncTypedCommands;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

pub(super) const PATIENCE: Duration = Duration::from_secs(90);
/// Within which Prometheus discovers what it scrapes and notifies, if there is something: it looks
/// every 5 s.
const DISCOVERED_WITHIN: Duration = Duration::from_secs(12);
/// The flag of Prometheus in agent mode, and what it was before Prometheus 3.
pub(super) const AGENT_MODE: &str = "--agent";
const FORMER_AGENT_MODE: &str = "--enable-feature=agent";
/// What rules would remember of drills.
const REMEMBERED: &str = "last_over_time({__name__=~\".+:(kept|last|time)\", drill!=\"\"}[1h])";
/// Nobody listens there.
const DEAF: &str = "127.0.0.1:1";
const ALERTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../alerts/");
/// The files that have the secrets of the example's receivers.
const SECRETS: &str = "/etc/alertmanager/secrets";

/// The tasks and their labels.
const TASKS: [(&str, &str); 3] = [
    ("outbound", "severity: critical"),
    ("inbound", "severity: warning"),
    ("parcels", "severity: critical, team: logistics"),
];

/// One of the texts that a chain is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// The agent's configuration.
    Agent,
    /// The rules of alerts.
    Rules,
    /// Prometheus' configuration: `AGENTS` and `ALERTMANAGERS` stand for lists of addresses,
    /// `DEAF` for an address where nobody listens.
    Prometheus,
    /// Alertmanager's configuration: `RECEIVER` is the URL of the receiver, `DEAF` as above,
    /// `REFUSING` for a URL that answers with the status that follows.
    Alertmanager,
}

/// In one of the texts, the first piece becomes the second, everywhere; an empty first one means
/// the whole text.
pub(super) type Change = (Text, &'static str, &'static str);

/// How many there are of what may be doubled, and what goes before them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Two agents with the same tasks.
    pub(super) two_agents: bool,
    /// Two servers with the same configuration.
    pub(super) two_prometheis: bool,
    /// Two Alertmanagers of one cluster.
    pub(super) two_alertmanagers: bool,
    /// Agents ask for a login, and speak TLS.
    pub(super) web_file: bool,
    /// nginx before Prometheus and Alertmanager.
    pub(super) nginx: bool,
    /// Additional arguments of Prometheus.
    pub(super) prometheus: &'static [&'static str],
}

impl Extent {
    /// One of each.
    pub(super) const SINGLE: Extent = Extent {
        two_agents: false,
        two_prometheis: false,
        two_alertmanagers: false,
        web_file: false,
        nginx: false,
        prometheus: &[],
    };
    /// Prometheus sends alerts again each second, so that Alertmanager gives them up after four: by
    /// default it is a minute, and four.
    pub(super) const IMPATIENT: Extent =
        Extent { prometheus: &["--rules.alert.resend-delay=1s"], ..Extent::SINGLE };
}

/// A running chain.
pub(super) struct Chain {
    pub(super) agents: Vec<Agent>,
    pub(super) prometheis: Vec<Prometheus>,
    pub(super) alertmanagers: Vec<Alertmanager>,
    pub(super) receiver: Receiver,
    pub(super) nginx: Option<Nginx>,
    folder: TempDir,
}

impl Chain {
    pub(super) async fn start(redis: &Redis, extent: Extent, changes: &[Change]) -> Chain {
        let (receiver, folder) = (Receiver::start().await.unwrap(), TempDir::new().unwrap());
        let mut agents = Vec::new();
        let configured = changed(agent(redis), Text::Agent, changes);
        for _ in 0..1 + usize::from(extent.two_agents) {
            agents.push(if extent.web_file {
                let web_file = WebFile::with_login_and_tls().unwrap();
                Agent::start_behind(web_file, &configured).await.unwrap()
            } else {
                Agent::start(&configured).await.unwrap()
            });
        }

        let mut chain = Chain {
            agents,
            prometheis: Vec::new(),
            alertmanagers: Vec::new(),
            receiver,
            nginx: None,
            folder,
        };
        let config = chain.alertmanager(changes);
        chain.alertmanagers = if extent.two_alertmanagers {
            Alertmanager::start_pair(&config).await.unwrap().into()
        } else {
            vec![Alertmanager::start(&config).await.unwrap()]
        };
        let config = chain.prometheus(changes);
        let mut arguments = extent.prometheus.to_vec();
        if let Some(mode) = arguments.iter_mut().find(|argument| **argument == AGENT_MODE)
            && !has_agent_mode_flag().await
        {
            *mode = FORMER_AGENT_MODE;
        }
        for _ in 0..1 + usize::from(extent.two_prometheis) {
            chain.prometheis.push(Prometheus::start_with(&config, &arguments).await.unwrap());
        }
        if extent.nginx {
            let parts = [
                ("prometheus", chain.prometheis[0].address()),
                ("alertmanager", chain.alertmanagers[0].address()),
            ];
            chain.nginx = Some(Nginx::start(&parts).await.unwrap());
        }
        chain.settle().await;
        chain
    }

    /// The example with short intervals, all of whose addresses are the receiver's.
    fn alertmanager(&self, changes: &[Change]) -> String {
        let example = read("alertmanager-example.yml");
        let secrets = self.folder.path().join("secrets");
        std::fs::create_dir(&secrets).unwrap();
        for secret in example.split(SECRETS).skip(1) {
            let name: String = secret
                .chars()
                .skip(1)
                .take_while(|c| c.is_ascii_lowercase() || *c == '-')
                .collect();
            std::fs::write(secrets.join(name), "secret").unwrap();
        }
        let shorter = shortened(&example, &[("group_wait: ", "0s"), ("group_interval: ", "1s")])
            .replace("https://", "RECEIVER")
            .replace(SECRETS, &secrets.display().to_string());
        changed(shorter, Text::Alertmanager, changes)
            .replace("RECEIVER", &self.receiver.url())
            .replace("REFUSING", self.receiver.url_refusing(0).trim_end_matches('0'))
            .replace("DEAF", DEAF)
    }

    /// The example with short intervals and the addresses of this chain.
    fn prometheus(&self, changes: &[Change]) -> String {
        let rules = changed(read("lockwatch.rules.yml"), Text::Rules, changes);
        std::fs::write(self.folder.path().join("lockwatch.rules.yml"), rules).unwrap();
        std::fs::copy(
            Path::new(ALERTS).join("lockwatch-watchdog.rules.yml"),
            self.folder.path().join("lockwatch-watchdog.rules.yml"),
        )
        .unwrap();
        let shorter = shortened(
            &read("prometheus-example.yml"),
            &[("scrape_interval: ", "1s"), ("evaluation_interval: ", "1s")],
        )
        .replace("\"lockwatch-a.example.com:10379\", \"lockwatch-b.example.com:10379\"", "AGENTS")
        .replace(
            "\"alertmanager-a.example.com:9093\", \"alertmanager-b.example.com:9093\"",
            "ALERTMANAGERS",
        );
        let list = |addresses: Vec<SocketAddr>| {
            addresses.iter().map(|address| format!("\"{address}\"")).collect::<Vec<_>>().join(", ")
        };
        // Always notified by a webhook, as the drill, and both are counted together.
        let shorter = shorter.replace("  - lockwatch-watchdog.rules.yml\n", "");
        changed(shorter, Text::Prometheus, changes)
            .replace("AGENTS", &list(self.agents.iter().map(Agent::address).collect()))
            .replace(
                "ALERTMANAGERS",
                &list(self.alertmanagers.iter().map(Alertmanager::address).collect()),
            )
            .replace("DEAF", DEAF)
            .replace("- lockwatch", &format!("- {}/lockwatch", self.folder.path().display()))
            // The jobs are no files.
            .replace(&format!("job_name: {}/", self.folder.path().display()), "job_name: ")
    }

    /// Waits until each Prometheus has looked for targets and Alertmanagers, and found what there
    /// is to be found: what fires before is sent a minute later.
    async fn settle(&self) {
        for prometheus in &self.prometheis {
            let found = async || {
                let scraped = get(prometheus.address(), "/api/v1/targets").await?.json()?;
                let targets = scraped["data"]["activeTargets"].as_array().into_iter().flatten();
                let mut lockwatch =
                    targets.filter(|target| target["labels"]["job"] != "prometheus").peekable();
                let scraped = lockwatch.peek().is_some()
                    && lockwatch.all(|target| target["health"] != "unknown");
                anyhow::Ok(scraped && prometheus.knows_its_alertmanager().await?)
            };
            // Some chains have nothing that could be found.
            let _ =
                until(DISCOVERED_WITHIN, "the chain", async || found().await.unwrap_or_default())
                    .await;
        }
    }

    /// Waits until Alertmanager has an alert with this label.
    pub(super) async fn alerted(&self, label: &str, value: &str) {
        until(PATIENCE, "an alert", async || {
            let alerts = self.alertmanagers[0].alerts().await.unwrap_or_default();
            alerts.iter().any(|alert| alert["labels"][label] == value)
        })
        .await
        .unwrap();
    }

    /// Silences alerts of this name for good.
    pub(super) async fn silence(&self, name: &str) {
        let silence = json!({
            "matchers": [{"name": "alertname", "value": name, "isRegex": false, "isEqual": true}],
            "startsAt": "2020-01-01T00:00:00Z",
            "endsAt": "2099-01-01T00:00:00Z",
            "createdBy": "bert",
            "comment": "the belt is being repaired",
        });
        post(
            self.alertmanagers[0].address(),
            "/api/v2/silences",
            "application/json",
            &silence.to_string(),
        )
        .await
        .unwrap()
        .ok()
        .unwrap();
    }

    /// The command with what leads to this chain, unless `arguments` name it: `PROMETHEUS` and
    /// `ALERTMANAGER` stand for their URLs, `DEAF` for one where nobody listens.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(Program::Lockwatch.find().unwrap());
        command.arg("drill").kill_on_drop(true).stdin(std::process::Stdio::null());
        let address = |address: SocketAddr| format!("http://{address}");
        if !arguments.contains(&"--agent.url") {
            command.args(["--agent.url", &self.agents[0].url()]);
            if let Some(files) = self.agents[0].login_files() {
                let [ca, login] = files.map(|file| file.display().to_string());
                command.args(["--agent.ca-file", &ca, "--agent.login-file", &login]);
            }
        }
        if !arguments.contains(&"--prometheus.url") && !arguments.contains(&"--stop") {
            for prometheus in &self.prometheis {
                command.args(["--prometheus.url", &address(prometheus.address())]);
            }
        }
        let named = |argument: &&str| {
            argument
                .replace("PROMETHEUS", &address(self.prometheis[0].address()))
                .replace("ALERTMANAGER", &address(self.alertmanagers[0].address()))
                .replace("DEAF", &format!("http://{DEAF}"))
        };
        command.args(arguments.iter().map(named));
        command
    }

    /// Runs the command until it ends.
    pub(super) async fn drill(&self, arguments: &[&str]) -> Said {
        let mut command = self.command(arguments);
        let output = tokio::time::timeout(2 * PATIENCE, command.output()).await;
        Said::new(&output.expect("the drill ends").unwrap())
    }

    /// What the receiver got of drills: for each notification whether it fires, and the value of
    /// `drill`.
    pub(super) fn received(&self) -> Vec<(Status, String)> {
        let notifications = self.receiver.notifications();
        let drills = notifications.iter().flat_map(|notification| &notification.alerts);
        drills
            .filter_map(|alert| Some((alert.status, alert.labels.get("drill")?.clone())))
            .collect()
    }

    /// Waits until the receiver got the end of as many drills as it got the begin of.
    pub(super) async fn ends_are_received(&self) {
        until(PATIENCE, "the ends are notified", async || {
            let received = self.received();
            let ends = received.iter().filter(|(status, _)| *status == Status::Resolved).count();
            2 * ends == received.len()
        })
        .await
        .unwrap();
    }

    /// Waits until neither the agents nor Prometheus nor Alertmanager have anything of a drill.
    pub(super) async fn nothing_is_left(&self, within: Duration) {
        until(within, "nothing is left of the drill", async || {
            for agent in &self.agents {
                if agent.metrics().await.is_ok_and(|text| text.contains("drill=")) {
                    return false;
                }
            }
            for prometheus in &self.prometheis {
                let Ok(answer) = get(prometheus.address(), "/api/v1/alerts").await else {
                    return false;
                };
                let alerts = answer.json().unwrap_or_default();
                if !alerts["data"]["alerts"].as_array().is_some_and(|all| all.iter().all(is_real)) {
                    return false;
                }
                // No rule remembers it.
                match prometheus.query(REMEMBERED).await {
                    Ok(series) if series.is_empty() => {}
                    _ => return false,
                }
            }
            for alertmanager in &self.alertmanagers {
                match alertmanager.alerts().await {
                    Ok(alerts) if alerts.iter().all(is_real) => {}
                    _ => return false,
                }
            }
            true
        })
        .await
        .unwrap();
    }
}

async fn has_agent_mode_flag() -> bool {
    let mut command = Command::new(Program::Prometheus.find().unwrap());
    let help = command.arg("--help").output().await.unwrap();
    [help.stdout, help.stderr].iter().any(|text| String::from_utf8_lossy(text).contains("]agent"))
}

fn is_real(alert: &Value) -> bool {
    alert["labels"].get("drill").is_none()
}

/// What the command said when it ended.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) code: Option<i32>,
    /// Its output, errors included.
    pub(super) text: String,
}

impl Said {
    /// The hop that failed.
    pub(super) fn failed(&self) -> Option<&str> {
        let failed = self.text.lines().find_map(|line| line.trim().strip_prefix("failed "));
        failed?.split_whitespace().next()
    }

    /// Whether it says this, whatever the width of its lines.
    pub(super) fn says(&self, words: &str) -> bool {
        self.text.split_whitespace().collect::<Vec<_>>().join(" ").contains(words)
    }

    fn new(output: &Output) -> Said {
        let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        Said { code: output.status.code(), text: text.concat() }
    }
}

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(ALERTS).join(name)).unwrap()
}

/// The agent's tasks, all of them held: nobody's with either severity, and one of the example's
/// team.
fn agent(redis: &Redis) -> String {
    let task = |(name, labels): (&str, &str)| {
        format!(
            "  - {{name: {name}, lock: {{key: \"{name}:held\", library: string}}, wanted: always, \
             grace: 1s, settle: 1s, labels: {{{labels}}}}}\n"
        )
    };
    format!(
        "drill: true\nlabels: [team, severity]\nredis:\n  main: {{url: \"redis://{}\", \
         interval: 200ms}}\ntasks:\n{}",
        redis.address(),
        TASKS.map(task).concat()
    )
}

/// A Redis with the locks of all tasks.
pub(super) async fn redis() -> Redis {
    let redis = Redis::start().await.unwrap();
    let mut client = redis.connect().await.unwrap();
    for (name, _) in TASKS {
        client.set(format!("{name}:held"), format!("worker of {name}")).await.unwrap();
    }
    redis
}

/// Gives each field of these names this value.
fn shortened(text: &str, fields: &[(&str, &str)]) -> String {
    let shorter = |line: &str| {
        let field = fields.iter().find(|(name, _)| line.trim_start().starts_with(name));
        match field {
            Some((name, value)) => {
                let indent = line.len() - line.trim_start().len();
                format!("{}{name}{value}\n", " ".repeat(indent))
            }
            None => format!("{line}\n"),
        }
    };
    text.lines().map(shorter).collect()
}

fn changed(text: String, which: Text, changes: &[Change]) -> String {
    changes.iter().filter(|(of, ..)| *of == which).fold(text, |text, (_, from, to)| {
        assert!(text.contains(from), "nothing to change in {which:?}: {from}");
        if from.is_empty() { (*to).to_owned() } else { text.replace(from, to) }
    })
}
