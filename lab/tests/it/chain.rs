//! `check-config` asks real programs how alerts go out.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use lockwatch_lab::stack::{Agent, Alertmanager, Nginx, Program, Prometheus, Redis, Way, until};
use tokio::process::Command;

const PATIENCE: Duration = Duration::from_secs(30);
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../alerts/lockwatch.rules.yml");
const RIGHT: &str = "\
route: {receiver: pager, group_by: ['...'], group_wait: 7s}
receivers: [{name: pager, webhook_configs: [{url: 'http://127.0.0.1:1'}]}]
";
/// As a widespread chart has it by default.
const INHIBITING: &str = "\
inhibit_rules:
  - {source_matchers: [severity = critical], target_matchers: ['severity =~ warning|info'], \
    equal: [namespace, alertname]}
";

/// One agent, and what watches it.
struct Stage {
    config: String,
    _redis: Redis,
    agent: Agent,
}

impl Stage {
    async fn start() -> Stage {
        let redis = Redis::start().await.unwrap();
        let config = format!(
            "redis: {{main: {{url: 'redis://{}'}}}}\nlabels: [severity]\ntasks:\n  \
             - {{name: outbound, lock: {{key: a}}, wanted: always}}\n  \
             - {{name: minor, lock: {{key: b}}, wanted: always, labels: {{severity: warning}}}}\n",
            redis.address()
        );
        let agent = Agent::start(&config).await.unwrap();
        Stage { config, _redis: redis, agent }
    }

    fn job(&self) -> String {
        format!(
            "{{job_name: lockwatch, honor_labels: true, static_configs: [{{targets: ['{}']}}]}}",
            self.agent.address()
        )
    }

    /// What is printed: both streams, and whether all is well.
    async fn check(&self, arguments: &[&str]) -> (String, bool) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lockwatch.yml");
        std::fs::write(&file, &self.config).unwrap();
        let mut command = Command::new(Program::Lockwatch.find().unwrap());
        command.arg("check-config").arg("--config.file").arg(&file).args(arguments);
        let output = command.output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8(text).unwrap(), output.status.success())
    }
}

fn prometheus(jobs: &[String], rules: &str, alertmanagers: &[SocketAddr]) -> String {
    let mut text = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 2s}}\nrule_files: ['{rules}']\n\
         scrape_configs:\n"
    );
    for job in jobs {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "  - {job}");
    }
    let targets: Vec<String> = alertmanagers.iter().map(|it| format!("'{it}'")).collect();
    let _ = writeln!(
        text,
        "alerting: {{alertmanagers: [{{static_configs: [{{targets: [{}]}}]}}]}}",
        targets.join(", ")
    );
    text
}

