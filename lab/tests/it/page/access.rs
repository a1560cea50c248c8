//! Accessibility: keyboard, screen reader, dark mode, small screens.

use std::time::Duration;

use lockwatch_lab::page::{Gallery, Hand};
use lockwatch_lab::stack::{Agent, Axe, Browser, Key, Media, Redis, Signal};

use crate::page::support::{PATIENCE, assert_quiet, open_live, row, too_wide, url};

const LEASE: Duration = Duration::from_secs(600);
const LIGHT: Media = Media { dark: false, calm: false };
const DARK: Media = Media { dark: true, calm: true };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn axe_finds_nothing_and_nothing_is_too_wide() {
    let gallery = Gallery::start(&[]).await.unwrap();
    let address = gallery.agent.address();
    let browser = Browser::start().await.unwrap();
    let axe = Axe::load().unwrap();
    let mut found = Vec::new();
    for (media, width, height) in
        [(LIGHT, 1280, 900), (DARK, 1280, 900), (LIGHT, 390, 844), (DARK, 320, 640)]
    {
        browser.media(media).await.unwrap();
        browser.size(width, height).await.unwrap();
        for path in [
            "/",
            "/?q=no+such+task",
            "/?group=label.team",
            "/tasks/outbound",
            "/tasks/price%20import",
            "/tasks/carrier%20tracking",
        ] {
            open_live(&browser, address, path).await;
            let at = format!("{path} {media:?} {width}");
            found.extend(
                axe.violations(&browser)
                    .await
                    .unwrap()
                    .into_iter()
                    .map(|violation| format!("{at}: {violation}")),
            );
            found.extend(too_wide(&browser, &at).await);
        }
    }
    for width in [1100, 1024, 768, 600] {
        browser.size(width, 800).await.unwrap();
        for path in ["/", "/tasks/outbound"] {
            open_live(&browser, address, path).await;
            found.extend(too_wide(&browser, &format!("{path} {width}")).await);
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert_quiet(&browser, |_| false).await;

    // The banner of a page that lost its agent must be accessible too.
    open_live(&browser, address, "/").await;
    gallery.agent.signal(Signal::Stop).await.unwrap();
    browser
        .until(PATIENCE, "document.querySelector('#connection').textContent !== ''")
        .await
        .unwrap();
    for media in [LIGHT, DARK] {
        browser.media(media).await.unwrap();
        let violations = axe.violations(&browser).await.unwrap();
        assert!(violations.is_empty(), "stopped, {media:?}: {violations:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keyboard_is_enough() {
    let redis = Redis::start().await.unwrap();
    let hand = Hand::at(&redis).await.unwrap();
    hand.hold(b"a:lock", b"first:1", LEASE).await.unwrap();
    hand.hold(b"b:lock", b"first:1", LEASE).await.unwrap();
    let config = format!(
        "redis: {{main: {{url: \"redis://{}\"}}}}\n\
         tasks:\n  - {{name: a, lock: {{key: \"a:lock\"}}, wanted: always}}\n  - {{name: b, lock: \
         {{key: \"b:lock\"}}, wanted: always}}\n",
        redis.address()
    );
    let agent = Agent::start(&config).await.unwrap();
    let browser = Browser::start().await.unwrap();
    open_live(&browser, agent.address(), "/").await;

    // The first tab stop skips the header.
    browser.press(&[Key::Tab]).await.unwrap();
    assert_eq!(browser.value("document.activeElement.className").await.unwrap(), "skip");
    assert_eq!(browser.value("document.activeElement.checkVisibility()").await.unwrap(), true);
    let focused = "document.activeElement.closest('tr')?.dataset.task ?? null";
    let mut stops = 0;
    while browser.value(focused).await.unwrap() != "b" {
        stops += 1;
        assert!(stops < 60, "Tab never comes to the row");
        browser.press(&[Key::Tab]).await.unwrap();
    }
    let outline = "getComputedStyle(document.activeElement).outlineStyle !== 'none'";
    assert_eq!(browser.value(outline).await.unwrap(), true, "the focus can be seen");

    // Changes to this row and to others keep the focus.
    for task in ["a", "b"] {
        hand.hold(format!("{task}:lock").as_bytes(), b"second:1", LEASE).await.unwrap();
        let changed = format!("{}.cells[3].textContent.includes('second')", row(task));
        browser.until(PATIENCE, &changed).await.unwrap();
        assert_eq!(browser.value(focused).await.unwrap(), "b", "{task} changed");
    }
    browser.press(&[Key::Enter]).await.unwrap();
    browser
        .until(
            PATIENCE,
            "location.pathname === '/tasks/b' && document.querySelector('#task') !== null",
        )
        .await
        .unwrap();
    browser.back().await.unwrap();
    browser.until(PATIENCE, "location.pathname === '/'").await.unwrap();
    // The page becomes live again, also when the browser restores it from its cache.
    hand.hold(b"a:lock", b"third:1", LEASE).await.unwrap();
    browser
        .until(PATIENCE, &format!("{}.cells[3].textContent.includes('third')", row("a")))
        .await
        .unwrap();
    assert_quiet(&browser, |_| false).await;
    browser.open(&url(agent.address(), "/tasks/none")).await.unwrap();
    let text = browser.value("document.body.innerText").await.unwrap();
    assert!(text.as_str().unwrap().contains("none"), "a task that does not exist is named: {text}");
}
