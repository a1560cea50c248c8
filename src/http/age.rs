//! Whether the newest snapshot may be taken as current: a wedged engine publishes no more.

use std::time::Duration;

use crate::published::Published;

/// Why the snapshot must not be taken as current, if it is older than `age_max`.
pub(super) fn stopped(published: &Published, age_max: Duration) -> Option<String> {
    let age = published.made.elapsed();
    (age > age_max).then(|| {
        format!(
            "The newest snapshot is {} s old: the agent's engine has stopped, see its log.",
            age.as_secs()
        )
    })
}
