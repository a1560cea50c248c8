//! The dependency rules of ARCHITECTURE.md that the compiler does not enforce: which module may
//! name which crate, and which other module.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::truth::rule;

/// A word that only these files or folders of `src/` may have in code.
struct Arrow {
    word: &'static str,
    only_in: &'static [&'static str],
    why: &'static str,
}

const ARROWS: &[Arrow] = &[
    Arrow {
        word: "redis::",
        only_in: &["io.rs", "io/", "lease.rs", "lease/", "demo.rs", "demo/"],
        why: "only the connection room and what writes to Redis know the redis crate",
    },
    Arrow {
        word: "redis::aio",
        only_in: &["io.rs", "io/", "lease.rs", "lease/", "demo.rs", "demo/"],
        why: "only the connection room and what writes to Redis know the redis crate",
    },
    Arrow {
        word: "RedisError",
        only_in: &["io.rs", "io/", "lease.rs", "lease/", "demo.rs", "demo/"],
        why: "only the connection room and what writes to Redis know the redis crate",
    },
    Arrow {
        word: "crate::io",
        only_in: &[
            "io.rs",
            "io/",
            "agent.rs",
            "agent/",
            "discover.rs",
            "discover/",
            "explain/once.rs",
        ],
        why: "only the watchers and discover ask Redis; a scrape never does",
    },
    Arrow {
        word: "crate::config",
        only_in: &[
            "config.rs",
            "config/",
            "cli.rs",
            "cli/",
            "io.rs",
            "io/",
            "agent.rs",
            "main.rs",
            // Replacement thresholds are parsed and checked like the configuration.
            "replay/",
            "discover.rs",
            "discover/",
            // Reads without an agent; the arithmetic of `check-config`; the format of durations and
            // the defaults.
            "explain/once.rs",
            "explain/alerts.rs",
            "explain/configured.rs",
            "explain/seen.rs",
        ],
        why: "engine and outputs know what is configured from the snapshot only",
    },
    Arrow {
        word: "SystemTime::now",
        only_in: &["clock.rs", "demo.rs", "demo/"],
        why: "the agent's wall clock is read in one place",
    },
    Arrow {
        word: "prometheus_client",
        only_in: &["output/metrics.rs", "output/metrics/"],
        why: "only one room knows prometheus-client",
    },
    Arrow {
        word: "hyper::",
        only_in: &["http.rs", "http/"],
        why: "only the http room knows hyper",
    },
    Arrow {
        word: "hyper_util::",
        only_in: &["http.rs", "http/"],
        why: "only the http room knows hyper",
    },
    Arrow {
        word: "crate::agent",
        only_in: &["main.rs", "agent.rs", "agent/"],
        why: "nothing depends on the wiring",
    },
    Arrow {
        word: "crate::lease",
        only_in: &["lease.rs", "lease/", "demo.rs", "demo/"],
        why: "the agent never writes to Redis",
    },
    Arrow {
        word: "crate::engine",
        only_in: &["agent.rs", "agent/", "engine.rs", "discover/watch.rs", "explain/once.rs"],
        why: "outputs read the snapshot only",
    },
    // A replay runs a recording through the engine's own code, with a state of its own.
    Arrow {
        word: "lockwatch_judge::state",
        only_in: &["engine.rs", "replay/"],
        why: "one task owns the state",
    },
    Arrow {
        word: "crate::record",
        only_in: &["cli.rs", "cli/", "agent.rs", "replay.rs"],
        why: "only replay reads recordings",
    },
    Arrow {
        word: "crate::trace",
        only_in: &[
            "agent.rs",
            "io.rs",
            "io/",
            "explain.rs",
            "explain/",
            "http.rs",
            "http/explain.rs",
            // Its trace has no readers.
            "discover/watch.rs",
        ],
        why: "what is said to Redis is shown to those who ask why, and to nobody else",
    },
    Arrow {
        word: "crate::explain",
        only_in: &["main.rs", "http/explain.rs"],
        why: "nothing is decided by what explains it",
    },
];

