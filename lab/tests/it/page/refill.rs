//! A page that lacks some of the tasks requests them again, and reports a refusal.

use lockwatch_lab::page::Crowd;
use lockwatch_lab::stack::Browser;
use serde_json::json;

use crate::page::support::{LIVE, PATIENCE, open_live, row};

/// Replaces `fetch`: frames come from the test, and pages only when it permits. Names added to the
/// window must differ from the page's own functions.
const BETWEEN: &str = "const real = window.fetch; \
    window.refused = false; \
    window.fetch = (url, options) => { \
        if (!String(url).includes('live')) return window.refused ? Promise.reject(new \
    TypeError('refused')) : real(url, options); \
        const stream = new ReadableStream({ start(controller) { \
            window.deliver = (event, id, data) => controller.enqueue(new TextEncoder().encode( \
                `event: ${event}\\nid: ${id}\\ndata: ${JSON.stringify(data)}\\n\\n`)); \
            setInterval(() => window.deliver('beat', '', {at: Date.now(), stopped: null}), 500); \
        } }); \
        return Promise.resolve(new Response(stream)); \
    };";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_could_not_be_fetched_are_not_shown_as_if_they_were_new() {
    let crowd = Crowd::start(2).await.unwrap();
    let browser = Browser::start().await.unwrap();
    browser.before_pages(BETWEEN).await.unwrap();
    open_live(&browser, crowd.agent.address(), "/").await;
    browser.until(PATIENCE, LIVE).await.unwrap();
    let first =
        browser.value("document.querySelector('#tasks tr[data-task]').dataset.task").await.unwrap();
    let name = first.as_str().unwrap();
    // The frame has fewer tasks than exist, and one of them has changed.
    let script = format!(
        "window.refused = true; \
         const young = ({row}).cloneNode(true); \
         young.dataset.verdict = 'down'; \
         const {{ boot }} = document.documentElement.dataset; \
         window.deliver('all', `${{boot}}-1000000`, \
             {{seq: 1000000, at: Date.now(), rows: [[{name}, young.outerHTML]], counts: {{down: \
         1, running: 2000}}}});",
        row = row(name),
        name = json!(name),
    );
    browser.run(&script, &[]).await.unwrap();
    let notice = "document.querySelector('#connection').textContent.startsWith('Not all tasks could \
        be fetched')";
    browser
        .until(PATIENCE, &format!("{notice} && document.documentElement.classList.contains('stale')"))
        .await
        .unwrap();
    browser.run("window.refused = false", &[]).await.unwrap();
    browser.until(PATIENCE, LIVE).await.unwrap();
}
