//! A real browser: headless Chromium, driven by chromedriver over the WebDriver protocol.

mod console;
mod keys;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::http;
use super::port::free_address;
use super::process::{Process, Signal, cpu_time, kill_group, parents, signal_group, until};
use super::program::Program;

pub use console::ConsoleLine;
pub use keys::Key;

/// Maximum duration of one command or script; generous, for a busy machine.
const COMMAND_WITHIN: Duration = Duration::from_secs(60);
/// Maximum length of a page's text in an error message, in characters.
const SHOWN_CHARS: usize = 3000;
/// Flags for a quiet and fast start. Without `--no-sandbox` Chromium does not start as root.
const CHROMIUM: [&str; 12] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
];

/// A running browser with one window and an empty profile: no history, cache or settings. Killed
/// when dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Process,
    address: std::net::SocketAddr,
    session: String,
    folder: TempDir,
}

/// The visitor's preferences for the display of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Media {
    /// Prefers dark colours.
    pub dark: bool,
    /// Prefers reduced motion.
    pub calm: bool,
}

/// The screen on which pages are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Screen {
    /// Width in CSS pixels.
    pub width: u32,
    /// Height in CSS pixels.
    pub height: u32,
    /// Device pixels per CSS pixel.
    pub pixels: f64,
    /// Behaves like a phone's: the viewport meta tag counts, and scrollbars take no room.
    pub touch: bool,
}

/// CPU time of the browser's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrowserTime {
    /// Of the processes that run pages: scripts, styles, layout and painting.
    pub renderers: Duration,
    /// Of all processes, including the network and, without a graphics card, the compositing.
    pub all: Duration,
}

