//! `SCAN` of one server: short steps at a limited rate, so that other clients' commands come in
//! between.

use std::time::Duration;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::command;
use lockwatch_watch::redis::driver::Failure;
use lockwatch_watch::redis::reply::Reply;
use tokio::time::{Instant, sleep_until};

use super::connection::Connection;

/// Number of pages in a second at full speed.
const PAGES_PER_SECOND: u32 = 50;

/// The next cursor, and the keys of a page.
type Page = (Vec<u8>, Vec<Vec<u8>>);

/// Limits the number of keys per second.
#[derive(Debug)]
pub struct Pace {
    keys_per_second: u32,
    page_max: u32,
    next: Instant,
}

impl Pace {
    /// At most so many keys in a second, and in a page.
    pub fn new(keys_per_second: u32, page_max: u32) -> Pace {
        Pace { keys_per_second: keys_per_second.max(1), page_max, next: Instant::now() }
    }

    /// Number of keys in one page.
    pub fn page(&self) -> u32 {
        (self.keys_per_second / PAGES_PER_SECOND).clamp(1, self.page_max)
    }

    /// Waits until the next page is due.
    pub async fn wait(&self) {
        sleep_until(self.next).await;
    }

    /// Counts keys that were read since `began`. Lost time is not caught up.
    pub fn spent(&mut self, began: Instant, keys: usize) {
        let keys = u32::try_from(keys).unwrap_or(u32::MAX);
        self.next =
            began + Duration::from_secs_f64(f64::from(keys) / f64::from(self.keys_per_second));
    }
}

/// One step of a scan, from `cursor` on.
///
/// # Errors
/// The server refuses, or its reply cannot be read.
pub async fn scan_page(
    connection: &Connection,
    cursor: &[u8],
    glob: Option<&[u8]>,
    count: u32,
) -> Result<Page, Failure> {
    let mut scan = command!("SCAN", cursor);
    if let Some(glob) = glob {
        scan.args.extend([b"MATCH".to_vec(), glob.to_vec()]);
    }
    scan.args.extend([b"COUNT".to_vec(), count.to_string().into_bytes()]);
    match connection.exec(&[scan]).await?.into_iter().next() {
        Some(Reply::Error(error)) => {
            let detail = String::from_utf8_lossy(&error.detail).escape_debug().to_string();
            let detail = format!("SCAN is refused: {detail}");
            Err(Failure { why: Unknown::from(&error), detail })
        }
        reply => page(reply).ok_or_else(|| Failure {
            why: Unknown::Protocol,
            detail: "the answer to SCAN cannot be read".to_owned(),
        }),
    }
}

fn page(reply: Option<Reply>) -> Option<Page> {
    let Some(Reply::Array(items)) = reply else { return None };
    let Ok([Reply::Bytes(next), Reply::Array(keys)]) = <[Reply; 2]>::try_from(items) else {
        return None;
    };
    let bytes = |key| if let Reply::Bytes(key) = key { Some(key) } else { None };
    Some((next, keys.into_iter().filter_map(bytes).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_page_begins_before_its_time_and_lost_time_is_not_made_up_for() {
        let mut pace = Pace::new(1_000, 100);
        assert_eq!(pace.page(), 20);
        let began = Instant::now();
        pace.spent(began, 50);
        pace.wait().await;
        assert!(began.elapsed() >= Duration::from_millis(50));
        let late = Instant::now() + Duration::from_secs(5);
        pace.spent(late, 10);
        assert_eq!(pace.next, late + Duration::from_millis(10));
        let pages = [0, 1, 1_000_000].map(|keys| Pace::new(keys, 100).page());
        assert_eq!(pages, [1, 1, 100]);
    }
}
