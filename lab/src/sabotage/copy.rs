//! A copy of the work tree, taken at the start, in which sabotages are tried. It is kept with its
//! build output, so that the next sabotage compiles fast. Only files that differ are written,
//! because cargo goes by modification times.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

use super::patch::Patch;

/// The copy of the work tree.
#[derive(Debug)]
pub(super) struct Copy {
    /// The original files, kept because people may edit the work tree in the meantime.
    files: BTreeMap<PathBuf, (Vec<u8>, Permissions)>,
    tree: PathBuf,
    _temporary: Option<TempDir>,
}

impl Copy {
    /// Updates the copy of the work tree `root` that is kept in `folder`.
    pub(super) fn kept(root: &Path, folder: &Path) -> anyhow::Result<Copy> {
        fs::create_dir_all(folder.join("tree"))
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let tree = folder.canonicalize()?.join("tree");
        claim(&tree.with_file_name("in-use-by"))?;
        let copy = Copy { files: files_of(root)?, tree, _temporary: None };
        copy.restore()?;
        Ok(copy)
    }

    /// A temporary copy, in which nothing is compiled.
    pub(super) fn apart(root: &Path) -> anyhow::Result<Copy> {
        let folder = TempDir::new()?;
        Ok(Copy {
            files: files_of(root)?,
            tree: folder.path().to_owned(),
            _temporary: Some(folder),
        })
    }

    pub(super) fn tree(&self) -> &Path {
        &self.tree
    }

    /// A path beside the copy, for logs and build output.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.tree.with_file_name(name)
    }

    /// Undoes the changes of a sabotage.
    pub(super) fn restore(&self) -> anyhow::Result<()> {
        for (file, (content, permissions)) in &self.files {
            let to = self.tree.join(file);
            if fs::read(&to).is_ok_and(|old| old == *content) {
                continue;
            }
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&to, content).with_context(|| format!("cannot write {}", to.display()))?;
            fs::set_permissions(&to, permissions.clone())?;
        }
        self.remove_others(&self.tree)
    }

    /// Removes files that a sabotage added.
    fn remove_others(&self, folder: &Path) -> anyhow::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.strip_prefix(&self.tree).unwrap_or(&path).to_owned();
            if path.is_dir() && !path.is_symlink() {
                // Build output and files of tests are kept.
                if !name.ends_with("target") {
                    self.remove_others(&path)?;
                }
            } else if !self.files.contains_key(&name) {
                fs::remove_file(&path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Applies a sabotage. Lines that have moved are found; if too much has changed around them, it
    /// fails.
    pub(super) async fn apply(&self, patch: &Patch) -> anyhow::Result<()> {
        let file = patch
            .file
            .canonicalize()
            .with_context(|| format!("no patch: {}", patch.file.display()))?;
        let mut first = None;
        for how in [&["-C3"][..], &["--recount", "-C3"], &["--recount", "-C1"]] {
            let done = tokio::process::Command::new("git")
                .arg("apply")
                .args(how)
                .arg(&file)
                .current_dir(&self.tree)
                // Inside another repository, git would skip files outside the current folder of
                // that.
                .env("GIT_CEILING_DIRECTORIES", self.tree.parent().unwrap_or(&self.tree))
                .output()
                .await
                .context("git is needed to apply patches")?;
            if done.status.success() {
                return self.is_changed(patch);
            }
            first.get_or_insert(String::from_utf8_lossy(&done.stderr).trim().replace('\n', "; "));
        }
        bail!("it does not apply any more: {}", first.unwrap_or_default())
    }

    fn is_changed(&self, patch: &Patch) -> anyhow::Result<()> {
        let was = |file: &String| self.files.get(Path::new(file)).map(|(content, _)| content);
        let differs = |file: &String| fs::read(self.tree.join(file)).ok().as_ref() != was(file);
        ensure!(patch.touches.iter().any(differs), "it changes nothing");
        Ok(())
    }
}

/// Locks the folder, because two runs at a time would see each other's sabotages.
fn claim(file: &Path) -> anyhow::Result<()> {
    let other = fs::read_to_string(file).unwrap_or_default();
    let runs = !other.is_empty()
        && other != std::process::id().to_string()
        && Path::new("/proc").join(&other).exists();
    ensure!(!runs, "process {other} tries sabotages there already: --folder takes another place");
    fs::write(file, std::process::id().to_string())
        .with_context(|| format!("cannot write {}", file.display()))
}

/// The files of the work tree: tracked ones, and new ones that are not ignored.
fn files_of(root: &Path) -> anyhow::Result<BTreeMap<PathBuf, (Vec<u8>, Permissions)>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("git is needed to list the files of the work tree")?;
    ensure!(
        listed.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&listed.stderr).trim()
    );
    let text = String::from_utf8(listed.stdout).context("a file's name is no UTF-8")?;
    let mut files = BTreeMap::new();
    for name in text.split('\0').filter(|name| !name.is_empty()) {
        let path = root.join(name);
        // A deleted file is still known to git.
        if let Ok(content) = fs::read(&path) {
            files.insert(PathBuf::from(name), (content, fs::metadata(&path)?.permissions()));
        }
    }
    Ok(files)
}
