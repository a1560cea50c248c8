//! The exposition: golden files, promtool, a strict parser, hostile names, the limit on series, the
//! reference.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lockwatch::drill::{Drill, Subject};
use lockwatch::outputs::exposition::{KEPT_FOR, Readers, TooSlow, Variant, make};
use lockwatch::outputs::metrics::{HOLDER_SERIES_MAX, TABLE};
use lockwatch::outputs::negotiate::{Coding, Format};
use lockwatch::published::{PatternView, Published};
use lockwatch_judge::input::Refusal;
use lockwatch_judge::reading::{Codec, Holder, Mode};
use lockwatch_judge::snapshot::{StoreView, TaskView};
use lockwatch_judge::spec::{WantedSource, WantedSpec};
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_judge::verdict::Wanted;

use crate::snapshots::{
    NOW, OWN, cluster_redis, full_task, good_redis, hold, holder, new_redis, new_task, published,
    queue_task, replica, sentinel_redis, stopped_task, turn_task,
};
use crate::support::skip;
use crate::support::truth::rule;

/// The ends of the names of what a task has in trouble only.
const OF_TROUBLE: [&str; 5] = [
    "problem_seconds",
    "event_age_seconds",
    "split_holder",
    "last_holder_timestamp_seconds",
    "failed_run_timestamp_seconds",
];

/// A series: its name and its labels.
type Series = (String, BTreeMap<String, String>);

/// What the strict parser finds in an exposition.
#[derive(Default)]
struct Read {
    samples: BTreeMap<Series, f64>,
    kinds: BTreeMap<String, String>,
}

impl Read {
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let wanted = |series: &&Series| {
            series.0 == name
                && labels
                    .iter()
                    .all(|(name, value)| series.1.get(*name).is_some_and(|have| have == value))
        };
        let found: Vec<&Series> = self.samples.keys().filter(wanted).collect();
        assert!(found.len() < 2, "{name} {labels:?} is ambiguous: {found:?}");
        found.first().map(|series| self.samples[*series])
    }

    /// All values of a metric's label.
    fn labels(&self, metric: &str, label: &str) -> BTreeSet<String> {
        self.samples
            .keys()
            .filter(|(name, _)| name == metric)
            .map(|(_, labels)| labels[label].clone())
            .collect()
    }
}

/// Parses OpenMetrics text and rejects any deviation: duplicate series, split or undescribed
/// families, unknown escapes, text after the end.
fn read(page: &str) -> Read {
    let mut read = Read::default();
    let body = page.strip_suffix("# EOF\n").expect("the end mark");
    assert!(!body.contains("# EOF"), "text after the end");
    let (mut family, mut described) = (String::new(), None);
    for line in body.split_terminator('\n') {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            described = rest.split_once(' ').map(|(name, help)| (name.to_owned(), help.len()));
            assert!(described.as_ref().is_some_and(|(_, length)| *length > 0), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert_eq!(described.take().map(|(name, _)| name).as_deref(), Some(name), "{line}");
            assert!(["gauge", "counter", "histogram", "unknown"].contains(&kind), "{line}");
            assert!(
                read.kinds.insert(name.to_owned(), kind.to_owned()).is_none(),
                "described twice: {line}"
            );
            family = name.to_owned();
        } else {
            let (series, value) = read_sample(line);
            let kind = &read.kinds[&family];
            let suffix = series
                .0
                .strip_prefix(&family)
                .unwrap_or_else(|| panic!("outside its family: {line}"));
            let fits = match kind.as_str() {
                "gauge" => suffix.is_empty(),
                "unknown" => suffix.is_empty() && family.ends_with("_total") && value >= 0.0,
                "counter" => suffix == "_total" && value >= 0.0,
                _ => ["_bucket", "_sum", "_count"].contains(&suffix) && value >= 0.0,
            };
            assert!(fits, "{line} is no {kind}");
            assert!(read.samples.insert(series, value).is_none(), "twice: {line}");
        }
    }
    read
}

fn read_sample(line: &str) -> (Series, f64) {
    let name_end = line.find(['{', ' ']).expect(line);
    let name = &line[..name_end];
    let is_name = |text: &str| {
        !text.is_empty()
            && !text.starts_with(|first: char| first.is_ascii_digit())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    let mut rest = &line[name_end..];
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").expect(line);
            assert!(is_name(label), "{line}");
            let (value, after) = read_value(after);
            assert!(labels.insert(label.to_owned(), value).is_none(), "label twice: {line}");
            if let Some(after) = after.strip_prefix(',') {
                rest = after;
            } else {
                rest = after.strip_prefix('}').expect(line);
                break;
            }
        }
    }
    let number = rest.strip_prefix(' ').expect(line);
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || b".-e".contains(&byte));
    assert!(is_number || number == "+Inf", "{line}");
    ((name.to_owned(), labels), number.parse().expect(line))
}

/// A label's value up to its closing quote, and the rest.
fn read_value(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => match characters.next().expect("an escape").1 {
                'n' => value.push('\n'),
                same @ ('\\' | '"') => value.push(same),
                other => panic!("unknown escape {other}"),
            },
            other => value.push(other),
        }
    }
    panic!("no closing quote");
}

