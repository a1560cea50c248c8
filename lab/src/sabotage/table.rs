//! Reports the sabotages: one line each while they are tried, and the table of docs/sabotages.md.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};

use super::{Fate, Outcome, Patch};

const BEGIN: &str = "<!-- begin of what make sabotage writes -->";
const END: &str = "<!-- end of what make sabotage writes -->";
const HEAD: &str = "| sabotage | the mistake | breaks rule | caught by | in | named first | \
    seconds |\n|---|---|---|---|---|---|---|\n";

/// An outcome in a few lines, for the terminal.
pub(super) fn told(outcome: &Outcome<'_>) -> String {
    let Outcome { patch, fate, seconds } = outcome;
    let mut lines = vec![format!("{}: {} ({seconds} s)", patch.name, verdict(fate))];
    lines.push(format!("    {}", patch.sentence()));
    if let Fate::Caught(catches) = fate {
        for (layer, catch) in catches {
            lines.push(format!("    {}: {}", layer.name(), catch.shown()));
            lines.extend(catch.said.iter().take(2).map(|said| format!("        {said}")));
            lines.extend(
                catch.rules.iter().take(3).map(|rule| format!("        breaks rule {rule}")),
            );
        }
    }
    lines.join("\n")
}

fn verdict(fate: &Fate) -> String {
    match fate {
        Fate::Caught(_) => "caught".to_owned(),
        Fate::Survived => "NOT CAUGHT".to_owned(),
        Fate::Applies => "applies".to_owned(),
        Fate::Invalid(why) => format!("NO SABOTAGE: {why}"),
    }
}

/// Puts an outcome into the table of `page`. Rows of other sabotages are kept, rows of removed ones
/// are deleted.
pub(super) fn write(page: &Path, outcome: &Outcome<'_>, all: &[Patch]) -> anyhow::Result<()> {
    let text =
        std::fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let Some((before, (old, after))) =
        text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?)))
    else {
        bail!("{} lacks the lines `{BEGIN}` and `{END}`", page.display());
    };
    let mut rows: BTreeMap<String, String> =
        old.lines().filter_map(|line| Some((name_in(line)?, line.to_owned()))).collect();
    rows.insert(outcome.patch.name.clone(), row(outcome));
    let rows: String = all
        .iter()
        .filter_map(|patch| rows.get(&patch.name))
        .map(|row| format!("{row}\n"))
        .collect();
    std::fs::write(page, format!("{before}{BEGIN}\n\n{HEAD}{rows}\n{END}{after}"))
        .with_context(|| format!("cannot write {}", page.display()))
}

/// The sabotage of a row, which begins with a link to it.
fn name_in(row: &str) -> Option<String> {
    Some(row.strip_prefix("| [")?.split_once(']')?.0.to_owned())
}

fn row(outcome: &Outcome<'_>) -> String {
    let Outcome { patch, fate, seconds } = outcome;
    let (by, layer, named) = match fate {
        Fate::Caught(catches) => match catches.first() {
            Some((layer, catch)) => {
                (catch.shown(), layer.name(), catch.rules.first().cloned().unwrap_or_default())
            }
            None => (String::new(), "", String::new()),
        },
        Fate::Survived | Fate::Applies | Fate::Invalid(_) => {
            (format!("**{}**", verdict(fate)), "", String::new())
        }
    };
    let rule = patch.rule.as_deref().unwrap_or_default();
    let cells = [patch.sentence(), rule, &by, layer, &named, &seconds.to_string()]
        .map(|cell| cell.replace('|', "\\|"));
    format!(
        "| [{name}](../lab/sabotages/{name}.patch) | {} |",
        cells.join(" | "),
        name = patch.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_again() {
        let patch = Patch {
            file: "lab/sabotages/07-x.patch".into(),
            name: "07-x".to_owned(),
            rule: Some("6 confirmation".to_owned()),
            near: Vec::new(),
            seeds: None,
            mistake: "Free | free.".to_owned(),
            touches: Vec::new(),
        };
        let row = row(&Outcome { patch: &patch, fate: Fate::Survived, seconds: 3 });
        assert_eq!(name_in(&row).as_deref(), Some("07-x"));
        assert!(row.contains(r"Free \| free.") && row.contains("**NOT CAUGHT**"), "{row}");
    }
}
