//! A thousand hostile names, holders, hosts and users must be shown as plain text.

use std::fmt::Write as _;

use lockwatch_lab::page::Hand;
use lockwatch_lab::stack::{Agent, Browser, Redis};
use redis::pipe;
use serde_json::json;

use crate::page::support::{PATIENCE, assert_quiet, open_live, url};

const TASKS: usize = 1000;

/// Task names: text without control characters, at most 200 bytes. `{n}` becomes the number of the
/// task.
const NAMES: [&str; 16] = [
    "<script>window.harm={n}</script>",
    "</script><script>window.harm={n}</script>",
    "\"><img src=x onerror=\"window.harm={n}\">",
    "' onmouseover='window.harm={n}' x='",
    "</table></main><h1 id=harm>{n}",
    "--><svg onload=window.harm={n}>",
    "javascript:window.harm={n}",
    "{n}&lt;b&gt;&amp;&#60;i&#62;",
    "\u{202e}{n}txt.exe\u{202c}",
    "../../{n}/..//?q=1#x",
    "{n}%2F%00%0d%0aSet-Cookie:x=1",
    "`${window.harm={n}}`{{harm}}",
    "data: {n}\\n\\nevent: all\\ndata: {}",
    "]]></tr><!-- {n}",
    "\u{feff}\u{200b}{n}\u{2028}\u{2029}",
    "=HYPERLINK(\"http://x/{n}\")",
];

/// Holders, users and hosts may be any bytes.
const BYTES: [&[u8]; 6] = [
    b"\xff\xfe<b>",
    b"\x00\x1b[31m<script>window.harm=1</script>",
    b"\r\n\r\nevent: all\r\ndata: {}\r\n\r\n",
    b"\xc0\xaf\xed\xa0\x80",
    b"\x7f\x9b\"'><img src=x onerror=alert(1)>",
    b"\xe2\x80\xae\xf0\x9f\x92\xa3",
];

fn name(at: usize) -> String {
    NAMES[at % NAMES.len()].replace("{n}", &at.to_string())
}

fn bytes(at: usize) -> Vec<u8> {
    [name(at).as_bytes(), BYTES[at % BYTES.len()]].concat()
}

fn key(at: usize) -> Vec<u8> {
    [format!("lock:{at}:").as_bytes(), BYTES[at % BYTES.len()]].concat()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

async fn hold(hand: &Hand, tasks: impl Iterator<Item = usize>, holder: &str) {
    let mut commands = pipe();
    for at in tasks {
        let instance = [holder.as_bytes(), &bytes(at)].concat();
        let holder = [&instance, b":1".as_slice()].concat();
        commands
            .del(key(at))
            .ignore()
            .hset(key(at), &holder, 1)
            .ignore()
            .pexpire(key(at), 600_000)
            .ignore();
        commands.hset(format!("users:{at}"), bytes(at + 1), 1).ignore();
        commands.hset(format!("hosts:{at}"), &instance, bytes(at + 2)).ignore();
    }
    hand.send(&mut commands).await.unwrap();
}

fn config(redis: &Redis) -> String {
    let mut text = format!(
        "redis: {{\"<u>main</u>\": {{url: \"redis://{}\"}}}}\nlabels: [team]\ntasks:\n",
        redis.address()
    );
    for at in 0..TASKS {
        let (name, key) = (json!(name(at)), hex(&key(at)));
        writeln!(
            text,
            "  - {{name: {name}, lock: {{key: {{hex: \"{key}\"}}}}, wanted: {{hash: \
            \"users:{at}\"}}, hosts: {{hash: \"hosts:{at}\"}}, labels: {{team: {}}}}}",
            json!(NAMES[at % 3].replace("{n}", "1"))
        )
        .unwrap();
    }
    text
}

/// Elements that can only come from injected markup.
const FOREIGN: &str = "document.querySelectorAll('img, svg [onload], iframe, object, #harm, b, i, \
    u, script:not([src=\"/app.js\"]), [onerror], [onload], [onmouseover], [style], base').length";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_hostile_names_and_values_are_text() {
    let redis = Redis::start().await.unwrap();
    let hand = Hand::at(&redis).await.unwrap();
    hold(&hand, 0..TASKS, "first").await;
    let agent = Agent::start(&config(&redis)).await.unwrap();
    let browser = Browser::start().await.unwrap();
    open_live(&browser, agent.address(), "/").await;
    browser
        .until(
            PATIENCE,
            &format!(
                "document.querySelectorAll('#tasks tr[data-verdict=running]').length === {TASKS}"
            ),
        )
        .await
        .unwrap();
    let is_harmless = async |place: &str| {
        assert_eq!(browser.value(FOREIGN).await.unwrap(), 0, "{place}");
        assert_eq!(browser.value("typeof window.harm").await.unwrap(), "undefined", "{place}");
        assert_eq!(
            browser.value("document.querySelectorAll('main').length").await.unwrap(),
            1,
            "{place}"
        );
        let controls = "/[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u202a-\\u202e\\u2066-\\u2069\\ufffd]/.test(document.body.innerText)";
        assert_eq!(browser.value(controls).await.unwrap(), false, "{place}");
    };
    is_harmless("the list").await;

    // Rows that arrive live, with the same names.
    hold(&hand, 0..TASKS, "second").await;
    let arrived = "[...document.querySelectorAll('#tasks tr[data-task]')].filter(row => \
        row.cells[3].textContent.includes('second')).length";
    browser.until(PATIENCE, &format!("{arrived} === {TASKS}")).await.unwrap();
    is_harmless("the list, live").await;
    let names: Vec<String> = (0..TASKS).map(name).collect();
    let same = "const names = new Set(arguments[0]); const rows = \
        [...document.querySelectorAll('#tasks tr[data-task]')]; \
        return rows.length === names.size && rows.every(row => names.has(row.dataset.task));";
    assert_eq!(browser.run(same, &[json!(names)]).await.unwrap(), true);

    // The page of one task of each kind, reached by its link.
    let kinds: Vec<String> = (0..NAMES.len()).map(name).collect();
    let links = "return arguments[0].map(name => [...document.querySelectorAll('#tasks \
        tr[data-task]')] \
        .find(row => row.dataset.task === name).querySelector('th a').getAttribute('href'))";
    let links: Vec<String> =
        serde_json::from_value(browser.run(links, &[json!(kinds)]).await.unwrap()).unwrap();
    for (name, link) in kinds.iter().zip(&links).rev() {
        open_live(&browser, agent.address(), link).await;
        assert_eq!(
            browser.value("document.documentElement.dataset.task").await.unwrap(),
            name.as_str()
        );
        is_harmless(name).await;
    }
    // The browser still shows the first task's page.
    hold(&hand, 0..1, "third").await;
    browser
        .until(PATIENCE, "document.querySelector('#task').textContent.includes('third')")
        .await
        .unwrap();
    is_harmless("a task's page, live").await;
    // Filters treat the names as text too.
    browser
        .open(&url(
            agent.address(),
            "/?q=%22%3E%3Cimg+src%3Dx+onerror%3D%22window.harm&group=label.team&redis=%3Cu%3E",
        ))
        .await
        .unwrap();
    is_harmless("a hostile query").await;
    assert_quiet(&browser, |_| false).await;
}
