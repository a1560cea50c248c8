//! The stories of the demo go as they say.

use std::process::{Command, Stdio};

/// What a story printed; it must end well.
fn printed(story: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockwatch-lab"));
    command.arg("demo").args(story).args(["--pace", "50"]).stdin(Stdio::null());
    let output = command.output().expect("the lab starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !text.contains("is absent"), "{text}{errors}");
    assert!(text.trim_end().ends_with("Everything that was started has been stopped."), "{text}");
    text
}

#[test]
fn the_story_of_a_lock() {
    let text = printed(&["--story"]);
    let chapters: Vec<&str> =
        text.lines().filter_map(|line| line.split("== ").nth(1)?.strip_suffix(" ==")).collect();
    let expected =
        ["Start", "Renewals", "Crash and take-over", "Dead thread", "Switch-off", "On again"];
    assert_eq!(chapters, expected, "{text}");
}

#[test]
fn the_stories_of_other_kinds() {
    let stories = [
        ("turns", "docs/turns.md"),
        ("queue", "docs/queues.md"),
        ("zookeeper", "docs/zookeeper.md"),
    ];
    for (kind, last) in stories {
        let text = printed(&["--story", kind]);
        assert!(text.contains(last), "{text}");
    }
}
