//! A sabotage file: a head that describes the mistake, and a unified diff.
//!
//! ```text
//! Rule: 6 confirmation
//! Near: watcher:: faults::
//!
//! "Free is free": the first free reading is believed at once.
//!
//! --- a/judge/src/lock.rs
//! +++ b/judge/src/lock.rs
//! …
//! ```

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// One sabotage.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The path of the file.
    pub file: PathBuf,
    /// The file's name without extension.
    pub name: String,
    /// The rule of docs/how-it-decides.md that it breaks.
    pub rule: Option<String>,
    /// The filters for the integration tests nearest to it.
    pub near: Vec<String>,
    /// A description of the mistake.
    pub mistake: String,
    /// The files that it changes.
    pub touches: Vec<String>,
}

impl Patch {
    /// Reads any patch, with or without a head.
    ///
    /// # Errors
    /// When the file cannot be read or changes nothing.
    pub fn read(file: &Path) -> anyhow::Result<Patch> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let patch = parsed(&text, file, name);
        ensure!(
            !patch.touches.is_empty(),
            "{}: no file is changed; a unified diff is wanted",
            file.display()
        );
        Ok(patch)
    }

    /// Reads a patch of lab/sabotages, which must have a head.
    ///
    /// # Errors
    /// When the file cannot be read or lacks a part of its head.
    pub fn with_head(file: &Path) -> anyhow::Result<Patch> {
        let patch = Patch::read(file)?;
        let head =
            "the head needs a line `Rule: NUMBER NAME`, an empty line, and what the mistake is";
        ensure!(patch.rule.is_some() && !patch.mistake.is_empty(), "{}: {head}", file.display());
        Ok(patch)
    }

    /// The description on one line.
    pub fn sentence(&self) -> &str {
        if self.mistake.is_empty() { "(a patch without a head)" } else { &self.mistake }
    }

    /// Whether it changes files in this folder.
    pub(super) fn touches_any(&self, folder: &str) -> bool {
        self.touches.iter().any(|file| file.starts_with(folder))
    }
}

fn parsed(text: &str, file: &Path, name: String) -> Patch {
    let (mut rule, mut near, mut mistake, mut touches) = (None, Vec::new(), Vec::new(), Vec::new());
    let mut in_head = true;
    for line in text.lines() {
        in_head &= !(line.starts_with("--- ") || line.starts_with("diff "));
        if let Some(file) = line.strip_prefix("+++ ").or_else(|| line.strip_prefix("--- ")) {
            // A timestamp may follow; /dev/null stands for no file.
            let path = file.split('\t').next().unwrap_or_default();
            if path != "/dev/null"
                && let Some((_, path)) = path.split_once('/')
            {
                touches.push(path.to_owned());
            }
        } else if !in_head {
            continue;
        } else if let Some(named) = line.strip_prefix("Rule: ") {
            rule = Some(named.trim().to_owned());
        } else if let Some(filters) = line.strip_prefix("Near: ") {
            near = filters.split_whitespace().map(str::to_owned).collect();
        } else {
            mistake.push(line.trim());
        }
    }
    touches.sort();
    touches.dedup();
    let mistake = mistake.join(" ").trim().to_owned();
    Patch { file: file.to_owned(), name, rule, near, mistake, touches }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_HEAD: &str = "Rule: 6 confirmation\nNear: watcher:: agent::\n\nFree is\nfree.\n\n\
        --- a/judge/src/lock.rs\t2026\n+++ b/judge/src/lock.rs\n@@ -1 +1 @@\n-a\n+b\n";

    #[test]
    fn a_head_says_what_it_is() {
        let patch = parsed(WITH_HEAD, Path::new("x/07-y.patch"), "07-y".to_owned());
        assert_eq!(patch.rule.as_deref(), Some("6 confirmation"));
        assert_eq!((patch.near.len(), patch.sentence()), (2, "Free is free."));
        assert_eq!(patch.touches, ["judge/src/lock.rs"]);
        assert!(patch.touches_any("judge/") && !patch.touches_any("src/"));
    }

    #[test]
    fn any_diff_is_a_patch() {
        let diff = "diff --git a/src/x.rs b/src/x.rs\nindex 1..2 100644\n--- a/src/x.rs\n\
            +++ b/src/x.rs\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/src/new.rs\n";
        let patch = parsed(diff, Path::new("any"), "any".to_owned());
        assert_eq!((patch.rule, patch.mistake.as_str()), (None, ""));
        assert_eq!(patch.touches, ["src/new.rs", "src/x.rs"]);
    }
}