/// The rules here that also guard a rule of docs/rules.md.
const GUARDING: [(&str, &str); 3] = [
    ("crate::io", "15 read only"),
    ("crate::lease", "15 read only"),
    ("SystemTime::now", "2 instants"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// A file without its comment lines, which may name anything.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("readable source");
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn no_room_names_what_it_must_not() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    assert!(files.len() > 10, "found the sources");
    let mut broken = Vec::new();
    let mut rules = Vec::new();
    for path in &files {
        let name = path.strip_prefix(&src).expect("below src").to_string_lossy().into_owned();
        // Our own module has the crate's name.
        let code = code(path).replace("lockwatch_watch::redis::", "lockwatch_watch::");
        for arrow in ARROWS {
            let allowed = arrow
                .only_in
                .iter()
                .any(|room| name == *room || name.starts_with(room) && room.ends_with('/'));
            if !allowed && code.contains(arrow.word) {
                broken.push(format!("src/{name} names `{}`: {}", arrow.word, arrow.why));
                rules.extend(
                    GUARDING
                        .iter()
                        .filter(|(word, _)| *word == arrow.word)
                        .map(|(_, call)| rule(call)),
                );
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The model's instants must be monotonic, and a wall clock may step.
#[test]
fn the_wall_clock_is_for_people_only() {
    let _rule = rule("2 instants");
    let clock = code(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/clock.rs"));
    let readers: Vec<&str> = clock
        .split("\n    pub fn ")
        .filter(|function| function.contains("SystemTime::now"))
        .collect();
    let names: Vec<_> =
        readers.iter().map(|function| function.split('(').next().unwrap_or_default()).collect();
    assert_eq!(names, ["wall"], "what reads the wall clock");
}

#[test]
fn nothing_depends_on_the_lab() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for manifest in ["Cargo.toml", "judge/Cargo.toml", "watch/Cargo.toml"] {
        let text = fs::read_to_string(root.join(manifest)).expect("a manifest");
        assert!(!text.contains("lockwatch-lab"), "{manifest} names the lab");
    }
    let lab = fs::read_to_string(root.join("lab/Cargo.toml")).expect("the lab's manifest");
    assert!(lab.contains("publish = false"), "the lab must not be published");
}

/// The dependencies in a section of a manifest, a line each.
fn section<'a>(manifest: &'a str, name: &str) -> Vec<&'a str> {
    let after = manifest.split(&format!("\n[{name}]")).nth(1).unwrap_or_default();
    after
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter(|line| line.contains('='))
        .collect()
}

/// Except for the optional serde traits on its inputs, which give no access to a clock or a socket.
#[test]
fn what_decides_depends_on_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("judge/Cargo.toml")).expect("judge's manifest");
    let named = section(&manifest, "dependencies");
    let [serde] = named.as_slice() else { panic!("judge names dependencies: {named:?}") };
    let lean = ["serde = ", "default-features = false", "optional = true"];
    assert!(lean.iter().all(|part| serde.contains(part)), "{serde}");
    assert!(!serde.contains("\"std\""), "{serde}");
    let watch = fs::read_to_string(root.join("watch/Cargo.toml")).expect("watch's manifest");
    let named: Vec<&str> = section(&watch, "dependencies");
    let [ipnet, judge] = named.as_slice() else { panic!("watch names dependencies: {named:?}") };
    assert!(ipnet.starts_with("ipnet = ") && ipnet.contains("default-features = false"), "{ipnet}");
    assert_eq!(*judge, "lockwatch-judge = { path = \"../judge\" }");
    let mut files = Vec::new();
    for room in ["judge/src", "watch/src"] {
        let library = fs::read_to_string(root.join(room).join("lib.rs")).expect("a crate's root");
        assert!(
            library.contains("#![no_std]"),
            "{room} must not be able to name a clock or a socket"
        );
        sources(&root.join(room), &mut files);
    }
    for path in files {
        let code = code(&path).replace("#[cfg(test)]\nextern crate std;", "");
        assert!(
            !code.contains("extern crate std"),
            "{} brings the standard library back",
            path.display()
        );
    }
}

#[test]
fn the_simulator_depends_on_what_decides_alone_and_nothing_but_trials_on_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = |name: &str| fs::read_to_string(root.join(name)).expect("a manifest");
    let own = manifest("sim/Cargo.toml");
    assert_eq!(
        section(&own, "dependencies"),
        ["lockwatch-judge = { path = \"../judge\" }", "lockwatch-watch = { path = \"../watch\" }"],
        "the simulator depends on what decides alone"
    );
    assert!(own.contains("publish = false"), "the simulator must not be published");
    // Others may name it in their dev-dependencies only.
    for name in ["judge/Cargo.toml", "watch/Cargo.toml", "Cargo.toml"] {
        let manifest = manifest(name);
        let named = section(&manifest, "dependencies");
        assert!(!named.iter().any(|line| line.contains("lockwatch-sim")), "{name}");
    }
    // The oracle may use the model's instants and output types and the names of its verdicts, but
    // none of its decisions.
    let mut files = Vec::new();
    sources(&root.join("sim/src/oracle"), &mut files);
    files.push(root.join("sim/src/oracle.rs"));
    for path in files {
        let code = code(&path).replace("use lockwatch_judge::verdict::{Verdict, Wanted};", "");
        for word in [
            "lockwatch_judge::state",
            "lockwatch_judge::verdict",
            "lockwatch_watch::redis::read::",
            "lockwatch_watch::redis::accept",
            "lockwatch_watch::redis::schedule",
        ] {
            assert!(
                !code.contains(word),
                "{} names `{word}`: the oracle calls nothing of the model",
                path.display()
            );
        }
    }
}
