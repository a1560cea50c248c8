//! Finds circles among modules: of those with one parent, and of single files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::imports::Import;

/// For each module the others that it names, each with the imports.
type Parts<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a Import>>>;

/// All circles, each as the lines that close it: of the rooms, and inside each module that has
/// children. A parent and its own children may name each other.
pub(super) fn circles(imports: &[Import]) -> Vec<String> {
    let mut levels: BTreeMap<&str, Parts<'_>> = BTreeMap::new();
    for import in imports {
        let Some((level, from, to)) = split(&import.from, &import.to) else { continue };
        let parts = levels.entry(level).or_default().entry(from).or_default();
        parts.entry(to).or_default().push(import);
    }
    levels.iter().flat_map(|(level, parts)| circles_of(level, parts)).collect()
}

/// All circles among single files, a parent with its own children included.
pub(super) fn circles_of_files(imports: &[Import]) -> Vec<String> {
    let mut files = Parts::new();
    for import in imports {
        let named = files.entry(&import.from).or_default();
        named.entry(&import.to).or_default().push(import);
    }
    circles_of("the files", &files)
}

/// The closest module that both are in, and its child that each belongs to; `None` if one is the
/// other's parent, near or far.
pub(super) fn split<'a>(from: &'a str, to: &'a str) -> Option<(&'a str, &'a str, &'a str)> {
    let mut level = 0;
    loop {
        let step = |module: &'a str| match module[level..].find("::") {
            Some(end) => &module[..level + end],
            None => module,
        };
        let (one, other) = (step(from), step(to));
        if one != other {
            return Some((from[..level].trim_end_matches("::"), one, other));
        }
        if one == from || other == to {
            return None;
        }
        level = one.len() + 2;
    }
}

fn circles_of(level: &str, parts: &Parts<'_>) -> Vec<String> {
    let mut reported: BTreeSet<&str> = BTreeSet::new();
    let mut circles = Vec::new();
    for start in parts.keys() {
        if reported.contains(start) {
            continue;
        }
        let Some(circle) = shortest(start, parts) else { continue };
        reported.extend(&circle);
        let place = if level.is_empty() { "the rooms" } else { level };
        let mut lines = vec![format!("a circle among {place}: {} -> {start}", circle.join(" -> "))];
        for (position, from) in circle.iter().enumerate() {
            let to = circle.get(position + 1).unwrap_or(start);
            let imports = parts.get(from).and_then(|named| named.get(to));
            for Import { from, line, .. } in imports.into_iter().flatten() {
                lines.push(format!("    {from}: {line}"));
            }
        }
        circles.push(lines.join("\n"));
    }
    circles
}

/// The shortest way from a module back to itself.
fn shortest<'a>(start: &'a str, parts: &Parts<'a>) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::new();
    let mut ways = VecDeque::from([vec![start]]);
    while let Some(way) = ways.pop_front() {
        for next in parts.get(way.last()?).into_iter().flat_map(BTreeMap::keys) {
            if *next == start {
                return Some(way);
            }
            if seen.insert(*next) {
                ways.push_back([way.as_slice(), &[next]].concat());
            }
        }
    }
    None
}
