//! The metrics page as bytes to send: OpenMetrics or classic text, packed or not, made once per snapshot.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::metrics;
use super::negotiate::{Coding, Format};
use crate::published::{Published, ReloadStatus};

/// With more tasks than this a page takes long enough to be made on a thread of its own.
const TASKS_INLINE_MAX: usize = 50;
/// A larger page is made anew for each request instead of being kept.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// For how long a page is kept at most: by then there is a new snapshot.
const KEPT_FOR: Duration = Duration::from_secs(2);

/// The form of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// The text format.
    pub format: Format,
    /// How it is packed.
    pub coding: Coding,
}

/// Makes pages, one at a time, and keeps the newest while it may be asked for again.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    kept: Arc<Mutex<Option<Kept>>>,
}

/// A page and what it was made of.
#[derive(Debug)]
struct Kept {
    of: Origin,
    body: Bytes,
}

/// What tells a page from any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin {
    sequence: u64,
    made: Instant,
    reload: ReloadStatus,
    variant: Variant,
}

impl Pages {
    /// The page of `published` in the form `variant`.
    ///
    /// Readers of the same snapshot and form share one body. A reader who goes away does not stop a page that is under
    /// way: the next one finds it, so impatient readers cannot pile up work.
    ///
    /// # Errors
    /// The page could not be made; no cause is known.
    pub async fn page(
        &self,
        published: Arc<Published>,
        reload: ReloadStatus,
        variant: Variant,
    ) -> Result<Bytes, PageError> {
        let of = Origin { sequence: published.snapshot.sequence, made: published.made, reload, variant };
        let kept = Arc::clone(&self.kept).lock_owned().await;
        if let Some(page) = kept.as_ref().filter(|page| page.of == of) {
            return Ok(page.body.clone());
        }
        let body = if published.snapshot.tasks.len() <= TASKS_INLINE_MAX {
            make_and_keep(kept, published, of)?
        } else {
            tokio::task::spawn_blocking(move || make_and_keep(kept, published, of)).await.map_err(|_| PageError)??
        };
        self.forget_later(of);
        Ok(body)
    }

    /// Frees the page of `of` when nobody can ask for it any more.
    fn forget_later(&self, of: Origin) {
        let kept = Arc::clone(&self.kept);
        tokio::spawn(async move {
            tokio::time::sleep(KEPT_FOR).await;
            kept.lock().await.take_if(|page| page.of == of);
        });
    }
}

/// A page could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the metrics page could not be made")]
pub struct PageError;

fn make_and_keep(
    mut kept: OwnedMutexGuard<Option<Kept>>,
    published: Arc<Published>,
    of: Origin,
) -> Result<Bytes, PageError> {
    // Free the old page before the new one takes its place in memory.
    *kept = None;
    let body = Bytes::from(make(published, of.reload, of.variant)?);
    if body.len() <= KEPT_BYTES_MAX {
        *kept = Some(Kept { of, body: body.clone() });
    }
    Ok(body)
}

/// The page of `published` in the form `variant`.
///
/// # Errors
/// The page could not be made; no cause is known.
pub fn make(published: Arc<Published>, reload: ReloadStatus, variant: Variant) -> Result<Vec<u8>, PageError> {
    let open_metrics = metrics::encode(published, reload).map_err(|_| PageError)?;
    let text = match variant.format {
        Format::OpenMetrics => open_metrics,
        Format::Classic => classic(&open_metrics),
    };
    match variant.coding {
        Coding::Identity => Ok(text.into_bytes()),
        Coding::Gzip => gzip(text.as_bytes()).map_err(|_| PageError),
    }
}

fn gzip(text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::with_capacity(text.len() / 8), Compression::fast());
    packer.write_all(text)?;
    packer.finish()
}

/// Rewrites OpenMetrics text as classic text: a counter is described under the name of its samples, and there are no
/// units and no end mark. Samples are the same in both.
pub fn classic(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help: Option<(&str, &str)> = None;
    for line in open_metrics.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            // Written when the type is known, which comes next.
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let suffix = if kind.trim_end() == "counter" { "_total" } else { "" };
            if let Some((_, sentence)) = help.take().filter(|(described, _)| *described == name) {
                text.extend(["# HELP ", name, suffix, " ", sentence]);
            }
            text.extend(["# TYPE ", name, suffix, " ", kind]);
        } else if !line.starts_with('#') {
            text.push_str(line);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classic_text_differs_only_in_descriptions() {
        let open_metrics = "# HELP a_b The a.\n# TYPE a_b counter\na_b_total{x=\"# EOF\"} 1\n\
                            # HELP g The g.\n# TYPE g gauge\n# UNIT g seconds\ng 2.5\n\
                            # HELP h The h.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 0\n# EOF\n";
        let expected = "# HELP a_b_total The a.\n# TYPE a_b_total counter\na_b_total{x=\"# EOF\"} 1\n\
                        # HELP g The g.\n# TYPE g gauge\ng 2.5\n\
                        # HELP h The h.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 0\n";
        assert_eq!(classic(open_metrics), expected);
    }
}
