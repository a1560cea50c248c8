//! Skips a test on a machine that lacks its requirements, with a line that can be counted.

use std::io::Write;

/// Whether all of `programs` are on `PATH`. If not, reports that `test` is skipped, bypassing the
/// harness, which would capture the line.
pub(crate) fn has(test: &str, programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &&&str| {
        !std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    let missing: Vec<&str> = programs.iter().filter(is_there).copied().collect();
    if !missing.is_empty() {
        say(test, &missing.join(", "));
    }
    missing.is_empty()
}

/// Reports that `test` is skipped because `missing` is not available.
pub(crate) fn say(test: &str, missing: &str) {
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {test}: needs {missing}");
}
