//! The dependency rules of ARCHITECTURE.md that the compiler does not enforce: which room may use
//! which other one, and who may name a crate, a clock or what can write.

mod circles;
mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::truth::rule;
use circles::{circles, circles_of_files};
use imports::{Sources, imports};

/// The rooms of `src/` from the ground up, each with the rooms that it may use.
const ROOMS: &[(&str, &[&str])] = &[
    ("alerts", &[]),
    ("blocking", &[]),
    ("clock", &[]),
    ("exit", &[]),
    ("keeper", &["exit"]),
    ("paths", &[]),
    ("published", &["drill", "paths"]),
    ("telemetry", &[]),
    ("text", &[]),
    ("drill", &["text"]),
    ("pem", &["text"]),
    ("config", &["paths", "text"]),
    ("record", &["text"]),
    ("trace", &["text"]),
    ("api", &["text", "trace"]),
    ("engine", &["clock", "drill", "published"]),
    ("io", &["blocking", "clock", "config", "pem", "text", "trace"]),
    ("hold", &["config", "io", "seek", "text"]),
    ("seek", &["config", "io", "text"]),
    ("want", &["config", "io", "seek", "text"]),
    ("outputs", &["alerts", "api", "config", "drill", "paths", "published", "text", "trace"]),
    ("patterns", &["clock", "config", "io", "published", "text"]),
    ("web", &["blocking", "config", "pem"]),
    ("http", &["api", "drill", "outputs", "paths", "pem", "published", "text", "trace", "web"]),
    ("chain", &["config", "http", "paths", "text"]),
    (
        "commands",
        &[
            "alerts",
            "api",
            "blocking",
            "chain",
            "clock",
            "config",
            "drill",
            "engine",
            "exit",
            "hold",
            "http",
            "io",
            "keeper",
            "outputs",
            "paths",
            "patterns",
            "published",
            "record",
            "seek",
            "telemetry",
            "text",
            "trace",
            "want",
            "web",
        ],
    ),
    ("cli", &["commands", "exit"]),
];

/// A word that only these files or folders of `src/` may have in code.
struct Arrow {
    word: &'static str,
    only_in: &'static [&'static str],
    why: &'static str,
}