fn plain(format: Format) -> Variant {
    Variant { format, coding: Coding::Identity }
}

fn text(published: Arc<Published>, format: Format) -> String {
    String::from_utf8(make(&published, OWN, plain(format))).unwrap()
}

fn page(tasks: Vec<TaskView>, redises: Vec<StoreView>) -> Read {
    read(&text(published(tasks, redises), Format::OpenMetrics))
}

fn fixed() -> Arc<Published> {
    let mut hostile = stopped_task("quote\" back\\slash\nnewline");
    Arc::make_mut(&mut hostile.spec).lock_mut().unwrap().key = b"\xff\"\\\n{}".to_vec();
    let other_kinds = [turn_task("alternate"), queue_task("delayed")];
    let tasks = [full_task("outbound"), hostile, new_task("unread")];
    let tasks = tasks.into_iter().chain(other_kinds).collect();
    published(
        tasks,
        vec![
            good_redis("main"),
            new_redis("spare"),
            sentinel_redis("behind"),
            full_redis(cluster_redis("many")),
        ],
    )
}

/// The first of its servers holds more than it may.
fn full_redis(mut redis: StoreView) -> StoreView {
    if let Some(node) = redis.nodes.first_mut() {
        node.refuses_writes = Some(Refusal::Oom);
    }
    redis
}

/// The text without what differs from run to run.
fn steady(page: &str) -> String {
    page.split_inclusive('\n').filter(|line| !line.starts_with("process_")).collect()
}

#[test]
fn golden_pages() {
    for (format, file) in
        [(Format::OpenMetrics, "metrics.om.txt"), (Format::Classic, "metrics.txt")]
    {
        let page = make(&fixed(), OWN, plain(format));
        check_golden(
            &Path::new("tests/golden").join(file),
            &steady(&String::from_utf8(page).unwrap()),
        );
    }
}

/// Compares a text with a file; `BLESS=1` writes the file.
pub(crate) fn check_golden(file: &Path, text: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, text).unwrap();
    }
    let golden = std::fs::read_to_string(file).unwrap_or_default();
    let difference = golden.lines().zip(text.lines()).find(|(golden, now)| golden != now);
    assert!(
        golden == text,
        "{} differs, first in {difference:?}; BLESS=1 rewrites it",
        file.display()
    );
}

/// Series that earlier versions had, without those that only a prefix changed.
const REMOVED: [&str; 11] = [
    "lockwatch_task_state",
    "lockwatch_task_held_seconds",
    "lockwatch_task_wanted_time_seconds_total",
    "lockwatch_task_down_time_seconds_total",
    "lockwatch_task_outage_time_seconds_total",
    "lockwatch_task_grace_seconds",
    "lockwatch_task_settle_seconds",
    "lockwatch_task_wind_down_seconds",
    "lockwatch_task_blind_after_seconds",
    "lockwatch_task_stale_after_seconds",
    "lockwatch_task_max_hold_seconds",
];

#[test]
fn nothing_that_is_shipped_reads_a_removed_metric_and_the_changelog_has_each() {
    let changelog = names_in(Path::new("CHANGELOG.md"));
    let mut files: Vec<PathBuf> = ["alerts", "alerts/runbooks", "dashboards", "dashboards/source"]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.push("README.md".into());
    assert!(files.len() > 30, "{files:?}");
    for name in REMOVED {
        assert!(TABLE.iter().all(|metric| metric.name != name), "{name} is still there");
        assert!(changelog.contains(name), "{name} is not in the changelog");
        let reader = files.iter().find(|file| names_in(file).contains(name));
        assert_eq!(reader, None, "{name} is read");
    }
}

/// All names of metrics in a file.
fn names_in(file: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap();
    let words = text.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    words.map(str::to_owned).collect()
}

#[test]
fn the_table_follows_the_rules_of_names() {
    let mut names = HashSet::new();
    for metric in TABLE {
        assert!(names.insert(metric.name), "{} twice", metric.name);
        assert_eq!(metric.kind() == "counter", metric.name.ends_with("_total"), "{}", metric.name);
        assert!(
            metric.name.starts_with("lockwatch_") || metric.name.starts_with("process_"),
            "{}",
            metric.name
        );
        assert!(
            !metric.help.contains(['\n', '\\', '|']) && metric.help.ends_with('.'),
            "{}",
            metric.help
        );
    }
}

