//! Entity tags: a client that already has a response learns that nothing changed.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};

use super::reply::{Reply, reply, with_header};
use crate::text::identity::digest;

/// The response of `make` with this tag (without quotes, only letters, digits and `-`), or 304 if
/// the client already has it. `make` is only called when it is needed.
pub(super) fn tagged(headers: &HeaderMap, tag: &str, make: impl FnOnce() -> Reply) -> Reply {
    let tag = format!("\"{tag}\"");
    let mut answer = match has(headers, &tag) {
        true => {
            let mut unchanged = reply(StatusCode::NOT_MODIFIED, "", "");
            unchanged.headers_mut().remove(header::CONTENT_TYPE);
            unchanged
        }
        false => make(),
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.headers_mut().insert(header::ETAG, tag);
    }
    with_header(answer, header::CACHE_CONTROL, "no-cache")
}

/// The response with this body, tagged with its digest. Only successful responses are ever answered
/// with 304.
pub(super) fn tagged_content(
    headers: &HeaderMap,
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Reply {
    let body = body.into();
    match status {
        StatusCode::OK => tagged(headers, &digest(&body), || reply(status, content_type, body)),
        _ => with_header(reply(status, content_type, body), header::CACHE_CONTROL, "no-cache"),
    }
}

/// Whether the client has the content that `tag` names. Weak and strong tags compare equal here.
/// Our tags contain no quotes, so a comma in another's tag cannot cause a false match.
fn has(headers: &HeaderMap, tag: &str) -> bool {
    let lists = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
    let mut theirs = lists.flat_map(|list| list.split(',')).map(str::trim);
    theirs.any(|their| their == "*" || their.strip_prefix("W/").unwrap_or(their) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_it_if_any_of_its_tags_says_so() {
        let has_tag = |lists: &[&str]| {
            let mut headers = HeaderMap::new();
            for list in lists {
                headers.append(header::IF_NONE_MATCH, list.parse().unwrap());
            }
            has(&headers, "\"ab-7\"")
        };
        for lists in [
            &["\"ab-7\""][..],
            &["W/\"ab-7\""],
            &["*"],
            &["\"x\", \"ab-7\""],
            &["\"x,y\",W/\"ab-7\""],
            &["\"x\"", "\"ab-7\""],
        ] {
            assert!(has_tag(lists), "{lists:?}");
        }
        for lists in [
            &[][..],
            &[""],
            &["ab-7"],
            &["\"ab-70\""],
            &["\"ab-7"],
            &["\"x\", \"y\""],
            &["w/\"ab-7\""],
        ] {
            assert!(!has_tag(lists), "{lists:?}");
        }
    }
}
