//! The summary and exit code of `make test`, for any output of the test programs.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;

/// Serializes the tests: executing a file fails while a forked child of another thread has it open
/// for writing.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs the script with a fake cargo that has built two test programs: of `sim`, which may simulate
/// too, and of the program. Each runs this script of a shell.
fn tested(arguments: &[&str], sim: &str, program: &str) -> Output {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, script: &str| {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        file
    };
    let built = [("sim", sim), ("all", program)].map(|(name, script)| {
        let file = write(&format!("{name}/it"), script);
        let manifest = file.with_file_name("Cargo.toml");
        serde_json::json!({
            "executable": file, "manifest_path": manifest,
            "profile": {"test": true}, "target": {"kind": ["test"]},
        })
    });
    let cargo = write("cargo", &format!("echo '{}\n{}'", built[0], built[1]));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/test");
    Command::new(script).args(arguments).env("CARGO", &cargo).output().unwrap()
}

/// What the programs said, without the lines that name them.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter(|line| !line.starts_with("===")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn all_is_well_when_no_test_fails() {
    let output = tested(&[], "echo test result: ok.", "echo test result: ok.");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(said(&output), "test result: ok.\n".repeat(3));
}

/// It runs beside the others, and is waited for.
#[test]
fn a_failure_of_the_simulation_is_a_failure() {
    let sim = "case \"$*\" in --skip*) ;; *) sleep 0.2; echo seed; exit 101;; esac";
    let output = tested(&[], sim, "");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said(&output), "seed\n");
    let output = tested(&["--no-simulation"], sim, "echo the rest");
    assert_eq!((output.status.code(), said(&output)), (Some(0), "the rest\n".to_owned()));
}

#[test]
fn the_rule_that_broke_is_named_last_the_likeliest_first() {
    let sim = "echo '  1 of 20 timelines: breaks rule 4, one: x'; echo '  9 of 10 timelines: \
        breaks rule 7, two: y'; exit 101";
    let output = tested(&[], sim, "echo more");
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    let (_, end) = text.split_once("Rules of truth that broke").unwrap();
    assert!(end.find("rule 7, two").unwrap() < end.find("rule 4, one").unwrap(), "{end}");
    // After a failure of what decides nothing else runs, unless requested.
    assert!(!text.contains("more"), "{text}");
    assert!(said(&tested(&["--no-fail-fast"], sim, "echo more")).contains("more\n"));
}

#[test]
fn a_failure_that_breaks_no_rule_is_a_failure() {
    let output = tested(&[], "", "exit 101");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said(&output), "");
}
