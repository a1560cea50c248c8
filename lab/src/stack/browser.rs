//! A real browser: Chromium without a window, driven by chromedriver through the WebDriver
//! protocol.

mod axe;
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

pub use axe::Axe;
pub use console::ConsoleLine;
pub use keys::Key;

/// Bound of one command; generous, for a busy machine. A script may take as long.
const COMMAND_WITHIN: Duration = Duration::from_secs(60);
/// How much of a page an error message shows.
const SHOWN_CHARS: usize = 3000;
/// What makes Chromium quiet and its start quick. Without `--no-sandbox` it does not start as root.
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

/// A running browser with one window. It has no history, no cache and no settings of anybody, and
/// is killed when dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Process,
    address: std::net::SocketAddr,
    session: String,
    folder: TempDir,
}

/// How the visitor wants pages to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Media {
    /// In dark colours.
    pub dark: bool,
    /// With less motion.
    pub calm: bool,
}

/// What pages are shown on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Screen {
    /// In CSS pixels.
    pub width: u32,
    /// In CSS pixels.
    pub height: u32,
    /// Real pixels for a CSS pixel.
    pub pixels: f64,
    /// A phone's: the page's own words about its width count, and scrollbars take no room.
    pub touch: bool,
}

/// How long the browser's processes have kept a core busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrowserTime {
    /// Those that run pages: scripts, styles, layout and painting.
    pub renderers: Duration,
    /// All: also the network and, as there is no graphics card, what puts pixels together.
    pub all: Duration,
}

impl Browser {
    /// Starts a browser with an empty page.
    ///
    /// # Errors
    /// When it does not come up, with the end of chromedriver's log.
    pub async fn start() -> anyhow::Result<Browser> {
        let (address, folder) = (free_address()?, TempDir::new()?);
        let mut command = Command::new(Program::Chromedriver.find()?);
        command.arg(format!("--port={}", address.port()));
        // What Chromium writes beside its profile belongs there too.
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

    /// Loads the page again.
    ///
    /// # Errors
    /// When it cannot be loaded.
    pub async fn refresh(&self) -> anyhow::Result<()> {
        self.post("refresh", json!({})).await.map(drop)
    }

    /// One page back.
    ///
    /// # Errors
    /// When there is none.
    pub async fn back(&self) -> anyhow::Result<()> {
        self.post("back", json!({})).await.map(drop)
    }

    /// The body of a function, run in the page: what it returns. The page's Content-Security-Policy
    /// does not forbid it.
    ///
    /// # Errors
    /// When it throws, or the page shows a dialog.
    pub async fn run(&self, script: &str, arguments: &[Value]) -> anyhow::Result<Value> {
        self.post("execute/sync", json!({"script": script, "args": arguments})).await
    }

    /// The same for an expression.
    ///
    /// # Errors
    /// When it throws, or the page shows a dialog.
    pub async fn value(&self, expression: &str) -> anyhow::Result<Value> {
        self.run(&format!("return ({expression})"), &[]).await
    }

    /// A function whose last argument is to be called with the result.
    ///
    /// # Errors
    /// When it throws, or does not call it in time.
    pub async fn run_async(&self, script: &str, arguments: &[Value]) -> anyhow::Result<Value> {
        self.post("execute/async", json!({"script": script, "args": arguments})).await
    }

    /// Waits until an expression is true in the page.
    ///
    /// # Errors
    /// With the page's text, when it does not become true within `within`.
    pub async fn until(&self, within: Duration, expression: &str) -> anyhow::Result<()> {
        // A page that is just being left has nothing to say.
        let holds =
            async || self.value(expression).await.is_ok_and(|value| value == Value::Bool(true));
        if until(within, expression, holds).await.is_ok() {
            return Ok(());
        }
        // Once more, for the reason why it could not be asked.
        let value = self.value(expression).await?;
        let shown = self.value("document.documentElement.innerText").await?;
        let shown: String = shown.as_str().unwrap_or_default().chars().take(SHOWN_CHARS).collect();
        let console = self.console().await?;
        bail!(
            "not within {within:?}: {expression}\n\
             it is {value}; the console says {console:?}; the page shows:\n{shown}"
        )
    }

    /// From now on everything is about the frame at this position of the page; or about the page
    /// itself again.
    ///
    /// # Errors
    /// When there is no such frame.
    pub async fn enter_frame(&self, position: Option<u32>) -> anyhow::Result<()> {
        self.post("frame", json!({"id": position})).await.map(drop)
    }

    /// A script that runs in each page that is opened from now on, before the page's own.
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

    /// The size of the page's window in CSS pixels.
    ///
    /// # Errors
    /// When chromedriver refuses.
    pub async fn size(&self, width: u32, height: u32) -> anyhow::Result<()> {
        self.screen(Screen { width, height, pixels: 1.0, touch: false }).await
    }

    /// On which screen pages are shown.
    ///
    /// # Errors
    /// When chromedriver refuses.
    pub async fn screen(&self, screen: Screen) -> anyhow::Result<()> {
        let Screen { width, height, pixels, touch } = screen;
        // Windows have a least width, greater than a phone's.
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": pixels, "mobile": touch});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await
    }

    /// What the visitor prefers.
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

    /// Whether pages that are opened from now on may run scripts. [`Browser::run`] may at any time.
    ///
    /// # Errors
    /// When chromedriver refuses.
    pub async fn scripts(&self, allowed: bool) -> anyhow::Result<()> {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({"value": !allowed})).await
    }

    /// Whether the network is gone, as the browser is told by its system.
    ///
    /// # Errors
    /// When chromedriver refuses.
    pub async fn offline(&self, offline: bool) -> anyhow::Result<()> {
        self.devtools("Network.enable", json!({})).await?;
        let conditions = json!({"offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1});
        self.devtools("Network.emulateNetworkConditions", conditions).await
    }

    /// What the window shows, as PNG.
    ///
    /// # Errors
    /// When it cannot be had.
    pub async fn screenshot(&self) -> anyhow::Result<Vec<u8>> {
        let picture = self.command("GET", "screenshot", &Value::Null).await?;
        STANDARD
            .decode(picture.as_str().context("no picture")?)
            .context("a picture that is not base64")
    }

    /// What the browser's console got since this was last asked.
    ///
    /// # Errors
    /// When it cannot be had.
    pub async fn console(&self) -> anyhow::Result<Vec<ConsoleLine>> {
        let lines = self.post("se/log", json!({"type": "browser"})).await?;
        Ok(lines.as_array().context("no lines")?.iter().map(ConsoleLine::from).collect())
    }

    /// What axe-core finds wrong in the page.
    ///
    /// # Errors
    /// When axe-core is not there, or cannot be run.
    pub async fn violations(&self, axe: &Axe) -> anyhow::Result<Vec<String>> {
        axe.violations(self).await
    }

    /// Stops all its processes in the middle of whatever they do, as a laptop that falls asleep.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn freeze(&self) -> anyhow::Result<()> {
        signal_group(self.group()?, Signal::Stop).await
    }

    /// Lets them go on.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn thaw(&self) -> anyhow::Result<()> {
        signal_group(self.group()?, Signal::Continue).await
    }

    /// How busy it has been since it was started.
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
        // Killing chromedriver alone would leave its Chromium behind.
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

/// One command of the WebDriver protocol: the `value` of its answer.
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

/// A text in an object.
fn text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str()
}

/// All processes below `root`.
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
