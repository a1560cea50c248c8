use super::*;

fn read(text: &str) -> Prometheus {
    let value = serde_yaml::from_str(text).unwrap();
    Prometheus::read(&Document { name: "x.yml".to_owned(), value }).unwrap()
}

/// A file in which nothing is doubtful, with these fields in lockwatch's job.
fn with_job(fields: &str) -> String {
    format!(
        "rule_files: [r.yml]\nalerting: {{alertmanagers: [{{static_configs: [{{targets: \
         [a:9093]}}]}}]}}\nscrape_configs: [{{job_name: lockwatch, {fields}}}]\n"
    )
}

#[test]
fn the_job_of_lockwatch_wins_over_the_global_interval() {
    let seconds = |text: &str| {
        let read = read(text);
        (read.scrape.ms / 1_000, read.evaluation.ms / 1_000)
    };
    for (jobs, scrape_s) in [
        ("{job_name: node, scrape_interval: 2m}", 30),
        ("{job_name: node, scrape_interval: 2m}, {job_name: Lockwatch}", 30),
        ("{job_name: my-lockwatch, scrape_interval: 5s}", 5),
        ("{job_name: t, scrape_interval: 5s, static_configs: [{targets: ['h:10379']}]}", 5),
        ("{job_name: t, scrape_interval: 5s, file_sd_configs: [{files: [lockwatch.yml]}]}", 5),
        // Its name is better than any value, and another program may be on the same machine.
        (
            "{job_name: node, scrape_interval: 2m, static_configs: [{targets: \
             ['lockwatch-a:9100']}]}, {job_name: lockwatch, scrape_interval: 5s}",
            5,
        ),
        ("{job_name: a-lockwatch, scrape_interval: 5s}, {job_name: b-lockwatch}", 30),
        (
            "{job_name: lockwatch, scrape_interval: 5s}, {job_name: t, scrape_interval: 40s, \
             static_configs: [{targets: ['h:10379']}]}",
            40,
        ),
        (
            "{job_name: lockwatch-blackbox, scrape_interval: 5m, metrics_path: /probe}, \
             {job_name: lockwatch, scrape_interval: 5s}",
            5,
        ),
        ("{job_name: lockwatch, scrape_interval: }", 30),
        ("{job_name: lockwatch, scrape_interval: 0s}", 30),
    ] {
        let text = format!(
            "global: {{scrape_interval: 30s, evaluation_interval: 15s}}\n\
             scrape_configs: [{jobs}]\n"
        );
        assert_eq!(seconds(&text), (scrape_s, 15), "{jobs}");
    }
    for nothing in ["", "0", "'0'", "0s"] {
        let global =
            format!("global: {{scrape_interval: {nothing}, evaluation_interval: {nothing}}}\n");
        assert_eq!(seconds(&global), (60, 60), "{nothing}");
    }
    let elsewhere = read("global: {scrape_interval: 30s}\nscrape_configs: [{job_name: node}]");
    assert_eq!(elsewhere.scrape.to_string(), "30s (x.yml, which names no job of lockwatch)");
}

#[test]
fn what_prometheus_would_not_load_is_told() {
    for (text, says) in [
        ("global: {scrape_interval: soon}", "scrape_interval is not a duration"),
        ("global: {evaluation_interval: 5}", "evaluation_interval is not text"),
        ("scrape_configs: {job_name: a}", "`scrape_configs` is no list"),
        ("rule_files: lockwatch.rules.yml", "`rule_files` is no list"),
        ("alerting: {alertmanagers: a}", "`alertmanagers` is no list"),
        (
            "scrape_configs: [{job_name: lockwatch, relabel_configs: [{action: x}]}]",
            "a rule in `relabel_configs` has an action that is none: `x`",
        ),
    ] {
        let document = Document { name: String::new(), value: serde_yaml::from_str(text).unwrap() };
        let message = Prometheus::read(&document).unwrap_err();
        assert!(message.starts_with(says), "{text}: {message}");
    }
}

