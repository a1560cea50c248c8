//! The configuration file: every good fixture loads, every bad one gives exactly its message.
//!
//! `BLESS=1` writes the present messages of the bad fixtures; review the difference before
//! committing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockwatch::commands::check_config::{PageTiming, TimingSources, report, warnings};
use lockwatch::config::schema::BLOCKS;
use lockwatch::config::{
    AllowedHost, ClusterConfig, Config, HostPort, Login, PasswordSource, Peers, RedisConfig,
    SentinelConfig, Servers, SingleLock, TlsConfig, TlsFiles,
};
use lockwatch_judge::spec::{
    Agreement, Claimants, Codec, KeyPattern, LockSpec, ProgressSource, QueueSpec, RunsSpec, Score,
    StoreIndex, Stores, TaskSpec, TurnSpec, ValuePath, WantedSource,
};
use lockwatch_watch::redis::topology::Announced;
use lockwatch_watch::redis::{RedisKind, libraries};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of one fixture folder, sorted.
fn fixtures(folder: &str) -> Vec<PathBuf> {
    let folder = root().join("tests/it/config").join(folder);
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yml"));
    files.sort();
    files
}

/// Parses a fixture under its bare file name, so that messages do not depend on the machine.
fn parse(file: &Path) -> Result<Config, String> {
    let text = fs::read_to_string(file).unwrap();
    Config::parse(&text, Path::new(file.file_name().unwrap())).map_err(|errors| errors.to_string())
}

fn good(name: &str) -> Config {
    parse(&root().join("tests/it/config/good").join(name)).unwrap()
}

#[test]
fn good_files_load() {
    let files = fixtures("good");
    assert!(files.len() >= 4);
    for file in files {
        if let Err(message) = parse(&file) {
            panic!("{message}");
        }
    }
}

