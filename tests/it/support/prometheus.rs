//! A real Prometheus with the shipped rules, and a real Alertmanager, for one test. Dropping one
//! kills it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::agent::request;
use super::child::OwnedChild;
use super::{free_port, wait_until};

/// Programs that a test with both needs.
pub(crate) fn programs() -> [&'static str; 4] {
    ["prometheus", "promtool", alertmanager(), "amtool"]
}

/// Debian's name of the program if it exists, otherwise the original name.
fn alertmanager() -> &'static str {
    const DEBIAN: &str = "prometheus-alertmanager";
    if Command::new(DEBIAN).arg("--version").output().is_ok() { DEBIAN } else { "alertmanager" }
}

/// Timeout for a start.
const START: Duration = Duration::from_secs(30);
/// Number of ports to try: another process may have taken the free one.
const ATTEMPTS: usize = 5;

/// A server that answers on its port.
struct Server {
    child: OwnedChild,
    port: u16,
    folder: TempDir,
}

/// A Prometheus that scrapes and evaluates each second.
pub(crate) struct Prometheus(Server);

/// An Alertmanager without receivers.
pub(crate) struct Alertmanager(Server);

impl Prometheus {
    /// Scrapes this agent, evaluates the shipped rules, and notifies this Alertmanager.
    pub(crate) fn start(agent: u16, alertmanager: &Alertmanager) -> Prometheus {
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts/*.rules.yml");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{rules:?}]\n\
             scrape_configs:\n  \
             - job_name: lockwatch\n    honor_labels: true\n    static_configs: [{{targets: ['127.0.0.1:{agent}']}}]\n\
             alerting:\n  \
             alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{}']}}]}}]\n",
            alertmanager.0.port
        );
        Prometheus(Server::start("prometheus", &config, |command, folder| {
            command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
            // Alerts that fire before it knows the Alertmanager are dropped, and would only be sent
            // again after a minute.
            command.arg("--rules.alert.resend-delay=1s");
        }))
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    /// How many series this expression has now.
    pub(crate) fn count(&self, expression: &str) -> usize {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = request(self.0.port, "GET", &format!("/api/v1/query?query={encoded}")).text();
        let answer: Value =
            serde_json::from_str(&answer).unwrap_or_else(|why| panic!("{why}: {answer}"));
        answer["data"]["result"]
            .as_array()
            .unwrap_or_else(|| panic!("{expression}: {answer}"))
            .len()
    }
}

impl Alertmanager {
    pub(crate) fn start() -> Alertmanager {
        let config = "route: {receiver: nobody, group_wait: 1s}\nreceivers: [{name: nobody}]\n";
        Alertmanager(Server::start(alertmanager(), config, |command, folder| {
            command
                .arg("--cluster.listen-address=")
                .arg(format!("--storage.path={}", folder.join("data").display()));
        }))
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    /// Whether it has received this alert.
    pub(crate) fn knows(&self, alert: &str) -> bool {
        request(self.0.port, "GET", "/api/v2/alerts").text().contains(alert)
    }
}

impl Server {
    fn start(program: &str, config: &str, adjust: impl Fn(&mut Command, &Path)) -> Server {
        for _ in 0..ATTEMPTS {
            let (folder, port) = (TempDir::new().unwrap(), free_port());
            fs::write(folder.path().join("config.yml"), config).unwrap();
            let mut command = Command::new(program);
            command.arg(format!("--config.file={}", folder.path().join("config.yml").display()));
            command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
            adjust(&mut command, folder.path());
            let log = fs::File::create(folder.path().join("log")).unwrap();
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            let child = OwnedChild::spawn(&mut command);
            let mut server = Server { child, port, folder };
            if server.becomes_ready(program) {
                return server;
            }
        }
        panic!("{program} does not start");
    }

    /// `false` if it ends instead.
    fn becomes_ready(&mut self, program: &str) -> bool {
        let mut ended = false;
        wait_until(
            START,
            &format!("{program} is ready, its log is in {:?}", self.folder.path()),
            || {
                ended = self.child.try_wait().unwrap().is_some();
                ended
                    || super::agent::try_request(self.port, "GET", "/-/ready")
                        .is_ok_and(|answer| answer.status == 200)
            },
        );
        !ended
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}