/// The alerts for a series with labels like `a=1 b=`: each in the same form and without what
/// all have, or which field drops them.
fn alerts(text: &str, own: &str) -> String {
    let own = own.split_whitespace().filter_map(|pair| pair.split_once('='));
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let message = |alert: &LabelSet| {
        let names = alert.names().filter(|name| !["alertname", "problem"].contains(name));
        let labels = names.map(|name| format!("{name}={}", alert.get(name).unwrap_or("?")));
        labels.collect::<Vec<_>>().join(" ")
    };
    match read(text).alerts(&own) {
        Ok(alerts) => alerts.iter().map(message).collect::<Vec<_>>().join(" | "),
        Err(field) => format!("dropped by {field}"),
    }
}

#[test]
fn targets_give_labels_to_alerts() {
    for (job, alert) in [
        (
            "static_configs: [{targets: [h:1], labels: {env: p, rack: 1, pod: x}}]",
            "env=p rack=1 task=t",
        ),
        // The task's own win; it has no team.
        ("static_configs: [{targets: [h:1], labels: {task: x, team: a}}]", "task=t team=a"),
        (
            "static_configs: [{targets: [h:1], labels: {e: p, host: x}}, \
             {targets: [i:1], labels: {e: p, host: y}}]",
            "e=p task=t",
        ),
        (
            "static_configs: [{targets: [h:1], labels: {e: p}}, \
             {targets: [i:1], labels: {e: d}}]",
            "e=p task=t | e=d task=t",
        ),
        (
            "static_configs: [{targets: ['a.eu:1']}], relabel_configs: [{source_labels: \
             [__address__], regex: '.*[.](.+):.*', target_label: region}]",
            "region=eu task=t",
        ),
        (
            "static_configs: [{targets: [h:1], labels: {e: p, __x: y}}], relabel_configs: \
             [{source_labels: [job, e, __x], target_label: all}, {regex: e, action: \
             labeldrop}]",
            "all=lockwatch;p;y task=t",
        ),
        // What discovery finds is not known, of listed targets it is.
        (
            "static_configs: [{targets: [h:1]}], relabel_configs: [{source_labels: \
             [__meta_kubernetes_namespace], target_label: namespace}]",
            "task=t",
        ),
        (
            "kubernetes_sd_configs: [{role: pod}], relabel_configs: [{source_labels: \
             [__meta_kubernetes_namespace], target_label: namespace}, {target_label: e, \
             replacement: p}]",
            "e=p namespace=? task=t",
        ),
        (
            "static_configs: [{targets: [h:1]}], relabel_configs: [{source_labels: \
             [__address__], regex: other, action: keep}]",
            "dropped by relabel_configs",
        ),
        (
            "static_configs: [{targets: [h:1], labels: {e: p}}], metric_relabel_configs: \
             [{source_labels: [e], target_label: env}, {regex: e, action: labeldrop}]",
            "env=p task=t",
        ),
        (
            "static_configs: [{targets: [h:1]}], metric_relabel_configs: \
             [{source_labels: [__name__], regex: lockwatch_lock_.*, action: keep}]",
            "dropped by metric_relabel_configs",
        ),
        (
            "static_configs: [{targets: [h:1]}], metric_relabel_configs: \
             [{target_label: problem, replacement: x}]",
            "dropped by metric_relabel_configs",
        ),
    ] {
        let text = with_job(&format!("honor_labels: true, {job}"));
        assert_eq!(alerts(&text, "task=t team="), alert, "{job}");
    }
}

