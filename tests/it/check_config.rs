//! `check-config` beside the configurations of Prometheus and Alertmanager, as a user runs it.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;

use crate::support::agent::program;

const LOCKWATCH: &str = "\
redis: {main: {url: 'redis://10.0.0.7'}}
labels: [team]
tasks:
  - {name: theirs, lock: {key: a}, wanted: always, labels: {team: logistics}}
  - {name: nobodys, lock: {key: b}, wanted: always}
";

/// With its rules and an Alertmanager, and nothing doubtful in it.
const PROMETHEUS: &str = "\
global: {scrape_interval: 5s, evaluation_interval: 5s}
rule_files: [lockwatch.rules.yml]
alerting: {alertmanagers: [{static_configs: [{targets: ['a:9093']}]}]}
scrape_configs:
  - {job_name: lockwatch, honor_labels: true, static_configs: [{targets: ['h:10379']}]}
";

const ALERTMANAGER: &str = "\
route: {receiver: pager, group_by: ['...'], group_wait: 0s}
receivers: [{name: pager, webhook_configs: [{url: 'http://p'}]}, {name: 'null'}]
";

/// What the program said.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    report: String,
    /// Standard error without the folder of the files.
    errors: Vec<String>,
}

fn check(prometheus: Option<&str>, alertmanager: Option<&str>) -> Said {
    let folder = TempDir::new().unwrap();
    let mut command = program();
    command.arg("check-config");
    for (flag, name, text) in [
        ("--config.file", "lockwatch.yml", Some(LOCKWATCH)),
        ("--prometheus.config", "prometheus.yml", prometheus),
        ("--alertmanager.config", "alertmanager.yml", alertmanager),
    ] {
        if let Some(text) = text {
            fs::write(folder.path().join(name), text).unwrap();
            command.arg(flag).arg(folder.path().join(name));
        }
    }
    let output = command.stdout(Stdio::piped()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let place = format!("{}/", folder.path().display());
    let errors = text(&output.stderr).replace(&place, "");
    Said {
        code: output.status.code(),
        report: text(&output.stdout),
        errors: errors.lines().map(str::to_owned).collect(),
    }
}

impl Said {
    /// What is said about when a task pages, with its footnote's mark.
    fn page_after(&self, task: &str) -> String {
        let row = self.report.lines().find(|line| line.trim_start().starts_with(task));
        let row = row.unwrap_or_else(|| panic!("{self:?}"));
        let mut cells = row.split("  ").filter(|cell| !cell.is_empty());
        cells.nth(3).unwrap().trim().to_owned()
    }
}

#[test]
fn what_is_well_is_not_warned_about() {
    let said = check(Some(PROMETHEUS), Some(ALERTMANAGER));
    assert_eq!((said.code, said.errors.as_slice()), (Some(0), [].as_slice()));
    assert_eq!(said.page_after("theirs"), "32s", "{said:?}");
}

#[test]
fn the_examples_are_well() {
    let text = |name: &str| {
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts").join(name)).unwrap()
    };
    let prometheus = text("prometheus-example.yml");
    let said = check(Some(&prometheus), Some(&text("alertmanager-example.yml")));
    assert_eq!((said.code, said.errors.as_slice()), (Some(0), [].as_slice()));
    assert_eq!(said.page_after("theirs"), "32s", "{said:?}");
}

/// The cases PROM 26 and ID 1, and what else cannot be meant.
#[test]
fn a_file_that_cannot_be_meant_is_refused() {
    let service_monitor = "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nspec: \
        {endpoints: [{interval: 15s}]}\n";
    for (prometheus, alertmanager, says) in [
        (service_monitor, ALERTMANAGER, "prometheus.yml: is an object of Kubernetes"),
        (
            "server: {global: {scrape_interval: 15s}}",
            ALERTMANAGER,
            "prometheus.yml: has a field `server`, which the configuration of Prometheus does not \
             have; name the file that Prometheus is started with, or give --scrape-interval and \
             --evaluation-interval",
        ),
        (ALERTMANAGER, ALERTMANAGER, "prometheus.yml: has a field `route`, which the"),
        (PROMETHEUS, service_monitor, "alertmanager.yml: is an object of Kubernetes"),
        (PROMETHEUS, PROMETHEUS, "alertmanager.yml: has a field `rule_files`, which"),
        (PROMETHEUS, "receivers: []", "alertmanager.yml: has no `route`; name Alertmanager's"),
        (
            PROMETHEUS,
            "route: {receiver: pager}",
            "alertmanager.yml: a route names the receiver `pager`, which is not in `receivers`",
        ),
    ] {
        let said = check(Some(prometheus), Some(alertmanager));
        assert_eq!((said.code, said.report.as_str()), (Some(1), ""), "{says}: {said:?}");
        assert!(said.errors.join("\n").starts_with(&format!("lockwatch: {says}")), "{said:?}");
    }
}

/// The cases PROM 27 and 30 among them: the change to the file of Prometheus or Alertmanager, when
/// a task pages at worst, and what is warned about.
#[test]
fn what_is_doubtful_is_warned_about() {
    let routes = "group_wait: 0s}";
    for (file, from, to, after, says) in [
        (PROMETHEUS, "rule_files: [lockwatch.rules.yml]\n", "", "32s", "has no `rule_files`"),
        (PROMETHEUS, "[{targets: ['a:9093']}]", "[]", "32s", "names no Alertmanager in"),
        (
            PROMETHEUS,
            "honor_labels: true, ",
            "",
            "32s",
            "the job `lockwatch` lacks `honor_labels: true`",
        ),
        (PROMETHEUS, "job_name: lockwatch", "job_name: node", "32s", ""),
        (PROMETHEUS, "evaluation_interval: 5s", "rule_query_offset: 11s", "1m38s", ""),
        (
            PROMETHEUS,
            "job_name: lockwatch,",
            "job_name: lockwatch-b, honor_labels: true, scrape_interval: 1m}\n  - {job_name: \
             lockwatch,",
            "1m27s",
            "",
        ),
        (
            ALERTMANAGER,
            "receiver: pager",
            "receiver: 'null'",
            "1m2s",
            "no receiver of a route has an integration",
        ),
        (
            ALERTMANAGER,
            routes,
            "group_wait: 0s, routes: [{match: {team: ''}, group_wait: 1m}, {receiver: 'null', \
             group_wait: 2m}]}",
            "1m32s",
            "",
        ),
    ] {
        let changed = file.replace(from, to);
        assert_ne!(file, changed, "{from}");
        let (said, name) = match file == PROMETHEUS {
            true => (check(Some(&changed), Some(ALERTMANAGER)), "prometheus.yml"),
            false => (check(Some(PROMETHEUS), Some(&changed)), "alertmanager.yml"),
        };
        assert_eq!(said.code, Some(0), "{to}: {said:?}");
        assert_eq!(said.page_after("theirs"), after, "{to}: {said:?}");
        match says {
            "" => assert!(said.errors.is_empty(), "{to}: {said:?}"),
            says => {
                let warning = format!("warning: {name}: {says}");
                assert!(said.errors[0].starts_with(&warning), "{to}: {said:?}");
            }
        }
    }
}

/// Without claims, nobody hears of a script that fails again and again.
#[test]
fn a_guard_without_claims_is_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockwatch.yml");
    for (claims, warned) in [("", true), ("  claims: {hash: c}\n", false)] {
        let text = format!(
            "redis: {{main: {{url: \"redis://127.0.0.1:1\"}}}}\n\
             tasks:\n- name: outbound\n  lock: {{key: a}}\n  wanted: always\n{claims}  \
             guard: {{lease: 30s}}\n"
        );
        std::fs::write(&file, text).unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_lockwatch"))
            .args(["check-config", "--config.file", file.to_str().unwrap()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        let says = "warning: tasks.outbound: has a `guard` and no `claims`";
        assert_eq!(errors.contains(says), warned, "{errors}");
    }
}
