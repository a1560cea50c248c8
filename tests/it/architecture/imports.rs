//! The imports of a crate, read from its sources: which module names which other one. A module also
//! uses another one when a method calls one of the same type that stands there. Sources are
//! formatted by rustfmt, which this relies on.

use std::collections::{BTreeMap, BTreeSet};

/// The text of each module, by its path: `outputs::page`.
pub(super) type Sources = BTreeMap<String, String>;

/// One module names another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) from: String,
    pub(super) to: String,
    /// How it does.
    pub(super) line: String,
}

/// What a module names: paths as they are written, and under which name it has each.
#[derive(Default)]
struct Names {
    /// Of `use`: the path, and the whole line.
    imported: Vec<(String, String)>,
    /// The path of each imported name.
    known_as: BTreeMap<String, String>,
    /// Elsewhere: the path, and its line.
    inline: Vec<(String, String)>,
    methods: Vec<Methods>,
}

/// A block of methods of a type.
#[derive(Default)]
struct Methods {
    of: String,
    defined: Vec<String>,
    /// The methods of `self` that they call, each with its line.
    called: Vec<(String, String)>,
}

/// All imports between modules of `sources`, except those of tests.
pub(super) fn imports(sources: &Sources) -> Vec<Import> {
    let mut names = BTreeMap::new();
    let mut of_tests = BTreeSet::new();
    for (module, text) in sources {
        let (code, tests) = without_tests(text);
        of_tests.extend(tests.into_iter().map(|test| joined(module, &test)));
        names.insert(module.as_str(), Names::of(&code));
    }
    names.retain(|module, _| !ancestors(module).any(|at| of_tests.contains(at)));
    let mut imports: Vec<Import> = Vec::new();
    for (from, own) in &names {
        for (path, line) in own.imported.iter().chain(&own.inline) {
            let Some(to) = module_of(from, path, &names, FOLLOWED_MAX) else { continue };
            let import = Import { from: (*from).to_owned(), to, line: line.clone() };
            if import.to != import.from && !imports.contains(&import) {
                imports.push(import);
            }
        }
    }
    for import in calls(&names) {
        if !imports.contains(&import) {
            imports.push(import);
        }
    }
    imports
}

/// The calls between methods of one type that stand in several modules.
fn calls(names: &BTreeMap<&str, Names>) -> Vec<Import> {
    let blocks = names.iter().flat_map(|(module, own)| {
        own.methods.iter().map(move |block| {
            let path = own.known_as.get(&block.of);
            let home = path.and_then(|path| module_of(module, path, names, FOLLOWED_MAX));
            ((home.unwrap_or_else(|| (*module).to_owned()), &block.of), *module, block)
        })
    });
    let blocks: Vec<_> = blocks.collect();
    let mut defined = BTreeMap::new();
    for (of, module, block) in &blocks {
        defined.extend(block.defined.iter().map(|method| ((of, method), *module)));
    }
    let mut calls = Vec::new();
    for (of, from, block) in &blocks {
        for (method, line) in &block.called {
            let to = defined.get(&(of, method)).filter(|to| *to != from);
            calls.extend(to.map(|to| Import {
                from: (*from).to_owned(),
                to: (*to).to_owned(),
                line: line.clone(),
            }));
        }
    }
    calls
}

/// How many names that are passed on are followed to the module that has them.
const FOLLOWED_MAX: usize = 8;

/// The module that has what `path` names in `from`. A name that a module has only imported is
/// followed.
fn module_of(
    from: &str,
    path: &str,
    names: &BTreeMap<&str, Names>,
    follow_max: usize,
) -> Option<String> {
    let mut steps: Vec<&str> = path.split("::").filter(|step| !step.is_empty()).collect();
    let mut at: Vec<&str> = from.split("::").filter(|step| !step.is_empty()).collect();
    match *steps.first()? {
        "crate" => {
            at.clear();
            steps.remove(0);
        }
        "self" => {
            steps.remove(0);
        }
        "super" => {
            while steps.first() == Some(&"super") {
                at.pop();
                steps.remove(0);
            }
        }
        // A child; anything else is another crate's.
        child if names.contains_key(joined(from, child).as_str()) => {}
        _ => return None,
    }
    while let Some(step) = steps.first()
        && names.contains_key([at.as_slice(), &[step]].concat().join("::").as_str())
    {
        at.push(step);
        steps.remove(0);
    }
    let module = at.join("::");
    let known = || names.get(module.as_str())?.known_as.get(*steps.first()?);
    if let Some(elsewhere) = known()
        && let Some(left) = follow_max.checked_sub(1)
    {
        let rest = [&[elsewhere.as_str()], steps.get(1..)?].concat().join("::");
        return module_of(&module, &rest, names, left).or(Some(module));
    }
    Some(module).filter(|module| !module.is_empty())
}