#[test]
fn bad_files_give_exactly_their_message() {
    let bless = std::env::var_os("BLESS").is_some();
    let files = fixtures("bad");
    let libraries = libraries::names().collect::<Vec<_>>().join(", ");
    let of_task = BLOCKS.iter().find(|block| block.path == "tasks[]").unwrap();
    let fields = of_task.fields.join(", ");
    assert!(files.len() >= 30);
    let mut wrong = Vec::new();
    for file in files {
        let Err(message) = parse(&file) else {
            wrong.push(format!("{} loads", file.display()));
            continue;
        };
        let expected_file = file.with_extension("txt");
        let message = message.replace(&libraries, "(the libraries)");
        let message = message.replace(&fields, "(the fields of a task)") + "\n";
        if bless {
            fs::write(&expected_file, &message).unwrap();
        }
        let expected = fs::read_to_string(&expected_file).unwrap_or_default();
        if expected != message {
            wrong.push(format!("--- expected\n{expected}--- got\n{message}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn one_mistake_gives_one_line() {
    for file in fixtures("bad") {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let message = parse(&file).unwrap_err();
        if !name.starts_with("several") {
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }
}

#[test]
fn no_message_repeats_a_secret() {
    for file in fixtures("bad") {
        let message = parse(&file).unwrap_err();
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn every_mistake_has_a_line() {
    for file in fixtures("bad") {
        let text = fs::read_to_string(&file).unwrap();
        let errors = Config::parse(&text, &file).unwrap_err();
        // The YAML parser gives no position for these.
        if file.ends_with("merge_of_text.yml") || file.ends_with("two_documents.yml") {
            continue;
        }
        for mistake in errors.mistakes() {
            assert!(mistake.position.is_some(), "{}: {mistake:?}", file.display());
        }
    }
}

fn at(host: &str, port: u16) -> HostPort {
    HostPort { host: host.to_owned(), port }
}

fn login(username: &str, file: &str) -> Login {
    let password = Some(PasswordSource::File(file.into()));
    Login { username: Some(username.to_owned()), password, max_age: None }
}

#[test]
fn servers_have_default_ports_and_one_spelling() {
    let config = good("servers.yml");
    let spec = config.watch_spec(0);
    let reported: Vec<(&str, Option<RedisKind>, String)> = spec
        .stores
        .iter()
        .map(|redis| (&*redis.name, RedisKind::of(redis), redis.addresses.join(" ")))
        .collect();
    let reported: Vec<(&str, RedisKind, &str)> = reported
        .iter()
        .filter_map(|(name, kind, all)| Some((*name, (*kind)?, all.as_str())))
        .collect();
    let sentinels = "sentinel-a:26379 sentinel-b:26380 [fd00::3]:26379";
    assert_eq!(
        reported,
        [
            ("alone", RedisKind::Replicated, "10.0.0.7:6379"),
            ("orders", RedisKind::Sentinel, sentinels),
            ("pair", RedisKind::Replicated, "10.0.0.5:6379 10.0.0.6:6379"),
            ("shards", RedisKind::Cluster, "10.0.1.5:6379 10.0.1.6:7000 [fd00::7]:7000"),
            ("stock", RedisKind::Sentinel, sentinels),
        ]
    );
    let Servers::Cluster(ClusterConfig { nodes, peers }) = &config.redises[3].servers else {
        panic!("a cluster")
    };
    let resolve = |host: &str| {
        peers.resolve(&Announced::new(host, 7000).unwrap(), nodes).map(|at| at.to_string())
    };
    for (announced, wanted) in [
        ("redis-a", Some("203.0.113.7:17000")),
        ("fd00::9", Some("203.0.113.7:17001")),
        ("redis-b", Some("redis-b:7000")),
        ("redis-c", None),
        ("192.0.2.1", Some("192.0.2.1:7000")),
        ("2001:db8::1", None),
    ] {
        assert_eq!(resolve(announced).as_deref(), wanted, "{announced}");
    }
}

#[test]
fn the_complete_example_means_what_it_says() {
    let config = good("complete.yml");
    let [main, reports, shop, stock, twins, vault] = config.redises.as_slice() else {
        panic!("six redises")
    };
    assert_eq!(main.login, login("lockwatch", "/run/secrets/redis"));
    assert_eq!((main.interval, main.timeout), (Duration::from_secs(1), Duration::from_secs(3)));
    assert_eq!((&reports.servers, reports.db), (&Servers::One(at("2001:db8::5", 6380)), 2));
    assert_eq!(reports.login.password, Some(PasswordSource::Env("REPORTS_PASSWORD".to_owned())));
    assert!(reports.assume_master && !main.assume_master);
    assert_eq!(main.want, Some(login("lockwatch-want", "/run/secrets/want")));
    assert_eq!(reports.want, None);
    let sentinel = SentinelConfig {
        master: "shop".to_owned(),
        nodes: vec![at("10.0.1.1", 26379), at("10.0.1.2", 26379), at("10.0.1.3", 26379)],
        peers: Peers {
            announce_map: BTreeMap::from([
                (at("172.17.0.2", 6379), at("10.0.1.1", 6379)),
                (at("172.17.0.3", 6379), at("10.0.1.2", 6379)),
            ]),
            allowed: Some(Vec::new()),
        },
    };
    assert_eq!((&shop.servers, shop.db), (&Servers::Sentinel(sentinel), 1));
    assert_eq!(shop.login, login("lockwatch", "/run/secrets/shop"));
    assert_eq!(shop.sentinel_login, login("lockwatch", "/run/secrets/sentinel"));
    let network = AllowedHost::Network("10.0.2.0/24".parse().unwrap());
    let allowed = Some(vec![network, AllowedHost::Name("stock.example".to_owned())]);
    let cluster = ClusterConfig {
        nodes: vec![at("10.0.2.1", 7000), at("10.0.2.2", 7000), at("10.0.2.3", 7000)],
        peers: Peers { announce_map: BTreeMap::new(), allowed },
    };
    assert_eq!((&stock.servers, stock.db), (&Servers::Cluster(cluster), 0));
    assert_eq!(
        (&twins.servers, twins.db),
        (&Servers::Nodes(vec![at("10.0.3.1", 6379), at("10.0.3.2", 6379)]), 3)
    );
    let path = |name: &str| Some(Path::new("/etc/lockwatch").join(name));
    let files = TlsFiles {
        ca_file: path("vault-ca.crt"),
        cert_file: path("agent.crt"),
        key_file: path("agent.key"),
    };
    let server_name = Some("vault.internal.example".to_owned());
    assert_eq!((&vault.tls, &twins.tls), (&Some(TlsConfig { files, server_name }), &None));
    let words = ["aws-token", "vault"].map(str::to_owned).to_vec();
    assert_eq!(vault.login.password, Some(PasswordSource::Command(words)));
    assert_eq!(vault.login.max_age, Some(Duration::from_secs(12 * 3600)));

    let [outbound, inbound, nightly, cleaner, leader, retired, alternate, delayed, rest @ ..] =
        config.tasks.as_slice()
    else {
        panic!("eight tasks and more")
    };
    let [exporter, backup, messages, scheduler, importer, settlement, hourly, nodes @ ..] = rest
    else {
        panic!("seven more")
    };
    its_tasks_in_zookeeper(&config, nodes);
    let stores = Stores { all: [0, 1, 5].map(StoreIndex).to_vec(), mode: Agreement::Quorum };
    assert_eq!(settlement.lock().unwrap().stores.as_deref(), Some(&stores));
    let backup = backup.lock().unwrap();
    assert_eq!(
        (&*backup.key, backup.field.as_deref()),
        (&b"huey.results.h"[..], Some(&b"h.lock.backup"[..]))
    );
    let importer = importer.lock().unwrap();
    assert_eq!(
        (importer.score, importer.limit, importer.lease_ms),
        (Some(Score::Refreshed), Some(1), Some(10_000))
    );
    let runs = RunsSpec { every_ms: 3_600_000, late_after_ms: 600_000, max_ms: Some(1_800_000) };
    assert_eq!(hourly.runs(), Some(&runs));
    let exporter = exporter.lock().unwrap();
    assert_eq!(exporter.holder, Some(ValuePath::Json("/owner".into()).into()));
    assert_eq!(exporter.host, Some(ValuePath::Json("/host".into()).into()));
    assert_eq!(exporter.claimants, Claimants::Named);
    let messages = messages.queue().unwrap();
    assert_eq!(messages.id, Some(ValuePath::Regex("^[0-9]+:([^:]+):".into())));
    assert_eq!(scheduler.queue().unwrap().lock, None);
    let turn = TurnSpec { min_turn_ms: Some(5_000), ..TurnSpec::new(b"turns", &["a", "b"]) };
    assert_eq!(alternate.turn(), Some(&turn));
    let queue = QueueSpec {
        max_late_ms: 60_000,
        ..QueueSpec::new(b"delayed:tasks", KeyPattern::parse(b"lock_{id}").unwrap(), "string")
    };
    assert_eq!(delayed.queue(), Some(&queue));
    assert_eq!((&*outbound.name, outbound.store), ("outbound", StoreIndex(0)));
    assert_eq!(
        (outbound.lock().unwrap().lease_ms, outbound.lock().unwrap().renew_every_ms),
        (Some(30_000), Some(10_000))
    );
    assert_eq!(
        (outbound.grace_ms, outbound.settle_ms, outbound.wind_down_ms),
        (20_000, 5_000, 30_000)
    );
    assert_eq!((outbound.blind_after_ms, outbound.max_hold_ms), (60_000, Some(43_200_000)));
    assert_eq!(outbound.paused_until.as_deref(), Some(b"outbound:pause".as_slice()));
    assert_eq!(outbound.hosts.as_deref(), Some(b"lockwatch:hosts".as_slice()));
    let progress = outbound.progress.as_ref().unwrap();
    let field =
        ProgressSource::HashField { key: b"outbound:stats".to_vec(), field: b"last_run".to_vec() };
    assert_eq!((&progress.source, progress.stale_after_ms), (&field, 300_000));
    let labels = |task: &lockwatch_judge::spec::TaskSpec| {
        task.labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    assert_eq!(labels(outbound), "team=logistics,severity=critical");
    assert_eq!(labels(inbound), "team=logistics,severity=");
    let wanted = |task: &lockwatch_judge::spec::TaskSpec| task.wanted.clone().unwrap();
    assert_eq!(wanted(inbound).codec, Codec::Kryo5);
    assert_eq!(
        (inbound.store, leader.store, retired.store),
        (StoreIndex(3), StoreIndex(2), StoreIndex(4))
    );
    assert_eq!(
        (nightly.store, nightly.lock().unwrap().library.as_str()),
        (StoreIndex(1), "string")
    );
    assert_eq!(nightly.lock().unwrap().key, b"nightly\xff");
    assert_eq!(
        nightly.progress.as_ref().unwrap().source,
        ProgressSource::Key(b"nightly:done".to_vec())
    );
    assert_eq!(
        wanted(cleaner).source,
        WantedSource::Keys(vec![b"cleaner:anna".to_vec(), b"cleaner:ben".to_vec()])
    );
    assert_eq!(wanted(leader).source, WantedSource::Always);
    assert_eq!(wanted(retired).source, WantedSource::Never);
}

fn its_tasks_in_zookeeper(config: &Config, tasks: &[Arc<TaskSpec>]) {
    let [ensemble] = config.zookeepers.as_slice() else { panic!("one ensemble") };
    assert_eq!(ensemble.servers, ["zk1", "zk2", "zk3"].map(|host| at(host, 2181)));
    let file = PasswordSource::File("/run/secrets/zookeeper".into());
    assert_eq!(ensemble.login.password, Some(file));
    assert_eq!(ensemble.tls_of(&ensemble.servers[1]).unwrap().name, "zk2");
    let [ledger, mirror, archive, exchange, relay] = tasks else { panic!("five tasks") };
    assert!(tasks.iter().all(|task| task.store == StoreIndex(6)));
    assert_eq!(&*config.store_label(ledger), "zk");
    let lock = LockSpec {
        never_expires: true,
        claimants: Claimants::Threads,
        host: Some(ValuePath::Json("/host".into()).into()),
        ..LockSpec::new(b"/locks/ledger", "curator")
    };
    assert_eq!(ledger.lock(), Some(&lock));
    let source = |task: &TaskSpec| task.wanted.as_ref().unwrap().source.clone();
    let progress = |task: &TaskSpec| task.progress.as_ref().unwrap().source.clone();
    assert_eq!(source(ledger), WantedSource::Hash(b"/ledger/users".to_vec()));
    assert_eq!(source(mirror), WantedSource::Set(b"/mirror/users".to_vec()));
    assert_eq!(source(exchange), WantedSource::Counter(b"/exchange/users".to_vec()));
    let paths = ["/archive/anna", "/archive/ben"].map(|path| path.as_bytes().to_vec()).to_vec();
    assert_eq!(source(archive), WantedSource::Keys(paths));
    assert_eq!(progress(ledger), ProgressSource::Key(b"/ledger/last".to_vec()));
    assert_eq!(progress(mirror), ProgressSource::Length(b"/mirror/jobs".to_vec()));
    assert_eq!(ledger.claims.as_ref().unwrap().key, b"/ledger/claims");
    assert_eq!(mirror.hosts.as_deref(), Some(&b"/hosts"[..]));
    assert_eq!(ledger.paused_until.as_deref(), Some(&b"/ledger/pause"[..]));
    assert_eq!(exchange.turn(), Some(&TurnSpec::new(b"/turns", &["a", "b"])));
    let in_value = TurnSpec { in_value: true, ..TurnSpec::new(b"/relay", &["a", "b"]) };
    assert_eq!(relay.turn(), Some(&in_value));
}

/// As with Redis, the only store need not be named.
#[test]
fn the_only_ensemble_need_not_be_named() {
    let config = good("zookeeper.yml");
    assert!(config.redises.is_empty());
    let label = |index: usize| config.store_label(&config.tasks[index]);
    assert_eq!((&*label(0), &*label(1)), ("zk", "zk"));
    assert_eq!(config.zookeepers[0].servers, [at("10.0.0.1", 2181), at("zk2", 2182)]);
    assert_eq!(config.tasks[0].lock().unwrap().library.as_str(), "curator");
    assert!(config.tasks[1].runs().is_some());
    let report = report(&config, &PageTiming::find(&TimingSources::default(), &[]).unwrap());
    assert!(report.starts_with("configuration ok: 1 ensemble, 2 tasks\n"), "{report}");
    assert!(report.contains(" + session [5]") && report.contains("\n[5] "), "{report}");
}

#[test]
fn the_login_of_an_ensemble_is_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("login");
    let of = |auth_file: &str| {
        let text = format!(
            "zookeeper: {{zk: {{servers: [a], auth_file: {auth_file}}}}}\n\
             tasks: [{{name: a, lock: {{path: /a}}}}]\n"
        );
        warnings(&Config::parse(&text, &folder.path().join("x.yml")).unwrap()).join("\n")
    };
    fs::write(&file, "lockwatch:hunter2\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(of("login"), "");
    assert!(of("absent").starts_with("zookeeper.zk: cannot read "), "{}", of("absent"));
    fs::write(&file, "hunter2\n").unwrap();
    let expected = "zookeeper.zk: the first line of its `auth_file` is not `user:password`";
    assert_eq!(of("login"), expected);
}

#[test]
fn left_out_fields_have_their_defaults() {
    let config = good("smallest.yml");
    let task = &config.tasks[0];
    assert_eq!((task.grace_ms, task.settle_ms, task.wind_down_ms), (20_000, 5_000, 30_000));
    assert_eq!((task.blind_after_ms, task.max_hold_ms), (60_000, None));
    assert_eq!(
        (task.lock().unwrap().library.as_str(), task.lock().unwrap().lease_ms),
        ("redisson", None)
    );
    assert!(
        task.wanted.is_none()
            && task.progress.is_none()
            && task.claims.is_none()
            && task.labels.is_empty()
    );
    let spec = config.watch_spec(7);
    assert_eq!((spec.epoch, spec.tasks.len()), (7, 1));
    let redis = &spec.stores[0];
    assert_eq!(
        (redis.addresses[0].as_ref(), redis.interval_ms, redis.timeout_ms),
        ("127.0.0.1:6379", 1_000, 3_000)
    );
}

#[test]
fn merged_blocks_can_be_overridden() {
    let config = good("merged.yml");
    let grace: Vec<u64> = config.tasks.iter().map(|task| task.grace_ms).collect();
    assert_eq!(grace, [90_000; 3]);
    assert_eq!(config.tasks[2].wanted.as_ref().unwrap().source, WantedSource::Never);
}

#[test]
fn a_field_that_begins_with_x_at_the_top_is_a_place_for_anchors() {
    let config = good("anchors.yml");
    let grace: Vec<u64> = config.tasks.iter().map(|task| task.grace_ms).collect();
    assert_eq!(grace, [90_000, 5_000]);
    let refused = |text: &str| Config::parse(text, Path::new("a.yml")).unwrap_err().to_string();
    let redis = "redis: {main: {url: 'redis://x'}}\n";
    let said = refused(&format!("{redis}tasks: [{{name: a, lock: {{key: a}}, x-more: 1}}]\n"));
    assert!(said.contains("x-more: is not a known field"), "{said}");
    let said = refused(&format!("{redis}task: [{{name: a, lock: {{key: a}}}}]\n"));
    assert!(said.contains("task: is not a known field; did you mean `tasks`?"), "{said}");
}

/// A guard says its own lease; a client of another kind may have another one.
#[test]
fn check_config_reckons_a_crash_by_the_lease_of_the_guard() {
    let text = "redis: {main: {url: 'redis://x'}}\ntasks: [{name: a, lock: {key: a}, wanted: \
                always, guard: {lease: 5s, stop_after: 1s}}]\n";
    let config = Config::parse(text, Path::new("a.yml")).unwrap();
    let report = report(&config, &PageTiming::find(&TimingSources::default(), &[]).unwrap());
    let row = report.lines().find(|line| line.starts_with("  a ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    let [.., page, crash, mark, _] = cells[..] else { panic!("{row}") };
    let ms = |text| lockwatch::text::durations::parse_duration_ms(text).unwrap();
    assert_eq!((ms(crash) - ms(page), mark), (5_000, "[4]"), "{report}");
    assert!(
        report.contains("[4] The `lease` of the guard;") && !report.contains("[2]"),
        "{report}"
    );
}

#[test]
fn a_relative_password_file_is_beside_the_configuration() {
    let text = "redis: {main: {url: 'redis://x', password_file: secret}}\n\
        tasks: [{name: a, lock: {key: a}}]\n";
    let config = Config::parse(text, Path::new("/etc/lockwatch/lockwatch.yml")).unwrap();
    assert_eq!(
        config.redises[0].login.password,
        Some(PasswordSource::File("/etc/lockwatch/secret".into()))
    );
}

/// Windows editors add a byte order mark, which is invisible.
#[test]
fn a_byte_order_mark_is_no_part_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lockwatch.yml");
    let text = |key: &str| {
        format!(
            "\u{feff}redis:\n  main: {{url: \"redis://h\"}}\n\
             tasks:\n  - {{name: a, lock: {{{key}: a}}}}\n"
        )
    };
    fs::write(&path, text("key")).unwrap();
    assert_eq!(Config::load(&path).unwrap().tasks.len(), 1);
    fs::write(&path, text("kee")).unwrap();
    let said = Config::load(&path).unwrap_err().to_string();
    assert!(said.contains("lockwatch.yml:4:22: tasks.a.lock.kee: is not a known field"), "{said}");
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let absent = Config::load(&dir.path().join("absent.yml")).unwrap_err().to_string();
    assert!(
        absent.ends_with(
            "absent.yml: does not exist; name the file with --config.file, or one lock with \
             --redis and --lock"
        ),
        "{absent}"
    );
    let binary = dir.path().join("binary.yml");
    fs::write(&binary, b"redis: \xff").unwrap();
    let message = Config::load(&binary).unwrap_err().to_string();
    assert!(message.contains("is not UTF-8 text: byte 7"), "{message}");
    let folder = Config::load(dir.path()).unwrap_err().to_string();
    assert!(folder.contains("cannot be read"), "{folder}");
}

#[test]
fn an_endless_file_is_not_read_to_its_end() {
    let message = Config::load(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(message.contains("/dev/zero: is longer than 67108864 bytes"), "{message}");
}

#[test]
fn thousands_of_mistakes_stay_readable() {
    let tasks: String = (0..1_000)
        .map(|n| format!("  - {{name: t{n}, lock: {{key: k{n}}}, grace: 1}}\n"))
        .collect();
    let text = format!("redis: {{main: {{url: 'redis://x'}}}}\ntasks:\n{tasks}");
    let message = Config::parse(&text, Path::new("big.yml")).unwrap_err().to_string();
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), 101);
    assert!(lines[0].starts_with("big.yml:3:40: tasks.t0.grace: has no unit"), "{}", lines[0]);
    assert_eq!(lines[100], "big.yml: and 900 more mistakes");
}

#[test]
fn check_config_tells_the_worst_time_to_page() {
    let sources = TimingSources {
        scrape_ms: Some(15_000),
        evaluation_ms: Some(15_000),
        ..TimingSources::default()
    };
    let timing = PageTiming::find(&sources, &[]).unwrap();
    let report = report(&good("complete.yml"), &timing);
    let file = root().join("tests/it/config/check_complete.txt");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &report).unwrap();
    }
    assert_eq!(report, fs::read_to_string(&file).unwrap());
    assert!(report.contains("  outbound        20s    22s         1m22s       1m52s "), "{report}");
}

#[test]
fn delays_come_from_the_files_of_prometheus_and_alertmanager() {
    let dir = tempfile::tempdir().unwrap();
    let (prometheus, alertmanager) =
        (dir.path().join("prometheus.yml"), dir.path().join("alertmanager.yml"));
    fs::write(&prometheus, "global: {scrape_interval: 20s, rule_query_offset: 11s}\n").unwrap();
    let routes = "{receiver: chat, routes: [{match: {team: logistics}, receiver: pager, \
        group_wait: 5s}, {match: {task: cleaner}, receiver: 'null', group_wait: 1m}, \
                  {match: {task: leader}, group_wait: 40s}, {match: {alertname: LockwatchDown}, \
        group_wait: 2m}]}";
    let receivers = "[{name: chat, x_configs: [{}]}, {name: pager, x_configs: [{}]}, {name: \
        'null'}]";
    fs::write(&alertmanager, format!("route: {routes}\nreceivers: {receivers}\n")).unwrap();
    let mut sources = TimingSources {
        evaluation_ms: Some(7_000),
        prometheus_config: Some(prometheus),
        alertmanager_config: Some(alertmanager),
        ..TimingSources::default()
    };
    let config = good("complete.yml");
    let timing = PageTiming::find(&sources, &config.tasks).unwrap();
    assert_eq!((timing.scrape.ms, timing.evaluation.ms), (20_000, 7_000));
    assert_eq!(timing.offset.as_ref().map(|offset| offset.ms), Some(11_000));
    // The longest of the routes that alerts of these tasks may take.
    let report = report(&config, &timing);
    assert!(
        report.contains(
            "  outbound        20s    22s         1m40s       2m10s                1m46s\n"
        ),
        "{report}"
    );
    for said in ["+ rule_query_offset 11s (", "+ group_wait 40s (", "alertmanager.yml, to `chat`)"]
    {
        assert!(report.contains(said), "{said}: {report}");
    }
    sources.group_wait_ms = Some(1_000);
    assert_eq!(PageTiming::find(&sources, &[]).unwrap().group_wait.ms, 1_000);
    sources.prometheus_config = Some("/nowhere.yml".into());
    assert!(
        PageTiming::find(&sources, &[]).unwrap_err().starts_with("/nowhere.yml: does not exist")
    );
}

#[test]
fn passwords_that_cannot_be_read_or_are_open_are_warned_about() {
    let text = "redis:\n  a: {url: 'redis://x', password_file: /nowhere/secret}\n  b: {url: \
        'redis://y', want: {password_file: /nowhere/want}}\n  \
                c: {sentinel: {master: m, nodes: [s], password_file: /nowhere/more}}\n  \
                d: {url: 'redis://z', password_file: open}\n\
                tasks: [{name: a, redis: a, lock: {key: a}}]\n";
    let folder = tempfile::tempdir().unwrap();
    let open = folder.path().join("open");
    fs::write(&open, "hunter2").unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let config = Config::parse(text, &folder.path().join("x.yml")).unwrap();
    let warnings = warnings(&config);
    let mut warnings = warnings;
    assert_eq!(warnings.len(), 5, "{warnings:?}");
    let of_want: Vec<String> = warnings.drain(1..3).collect();
    assert!(
        of_want[0].starts_with("redis.b.want: cannot read the password file \"/nowhere/want\": ")
            && of_want[1].contains("give `want` a user of its own"),
        "{of_want:?}"
    );
    assert!(
        warnings[2].starts_with("redis.d: ")
            && warnings[2].contains("read by every user of this machine"),
        "{warnings:?}"
    );
    assert!(
        warnings[1]
            .starts_with("redis.c.sentinel: cannot read the password file \"/nowhere/more\": "),
        "{warnings:?}"
    );
    assert!(
        warnings[0].starts_with("redis.a: cannot read the password file \"/nowhere/secret\": "),
        "{warnings:?}"
    );
}

/// Damaged files: truncated, doubled, with foreign bytes. `MUTATIONS` sets how many.
#[test]
fn mutilated_files_never_panic() {
    let rounds =
        std::env::var("MUTATIONS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(500);
    let original = fs::read(root().join("tests/it/config/good/complete.yml")).unwrap();
    let scraps = [
        "\u{feff}", "&a ", "*a", "<<: *a\n", "!t ", "{", "}", "[", "]", ": ", "- ", "\n", "#",
        "\"", "'", "|", "~", "\t", "9",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    let mut refused = 0;
    for _ in 0..rounds {
        let mut bytes = original.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            match random.u8(..4) {
                0 => bytes.truncate(at.max(1)),
                1 => drop(bytes.splice(at..at, scraps[random.usize(..scraps.len())].bytes())),
                2 => drop(bytes.splice(at..bytes.len().min(at + 40), [])),
                _ => bytes[at] = random.u8(..128),
            }
            bytes.push(b'\n');
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Err(errors) = Config::parse(&text, Path::new("x.yml")) {
            assert!(!errors.to_string().is_empty());
            refused += 1;
        }
    }
    assert!(refused > rounds / 4, "{refused} of {rounds}");
}

fn single(change: impl FnOnce(&mut SingleLock)) -> Result<Config, String> {
    let mut lock = SingleLock {
        redis_url: "redis://127.0.0.1:6379".to_owned(),
        key: b"outbound:lock".to_vec(),
        library: "redisson",
        name: None,
        username: None,
        password: None,
        tls: None,
    };
    change(&mut lock);
    Config::single_lock(&lock).map_err(|errors| errors.to_string())
}

#[test]
fn one_lock_needs_no_file() {
    let config = single(|_| {}).unwrap();
    assert_eq!(
        (&*config.tasks[0].name, config.tasks[0].lock().unwrap().key.as_slice()),
        ("outbound:lock", b"outbound:lock".as_slice())
    );
    let named = single(|lock| {
        lock.key = vec![0, 255];
        lock.name = Some("binary".to_owned());
        lock.password = Some(PasswordSource::File("secret".into()));
    });
    let named = named.unwrap();
    assert_eq!(
        (&*named.tasks[0].name, named.tasks[0].lock().unwrap().key.as_slice()),
        ("binary", [0, 255].as_slice())
    );
    assert_eq!(named.redises[0].login.password, Some(PasswordSource::File("secret".into())));
}

#[test]
fn mistakes_on_the_command_line_name_their_flag() {
    let message = single(|lock| {
        lock.redis_url = "redis://:hunter2@127.0.0.1".to_owned();
        lock.key = b"a\nb".to_vec();
    });
    let message = message.unwrap_err();
    assert!(!message.contains("hunter2"), "{message}");
    let lines: Vec<&str> = message.lines().collect();
    assert!(
        lines[0].starts_with("command line: --redis: has a user or password in it; "),
        "{message}"
    );
    assert_eq!(lines[1], "command line: --name: has control characters in it; use printable text");
    assert!(single(|lock| lock.key.clear()).unwrap_err().contains("--lock: is an empty key"));
}

#[test]
fn every_field_is_in_the_complete_example_and_in_the_documentation() {
    let documentation = fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let example = fs::read_to_string(root().join("tests/it/config/good/complete.yml")).unwrap();
    for block in documentation.split("```yaml\n").skip(1) {
        let yaml = block.split("```").next().unwrap();
        Config::parse(yaml, Path::new("docs/configuration.md")).unwrap();
    }
    for library in libraries::names() {
        assert!(documentation.contains(&format!("\n| `{library}` | ")), "{library}");
    }
    for block in BLOCKS {
        for field in block.fields {
            // docs.rs compares the tables; this is for the blocks that need none.
            assert!(
                documentation.contains(&format!("`{field}`"))
                    || documentation.contains(&format!("`{{{field}: ")),
                "`{field}` of {} is not documented",
                block.path
            );
            assert!(
                example.contains(&format!("{field}:")),
                "`{field}` of {} is not in the example",
                block.path
            );
        }
    }
}

/// The history keeps references to tasks. A reload that copied all of them would make it keep one
/// copy per reload.
#[test]
fn tasks_that_a_reload_leaves_alone_are_shared() {
    let text = |grace: &str| {
        format!(
            "redis: {{main: {{url: redis://h}}}}\ntasks:\n\
             - {{name: same, lock: {{key: a}}, wanted: {{hash: u}}}}\n\
             - {{name: other, lock: {{key: b}}, grace: {grace}}}\n"
        )
    };
    let read = |grace| Config::parse(&text(grace), Path::new("lockwatch.yml")).unwrap();
    let (before, mut after) = (read("10s"), read("20s"));
    let expected = after.clone();
    after.share(&before.tasks);
    assert_eq!(after, expected);
    let shared: Vec<bool> =
        before.tasks.iter().zip(&after.tasks).map(|(old, new)| Arc::ptr_eq(old, new)).collect();
    assert_eq!(shared, [true, false]);
}

#[test]
fn tls_is_on_for_all_servers_of_a_redis_and_checks_the_name_that_was_announced() {
    let config = good("tls.yml");
    let [announced, block, named, socket, twice] = config.redises.as_slice() else {
        panic!("five redises")
    };
    let name = |redis: &RedisConfig, host: &str, port: u16| {
        redis.tls_of(&at(host, port)).map(|tls| tls.name)
    };
    assert_eq!(name(announced, "10.0.1.5", 6379).as_deref(), Some("10.0.1.5"));
    assert_eq!(name(announced, "203.0.113.7", 17_000).as_deref(), Some("redis-a"));
    assert_eq!(name(announced, "203.0.113.7", 17_001).as_deref(), Some("203.0.113.7"));
    assert_eq!(name(block, "sentinel-a", 26_379).as_deref(), Some("sentinel-a"));
    assert_eq!(name(block, "10.0.0.9", 6379).as_deref(), Some("10.0.0.9"));
    assert_eq!(block.tls, Some(TlsConfig::default()));
    assert_eq!(name(named, "10.0.0.6", 6379).as_deref(), Some("redis.internal"));
    assert_eq!(named.tls.as_ref().unwrap().files.ca_file, Some("ca.crt".into()));
    assert_eq!((&socket.tls, &twice.tls), (&None, &None));
    let path = at("/run/redis/redis a.sock", 0);
    assert_eq!((&socket.servers, socket.db), (&Servers::One(path), 3));
}
