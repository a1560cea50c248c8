//! What `status` shows of tasks that take turns.

use super::answer::{Text, Turn};
use super::words::{duration, instant};

/// The details, in order. Empty ones are left out.
pub(super) fn facts(turn: &Turn, store: &Text) -> Vec<(&'static str, String)> {
    let state = match &turn.unknown {
        Some(why) => format!(": unknown ({why})"),
        None => String::new(),
    };
    let taken = turn.taken.iter().map(|taken| format!("{} {}", taken.task, taken.turns));
    vec![
        ("Turns", format!("{} in store {store}{state}", turn.hash)),
        ("Turn of", whose(turn)),
        ("Overdue", overdue(turn)),
        ("Passed on", taken.collect::<Vec<_>>().join(", ")),
        ("Odd", odd(turn)),
    ]
}

fn whose(turn: &Turn) -> String {
    match (&turn.task, &turn.due) {
        (Some(task), Some(due)) => format!("{task}, from {}", instant(due)),
        (Some(task), None) => format!("{task}, at once"),
        (None, _) if &*turn.fact == "nobody" => "nobody".to_owned(),
        (None, _) => String::new(),
    }
}

fn overdue(turn: &Turn) -> String {
    if turn.overdue_seconds <= 0.0 {
        return String::new();
    }
    let limit = duration(turn.max_late_seconds);
    format!("for {}; max_late is {limit}", duration(turn.overdue_seconds))
}

fn odd(turn: &Turn) -> String {
    let fields = turn.fields.filter(|fields| *fields > 1);
    let parts = [
        fields.map(|fields| format!("{fields} fields at once")),
        turn.out_of_order.filter(|count| *count > 0).map(|count| format!("{count} out of order")),
        (turn.unknown_names > 0).then(|| format!("{} unknown names", turn.unknown_names)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_turn_names_who_has_it_and_the_limit() {
        let turn: Turn = serde_json::from_str(
            r#"{"hash": "turns", "fact": "somebody", "task": "b", "overdue_seconds": 45.2,
                "max_late_seconds": 30.0, "fields": 2, "out_of_order": 1,
                "taken": [{"task": "a", "turns": 3}, {"task": "b", "turns": 2}]}"#,
        )
        .unwrap();
        let store: Text = serde_json::from_str("\"main\"").unwrap();
        let told: Vec<_> = facts(&turn, &store).into_iter().map(|(_, text)| text).collect();
        let expected = [
            "turns in store main",
            "b, at once",
            "for 45s; max_late is 30s",
            "a 3, b 2",
            "2 fields at once, 1 out of order",
        ];
        assert_eq!(told, expected);
    }
}
