//! Single replies.

use lockwatch_watch::redis::reply::{Reply, ServerError};

/// The code of a reply that stands for one that is larger than an agent reads.
const TOO_LARGE: &str = "TOO-LARGE";

/// Whether the reply stands for one that is larger than an agent reads.
pub(crate) fn is_too_large(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(error) if error.code == TOO_LARGE.as_bytes())
}

/// A reply that stands for one that is larger than an agent reads.
pub(super) fn too_large() -> Reply {
    error(TOO_LARGE, "")
}

/// An error reply.
pub(crate) fn error(code: &str, detail: &str) -> Reply {
    Reply::Error(ServerError { code: code.as_bytes().to_vec(), detail: detail.as_bytes().to_vec() })
}

pub(super) fn wrong_type() -> Reply {
    error("WRONGTYPE", "Operation against a key holding the wrong kind of value")
}

pub(super) fn bytes(bytes: &[u8]) -> Reply {
    Reply::Bytes(bytes.to_vec())
}
