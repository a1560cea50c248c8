//! The HTML pages and the badge: their structure, filters and groups, and the escaping of all
//! untrusted text.

use std::sync::Arc;

use lockwatch::http::HttpContext;
use lockwatch::outputs::history::History;
use lockwatch::published::Published;
use lockwatch_judge::event::{End, Event, EventKind, Party, SplitKind, Subject};
use lockwatch_judge::input::Role;
use lockwatch_judge::reading::{Holder, Unknown};
use lockwatch_judge::seldom::Seldom;
use lockwatch_judge::snapshot::{
    Grounds, HoldView, Past, SplitView, SwitchView, TaskView, WantingView,
};
use lockwatch_judge::spec::{ProgressSource, ProgressSpec, WantedSource, WantedSpec};
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_judge::verdict::{Verdict, Wanted};

use crate::http::{Server, stale, start, start_as};
use crate::snapshots::{
    NOW, WALL, full_task, good_node, good_redis, hold, holder, new_task, published, replica,
    sentinel_redis, stopped_task, verdict_rule, witness,
};
use crate::support::html::Element;
use crate::support::truth::rule;

/// Hostile names. They must stay distinguishable, and none may become markup.
const HOSTILE: [&str; 9] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "&lt;b&gt;&amp;",
    "]]><!--",
    "\u{202e}evil\u{2066}",
    "javascript:alert(1)",
    "a/../b?c#d%2e",
    "出荷 🚚",
];

async fn page(server: &Server, path: &str) -> Element {
    let answer = server.get(path).await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("text/html; charset=utf-8")),
        "{path}"
    );
    Element::parse(answer.text())
}

fn with_verdict(name: &str, verdict: Verdict) -> TaskView {
    // Without any problem.
    let grounds = Grounds { switches_kept: true, rare: None, ..full_task(name).grounds };
    let mut view = TaskView { verdict, grounds, durations: Seldom::default(), ..full_task(name) };
    view.wanting.lost_users.clear();
    view
}

/// The names in the visible rows, in order.
fn shown(page: &Element) -> Vec<String> {
    let rows = page.id("tasks").with("data-task");
    let visible = rows.iter().filter(|row| row.attribute("hidden").is_none());
    visible.map(|row| row.attribute("data-task").unwrap().to_owned()).collect()
}

fn row<'a>(page: &'a Element, name: &str) -> &'a Element {
    let rows = page.id("tasks").with("data-task");
    rows.into_iter().find(|row| row.attribute("data-task") == Some(name)).unwrap()
}

/// The text of a cell of a row.
fn cell(row: &Element, label: &str) -> String {
    row.all().into_iter().find(|cell| cell.attribute("data-label") == Some(label)).unwrap().text()
}

/// The text of a fact on a task's page.
fn fact(page: &Element, name: &str) -> String {
    let is_it = |div: &&Element| div.named("dt").first().is_some_and(|term| term.text() == name);
    let found = page.named("div").into_iter().find(is_it);
    found.unwrap_or_else(|| panic!("no fact {name}")).named("dd")[0].text()
}

