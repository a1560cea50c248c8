//! Sabotages: deliberate mistakes in the project's own code. Each is applied to a copy of the work
//! tree, in which tests then run until one fails. A mistake that no test catches is a hole in the
//! suite.
//!
//! ```text
//! Rule: 6 confirmation
//! Near: watcher:: faults::
//!
//! "Free is free": the first free reading is believed at once.
//!
//! --- a/judge/src/lock.rs
//! …
//! ```
//!
//! `Near:` names integration tests, for a mistake that no cheaper test catches.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};

/// What `sabotage` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct SabotageArgs {
    /// Only these of lab/sabotages, by number or a part of the name; without any, all
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Any other patch: a unified diff against the work tree, with or without a head
    #[arg(long, value_name = "FILE", conflicts_with = "names")]
    patch: Vec<PathBuf>,
    /// Two that the timelines catch
    #[arg(long, conflicts_with_all = ["names", "patch"])]
    short: bool,
    /// Where the copy of the work tree is kept, with what is compiled of it; without it, in
    /// target/sabotage
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// List the sabotages and do nothing
    #[arg(long)]
    list: bool,
}

/// The sabotages of `--short`: each breaks another rule, and the timelines catch both.
const SHORT: [&str; 2] = ["no-confirmation", "handover-called-split"];
/// Everything that decides, without the program.
const PURE: [&str; 8] = [
    "-p",
    "lockwatch-judge",
    "-p",
    "lockwatch-watch",
    "-p",
    "lockwatch-guard",
    "-p",
    "lockwatch-sim",
];
/// How many seconds a check may take; one that takes longer hangs, which counts as a failure.
const LIMIT: &str = "1200";

/// One sabotage.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The path of the file.
    pub file: PathBuf,
    /// The file's name without extension.
    pub name: String,
    /// The rule of docs/how-it-decides.md that it breaks.
    pub rule: Option<String>,
    /// A description of the mistake.
    pub mistake: String,
    near: Vec<String>,
    touches_program: bool,
}

impl Patch {
    /// Reads a patch, with or without a head.
    ///
    /// # Errors
    /// When the file cannot be read or changes nothing.
    pub fn read(file: &Path) -> anyhow::Result<Patch> {
        let file = file.canonicalize().with_context(|| format!("no patch: {}", file.display()))?;
        let text = fs::read_to_string(&file)?;
        let is_diff = |line: &&str| line.starts_with("--- ") || line.starts_with("diff ");
        ensure!(text.lines().any(|line| is_diff(&line)), "{}: no unified diff", file.display());
        let head: Vec<&str> = text.lines().take_while(|line| !is_diff(line)).collect();
        let field = |name: &str| head.iter().find_map(|line| line.strip_prefix(name));
        let is_text = |line: &&&str| !line.starts_with("Rule: ") && !line.starts_with("Near: ");
        let mistake = head.iter().filter(is_text).copied().collect::<Vec<_>>().join(" ");
        Ok(Patch {
            name: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            rule: field("Rule: ").map(|rule| rule.trim().to_owned()),
            mistake: mistake.trim().to_owned(),
            near: field("Near: ").unwrap_or_default().split(' ').map(str::to_owned).collect(),
            touches_program: text.lines().any(|line| line.starts_with("+++ b/src/")),
            file,
        })
    }

    /// Applies it to a tree, or only sees whether that can be done. Lines that have moved are found.
    fn apply(&self, tree: &Path, how: &[&str]) -> anyhow::Result<()> {
        let mut apply = Command::new("git");
        apply.args(["apply", "--recount", "-C1"]).args(how).arg(&self.file).current_dir(tree);
        // Inside another repository, git would skip files outside the current folder of that.
        apply.env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree));
        done(&mut apply).with_context(|| format!("{} does not apply any more", self.name))?;
        Ok(())
    }

    /// The arguments for cargo of the tests that may catch it, from cheap to expensive.
    fn checks(&self, short: bool) -> Vec<Vec<&str>> {
        if short {
            return vec![[&PURE[..], &["--", "timeline"]].concat()];
        }
        let mut checks = vec![[&PURE[..], &["--", "--skip", "simulation"]].concat()];
        if self.touches_program {
            checks.push(vec!["-p", "lockwatch", "--lib"]);
        }
        let near: Vec<&str> =
            self.near.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        if !near.is_empty() {
            checks.push([&["-p", "lockwatch", "--test", "it", "--"], near.as_slice()].concat());
        }
        checks.push([&PURE[..], &["--", "simulation"]].concat());
        checks
    }
}

/// All sabotages in lab/sabotages, in the order of their numbers.
///
/// # Errors
/// When one cannot be read or has an invalid head.
pub fn all(root: &Path) -> anyhow::Result<Vec<Patch>> {
    let mut patches = Vec::new();
    for entry in fs::read_dir(root.join("lab/sabotages"))? {
        let patch = Patch::read(&entry?.path())?;
        let has_head = patch.rule.is_some() && !patch.mistake.is_empty();
        ensure!(has_head, "{}: no `Rule: NUMBER NAME`, or no text", patch.name);
        patches.push(patch);
    }
    patches.sort_by_key(|patch| {
        let number = patch.name.split('-').next().and_then(|number| number.parse::<u32>().ok());
        (number.unwrap_or(u32::MAX), patch.name.clone())
    });
    Ok(patches)
}

/// Checks that a patch applies to the work tree.
///
/// # Errors
/// When it does not.
pub fn check_applies(root: &Path, patch: &Patch) -> anyhow::Result<()> {
    patch.apply(root, &["--check"])
}