impl Browser {
    /// Starts a browser with an empty page.
    ///
    /// # Errors
    /// When it does not start; the error has the end of chromedriver's log.
    pub async fn start() -> anyhow::Result<Browser> {
        let (address, folder) = (free_address()?, TempDir::new()?);
        let mut command = Command::new(Program::Chromedriver.find()?);
        command.arg(format!("--port={}", address.port()));
        // Files that Chromium writes outside its profile also belong into this folder.
        for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"] {
            command.env(variable, folder.path());
        }
        let driver = Process::start(command, folder.path().join("chromedriver.log"))?;
        let mut browser = Browser { driver, address, session: String::new(), folder };
        browser
            .driver
            .ready(async || status_is_ready(address).await)
            .await
            .context("chromedriver")?;
        let arguments = CHROMIUM.into_iter().map(str::to_owned);
        let profile =
            format!("--user-data-dir={}", browser.folder.path().join("profile").display());
        let capabilities = json!({
            // Those of the lab's own authorities, which nobody else knows.
            "acceptInsecureCerts": true,
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": arguments.chain([profile]).collect::<Vec<_>>()},
        });
        let answer = ask(
            address,
            "POST",
            "/session",
            &json!({"capabilities": {"alwaysMatch": capabilities}}),
        )
        .await?;
        browser.session = text(&answer, "sessionId").context("a session without id")?.to_owned();
        Ok(browser)
    }

    /// Opens a page, and returns when it is loaded.
    ///
    /// # Errors
    /// When it cannot be loaded.
    pub async fn open(&self, url: &str) -> anyhow::Result<()> {
        self.post("url", json!({"url": url})).await.map(drop)
    }

    /// Reloads the page.
    ///
    /// # Errors
    /// When it cannot be loaded.
    pub async fn refresh(&self) -> anyhow::Result<()> {
        self.post("refresh", json!({})).await.map(drop)
    }

    /// Goes back by one page.
    ///
    /// # Errors
    /// When there is no previous page.
    pub async fn back(&self) -> anyhow::Result<()> {
        self.post("back", json!({})).await.map(drop)
    }

    /// Runs a function body in the page and returns its result. The page's Content-Security-Policy
    /// does not prevent that.
    ///
    /// # Errors
    /// When it throws, or the page shows a dialog.
    pub async fn run(&self, script: &str, arguments: &[Value]) -> anyhow::Result<Value> {
        self.post("execute/sync", json!({"script": script, "args": arguments})).await
    }

    /// Like [`Browser::run`], for an expression.
    ///
    /// # Errors
    /// When it throws, or the page shows a dialog.
    pub async fn value(&self, expression: &str) -> anyhow::Result<Value> {
        self.run(&format!("return ({expression})"), &[]).await
    }

    /// Like [`Browser::run`], for a function that must call its last argument with the result.
    ///
    /// # Errors
    /// When it throws, or does not do so in time.
    pub async fn run_async(&self, script: &str, arguments: &[Value]) -> anyhow::Result<Value> {
        self.post("execute/async", json!({"script": script, "args": arguments})).await
    }

    /// Waits until an expression is true in the page.
    ///
    /// # Errors
    /// When the expression is not true within `within`; the error has the page's text.
    pub async fn until(&self, within: Duration, expression: &str) -> anyhow::Result<()> {
        // While the page is being left, the expression may fail.
        let holds =
            async || self.value(expression).await.is_ok_and(|value| value == Value::Bool(true));
        if until(within, expression, holds).await.is_ok() {
            return Ok(());
        }
        // Evaluated again for the error message.
        let value = self.value(expression).await?;
        let shown = self.value("document.documentElement.innerText").await?;
        let shown: String = shown.as_str().unwrap_or_default().chars().take(SHOWN_CHARS).collect();
        let console = self.console().await?;
        bail!(
            "not within {within:?}: {expression}\n\
             it is {value}; the console says {console:?}; the page shows:\n{shown}"
        )
    }

    /// Directs all further commands to the frame at this position of the page; `None`: to the page
    /// itself.
    ///
    /// # Errors
    /// When there is no such frame.
    pub async fn enter_frame(&self, position: Option<u32>) -> anyhow::Result<()> {
        self.post("frame", json!({"id": position})).await.map(drop)
    }

    /// Installs a script that runs in each page opened from now on, before the page's own.
    ///
    /// # Errors
    /// When chromedriver refuses.
    pub async fn before_pages(&self, script: &str) -> anyhow::Result<()> {
        self.devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": script})).await
    }

    /// Presses and releases keys, one after the other.
    ///
    /// # Errors
    /// When chromedriver refuses.
    pub async fn press(&self, keys: &[Key]) -> anyhow::Result<()> {
        self.post("actions", keys::actions(keys)).await.map(drop)
    }

    /// Sets the size of the window in CSS pixels.
    ///
    /// # Errors
    /// When chromedriver refuses.
    pub async fn size(&self, width: u32, height: u32) -> anyhow::Result<()> {
        self.screen(Screen { width, height, pixels: 1.0, touch: false }).await
    }

    /// Sets the screen on which pages are shown.
    ///
    /// # Errors
    /// When chromedriver refuses.
    pub async fn screen(&self, screen: Screen) -> anyhow::Result<()> {
        let Screen { width, height, pixels, touch } = screen;
        // Windows have a minimum width that is greater than a phone's.
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": pixels, "mobile": touch});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await
    }

    /// Sets the visitor's preferences.
    ///
    /// # Errors
    /// When chromedriver refuses.
    pub async fn media(&self, media: Media) -> anyhow::Result<()> {
        let scheme = if media.dark { "dark" } else { "light" };
        let motion = if media.calm { "reduce" } else { "no-preference" };
        let features = json!({"features": [
            {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion},
        ]});
        self.devtools("Emulation.setEmulatedMedia", features).await
    }

    /// Sets whether pages that are opened from now on may run scripts. [`Browser::run`] always may.
    ///
    /// # Errors
    /// When chromedriver refuses.
    pub async fn scripts(&self, allowed: bool) -> anyhow::Result<()> {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({"value": !allowed})).await
    }

    /// Sets whether the browser believes that the network is down.
    ///
    /// # Errors
    /// When chromedriver refuses.
    pub async fn offline(&self, offline: bool) -> anyhow::Result<()> {
        self.devtools("Network.enable", json!({})).await?;
        let conditions = json!({"offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1});
        self.devtools("Network.emulateNetworkConditions", conditions).await
    }

    /// A screenshot of the window as PNG.
    ///
    /// # Errors
    /// When it cannot be taken.
    pub async fn screenshot(&self) -> anyhow::Result<Vec<u8>> {
        let picture = self.command("GET", "screenshot", &Value::Null).await?;
        STANDARD
            .decode(picture.as_str().context("no picture")?)
            .context("a picture that is not base64")
    }

    /// The lines in the browser's console since the last call.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn console(&self) -> anyhow::Result<Vec<ConsoleLine>> {
        let lines = self.post("se/log", json!({"type": "browser"})).await?;
        Ok(lines.as_array().context("no lines")?.iter().map(ConsoleLine::from).collect())
    }

    /// Stops all its processes, as when a laptop is suspended.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn freeze(&self) -> anyhow::Result<()> {
        signal_group(self.group()?, Signal::Stop).await
    }

    /// Continues all its processes.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn thaw(&self) -> anyhow::Result<()> {
        signal_group(self.group()?, Signal::Continue).await
    }

    /// Its CPU time since it was started.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cpu_time(&self) -> anyhow::Result<BrowserTime> {
        let mut time = BrowserTime::default();
        for id in descendants(self.group()?, &parents()?) {
            let busy = cpu_time(id).unwrap_or_default();
            time.all += busy;
            if is_renderer(id) {
                time.renderers += busy;
            }
        }
        Ok(time)
    }

    fn group(&self) -> anyhow::Result<u32> {
        self.driver.id().context("chromedriver has ended")
    }

    async fn devtools(&self, command: &str, parameters: Value) -> anyhow::Result<()> {
        let answer =
            self.post("goog/cdp/execute", json!({"cmd": command, "params": parameters})).await;
        answer.map(drop).with_context(|| command.to_owned())
    }

    async fn post(&self, verb: &str, body: Value) -> anyhow::Result<Value> {
        self.command("POST", verb, &body).await
    }

    async fn command(&self, method: &str, verb: &str, body: &Value) -> anyhow::Result<Value> {
        ask(self.address, method, &format!("/session/{}/{verb}", self.session), body).await
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Killing only chromedriver would leave its Chromium running.
        if let Some(id) = self.driver.id() {
            let _it_may_have_ended = kill_group(id);
        }
    }
}