#[test]
fn alerts_are_relabelled_after_the_external_labels_were_added() {
    for (global, alerting, alert) in [
        ("{cluster: a, env: all, task: x}", "", "cluster=a env=p task=t"),
        ("{replica: $HOSTNAME}", "", "env=p replica=? task=t"),
        ("{replica: a}", "{regex: replica|env, action: labeldrop}", "task=t"),
        ("{a: x}", "{source_labels: [a, problem], target_label: b}", "a=x b=x;down env=p task=t"),
        ("{}", "{target_label: task}", "env=p"),
        (
            "{}",
            "{source_labels: [alertname], regex: LockwatchTask.+, target_label: severity, \
             replacement: page}",
            "env=p severity=page task=t",
        ),
        (
            "{}",
            "{source_labels: [env], regex: p, action: drop}",
            "dropped by alert_relabel_configs",
        ),
        ("{}", "{source_labels: [env], regex: q, action: drop}", "env=p task=t"),
        ("{e: $E}", "{source_labels: [e], regex: p, action: keep}", "e=? env=p task=t"),
    ] {
        let text = format!(
            "global: {{external_labels: {global}}}\nalerting: {{alert_relabel_configs: \
             [{alerting}]}}\nscrape_configs: [{{job_name: lockwatch, static_configs: \
             [{{targets: [h:1], labels: {{env: p}}}}]}}]\n"
        );
        assert_eq!(alerts(&text, "task=t"), alert, "{global} {alerting}");
    }
    let each = "alerting: {alert_relabel_configs: [{target_label: a, replacement: x}], \
        alertmanagers: [{static_configs: [{targets: [a]}], alert_relabel_configs: \
        [{target_label: b, replacement: y}]}, {dns_sd_configs: [{names: [a]}], \
        alert_relabel_configs: [{action: drop}]}, {static_configs: [{targets: []}]}]}\n\
        scrape_configs: [{job_name: lockwatch}]\n";
    assert_eq!(alerts(each, "task=t"), "a=x b=y task=t");
}

#[test]
fn a_job_that_is_not_known_may_give_any_label() {
    for text in ["global: {external_labels: {cluster: a}}", "scrape_configs: [{job_name: x}]"] {
        let own =
            Labels::from([("task".to_owned(), "t".to_owned()), ("team".to_owned(), String::new())]);
        let alerts = read(text).alerts(&own).unwrap();
        let [alert] = alerts.as_slice() else { panic!("{alerts:?}") };
        assert_eq!((alert.get("task"), alert.get("team")), (Some("t"), Some("")), "{text}");
        assert_eq!((alert.get("env"), alert.get("pod")), (None, Some("")), "{text}");
    }
}

/// The case ID 1, whatever the label is and wherever it comes from.
#[test]
fn a_label_of_a_target_must_not_take_the_place_of_lockwatchs() {
    let found = |label: &str| {
        [
            format!("static_configs: [{{targets: [h:1], labels: {{{label}: x}}}}]"),
            format!("static_configs: [{{labels: {{{label}: x}}}}]"),
            format!("relabel_configs: [{{target_label: {label}, replacement: x}}]"),
            format!(
                "dockerswarm_sd_configs: [{{role: tasks}}], relabel_configs: [{{source_labels: \
                 [__meta_dockerswarm_task_id], target_label: {label}}}]"
            ),
            format!(
                "docker_sd_configs: [{{host: x}}], relabel_configs: [{{action: labelmap, \
                 regex: '__meta_docker_(.+)', replacement: {label}}}]"
            ),
            format!(
                "docker_sd_configs: [{{host: x}}], relabel_configs: [{{action: labelmap, \
                 regex: '__meta_docker_container_label_(a|{label})'}}]"
            ),
            format!(
                "static_configs: [{{targets: [h:1], labels: {{l_{label}: x}}}}], \
                 relabel_configs: [{{action: labelmap, regex: 'l_(.+)'}}]"
            ),
        ]
    };
    for label in ["task", "store", "state", "problem", "severity", "team", "version"] {
        for job in found(label) {
            let lax = read(&with_job(&job)).collisions(&["team"]).unwrap_err();
            let says = format!(
                "targets of the job `lockwatch` have labels that take the place of \
                 lockwatch's own: `{label}`; set `honor_labels: true` in that job"
            );
            assert_eq!(lax, says, "{job}");
            let honest = with_job(&format!("honor_labels: true, {job}"));
            assert_eq!(read(&honest).collisions(&["team"]), Ok(Vec::new()), "{job}");
        }
    }
    for fine in [
        "static_configs: [{targets: [h:1], labels: {team: a, env: b, pod: c}}]",
        "static_configs: [{targets: [h:1], labels: {task: a}}], relabel_configs: \
         [{regex: task, action: labeldrop}]",
        "static_configs: [{targets: [h:1]}], relabel_configs: [{source_labels: [__meta_x], \
         target_label: task}]",
        "static_configs: [{targets: [h:1], labels: {task: a}}], relabel_configs: \
         [{target_label: task, replacement: ''}]",
    ] {
        let doubts = read(&with_job(fine)).collisions(&[]).unwrap();
        assert_eq!(doubts.len(), 1, "{fine}");
        assert!(doubts[0].starts_with("the job `lockwatch` lacks `honor_labels: true`"));
    }
}