/// Tries the sabotages; returns whether each was caught.
///
/// # Errors
/// When they cannot be tried.
pub fn run(args: &SabotageArgs) -> anyhow::Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let patches = chosen(args, &root)?;
    if args.list {
        patches.iter().for_each(|patch| println!("{:32} {}", patch.name, patch.mistake));
        return Ok(true);
    }
    let folder = args.folder.clone().unwrap_or_else(|| root.join("target/sabotage"));
    fs::create_dir_all(folder.join("tree"))?;
    let folder = folder.canonicalize()?;
    // Two runs at a time would see each other's sabotages.
    let lock = fs::File::create(folder.join("lock"))?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .context("sabotages are tried there already: --folder takes another place")?;
    let mut caught = 0;
    for patch in &patches {
        let began = Instant::now();
        copy(&root, &folder.join("tree"))?;
        let how = tried(patch, &folder, args.short)?;
        println!(
            "{}: {} ({} s)\n    {}",
            patch.name,
            how.as_deref().unwrap_or("NOT CAUGHT"),
            began.elapsed().as_secs(),
            patch.mistake
        );
        caught += usize::from(how.is_some());
    }
    println!("{caught} of {} caught", patches.len());
    Ok(caught == patches.len())
}

fn chosen(args: &SabotageArgs, root: &Path) -> anyhow::Result<Vec<Patch>> {
    if !args.patch.is_empty() {
        return args.patch.iter().map(|file| Patch::read(file)).collect();
    }
    let short: Vec<String> = SHORT.map(str::to_owned).to_vec();
    let names = if args.short { &short } else { &args.names };
    let mut all = all(root)?;
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|it| it.name.contains(*name))) {
        bail!("there is no sabotage {unknown}: --list shows them; --patch takes any other");
    }
    all.retain(|patch| names.is_empty() || names.iter().any(|name| patch.name.contains(name)));
    Ok(all)
}

/// Applies a sabotage to the copy, and runs tests until one fails; returns which, and why.
fn tried(patch: &Patch, folder: &Path, short: bool) -> anyhow::Result<Option<String>> {
    let tree = folder.join("tree");
    patch.apply(&tree, &[])?;
    for check in patch.checks(short) {
        let mut cargo = Command::new("timeout");
        cargo.args(["--kill-after", "10", LIMIT]);
        cargo.arg(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "--locked", "--no-fail-fast"]).args(check);
        let cargo = cargo.current_dir(&tree).env("CARGO_TARGET_DIR", folder.join("build"));
        let output = cargo.env("CARGO_TERM_COLOR", "never").stdin(Stdio::null()).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        if errors.contains("could not compile") {
            bail!("{} does not compile:\n{errors}", patch.name);
        }
        if !output.status.success() {
            return Ok(Some(reason(&String::from_utf8_lossy(&output.stdout))));
        }
    }
    Ok(None)
}

/// The failed tests, and the rules that they name.
fn reason(output: &str) -> String {
    let lines = output.lines().map(str::trim);
    let failed: Vec<&str> = lines
        .clone()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        .collect();
    let rules: BTreeSet<&str> = lines
        .filter_map(|line| line.split_once("breaks rule ")?.1.split_once(':'))
        .map(|(rule, _)| rule)
        .collect();
    let some = failed.iter().take(3).copied().collect::<Vec<_>>().join(", ");
    let rules = rules.into_iter().collect::<Vec<_>>().join("; ");
    match failed.as_slice() {
        [] => "caught: the tests did not end".to_owned(),
        all => format!("caught by {} tests: {some}; they name the rules: {rules}", all.len()),
    }
}

/// Makes `tree` a copy of the work tree. Only files that differ are written, because cargo goes by
/// the times of changes.
fn copy(root: &Path, tree: &Path) -> anyhow::Result<()> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let listed = String::from_utf8(done(&mut list)?.stdout)?;
    let files: BTreeSet<PathBuf> = listed.split('\0').map(PathBuf::from).collect();
    remove_others(tree, tree, &files)?;
    for file in files.iter().filter(|file| root.join(file).is_file()) {
        let (from, to) = (root.join(file), tree.join(file));
        if fs::read(&to).ok() != Some(fs::read(&from)?) {
            fs::create_dir_all(to.parent().unwrap_or(tree))?;
            fs::copy(&from, &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
    }
    Ok(())
}

fn remove_others(folder: &Path, tree: &Path, files: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            remove_others(&path, tree, files)?;
        } else if !files.contains(path.strip_prefix(tree)?) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn done(command: &mut Command) -> anyhow::Result<Output> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_says_what_it_is_and_which_tests_may_catch_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let head = "Rule: 6 confirmation\nNear: watcher:: agent::\n\nFree is\nfree.\n\n";
        fs::write(file.path(), format!("{head}--- a/src/x.rs\n+++ b/src/x.rs\n")).unwrap();
        let patch = Patch::read(file.path()).unwrap();
        assert_eq!(patch.rule.as_deref(), Some("6 confirmation"));
        assert_eq!(patch.mistake, "Free is free.");
        let checks = patch.checks(false);
        assert_eq!(checks.len(), 4);
        assert!(checks[2].ends_with(&["watcher::", "agent::"]), "{checks:?}");
    }

    #[test]
    fn the_failed_tests_and_their_rules_are_named() {
        let output = "test a::b ... ok\ntest c ... FAILED\nx.timeline: breaks rule 7, gaps: A.\n";
        assert_eq!(reason(output), "caught by 1 tests: c; they name the rules: 7, gaps");
        assert!(reason("").contains("did not end"));
    }
}