fn percent(name: &str) -> String {
    name.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn the_list_says_what_script_and_visitors_need() {
    let mut outbound = full_task("outbound");
    let rare = &mut Arc::make_mut(&mut outbound.totals).rare;
    rare.last_handover = Some(Past { at: Mono::at(NOW.ms() - 90_000), ms: 800 });
    rare.last_outage = Some(Past { at: Mono::at(0), ms: 31_000 });
    let server =
        start(published(vec![outbound, stopped_task("off")], vec![good_redis("main")])).await;
    let page = page(&server, "/").await;
    for (attribute, value) in [
        ("lang", "en"),
        ("data-at", "1800000000123"),
        ("data-sequence", "7"),
        ("data-live", "/live"),
    ] {
        assert_eq!(page.attribute(attribute), Some(value));
    }
    assert!(
        page.attribute("data-boot").is_some_and(|boot| !boot.is_empty())
            && page.attribute("data-task").is_none()
    );
    assert_eq!(page.id("connection").text(), "");
    let counts: Vec<_> =
        page.id("counts").with("data-count").iter().map(|link| link.text()).collect();
    let all = "0 split,0 down,0 stalled,0 unwanted,0 unknown,0 pending,1 running,1 stopped";
    assert_eq!(counts.join(","), all);
    let row = row(&page, "outbound");
    for (attribute, value) in [
        ("data-verdict", "running"),
        ("data-rank", "6"),
        ("data-redis", "main"),
        ("data-labels", "team=logistics&severity=critical"),
    ] {
        assert_eq!(row.attribute(attribute), Some(value));
    }
    assert_eq!(row.named("a")[0].attribute("href"), Some("/tasks/outbound"));
    for (label, text) in [
        ("Verdict", "running for 1 min 1 s"),
        ("Holder", "srv-a 3f2b9c1e-client"),
        ("Held for", "1 min 1 s"),
        ("Lease left", " 28 s"),
        ("Wanted by", "1 of 3: anna lost: dora"),
        ("Progress", "9 s ago"),
        ("Last handover, outage", "handover 0.8 s, 1 min 30 s agooutage 31 s, 16 min 40 s ago"),
    ] {
        assert_eq!(cell(row, label), text, "{label}");
    }
    assert!(cell(row, "Why").starts_with("The lock is held. "));
    let meter = row.named("meter")[0];
    // The reading is 250 ms older than the snapshot.
    let until = WALL.0 - 250 + 28_881;
    assert_eq!(meter.attribute("data-deadline"), Some(until.to_string().as_str()));
    assert_eq!((meter.attribute("max"), meter.attribute("value")), (Some("30000"), Some("28631")));
    let since = (WALL.0 - 250 - 61_123).to_string();
    assert!(row.with("data-since").iter().any(|time| time.attribute("data-since") == Some(&since)));
    // By the agent's clock; the server's is 12 ms behind.
    let moved: Vec<_> =
        row.with("data-progress").iter().map(|time| time.attribute("data-ago").unwrap()).collect();
    assert_eq!(moved, ["1799999990512"]);
    assert!(
        page.named("style").is_empty()
            && page.named("script")[0].attribute("src") == Some("/app.js")
    );
    assert!(
        page.id("lock-only")
            .text()
            .contains("lock only beside a task: a stuck worker would look healthy")
    );
    // What is an alert is named, pages first of all.
    let marks: Vec<String> = [Some("mark page"), Some("mark")]
        .into_iter()
        .flat_map(|class| row.all().into_iter().filter(move |it| it.attribute("class") == class))
        .map(Element::text)
        .collect();
    assert_eq!(
        marks,
        [
            "LockwatchTaskStalled",
            "LockwatchSwitchesLost",
            "LockwatchTaskSplit",
            "LockwatchLockLost",
            "LockwatchLeaseExpired"
        ]
    );
}

#[tokio::test]
async fn the_worst_comes_first_and_names_decide_between_equals() {
    let tasks = Verdict::ALL.iter().rev().flat_map(|&verdict| {
        let name = |prefix: &str| format!("{prefix} {}", verdict.name());
        [with_verdict(&name("b"), verdict), with_verdict(&name("B"), verdict)]
    });
    let server = start(published(tasks.collect(), vec![good_redis("main")])).await;
    let page = page(&server, "/").await;
    let expected: Vec<String> = Verdict::ALL
        .iter()
        .flat_map(|verdict| ["B", "b"].map(|prefix| format!("{prefix} {}", verdict.name())))
        .collect();
    assert_eq!(shown(&page), expected);
    let ranks: Vec<u8> = page
        .with("data-task")
        .iter()
        .map(|row| row.attribute("data-rank").unwrap().parse().unwrap())
        .collect();
    assert!(ranks.is_sorted() && ranks.last() == Some(&7), "{ranks:?}");
}

#[tokio::test]
async fn filters_and_groups_work_without_a_script() {
    let labelled = |name: &str, team: &str, verdict| {
        let mut task = with_verdict(name, verdict);
        let spec = Arc::make_mut(&mut task.spec);
        spec.labels = vec![("team".into(), team.into())];
        task
    };
    let mut elsewhere = labelled("d", "ops", Verdict::Running);
    elsewhere.store = "spare".into();
    let tasks = vec![
        labelled("a", "ops", Verdict::Down),
        labelled("b", "", Verdict::Running),
        labelled("c<&>", "a&b=c", Verdict::Down),
        elsewhere,
    ];
    let server = start(published(tasks, vec![good_redis("main"), good_redis("spare")])).await;
    for (query, expected) in [
        ("", "a,c<&>,b,d"),
        ("?verdict=down", "a,c<&>"),
        ("?redis=spare", "d"),
        ("?label.team=a%26b%3Dc", "c<&>"),
        ("?q=C%3C%26", "c<&>"),
        ("?q=anna&verdict=running", "b,d"),
        ("?q=nothing+like+this", ""),
        ("?verdict=nonsense&page=2", "a,c<&>,b,d"),
        ("?group=redis", "a,c<&>,b,d"),
        ("?group=label.team", "c<&>,a,d,b"),
        ("?group=label.team&verdict=running", "d,b"),
    ] {
        let page = page(&server, &format!("/{query}")).await;
        assert_eq!(shown(&page).join(","), expected, "{query}");
        assert_eq!(page.with("data-task").len(), 4, "the others are there for the script");
        assert_eq!(page.id("none").attribute("hidden").is_none(), expected.is_empty(), "{query}");
    }
    let page = page(&server, "/?group=label.team&verdict=running&q=%22%3E").await;
    let form = page.id("filter");
    assert_eq!((form.attribute("method"), form.attribute("action")), (Some("get"), Some("/")));
    assert_eq!(form.named("input")[0].attribute("value"), Some("\">"));
    let names: Vec<_> =
        form.named("select").iter().map(|select| select.attribute("name").unwrap()).collect();
    assert_eq!(names, ["verdict", "redis", "label.team", "group"]);
    let chosen: Vec<_> =
        form.with("selected").iter().map(|option| option.attribute("value").unwrap()).collect();
    assert_eq!(chosen, ["running", "label.team"]);
    let groups: Vec<_> =
        page.with("data-group").iter().map(|body| body.attribute("data-group").unwrap()).collect();
    assert_eq!(groups, ["a&b=c", "ops", ""]);
    let headings = page.with("data-heading");
    let texts: Vec<_> = headings.iter().map(|heading| heading.text()).collect();
    assert_eq!(texts, ["team: a&b=c 0 tasks", "team: ops 0 tasks", "team: none 0 tasks"]);
    assert!(
        headings.iter().all(|heading| heading.attribute("hidden").is_some()),
        "none has a task that matches"
    );
}

#[tokio::test]
async fn each_server_is_shown_and_who_holds_where() {
    let rival = Holder { secret: true, ..holder(b"s3cr3t") };
    let mut task = full_task("outbound");
    let rival = witness("10.0.0.6:6379", Role::Master, Some(vec![rival]));
    let lock = task.lock_mut().unwrap();
    lock.rare.witnesses = lock.rare.witnesses.iter().cloned().chain([rival]).collect();
    let mut unknown_master = sentinel_redis("lost");
    (unknown_master.readable, unknown_master.unknown) = (Some(false), Some(Unknown::Quorum));
    unknown_master.nodes = vec![replica("10.0.0.9:6379")];
    let mut redis = sentinel_redis("main");
    redis.nodes.push(good_node("<b>\"\u{202e}\n.example:6379"));
    let server = start(published(vec![task], vec![redis, unknown_master])).await;
    let page = page(&server, "/").await;
    let holders = cell(row(&page, "outbound"), "Holder");
    assert!(holders.starts_with("srv-a 3f2b9c1e-client at 10.0.0.6:6379: "), "{holders}");
    assert!(!page.text().contains("s3cr3t"));
    let rows: Vec<String> = page
        .with("data-state")
        .iter()
        .map(|row| {
            let cells: Vec<String> = row.all().iter().skip(1).map(|cell| cell.text()).collect();
            format!("{}: {}", row.attribute("data-state").unwrap(), cells[..4].join(", "))
        })
        .collect();
    for expected in [
        "good: main, up, 10.0.0.6:6379, master",
        "good: main, up, evidence only, 10.0.0.7:6379, replica",
        "bad: main, connect, 10.0.0.8:6379, replica",
        r#"good: main, up, <b>"\xe2\x80\xae\x0a.example:6379, master"#,
        "bad: lost, quorum, , ",
    ] {
        assert!(rows.iter().any(|row| row == expected), "{expected} in {rows:?}");
    }
}

#[tokio::test]
async fn what_is_not_known_is_said() {
    let mut blind = stopped_task("blind");
    (blind.held, blind.unknown, blind.verdict, blind.rule) =
        (None, Some(Unknown::Timeout), Verdict::Unknown, verdict_rule("lock_blind"));
    let mut forever = full_task("forever");
    forever.lock_mut().unwrap().hold = Some(HoldView {
        ttl_ms: None,
        persistent: Some(true),
        acquired: None,
        ..hold(vec![(holder(b"x"), None)])
    });
    let mut down = stopped_task("down");
    (down.verdict, down.durations.down_ms) = (Verdict::Down, 30_000);
    let server = start(published(vec![blind, forever, down, new_task("new")], vec![])).await;
    let page = page(&server, "/").await;
    for (task, label, text) in [
        ("blind", "Holder", "not known"),
        ("blind", "Held for", "last read 0 s ago"),
        ("forever", "Lease left", "none: held for ever"),
        ("forever", "Held for", "at least 1 min 1 s"),
        ("down", "Held for", "free for 30 s"),
        ("down", "Holder", "nobody"),
        ("down", "Wanted by", "no switches"),
        ("new", "Held for", "never read"),
        ("new", "Verdict", "unknown"),
        ("new", "Progress", ""),
    ] {
        assert_eq!(cell(row(&page, task), label), text, "{task} {label}");
    }
    assert!(
        cell(row(&page, "blind"), "Why").contains("timeout: The server did not answer in time")
    );
    assert!(cell(row(&page, "down"), "Why").ends_with(" lock only"));
    assert!(row(&page, "forever").named("meter").is_empty());
}

#[tokio::test]
async fn wanting_users_are_shown_by_each_kind_of_switch() {
    let wanted = |name: &str, source, wanted, users: Option<u64>| {
        let mut task = stopped_task(name);
        Arc::make_mut(&mut task.spec).wanted =
            Some(WantedSpec { source, codec: lockwatch_judge::spec::Codec::Raw });
        let switches = users.map(|_| Box::default());
        let wanting = Seldom::new(WantingView { users, switches, ..WantingView::default() });
        TaskView { wanted, wanting, ..task }
    };
    let key = || b"k".to_vec();
    let cases = [
        ("counter", WantedSource::Counter(key()), Wanted::Yes, Some(3), "3 users"),
        ("one", WantedSource::Counter(key()), Wanted::Yes, Some(1), "1 user"),
        ("empty", WantedSource::Set(key()), Wanted::No, Some(0), "nobody"),
        ("blind", WantedSource::Hash(key()), Wanted::Unknown, None, "not known"),
        ("always", WantedSource::Always, Wanted::Yes, None, "always"),
        ("never", WantedSource::Never, Wanted::No, None, "never"),
    ];
    let tasks = cases.iter().map(|(name, source, is_wanted, users, _)| {
        wanted(name, source.clone(), *is_wanted, *users)
    });
    let server = start(published(tasks.collect(), vec![])).await;
    let page = page(&server, "/").await;
    for (name, .., text) in cases {
        assert_eq!(cell(row(&page, name), "Wanted by"), text, "{name}");
    }
}

#[tokio::test]
async fn claims_that_cannot_be_read_are_not_said_to_be_nobodys() {
    let mut task = full_task("blind");
    (task.live_claims, task.claims_unknown) = (Seldom::default(), Some(Unknown::TooLarge));
    let server = start(published(vec![task], vec![])).await;
    assert_eq!(fact(&page(&server, "/tasks/blind").await, "Claims alive"), "cannot be read");
}

#[tokio::test]
async fn hosts_that_cannot_be_read_are_no_secret() {
    let task = TaskView { hosts_unknown: Some(Unknown::NoPermission), ..full_task("nameless") };
    let server = start(published(vec![task], vec![])).await;
    assert_eq!(fact(&page(&server, "/tasks/nameless").await, "Hosts"), "cannot be read");
}

/// A task in which every text from outside is `text`.
fn of_others(text: &str) -> TaskView {
    let bytes = text.as_bytes().to_vec();
    let mut task = full_task(text);
    let spec = Arc::make_mut(&mut task.spec);
    spec.lock_mut().unwrap().key = bytes.clone();
    spec.labels = vec![("team".into(), text.into())];
    spec.wanted.as_mut().unwrap().source =
        WantedSource::Keys(vec![bytes.clone(), b"\xff\0".to_vec()]);
    spec.progress = Some(
        ProgressSpec {
            source: ProgressSource::HashField { key: bytes.clone(), field: bytes.clone() },
            moves: None,
            stale_after_ms: 1,
        }
        .into(),
    );
    let who = Holder { client: bytes.clone(), ..holder(b"") };
    task.store = text.into();
    task.node = Some(text.into());
    task.lock_mut().unwrap().hold = Some(hold(vec![(who.clone(), Some(bytes.clone()))]));
    task.wanting.switches =
        Some([SwitchView { user: bytes.clone(), on: Some(true), fits: None }].into());
    task.wanting.lost_users = [bytes.clone()].into();
    task.live_claims = [holder(&bytes)].into();
    task.lock_mut().unwrap().rare.witnesses =
        [witness(text, Role::Master, Some(vec![holder(b"other")]))].into();
    let parties =
        vec![Party { holder: who, node: Some(text.into()), host: Some(text.as_bytes().to_vec()) }];
    (task.verdict, task.rule) = (Verdict::Split, verdict_rule("split_evidence"));
    task.splits = [SplitView { kind: SplitKind::Claims, parties, since: NOW, lasted_ms: 0 }].into();
    task
}

/// Adds events with `text` in every field that comes from outside.
fn keep_events(history: &History, task: &TaskView, text: &str) {
    let who = || vec![Holder { client: text.as_bytes().to_vec(), ..holder(b"") }];
    for (ago_s, kind) in [
        (
            500,
            EventKind::Verdict {
                from: None,
                to: Verdict::Stopped,
                rule: verdict_rule("free_unset"),
            },
        ),
        (400, EventKind::Acquired { holders: who() }),
        (
            300,
            EventKind::HoldEnded { holders: who(), reason: End::Expired, held_ms: Some(100_000) },
        ),
        (299, EventKind::GapBegan),
        (250, EventKind::Acquired { holders: vec![holder(b"other")] }),
        (245, EventKind::GapEnded { gap_ms: 49_000 }),
        (200, EventKind::TaskUnreadable { why: Unknown::Layout }),
        (150, EventKind::TaskReadable),
        (100, EventKind::SwitchesLost { users: vec![text.as_bytes().to_vec()] }),
    ] {
        let at = Mono::at(NOW.ms() - ago_s * 1000);
        let subject = Subject::Task(task.spec.clone());
        history.keep(
            NOW,
            WALL,
            &Event { at, server_time: None, subject, node: Some(text.into()), kind },
        );
    }
}

#[tokio::test]
async fn nothing_of_others_becomes_markup() {
    let _rule = rule("14 hostile bytes");
    let skeletons = async |text: &str| {
        let task = of_others(text);
        let mut redis = good_redis(text);
        redis.nodes[0].address = text.into();
        let server = start(published(vec![task.clone()], vec![redis])).await;
        keep_events(&server.history, &task, text);
        let list = page(
            &server,
            &format!("/?group=label.team&redis={0}&label.team={0}&q=split", percent(text)),
        )
        .await;
        let one = page(&server, &format!("/tasks/{}", percent(text))).await;
        let badge =
            Element::parse(server.get(&format!("/badge/{}.svg", percent(text))).await.text());
        // The value that the script compares is unescaped.
        let own = row(&list, text);
        assert_eq!(
            (own.attribute("data-redis"), one.attribute("data-task")),
            (Some(text), Some(text))
        );
        assert_eq!(
            own.named("a")[0].attribute("href").unwrap().strip_prefix("/tasks/").map(unescaped),
            Some(text.to_owned())
        );
        assert_eq!(
            own.attribute("data-labels").unwrap().strip_prefix("team=").map(unescaped),
            Some(text.to_owned())
        );
        assert_eq!(shown(&list), [text], "the filter compares exactly");
        assert_eq!(list.with("data-group")[0].attribute("data-group"), Some(text));
        [list.skeleton(), one.skeleton(), badge.skeleton()]
    };
    let plain = skeletons("plain").await;
    for text in HOSTILE {
        assert!(skeletons(text).await == plain, "{text} made other markup than a plain word");
    }
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next().unwrap()).to_digit(16).unwrap();
        bytes.push(if byte == b'%' { u8::try_from(digit() * 16 + digit()).unwrap() } else { byte });
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn the_page_of_one_task_says_all_that_is_known() {
    let mut task = full_task("outbound");
    task.lock_mut().unwrap().renewals =
        [Mono::at(NOW.ms() - 20_000), Mono::at(NOW.ms() - 10_000)].into_iter().collect();
    let server = start(published(vec![task.clone()], vec![good_redis("main")])).await;
    keep_events(&server.history, &task, "srv-b");
    let page = page(&server, "/tasks/outbound").await;
    assert_eq!(page.attribute("data-task"), Some("outbound"));
    let main = page.id("task");
    assert_eq!(
        (main.attribute("data-verdict"), main.attribute("data-rank")),
        (Some("running"), Some("6"))
    );
    assert_eq!(page.named("h1")[0].text(), "outbound");
    for (name, text) in [
        ("Holder", "3f2b9c1e-client on srv-a, entered 2 times"),
        ("Held for", "1 min 1 s"),
        ("Last renewal", "1 s ago, 4 ms late, with 19 s to spare"),
        ("Claims alive", "srv-a"),
        ("Fencing token", "-42"),
        ("Waiting for the lock", "1"),
        ("Newest reading", "up to date, from 10.0.0.5:6379"),
        ("Ends of holds", "1 expired, 2 ended_early, 3 replaced, 4 lost, 5 unknown"),
        ("lock.key", "outbound:lock"),
        ("lock.lease", "30 s (learned)"),
        ("wanted.hash", "outbound:users"),
        ("progress.key", "outbound:last"),
        ("progress.stale_after", "5 min"),
        ("claims.fresh_for", "10 s"),
        ("hosts.hash", "lockwatch:hosts"),
        ("paused_until.key", "outbound:pause"),
        ("grace", "20 s"),
        ("settle", "5 s"),
        ("wind_down", "30 s"),
        ("blind_after", "1 min"),
        ("max_hold", "12 h"),
        ("labels.team", "logistics"),
    ] {
        assert_eq!(fact(main, name), text, "{name}");
    }
    let texts: Vec<String> = main.named("tr").iter().map(|row| row.text()).collect();
    for expected in [
        "annaon",
        "bertoff",
        r"c\xe2\x80\xaelairecannot be read; the codec kryo5 would read it",
        "dorawas on; lost by the store",
        "10.0.0.7:6379replica3f2b9c1e-client1.2 s07:59:59",
        "2027-01-15 07:58:20the store lost switches that were on Ask these users",
        "Held by srv-b, expired07:53:2007:55:001 min 40 s",
        "Nobody, though wanted07:55:0107:55:5049 s",
        "Handover, 49 s07:55:55",
        "Could not be read (layout)07:56:4007:57:3050 s",
        "Not known: before the agent watched, or forgottenbefore07:51:401 min 40 s",
    ] {
        assert!(texts.iter().any(|text| text.starts_with(expected)), "{expected} in {texts:#?}");
    }
    let links: Vec<_> = main.named("a").iter().filter_map(|link| link.attribute("href")).collect();
    for link in [
        "/api/v1/tasks/outbound",
        "/api/v1/tasks/outbound/explain",
        "/badge/outbound.svg",
        "?window=1h",
    ] {
        assert!(links.contains(&link), "{link} in {links:?}");
    }
}

/// Start and length of a bar, in thousandths of the width.
fn place(bar: &Element) -> (u32, u32) {
    let number = |name| {
        let percent: f64 = bar.attribute(name).unwrap().strip_suffix('%').unwrap().parse().unwrap();
        (percent * 10.0).round() as u32
    };
    (number("x"), number("width"))
}

#[tokio::test]
async fn the_timeline_is_drawn_to_scale() {
    let mut task = full_task("outbound");
    task.lock_mut().unwrap().renewals = [Mono::at(NOW.ms() - 60_000)].into_iter().collect();
    let server = start(published(vec![task.clone()], vec![])).await;
    keep_events(&server.history, &task, "srv-b");
    let bars = async |path: &str| {
        let page = page(&server, path).await;
        let of_class = |class: &str| -> Vec<(u32, u32)> {
            let svg = page.named("svg")[0];
            svg.named("rect")
                .into_iter()
                .filter(|bar| bar.attribute("class") == Some(class))
                .map(place)
                .collect()
        };
        ["h1", "h2", "gap", "unread"].map(of_class)
    };
    // Ten minutes, so a second is 1/600 of the width.
    let [first, second, gap, unread] = bars("/tasks/outbound").await;
    assert_eq!((first, gap, unread), (vec![(333, 167)], vec![(502, 82)], vec![(667, 83)]));
    assert_eq!(second, [(583, 417)], "it goes on until now");
    let [first, second, gap, _] = bars("/tasks/outbound?window=1h").await;
    assert_eq!((first, second, gap), (vec![(889, 28)], vec![(931, 69)], vec![(917, 14)]));
    // A shorter window shows only the last part of the present hold.
    let [first, second, gap, _] = bars("/tasks/outbound?window=2m").await;
    assert_eq!((first, second, gap), (vec![(0, 1000)], vec![], vec![]));
    let page = page(&server, "/tasks/outbound").await;
    let svg = page.named("svg")[0];
    let times: Vec<_> = svg
        .named("text")
        .into_iter()
        .filter(|text| text.attribute("class") == Some("time"))
        .map(|text| text.text())
        .collect();
    assert_eq!(times, ["07:52", "07:54", "07:56", "07:58"]);
    assert_eq!(
        (svg.attribute("role"), svg.named("title")[0].text()),
        (Some("img"), "The last 10 min, drawn to scale.".to_owned())
    );
    assert_eq!(
        svg.named("line").iter().filter(|line| line.attribute("class") == Some("renewal")).count(),
        1
    );
}

#[tokio::test]
async fn a_fragment_is_the_contents_and_its_version_stands_while_only_time_passes() {
    let at = |later_ms: u64, tasks: Vec<TaskView>| {
        let mut published = published(tasks, vec![good_redis("main")]);
        let one = Arc::make_mut(&mut published);
        one.snapshot.at = Mono::at(NOW.ms() + later_ms);
        one.wall = AgentWall(WALL.0 + i64::try_from(later_ms).unwrap());
        published
    };
    let version = async |server: &Server| {
        let answer = server.get("/tasks/outbound?fragment&window=2m").await;
        let main = Element::parse(answer.text());
        assert_eq!(
            (answer.status, main.name.as_str(), main.attribute("id")),
            (200, "main", Some("task"))
        );
        main.attribute("data-version").unwrap().to_owned()
    };
    let server = start(at(0, vec![full_task("outbound")])).await;
    let first = version(&server).await;
    let mut again = full_task("outbound");
    again.last_reading = Some(Mono::at(NOW.ms() + 750));
    let hold = again.lock_mut().unwrap().hold.as_mut().unwrap();
    (hold.held_ms, hold.ttl_ms) = (62_123, Some(29_000));
    server.published.send(at(1_000, vec![again])).unwrap();
    assert_eq!(version(&server).await, first);
    let mut changed = full_task("outbound");
    changed.wanting.switches.as_mut().unwrap()[1].on = Some(true);
    server.published.send(at(1_000, vec![changed])).unwrap();
    assert_ne!(version(&server).await, first);
    server.published.send(at(1_000, vec![])).unwrap();
    let gone = server.get("/tasks/outbound?fragment").await;
    assert_eq!((gone.status, Element::parse(gone.text()).name.as_str()), (404, "main"));
}

#[tokio::test]
async fn what_is_not_there_and_what_is_not_the_present_say_so() {
    let tasks = || published(vec![full_task("outbound")], vec![good_redis("main")]);
    let server = start(tasks()).await;
    let missing = server.get("/tasks/%3Cb%3E").await;
    assert_eq!(
        (missing.status, missing.header("content-type")),
        (404, Some("text/html; charset=utf-8"))
    );
    assert!(Element::parse(missing.text()).text().contains("There is no task called <b>; "));
    server.published.send(stale(tasks())).unwrap();
    for path in ["/", "/tasks/outbound"] {
        let old = server.get(path).await;
        assert_eq!(old.status, 503, "{path}");
        assert!(
            Element::parse(old.text()).id("connection").text().contains("engine has stopped"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn pages_may_run_their_own_script_only_and_be_framed_where_allowed() {
    let policy = |ancestors: &str| {
        format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src \
             'self'; \
             base-uri 'none'; form-action 'self'; frame-ancestors {ancestors}"
        )
    };
    let tasks = || published(vec![full_task("outbound")], vec![]);
    let closed = start(tasks()).await;
    let ancestors: Arc<[String]> =
        ["https://wms.example.com", "http://10.0.0.7:8080"].map(String::from).into();
    let open =
        start_as(tasks(), |context| HttpContext { frame_ancestors: ancestors, ..context }).await;
    let both = "https://wms.example.com http://10.0.0.7:8080";
    for (server, path, allowed) in [
        (&closed, "/", "'none'"),
        (&closed, "/tasks/outbound", "'none'"),
        (&open, "/", "'none'"),
        (&open, "/tasks/outbound", both),
        (&open, "/tasks/outbound?fragment", both),
        (&open, "/tasks/gone", both),
    ] {
        let answer = server.get(path).await;
        assert_eq!(
            answer.header("content-security-policy"),
            Some(policy(allowed).as_str()),
            "{path}"
        );
    }
    for path in ["/metrics", "/api/v1/tasks", "/nothing"] {
        let strict =
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
        assert_eq!(open.get(path).await.header("content-security-policy"), Some(strict), "{path}");
    }
}

#[tokio::test]
async fn a_badge_keeps_its_size_whatever_the_verdict() {
    let server = start(published(vec![], vec![])).await;
    let mut sizes = Vec::new();
    for verdict in Verdict::ALL {
        server.published.send(published(vec![with_verdict("out&bound", verdict)], vec![])).unwrap();
        let answer = server.get("/badge/out%26bound.svg").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("image/svg+xml")));
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("cross-origin"));
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        let svg = Element::parse(answer.text());
        assert_eq!(svg.named("title")[0].text(), format!("out&bound: {}", verdict.name()));
        assert_eq!(
            svg.named("text").iter().map(|text| text.text()).collect::<Vec<_>>(),
            ["out&bound", verdict.name()]
        );
        sizes.push((
            svg.attribute("width").map(str::to_owned),
            svg.attribute("height").map(str::to_owned),
        ));
        assert!(["href", "class", "src"].iter().all(|name| svg.with(name).is_empty()));
    }
    sizes.dedup();
    assert_eq!(sizes.len(), 1, "{sizes:?}");
    // A page that the verdict does not tell of.
    server.published.send(published(vec![full_task("out&bound")], vec![])).unwrap();
    let paged = Element::parse(server.get("/badge/out%26bound.svg").await.text());
    assert_eq!(paged.named("title")[0].text(), "out&bound: running, LockwatchTaskStalled");
    assert_eq!(paged.named("path")[0].attribute("fill"), Some("#b42318"));
    server.published.send(stale(published(vec![full_task("out&bound")], vec![]))).unwrap();
    let unknown = server.get("/badge/out%26bound.svg").await;
    assert_eq!(
        (unknown.status, Element::parse(unknown.text()).named("title")[0].text()),
        (503, "out&bound: unknown".to_owned())
    );
    server.published.send(published(vec![], vec![])).unwrap();
    let missing = server.get("/badge/out%26bound.svg").await;
    assert_eq!(
        (missing.status, Element::parse(missing.text()).named("title")[0].text()),
        (404, "out&bound: no such task".to_owned())
    );
}

#[tokio::test]
async fn what_a_browser_has_is_not_sent_again() {
    let server = start(published(vec![full_task("outbound")], vec![])).await;
    for path in ["/style.css", "/badge/outbound.svg"] {
        let first = server.get(path).await;
        let tag = first.header("etag").unwrap();
        assert_eq!(
            (first.status, first.header("cache-control")),
            (200, Some("no-cache")),
            "{path}"
        );
        for (header, status) in [
            (format!("If-None-Match: {tag}\r\n"), 304),
            (format!("If-None-Match: \"other\", W/{tag}\r\n"), 304),
            ("If-None-Match: \"other\"\r\n".to_owned(), 200),
        ] {
            let again = server.ask("GET", path, &header).await;
            assert_eq!(
                (again.status, again.header("etag")),
                (status, Some(tag)),
                "{path} {header}"
            );
            assert_eq!(again.body.is_empty(), status == 304, "{path} {header}");
        }
    }
    let tag = server.get("/badge/outbound.svg").await.header("etag").unwrap().to_owned();
    server
        .published
        .send(published(vec![with_verdict("outbound", Verdict::Down)], vec![]))
        .unwrap();
    assert_ne!(server.get("/badge/outbound.svg").await.header("etag"), Some(tag.as_str()));
}

#[tokio::test]
async fn a_page_without_rows_is_small_and_one_with_too_many_says_so() {
    let server = start(published(vec![], vec![good_redis("main")])).await;
    let list = server.get("/").await;
    assert!(Element::parse(list.text()).id("none").text().contains("No tasks are configured."));
    let bytes = list.body.len() + server.get("/style.css").await.body.len();
    assert!(bytes <= 45_000, "{bytes} bytes, and the script needs some of 60 kB");

    let many = |number: usize| {
        with_verdict(
            &format!("{number:04}"),
            if number == 2_004 { Verdict::Down } else { Verdict::Running },
        )
    };
    server.published.send(published((0..2_005).map(many).collect(), vec![])).unwrap();
    let list = page(&server, "/").await;
    assert_eq!((shown(&list).len(), shown(&list)[0].as_str()), (2_000, "2004"));
    assert_eq!(
        list.id("more").text(),
        "These are the 2000 worst; 5 tasks more match. The filter finds them."
    );
    assert_eq!(list.id("counts").with("data-count")[6].text(), "2004 running");
    let found = page(&server, "/?q=2003").await;
    assert_eq!(shown(&found), ["2003"]);
    assert!(found.with("id").iter().all(|element| element.attribute("id") != Some("more")));
}

#[tokio::test]
async fn a_thousand_tasks_are_one_page() {
    let tasks = (0..1_000).map(|number| full_task(&format!("task-{number:04}"))).collect();
    let server = start(published(tasks, vec![good_redis("main")])).await;
    let answer = server.get("/").await;
    assert_eq!(shown(&Element::parse(answer.text())).len(), 1_000);
    let per_row = answer.body.len() / 1_000;
    assert!(per_row < 2_000, "{per_row} bytes per row");
}

#[tokio::test]
async fn every_control_has_a_label_and_every_table_its_headings() {
    let mut task = full_task("outbound");
    task.splits =
        [SplitView { kind: SplitKind::Holders, parties: Vec::new(), since: NOW, lasted_ms: 1 }]
            .into();
    let published: Arc<Published> = published(vec![task], vec![good_redis("main")]);
    let server = start(published).await;
    for path in ["/?group=redis", "/tasks/outbound"] {
        let page = page(&server, path).await;
        let ids: Vec<_> =
            page.with("id").iter().map(|element| element.attribute("id").unwrap()).collect();
        for name in ["aria-labelledby", "aria-describedby"] {
            for element in page.with(name) {
                assert!(
                    element.attribute(name).unwrap().split(' ').all(|id| ids.contains(&id)),
                    "{path}: {element:?}"
                );
            }
        }
        for table in page.named("table") {
            assert!(
                !table.named("caption").is_empty()
                    && table.named("th").iter().all(|th| th.attribute("scope").is_some())
            );
            let columns = table.named("thead")[0].named("th").len();
            for row in table.named("tbody")[0]
                .named("tr")
                .iter()
                .filter(|row| row.attribute("data-heading").is_none())
            {
                let cells = row.named("th").len() + row.named("td").len();
                assert_eq!(cells, columns, "{path}: {row:?}");
                assert!(
                    row.named("td").iter().all(|cell| cell.attribute("data-label").is_some()),
                    "{path}: {row:?}"
                );
            }
        }
        let labels: usize = page
            .named("label")
            .iter()
            .map(|label| label.named("input").len() + label.named("select").len())
            .sum();
        assert_eq!(labels, page.named("input").len() + page.named("select").len());
        assert!(page.named("meter").iter().all(|meter| meter.attribute("aria-label").is_some()));
        assert_eq!(
            (page.named("main").len(), page.named("h1").len(), page.named("header").len()),
            (1, 1, 1)
        );
        let skip = page
            .named("a")
            .into_iter()
            .find(|link| link.attribute("class") == Some("skip"))
            .unwrap();
        assert!(ids.contains(&skip.attribute("href").unwrap().trim_start_matches('#')));
        assert_eq!(page.named("noscript")[0].named("meta")[0].attribute("content"), Some("5"));
        let anchors = page
            .named("a")
            .into_iter()
            .filter_map(|link| link.attribute("href")?.strip_prefix('#'));
        assert!(anchors.into_iter().all(|id| ids.contains(&id)));
    }
}
