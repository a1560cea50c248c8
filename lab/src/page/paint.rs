//! Measures the time from a change in Redis until the browser has painted it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde::Deserialize;
use tokio::time::sleep;

use super::crowd::Crowd;
use crate::stack::Browser;

/// Maximum time until a change is painted; later ones count as never painted.
const PAINTED_WITHIN: Duration = Duration::from_secs(20);
/// Maximum distance of the marks of one frame, in milliseconds.
const SAME_FRAME_MS: f64 = 2.0;
/// Range of the pause between two changes, in milliseconds: random, so that changes are spread over
/// the agent's interval.
const PAUSE_MS: std::ops::Range<u64> = 20..250;
/// Distance of the tasks of two successive changes, so that no two changes of one task fall into
/// one sweep.
const STRIDE: usize = 37;

/// A script that runs before the page's own. `window.paints` gets `[holder, put, painted]` for each
/// row whose holder changed: when it was put into the page, and when the frame with it was done.
/// `window.marks` gets `[instant, at]` for each snapshot that the page reports as painted.
const HOOK: &str = "
    {
        const [holders, paints, marks] = [new Map(), window.paints = [], window.marks = []];
        const now = () => performance.timeOrigin + performance.now();
        const {port1, port2} = new MessageChannel();
        const waiting = [];
        // This runs before the frame is painted; a message that is posted now arrives after that.
        port1.onmessage = () => { for (const paint of waiting.splice(0)) paint[2] = now(); };
        new MutationObserver(records => {
            const nodes = records.flatMap(record => [record.target, ...record.addedNodes]);
            const elements = nodes.map(node => node.closest ? node : node.parentElement);
            for (const row of new Set(elements.map(element => element?.closest('tr[data-task]')))) {
                const [task, holder] = [row?.dataset.task, row?.cells[3]?.textContent];
                if (holder === undefined || holders.get(task) === holder) continue;
                holders.set(task, holder);
                const paint = [holder, now(), null];
                paints.push(paint);
                waiting.push(paint);
            }
            if (waiting.length > 0) port2.postMessage(null);
        }).observe(document, {subtree: true, childList: true, characterData: true});
        new PerformanceObserver(list => {
            for (const {name, startTime, detail} of list.getEntries())
                if (name === 'lockwatch-frame') marks.push([performance.timeOrigin + startTime, \
    detail.at]);
        }).observe({type: 'mark'});
    }
";

/// The latencies of painted changes, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    /// From the instant of the snapshot.
    pub(super) of_snapshot: Vec<f64>,
    /// From the write to Redis.
    pub(super) of_redis: Vec<f64>,
}

#[derive(Deserialize)]
struct Paint {
    holder: String,
    put: f64,
    painted: Option<f64>,
}

#[derive(Deserialize)]
struct Mark {
    instant: f64,
    at: f64,
}

/// Installs the script for pages that are opened from now on.
pub(super) async fn prepare(browser: &Browser) -> anyhow::Result<()> {
    browser.before_pages(HOOK).await
}

/// Measures this many changes of holders, one after the other, on the open page. All `series` must
/// differ in their names.
pub(super) async fn delays(
    crowd: &Crowd,
    browser: &Browser,
    series: char,
    changes: usize,
) -> anyhow::Result<Delays> {
    let mut written = BTreeMap::new();
    for change in 0..changes {
        sleep(Duration::from_millis(fastrand::u64(PAUSE_MS))).await;
        let at = change * STRIDE % crowd.count();
        let worker = format!("{series}{change}");
        written.insert(Crowd::instance(at, &worker), epoch_ms()?);
        crowd.hand_over(at, &worker).await?;
    }
    let of_series = format!("([holder, , painted]) => /-{series}\\d/.test(holder) && painted");
    browser
        .until(PAINTED_WITHIN, &format!("window.paints.filter({of_series}).length >= {changes}"))
        .await?;
    // The marks are set after the frame.
    browser
        .until(
            PAINTED_WITHIN,
            "window.marks.some(([instant]) => instant > window.paints.at(-1)[1])",
        )
        .await?;
    let paints: Vec<Paint> = serde_json::from_value(browser.value("window.paints").await?)?;
    let marks: Vec<Mark> = serde_json::from_value(browser.value("window.marks").await?)?;
    let mut delays = Delays::default();
    for Paint { holder, put, painted } in paints {
        let Some(written) = written.remove(&holder) else { continue };
        let painted = painted.context("a row that was never painted")?;
        delays
            .of_snapshot
            .push(painted - snapshot_of(put, &marks).context("a row that no snapshot has")?);
        delays.of_redis.push(painted - written);
    }
    anyhow::ensure!(written.is_empty(), "never painted: {written:?}");
    Ok(delays)
}

/// The instant of the snapshot with the change that was put into the page at `put`; the earliest if
/// one frame had several.
fn snapshot_of(put: f64, marks: &[Mark]) -> Option<f64> {
    let first = marks.iter().find(|mark| mark.instant >= put)?;
    let frame = marks
        .iter()
        .filter(|mark| (first.instant..first.instant + SAME_FRAME_MS).contains(&mark.instant));
    frame.map(|mark| mark.at).min_by(f64::total_cmp)
}

/// The time from the request until the first paint of the page, in milliseconds.
pub(super) async fn first_paint_ms(browser: &Browser, url: &str) -> anyhow::Result<f64> {
    const PAINT: &str =
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null";
    browser.open(url).await?;
    browser.until(PAINTED_WITHIN, &format!("({PAINT}) !== null")).await?;
    browser.value(PAINT).await?.as_f64().context("no first paint")
}

fn epoch_ms() -> anyhow::Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::{Mark, snapshot_of};

    #[test]
    fn what_was_put_in_was_shown_by_the_earliest_snapshot_of_its_frame() {
        let marks = [(10.0, 1.0), (30.0, 3.0), (30.5, 2.0), (50.0, 5.0)]
            .map(|(instant, at)| Mark { instant, at });
        assert_eq!(snapshot_of(25.0, &marks), Some(2.0));
        assert_eq!(snapshot_of(60.0, &marks), None);
    }
}
