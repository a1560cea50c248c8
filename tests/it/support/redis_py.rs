//! A Python that has redis-py.

use std::process::{Command, Stdio};

use super::skip;

/// The one on `PATH`, or Debian's. Without redis-py: reports that `test` is skipped, and returns
/// `None`.
pub(crate) fn python(test: &str) -> Option<&'static str> {
    let found = ["python3", "/usr/bin/python3"].into_iter().find(|python| has_redis_py(python));
    if found.is_none() {
        skip::say(test, "redis-py (python3-redis)");
    }
    found
}

fn has_redis_py(python: &str) -> bool {
    let mut command = Command::new(python);
    let command =
        command.args(["-c", "import redis.lock"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
