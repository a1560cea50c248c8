//! The documents about alerts as text: their sections, links and commands.

use std::fs;
use std::path::{Path, PathBuf};

/// A Markdown file of the project.
pub(crate) struct Document {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// One command of an `sh` block, with the comment above it.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) comment: String,
    pub(crate) text: String,
}

impl Document {
    /// `path` is relative to the project.
    pub(crate) fn read(path: &str) -> Document {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let text =
            fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        Document { path, text }
    }

    /// All runbooks, by name.
    pub(crate) fn runbooks() -> Vec<Document> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts/runbooks");
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names.iter().map(|name| Document::read(&format!("alerts/runbooks/{name}"))).collect()
    }

    /// The file's name without its extension.
    pub(crate) fn name(&self) -> &str {
        self.path.file_stem().unwrap().to_str().unwrap()
    }

    /// Titles and texts of its `##` sections.
    pub(crate) fn sections(&self) -> Vec<(&str, &str)> {
        let parts = self.text.split("\n## ").skip(1);
        parts.map(|part| part.split_once('\n').unwrap_or((part, ""))).collect()
    }

    /// The text of one section.
    #[track_caller]
    pub(crate) fn section(&self, title: &str) -> &str {
        let found = self.sections().into_iter().find(|(other, _)| *other == title);
        found.unwrap_or_else(|| panic!("{}: no section {title}", self.name())).1
    }

    /// The targets of its links.
    pub(crate) fn links(&self) -> Vec<&str> {
        self.text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .map(|(target, _)| target)
            .collect()
    }

    /// The anchors of its headings, as GitHub makes them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let headings = self.text.lines().filter(|line| line.starts_with('#'));
        headings.map(|heading| anchor(heading.trim_start_matches('#').trim())).collect()
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// The texts of the `sh` blocks.
pub(crate) fn sh_blocks(text: &str) -> Vec<&str> {
    text.split("\n```sh\n")
        .skip(1)
        .map(|rest| rest.split_once("\n```").expect("an end of the block").0)
        .collect()
}

/// The commands of all `sh` blocks, in order: each is one line.
pub(crate) fn commands(text: &str) -> Vec<Command> {
    let mut commands = Vec::new();
    for block in sh_blocks(text) {
        let mut comment = String::new();
        for line in block.lines() {
            match line.strip_prefix("# ") {
                Some(said) => comment += said,
                None => commands
                    .push(Command { comment: std::mem::take(&mut comment), text: line.to_owned() }),
            }
        }
    }
    commands
}