async fn scrapes(prometheus: &Prometheus) {
    until(PATIENCE, "the agent is scraped, and the rules are evaluated", async || {
        let agents = prometheus.query("lockwatch_task_clear").await;
        let rules = prometheus.query("lockwatch:rules_info").await;
        agents.is_ok_and(|found| !found.is_empty()) && rules.is_ok_and(|found| !found.is_empty())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_chain_is_asked_for_its_times_also_behind_a_login() {
    let stage = Stage::start().await;
    let [one, other] = Alertmanager::start_pair(RIGHT).await.unwrap();
    let both = [one.address(), other.address()];
    let server = Prometheus::start_with(&prometheus(&[stage.job()], RULES, &both), &[]).await;
    let server = server.unwrap();
    scrapes(&server).await;
    let url = format!("http://{}", server.address());
    let (said, well) = stage.check(&["--prometheus.url", &url]).await;
    assert!(well && !said.contains("warning:") && !said.contains("error:"), "{said}");
    for part in [
        "+ scrape 1s (Prometheus at",
        "+ evaluation 2s (Prometheus at",
        "+ group_wait 7s (Alertmanager at",
        "of this version, each 2s",
        ": up",
        "2 members",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }

    let nginx = Nginx::start(&[("prometheus", server.address()), ("one", one.address())]).await;
    let nginx = nginx.unwrap();
    let [ca, login] = [nginx.ca_file(), nginx.login_file()].map(|it| it.display().to_string());
    let url = nginx.url(Way::Login, "prometheus");
    let ca = ["--prometheus.ca-file", &ca];
    for (arguments, says) in [
        (&[][..], "--prometheus.ca-file"),
        (&ca[..], "it asks for a login"),
        (&[ca[0], ca[1], "--prometheus.login-file", &login], "of this version"),
    ] {
        let (said, well) = stage.check(&[&["--prometheus.url", &url], arguments].concat()).await;
        assert!(said.contains(says), "{says}: {said}");
        assert_eq!(well, says == "of this version", "{said}");
    }
}

/// Each is broken in one way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_broken_is_named() {
    let stage = Stage::start().await;
    let right = Alertmanager::start(RIGHT).await.unwrap();
    let inhibiting = Alertmanager::start(&format!("{RIGHT}{INHIBITING}")).await.unwrap();
    let silent = RIGHT.replace(", webhook_configs: [{url: 'http://127.0.0.1:1'}]", "");
    let silent = Alertmanager::start(&silent).await.unwrap();
    let (job, at) = (stage.job(), right.address());
    let lax = job.replace(" honor_labels: true,", "");
    let taking = lax.replace("}]}", "], labels: {store: x}}]}").replace("']]", "']");
    let dropping = job.replace(
        ", static",
        ", metric_relabel_configs: [{source_labels: [__name__], regex: lockwatch_task_.*, action: \
         drop}], static",
    );
    let nobody = "{job_name: lockwatch, static_configs: [{targets: ['127.0.0.1:1']}]}".to_owned();
    let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let rows: [(&str, &str, Vec<SocketAddr>, bool, &str); 10] = [
        (&job, "/nowhere/*.yml", vec![at], false, "has not loaded lockwatch's rules"),
        (&nobody, RULES, vec![at], false, "can scrape none of its agents"),
        ("{job_name: node}", RULES, vec![at], false, "scrapes no agent"),
        (&lax, RULES, vec![at], true, "without `honor_labels: true`"),
        (&taking, RULES, vec![at], false, "the place of lockwatch's own: `store`"),
        (&dropping, RULES, vec![at], false, "no series `lockwatch_task_clear`"),
        (&job, RULES, vec![], false, "notifies no Alertmanager"),
        (&job, RULES, vec![nowhere], false, "Alertmanager at http://127.0.0.1:1"),
        (&job, RULES, vec![at, nowhere], true, "Alertmanager at http://127.0.0.1:1"),
        (&job, RULES, vec![inhibiting.address()], true, "mutes LockwatchTaskDown of some tasks"),
    ];
    let mut begun = Vec::new();
    for (job, rules, alertmanagers, ..) in &rows {
        let config = prometheus(&[(*job).to_owned()], rules, alertmanagers);
        begun.push(Prometheus::start_with(&config, &[]).await.unwrap());
    }
    for (server, (job, _, _, is_well, says)) in begun.iter().zip(&rows) {
        let url = format!("http://{}", server.address());
        until(PATIENCE, says, async || {
            let (said, well) = stage.check(&["--prometheus.url", &url]).await;
            let kind = if *is_well { "warning: " } else { "error: " };
            let line = said.lines().find(|line| line.starts_with(kind) && line.contains(says));
            line.is_some() && well == *is_well
        })
        .await
        .unwrap_or_else(|error| panic!("{job}: {error:#}"));
    }
    let url = format!("http://{}", silent.address());
    let (said, _) = stage.check(&["--alertmanager.url", &url]).await;
    assert!(said.contains("no receiver of a route has an integration"), "{said}");
    let url = format!("http://{at}");
    let (said, well) = stage.check(&["--prometheus.url", &url]).await;
    assert!(!well && said.contains("--prometheus.url"), "an Alertmanager is no Prometheus: {said}");
}
