use std::collections::BTreeMap;

use super::*;

fn prometheus(text: &str) -> Result<PrometheusConfig, String> {
    PrometheusConfig::read(&serde_yaml::from_str(text).unwrap())
}

fn alertmanager(text: &str) -> Result<AlertmanagerConfig, String> {
    AlertmanagerConfig::read(&serde_yaml::from_str(text).unwrap())
}

#[test]
fn what_prometheus_does_is_read() {
    let read = prometheus(
        "global: {scrape_interval: 20s, evaluation_interval: 0s, rule_query_offset: 11s, \
            external_labels: {cluster: eu, shard: 1}}\n\
         rule_files: [a.yml]\n\
         alerting: {alertmanagers: [{static_configs: [{targets: ['a:9093']}]}]}\n\
         scrape_configs:\n\
         - {job_name: lockwatch, honor_labels: yes, scrape_interval: 5s}\n\
         - {job_name: agents, static_configs: [{targets: ['h:10379']}], \
            metric_relabel_configs: [{regex: a, action: labeldrop}]}\n\
         - {job_name: lockwatch-probe, metrics_path: /probe}\n\
         - {job_name: node}\n",
    )
    .unwrap();
    assert_eq!((read.scrape_interval_ms, read.evaluation_interval_ms), (Some(20_000), None));
    assert_eq!(read.rule_query_offset_ms, 11_000);
    let added = read.external_labels.iter().map(|(name, value)| format!("{name}={value}"));
    assert_eq!(added.collect::<Vec<_>>(), ["cluster=eu", "shard=1"]);
    assert!(read.has_rules && read.has_alertmanagers && !read.relabels_alerts);
    let jobs = read
        .of_lockwatch()
        .map(|job| (&*job.name, job.scrape_interval_ms, job.honors_labels, job.relabels_metrics));
    let expected = [("lockwatch", Some(5_000), true, false), ("agents", None, false, true)];
    assert_eq!(jobs.collect::<Vec<_>>(), expected);
    for (alerting, found, relabels) in [
        ("{}", false, false),
        ("{alertmanagers: [{static_configs: [{targets: []}]}]}", false, false),
        ("{alertmanagers: [{dns_sd_configs: [{names: [a]}]}]}", true, false),
        ("{alert_relabel_configs: [{action: drop}]}", false, true),
        ("{alertmanagers: [{alert_relabel_configs: [{action: drop}]}]}", false, true),
    ] {
        let read = prometheus(&format!("alerting: {alerting}")).unwrap();
        assert_eq!((read.has_alertmanagers, read.relabels_alerts), (found, relabels), "{alerting}");
    }
}

#[test]
fn what_a_route_does_not_say_it_has_from_its_parent() {
    let read = alertmanager(
        "route: {receiver: top, group_by: [alertname], routes: [{group_wait: 5s, \
            mute_time_intervals: [nights], routes: [{group_by: ['...'], group_interval: 1m, \
            receiver: deep, active_time_intervals: [days]}]}, {group_wait: '0'}, {group_wait: }]}\n\
         receivers: [{name: top, webhook_configs: [{url: a}, {url: b, send_resolved: false}], \
            email_configs: []}, {name: deep}]\n",
    )
    .unwrap();
    let routes = read.routes.iter().map(|it| {
        (
            &*it.receiver,
            it.group_wait_ms,
            it.group_interval_ms,
            it.groups_by("task"),
            it.silent_at.join(" "),
        )
    });
    let expected = [
        ("top", 30_000, 300_000, false, String::new()),
        ("top", 5_000, 300_000, false, "nights".to_owned()),
        ("deep", 5_000, 60_000, true, "days".to_owned()),
        ("top", 0, 300_000, false, String::new()),
        ("top", 30_000, 300_000, false, String::new()),
    ];
    assert_eq!(routes.collect::<Vec<_>>(), expected);
    let top = read.receiver("top").unwrap();
    let sends: Vec<_> = top.integrations.iter().map(|it| (&*it.kind, it.send_resolved)).collect();
    assert_eq!(sends, [("webhook", None), ("webhook", Some(false))]);
    assert!(!read.receiver("deep").unwrap().notifies());
    assert_eq!((read.notifying().count(), read.routes_to("deep").count()), (4, 1));
}

