//! The page never shows outdated state as current: it reports that its state is unknown, and
//! recovers by itself.

use std::time::Duration;

use lockwatch_lab::page::Hand;
use lockwatch_lab::stack::{Agent, Browser, Data, Cable, Redis, Signal, Weather, until};

use crate::page::support::{
    LIVE, PATIENCE, assert_quiet, is_the_same_document, now_ms, open_live, row, seen, verdict,
    watch,
};

const LEASE: Duration = Duration::from_secs(600);
const SAID_WITHIN_MS: f64 = 5000.0;
const NOT_LIVE: &str = "document.querySelector('#connection').textContent !== ''";

struct Trial {
    browser: Browser,
    link: Cable,
    agent: Agent,
    hand: Hand,
    redis: Redis,
}

impl Trial {
    async fn start() -> Trial {
        let redis = Redis::start().await.unwrap();
        let hand = Hand::at(&redis).await.unwrap();
        hand.hold(b"outbound:lock", b"first:1", LEASE).await.unwrap();
        let config = format!(
            "redis: {{main: {{url: \"redis://{}\", interval: 200ms, timeout: 1s}}}}\n\
             tasks:\n  - {{name: outbound, lock: {{key: \"outbound:lock\"}}, wanted: always, \
             settle: 1s, blind_after: 2s}}\n",
            redis.address()
        );
        let agent = Agent::start(&config).await.unwrap();
        let link = Cable::start(agent.address()).await.unwrap();
        let browser = Browser::start().await.unwrap();
        open_live(&browser, link.address(), "/").await;
        browser.until(PATIENCE, &format!("{} === 'running'", verdict("outbound"))).await.unwrap();
        browser.until(PATIENCE, LIVE).await.unwrap();
        watch(&browser, "outbound").await;
        Trial { browser, link, agent, hand, redis }
    }

    async fn hand_over(&self, to: &str) {
        self.hand.hold(b"outbound:lock", format!("{to}:1").as_bytes(), LEASE).await.unwrap();
    }

    /// Checks that the page reports within its time limit after `since_ms` that its state is
    /// unknown.
    async fn says_that_it_does_not_know(&self, since_ms: f64, why: &str) {
        self.browser.until(PATIENCE, NOT_LIVE).await.unwrap();
        let seen = seen(&self.browser).await;
        let said = seen.iter().rev().find(|seen| seen.connection.is_empty()).map(|last| last.at_ms);
        let said = seen
            .iter()
            .find(|seen| Some(seen.at_ms) > said && !seen.connection.is_empty())
            .unwrap();
        let late_ms = said.at_ms - since_ms;
        println!("{why}: said after {late_ms:.0} ms: {}", said.connection);
        assert!(late_ms <= SAID_WITHIN_MS, "{why}: {seen:?}");
    }

    async fn recovers_and_shows(&self, holder: &str) {
        self.browser.until(PATIENCE, LIVE).await.unwrap();
        let shows = format!("{}.cells[3].textContent.includes('{holder}')", row("outbound"));
        self.browser.until(PATIENCE, &shows).await.unwrap();
        assert!(is_the_same_document(&self.browser).await, "without a reload");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_stops_is_noticed_and_one_that_is_back_too() {
    let mut trial = Trial::start().await;
    let since_ms = now_ms();
    trial.agent.signal(Signal::Stop).await.unwrap();
    trial.says_that_it_does_not_know(since_ms, "a frozen agent").await;
    trial.hand_over("second").await;
    trial.agent.signal(Signal::Continue).await.unwrap();
    trial.recovers_and_shows("second").await;

    let since_ms = now_ms();
    trial.agent.kill().await.unwrap();
    trial.says_that_it_does_not_know(since_ms, "a dead agent").await;
    trial.hand_over("third").await;
    trial.agent.start_again().await.unwrap();
    trial.recovers_and_shows("third").await;

    // The page is live: it receives changes from the new agent.
    trial.hand_over("fourth").await;
    trial.recovers_and_shows("fourth").await;
    assert_quiet(&trial.browser, |line| line.is_of_the_network()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_fails_is_noticed_and_nothing_is_missed() {
    let trial = Trial::start().await;
    for (traffic, holder) in [(Weather::Hang, "second"), (Weather::Cut, "third")] {
        let since_ms = now_ms();
        trial.link.set(traffic);
        trial.says_that_it_does_not_know(since_ms, &format!("{traffic:?}")).await;
        trial.hand_over(holder).await;
        trial.link.set(Weather::Fair);
        trial.recovers_and_shows(holder).await;
    }
    assert_quiet(&trial.browser, |line| line.is_of_the_network()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_laptop_that_slept_shows_the_present() {
    let trial = Trial::start().await;
    trial.browser.freeze().await.unwrap();
    // The connection is gone when the browser wakes up, as after a night.
    trial.link.set(Weather::Cut);
    for holder in ["second", "third"] {
        trial.hand_over(holder).await;
        let shown = format!("holder=\"{holder}");
        until(PATIENCE, holder, async || {
            trial.agent.metrics().await.is_ok_and(|page| page.contains(&shown))
        })
        .await
        .unwrap();
    }
    trial.link.set(Weather::Fair);
    let since_ms = now_ms();
    trial.browser.thaw().await.unwrap();
    trial.recovers_and_shows("third").await;
    let late_ms = seen(&trial.browser).await.last().unwrap().at_ms - since_ms;
    println!("awake and right after {late_ms:.0} ms");
    assert!(late_ms <= SAID_WITHIN_MS, "{late_ms}");
    assert_quiet(&trial.browser, |line| line.is_of_the_network()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blind_agent_is_shown_plainly() {
    let mut trial = Trial::start().await;
    trial.redis.save().await.unwrap();
    trial.redis.kill().await.unwrap();
    trial.browser.until(PATIENCE, &format!("{} === 'unknown'", verdict("outbound"))).await.unwrap();
    let why =
        trial.browser.value(&format!("{}.cells[2].textContent", row("outbound"))).await.unwrap();
    println!("why: {why}");
    // The table of servers reports it too, with a remedy; the page itself is live.
    let servers = "document.querySelector('table.servers')";
    trial
        .browser
        .until(PATIENCE, &format!("{servers}.querySelector('[data-state=bad]') !== null"))
        .await
        .unwrap();
    trial.browser.until(PATIENCE, LIVE).await.unwrap();
    trial.redis.start_again(Data::Kept).await.unwrap();
    trial.browser.until(PATIENCE, &format!("{} === 'running'", verdict("outbound"))).await.unwrap();
    trial
        .browser
        .until(PATIENCE, &format!("{servers}.querySelector('[data-state=bad]') === null"))
        .await
        .unwrap();
    assert!(is_the_same_document(&trial.browser).await);
    assert_quiet(&trial.browser, |_| false).await;
}
