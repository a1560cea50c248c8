//! The alerting rules: their unit tests, that each of these tests can fail, and the properties that
//! users rely on.

mod contract;
mod mutants;
mod promql;
mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::support::skip;

const RULES: &str = "alerts/lockwatch.rules.yml";
/// The alert that always fires.
const WATCHDOG: &str = "alerts/lockwatch-watchdog.rules.yml";
const TESTS: &str = "alerts/tests";
const PROMTOOL: &str = "promtool";

/// The file of rules.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<String>,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alert: Option<String>,
    expr: String,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    hold: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_firing_for: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

impl Rules {
    fn load() -> Rules {
        let read = |file| serde_yaml::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let [rules, watchdog]: [Rules; 2] = [RULES, WATCHDOG].map(read);
        Rules { groups: [rules.groups, watchdog.groups].concat() }
    }

    fn all(&self) -> impl Iterator<Item = &Rule> {
        self.groups.iter().flat_map(|group| &group.rules)
    }

    fn alerts(&self) -> impl Iterator<Item = (&str, &Rule)> {
        self.all().filter_map(|rule| Some((rule.alert.as_deref()?, rule)))
    }

    fn reads(&self) -> Reads<'_> {
        self.all().map(|rule| (rule.name(), rule.reads(self))).collect()
    }

    /// Only the rules with these names.
    fn only(&self, names: &BTreeSet<&str>) -> Rules {
        let reduced = |group: &Group| Group {
            rules: group.rules.iter().filter(|rule| names.contains(rule.name())).cloned().collect(),
            ..group.clone()
        };
        Rules {
            groups: self
                .groups
                .iter()
                .map(reduced)
                .filter(|group| !group.rules.is_empty())
                .collect(),
        }
    }

    fn write(&self, file: &Path) {
        fs::write(file, serde_yaml::to_string(self).unwrap()).unwrap();
    }
}

impl Rule {
    fn name(&self) -> &str {
        self.alert.as_deref().or(self.record.as_deref()).unwrap()
    }

    /// Names of the given rules that this rule reads: recorded series, and alerts through `ALERTS`.
    fn reads<'a>(&self, rules: &'a Rules) -> BTreeSet<&'a str> {
        rules.all().map(Rule::name).filter(|name| promql::mentions(&self.expr, name)).collect()
    }
}

/// The unit test of an alert, or of the recording rules of a group.
fn test_file(of: &str) -> PathBuf {
    Path::new(TESTS).join(format!("{of}.test.yml"))
}

fn test_files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(TESTS).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs `promtool`; the error is its output.
fn promtool(arguments: &[&str], files: &[PathBuf]) -> Result<(), String> {
    let mut command = Command::new(PROMTOOL);
    // One core, because several run at once. Few collections are fast; without any, pages of fresh
    // memory cost more than collecting, and a small machine runs out of them.
    command.args(arguments).args(files).env("GOMAXPROCS", "1").env("GOGC", "400");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{}\n{said}", output.status)) }
}

/// What each rule reads of the others.
type Reads<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The rules that a text of tests names, those of its file, and all that these read.
fn needs(text: &str, file: &Path, reads: &Reads) -> BTreeSet<String> {
    let is_named = |name: &&str| promql::mentions(text, name) || test_file(name) == file;
    let mut todo: Vec<&str> = reads.keys().copied().filter(is_named).collect();
    let mut needs = BTreeSet::new();
    while let Some(name) = todo.pop() {
        if needs.insert(name.to_owned()) {
            todo.extend(&reads[name]);
        }
    }
    needs
}

/// `pages.gap4.test.yml` has more tests of `pages`, at another pace.
fn of(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap().to_str().unwrap();
    test_file(name.split('.').next().unwrap())
}

/// The same tests in `folder`, with only the rules that they need: several times faster. All rules
/// are needed where alerts of any name are asked for.
fn with_few_rules(file: &Path, rules: &Rules, reads: &Reads, folder: &Path) -> PathBuf {
    let text = fs::read_to_string(file).unwrap();
    if promql::asks_for_any_alert(&text) {
        return file.to_owned();
    }
    let needs = needs(&text, &of(file), reads);
    let few = rules.only(&needs.iter().map(String::as_str).collect());
    let tests = folder.join("tests").join(file.file_name().unwrap());
    fs::create_dir_all(tests.parent().unwrap()).unwrap();
    for name in [RULES, WATCHDOG] {
        few.write(&folder.join(Path::new(name).file_name().unwrap()));
    }
    fs::write(&tests, text).unwrap();
    tests
}

/// Runs the unit tests in these files, one process for each, as many at once as there are cores.
/// The error is what all that failed have printed.
fn unit_tests(files: &[PathBuf]) -> Result<(), String> {
    let (queue, failures) = (Mutex::new(files.iter()), Mutex::new(String::new()));
    let rules = Rules::load();
    let reads = rules.reads();
    let work = || {
        while let Some(file) = next(&queue) {
            let folder = TempDir::new().unwrap();
            let tests = with_few_rules(file, &rules, &reads, folder.path());
            if let Err(said) = promtool(&["test", "rules"], &[tests]) {
                failures.lock().unwrap().push_str(&format!("{}: {said}\n", file.display()));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().unwrap();
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

/// The next one for a worker, without a lock that lasts while it works.
fn next<I: Iterator>(queue: &Mutex<I>) -> Option<I::Item> {
    queue.lock().unwrap().next()
}

#[test]
fn the_rules_pass_promtool_and_their_unit_tests() {
    if !skip::has("alerts::the_rules_pass_promtool_and_their_unit_tests", &[PROMTOOL]) {
        return;
    }
    promtool(&["check", "rules"], &[RULES.into(), WATCHDOG.into()]).unwrap();
    unit_tests(&test_files()).unwrap_or_else(|said| panic!("{said}"));
}