async fn status_is_ready(address: std::net::SocketAddr) -> bool {
    ask(address, "GET", "/status", &Value::Null)
        .await
        .is_ok_and(|status| status.get("ready") == Some(&Value::Bool(true)))
}

/// Sends one command of the WebDriver protocol; returns the `value` of the response.
async fn ask(
    address: std::net::SocketAddr,
    method: &str,
    path: &str,
    body: &Value,
) -> anyhow::Result<Value> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = http::command(address, method, path, &body, COMMAND_WITHIN).await?;
    let value: Value =
        serde_json::from_str(&answer.body).with_context(|| format!("not JSON: {}", answer.body))?;
    let value = value.get("value").cloned().context("an answer without value")?;
    if answer.status != 200 {
        bail!(
            "{}: {}",
            text(&value, "error").unwrap_or("error"),
            text(&value, "message").unwrap_or_default()
        );
    }
    Ok(value)
}

/// A string field of an object.
fn text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str()
}

/// All descendants of the process `root`.
fn descendants(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let children = parents.iter().filter(|(_, parent)| *parent == root);
    children.flat_map(|(id, _)| std::iter::once(*id).chain(descendants(*id, parents))).collect()
}

fn is_renderer(id: u32) -> bool {
    let line =
        std::fs::read(Path::new("/proc").join(id.to_string()).join("cmdline")).unwrap_or_default();
    line.split(|byte| matches!(byte, 0 | b' ')).any(|argument| argument == b"--type=renderer")
}

#[cfg(test)]
mod tests {
    use super::descendants;

    #[test]
    fn descendants_are_those_below_at_any_depth() {
        assert_eq!(descendants(2, &[(2, 1), (3, 2), (4, 3), (5, 1), (6, 2)]), [3, 4, 6]);
    }
}
