//! Phrases that the table and the view of one task share.

use super::judge::switches_lost;
use crate::api::{At, Hold, Lock, Problem, Seconds, Switch, Task, Text};
use crate::text::instants::rfc3339;

/// A duration as people read it: `3.2s`, `42s`, `12m05s`, `3h12m`, `5d03h`.
pub(super) fn duration(Seconds(ms): Seconds) -> String {
    let whole = ms / 1_000;
    match whole {
        ..10 => format!("{whole}.{}s", ms / 100 % 10),
        10..60 => format!("{whole}s"),
        60..3_600 => format!("{}m{:02}s", whole / 60, whole % 60),
        3_600..86_400 => format!("{}h{:02}m", whole / 3_600, whole / 60 % 60),
        _ => format!("{}d{:02}h", whole / 86_400, whole / 3_600 % 24),
    }
}

/// For how long a problem has been seen, or how old the event is.
pub(super) fn how_long(problem: &Problem) -> String {
    let long = duration(problem.seconds);
    if problem.event { format!("{long} ago") } else { format!("for {long}") }
}

/// The reason, with details that it lacks.
pub(super) fn why(task: &Task) -> String {
    let mut parts = Vec::new();
    if switches_lost(task) {
        parts.push(format!("Switches that were on are lost{}.", names(": ", &task.lost_users)));
    }
    if task.paused == Some(true) {
        parts.push("Paused.".to_owned());
    }
    parts.push(task.reason.to_string());
    // Some versions of the agent include it in the reason.
    let lock = task.lock.as_ref().and_then(|lock| lock.unknown.as_ref());
    let unreadable = lock.or(task.switches_unknown.as_ref());
    if let Some(why) = unreadable.filter(|why| !task.reason.contains(&*why.reason)) {
        parts.push(format!("({why})"));
    }
    parts.join(" ")
}

/// `before` and the names, if there are any.
pub(super) fn names(before: &str, names: &[Text]) -> String {
    let list = names.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
    if list.is_empty() { list } else { format!("{before}{list}") }
}

/// The holders by their hosts, where known. Their number comes first, so that it is not cut off.
pub(super) fn short_holders(hold: &Hold) -> String {
    let names = hold.holders.iter().map(|holder| match holder.host.as_deref() {
        Some(host) => host,
        // Its value is the same for each holder.
        None if holder.holder.is_empty() => "(constant)",
        None => &holder.holder,
    });
    let names = names.collect::<Vec<_>>().join(", ");
    match hold.holders.len() {
        0 | 1 => names,
        count => format!("{count}: {names}"),
    }
}

/// How long a hold has lasted; a lower bound if its beginning was not seen.
pub(super) fn held_for(hold: &Hold) -> String {
    let length = duration(hold.held_seconds);
    if hold.acquired.0.is_some() { length } else { format!("≥{length}") }
}

/// The remaining lease.
pub(super) fn lease_left(task: &Task, hold: &Hold) -> String {
    match hold.ttl_seconds {
        _ if task.lock.as_ref().is_some_and(Lock::ends_with_session) => "session".to_owned(),
        _ if hold.persistent == Some(true) => "no TTL".to_owned(),
        Some(left) => duration(left),
        None => "?".to_owned(),
    }
}

/// How many users want the task, and of how many if known.
pub(super) fn wanted(task: &Task) -> String {
    let on = |switches: &[Switch]| switches.iter().filter(|switch| &*switch.state == "on").count();
    match (&*task.wanted, task.switches.as_deref()) {
        ("unset", _) => "-".to_owned(),
        (word, _) if task.counted => match task.wanting_users {
            Some(users) => format!("{word} {users}"),
            None => word.to_owned(),
        },
        (word, Some(switches)) if !switches.is_empty() => {
            format!("{word} {}/{}", on(switches), switches.len())
        }
        (word, _) => word.to_owned(),
    }
}

/// An instant (`2026-01-31T23:59:59.999Z`) for people, to the second.
pub(super) fn instant(at: At) -> String {
    let text = at.0.and_then(rfc3339).unwrap_or_default();
    match (text.get(..10), text.get(11..19)) {
        (Some(day), Some(time)) => format!("{day} {time} UTC"),
        _ => "an unknown instant".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The only key of a counter is no user.
    #[test]
    fn of_a_counter_its_number_is_shown() {
        let shown = |task: &str| wanted(&serde_json::from_str(task).unwrap());
        let key = |state: &str| format!(r#""switches":[{{"user":"count","state":"{state}"}}]"#);
        let counted = |word: &str, users: &str, state: &str| {
            shown(&format!(
                r#"{{"wanted":"{word}","counted":true,"wanting_users":{users},{}}}"#,
                key(state)
            ))
        };
        assert_eq!(counted("yes", "3", "on"), "yes 3");
        assert_eq!(counted("no", "0", "off"), "no 0");
        assert_eq!(counted("unknown", "null", "undecodable"), "unknown");
        let single =
            format!(r#"{{"wanted":"yes","counted":false,"wanting_users":1,{}}}"#, key("on"));
        assert_eq!(shown(&single), "yes 1/1");
    }

    #[test]
    fn durations() {
        let cases = [
            (0, "0.0s"),
            (3_240, "3.2s"),
            (9_999, "9.9s"),
            (42_900, "42s"),
            (725_000, "12m05s"),
            (11_520_000, "3h12m"),
            (442_800_000, "5d03h"),
            (u64::MAX, "213503982334d14h"),
        ];
        for (ms, text) in cases {
            assert_eq!(duration(Seconds(ms)), text);
        }
    }

    #[test]
    fn instants() {
        assert_eq!(instant(At(Some(1_769_903_999_999))), "2026-01-31 23:59:59 UTC");
        assert_eq!(instant(At(Some(i64::MAX))), "an unknown instant");
    }
}
