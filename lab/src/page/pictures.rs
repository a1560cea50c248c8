//! Takes screenshots of the web pages for the documentation.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tokio::process::Command;

use super::gallery::Gallery;
use crate::stack::{Browser, Media, Screen};

const LOADED_WITHIN: Duration = Duration::from_secs(20);

const TRACES: Screen = Screen { width: 1280, height: 860, pixels: 1.0, touch: false };
const PHONE: Screen = Screen { width: 390, height: 760, pixels: 1.5, touch: true };

struct Picture {
    file: &'static str,
    path: &'static str,
    dark: bool,
    screen: Screen,
}

const PICTURES: [Picture; 4] = [
    Picture { file: "list-light.png", path: "/", dark: false, screen: TRACES },
    Picture { file: "list-dark.png", path: "/", dark: true, screen: TRACES },
    Picture {
        file: "task.png",
        path: "/tasks/outbound?window=2m",
        dark: false,
        screen: Screen { height: 980, ..TRACES },
    },
    Picture { file: "phone.png", path: "/", dark: false, screen: PHONE },
];

/// Takes all screenshots into `folder`, once the gallery has a history.
pub(super) async fn take(folder: &Path) -> anyhow::Result<()> {
    let mut gallery = Gallery::start(&[]).await?;
    println!("the shown task gets its history, which takes two minutes");
    gallery.tell_a_story().await?;
    let browser = Browser::start().await?;
    for picture in &PICTURES {
        browser.media(Media { dark: picture.dark, calm: false }).await?;
        browser.screen(picture.screen).await?;
        browser.open(&format!("http://{}{}", gallery.agent.address(), picture.path)).await?;
        browser
            .until(LOADED_WITHIN, "document.querySelector('#connection').textContent === ''")
            .await?;
        let file = folder.join(picture.file);
        let image = browser.screenshot().await?;
        std::fs::write(&file, image).with_context(|| format!("cannot write {}", file.display()))?;
    }
    // Last, because it takes time in which the history continues.
    for file in PICTURES.iter().map(|picture| folder.join(picture.file)) {
        make_small(&file).await;
        println!("{}: {} kB", file.display(), file.metadata()?.len() / 1000);
    }
    Ok(())
}

/// Compresses a file with an optional program; without it, the files are larger.
async fn make_small(file: &Path) {
    let done = Command::new("optipng").args(["-quiet", "-o3"]).arg(file).status().await;
    if !done.is_ok_and(|status| status.success()) {
        println!("optipng would make {} smaller", file.display());
    }
}
