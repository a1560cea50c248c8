//! The summary and exit code of `make test`, for any output of cargo.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;

/// Serializes the tests: executing a file fails while a forked child of another thread has it open
/// for writing.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs the script with a fake cargo that prints this output and returns this exit code.
fn tested(arguments: &[&str], cargo: &str) -> Output {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("cargo");
    std::fs::write(&program, format!("#!/bin/sh\n{cargo}\n")).expect("a program");
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("it can be run");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/test");
    Command::new(script).args(arguments).env("CARGO", &program).output().expect("the script runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn all_is_well_when_no_test_fails() {
    let output = tested(&[], "echo test result: ok.");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(said(&output), "test result: ok.\n".repeat(4));
}

/// It runs beside the others, and is waited for.
#[test]
fn a_failure_of_the_simulation_is_a_failure() {
    let output =
        tested(&[], "case \"$*\" in *'-- simulation::'*) sleep 0.2; echo seed; exit 101;; esac");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said(&output), "seed\n");
}

#[test]
fn the_rule_that_broke_is_named_last_the_likeliest_first() {
    let cargo = "echo '  1 of 20 timelines: breaks rule 4, one: x'; echo '  9 of 10 timelines: \
        breaks rule 7, two: y'; exit 101";
    let output = tested(&[], cargo);
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    let (_, end) = text.split_once("Rules of truth that broke").expect("a conclusion");
    assert!(
        end.find("rule 7, two").expect("a rule") < end.find("rule 4, one").expect("a rule"),
        "{end}"
    );
    // After a failure in judge or watch nothing else runs, unless requested.
    assert_eq!(text.matches("of 20 timelines").count(), 3, "{text}");
    let text = said(&tested(&["--no-fail-fast"], cargo));
    assert!(text.matches("1 of 20 timelines: breaks").count() >= 2, "{text}");
}

#[test]
fn a_failure_that_breaks_no_rule_is_a_failure() {
    let output = tested(&[], "case \"$*\" in *bins*) exit 101;; esac");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said(&output), "");
}
