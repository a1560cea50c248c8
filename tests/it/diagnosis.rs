//! The ways to be wrong about a connection. One agent watches a store for each of them. All outputs
//! say the same cause in the server's own words, with a remedy. Then the configuration is changed as
//! the remedies say, and everything is read.

mod envoy;
mod outputs;
mod proxy;
mod servers;

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::agent::Agent;
use crate::support::child::OwnedChild;
use crate::support::{PATIENCE, wait_until};
use outputs::Outputs;
use servers::Servers;

/// Starts a proxy, and waits until it accepts connections at `port`.
fn accepting(command: &mut Command, port: u16) -> OwnedChild {
    let proxy = OwnedChild::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let accepts = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    wait_until(PATIENCE, "the proxy accepts connections", accepts);
    proxy
}

/// One way to be wrong.
struct Case {
    /// The name of the store and of its task.
    name: &'static str,
    /// The fields of its redis block.
    wrong: String,
    reason: &'static str,
    /// A part of the words.
    words: String,
    /// A part of the remedy.
    remedy: &'static str,
    /// The fields after the remedy was followed.
    mended: String,
}

fn cases(servers: &Servers) -> Vec<Case> {
    let url = |server: &str| format!("url: 'redis://{server}'");
    let login = |server: &str, user: &str, variable: &str| {
        let user = if user.is_empty() { String::new() } else { format!(", username: {user}") };
        format!("{}{user}, password_env: {variable}", url(server))
    };
    let sentinel =
        |at: &str, master: &str| format!("sentinel: {{master: {master}, nodes: ['{at}']}}");
    let cluster = |at: &str| format!("cluster: {{nodes: ['{at}']}}");
    let tls = |server: &str| {
        format!("url: 'rediss://{server}', tls: {{ca_file: '{}'}}", servers.ca.display())
    };
    let Servers { plain, locked, .. } = servers;
    let (plain, locked) = (plain.address(), locked.address());
    let node = servers.cluster_node();
    let (watched, own) = (servers.sentinel(), servers.master_name());
    let names = format!("it is a Sentinel; its masters are called {own}");
    let known = format!("it knows no master called mymistress; it knows: {own}");
    let follows = "it is a replica of 127.0.0.1:";
    let both = |login: &str| {
        format!("nodes: ['redis://{locked}', 'redis://{}']{login}", servers.follower.address())
    };
    type Report<'a> = (&'static str, &'a str, &'static str);
    let case = |name, wrong, (reason, words, remedy): Report<'_>, mended| Case {
        name,
        wrong,
        reason,
        words: words.to_owned(),
        remedy,
        mended,
    };
    vec![
        case(
            "no-password",
            url(&locked),
            ("no_password", "NOAUTH Authentication required", "set `password_file`"),
            login(&locked, "", "RIGHT"),
        ),
        case(
            "wrong-password",
            login(&locked, "", "WRONG"),
            ("auth", "WRONGPASS invalid username-password pair", "`password_file`"),
            login(&locked, "", "RIGHT"),
        ),
        case(
            "wrong-user",
            login(&locked, "nobody", "RIGHT"),
            ("auth", "WRONGPASS invalid username-password pair", "Set `username`"),
            login(&locked, "watcher", "RIGHT"),
        ),
        case(
            "needless-password",
            login(&plain, "", "RIGHT"),
            ("needless_password", "called without any password configured", "remove"),
            url(&plain),
        ),
        case(
            "no-permission",
            login(&locked, "narrow", "RIGHT"),
            ("no_permission", "'getrange' command", "`lockwatch acl`"),
            login(&locked, "watcher", "RIGHT"),
        ),
        case(
            "no-key",
            login(&locked, "keyless", "RIGHT"),
            ("no_permission", "(asked: ", "`lockwatch acl`"),
            login(&locked, "watcher", "RIGHT"),
        ),
        case(
            "database",
            format!("url: 'redis://{plain}/99'"),
            ("database", "DB index is out of range", "correct the number"),
            url(&plain),
        ),
        case(
            "sentinel-as-server",
            url(&watched),
            ("sentinel", &*names, "write `sentinel:"),
            sentinel(&watched, &own),
        ),
        case(
            "sentinel-as-server-with-database",
            format!("url: 'redis://{watched}/3'"),
            ("sentinel", &*names, "write `sentinel:"),
            sentinel(&watched, &own),
        ),
        case(
            "sentinel-as-cluster",
            cluster(&watched),
            ("sentinel", "it is a Sentinel", "instead of `url`, `nodes` or `cluster`"),
            sentinel(&watched, &own),
        ),
        case(
            "server-as-sentinel",
            sentinel(&plain, &own),
            ("no_sentinel", "its role is master", "configure this server with `url`"),
            url(&plain),
        ),
        case(
            "master-name",
            sentinel(&watched, "mymistress"),
            ("master_name", &*known, "correct `sentinel.master`"),
            sentinel(&watched, &own),
        ),
        case(
            "cluster-as-server",
            url(&node),
            ("cluster", "MOVED", "write `cluster:"),
            cluster(&node),
        ),
        case(
            "cluster-with-database",
            format!("url: 'redis://{node}/3'"),
            ("cluster", "SELECT is not allowed in cluster mode", "only database 0"),
            cluster(&node),
        ),
        case(
            "cluster-as-nodes",
            format!("nodes: ['redis://{node}', 'redis://{}']", servers.other_cluster_node()),
            ("unrelated", "", "Masters of a cluster: write `cluster:"),
            cluster(&node),
        ),
        case(
            "server-as-cluster",
            cluster(&plain),
            ("no_cluster", "cluster support disabled", "instead of `cluster`"),
            url(&plain),
        ),
        case(
            "replica",
            url(&servers.replica()),
            ("not_master", follows, "configure the master's address"),
            url(&servers.master()),
        ),
        case(
            "all-nodes-want-a-password",
            both(""),
            ("no_password", "NOAUTH", "set `password_file`"),
            both(", password_env: RIGHT"),
        ),
        case(
            "plain-at-tls",
            url(&servers.protected_by_tls()),
            ("closed", "closed the connection before it answered", "speaks TLS: use `rediss://`"),
            tls(&servers.protected_by_tls()),
        ),
        case(
            "plain-at-tls-with-an-alert",
            url(&servers.alerting()),
            ("needs_tls", "an alert of TLS", "use `rediss://`"),
            tls(&servers.protected_by_tls()),
        ),
        case(
            "protected",
            url(&servers.guarded()),
            ("protected", "DENIED Redis is running in protected mode", "use its loopback address"),
            url(&plain),
        ),
        case(
            "http",
            url(&servers.http()),
            (
                "protocol",
                "it says \"HTTP/1.1 400 Bad Request\"",
                "really a Redis (or ZooKeeper) server",
            ),
            url(&plain),
        ),
        case(
            "silent",
            format!("{}, timeout: 1s", url(&servers.silent())),
            ("timeout", "no complete reply within 1s", "did not answer in time"),
            url(&plain),
        ),
        case(
            "closer",
            format!("{}, assume_master: true", url(&servers.closer())),
            ("closed", "first command without an answer was CLIENT SETNAME", "server behind it"),
            url(&plain),
        ),
        case(
            "refused",
            url("127.0.0.1:1"),
            ("connect", "127.0.0.1:1: Connection refused", "Check that a server runs"),
            url(&plain),
        ),
        case(
            "unknown-host",
            url("no-such-host.invalid:6379"),
            ("dns", "no-such-host.invalid", "Check the host name"),
            url(&plain),
        ),
        case(
            "active-replica",
            url(&servers.active_replica()),
            ("active_replica", "its role is active-replica", "without `active-replica yes`"),
            url(&plain),
        ),
        case(
            "full",
            url(&servers.full.address()),
            ("max_clients", "max number of clients reached", "raise `maxclients`"),
            url(&servers.full.address()),
        ),
        case(
            "busy",
            url(&servers.busy.address()),
            ("busy", "BUSY Redis is busy running a script", "SCRIPT KILL"),
            url(&servers.busy.address()),
        ),
        case(
            "loading",
            url(&servers.loading()),
            ("loading", "LOADING Redis is loading the dataset", "wait for it"),
            url(&plain),
        ),
    ]
}

