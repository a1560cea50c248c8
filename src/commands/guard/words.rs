//! What the guard says in the log.

use lockwatch_guard::Why;

/// Why a script is stopped.
pub(super) fn why(why: Why) -> &'static str {
    match why {
        Why::Unwanted => "nobody wants it any more",
        Why::Asked => "the guard was asked to end",
        Why::NotRenewed => "the lease could not be renewed in time",
        Why::Lost => "the lock is not held any more",
    }
}
