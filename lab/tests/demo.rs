//! The stories of the demo go as they are told.

use std::process::{Command, Stdio};

use lockwatch_lab::stack::Program;

/// What a story printed; it must end well.
fn told(story: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockwatch-lab"));
    command.arg("demo").args(story).args(["--pace", "50"]).stdin(Stdio::null());
    let output = command.output().expect("the lab starts");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !told.contains("is absent"), "{told}{errors}");
    assert!(told.trim_end().ends_with("Everything that was started has been stopped."), "{told}");
    told
}

fn can_play() -> bool {
    let missing = Program::RedisServer.find().err();
    missing.iter().for_each(|why| eprintln!("skipped: {why}"));
    missing.is_none()
}

#[test]
fn the_story_of_a_lock() {
    if !can_play() {
        return;
    }
    let told = told(&["--story"]);
    let chapters: Vec<&str> =
        told.lines().filter_map(|line| line.split("== ").nth(1)?.strip_suffix(" ==")).collect();
    let expected =
        ["Start", "Renewals", "Crash and take-over", "Dead thread", "Switch-off", "On again"];
    assert_eq!(chapters, expected, "{told}");
}

#[test]
fn the_stories_of_other_kinds() {
    for (kind, last) in [("turns", "docs/turns.md"), ("queue", "docs/queues.md")] {
        if can_play() {
            let told = told(&["--story", kind]);
            assert!(told.contains(last), "{told}");
        }
    }
}
