//! The proof that the simulator drives the real watcher: for each file of it that decides
//! something, a deliberate mistake in that file is caught by seeds alone.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::copy::Copy;
use super::layer::{Seeds, Suite};
use super::patch::Patch;

/// The watcher.
const FOLDER: &str = "watch/src/redis";
/// Its files that decide nothing that a simulated world can show, each with the reason.
const EXEMPT: [(&str, &str); 31] = [
    ("ask.rs", "the form of a question"),
    ("codec.rs", "decodes values; the simulated users write plain ones"),
    ("codec/java_text.rs", "decodes values; the simulated users write plain ones"),
    ("codec/jdk.rs", "decodes values; the simulated users write plain ones"),
    ("codec/json.rs", "decodes values; the simulated users write plain ones"),
    ("codec/kryo5.rs", "decodes values; the simulated users write plain ones"),
    ("diagnosis.rs", "words and reasons for mistakes that no simulated world makes"),
    ("driver.rs", "types between watcher and driver"),
    ("kind.rs", "names of kinds"),
    ("libraries.rs", "the registry"),
    ("libraries/hash.rs", "no simulated worker uses it"),
    ("libraries/shape.rs", "for `discover`"),
    ("libraries/shedlock.rs", "no simulated worker uses it"),
    ("libraries/sight.rs", "for `discover`"),
    ("libraries/unread.rs", "for `discover`"),
    ("node/refusals.rs", "words, and keys that are elsewhere without a cluster"),
    ("out.rs", "a queue of actions"),
    ("parts.rs", "the registry"),
    ("parts/fingerprint.rs", "simulated values are short"),
    ("parts/hosts.rs", "for display"),
    ("parts/runs.rs", "its tests; a simulated script hardly ever fails three times in a row"),
    ("plan.rs", "types between parts of the watcher"),
    ("remedy.rs", "words for people"),
    ("replies.rs", "shared readers of replies"),
    ("reply.rs", "types of replies"),
    ("store.rs", "types, and addresses that simulated servers do not rename"),
    ("tasks.rs", "looks up tasks"),
    ("topology.rs", "reads addresses"),
    ("value.rs", "no simulated value has a path"),
    ("wake_ups/bucket.rs", "the arithmetic of a rate"),
    ("wake_ups/prefixes.rs", "simulated servers announce every key"),
];
/// Time for the seeds of one patch.
const LIMIT: Duration = Duration::from_secs(240);

/// Tries the patches with a line `Seeds:`, or those with one of these names; returns whether each
/// file that decides has one that is caught.
pub(super) async fn run(
    root: &Path,
    copy: &Copy,
    patches: &[Patch],
    names: &[String],
) -> anyhow::Result<bool> {
    let wanted = deciding(root)?;
    let of = |patch: &Patch| -> BTreeSet<String> {
        let inside = patch.touches.iter().filter_map(|file| file.strip_prefix(FOLDER));
        inside.map(|file| file.trim_start_matches('/').to_owned()).collect()
    };
    let chosen =
        |patch: &&Patch| names.is_empty() || names.iter().any(|name| patch.name.contains(name));
    let mut missing: BTreeSet<String> = wanted.clone();
    let all = Suite::new(copy, Vec::new(), patches);
    for patch in patches.iter().filter(|patch| patch.seeds.is_some()).filter(chosen) {
        copy.restore()?;
        copy.apply(patch).await.with_context(|| patch.name.clone())?;
        let files = of(patch);
        let shown = files.iter().cloned().collect::<Vec<_>>().join(", ");
        match all.seeds(patch, LIMIT).await? {
            Seeds::Violated(what) => {
                println!("{shown}: {}: {what}", patch.name);
                missing.retain(|file| !files.contains(file));
            }
            Seeds::Passed => println!("{shown}: {}: NOT CAUGHT", patch.name),
            Seeds::TooSlow => println!("{shown}: {}: NOT CAUGHT in time", patch.name),
            Seeds::NotBuilt(why) => println!("{shown}: {}: NO SABOTAGE: {why}", patch.name),
        }
    }
    copy.restore()?;
    if names.is_empty() {
        missing.iter().for_each(|file| println!("{file}: no mistake in it is caught by seeds"));
        println!("{} of {} files", wanted.len() - missing.len(), wanted.len());
    }
    Ok(!names.is_empty() || missing.is_empty())
}

/// The files of the watcher that decide something, by their path in its folder.
fn deciding(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    collect(&root.join(FOLDER), "", &mut files)?;
    for (file, _) in EXEMPT {
        ensure!(files.remove(file), "{FOLDER}/{file} is exempt, and there is no such file");
    }
    Ok(files)
}

fn collect(folder: &Path, within: &str, files: &mut BTreeSet<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{within}{name}");
        // Tests, and what only they use.
        if ["tests", "tests.rs", "testing.rs"].contains(&name.as_str()) {
            continue;
        }
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else if name.ends_with(".rs") {
            files.insert(path);
        }
    }
    Ok(())
}
