//! Who asks: the user, and the site whose page it is.

use hyper::header::{self, HeaderMap};

/// The user that has logged in, attached to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoggedIn(pub(super) String);

/// Whether a page of another site caused the request. Browsers send `Sec-Fetch-Site` only over
/// https and to this machine. Otherwise, as over http in a network, only `Origin` is available.
pub(super) fn is_of_another_site(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    origin.map(|(_, host)| host) != host
}
