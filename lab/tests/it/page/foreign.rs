//! Embedding in another site: a badge, and one task in a frame.

use lockwatch_lab::page::Gallery;
use lockwatch_lab::stack::{Browser, Site};

use crate::page::support::PATIENCE;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_badge_is_for_everybody_and_a_frame_for_those_who_may() {
    let allowed = Site::address().unwrap();
    let gallery =
        Gallery::start(&["--web.frame-ancestor", &format!("http://{allowed}")]).await.unwrap();
    let agent = format!("http://{}", gallery.agent.address());
    let page = |path: &str| {
        format!("<!doctype html><title>WMS</title><iframe src=\"{agent}{path}\"></iframe>")
    };
    let badge =
        format!("<!doctype html><title>WMS</title><img src=\"{agent}/badge/price%20import.svg\">");
    let pages =
        || [("/task", page("/tasks/outbound")), ("/list", page("/")), ("/badge", badge.clone())];
    let allowed = Site::open(allowed, pages()).await.unwrap();
    let other = Site::open(Site::address().unwrap(), pages()).await.unwrap();
    let browser = Browser::start().await.unwrap();

    for site in [&allowed, &other] {
        browser.open(&site.url("/badge")).await.unwrap();
        let picture =
            "[document.images[0].complete, document.images[0].naturalWidth > 0].every(Boolean)";
        browser.until(PATIENCE, picture).await.unwrap();
    }
    for (site, path, may) in
        [(&allowed, "/task", true), (&other, "/task", false), (&allowed, "/list", false)]
    {
        browser.open(&site.url(path)).await.unwrap();
        browser.enter_frame(Some(0)).await.unwrap();
        let shown =
            browser.value("document.querySelector('#task, #tasks') !== null").await.unwrap();
        assert_eq!(shown, may, "{path} in {}", site.url("/"));
        if may {
            // The framed page is live too.
            browser
                .until(
                    PATIENCE,
                    "document.querySelector('#task .verdict').textContent === 'running'",
                )
                .await
                .unwrap();
            browser
                .until(PATIENCE, "document.querySelector('#connection').textContent === ''")
                .await
                .unwrap();
        }
        browser.enter_frame(None).await.unwrap();
    }
    let console = browser.console().await.unwrap();
    let refused = console.iter().filter(|line| line.message.contains("frame-ancestors")).count();
    assert_eq!(refused, 2, "{console:?}");
    let bad: Vec<_> = console
        .iter()
        .filter(|line| {
            line.is_bad()
                && !line.message.contains("frame-ancestors")
                && !line.message.contains("favicon")
        })
        .collect();
    assert!(bad.is_empty(), "{bad:?}");
}