fn config(cases: &[Case], fields: impl Fn(&Case) -> &str) -> String {
    let mut text = String::from("redis:\n");
    for case in cases {
        text += &format!("  {}: {{{}, interval: 200ms}}\n", case.name, fields(case));
    }
    text += "tasks:\n";
    for Case { name, .. } in cases {
        text += &format!(
            "  - {{name: {name}, redis: {name}, lock: {{key: \"{{job}}:{name}\", library: string}}, \
             blind_after: 5s, settle: 1s}}\n"
        );
    }
    text
}

fn unknown<'a>(json: &'a Value, name: &str) -> &'a Value {
    let tasks = json["tasks"].as_array().unwrap();
    &tasks.iter().find(|task| task["name"] == *name).unwrap()["lock"]["unknown"]
}

/// Waits until no case is lacking.
#[track_caller]
fn until_none<'a>(lacking: impl Fn() -> BTreeMap<&'a str, String>) {
    let deadline = Instant::now() + PATIENCE;
    while let Some(lacking) = Some(lacking()).filter(|lacking| !lacking.is_empty()) {
        assert!(Instant::now() < deadline, "{lacking:#?}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn all_outputs_say_the_same_cause_and_the_remedy_works() {
    let Some(mut servers) = Servers::start("diagnosis::all_outputs_say_the_same_cause") else {
        return;
    };
    let cases = cases(&servers);
    servers.prepare(&cases.iter().map(|case| case.name).collect::<Vec<_>>());
    let agent =
        Agent::start_logging(&config(&cases, |case| &case.wrong), "info", "logfmt", |command| {
            command.envs([("RIGHT", servers::PASSWORD), ("WRONG", "wr0ng-c4nary")]);
        });
    let has = |json: &Value, case: &Case| {
        let unknown = unknown(json, case.name);
        unknown["reason"] == case.reason
            && (case.words.is_empty()
                || unknown["said"].as_str().is_some_and(|said| said.contains(&case.words)))
    };
    let lacking = || -> BTreeMap<&str, String> {
        let json = agent.view().json;
        let lacking = cases.iter().filter(|case| !has(&json, case));
        lacking.map(|case| (case.name, unknown(&json, case.name).to_string())).collect()
    };
    until_none(lacking);
    let outputs = Outputs::take(&agent, cases.iter().map(|case| case.name));
    for case in &cases {
        outputs.say(case.name, &[case.reason, &case.words, case.remedy]);
    }
    outputs.have_none_of(&[servers::PASSWORD, "wr0ng-c4nary"]);

    servers.mend();
    agent.write_config(&config(&cases, |case| &case.mended));
    agent.signal("HUP");
    until_none(|| {
        let view = agent.view();
        let unread = cases.iter().filter(|case| view.held(case.name) != Some(1.0));
        unread.map(|case| (case.name, unknown(&view.json, case.name).to_string())).collect()
    });
    let (code, text) = outputs::check(&agent);
    assert_eq!(code, Some(0), "{text}");
}
