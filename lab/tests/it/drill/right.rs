//! Chains that are right, of several shapes: each drill is notified once, and so is its end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lockwatch_lab::stack::{Redis, Status, Way};
use tokio::task::LocalSet;

use super::chain::{Chain, Change, Extent, Said, Text, redis};

/// A scrape, an evaluation, `group_wait` and the same again with `group_interval` for its end are
/// a second or less each; the rest is for a busy machine.
const LONGEST: Duration = Duration::from_secs(40);

/// What Kubernetes adds to a target, and what the stack of Helm brings: `critical` mutes `warning`.
const KUBERNETES: &[Change] = &[
    (
        Text::Prometheus,
        "targets: [AGENTS]",
        "targets: [AGENTS]\n        labels: {namespace: ops, pod: lockwatch-0, service: lockwatch}",
    ),
    (Text::Prometheus, "job_name: lockwatch\n", "job_name: exporters\n"),
    (
        Text::Alertmanager,
        "inhibit_rules:\n",
        "inhibit_rules:\n  - source_matchers: ['severity = critical']\n    \
         target_matchers: ['severity =~ warning|info']\n    equal: [namespace, alertname]\n",
    ),
];

async fn runs(test: impl Future<Output = ()>) {
    LocalSet::new().run_until(test).await;
}

/// Runs a drill that must be notified at these paths of the receiver, once each, and then its end.
async fn drills(chain: &Chain, arguments: &[&str], drilled: &[(&str, &str)]) -> Said {
    let before = chain.receiver.notifications().len();
    let began = Instant::now();
    let said = chain.drill(arguments).await;
    assert_eq!(said.code, Some(0), "{}", said.text);
    assert_eq!(said.failed(), None, "{}", said.text);
    assert!(began.elapsed() < LONGEST * drilled.len().try_into().unwrap(), "{}", said.text);
    // Alertmanager notifies the end with the next look at the group.
    chain.ends_are_received().await;

    let received = chain.receiver.notifications();
    let received: Vec<_> = received[before..]
        .iter()
        .filter(|one| one.alerts[0].labels.contains_key("drill"))
        .collect();
    let seen = |wanted| -> Vec<(&str, &str)> {
        let of_status = received.iter().filter(|one| one.status == wanted);
        of_status.map(|one| (one.path.as_str(), one.alerts[0].labels["drill"].as_str())).collect()
    };
    assert_eq!(seen(Status::Firing), drilled, "{}", said.text);
    assert_eq!(seen(Status::Resolved), drilled, "{}", said.text);
    for notification in received {
        let text = &notification.alerts[0].annotations;
        for words in ["summary", "description"] {
            assert!(text[words].starts_with("Drill:"), "{text:?}");
        }
    }
    chain.nothing_is_left(LONGEST).await;
    said
}

const OPERATIONS: &str = "/pager.example.com/operations";
const CHAT: &str = "/chat.example.com/operations";
const LOGISTICS: &str = "/pager.example.com/logistics";

async fn start(extent: Extent, changes: &[Change]) -> (Redis, Chain) {
    let redis = redis().await;
    let chain = Chain::start(&redis, extent, changes).await;
    (redis, chain)
}

/// The shipped examples: a drill of all routes, one after the other; after it another one must
/// wait. A silence of what else there is changes nothing.
#[tokio::test]
async fn the_shipped_examples_notify_everybody() {
    runs(async {
        let (_redis, chain) = start(Extent::SINGLE, &[]).await;
        chain.silence("LockwatchLeaseExpired").await;
        let routes = [(CHAT, "inbound"), (OPERATIONS, "outbound"), (LOGISTICS, "parcels")];
        let said = drills(&chain, &["--all-routes"], &routes).await;
        for task in ["outbound", "inbound", "parcels"] {
            assert!(said.says(task), "{}", said.text);
        }
        let again = chain.drill(&["outbound"]).await;
        assert_eq!(again.code, Some(1), "{}", again.text);
        assert_eq!(again.failed(), Some("agent"), "{}", again.text);
        assert!(again.says("the next one can begin in"), "{}", again.text);
    })
    .await;
}

/// Two of everything.
const TWO: Extent =
    Extent { two_agents: true, two_prometheis: true, two_alertmanagers: true, ..Extent::SINGLE };

/// Two agents, two servers of Prometheus and a cluster of two Alertmanagers: one alert.
#[tokio::test]
async fn two_of_each_are_one_alert() {
    runs(async {
        let (_redis, chain) = start(TWO, &[]).await;
        drills(&chain, &["outbound"], &[(OPERATIONS, "outbound")]).await;
    })
    .await;
}

/// One of two Alertmanagers is down: the other one notifies, and the drill says who is missing. It
/// is begun at the other agent.
#[tokio::test]
async fn one_of_two_alertmanagers_is_enough() {
    runs(async {
        let (_redis, mut chain) = start(TWO, &[]).await;
        chain.alertmanagers[1].kill().await.unwrap();
        let missing = chain.alertmanagers.remove(1).address().to_string();
        let other = chain.agents[1].url();
        let arguments = ["inbound", "--agent.url", &other];
        let said = drills(&chain, &arguments, &[(CHAT, "inbound")]).await;
        assert!(said.says(&missing), "{}", said.text);
    })
    .await;
}

