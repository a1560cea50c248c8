//! The rooms of this crate form no circle, and neither do the files in them, but for a parent with
//! its own children. Computed from the imports outside unit tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What imports what, by module path.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The modules below `folder`, each with its source without comments and unit tests.
fn sources(folder: &Path, parent: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("a folder of judge") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a plain name");
        let module = if parent.is_empty() { name.into() } else { format!("{parent}::{name}") };
        if path.is_dir() {
            sources(&path, &module, found);
        } else if module != "lib" {
            let text = fs::read_to_string(&path).expect("a source file");
            let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
            let code = code.lines().map(|line| line.split("//").next().unwrap_or_default());
            found.insert(module, code.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// The single paths of a `use` tree.
fn paths(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else { return vec![tree.trim().into()] };
    let body = rest.rsplit_once('}').map_or(rest, |(body, _)| body);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for character in body.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("a part").push(character);
    }
    let whole = |part: &String| paths(&format!("{}{}", prefix.trim(), part.trim()));
    parts.iter().filter(|part| !part.trim().is_empty()).flat_map(whole).collect()
}

/// The trees of the `use` lines, and other paths that begin in this crate.
fn named(code: &str) -> Vec<String> {
    let uses = code.split("use ").skip(1).filter_map(|rest| rest.split(';').next());
    let inline = code.split("crate::").skip(1).map(|rest| {
        let path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        format!("crate::{}", rest.split(|c| !path(c)).next().unwrap_or_default())
    });
    uses.flat_map(paths).chain(inline).collect()
}

fn imports() -> Imports {
    let mut all = BTreeMap::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut all);
    let of = |module: &str, code: &str| {
        let own: Vec<&str> = module.split("::").collect();
        let target = |path: String| {
            let mut parts: Vec<&str> = path.split("::").collect();
            let base = match *parts.first()? {
                "crate" => &[][..],
                "super" => own.get(..own.len() - 1)?,
                "self" => &own[..],
                _ => return None,
            };
            parts.splice(..1, base.iter().copied());
            while !parts.is_empty() && !all.contains_key(&parts.join("::")) {
                parts.pop();
            }
            let found = parts.join("::");
            (!found.is_empty() && found != module).then_some(found)
        };
        named(code).into_iter().filter_map(target).collect()
    };
    all.iter().map(|(module, code)| (module.clone(), of(module, code))).collect()
}

/// A way from a node back to itself.
fn circle(graph: &Imports) -> Option<Vec<String>> {
    fn back(graph: &Imports, way: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        let here = way.last().cloned().unwrap_or_default();
        for next in graph.get(&here).into_iter().flatten() {
            let met = way.contains(next);
            if met || !done.contains(next) {
                way.push(next.clone());
                if met || back(graph, way, done) {
                    return true;
                }
                way.pop();
            }
        }
        done.insert(here);
        false
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|start| {
        let mut way = vec![start.clone()];
        (!done.contains(start) && back(graph, &mut way, &mut done)).then_some(way)
    })
}

#[test]
fn files_form_no_circle_but_a_parent_with_its_children() {
    let family = |a: &str, b: &str| b.strip_prefix(a).is_some_and(|rest| rest.starts_with("::"));
    let mut graph = imports();
    assert!(graph.len() > 20 && graph["store"].contains("store::node"), "{graph:?}");
    for (module, imported) in &mut graph {
        imported.retain(|other| !family(module, other) && !family(other, module));
    }
    assert_eq!(circle(&graph), None);
}

#[test]
fn rooms_form_no_circle() {
    let room = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let mut graph = Imports::new();
    for (module, imported) in imports() {
        let own = room(&module);
        let others = imported.iter().map(|other| room(other)).filter(|other| *other != own);
        graph.entry(own.clone()).or_default().extend(others);
    }
    assert!(graph["task"].contains("kinds") && !graph["kinds"].contains("task"), "{graph:?}");
    assert_eq!(circle(&graph), None);
}

#[test]
fn a_circle_is_found() {
    let graph = |edges: &[(&str, &str)]| {
        let mut graph = Imports::new();
        for (from, to) in edges {
            graph.entry((*from).into()).or_default().insert((*to).into());
        }
        circle(&graph)
    };
    assert_eq!(graph(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]), None);
    let found = graph(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")]);
    assert_eq!(found.as_deref().and_then(<[String]>::last).map(String::as_str), Some("b"));
    let tree = "crate::{a::{self, b}, c}";
    assert_eq!(paths(tree), ["crate::a::self", "crate::a::b", "crate::c"]);
}
