//! Runs all of `fuzz/corpus` without a fuzzing engine, so that `cargo test` repeats every finding.
//! Each input is also damaged in a few deterministic ways: the short form of `make fuzz`.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lockwatch_fuzz_targets::{TARGETS, Target};

/// Maximum time for one input, also on a machine under load.
const LONGEST: Duration = Duration::from_secs(20);
/// Number of damaged inputs made of each file.
const DAMAGED: u64 = 10;
/// Maximum size of all files together, in bytes.
const BYTES_MAX: u64 = 1 << 20;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

/// The inputs of a target, sorted.
fn inputs(target: &Target) -> Vec<PathBuf> {
    let folder = corpus().join(target.name);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs all inputs of a target. A failure is reported with the command that repeats it, or with the
/// input.
fn run(name: &str) {
    let target = lockwatch_fuzz_targets::target(name).unwrap();
    let files = inputs(&target);
    assert!(files.len() > 3, "a corpus of {} files", files.len());
    let datas: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    let mut failed = Vec::new();
    for (path, data) in files.iter().zip(&datas) {
        let file = path.file_name().unwrap().to_string_lossy();
        if !keeps(&target, data) {
            failed.push(format!("scripts/fuzz {name} fuzz/corpus/{name}/{file}"));
        }
        for seed in 0..DAMAGED {
            let damaged = damage(data, &datas, seed);
            if !keeps(&target, &damaged) {
                failed.push(format!("{file}, damaged by {seed}: {}", damaged.escape_ascii()));
            }
        }
    }
    assert!(failed.is_empty(), "a promise was broken; repeat it by\n{}", failed.join("\n"));
}

/// Whether the target passes in time.
fn keeps(target: &Target, data: &[u8]) -> bool {
    let began = Instant::now();
    catch_unwind(|| (target.run)(data)).is_ok() && began.elapsed() <= LONGEST
}

/// `data` with some bytes changed, a piece removed, and the end of another input added.
fn damage(data: &[u8], others: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed ^ data.len() as u64);
    let mut damaged = data.to_vec();
    for _ in 0..random.usize(0..4) {
        if let Some(at) = random.choice(0..damaged.len()) {
            damaged[at] = random.u8(..);
        }
    }
    if random.bool() && !damaged.is_empty() {
        let from = random.usize(0..damaged.len());
        let to = random.usize(from..damaged.len().min(from + 32));
        damaged.drain(from..to);
    }
    if random.u8(..) < 64 {
        let other = &others[random.usize(0..others.len())];
        damaged.truncate(random.usize(0..=damaged.len()));
        damaged.extend_from_slice(&other[random.usize(0..=other.len())..]);
    }
    damaged
}

macro_rules! corpora {
    ($($name:ident),+) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )+

        #[test]
        fn each_target_has_its_test_and_no_corpus_is_left_over() {
            let mut tested = [$(stringify!($name)),+];
            tested.sort_unstable();
            let mut named = TARGETS.map(|target| target.name);
            named.sort_unstable();
            assert_eq!(tested[..], named[..]);
            let folders = fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().file_name());
            let mut folders: Vec<String> = folders.map(|name| name.into_string().unwrap()).collect();
            folders.sort();
            assert_eq!(folders, named);
        }
    };
}

corpora!(
    session,
    tracking,
    zookeeper,
    reading,
    topology,
    discover,
    codecs,
    configuration,
    routes,
    http,
    outputs,
    status,
    text,
    recording,
    value
);

#[test]
fn all_corpora_together_are_small() {
    let sizes = TARGETS.iter().flat_map(inputs).map(|path| fs::metadata(path).unwrap().len());
    let all: u64 = sizes.sum();
    assert!(
        all <= BYTES_MAX,
        "{all} bytes; keep the smallest files that reach what the others do not"
    );
}
