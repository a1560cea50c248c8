//! ARCHITECTURE.md and CONTRIBUTING.md name what there is: each path in them exists, and each room
//! has its row.

use std::fs;
use std::path::Path;

/// The headings of the tables in ARCHITECTURE.md, and the folder below which each names modules.
const TABLES: [(&str, &str); 10] = [
    ("### `judge/`", "judge/src"),
    ("### `watch/`", "watch/src/redis"),
    ("### `watch/src/zookeeper`", "watch/src/zookeeper"),
    ("### `guard/`", "guard/src"),
    ("### `sim/`", "sim/src"),
    ("### `src/`", "src"),
    ("### `alerts/`", "alerts"),
    ("### `lab/`", "lab/src"),
    ("### `fuzz/`", "fuzz/targets/src"),
    ("### `tests/`", "tests"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a line names in backticks.
fn named(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_path(word: &str) -> bool {
    const ENDS: [&str; 6] = [".rs", ".md", ".yml", ".yaml", ".json", ".py"];
    let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-*".contains(c);
    let begins = word.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.');
    begins
        && word.chars().all(is_part)
        && (word.contains('/') || ENDS.iter().any(|end| word.ends_with(end)))
}

/// Whether `word` names a file, a folder, a module or the files of one, below `folder`.
fn exists(folder: &str, word: &str) -> bool {
    let path = |word: &str| root().join(folder).join(word);
    match word.strip_suffix("/*") {
        Some(parent) => path(parent).is_dir(),
        None => path(word).exists() || path(&format!("{word}.rs")).exists(),
    }
}

/// The lines of a document, each with the folder of the table that it stands in.
fn lines(text: &str) -> impl Iterator<Item = (&'static str, &str)> {
    text.lines().scan("", |folder, line| {
        if line.starts_with('#') {
            let table = TABLES.iter().find(|(heading, _)| line.starts_with(heading));
            *folder = table.map_or("", |(_, folder)| *folder);
        }
        Some((*folder, line))
    })
}

/// The names in the first cell of a row.
fn row(line: &str) -> Vec<&str> {
    let first = line.strip_prefix("| ").and_then(|line| line.split(" | ").next());
    named(first.unwrap_or_default()).collect()
}

#[test]
fn every_path_that_the_documents_name_exists() {
    let mut missing = Vec::new();
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(document)).expect("a document");
        for (folder, line) in lines(&text) {
            let rows = if folder.is_empty() { Vec::new() } else { row(line) };
            let paths = named(line).filter(|word| is_path(word) && !rows.contains(word));
            let lost = paths.filter(|word| !exists("", word) && !exists(folder, word));
            let gone = rows.iter().copied().filter(|word| !exists(folder, word));
            missing.extend(lost.chain(gone).map(|word| format!("{document}: {word}")));
        }
    }
    assert!(missing.is_empty(), "there is no\n{}", missing.join("\n"));
}

#[test]
fn every_room_has_its_row() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    for (_, folder) in TABLES {
        let rows: Vec<&str> =
            lines(&text).filter(|(of, _)| *of == folder).flat_map(|(_, line)| row(line)).collect();
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let room = match name.strip_suffix(".rs") {
                Some(module) => module.to_owned(),
                None if path.is_dir() && path.with_extension("rs").exists() => continue,
                None if path.is_dir() => format!("{name}/"),
                None => name,
            };
            let has_row = rows.contains(&room.as_str()) || ["lib", "README.md"].contains(&&*room);
            assert!(has_row, "ARCHITECTURE.md has no row for {room} in {folder}");
        }
    }
}