const ARROWS: &[Arrow] = &[
    Arrow {
        word: "redis::",
        only_in: &["io.rs", "io/", "commands/demo.rs", "commands/demo/"],
        why: "only the connection room and the demo know the redis crate",
    },
    Arrow {
        word: "redis::aio",
        only_in: &["io.rs", "io/", "commands/demo.rs", "commands/demo/"],
        why: "only the connection room and the demo know the redis crate",
    },
    Arrow {
        word: "RedisError",
        only_in: &["io.rs", "io/", "commands/demo.rs", "commands/demo/"],
        why: "only the connection room and the demo know the redis crate",
    },
    Arrow {
        word: "crate::io",
        only_in: &[
            "io.rs",
            "io/",
            "commands/agent/",
            "commands/check_config.rs",
            "commands/check_config/",
            "commands/discover.rs",
            "commands/discover/",
            "commands/momentary.rs",
            "commands/guard/",
            "hold/",
            "patterns/",
            "seek.rs",
            "want.rs",
            "want/",
        ],
        why: "a scrape never asks Redis",
    },
    Arrow {
        word: "crate::hold",
        only_in: &["hold.rs", "hold/", "commands/guard/"],
        why: "the agent never writes to Redis",
    },
    Arrow {
        word: "crate::want",
        only_in: &[
            "want.rs",
            "want/",
            "commands/want.rs",
            "commands/acl.rs",
            "commands/agent.rs",
            "commands/agent/switching.rs",
        ],
        why: "the agent never writes to Redis",
    },
    Arrow {
        word: "crate::config",
        only_in: &[
            "config.rs",
            "config/",
            "io.rs",
            "io/",
            "hold/",
            "patterns.rs",
            "patterns/",
            "seek.rs",
            "want.rs",
            "want/",
            "web.rs",
            "web/",
            "cli.rs",
            "commands/",
            // Commands alone use it; the YAML of other programs is parsed as safely as ours.
            "chain/",
            // The defaults.
            "outputs/explanation/configured.rs",
        ],
        why: "engine and outputs know what is configured from the snapshot only",
    },
    Arrow {
        word: "SystemTime::now",
        only_in: &["clock.rs", "commands/demo.rs", "commands/demo/", "commands/guard/"],
        why: "the agent's wall clock is read in one place",
    },
    Arrow {
        word: "prometheus_client",
        only_in: &["outputs/metrics.rs", "outputs/metrics/"],
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
    // A replay runs a recording through the engine's own code, with a state of its own.
    Arrow {
        word: "lockwatch_judge::state",
        only_in: &["engine.rs", "commands/replay/"],
        why: "one task owns the state",
    },
];

/// The rules here that also guard a rule of docs/how-it-decides.md.
const GUARDING: [(&str, &str); 4] = [
    ("crate::io", "15 read only"),
    ("crate::hold", "15 read only"),
    ("crate::want", "15 read only"),
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

/// The modules of a crate, without its root and its tests.
fn modules(folder: &str) -> Sources {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files = Vec::new();
    sources(&src, &mut files);
    let module = |path: &PathBuf| {
        let path = path.strip_prefix(&src).expect("below src").with_extension("");
        let steps = path.iter().map(|step| step.to_str().expect("an identifier"));
        steps.collect::<Vec<_>>().join("::")
    };
    let text = |path: &PathBuf| fs::read_to_string(path).expect("readable source");
    let all = files.iter().map(|path| (module(path), text(path)));
    all.filter(|(module, _)| module != "main" && module != "lib" && !module.ends_with("tests"))
        .collect()
}

#[test]
fn rooms_and_files_form_no_circle() {
    let imports = imports(&modules("src"));
    assert!(imports.len() > 50, "found the imports");
    let circles = circles(&imports);
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// No file of any crate names one that names it, near or far: not even a child its parent.
#[test]
fn files_form_no_circle_with_their_parents_either() {
    for (folder, least) in [
        ("src", 50),
        ("judge/src", 50),
        ("watch/src", 50),
        ("guard/src", 4),
        ("sim/src", 50),
        ("lab/src", 50),
        ("fuzz/targets/src", 5),
    ] {
        let imports = imports(&modules(folder));
        assert!(imports.len() > least, "found the imports of {folder}");
        let circles = circles_of_files(&imports);
        assert!(circles.is_empty(), "{folder}: {}", circles.join("\n"));
    }
}

#[test]
fn a_room_uses_what_it_may() {
    let modules = modules("src");
    let room = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let rooms: BTreeSet<String> = modules.keys().map(|module| room(module)).collect();
    let known: BTreeMap<&str, &[&str]> = ROOMS.iter().copied().collect();
    assert_eq!(rooms, known.keys().map(|room| (*room).to_owned()).collect(), "the rooms");
    let mut used = BTreeSet::new();
    for import in imports(&modules) {
        let (from, to) = (room(&import.from), room(&import.to));
        if from != to {
            let may = known.get(from.as_str()).is_some_and(|may| may.contains(&to.as_str()));
            assert!(may, "{from} may not use {to}, but {}: {}", import.from, import.line);
            used.insert((from, to));
        }
    }
    let may = ROOMS.iter().flat_map(|(room, may)| may.iter().map(move |other| (room, other)));
    let may: BTreeSet<_> = may.map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
    assert_eq!(used, may, "what is not used need not be allowed");
}

/// A made-up crate.
fn made_up(files: &[(&str, &str)]) -> Sources {
    files.iter().map(|(module, text)| ((*module).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_circle_of_rooms_is_found_with_its_imports() {
    let sources = made_up(&[
        ("a", "use crate::{\n    b::{self, Two as Second},\n    d,\n};\n"),
        ("b", "pub fn two() -> crate::c::inner::Three {}\n"),
        ("c", "mod inner;\n"),
        ("c::inner", "use super::super::a::One;\npub(in crate::d) struct Three;\n"),
        ("d", ""),
    ]);
    assert_eq!(
        circles(&imports(&sources)),
        ["a circle among the rooms: a -> b -> c -> a\n    \
          a: use crate::{b::{self, Two as Second},d,};\n    \
          b: pub fn two() -> crate::c::inner::Three {}\n    \
          c::inner: use super::super::a::One;"]
    );
}

#[test]
fn a_circle_of_files_is_found_even_through_their_parent() {
    let sources = made_up(&[
        ("room", "mod a;\nmod b;\nmod c;\nuse b::Two;\nuse a::One;\n"),
        ("room::a", "use super::Two;\nuse super::c::Three;\n"),
        ("room::b", "use super::One;\n"),
        ("room::c", "use super::Room;\n"),
    ]);
    let found = circles(&imports(&sources)).join("\n");
    assert!(found.starts_with("a circle among room: room::a -> room::b -> room::a\n"), "{found}");
    assert_eq!(found.matches("circle").count(), 1, "{found}");
}

#[test]
fn a_circle_of_a_parent_with_its_child_is_found() {
    let sources = made_up(&[
        ("room", "mod b;\nfn one() {\n    b::two()\n}\n"),
        ("room::b", "use super::One;\n"),
    ]);
    let imports = imports(&sources);
    assert!(circles(&imports).is_empty());
    let found = circles_of_files(&imports).join("\n");
    let circle = "a circle among the files: room -> room::b -> room\n    room: b::two()\n    \
        room::b: use super::One;";
    assert_eq!(found, circle);
}

#[test]
fn a_circle_of_methods_of_one_type_is_found() {
    let child = "use super::state::State;\nimpl State {\n    pub fn two(&self) {\n        \
        self\n            .three();\n    }\n}\n";
    let state = "pub struct State;\nimpl State {\n    pub fn four(&self) {}\n}\n";
    let parent = |three: &str| {
        let state =
            "mod child;\nmod state;\nuse state::State;\nimpl State {\n    fn one(&self) {\n";
        format!("{state}        self.two();\n        self.four();\n    }}\n{three}}}\n")
    };
    let circles = |three: &str, in_state: &str| {
        let state = format!("{state}impl State {{\n{in_state}}}\n");
        let files = [("room", &*parent(three)), ("room::child", child), ("room::state", &state)];
        circles_of_files(&imports(&made_up(&files))).join("\n")
    };
    let three = "    fn three(&self) {}\n";
    assert_eq!(circles("", three), "");
    let circle = "a circle among the files: room -> room::child -> room\n    \
        room: self.two();\n    room::child: .three();";
    assert_eq!(circles(three, ""), circle);
}

#[test]
fn tests_and_comments_and_other_crates_import_nothing() {
    let sources = made_up(&[
        (
            "a",
            "//! See [crate::b].\nuse b::Other;\n#[cfg(test)]\nmod tests {\n    use \
             crate::b::Two;\n}\n#[cfg(test)]\nmod fixture;\n",
        ),
        ("a::fixture", "use crate::b::Two;\n"),
        ("b", "use crate::a::One;\n"),
    ]);
    let found = imports(&sources);
    let found: Vec<_> = found.iter().map(|it| (it.from.as_str(), it.to.as_str())).collect();
    assert_eq!(found, [("b", "a")]);
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
        // The names of another crate's modules are not ours.
        let code = code(path).replace("lockwatch_watch::redis", "");
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

/// The agent's instants must be monotonic, and a wall clock may step.
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
    // An edit of what depends on judge must not rebuild it.
    assert_eq!(section(&manifest, "dev-dependencies"), [""; 0], "its tests are in sim");
    let lean = ["serde = ", "default-features = false", "optional = true"];
    assert!(lean.iter().all(|part| serde.contains(part)), "{serde}");
    assert!(!serde.contains("\"std\""), "{serde}");
    let watch = fs::read_to_string(root.join("watch/Cargo.toml")).expect("watch's manifest");
    let named: Vec<&str> = section(&watch, "dependencies");
    let [ipnet, judge, regex, json] = named.as_slice() else {
        panic!("watch names dependencies: {named:?}")
    };
    assert!(ipnet.starts_with("ipnet = ") && ipnet.contains("default-features = false"), "{ipnet}");
    assert_eq!(*judge, "lockwatch-judge = { path = \"../judge\" }");
    assert!(regex.starts_with("regex-lite = "), "{regex}");
    assert!(
        json.starts_with("serde_json = ") && json.contains("default-features = false"),
        "{json}"
    );
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
        [
            "lockwatch-guard = { path = \"../guard\" }",
            "lockwatch-judge = { path = \"../judge\" }",
            "lockwatch-watch = { path = \"../watch\" }",
        ],
        "the simulator depends on what decides alone"
    );
    assert!(own.contains("publish = false"), "the simulator must not be published");
    // Others may name it in their dev-dependencies only.
    for name in ["judge/Cargo.toml", "watch/Cargo.toml", "Cargo.toml"] {
        let manifest = manifest(name);
        let named = section(&manifest, "dependencies");
        assert!(!named.iter().any(|line| line.contains("lockwatch-sim")), "{name}");
    }
    // The oracle may use judge's instants and output types and the names of its verdicts, but
    // none of its decisions.
    let mut files = Vec::new();
    sources(&root.join("sim/src/oracle"), &mut files);
    files.push(root.join("sim/src/oracle.rs"));
    for path in files {
        let code = code(&path)
            .replace("use lockwatch_judge::verdict::{Verdict, Wanted};", "")
            .replace("use lockwatch_judge::verdict::Verdict;", "");
        for word in [
            "lockwatch_judge::state",
            "lockwatch_judge::verdict",
            "lockwatch_watch::redis::read::",
            "lockwatch_watch::redis::accept",
            "lockwatch_watch::redis::schedule",
        ] {
            assert!(
                !code.contains(word),
                "{} names `{word}`: the oracle calls nothing that decides",
                path.display()
            );
        }
    }
}