#[test]
fn promtool_finds_nothing_to_say() {
    if !skip::has("exposition::promtool_finds_nothing_to_say", &["promtool"]) {
        return;
    }
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = text(fixed(), Format::Classic);
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn a_task_with_all_metrics_has_at_most_100_series_and_some_more_in_trouble() {
    let mut task = full_task("outbound");
    let readers = (0..100)
        .map(|n| (holder(format!("reader-{n}").as_bytes()), Some(b"srv".to_vec())))
        .collect();
    task.lock_mut().unwrap().hold =
        Some(lockwatch_judge::snapshot::HoldView { mode: Mode::Read, ..hold(readers) });
    let read = page(vec![task], vec![good_redis("main")]);
    let of_task = read.samples.keys().filter(|(_, labels)| labels.contains_key("task"));
    let (trouble, usual): (Vec<_>, Vec<_>) =
        of_task.partition(|(name, _)| OF_TROUBLE.iter().any(|it| name.ends_with(it)));
    assert!(usual.len() <= 100, "{} series", usual.len());
    assert!(trouble.len() <= 12, "{trouble:?}");
    let of_tasks = TABLE.iter().filter(|metric| metric.labels().contains(&"task"));
    let of_locks = of_tasks.filter(|metric| metric.of_kind().is_none_or(|kind| kind == "lock"));
    // Nor does a script fail here, and it is no periodic task.
    let set = |metric: &&lockwatch::outputs::metrics::Metric| {
        metric.kind() != "histogram" && !metric.name.contains("_run_")
    };
    for metric in of_locks.filter(set) {
        assert!(
            read.samples.keys().any(|(name, _)| name == metric.name),
            "{} is not set in this test",
            metric.name
        );
    }
    assert_eq!(read.labels("lockwatch_lock_holder", "holder").len(), HOLDER_SERIES_MAX);
    assert_eq!(read.value("lockwatch_lock_holders", &[]), Some(100.0));
}

/// A held lock, with what of its configuration these shapes have.
fn shapes() -> [(&'static str, TaskView, usize); 4] {
    let whole = || {
        let mut task = full_task("outbound");
        let spec = Arc::make_mut(&mut task.spec);
        spec.full_metrics = false;
        spec.labels.push(("standby".into(), "required".into()));
        task
    };
    let mut switches = whole();
    let spec = Arc::make_mut(&mut switches.spec);
    spec.labels.clear();
    (spec.progress, spec.paused_until) = (None, None);
    (switches.progress, switches.paused) = (None, None);
    let mut always = switches.clone();
    Arc::make_mut(&mut always.spec).wanted =
        Some(WantedSpec { source: WantedSource::Always, codec: Codec::Raw });
    (always.wanting.users, always.wanting.switches, always.switch_key_seen) = (None, None, None);
    let mut bare = always.clone();
    Arc::make_mut(&mut bare.spec).wanted = None;
    bare.wanted = Wanted::Unset;
    [
        ("bare", bare, 14),
        ("always wanted", always, 20),
        ("switches", switches, 21),
        ("whole", whole(), 24),
    ]
}

#[test]
fn a_task_has_few_series_unless_all_are_asked_for() {
    for format in [Format::Classic, Format::OpenMetrics] {
        for (shape, task, count) in shapes() {
            let lines = |task: &TaskView| -> Vec<String> {
                let text = text(published(vec![task.clone()], vec![]), format);
                let of_task = |line: &&str| {
                    line.contains("{task=") && !OF_TROUBLE.iter().any(|name| line.contains(name))
                };
                text.lines().filter(of_task).map(str::to_owned).collect()
            };
            let lean = lines(&task);
            assert_eq!(lean.len(), count, "{shape}: {lean:#?}");
            let mut all = task.clone();
            Arc::make_mut(&mut all.spec).full_metrics = true;
            let all = lines(&all);
            assert!(all.len() > lean.len() + 20 && lean.iter().all(|line| all.contains(line)));
        }
    }
}

/// A pattern may have many, of any shape.
#[test]
fn a_task_of_a_pattern_has_at_most_8_series_outside_trouble() {
    let view = |left_out, scanned_at| PatternView {
        name: "reports".into(),
        store: "main".into(),
        glob: b"report:lock:*".as_slice().into(),
        max_keys: 1_000,
        keys: 300,
        left_out,
        scanned_at,
        trouble: None,
    };
    for (shape, mut task, _) in shapes() {
        let spec = Arc::make_mut(&mut task.spec);
        (spec.pattern, spec.full_metrics) = (Some("reports".into()), true);
        let scanned = view(Some(7), Some(AgentWall(1_800_000_000_000)));
        let shown = Arc::unwrap_or_clone(published(vec![task], vec![]));
        let shown = Published { patterns: [scanned].into(), ..shown };
        let read = read(&text(Arc::new(shown), Format::OpenMetrics));
        let of_task = read.samples.keys().filter(|(_, labels)| labels.contains_key("task"));
        let usual: BTreeSet<&str> = of_task
            .map(|(name, _)| name.as_str())
            .filter(|name| !OF_TROUBLE.iter().any(|it| name.ends_with(it)))
            .collect();
        assert_eq!(usual.len(), 8, "{shape}: {usual:?}");
        let of_pattern = |name: &str| read.value(&format!("lockwatch_pattern_{name}"), &[]);
        assert_eq!((of_pattern("keys"), of_pattern("left_out")), (Some(300.0), Some(7.0)));
        assert_eq!(of_pattern("scan_timestamp_seconds"), Some(1_800_000_000.0));
    }
    let shown = Arc::unwrap_or_clone(published(vec![], vec![]));
    let shown = Published { patterns: [view(None, None)].into(), ..shown };
    let read = read(&text(Arc::new(shown), Format::OpenMetrics));
    assert_eq!(read.value("lockwatch_pattern_keys", &[]), Some(300.0));
    assert_eq!(read.value("lockwatch_pattern_left_out", &[]), None, "not known yet");
}

/// A drill is in the families of what it tries, whatever tasks there are, and nowhere else.
#[test]
fn a_drill_has_two_series_in_the_families_of_real_tasks() {
    let mut task = full_task("out\"bound\n");
    Arc::make_mut(&mut task.spec).labels =
        vec![("team".into(), "logi\\stics".into()), ("severity".into(), "page".into())];
    let of = Subject {
        task: Arc::clone(&task.spec),
        store: "main".into(),
        severity: None,
        by: Some("anna".into()),
    };
    let began = Mono::at(NOW.ms() - 200);
    let (began_at, ends) = (AgentWall(0), NOW.plus_ms(60_000));
    let drill = Arc::new(Drill { id: "a-1".into(), of, began, began_at, ends });
    let warning = Subject { severity: Some("warning".into()), ..drill.of.clone() };
    let warning = Drill { of: warning, began: Mono::at(0), ..Drill::clone(&drill) };
    let mut lean = task.clone();
    Arc::make_mut(&mut lean.spec).full_metrics = false;
    let tasks =
        [vec![], vec![task], vec![lean], vec![turn_task("turn")], vec![queue_task("queue")]];
    for tasks in tasks {
        let without = Arc::unwrap_or_clone(published(tasks, vec![good_redis("main")]));
        let shown = |drill: &Arc<Drill>| {
            Arc::new(Published { drill: Some(Arc::clone(drill)), ..without.clone() })
        };
        let with = read(&text(shown(&drill), Format::OpenMetrics)).samples;
        let before = read(&text(Arc::new(without.clone()), Format::OpenMetrics)).samples;
        let added: Vec<_> =
            with.iter().filter(|(series, _)| !before.contains_key(*series)).collect();
        assert_eq!(with.len(), before.len() + 2, "{added:?}");
        for ((name, labels), value) in added {
            let labels: Vec<_> =
                labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let mut expected = vec![
                ("drill", "out\"bound\\x0a"),
                ("problem", "down"),
                ("severity", "page"),
                ("store", "main"),
                ("task", "lockwatch-drill"),
                ("team", "logi\\\\stics"),
            ];
            match name.as_str() {
                // It is above 0 from the first scrape.
                "lockwatch_task_problem_seconds" => assert_eq!(*value, 1.0),
                "lockwatch_task_clear" => {
                    assert_eq!(*value, 0.0);
                    expected.remove(1);
                }
                other => panic!("{other}"),
            }
            assert_eq!(labels, expected);
        }
        let lines = |format| {
            let text = text(shown(&drill), format);
            let lines = text.lines().filter(|line| line.contains("drill="));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(Format::Classic), lines(Format::OpenMetrics));
        let warned = read(&text(shown(&Arc::new(warning.clone())), Format::OpenMetrics));
        let value = warned.value("lockwatch_task_problem_seconds", &[("severity", "warning")]);
        assert_eq!(value, Some(1_000.0));
    }
}

/// Turns and queues have no metrics of locks, and a limit of their own.
#[test]
fn other_kinds_have_at_most_20_series_of_their_own() {
    for (task, kind) in [(turn_task("alternate"), "turn"), (queue_task("delayed"), "queue")] {
        let text = text(published(vec![task], vec![]), Format::Classic);
        let of = |kind: &str| {
            let start = format!("lockwatch_{kind}_");
            text.lines().filter(|line| line.starts_with(&start)).count()
        };
        assert!((5..=20).contains(&of(kind)), "{text}");
        assert_eq!(of("lock"), 0, "{text}");
        let described = text.lines().filter(|line| line.starts_with("# HELP lockwatch_lock_"));
        assert_eq!(described.count(), 0, "{text}");
    }
}

#[test]
fn a_family_is_of_one_kind_with_few_metrics_and_with_all() {
    for format in [Format::Classic, Format::OpenMetrics] {
        let families = |full: bool| -> Vec<String> {
            let mut task = full_task("outbound");
            Arc::make_mut(&mut task.spec).full_metrics = full;
            let text = text(published(vec![task], vec![]), format);
            text.lines().filter(|line| line.starts_with("# ")).map(str::to_owned).collect()
        };
        let (lean, all) = (families(false), families(true));
        assert!(lean.iter().all(|line| all.contains(line)) && all.len() > lean.len() + 40);
    }
}

#[test]
fn a_task_with_all_metrics_beside_one_with_few() {
    let mut lean = full_task("lean");
    Arc::make_mut(&mut lean.spec).full_metrics = false;
    let read = page(vec![full_task("all"), lean], vec![]);
    assert_eq!(read.labels("lockwatch_lock_held", "task").len(), 2);
    assert_eq!(read.labels("lockwatch_lock_holders", "task"), BTreeSet::from(["all".to_owned()]));
}

#[test]
fn users_are_counted_once_their_switches_were_seen() {
    let users = |seen: Option<bool>| {
        let mut task = full_task("outbound");
        task.switch_key_seen = seen;
        page(vec![task], vec![]).value("lockwatch_task_wanting_users", &[("team", "logistics")])
    };
    assert_eq!([Some(true), None, Some(false)].map(users), [Some(1.0), Some(1.0), None]);
}

#[test]
fn the_database_is_part_of_the_generation() {
    let generation = |db: u32| {
        let mut redis = good_redis("main");
        redis.spec.db = db;
        page(vec![], vec![redis]).value("lockwatch_store_generation", &[]).unwrap()
    };
    assert!(generation(0) == generation(0) && generation(0) != generation(1));
}

#[test]
fn every_state_series_is_there_from_the_first_scrape() {
    let _rule = rule("13 series");
    let mut task = new_task("outbound");
    Arc::make_mut(&mut task.spec).wanted =
        Some(WantedSpec { source: WantedSource::Always, codec: Codec::Raw });
    let read = page(vec![task], vec![new_redis("main")]);
    let present: BTreeSet<&str> = read.samples.keys().map(|(name, _)| name.as_str()).collect();
    let of_locks = TABLE.iter().filter(|metric| metric.of_kind().is_none_or(|kind| kind == "lock"));
    for metric in of_locks.filter(|metric| metric.kind() != "gauge") {
        let sample = if metric.kind() == "histogram" {
            format!("{}_count", metric.name)
        } else {
            metric.name.to_owned()
        };
        assert!(present.contains(sample.as_str()), "{sample}");
        assert!(
            sample.starts_with("process_")
                || read.samples.iter().all(|((name, _), value)| *name != sample || *value == 0.0)
        );
    }
    for kind in ["down", "split", "stalled", "unwanted", "blind", "switches_lost"] {
        assert_eq!(read.value(&format!("lockwatch_task_{kind}_seconds"), &[]), Some(0.0));
    }
    assert_eq!(read.value("lockwatch_task_state_rank", &[("state", "unknown")]), Some(3.0));
}

#[test]
fn what_is_not_known_is_absent() {
    let _rule = rule("13 series");
    let read = page(vec![new_task("outbound")], vec![new_redis("main")]);
    for name in [
        "lockwatch_lock_held",
        "lockwatch_lock_holder",
        "lockwatch_lock_holders",
        "lockwatch_lock_ttl_seconds",
        "lockwatch_lock_persistent",
        "lockwatch_lock_renewal_overdue_seconds",
        "lockwatch_lock_reentries",
        "lockwatch_task_wanted",
        "lockwatch_task_wanting_users",
        "lockwatch_task_switches",
        "lockwatch_lock_held_seconds",
        "lockwatch_task_switch_key_seen",
        "lockwatch_task_paused",
        "lockwatch_store_up",
        "lockwatch_store_readable",
        "lockwatch_store_blind_seconds",
        "lockwatch_store_decides",
        "lockwatch_store_sentinels_agreeing",
        "lockwatch_store_uncovered_slots",
        "lockwatch_store_locks_behind",
        "lockwatch_store_masters",
        "lockwatch_store_role_verified",
        "lockwatch_store_generation",
    ] {
        assert_eq!(read.value(name, &[]), None, "{name}");
    }
}

#[test]
fn each_server_of_a_redis_has_its_own_series() {
    let mut redis = sentinel_redis("main");
    redis.generations = cluster_redis("main").generations;
    let read = page(vec![], vec![redis.clone()]);
    let of =
        |name: &str, address: &str| read.value(name, &[("store", "main"), ("server", address)]);
    let (old, new, behind, dead) =
        ("10.0.0.5:6379", "10.0.0.6:6379", "10.0.0.7:6379", "10.0.0.8:6379");
    assert_eq!(
        [old, new, behind, dead].map(|node| of("lockwatch_store_up", node)),
        [1.0, 1.0, 1.0, 0.0].map(Some)
    );
    assert_eq!(
        [old, new, behind].map(|node| of("lockwatch_store_decides", node)),
        [0.0, 1.0, 0.0].map(Some)
    );
    assert_eq!(
        [new, behind].map(|node| of("lockwatch_store_clock_offset_seconds", node)),
        [Some(0.7), Some(2.5)]
    );
    assert_eq!(
        [new, behind].map(|node| of("lockwatch_store_locks_behind", node)),
        [None, Some(2.0)]
    );
    assert_eq!(of("lockwatch_store_deadline_lag_seconds", behind), Some(1.25));
    let roles = read.labels("lockwatch_store_up", "role");
    assert_eq!(roles.iter().map(String::as_str).collect::<Vec<_>>(), ["master", "replica"]);
    for (name, value) in [
        ("lockwatch_store_readable", 1.0),
        ("lockwatch_store_blind_seconds", 0.0),
        ("lockwatch_store_masters", 2.0),
        ("lockwatch_store_sentinels_agreeing", 2.0),
    ] {
        assert_eq!(read.value(name, &[]), Some(value), "{name}");
    }
    assert_eq!(
        read.value("lockwatch_store_locks_after_change_total", &[("fate", "overlapped")]),
        Some(3.0)
    );
    // One value for all deciding servers, in any order.
    redis.generations.reverse();
    let reversed = page(vec![], vec![redis]);
    let generation = |read: &Read| read.value("lockwatch_store_generation", &[]).unwrap();
    assert!(generation(&read) > 0.0 && generation(&read) == generation(&reversed));
    let cluster = page(vec![], vec![cluster_redis("main")]);
    assert_eq!(cluster.value("lockwatch_store_readable", &[]), Some(0.0));
    assert_eq!(cluster.value("lockwatch_store_blind_seconds", &[]), Some(75.0));
    assert_eq!(cluster.value("lockwatch_store_uncovered_slots", &[]), Some(12.0));
    assert_eq!(cluster.value("lockwatch_store_sentinels_agreeing", &[]), None);
}

#[test]
fn a_free_lock_has_no_holder_and_no_age() {
    let _rule = rule("13 series");
    let mut task = full_task("outbound");
    task.held = Some(false);
    let read = page(vec![task], vec![]);
    for (name, value) in [
        ("lockwatch_lock_held", Some(0.0)),
        ("lockwatch_lock_holders", Some(0.0)),
        ("lockwatch_lock_held_seconds", Some(0.0)),
        ("lockwatch_lock_renewal_overdue_seconds", Some(0.0)),
        ("lockwatch_lock_holder", None),
        ("lockwatch_lock_ttl_seconds", None),
        ("lockwatch_lock_persistent", None),
    ] {
        assert_eq!(read.value(name, &[]), value, "{name}");
    }
}

#[test]
fn a_lock_without_ttl_is_persistent_and_a_torn_one_is_neither() {
    let with = |persistent| {
        let mut task = full_task("outbound");
        let hold = task.lock_mut().unwrap().hold.as_mut().unwrap();
        (hold.deadline, hold.ttl_ms, hold.persistent) = (None, None, persistent);
        let read = page(vec![task], vec![]);
        ["persistent", "ttl_seconds"].map(|name| read.value(&format!("lockwatch_lock_{name}"), &[]))
    };
    assert_eq!(with(Some(true)), [Some(1.0), Some(f64::INFINITY)]);
    assert_eq!(with(Some(false)), [Some(0.0), None]);
    assert_eq!(with(None), [None, None]);
}

#[test]
fn a_secret_token_is_never_shown() {
    let _rule = rule("14 hostile bytes");
    let mut task = full_task("outbound");
    let secret =
        Holder { client: b"s3cr3t-token".to_vec(), thread: None, entries: None, secret: true };
    task.lock_mut().unwrap().hold = Some(hold(vec![(secret, None)]));
    let text = text(published(vec![task], vec![]), Format::OpenMetrics);
    assert!(!text.contains("s3cr3t"), "{text}");
    let digest = read(&text).labels("lockwatch_lock_holder", "holder").pop_first().unwrap();
    assert!(digest.len() == 8 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
}

#[test]
fn two_threads_of_one_instance_are_one_series() {
    let _rule = rule("14 hostile bytes");
    let mut task = full_task("outbound");
    let thread = |name: &[u8]| (Holder { thread: Some(name.to_vec()), ..holder(b"client") }, None);
    task.lock_mut().unwrap().hold = Some(hold(vec![thread(b"1"), thread(b"2")]));
    let read = page(vec![task], vec![]);
    assert_eq!(read.labels("lockwatch_lock_holder", "holder").len(), 1);
    assert_eq!(read.value("lockwatch_lock_holders", &[]), Some(2.0));
}

#[test]
fn hostile_names_stay_valid_and_different() {
    let _rule = rule("14 hostile bytes");
    let mut random = fastrand::Rng::with_seed(20_261_121);
    for round in 0..60 {
        let names: BTreeSet<String> = (0..8).map(|_| hostile_text(&mut random)).collect();
        let keys: BTreeSet<Vec<u8>> =
            (0..names.len() * 3).map(|_| hostile_bytes(&mut random)).collect();
        let mut keys = keys.into_iter();
        let tasks: Vec<TaskView> =
            names.iter().map(|name| hostile_task(&mut random, name, &mut keys)).collect();
        let shown_keys: BTreeSet<Vec<u8>> =
            tasks.iter().map(|task| task.spec.lock().unwrap().key.clone()).collect();
        let holders: BTreeSet<_> = tasks
            .iter()
            .filter_map(|task| task.lock().unwrap().hold.as_ref())
            .flat_map(|hold| hold.holders.iter())
            .collect();
        let mut redis = good_redis(&hostile_text(&mut random));
        let addresses: BTreeSet<String> = (0..4).map(|_| hostile_text(&mut random)).collect();
        redis.nodes = addresses.iter().map(|address| replica(address)).collect();
        let read = page(tasks.clone(), vec![redis]);
        assert_eq!(
            read.labels("lockwatch_task_state_rank", "task").len(),
            names.len(),
            "round {round}"
        );
        assert_eq!(
            read.labels("lockwatch_store_up", "server").len(),
            addresses.len(),
            "round {round}"
        );
        assert_eq!(
            read.labels("lockwatch_task_info", "key").len(),
            shown_keys.len(),
            "round {round}"
        );
        let pairs: BTreeSet<(String, String)> = read
            .samples
            .keys()
            .filter(|(name, _)| name == "lockwatch_lock_holder")
            .map(|(_, labels)| (labels["holder"].clone(), labels["holder_host"].clone()))
            .collect();
        let expected: BTreeSet<(Vec<u8>, Vec<u8>)> = holders
            .into_iter()
            .map(|(holder, host)| (holder.client.clone(), host.unwrap_or_default().to_vec()))
            .collect();
        assert_eq!(pairs.len(), expected.len(), "round {round}: {expected:?}");
    }
}

fn hostile_task(
    random: &mut fastrand::Rng,
    name: &str,
    keys: &mut impl Iterator<Item = Vec<u8>>,
) -> TaskView {
    let mut task = full_task(name);
    let spec = Arc::make_mut(&mut task.spec);
    spec.lock_mut().unwrap().key = keys.next().unwrap_or_default();
    spec.labels = ["team", "team", "task", "key", "a\"b", "", "__name__", "9", "le gal", "ok_1"]
        .map(|label| (label.into(), hostile_text(random).into()))
        .to_vec();
    let holders = (0..random.usize(0..4))
        .map(|_| (holder(&hostile_bytes(random)), Some(hostile_bytes(random))));
    task.lock_mut().unwrap().hold = Some(hold(holders.collect()));
    task
}

fn hostile_bytes(random: &mut fastrand::Rng) -> Vec<u8> {
    let pieces: [&[u8]; 12] = [
        b"\"",
        b"\\",
        b"\n",
        b"\0",
        b"}",
        b"{",
        b",",
        b"=",
        b"\xff",
        b"a",
        "…".as_bytes(),
        "\u{202e}".as_bytes(),
    ];
    let length = if random.u8(0..10) == 0 { 300 } else { random.usize(0..6) };
    (0..length).map(|_| pieces[random.usize(0..pieces.len())]).collect::<Vec<_>>().concat()
}

fn hostile_text(random: &mut fastrand::Rng) -> String {
    String::from_utf8_lossy(&hostile_bytes(random)).into_owned()
}

/// More tasks than are written at once, of all sorts, and figures of all lengths.
#[test]
fn among_many_a_task_shows_what_it_shows_alone_while_a_tenth_changes_each_second() {
    let task = |number: u32, second: u32| {
        let name = format!("task-{number:03}");
        let mut view = match number % 7 {
            0 => turn_task(&name),
            1 => queue_task(&name),
            2 => new_task(&name),
            3 | 4 => full_task(&name),
            _ => stopped_task(&name),
        };
        let spec = Arc::make_mut(&mut view.spec);
        spec.full_metrics = number.is_multiple_of(3);
        spec.pattern = number.is_multiple_of(11).then(|| "reports".into());
        let totals = Arc::make_mut(&mut view.totals);
        totals.acquisitions = u64::from(number) << (16 * second);
        totals.renewals = u64::from(number * second);
        view.held = [Some(true), Some(false), None][number as usize % 3];
        if let Some(hold) = view.lock_mut().and_then(|lock| lock.hold.as_mut()) {
            hold.held_ms = u64::from(number * 997 + second);
        }
        view
    };
    let series = |tasks: Vec<TaskView>| {
        let samples = page(tasks, vec![good_redis("main")]).samples;
        samples.into_iter().filter(|((_, labels), _)| labels.contains_key("task"))
    };
    let mut tasks: Vec<TaskView> = (0..250).map(|number| task(number, 0)).collect();
    let mut alone: Vec<BTreeMap<Series, f64>> =
        tasks.iter().map(|task| series(vec![task.clone()]).collect()).collect();
    for second in 0..3 {
        for number in (0..250).filter(|number| second > 0 && number % 10 == second) {
            tasks[number as usize] = task(number, second);
            alone[number as usize] = series(vec![tasks[number as usize].clone()]).collect();
        }
        let all: BTreeMap<Series, f64> = series(tasks.clone()).collect();
        assert_eq!(all.len(), alone.iter().map(BTreeMap::len).sum::<usize>());
        for (of, value) in alone.iter().flatten() {
            assert_eq!(all.get(of), Some(value), "{of:?} at {second}");
        }
    }
}

#[test]
fn names_given_twice_cost_a_series_not_the_scrape() {
    let _rule = rule("14 hostile bytes");
    let tasks = vec![full_task("same"), stopped_task("same"), full_task("other")];
    let read = page(tasks, vec![good_redis("main"), new_redis("main")]);
    assert_eq!(read.labels("lockwatch_task_state_rank", "task").len(), 2);
}

#[test]
fn extreme_figures_can_be_read() {
    let mut task = full_task("outbound");
    task.lock_mut().unwrap().rare.fencing_token = Some(i64::MIN);
    task.lock_mut().unwrap().lease_ms = Some(u64::MAX);
    task.lock_mut().unwrap().waiters = Some(u32::MAX);
    let totals = Arc::make_mut(&mut task.totals);
    totals.renewals = u64::MAX;
    totals.rare.handovers.sum_ms = u64::MAX;
    task.lock_mut().unwrap().hold.as_mut().unwrap().deadline =
        Some(lockwatch_judge::time::ServerTime::at(i64::MAX));
    let read = page(vec![task], vec![]);
    assert_eq!(read.value("lockwatch_lock_lease_seconds", &[]), Some(u64::MAX as f64 / 1000.0));
}

#[test]
fn packed_pages_hold_the_same_text() {
    let variant = |coding| make(&fixed(), OWN, Variant { format: Format::OpenMetrics, coding });
    let packed = variant(Coding::Gzip);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed.as_slice()), &mut text)
        .unwrap();
    assert_eq!(steady(&text), steady(&String::from_utf8(variant(Coding::Identity)).unwrap()));
}

#[tokio::test]
async fn a_long_exposition_is_made_while_it_is_read_and_is_the_same() {
    let tasks = (0..1_500).map(|at| full_task(&format!("job-{at:04}"))).collect();
    let published = published(tasks, vec![good_redis("main")]);
    for format in [Format::Classic, Format::OpenMetrics] {
        for coding in [Coding::Identity, Coding::Gzip] {
            let variant = Variant { format, coding };
            let pieces = Readers::new(KEPT_FOR).read(&published, OWN, variant);
            let pieces: Vec<_> = pieces.map(|piece| piece.unwrap()).collect();
            assert!(pieces.len() > 20 && pieces.iter().all(|piece| piece.len() < 256 << 10));
            let read = unpacked(&pieces.concat(), coding);
            assert!(steady(&read) == steady(&text(Arc::clone(&published), format)));
            // Each metric is described once and has each task once, however it is cut.
            let count = |text: &str| read.matches(text).count();
            assert_eq!(count("# TYPE lockwatch_task_paused "), 1);
            assert_eq!(count("# HELP lockwatch_task_paused "), 1);
            assert_eq!(count("\nlockwatch_task_paused{task=\"job-"), 1_500);
            assert!(count("\nlockwatch_task_paused{task=\"job-1499\",store=\"main\"} ") == 1);
        }
    }
}

fn unpacked(bytes: &[u8], coding: Coding) -> String {
    match coding {
        Coding::Identity => String::from_utf8(bytes.to_vec()).unwrap(),
        Coding::Gzip => std::io::read_to_string(flate2::read::GzDecoder::new(bytes)).unwrap(),
    }
}

/// Many slow readers must not keep many snapshots alive.
#[tokio::test]
async fn who_falls_behind_by_many_snapshots_gets_no_more() {
    let tasks = || (0..1_500).map(|at| full_task(&format!("job-{at:04}"))).collect();
    let readers = Readers::new(KEPT_FOR);
    let first = published(tasks(), vec![]);
    let (kept, mut slow) =
        (Arc::downgrade(&first), readers.read(&first, OWN, plain(Format::Classic)));
    drop(first);
    assert!(slow.next().is_some_and(|piece| piece.is_ok()));
    let others: Vec<_> = (0..7)
        .map(|_| readers.read(&published(tasks(), vec![]), OWN, plain(Format::Classic)))
        .collect();
    assert!(slow.next().is_some_and(|piece| piece.is_ok()), "seven snapshots later");
    let _one_more = readers.read(&published(vec![], vec![]), OWN, plain(Format::Classic));
    assert!(kept.upgrade().is_none());
    assert_eq!((slow.next(), slow.next()), (Some(Err(TooSlow)), None));
    let ended = others.into_iter().map(|reader| reader.filter(Result::is_err).count());
    assert_eq!(ended.sum::<usize>(), 0, "all others can finish");
}

/// A snapshot that nobody can be reading any more takes no memory.
#[tokio::test]
async fn a_snapshot_is_kept_as_long_as_it_is_read_but_not_for_ever() {
    let readers = Readers::new(Duration::from_millis(200));
    let snapshot = published(vec![], vec![]);
    let kept = Arc::downgrade(&snapshot);
    let (one, other) = (
        readers.read(&snapshot, OWN, plain(Format::Classic)),
        readers.read(&snapshot, OWN, plain(Format::Classic)),
    );
    drop((snapshot, one));
    tokio::task::yield_now().await;
    assert!(kept.upgrade().is_some(), "one more reads it");
    drop(other);
    assert!(kept.upgrade().is_none(), "nobody reads it");

    let snapshot = published(vec![], vec![]);
    let kept = Arc::downgrade(&snapshot);
    let _never_ends = readers.read(&snapshot, OWN, plain(Format::Classic));
    drop(snapshot);
    let gone = async {
        while kept.upgrade().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it is not kept for ever");
}