#[test]
fn another_job_that_may_be_meant_is_not_refused() {
    let text = "scrape_configs: [{job_name: lockwatch, honor_labels: yes, static_configs: \
        [{targets: [h:10379]}]}, {job_name: lockwatch-redis, static_configs: [{targets: \
        [h:9121], labels: {role: master, store: x}}]}]";
    let doubts = read(text).collisions(&[]).unwrap();
    assert!(doubts[0].contains("the job `lockwatch-redis` have labels"), "{doubts:?}");
    assert!(doubts[0].contains("own: `role`, `store`; set"), "{doubts:?}");
}

#[test]
fn what_is_doubtful_about_the_job_is_told() {
    let listed = |labels: &[&str]| {
        let group = |labels: &&str| format!("{{targets: [h:10379, i:1], labels: {{{labels}}}}}");
        let groups: Vec<String> = labels.iter().map(group).collect();
        format!("honor_labels: true, static_configs: [{}]", groups.join(", "))
    };
    let from_address = |label: &str| {
        let rule = format!("{{source_labels: [__address__], target_label: {label}}}");
        format!("{}, relabel_configs: [{rule}]", listed(&[""]))
    };
    let differ = |labels: &str| {
        format!("targets of the job `lockwatch` differ in labels that tell tasks apart: {labels};")
    };
    let several = "several jobs may be the one of lockwatch: `lockwatch`, `b-lockwatch`; the \
                   labels of `lockwatch` count, and the longest scrape interval";
    for (job, doubts) in [
        (listed(&[""]), vec![]),
        (format!("{}}}, {{job_name: b-lockwatch", listed(&[""])), vec![several.to_owned()]),
        (String::new(), vec!["the job `lockwatch` names no targets".to_owned()]),
        (listed(&["env: p, pod: x", "env: p, pod: y"]), vec![]),
        (listed(&["env: p, pod: x", "env: d, pod: y"]), vec![differ("`env`")]),
        (listed(&["env: p, rack: 1", "env: p, rack: 2", "zone: a"]), {
            vec![differ("`env`, `rack`, `zone`")]
        }),
        (from_address("machine"), vec![differ("`machine`")]),
        (from_address("host"), vec![]),
    ] {
        let message = read(&with_job(&job)).doubts;
        assert_eq!(message.len(), doubts.len(), "{job}: {message:?}");
        for (message, doubt) in message.iter().zip(&doubts) {
            assert!(message.starts_with(doubt), "{job}: {message}");
        }
    }
    let others = read("scrape_configs: [{job_name: node}]").doubts;
    assert!(others[0].starts_with("names no job of lockwatch"), "{others:?}");
}

/// The case PROM 30.
#[test]
fn a_prometheus_that_loads_no_rules_or_tells_nobody_is_told() {
    let (rules, message) = ("rule_files: [r.yml]\n", "alerting: {alertmanagers: [ALL]}\n");
    let one = message.replace("ALL", "{dns_sd_configs: [{names: [a]}]}");
    // As in the file that comes with Prometheus.
    let empty = message.replace("ALL", "{static_configs: [{targets: }]}");
    let no_rules = "has no `rule_files`, so no alert rules are loaded";
    let no_alerting = "has no `alerting`, so alerts are not delivered";
    let nobody = "names no Alertmanager in `alerting`, so alerts are not delivered";
    for (file, doubts) in [
        (format!("{rules}{one}"), &[] as &[&str]),
        (one.clone(), &[no_rules]),
        (format!("rule_files: []\n{one}"), &[no_rules]),
        (rules.to_owned(), &[no_alerting]),
        (format!("{rules}alerting:\n"), &[no_alerting]),
        (format!("{rules}{empty}"), &[nobody]),
        (format!("{rules}alerting: {{alert_relabel_configs: []}}\n"), &[nobody]),
        (String::new(), &[no_rules, no_alerting]),
    ] {
        let job = "scrape_configs: [{job_name: lockwatch, file_sd_configs: [{files: [a]}]}]";
        assert_eq!(read(&format!("{file}{job}\n")).doubts, doubts, "{file}");
    }
}