/// As in Kubernetes: targets have labels of their own, the job has another name, and the stack
/// inhibits warnings. The drill of a warning is notified, because nothing critical fires.
#[tokio::test]
async fn kubernetes_and_its_stack_notify() {
    runs(async {
        let (_redis, chain) = start(Extent::SINGLE, KUBERNETES).await;
        drills(&chain, &["inbound"], &[(CHAT, "inbound")]).await;
    })
    .await;
}

/// Agents with a login and TLS, and nginx before the others, which asks for a login and a token.
#[tokio::test]
async fn logins_lead_everywhere() {
    const SCRAPED: &[Change] = &[(
        Text::Prometheus,
        "job_name: lockwatch\n",
        "job_name: lockwatch\n    scheme: https\n    tls_config: {insecure_skip_verify: true}\n    \
         basic_auth: {username: anna, password: page-pw}\n",
    )];
    runs(async {
        let extent = Extent { web_file: true, nginx: true, ..Extent::SINGLE };
        let (_redis, chain) = start(extent, SCRAPED).await;
        let nginx = chain.nginx.as_ref().unwrap();
        let [ca, login, token] = [nginx.ca_file(), nginx.login_file(), nginx.token_file()]
            .map(|file| file.display().to_string());
        let (prometheus, alertmanager) =
            (nginx.url(Way::Login, "prometheus"), nginx.url(Way::Token, "alertmanager"));
        #[rustfmt::skip]
        let arguments = [
            "parcels",
            "--prometheus.url", &prometheus, "--prometheus.ca-file", &ca,
            "--prometheus.login-file", &login,
            "--alertmanager.url", &alertmanager, "--alertmanager.ca-file", &ca,
            "--alertmanager.token-file", &token,
        ];
        let said = chain.drill(&arguments).await;
        assert_eq!(said.code, Some(0), "{}", said.text);
        chain.ends_are_received().await;
        assert_eq!(
            chain.received(),
            [(Status::Firing, "parcels".to_owned()), (Status::Resolved, "parcels".to_owned())]
        );
        let secrets: BTreeSet<&str> = ["nginx-pw", "nginx-token", "page-pw"].into();
        assert!(secrets.iter().all(|secret| !said.says(secret)), "{}", said.text);

        // Each other way, with what it asks for and without it.
        let [certificate, key] = nginx.client_files().map(|file| file.display().to_string());
        #[rustfmt::skip]
        let ways: [(Way, &[&str], &[&str]); 5] = [
            (Way::Certificate, &["--prometheus.cert-file", &certificate,
                "--prometheus.key-file", &key], &["403"]),
            (Way::Tenant, &["--prometheus.header", "X-Scope-OrgID: ops"], &["401"]),
            (Way::Login, &["--prometheus.login-file", &login], &["401", "--prometheus.login-file"]),
            (Way::Session, &[], &["/sign-in"]),
            (Way::Page, &[], &["HTML"]),
        ];
        for (way, with, without) in ways {
            let url = nginx.url(way, "prometheus");
            let mut arguments =
                vec!["outbound", "--prometheus.url", &url, "--prometheus.ca-file", &ca];
            let refused = chain.drill(&arguments).await;
            assert_eq!(refused.code, Some(1), "{way:?}: {}", refused.text);
            for word in without {
                assert!(refused.says(word), "{way:?}: {}", refused.text);
            }
            if !with.is_empty() {
                arguments.extend(with);
                let heard = chain.drill(&arguments).await;
                assert!(without.iter().all(|word| !heard.says(word)), "{}", heard.text);
            }
        }
    })
    .await;
}

/// A dead man's switch that is notified as the drill is, and counted together with it: that the
/// drill was notified is not claimed.
#[tokio::test]
async fn what_is_counted_together_proves_nothing() {
    const WATCHDOG: &[Change] =
        &[(Text::Prometheus, "rule_files:\n", "rule_files:\n  - lockwatch-watchdog.rules.yml\n")];
    runs(async {
        let (_redis, chain) = start(Extent::SINGLE, WATCHDOG).await;
        chain.alerted("alertname", "LockwatchWatchdog").await;
        let said = chain.drill(&["outbound"]).await;
        assert_eq!(said.code, Some(3), "{}", said.text);
        assert!(said.says("LockwatchWatchdog"), "{}", said.text);
        chain.ends_are_received().await;
    })
    .await;
}

/// A receiver that is not notified of ends.
#[tokio::test]
async fn what_cannot_be_seen_is_said() {
    const SILENT: &[Change] = &[(
        Text::Alertmanager,
        "RECEIVERpager.example.com/operations\n        send_resolved: true",
        "RECEIVERpager.example.com/operations\n        send_resolved: false",
    )];
    runs(async {
        let (_redis, chain) = start(Extent::SINGLE, SILENT).await;
        let said = chain.drill(&["outbound"]).await;
        assert_eq!(said.code, Some(0), "{}", said.text);
        assert!(said.says("send_resolved"), "{}", said.text);
        assert_eq!(chain.received(), [(Status::Firing, "outbound".to_owned())]);
        chain.nothing_is_left(LONGEST).await;
    })
    .await;
}
