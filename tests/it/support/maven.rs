//! Small Java programs around real client libraries, in folders of `tests/`, and the libraries
//! alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Flags for a small process that starts fast and leaves no file behind when it is killed.
pub(crate) const JVM_FLAGS: [&str; 5] =
    ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-Xshare:auto", "-XX:-UsePerfData"];

/// A class of `lockwatch.NAME` in `tests/NAME`, which is built if it is out of date.
pub(crate) fn java(name: &str, class: &str) -> Command {
    build(name);
    let mut command = Command::new("java");
    command
        .args(JVM_FLAGS)
        .args(["-cp", "target/classes:target/lib/*", &format!("lockwatch.{name}.{class}")])
        .current_dir(project(name));
    command
}

/// The folder with the libraries that `tests/NAME` names; they are fetched if that has changed.
pub(crate) fn libraries(name: &str) -> PathBuf {
    build(name);
    project(name).join("target/lib")
}

fn project(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Builds the program if its sources are newer. Panics when the build fails.
fn build(name: &str) {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let stamp = project(name).join("target/built");
    if fs::metadata(&stamp)
        .and_then(|built| built.modified())
        .is_ok_and(|built| built > newest_source(name))
    {
        return;
    }
    let build = Command::new("mvn")
        .args(["-q", "-B", "package"])
        .current_dir(project(name))
        .output()
        .unwrap();
    assert!(
        build.status.success(),
        "mvn package in tests/{name}:\n{}",
        String::from_utf8_lossy(&build.stdout)
    );
    fs::write(stamp, "").unwrap();
}

fn newest_source(name: &str) -> SystemTime {
    let folder = project(name).join("src/main/java/lockwatch").join(name);
    // A project of libraries alone has no sources.
    let sources = fs::read_dir(folder).into_iter().flatten();
    let files = sources.map(|entry| entry.unwrap().path()).chain([project(name).join("pom.xml")]);
    files.map(|file| fs::metadata(file).unwrap().modified().unwrap()).max().unwrap()
}
