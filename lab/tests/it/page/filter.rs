//! Filters and groups, by the script in the page and, without scripts, by the agent.

use lockwatch_lab::page::Gallery;
use lockwatch_lab::stack::{Browser, Key};
use serde_json::{Value, json};

use crate::page::support::{PATIENCE, assert_quiet, is_the_same_document, open_live, url};

/// The names of the visible rows, in order.
const SHOWN: &str = "[...document.querySelectorAll('#tasks tr[data-task]')].filter(row => \
    row.checkVisibility()).map(row => row.dataset.task)";

fn by_verdict(verdicts: &[&str]) -> Vec<&'static str> {
    Gallery::verdicts()
        .filter(|(_, verdict)| verdicts.contains(verdict))
        .map(|(name, _)| name)
        .collect()
}

async fn shown(browser: &Browser) -> Vec<String> {
    serde_json::from_value(browser.value(SHOWN).await.unwrap()).unwrap()
}

async fn choose(browser: &Browser, name: &str, value: &str) {
    let script = "const field = document.querySelector('#filter').elements[arguments[0]]; \
        field.value = arguments[1]; \
        field.dispatchEvent(new Event('input', {bubbles: true})); field.dispatchEvent(new \
        Event('change', {bubbles: true}));";
    browser.run(script, &[json!(name), json!(value)]).await.unwrap();
}

async fn until_shown(browser: &Browser, names: &[&str]) {
    browser
        .until(
            PATIENCE,
            &format!("JSON.stringify({SHOWN}) === {}", json!(json!(names).to_string())),
        )
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_and_groups_with_and_without_the_script() {
    let gallery = Gallery::start(&[]).await.unwrap();
    let address = gallery.agent.address();
    let browser = Browser::start().await.unwrap();
    open_live(&browser, address, "/").await;
    let all = shown(&browser).await;
    assert_eq!(all.len(), Gallery::verdicts().count());
    assert_eq!(
        &all[..4],
        ["price import", "returns", "invoice run", "stock levels"],
        "worst first"
    );

    // Types as a user does.
    browser.run("document.querySelector('#filter [name=q]').focus()", &[]).await.unwrap();
    browser.press(&"INVOICE".chars().map(Key::Letter).collect::<Vec<_>>()).await.unwrap();
    until_shown(&browser, &["invoice run"]).await;
    browser.until(PATIENCE, "location.search === '?q=INVOICE'").await.unwrap();
    choose(&browser, "q", "no such task").await;
    until_shown(&browser, &[]).await;
    browser.until(PATIENCE, "document.querySelector('#none').checkVisibility()").await.unwrap();
    choose(&browser, "q", "").await;
    choose(&browser, "verdict", "stopped").await;
    until_shown(&browser, &by_verdict(&["stopped"])).await;
    choose(&browser, "verdict", "").await;
    choose(&browser, "redis", "carriers").await;
    until_shown(&browser, &["carrier tracking"]).await;
    choose(&browser, "redis", "").await;
    choose(&browser, "label.team", "finance").await;
    until_shown(&browser, &["invoice run", "nightly report"]).await;
    choose(&browser, "label.team", "").await;
    choose(&browser, "group", "label.team").await;
    let groups = "[...document.querySelectorAll('#tasks tbody')].filter(body => \
        body.checkVisibility()).map(body => body.dataset.group)";
    browser
        .until(
            PATIENCE,
            &format!(
                "JSON.stringify({groups}) === '[\"finance\",\"logistics\",\"purchasing\",\"shop\"]'"
            ),
        )
        .await
        .unwrap();
    until_shown(
        &browser,
        &[
            "invoice run",
            "nightly report",
            "returns",
            "carrier tracking",
            "label printer",
            "inbound",
            "outbound",
            "price import",
            "stock levels",
            "reorder proposals",
            "mail dispatcher",
            "search index",
        ],
    )
    .await;
    assert!(is_the_same_document(&browser).await);
    assert_eq!(browser.value("location.search").await.unwrap(), "?group=label.team");

    // The agent renders the same result as the script, so a link to it can be shared.
    for scripts in [true, false] {
        browser.scripts(scripts).await.unwrap();
        for (query, expected) in [
            ("?q=INVOICE", vec!["invoice run"]),
            ("?verdict=stopped", by_verdict(&["stopped"])),
            ("?redis=carriers", vec!["carrier tracking"]),
            ("?label.team=finance", vec!["invoice run", "nightly report"]),
            ("?label.team=finance&group=redis&verdict=stalled", vec!["invoice run"]),
            ("?q=no+such+task", vec![]),
        ] {
            browser.open(&url(address, &format!("/{query}"))).await.unwrap();
            assert_eq!(shown(&browser).await, expected, "{query}, scripts: {scripts}");
        }
    }
    // Without scripts, the form sends a request to the agent.
    browser.open(&url(address, "/")).await.unwrap();
    browser.run("document.querySelector('#filter [name=q]').focus()", &[]).await.unwrap();
    browser
        .press(&"printer".chars().map(Key::Letter).chain([Key::Enter]).collect::<Vec<_>>())
        .await
        .unwrap();
    browser.until(PATIENCE, "location.search.includes('q=printer')").await.unwrap();
    assert_eq!(shown(&browser).await, ["label printer"]);
    assert_quiet(&browser, |_| false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_script_it_is_a_plain_table_that_loads_itself_again() {
    let gallery = Gallery::start(&[]).await.unwrap();
    let browser = Browser::start().await.unwrap();
    browser.scripts(false).await.unwrap();
    browser.open(&url(gallery.agent.address(), "/")).await.unwrap();
    assert_eq!(shown(&browser).await.len(), Gallery::verdicts().count());
    let empty = "[...document.querySelectorAll('#tasks time, #tasks [data-left]')].filter(element \
        => element.textContent === '').length";
    assert_eq!(browser.value(empty).await.unwrap(), Value::from(0), "what runs on is filled in");
    let loaded = browser.value("performance.timeOrigin").await.unwrap();
    browser
        .until(
            PATIENCE,
            &format!("performance.timeOrigin > {loaded} && document.readyState === 'complete'"),
        )
        .await
        .unwrap();
    assert_eq!(shown(&browser).await.len(), Gallery::verdicts().count());
    assert_quiet(&browser, |_| false).await;
}
