//! What a server answered.

use std::time::UNIX_EPOCH;

use bytes::Bytes;
use hyper::{HeaderMap, header};

/// A response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Bytes,
    /// Where a redirect leads.
    pub location: Option<String>,
    /// The server's wall clock, in seconds since the Unix epoch.
    pub date: Option<u64>,
}

impl Answer {
    pub(super) fn of(status: u16, headers: &HeaderMap) -> Answer {
        let text = |name| headers.get(name)?.to_str().ok();
        let date = text(header::DATE).and_then(|date| httpdate::parse_http_date(date).ok());
        let since = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok());
        Answer {
            status,
            body: Bytes::new(),
            location: text(header::LOCATION).map(str::to_owned),
            date: since.map(|since| since.as_secs()),
        }
    }
}