impl Names {
    fn of(code: &str) -> Names {
        let mut names = Names { methods: methods(code), ..Names::default() };
        let mut lines = code.lines();
        while let Some(line) = lines.next() {
            let is_use = |line: &str| {
                let line = line.trim_start();
                line.starts_with("use ") || line.starts_with("pub") && line.contains(" use ")
            };
            if !is_use(line) {
                let line = line.trim();
                names.inline.extend(paths(line).map(|path| (path, line.to_owned())));
                continue;
            }
            let mut statement = line.trim().to_owned();
            while !statement.ends_with(';') {
                statement.push_str(lines.next().expect("the end of an import").trim());
            }
            let tree = statement.split_once("use ").map_or("", |(_, tree)| tree);
            for (path, name) in leaves(tree.trim_end_matches(';')) {
                names.known_as.insert(name, path.clone());
                names.imported.push((path, statement.clone()));
            }
        }
        names
    }
}

/// The blocks of methods in a module's code. Those of a trait are called by its name.
fn methods(code: &str) -> Vec<Methods> {
    let identifier = |text: &str| {
        let end = text.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(text.len());
        text[..end].to_owned()
    };
    let (mut blocks, mut inside) = (Vec::<Methods>::new(), false);
    let mut before = "";
    for line in code.lines() {
        let of = line.strip_prefix("impl").filter(|_| !line.contains(" for "));
        if let Some(of) = of {
            let of =
                if of.starts_with('<') { of.split_once("> ").map_or("", |it| it.1) } else { of };
            blocks.push(Methods { of: identifier(of.trim_start()), ..Methods::default() });
        }
        inside = of.is_some() || inside && line != "}";
        if let Some(block) = blocks.last_mut().filter(|_| inside) {
            let head = line.strip_prefix("    ").filter(|line| !line.starts_with(' '));
            let function = head.and_then(|line| line.split_once("fn "));
            block.defined.extend(function.map(|(_, name)| identifier(name)));
            let line = line.trim();
            let chained = line.strip_prefix('.').filter(|_| before.ends_with("self"));
            let calls = line.split("self.").skip(1).chain(line.split("Self::").skip(1));
            for call in calls.chain(chained) {
                let name = identifier(call);
                if call[name.len()..].starts_with('(') {
                    block.called.push((name, line.to_owned()));
                }
            }
        }
        before = line.trim();
    }
    blocks
}

/// The paths of a tree of imports, each with the name that it gets.
fn leaves(tree: &str) -> Vec<(String, String)> {
    let tree = tree.trim();
    let Some((before, inside)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(a, b)| (a, Some(b)));
        let path = path.trim_end_matches("::self");
        let name = alias.or(path.rsplit("::").next()).unwrap_or_default();
        return vec![(path.to_owned(), name.to_owned())];
    };
    let inside = inside.rsplit_once('}').map_or(inside, |(inside, _)| inside);
    let mut depth = 0_usize;
    let parts = inside.split(move |character| {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    });
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(|part| leaves(&format!("{before}{part}"))).collect()
}

/// The paths in a line. A visibility is none.
fn paths(line: &str) -> impl Iterator<Item = String> {
    let line = line.replace("pub(in crate::", "pub(").replace("pub(in super", "pub(");
    let is_of_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
    let words: Vec<String> =
        line.split(|character| !is_of_path(character)).map(str::to_owned).collect();
    words.into_iter().filter(|word| word.contains("::"))
}

/// The code without comments and without what is compiled for tests only, and the modules in files
/// of their own that are. An item ends where its indentation says so.
fn without_tests(text: &str) -> (String, Vec<String>) {
    let (mut code, mut tests) = (String::new(), Vec::new());
    let mut lines = text.lines().filter(|line| {
        let line = line.trim_start();
        !line.starts_with("//") && !line.starts_with("#[cfg_attr(test, ")
    });
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            code.push_str(line);
            code.push('\n');
            continue;
        }
        let indentation = &line[..line.len() - line.trim_start().len()];
        let item = lines.by_ref().find(|line| !line.trim_start().starts_with("#["));
        let item = item.expect("an item after its attribute");
        let module = item.trim().strip_suffix(';').and_then(|item| item.rsplit_once("mod "));
        tests.extend(module.map(|(_, name)| name.to_owned()));
        if !item.ends_with([';', '}', ',']) {
            let ends = ["}", "};", "},", ");"].map(|end| format!("{indentation}{end}"));
            lines.by_ref().find(|line| ends.iter().any(|end| end == line)).expect("its end");
        }
    }
    (code, tests)
}

/// `outputs`, `outputs::page` and `outputs::page::row` for the last one.
fn ancestors(module: &str) -> impl Iterator<Item = &str> {
    let inner = module.match_indices("::").map(|(at, _)| &module[..at]);
    inner.chain([module])
}

fn joined(module: &str, child: &str) -> String {
    if module.is_empty() { child.to_owned() } else { format!("{module}::{child}") }
}
