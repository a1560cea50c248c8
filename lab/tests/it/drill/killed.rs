//! What is killed in the middle of a drill: it is over soon, and nothing of it comes back.

use std::time::{Duration, Instant};

use lockwatch_lab::stack::{Redis, Status, until};
use tokio::process::Child;
use tokio::task::LocalSet;

use super::chain::{Chain, Extent, PATIENCE, Text, redis};

/// Without a sign of its command a drill goes on for 30 s.
const SOON: Duration = Duration::from_secs(60);
/// The alert stays in its group, so that the drill goes on until it is killed.
const NOBODY_NOTIFIED: &[super::chain::Change] =
    &[(Text::Alertmanager, "          group_wait: 0s\n", "          group_wait: 10m\n")];

async fn in_the_middle() -> (Redis, Chain, Child) {
    let redis = redis().await;
    let chain = Chain::start(&redis, Extent::IMPATIENT, NOBODY_NOTIFIED).await;
    let drill = chain.command(&["outbound"]).spawn().unwrap();
    chain.alerted("drill", "outbound").await;
    (redis, chain, drill)
}

/// The alert is gone within this time, and nothing of it fires again.
async fn is_over(chain: &Chain, within: Duration) {
    chain.nothing_is_left(within).await;
    assert!(chain.received().iter().all(|(status, _)| *status == Status::Resolved));
}

#[tokio::test]
async fn a_killed_command_ends_its_drill() {
    LocalSet::new()
        .run_until(async {
            let (_redis, chain, mut drill) = in_the_middle().await;
            drill.kill().await.unwrap();
            is_over(&chain, SOON).await;
            // No notification was reported, but there may have been one.
            let stopped = chain.drill(&["--stop"]).await;
            assert!(stopped.says("o drill runs"), "{}", stopped.text);
        })
        .await;
}

/// `--stop` ends it from elsewhere, but not at another replica.
#[tokio::test]
async fn a_drill_is_stopped_from_elsewhere() {
    LocalSet::new()
        .run_until(async {
            let redis = redis().await;
            let extent = Extent { two_agents: true, ..Extent::IMPATIENT };
            let chain = Chain::start(&redis, extent, NOBODY_NOTIFIED).await;
            let mut drill = chain.command(&["outbound"]).spawn().unwrap();
            chain.alerted("drill", "outbound").await;

            let second = chain.drill(&["inbound"]).await;
            assert_eq!(second.code, Some(1), "{}", second.text);
            for word in ["outbound", "--stop"] {
                assert!(second.says(word), "{}", second.text);
            }
            let other = format!("http://{}", chain.agents[1].address());
            let elsewhere = chain.drill(&["--stop", "--agent.url", &other]).await;
            assert!(elsewhere.says("o drill runs"), "{}", elsewhere.text);
            let stopped = chain.drill(&["--stop"]).await;
            assert_eq!(stopped.code, Some(0), "{}", stopped.text);
            is_over(&chain, SOON).await;
            let code = tokio::time::timeout(PATIENCE, drill.wait()).await.unwrap().unwrap();
            assert_eq!(code.code(), Some(1), "its drill was stopped by somebody else");
        })
        .await;
}

#[tokio::test]
async fn a_drill_ends_with_its_agent() {
    LocalSet::new()
        .run_until(async {
            let (_redis, mut chain, mut drill) = in_the_middle().await;
            chain.agents[0].kill().await.unwrap();
            let code = tokio::time::timeout(PATIENCE, drill.wait()).await.unwrap().unwrap();
            assert_eq!(code.code(), Some(1));
            is_over(&chain, SOON).await;
            chain.agents[0].start_again().await.unwrap();
            until(PATIENCE, "the agent is scraped again", async || {
                let up = chain.prometheis[0].query("up{job=\"lockwatch\"} == 1").await;
                up.is_ok_and(|series| !series.is_empty())
            })
            .await
            .unwrap();
            is_over(&chain, SOON).await;
        })
        .await;
}

/// What fired stays in Alertmanager for four times the time after which Prometheus sends again.
#[tokio::test]
async fn a_drill_ends_without_prometheus() {
    LocalSet::new()
        .run_until(async {
            let (_redis, mut chain, mut drill) = in_the_middle().await;
            chain.prometheis[0].kill().await.unwrap();
            let killed = Instant::now();
            let code = tokio::time::timeout(PATIENCE, drill.wait()).await.unwrap().unwrap();
            assert_eq!(code.code(), Some(1));
            chain.prometheis[0].start_again().await.unwrap();
            is_over(&chain, SOON).await;
            assert!(killed.elapsed() < Duration::from_secs(5 * 60));
        })
        .await;
}
