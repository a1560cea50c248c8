//! Measures the data that a visitor has to load.

use std::net::SocketAddr;

use crate::stack::get;

/// Sizes in bytes: the list, the list without its rows, and the files that it loads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    pub(super) rows: usize,
    pub(super) page: usize,
    pub(super) style: usize,
    pub(super) script: usize,
}

impl Weight {
    pub(super) fn without_rows(self) -> usize {
        self.page + self.style + self.script
    }
}

pub(super) async fn weigh(agent: SocketAddr) -> anyhow::Result<Weight> {
    let page = get(agent, "/").await?.ok()?;
    let rows = rows(&page);
    let (style, script) =
        (get(agent, "/style.css").await?.ok()?, get(agent, "/app.js").await?.ok()?);
    Ok(Weight { rows, page: page.len() - rows, style: style.len(), script: script.len() })
}

/// Size of the rows of tasks in a page, in bytes.
fn rows(page: &str) -> usize {
    let rows =
        page.match_indices("<tr data-task=").filter_map(|(at, _)| page.get(at..)?.find("</tr>"));
    rows.map(|length| length + "</tr>".len()).sum()
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn rows_are_what_a_task_adds() {
        let row = "<tr data-task=\"a\"><td>1</td></tr>";
        assert_eq!(rows(&format!("<tr><th>Task</th></tr>{row}{row}<p>")), 2 * row.len());
    }
}