#[test]
fn an_alert_ends_at_the_first_route_that_takes_it() {
    let read = alertmanager(
        "route: {receiver: top, routes: [{receiver: copy, matchers: ['a=~\".+\"'], continue: \
            true}, {receiver: old, match: {a: x}, match_re: {b: 'y|z'}}, \
            {matchers: ['a=x'], receiver: mid, routes: [{receiver: deep, match: {c: 1}}]}, \
            {receiver: late, match: {a: x}}]}\n\
         receivers: [{name: top}, {name: copy}, {name: old}, {name: mid}, {name: deep}, \
            {name: late}]\n",
    )
    .unwrap();
    for (alert, ends) in [
        ("", "top"),
        ("a=w", "copy"),
        ("a=x b=z", "copy old"),
        ("a=x b=yz", "copy mid"),
        ("a=x c=1", "copy deep"),
    ] {
        let value = |name: &str| {
            let pairs = alert.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(own, _)| *own == name).map(|(_, value)| value).next().unwrap_or("")
        };
        let taken = read.routes.iter().filter(|route| route.may_take(value));
        let taken: Vec<&str> = taken.map(|route| &*route.receiver).collect();
        assert_eq!(taken.join(" "), ends, "{alert}");
    }
}

/// The default of a widespread chart, what the example has, and the older spelling.
#[test]
fn which_alert_mutes_which_is_known_by_labels_alone() {
    let read = alertmanager(
        "route: {receiver: a}\nreceivers: [{name: a}]\ninhibit_rules:\n\
         - {source_matchers: [severity = critical], target_matchers: ['severity =~ warning|info'], \
            equal: [namespace, alertname]}\n\
         - {source_match: {alertname: A}, target_match_re: {alertname: 'A|B'}}\n",
    )
    .unwrap();
    let mutes = |rule: usize, source: &str, target: &str| {
        let labels = |text: &str| -> BTreeMap<String, String> {
            let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let (source, target) = (labels(source), labels(target));
        let of = |labels: &BTreeMap<String, String>, name: &str| labels.get(name).cloned();
        let leaked =
            |value: Option<String>| -> &'static str { value.map_or("", |value| value.leak()) };
        read.inhibit_rules[rule]
            .mutes(|name| leaked(of(&source, name)), |name| leaked(of(&target, name)))
    };
    for (rule, source, target, is_muted) in [
        (0, "severity=critical alertname=A", "severity=warning alertname=A", true),
        (0, "severity=critical alertname=A namespace=x", "severity=info alertname=A", false),
        (0, "severity=critical alertname=A", "severity=critical alertname=A", false),
        (0, "severity=critical alertname=A", "severity=warning alertname=B", false),
        (1, "alertname=A", "alertname=B", true),
        (1, "alertname=A task=x", "alertname=A task=y", false),
    ] {
        assert_eq!(mutes(rule, source, target), is_muted, "{rule} {source} {target}");
    }
}

#[test]
fn what_is_not_the_configuration_of_the_program_is_refused() {
    let of_prometheus = "name the file that Prometheus is started with, or give --scrape-interval \
        and --evaluation-interval";
    for (file, why) in [
        ("apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor", "(`kind: ServiceMonitor`)"),
        ("kind: ScrapeConfig\nglobal: {}", "(`kind: ScrapeConfig`)"),
        ("{apiVersion: v1, data: {}}", "(`apiVersion: v1`)"),
        ("kind: [\"\\e\"]", "(`kind: `)"),
        ("server: {global: {scrape_interval: 15s}}", "has a field `server`, which"),
        ("route: {receiver: a}", "has a field `route`, which"),
        ("{\"\\e\": a}", "has a field `\\x1b`, which"),
        ("", "has no fields"),
        ("text", "has no fields"),
    ] {
        let said = prometheus(file).unwrap_err();
        assert!(said.contains(why) && said.ends_with(of_prometheus), "{file}: {said}");
    }
    let of_alertmanager = "name the file that Alertmanager is started with, or give --group-wait";
    for (file, why) in [
        ("kind: AlertmanagerConfig\nspec: {}", "(`kind: AlertmanagerConfig`)"),
        ("alertmanager: {config: {route: {}}}", "has a field `alertmanager`, which"),
        ("scrape_configs: []", "has a field `scrape_configs`, which"),
        ("~", "has no fields"),
    ] {
        let said = alertmanager(file).unwrap_err();
        assert!(said.contains(why) && said.ends_with(of_alertmanager), "{file}: {said}");
    }
    for (text, says) in [
        ("global: {}", "has no `route`; name Alertmanager's configuration file"),
        ("route: {receiver: top, group_wait: soon}", "group_wait is not a duration"),
        ("route: {receiver: top, group_wait: 5}", "group_wait is not text"),
        ("route: {receiver: top, routes: {a: b}}", "`routes` is no list"),
        ("route: {receiver: \"\\e\"}", "a route names the receiver `\\x1b`, which is not in"),
        ("route: {receiver: null}", "the top `route` has no `receiver`; a receiver called null"),
        (
            "route: {receiver: a}\nreceivers: [{name: a}]\ninhibit_rules: [{source_matchers: [a]}]",
            "the matcher \"a\" lacks",
        ),
    ] {
        let message = alertmanager(text).unwrap_err();
        assert!(message.starts_with(says), "{text}: {message}");
    }
}
