//! Finds series in the agent's `/metrics`.

/// The text of `/metrics`.
#[derive(Debug)]
pub(super) struct Exposition(pub(super) String);

impl Exposition {
    /// The first series called `name` that has all of `labels`, as a whole line. Does not handle
    /// escaped characters, which the demo's names never contain.
    pub(super) fn line(&self, name: &str, labels: &[(&str, &str)]) -> Option<&str> {
        self.0.lines().find(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
                && labels.iter().all(|(label, value)| has_label(line, label, value))
        })
    }

    /// The value of that series.
    pub(super) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.line(name, labels)?.rsplit(' ').next()?.parse().ok()
    }

    /// The value of `label` in the first series called `name`.
    pub(super) fn label(&self, name: &str, label: &str) -> Option<&str> {
        let line = self.line(name, &[])?;
        let start = [format!("{{{label}=\""), format!(",{label}=\"")]
            .iter()
            .find_map(|opening| line.find(opening).map(|at| at + opening.len()))?;
        line.get(start..)?.split('"').next()
    }
}

fn has_label(line: &str, label: &str, value: &str) -> bool {
    ['{', ','].iter().any(|before| line.contains(&format!("{before}{label}=\"{value}\"")))
}

#[cfg(test)]
mod tests {
    use super::Exposition;

    #[test]
    fn series_are_found_by_name_and_labels() {
        let page = Exposition(
            "# TYPE lockwatch_lock_held gauge\nlockwatch_lock_held_x 7\n\
             lockwatch_lock_held{task=\"outbound\"} 1\n\
             lockwatch_task_state_rank{task=\"outbound\",state=\"running\"} 1\n"
                .to_owned(),
        );
        assert_eq!(page.value("lockwatch_lock_held", &[]), Some(1.0));
        assert_eq!(page.value("lockwatch_task_state_rank", &[("state", "running")]), Some(1.0));
        assert_eq!(
            page.value("lockwatch_task_state_rank", &[("state", "running"), ("task", "outbound")]),
            Some(1.0)
        );
        assert_eq!(page.value("lockwatch_task_state_rank", &[("tate", "running")]), None);
        assert_eq!(page.label("lockwatch_task_state_rank", "state"), Some("running"));
        assert_eq!(page.label("lockwatch_lock_held", "state"), None);
    }
}
