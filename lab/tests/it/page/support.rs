//! Helpers of these tests.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockwatch_lab::stack::{Browser, ConsoleLine};
use serde_json::{Value, json};

/// Timeout for steps that need not be fast, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Script: whether the page is live.
pub(crate) const LIVE: &str = "document.querySelector('#connection').textContent === ''";

/// By how much the page is wider than the window when the running durations are at their longest.
const TOO_WIDE: &str = "for (const time of document.querySelectorAll('time[data-since], \
    time[data-ago]')) \
        time.textContent = time.dataset.ago ? '59 min 59 s ago' : '59 min 59 s'; \
    const {scrollWidth, clientWidth} = document.documentElement; return scrollWidth - clientWidth;";

pub(crate) fn url(address: SocketAddr, path: &str) -> String {
    format!("http://{address}{path}")
}

/// Script expression: the row of a task.
pub(crate) fn row(task: &str) -> String {
    format!(
        "[...document.querySelectorAll('#tasks tr[data-task]')].find(row => row.dataset.task === \
         {})",
        json!(task)
    )
}

/// Script expression: the verdict in that row.
pub(crate) fn verdict(task: &str) -> String {
    format!("{}.dataset.verdict", row(task))
}

/// Opens a page, waits until it is live, and marks its document.
pub(crate) async fn open_live(browser: &Browser, address: SocketAddr, path: &str) {
    open_live_at(browser, &url(address, path)).await;
}

/// The same for a page that is named by its URL.
pub(crate) async fn open_live_at(browser: &Browser, url: &str) {
    browser.open(url).await.unwrap();
    browser.run("window.marker = 'the same document'", &[]).await.unwrap();
}

/// Whether the document still has the mark, so was not reloaded.
pub(crate) async fn is_the_same_document(browser: &Browser) -> bool {
    browser.value("window.marker").await.unwrap() == "the same document"
}

/// Checks that the console has no errors except expected network errors.
pub(crate) async fn assert_quiet(
    browser: &Browser,
    mut expected: impl FnMut(&ConsoleLine) -> bool,
) {
    let console = browser.console().await.unwrap();
    let bad: Vec<&ConsoleLine> =
        console.iter().filter(|line| line.is_bad() && !expected(line)).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

/// Whether the page is wider than the window, in words.
pub(crate) async fn too_wide(browser: &Browser, at: &str) -> Option<String> {
    let by = browser.run(TOO_WIDE, &[]).await.unwrap();
    (by != 0).then(|| format!("{at}: too wide by {by} px"))
}

/// Records `[epoch ms, text of #connection, verdict, holder]` of a task in `window.seen` at each
/// change from now on.
pub(crate) async fn watch(browser: &Browser, task: &str) {
    let script = format!(
        "window.seen = []; \
         const note = () => {{ \
             const row = {row}; \
             const now = [document.querySelector('#connection').textContent, row?.dataset.verdict \
         ?? null, row?.cells[3].textContent ?? null]; \
             const last = window.seen.at(-1); \
             if (!last || JSON.stringify(last.slice(1)) !== JSON.stringify(now)) \
                 window.seen.push([performance.timeOrigin + performance.now(), ...now]); \
         }}; \
         note(); \
         new MutationObserver(note).observe(document.body, {{subtree: true, childList: true, \
         attributes: true, characterData: true}});",
        row = row(task)
    );
    browser.run(&script, &[]).await.unwrap();
}

/// What `watch` has recorded.
pub(crate) async fn seen(browser: &Browser) -> Vec<Seen> {
    let seen = browser.value("window.seen").await.unwrap();
    seen.as_array().unwrap().iter().map(Seen::from).collect()
}

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at_ms: f64,
    pub(crate) connection: String,
    pub(crate) verdict: String,
    pub(crate) holder: String,
}

impl From<&Value> for Seen {
    fn from(seen: &Value) -> Seen {
        let text = |at: usize| seen[at].as_str().unwrap_or_default().to_owned();
        Seen {
            at_ms: seen[0].as_f64().unwrap(),
            connection: text(1),
            verdict: text(2),
            holder: text(3),
        }
    }
}

pub(crate) fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0
}
